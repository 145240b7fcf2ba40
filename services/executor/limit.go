package executor

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const (
	// resultLimit is how large a result may be, in bytes: 25,000 tokens at 4 bytes a token.
	resultLimit = 100_000
	// The range of a tool's own limit.
	leastResultLimit, mostResultLimit = 1_000, 500_000
	// markRoom is kept free for saying what was left out.
	markRoom = 200
	// deepest is how far down structured content is cut; what is deeper is left out whole.
	deepest = 64
	// mostNotes bounds how many cuts are told one by one.
	mostNotes = 8
)

// limitOf returns how large, in bytes, a result of the tool may be.
func limitOf(t *contracts.Tool) int {
	var meta struct {
		Most *int `json:"anthropic/maxResultSizeChars"`
	}
	if len(t.Meta) == 0 || json.Unmarshal(t.Meta, &meta) != nil || meta.Most == nil {
		return resultLimit
	}
	return min(max(*meta.Most, leastResultLimit), mostResultLimit)
}

// limit returns r cut to at most size bytes of content and structured content, which stay valid JSON. r is not changed.
func limit(r *contracts.Result, size int) *contracts.Result {
	content := contentSize(r.Content)
	if content+len(r.StructuredContent) <= size {
		return r
	}
	out := *r
	// Each has half, and what the other does not need.
	forStructured := max(size/2, size-content)
	if len(r.StructuredContent) > forStructured {
		var notes []string
		out.StructuredContent, notes = cutStructured(r.StructuredContent, forStructured)
		out.Truncated = "structuredContent: " + strings.Join(notes, ", ")
	}
	if forContent := size - len(out.StructuredContent); content > forContent {
		var note string
		out.Content, note = cutContent(r.Content, forContent)
		out.Truncated = strings.TrimSuffix("content: "+note+"; "+out.Truncated, "; ")
	}
	return &out
}

func contentSize(blocks []json.RawMessage) int {
	n := 0
	for _, b := range blocks {
		n += len(b) + 1
	}
	return n
}

// cutContent keeps the blocks that fit, in order; of a text that does not it keeps the beginning.
func cutContent(blocks []json.RawMessage, size int) ([]json.RawMessage, string) {
	room := size - markRoom
	out := []json.RawMessage{}
	var notes []string
	left, leftBytes := 0, 0
	for i, b := range blocks {
		if len(b)+1 > room {
			whole := b
			var note string
			if b, note = cutText(b, room-1); b == nil {
				left, leftBytes = left+1, leftBytes+len(whole)
				continue
			}
			notes = append(notes, fmt.Sprintf("block %d cut to %s", i+1, note))
		}
		out = append(out, b)
		room -= len(b) + 1
	}
	if left > 0 {
		note := fmt.Sprintf("%d of %d blocks left out (%d bytes)", left, len(blocks), leftBytes)
		out = append(out, contracts.TextResult("["+note+": the result is over the limit]", nil).Content...)
		notes = append(notes, note)
	}
	return out, strings.Join(notes, ", ")
}

// cutText cuts a text block to size bytes, with a mark. It returns nil for another kind of block, and where hardly anything would be left.
func cutText(block json.RawMessage, size int) (json.RawMessage, string) {
	var fields map[string]json.RawMessage
	var kind, text string
	if json.Unmarshal(block, &fields) != nil || json.Unmarshal(fields["type"], &kind) != nil || kind != "text" ||
		json.Unmarshal(fields["text"], &text) != nil {
		return nil, ""
	}
	fields["text"] = json.RawMessage(`""`)
	total := utf8.RuneCountInString(text)
	const longestMark, least = 60, 40
	room := size - len(encode(fields)) - longestMark
	if room < least {
		return nil, ""
	}
	head := prefix(text, room)
	note := fmt.Sprintf("%d of %d characters", utf8.RuneCountInString(head), total)
	fields["text"] = encode(head + "\n[cut: " + note + "]")
	return encode(fields), note
}

// cutStructured cuts a JSON value to size bytes: arrays to whole items, long strings to their beginning, and members that cannot be cut are left out.
func cutStructured(raw json.RawMessage, size int) (json.RawMessage, []string) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	c := cutter{}
	if d.Decode(&v) == nil {
		if v, ok := c.cut(v, size, "", 0); ok {
			if b := encode(v); len(b) <= size {
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
		head := prefix(v, size-len(mark)-2)
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

// encode returns v as JSON, without the escapes that HTML would need.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return json.RawMessage("null") // not reached: v was decoded from JSON
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// sizeOf returns the length of [encode] of a decoded JSON value.
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

// prefix returns the longest beginning of s that takes at most size bytes in a JSON string.
func prefix(s string, size int) string {
	for i, r := range s {
		if size -= runeSize(s[i:], r); size < 0 {
			return s[:i]
		}
	}
	return s
}
