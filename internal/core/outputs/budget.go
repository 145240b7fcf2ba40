// Package outputs is what becomes of results that are too large to be shown: they are cut to a budget, so that
// what is shown stays valid JSON with whole items; the whole is stored once; and it can be read in pages.
// It calls no tools and writes no records.
package outputs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

	"github.com/toolcrib/toolcrib/internal/core/cut"
	"github.com/toolcrib/toolcrib/internal/core/spans"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const (
	// modelSize is how much a model is shown of a result, in bytes: 25,000 tokens at 4 bytes a token. A tool may have a
	// limit of its own, in this range.
	modelSize            = 100_000
	leastSize, mostSize  = 1_000, 500_000
	imageWeight          = 6_400     // bytes that an image counts as: 1,600 tokens, whatever its data take
	longestImage         = 5_000_000 // bytes of an image block that a model can be given
	mostImages           = 8 << 20   // bytes of all of them in one result
	bodySize             = 1 << 20   // bytes of a result that a body is given
	bodyData             = 64 << 10  // bytes of a binary block from which on a body gets it as a handle
	valueSize, valueLogs = 256 << 10, 64 << 10
	controlSize          = 2 * mostSize // of what a control tool answers, which stands in its result twice
)

// A Budget says how much of a result is shown.
type Budget struct {
	size       int // bytes of content and structured content together
	structured int // of these, for the structured content at most
	image      int // bytes up to which an image counts as imageWeight
	data       int // bytes from which on binary blocks are left out; 0 for never
}

// ForModel returns what a model is shown of a result of the tool, which may be nil.
func ForModel(t *contracts.Tool) Budget {
	size := sizeOf(t, modelSize)
	return Budget{size: size, structured: size, image: longestImage}
}

// ForBody returns what a body is given of a result of the tool: more than a model is shown, since it is there to make less of it, and
// none of the larger binary blocks, which it passes on unseen.
func ForBody(t *contracts.Tool) Budget {
	size := max(bodySize, sizeOf(t, modelSize))
	return Budget{size: size, structured: size, image: bodyData, data: bodyData}
}

// ForValue returns what is shown of what a body returned: 256 KiB of its value, and of content blocks beside it what
// a model is shown of any result; they have also the room of the console that logs, in bytes, do not take.
func ForValue(logs int) Budget {
	const around = len(`{"value":}`)
	return Budget{size: valueSize + around + modelSize + max(0, valueLogs-logs), structured: valueSize + around, image: longestImage}
}

// ForControl returns what a model is shown of the answer of a search or a description, which has limits of its own: all but monsters.
func ForControl() Budget { return Budget{size: controlSize, structured: controlSize} }

// sizeOf returns how large, in bytes, a result of the tool may be.
func sizeOf(t *contracts.Tool, fallback int) int {
	var meta struct {
		Most *int `json:"anthropic/maxResultSizeChars"`
	}
	if t == nil || len(t.Meta) == 0 || json.Unmarshal(t.Meta, &meta) != nil || meta.Most == nil {
		return fallback
	}
	return min(max(*meta.Most, leastSize), mostSize)
}

// noteRoom is kept free for saying what was cut and how to read on.
func (b Budget) noteRoom() int { return min(1_500, 2*b.size/5) }

// Fit returns r within the budget, and what was cut. r is not changed, and must be clean.
func (b Budget) Fit(r *contracts.Result) (*contracts.Result, cut.Parts) {
	var parts cut.Parts
	blocks := b.weigh(r.Content)
	content := 0
	for _, w := range blocks {
		content += w.size
	}
	over := len(r.StructuredContent) > b.structured || spans.Deeper(r.StructuredContent, cut.Nested)
	if !over && content+len(r.StructuredContent) <= b.size && !slices.ContainsFunc(blocks, func(w weighed) bool { return w.out }) {
		return r, parts
	}
	out := *r
	size := b.size - b.noteRoom()
	if over || content+len(r.StructuredContent) > size {
		if b.both(&out, blocks, size, &parts) {
			return &out, parts
		}
		// Each has half, and what the other does not need.
		room := min(max(size/2, size-content), b.structured)
		if over || len(r.StructuredContent) > room {
			out.StructuredContent = cut.JSON(r.StructuredContent, room, structuredPath, &parts)
		}
	}
	out.Content = b.blocks(r.Content, blocks, size-len(out.StructuredContent), &parts)
	return &out, parts
}

const structuredPath = "/structuredContent"

// both cuts a result whose one text says the same as its structured content: the text then says what is left of that.
func (b Budget) both(r *contracts.Result, w []weighed, size int, parts *cut.Parts) bool {
	if len(r.Content) != 1 || len(r.StructuredContent) == 0 {
		return false
	}
	k := w[0].look(r.Content[0])
	if k.text.Len() == 0 || k.textPath != "/text" || !sameJSON(r.Content[0][k.text.Start+1:k.text.End-1], r.StructuredContent) {
		return false
	}
	room := min(2*size/5, b.structured)
	for range 4 {
		var cuts cut.Parts
		head := cut.JSON(r.StructuredContent, room, structuredPath, &cuts)
		if head == nil {
			return false
		}
		block := slices.Concat(r.Content[0][:k.text.Start], cut.Encode(string(head)), r.Content[0][k.text.End:])
		total := len(head) + len(block) + 1
		if total <= size {
			r.StructuredContent, r.Content, *parts = head, []json.RawMessage{block}, cuts
			return true
		}
		room = room * size / total * 19 / 20
	}
	return false
}

// A weighed block is what a block counts, and whether it cannot be shown whatever room there is.
type weighed struct {
	size int
	out  bool
	kind *kind // nil for a small block, which is not looked at
}

// look returns the kind of the block.
func (w *weighed) look(block json.RawMessage) *kind {
	if w.kind == nil {
		k := look(block)
		w.kind = &k
	}
	return w.kind
}

const stubSize = 200 // bytes that stand for a block that is left out, at most

func (b Budget) weigh(blocks []json.RawMessage) []weighed {
	out := make([]weighed, len(blocks))
	images := 0
	for i, block := range blocks {
		n := len(block) + 1
		out[i].size = n
		if spans.Deeper(block, cut.Nested) {
			out[i].size, out[i].out = stubSize, true
			continue
		}
		if n <= imageWeight {
			continue
		}
		k := look(block)
		out[i].kind = &k
		switch {
		case b.data > 0 && n > b.data && k.data.Len() > 0:
			out[i].size, out[i].out = stubSize, true
		case k.isImage() && n <= b.image && images+n <= mostImages:
			images += n
			out[i].size = imageWeight
		}
	}
	return out
}

// leastShare is the room in bytes below which blocks are not cut each, but the first of them kept.
const leastShare = 2 * stubSize

// blocks returns the blocks in room bytes. A block keeps its position; of many, those at the end are left out.
func (b Budget) blocks(in []json.RawMessage, w []weighed, room int, parts *cut.Parts) []json.RawMessage {
	n := len(in)
	if n*leastShare > room {
		total := 0
		for n = 0; n < len(in) && total+w[n].size <= room; n++ {
			total += w[n].size
		}
		n = max(n, min(1, len(in)))
	}
	shares := share(w[:n], room)
	out := make([]json.RawMessage, 0, n)
	for i, block := range in[:n] {
		if w[i].out || w[i].size > shares[i] {
			block = w[i].look(block).shorten(block, i, shares[i], parts)
		}
		out = append(out, block)
	}
	if n < len(in) {
		parts.Add(contracts.CutPart{Path: "/content", Unit: contracts.CutItems, Shown: int64(n), Total: int64(len(in))})
	}
	return out
}

// share gives each block an equal share of the room, and what the smaller ones do not need to the larger.
func share(w []weighed, room int) []int {
	order, out := make([]int, len(w)), make([]int, len(w))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(w[a].size, w[b].size) })
	for i, at := range order {
		out[at] = min(w[at].size, room/(len(order)-i))
		room -= out[at]
	}
	return out
}

// sameJSON reports whether a text, as it stands in quotes, is that JSON, apart from space between its tokens.
func sameJSON(text, plain []byte) bool {
	u := unescaper{text}
	quoted, escaped := false, false
	for {
		a, ok := u.next()
		for ok && !quoted && isSpace(a) {
			a, ok = u.next()
		}
		if !quoted {
			plain = bytes.TrimLeft(plain, " \t\r\n")
		}
		if !ok || len(plain) == 0 {
			return !ok && len(plain) == 0
		}
		if a != plain[0] {
			return false
		}
		plain = plain[1:]
		switch {
		case escaped:
			escaped = false
		case quoted && a == '\\':
			escaped = true
		case a == '"':
			quoted = !quoted
		}
	}
}

func isSpace(b byte) bool { return b == ' ' || b == '\t' || b == '\r' || b == '\n' }

// An unescaper gives the bytes of a text in quotes. Characters that are written as \u differ from all bytes: JSON in JSON has no need of them, but for quotes.
type unescaper struct{ rest []byte }

func (u *unescaper) next() (byte, bool) {
	if len(u.rest) == 0 {
		return 0, false
	}
	b := u.rest[0]
	u.rest = u.rest[1:]
	if b != '\\' || len(u.rest) == 0 {
		return b, true
	}
	b = u.rest[0]
	u.rest = u.rest[1:]
	switch b {
	case 'n':
		return '\n', true
	case 't':
		return '\t', true
	case 'r':
		return '\r', true
	case 'u':
		var s string
		if len(u.rest) >= 4 && json.Unmarshal(slices.Concat([]byte(`"\u`), u.rest[:4], []byte(`"`)), &s) == nil && len(s) == 1 {
			u.rest = u.rest[4:]
			return s[0], true
		}
		return 0, true
	}
	return b, true
}
