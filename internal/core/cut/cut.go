// Package cut shortens JSON values to a size in bytes, so that they stay valid and say what is missing.
package cut

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// deepest is how far down a value is cut; what is deeper is left out whole.
	deepest = 64
	// mostNotes bounds how many cuts are told one by one.
	mostNotes = 8
)

// JSON returns a JSON value cut to at most size bytes, still valid JSON: arrays to whole items, long texts to their beginning, and members
// that cannot be cut are left out. The notes say what was cut, by JSON Pointer. A value that cannot be cut at all, or is no JSON, gives nil and a note.
func JSON(raw json.RawMessage, size int) (json.RawMessage, []string) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	c := cutter{}
	if d.Decode(&v) == nil {
		if v, ok := c.cut(v, size, "", 0); ok {
			if b := Encode(v); len(b) <= size {
				if c.more > 0 {
					c.notes = append(c.notes, fmt.Sprintf("and %d cuts more", c.more))
				}
				return b, c.notes
			}
		}
	}
	return nil, []string{fmt.Sprintf("left out (%d bytes)", len(raw))}
}

type cutter struct {
	notes []string
	more  int
}

func (c *cutter) note(path, format string, args ...any) {
	if len(c.notes) >= mostNotes {
		c.more++
		return
	}
	const longestPath = 100
	if len(path) > longestPath {
		path = strings.ToValidUTF8(path[:longestPath], "") + "…"
	}
	c.notes = append(c.notes, strings.TrimSpace(path+" "+fmt.Sprintf(format, args...)))
}

// cut returns v in at most size bytes of JSON, or false where that cannot be. path is a JSON Pointer.
func (c *cutter) cut(v any, size int, path string, depth int) (any, bool) {
	if size >= sizeOf(v) {
		return v, true
	}
	if depth > deepest {
		return nil, false
	}
	switch v := v.(type) {
	case string:
		const mark = "…"
		head := Text(v, size-len(mark)-2)
		if head == "" {
			return nil, false
		}
		c.note(path, "cut to %d of %d characters", utf8.RuneCountInString(head), utf8.RuneCountInString(v))
		return head + mark, true
	case []any:
		return c.cutArray(v, size, path, depth)
	case map[string]any:
		return c.cutObject(v, size, path, depth)
	}
	return nil, false
}

func (c *cutter) cutArray(v []any, size int, path string, depth int) (any, bool) {
	room := size - len("[]")
	if room < 0 {
		return nil, false
	}
	out := []any{}
	for _, item := range v {
		n := sizeOf(item) + len(",")
		if n > room {
			break
		}
		out = append(out, item)
		room -= n
	}
	if len(out) == 0 { // better a part of the first item than none
		if item, ok := c.cut(v[0], room, path+"/0", depth+1); ok {
			out = append(out, item)
		}
	}
	c.note(path, "cut to %d of %d items", len(out), len(v))
	return out, true
}

// cutObject gives each member an equal share, and what the smaller ones do not need to the larger.
func (c *cutter) cutObject(v map[string]any, size int, path string, depth int) (any, bool) {
	room := size - len("{}")
	if room < 0 {
		return nil, false
	}
	sizes := map[string]int{}
	for k, m := range v {
		sizes[k] = sizeOf(m)
	}
	overhead := func(k string) int { return sizeOf(k) + len(":,") }
	keys := slices.SortedFunc(maps.Keys(v), func(a, b string) int { return cmp.Or(cmp.Compare(sizes[a], sizes[b]), cmp.Compare(a, b)) })
	out := map[string]any{}
	for i, k := range keys {
		share := room/(len(keys)-i) - overhead(k)
		if sizes[k]+overhead(k) <= room/(len(keys)-i) {
			share = sizes[k]
		}
		m, ok := c.cut(v[k], share, path+"/"+k, depth+1)
		if !ok {
			c.note(path+"/"+k, "left out")
			continue
		}
		out[k] = m
		room -= sizeOf(m) + overhead(k)
	}
	return out, true
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

// sizeOf returns the length of [Encode] of a decoded JSON value.
func sizeOf(v any) int {
	switch v := v.(type) {
	case string:
		n := len(`""`)
		for i, r := range v {
			n += runeSize(v[i:], r)
		}
		return n
	case json.Number:
		return len(v)
	case []any:
		n := len("[]") + max(0, len(v)-1)
		for _, x := range v {
			n += sizeOf(x)
		}
		return n
	case map[string]any:
		n := len("{}") + max(0, len(v)-1)
		for k, x := range v {
			n += sizeOf(k) + len(":") + sizeOf(x)
		}
		return n
	case bool:
		if v {
			return len("true")
		}
		return len("false")
	}
	return len("null")
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

// Text returns the longest beginning of s that takes at most size bytes in a JSON string.
func Text(s string, size int) string {
	for i, r := range s {
		if size -= runeSize(s[i:], r); size < 0 {
			return s[:i]
		}
	}
	return s
}
