package spans

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"sort"
	"strconv"
	"strings"
)

// A Source gives the bytes of a text from a place on: some of them, and at least one before the end. They must not be changed, and
// stay as they are at least until the next call.
type Source interface {
	From(at int64) ([]byte, error)
}

// Bytes is a Source in memory.
type Bytes []byte

// From returns all bytes from a place on.
func (b Bytes) From(at int64) ([]byte, error) {
	if at >= int64(len(b)) {
		return nil, io.EOF
	}
	return b[at:], nil
}

// A Text is a JSON text with its map. It is as safe for concurrent use as its source.
type Text struct {
	src Source
	m   *Map
}

// New returns the text of src, of which m is the map.
func New(src Source, m *Map) *Text { return &Text{src, m} }

// Of returns the text that raw is.
func Of(raw []byte) *Text {
	var s Scanner
	s.Write(raw)
	return &Text{Bytes(raw), s.Map()}
}

// A Kind is the first byte of a value, '0' for every number.
type Kind byte

// The kinds that have something in them. Others are '0', 't', 'f' and 'n'.
const (
	Object Kind = '{'
	Array  Kind = '['
	String Kind = '"'
)

// A Value is the place of a value in a text.
type Value struct {
	Kind       Kind
	Start, End int64 // of its bytes: the first, and the one behind the last
}

// Len returns the number of bytes.
func (v Value) Len() int64 { return v.End - v.Start }

// A Child is an item of an array or a member of an object.
type Child struct {
	N     int64 // counts from 0
	Key   Value // the key of a member; zero for an item
	Value Value
}

// ErrNotFound says that a text has no value at a path.
var ErrNotFound = errors.New("there is no value at this path")

// errShort says that a text ends too soon: it is not what its map was made of.
var errShort = errors.New("the text ends too soon")

// Root returns the value that the text is.
func (t *Text) Root() (Value, error) {
	c := t.cursor(0)
	c.space()
	return c.value()
}

// Read returns the bytes of a place, in memory of its own.
func (t *Text) Read(start, end int64) ([]byte, error) {
	out := make([]byte, 0, max(end-start, 0))
	for start < end {
		b, err := t.src.From(start)
		if err != nil {
			return nil, fmt.Errorf("read a text: %w", err)
		}
		b = b[:min(int64(len(b)), end-start)]
		out = append(out, b...)
		start += int64(len(b))
	}
	return out, nil
}

// Count returns the number of items, members or characters of a value; 0 for others.
func (t *Text) Count(v Value) (int64, error) {
	if n := t.m.nodes[v.Start]; n != nil {
		return n.count, nil
	}
	var count int64
	if v.Kind == String {
		at := v.Start + 1
		for c := t.cursor(at); c.err == nil && c.at < v.End-1; {
			count += c.chars(v.Len(), v.End-1)
		}
		return count, nil
	}
	for _, err := range t.Children(v, 0) {
		if err != nil {
			return 0, err
		}
		count++
	}
	return count, nil
}

// Children yields the items or members of a value from the n-th on, and stops after an error.
func (t *Text) Children(v Value, from int64) iter.Seq2[Child, error] {
	return func(yield func(Child, error) bool) {
		err := t.each(v, from, func(n int64, key Value, c *cursor) (bool, error) {
			value, err := c.value()
			return err == nil && n >= from && !yield(Child{n, key, value}, nil), err
		})
		if err != nil {
			yield(Child{}, err)
		}
	}
}

// each calls f with the items or members of a value, from one at or before the n-th on, and a cursor at the value of each, until f says stop. What f does not pass is passed then.
func (t *Text) each(v Value, from int64, f func(n int64, key Value, c *cursor) (stop bool, err error)) error {
	if v.Kind != Array && v.Kind != Object {
		return nil
	}
	near := t.mark(v, from)
	c := t.cursor(near.at)
	if near.at == v.Start {
		c.next()
	}
	for n := near.n; ; n++ {
		c.space()
		if b := c.peek(); b == ']' || b == '}' {
			return nil
		}
		var key Value
		if v.Kind == Object {
			key, _ = c.value()
			c.space()
			c.next() // the colon
			c.space()
		}
		at := c.at
		stop, err := f(n, key, c)
		if stop || err != nil {
			return err
		}
		if c.at == at {
			if _, err := c.value(); err != nil {
				return err
			}
		}
		c.space()
		if c.peek() == ',' {
			c.next()
		}
	}
}

// mark returns the last mark of a value that is not behind its n-th part, and that of its first byte where there is none.
func (t *Text) mark(v Value, n int64) mark {
	if node := t.m.nodes[v.Start]; node != nil {
		i := sort.Search(len(node.marks), func(i int) bool { return node.marks[i].n > n })
		if i > 0 {
			return node.marks[i-1]
		}
	}
	return mark{0, v.Start}
}

// Chars returns the n-th and following characters of a text in quotes as they are written there, with escapes: as many as
// most, and no more than fit into size bytes. It returns their number too.
func (t *Text) Chars(v Value, n, most int64, size int) (raw []byte, count int64, err error) {
	near := t.mark(v, n)
	c := t.cursor(near.at)
	if near.at == v.Start {
		c.next()
	}
	for near.n < n && c.at < v.End-1 && c.err == nil {
		near.n += c.chars(n-near.n, v.End-1)
	}
	start, end := c.at, c.at
	last := min(v.End-1, start+int64(size))
	for count < most && c.at < v.End-1 && c.err == nil {
		passed := c.chars(most-count, last)
		if c.at > last {
			break
		}
		end = c.at
		count += passed
	}
	if c.err != nil {
		return nil, 0, c.err
	}
	raw, err = t.Read(start, end)
	return raw, count, err
}

// Find returns the value at a path, a JSON Pointer (RFC 6901), or [ErrNotFound].
func (t *Text) Find(path string) (Value, error) {
	v, err := t.Root()
	if err != nil || path == "" {
		return v, err
	}
	if path[0] != '/' {
		return Value{}, ErrNotFound
	}
	at := t.cursor(v.Start)
	for name := range strings.SplitSeq(path[1:], "/") {
		if at, err = t.child(Value{Kind: Kind(at.peek()), Start: at.at}, unescape.Replace(name)); err != nil {
			return Value{}, err
		}
	}
	return at.value()
}

// child returns a cursor at a child, whose end is not looked for.
func (t *Text) child(v Value, name string) (found *cursor, err error) {
	var index int64
	if v.Kind == Array {
		n, err := strconv.ParseUint(name, 10, 31)
		if err != nil {
			return nil, ErrNotFound
		}
		index = int64(n)
	}
	err = t.each(v, index, func(n int64, key Value, c *cursor) (ok bool, err error) {
		if ok = n == index; v.Kind == Object {
			ok, err = t.named(key, name)
		}
		if ok {
			found = c
		}
		return ok, err
	})
	if found == nil && err == nil {
		err = ErrNotFound
	}
	return found, err
}

// The escapes of JSON Pointer.
var (
	escape   = strings.NewReplacer("~", "~0", "/", "~1")
	unescape = strings.NewReplacer("~1", "/", "~0", "~")
)

// named reports whether a key is a name.
func (t *Text) named(key Value, name string) (bool, error) {
	const longestEscape = len(`\u0000`)
	if n := int(key.Len()) - len(`""`); n < len(name) || n > longestEscape*len(name) {
		return false, nil
	}
	got, err := t.Key(key)
	return got == name, err
}

// Key returns a key as it is meant.
func (t *Text) Key(key Value) (string, error) {
	raw, err := t.Read(key.Start, key.End)
	if err != nil {
		return "", err
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", fmt.Errorf("read a key: %w", err)
	}
	return s, nil
}

// Pointer returns the path of a child of the value at path.
func Pointer(path, name string) string {
	return path + "/" + escape.Replace(name)
}
