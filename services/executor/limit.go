package executor

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/toolcrib/toolcrib/internal/core/cut"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const (
	// resultLimit is how large a result may be, in bytes: 25,000 tokens at 4 bytes a token.
	resultLimit = 100_000
	// The range of a tool's own limit.
	leastResultLimit, mostResultLimit = 1_000, 500_000
	// markRoom is kept free for saying what was left out.
	markRoom = 200
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
		out.StructuredContent, notes = cut.JSON(r.StructuredContent, forStructured)
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
	room := size - len(cut.Encode(fields)) - longestMark
	if room < least {
		return nil, ""
	}
	head := cut.Text(text, room)
	note := fmt.Sprintf("%d of %d characters", utf8.RuneCountInString(head), total)
	fields["text"] = cut.Encode(head + "\n[cut: " + note + "]")
	return cut.Encode(fields), note
}
