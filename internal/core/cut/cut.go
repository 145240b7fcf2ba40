// Package cut shortens JSON values to a size in bytes, so that they stay valid and it is known what is missing. It
// decodes nothing: of a large value it reads what it keeps.
package cut

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/toolcrib/toolcrib/internal/core/spans"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const (
	// deepest is how far down a value is cut; what is deeper is left out whole.
	deepest = 64
	// Nested is how deep arrays and objects stand in each other at most in what is kept. Many readers of JSON fail far
	// below the 10,000 that are allowed by others.
	Nested = 512
	// mostParts bounds the cuts that are told one by one, mostBlocks those of them that are content blocks, and longestPath the path of each.
	mostParts   = 8
	mostBlocks  = 64
	longestPath = 256
)

// Parts are the places at which something was cut away, in the order in which they were found.
type Parts struct {
	List   []contracts.CutPart // at most 8, and of content blocks that were left out 64
	Others int                 // cuts beyond these
}

// Add adds a part. Of one with a path that is too long to be told only the number is kept.
func (p *Parts) Add(part contracts.CutPart) {
	most := mostParts
	if part.Type != "" { // a body passes it on by what is told
		most = mostBlocks
	}
	if len(p.List) >= most || len(part.Path) > longestPath {
		p.Others++
		return
	}
	p.List = append(p.List, part)
}

// Any reports whether anything was cut.
func (p *Parts) Any() bool { return len(p.List) > 0 || p.Others > 0 }

// JSON returns a JSON value cut to at most size bytes, still valid JSON and without space: arrays to whole items, long texts to their beginning, and members
// that cannot be cut are left out. It adds to parts what was cut, with paths that go on from path. A value of which nothing can be kept, or that is no
// JSON, gives nil. raw must be as [spans.Clean] makes it.
func JSON(raw json.RawMessage, size int, path string, parts *Parts) json.RawMessage {
	c := cutter{size: size}
	if json.Valid(raw) {
		c.t = spans.Of(raw)
		if v, err := c.t.Root(); err == nil && c.value(v, size, path, 0) {
			for _, p := range c.parts.List {
				parts.Add(p)
			}
			parts.Others += c.parts.Others
			return c.out
		}
		if v, err := c.t.Root(); err == nil {
			parts.Add(c.whole(v, path))
			return nil
		}
	}
	parts.Add(contracts.CutPart{Path: path, Unit: contracts.CutBytes, Total: int64(len(raw))})
	return nil
}

// A cutter writes to out what it keeps.
type cutter struct {
	t     *spans.Text
	size  int
	out   []byte
	parts Parts
}

// whole tells that nothing of a value is kept.
func (c *cutter) whole(v spans.Value, path string) contracts.CutPart {
	p := contracts.CutPart{Path: path, Unit: contracts.CutBytes, Total: v.Len()}
	if n, err := c.t.Count(v); err == nil && unitOf(v.Kind) != contracts.CutBytes {
		p.Unit, p.Total = unitOf(v.Kind), n
	}
	return p
}

func unitOf(k spans.Kind) contracts.CutUnit {
	switch k {
	case spans.Array:
		return contracts.CutItems
	case spans.Object:
		return contracts.CutMembers
	case spans.String:
		return contracts.CutCharacters
	}
	return contracts.CutBytes
}

// fits appends all of a value where that takes at most size bytes.
func (c *cutter) fits(v spans.Value, size, depth int) bool {
	const spacious = 8 // by which JSON may shrink without space
	if v.Len() > spacious*int64(size) {
		return false
	}
	raw, err := c.t.Read(v.Start, v.End)
	if err != nil {
		return false
	}
	mark := len(c.out)
	var nested int
	if c.out, nested = spans.Compact(c.out, raw); len(c.out)-mark > size || nested+depth > Nested {
		c.out = c.out[:mark]
		return false
	}
	return true
}

// value appends a value in at most size bytes, or nothing where that cannot be. path is a JSON Pointer.
func (c *cutter) value(v spans.Value, size int, path string, depth int) bool {
	if c.fits(v, size, depth) {
		return true
	}
	if depth > deepest {
		return false
	}
	switch v.Kind {
	case spans.String:
		return c.text(v, size, path)
	case spans.Array:
		return c.array(v, size, path, depth)
	case spans.Object:
		return c.object(v, size, path, depth)
	}
	return false
}

func (c *cutter) text(v spans.Value, size int, path string) bool {
	const mark = "…"
	room := size - len(mark) - len(`""`)
	if room <= 0 {
		return false
	}
	head, n, err := c.t.Chars(v, 0, int64(room), room)
	if err != nil || n == 0 {
		return false
	}
	total, err := c.t.Count(v)
	if err != nil {
		return false
	}
	c.out = append(c.out, '"')
	c.out = append(c.out, head...)
	c.out = append(c.out, mark+`"`...)
	c.parts.Add(contracts.CutPart{Path: path, Unit: contracts.CutCharacters, Shown: n, Total: total})
	return true
}

// array keeps whole items, and a part of the first where that is all.
func (c *cutter) array(v spans.Value, size int, path string, depth int) bool {
	n, ok := c.prefix(v, size, depth)
	if !ok {
		return false
	}
	if n == 0 && !c.first(v, size, path, depth) {
		c.out = append(c.out, "[]"...)
	}
	return c.counted(v, n, path)
}

// counted tells how many children of a value were kept.
func (c *cutter) counted(v spans.Value, n int64, path string) bool {
	total, err := c.t.Count(v)
	c.parts.Add(contracts.CutPart{Path: path, Unit: unitOf(v.Kind), Shown: n, Total: total})
	return err == nil
}

// prefix appends the value with the children that fit, from the first on, and returns their number; nothing where that is 0. It is false where not even the brackets fit.
func (c *cutter) prefix(v spans.Value, size, depth int) (n int64, ok bool) {
	room := size - len("[]")
	if room < 0 {
		return 0, false
	}
	begin := len(c.out)
	c.out = append(c.out, byte(v.Kind))
	for child, err := range c.t.Children(v, 0) {
		if err != nil {
			c.out = c.out[:begin]
			return 0, false
		}
		mark := len(c.out)
		if n > 0 {
			c.out = append(c.out, ',')
		}
		if child.Key.Len() > 0 && !c.key(child.Key, room) || !c.fits(child.Value, room-(len(c.out)-mark), depth+1) {
			c.out = c.out[:mark]
			break
		}
		room -= len(c.out) - mark
		n++
	}
	if n == 0 {
		c.out = c.out[:begin]
		return 0, true
	}
	c.out = append(c.out, closing(v.Kind))
	return n, true
}

func closing(k spans.Kind) byte {
	if k == spans.Array {
		return ']'
	}
	return '}'
}

// key appends the key of a member with its colon.
func (c *cutter) key(key spans.Value, room int) bool {
	if key.Len() > int64(room) {
		return false
	}
	raw, err := c.t.Read(key.Start, key.End)
	c.out = append(append(c.out, raw...), ':')
	return err == nil
}

// first appends the array with the beginning of its first item.
func (c *cutter) first(v spans.Value, size int, path string, depth int) bool {
	for child, err := range c.t.Children(v, 0) {
		if err != nil {
			return false
		}
		mark, parts := len(c.out), c.parts
		c.out = append(c.out, '[')
		ok := c.value(child.Value, size-len("[]"), path, depth+1)
		c.parts = parts // that the array is shown without a whole item says it all
		if !ok {
			c.out = c.out[:mark]
			return false
		}
		c.out = append(c.out, ']')
		return true
	}
	return false
}

// A member is a member of an object that is cut, and the room that it gets.
type member struct {
	spans.Child
	room int
}

// mostMembers is up to how many members an object has each of them cut. Of a larger one the first are kept whole.
const mostMembers = 1000

// object gives each member an equal share, and what the smaller ones do not need to the larger.
func (c *cutter) object(v spans.Value, size int, path string, depth int) bool {
	const least = len(`"":0,`)
	total, err := c.t.Count(v)
	if err != nil {
		return false
	}
	if total > mostMembers || total*int64(least) > int64(size) {
		n, ok := c.prefix(v, size, depth)
		if !ok {
			return false
		}
		if n == 0 {
			c.out = append(c.out, "{}"...)
		}
		return c.counted(v, n, path)
	}
	room := size - len("{}")
	if room < 0 {
		return false
	}
	members := make([]member, 0, total)
	for child, err := range c.t.Children(v, 0) {
		if err != nil {
			return false
		}
		members = append(members, member{Child: child})
	}
	share(members, room)
	c.out = append(c.out, '{')
	begin := len(c.out)
	for _, m := range members {
		mark := len(c.out)
		if mark > begin {
			c.out = append(c.out, ',')
		}
		name, err := c.t.Key(m.Key)
		inner := spans.Pointer(path, name)
		if err != nil || !c.key(m.Key, m.room) || !c.value(m.Value, m.room-(len(c.out)-mark), inner, depth+1) {
			c.out = c.out[:mark]
			c.parts.Add(c.whole(m.Value, inner))
		}
	}
	c.out = append(c.out, '}')
	return true
}

// share gives the members their room, by the bytes that they have.
func share(members []member, room int) {
	order := make([]*member, len(members))
	for i := range members {
		order[i] = &members[i]
	}
	needs := func(m *member) int64 { return m.Key.Len() + m.Value.Len() + int64(len(":,")) }
	slices.SortStableFunc(order, func(a, b *member) int { return cmp.Compare(needs(a), needs(b)) })
	for i, m := range order {
		m.room = int(min(needs(m), int64(room/(len(order)-i))))
		room -= m.room
	}
}

// Tell says in words what was cut, "" for nothing.
func (p *Parts) Tell() string {
	var told []string
	for _, part := range p.List[:min(len(p.List), mostParts)] {
		told = append(told, tell(part))
	}
	if more := len(p.List) + p.Others - len(told); more > 0 {
		told = append(told, fmt.Sprintf("and %d cuts more", more))
	}
	return strings.Join(told, ", ")
}

func tell(p contracts.CutPart) string {
	what := cmp.Or(p.Path, "the value")
	switch {
	case p.Type != "":
		return strings.Join(strings.Fields(fmt.Sprintf("%s: %s %s left out, %d bytes", what, p.Type, p.MimeType, p.Total)), " ")
	case p.Unit == contracts.CutBytes:
		return fmt.Sprintf("%s: left out, %d bytes", what, p.Total)
	}
	return fmt.Sprintf("%s: %d of %d %s", what, p.Shown, p.Total, p.Unit)
}

// Encode returns v, a decoded JSON value, as JSON without the escapes that HTML would need.
func Encode(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return json.RawMessage("null") // not reached: v was decoded from JSON
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Text returns the longest beginning of s that takes at most size bytes in a JSON string.
func Text(s string, size int) string {
	for i, r := range s {
		if size -= runeSize(s[i:], r); size < 0 {
			return s[:i]
		}
	}
	return s
}

// runeSize returns the bytes of the rune r, with which s begins, in a JSON string.
func runeSize(s string, r rune) int {
	const escape = len(`\u0000`)
	switch {
	case r == '"' || r == '\\' || r == '\n' || r == '\r' || r == '\t' || r == '\b' || r == '\f':
		return 2
	case r < ' ' || r == '\u2028' || r == '\u2029':
		return escape
	case r == utf8.RuneError && !strings.HasPrefix(s, "\uFFFD"):
		return escape
	}
	return utf8.RuneLen(r)
}
