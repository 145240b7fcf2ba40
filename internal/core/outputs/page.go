package outputs

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/toolcrib/toolcrib/internal/core/cut"
	"github.com/toolcrib/toolcrib/internal/core/spans"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A page is a part of a kept result.
type page struct {
	Handle  string          `json:"handle"`
	Path    string          `json:"path"`
	Type    string          `json:"type"` // text, base64, items, members, value or json
	Offset  int64           `json:"offset"`
	Total   int64           `json:"total"`
	Next    *int64          `json:"next,omitempty"`
	Text    json.RawMessage `json:"text,omitempty"`
	Items   json.RawMessage `json:"items,omitempty"`
	Members json.RawMessage `json:"members,omitempty"`
	Value   json.RawMessage `json:"value,omitempty"`
	Large   *largeValue     `json:"large,omitempty"`
}

// A largeValue is an item or member that no page can hold.
type largeValue struct {
	Path  string `json:"path,omitempty"` // missing where it is too long to be asked for
	Type  string `json:"type"`
	Bytes int64  `json:"bytes"`
}

// A pager makes one page.
type pager struct {
	text *spans.Text
	page
	limit int64
	room  int // bytes of the page's JSON
}

// read returns the page.
func (p *pager) read(asJSON bool) (json.RawMessage, error) {
	p.room -= len(p.Path) + len(p.Handle) + 300 // what stands around
	v, err := p.text.Find(p.Path)
	if err != nil {
		return nil, notThere(err, p.Path)
	}
	switch {
	case asJSON:
		err = p.raw(v)
	case v.Kind == spans.String:
		err = p.chars(v)
	case v.Kind == spans.Array || v.Kind == spans.Object:
		err = p.children(v)
	case v.Len() > int64(p.room):
		err = p.raw(v)
	default:
		p.Type, p.Total = "value", 1
		if err = p.within(); err == nil && p.Offset == 0 {
			p.Value, err = p.text.Read(v.Start, v.End)
		}
	}
	if err != nil {
		return nil, err
	}
	return p.encode(), nil
}

// encode returns the page as JSON. What it holds is that already, and not looked at again.
func (p *pager) encode() json.RawMessage {
	around := p.page
	around.Text, around.Items, around.Members = nil, nil, nil
	out := cut.Encode(around)
	for _, part := range []struct {
		name string
		raw  json.RawMessage
	}{{"text", p.Text}, {"items", p.Items}, {"members", p.Members}} {
		if len(part.raw) > 0 {
			out = slices.Concat(out[:len(out)-1], []byte(`,"`+part.name+`":`), part.raw, []byte("}"))
		}
	}
	return out
}

// within is an error where the page would begin beyond the end.
func (p *pager) within() error {
	if p.Offset > p.Total {
		return contracts.Errorf(contracts.CodeInvalidArgs, "offset: is %d; the value at %q has %d", p.Offset, p.Path, p.Total)
	}
	return nil
}

// goOn says where the next page begins, after n units of this one.
func (p *pager) goOn(n int64) {
	if next := p.Offset + n; next < p.Total {
		p.Next = &next
	}
}

// binary is where the data of content blocks stand, in base64.
var binary = regexp.MustCompile(`^/content/[0-9]+(/data|/resource/blob)$`)

// chars reads characters of a text; of base64 whole groups of four, so that each page can be decoded.
func (p *pager) chars(v spans.Value) (err error) {
	if p.Total, err = p.text.Count(v); err != nil {
		return err
	}
	p.Type = "text"
	group := int64(1)
	if binary.MatchString(p.Path) {
		p.Type, group = "base64", 4
	}
	p.Offset -= p.Offset % group
	if err := p.within(); err != nil {
		return err
	}
	raw, n, err := p.text.Chars(v, p.Offset, max(p.limit/group*group, group), p.room)
	if err == nil && n%group != 0 && p.Offset+n < p.Total {
		raw, n, err = p.text.Chars(v, p.Offset, n/group*group, p.room)
	}
	p.Text = append(append([]byte{'"'}, raw...), '"')
	p.goOn(n)
	return err
}

// raw reads bytes of the JSON of a value, whole characters of it.
func (p *pager) raw(v spans.Value) error {
	p.Type, p.Total = "json", v.Len()
	if err := p.within(); err != nil {
		return err
	}
	const char = utf8.UTFMax
	from := max(0, p.Offset-char)
	b, err := p.text.Read(v.Start+from, min(v.End, v.Start+p.Offset+min(int64(p.room), p.limit)+char))
	if err != nil {
		return err
	}
	at := int(p.Offset - from)
	for at > 0 && at < len(b) && !utf8.RuneStart(b[at]) { // the offset is within a character
		at--
		p.Offset--
	}
	b = b[at:]
	end := int(min(int64(len(b)), p.limit))
	for end < len(b) && !utf8.RuneStart(b[end]) { // a character that is begun is given whole
		end++
	}
	for end > 0 && p.Offset+int64(end) < p.Total { // unless its end was not read
		if r, n := utf8.DecodeLastRune(b[:end]); r != utf8.RuneError || n > 1 {
			break
		}
		end--
	}
	text := cut.Text(string(b[:end]), p.room)
	p.Text = cut.Encode(text)
	p.goOn(int64(len(text)))
	return nil
}

// children reads items of an array or members of an object.
func (p *pager) children(v spans.Value) (err error) {
	if p.Total, err = p.text.Count(v); err != nil {
		return err
	}
	if err := p.within(); err != nil {
		return err
	}
	out := []byte{byte(v.Kind)}
	n := int64(0)
	for c, err := range p.text.Children(v, p.Offset) {
		if err != nil {
			return err
		}
		if n == p.limit {
			break
		}
		next, err := p.child(out, c)
		if err != nil {
			return err
		}
		if next == nil {
			if n == 0 {
				if p.Large, err = p.large(c); err != nil {
					return err
				}
				n = 1
			}
			break
		}
		out = next
		n++
	}
	if p.Type = "items"; v.Kind == spans.Object {
		p.Type, p.Members = "members", append(out, '}')
	} else {
		p.Items = append(out, ']')
	}
	p.goOn(n)
	return nil
}

// child returns out with a child, nil where there is no room for it.
func (p *pager) child(out []byte, c spans.Child) ([]byte, error) {
	const spacious = 8
	room := p.room - len(out)
	if c.Key.Len()+c.Value.Len() > spacious*int64(max(room, 0)) {
		return nil, nil
	}
	start := len(out)
	if start > 1 {
		out = append(out, ',')
	}
	if c.Key.Len() > 0 {
		key, err := p.text.Read(c.Key.Start, c.Key.End)
		if err != nil {
			return nil, err
		}
		out = append(append(out, key...), ':')
	}
	raw, err := p.text.Read(c.Value.Start, c.Value.End)
	if err != nil {
		return nil, err
	}
	out, nested := spans.Compact(out, raw)
	if len(out)-start > room || nested >= cut.Nested {
		return nil, nil
	}
	return out, nil
}

// large describes a child that no page can hold.
func (p *pager) large(c spans.Child) (*largeValue, error) {
	l := &largeValue{Type: typeOf(c.Value.Kind), Bytes: c.Value.Len()}
	name := strconv.FormatInt(c.N, 10)
	if c.Key.Len() > longestPointer {
		return l, nil
	}
	if c.Key.Len() > 0 {
		var err error
		if name, err = p.text.Key(c.Key); err != nil {
			return nil, err
		}
	}
	if path := spans.Pointer(p.Path, name); len(path) <= longestPointer {
		l.Path = path
	}
	return l, nil
}

func typeOf(k spans.Kind) string {
	switch k {
	case spans.Object:
		return "object"
	case spans.Array:
		return "array"
	case spans.String:
		return "string"
	case '0':
		return "number"
	}
	return "value"
}
