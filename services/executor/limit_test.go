package executor

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/toolcrib/toolcrib/internal/core/cut"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// randomValue returns a JSON value of any form, sometimes deep and sometimes large.
func randomValue(r *rand.Rand, depth int) any {
	switch k := r.IntN(8); {
	case k < 2 && depth > 0:
		out := []any{}
		for range r.IntN(20) {
			out = append(out, randomValue(r, depth-1))
		}
		return out
	case k < 4 && depth > 0:
		out := map[string]any{}
		for range r.IntN(12) {
			out[randomText(r, 12)] = randomValue(r, depth-1)
		}
		return out
	case k == 4:
		return json.Number(fmt.Sprint(r.Int64()))
	case k == 5:
		return r.IntN(2) == 0
	case k == 6:
		return nil
	}
	return randomText(r, 1<<r.IntN(8))
}

func randomText(r *rand.Rand, most int) string {
	var b strings.Builder
	for range r.IntN(most + 1) {
		b.WriteRune([]rune("aä\"\\\n\u0001\u2028<日🙂")[r.IntN(10)])
	}
	return b.String()
}

func TestLimitedResultsFitAndAreJSON(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		in := &contracts.Result{Content: []json.RawMessage{}}
		for range r.IntN(6) {
			block := map[string]any{"type": "text", "text": randomText(r, 2000), "_meta": map[string]any{"k": "v"}}
			if r.IntN(3) == 0 {
				block = map[string]any{"type": "image", "data": strings.Repeat("A", r.IntN(4000))}
			}
			in.Content = append(in.Content, cut.Encode(block))
		}
		if r.IntN(2) == 0 {
			in.StructuredContent = cut.Encode(randomValue(r, 5))
		}
		size := leastResultLimit + r.IntN(4000)
		out := limit(in, size)
		if got := contentSize(out.Content) + len(out.StructuredContent); got > size {
			t.Fatalf("%d bytes, limit %d", got, size)
		}
		for _, b := range append(out.Content, out.StructuredContent) {
			if len(b) > 0 && (!json.Valid(b) || !utf8.Valid(b)) {
				t.Fatalf("no JSON: %s", b)
			}
		}
		whole := contentSize(in.Content)+len(in.StructuredContent) <= size
		if whole != (out.Truncated == "") || whole != (out == in) {
			t.Fatalf("truncated = %q for a result that fits: %v", out.Truncated, whole)
		}
	}
}

func TestLimitCutsWhereItHurtsLeast(t *testing.T) {
	text := func(s string) json.RawMessage { return contracts.TextResult(s, nil).Content[0] }
	image := cut.Encode(map[string]any{"type": "image", "data": strings.Repeat("A", 5000)})
	items := make([]any, 1000)
	for i := range items {
		items[i] = map[string]any{"id": i}
	}
	for name, tt := range map[string]struct {
		in        *contracts.Result
		content   []string // substrings of the blocks
		structure string   // a beginning
		truncated []string
	}{
		"long text": {
			&contracts.Result{Content: []json.RawMessage{text(strings.Repeat("é", 5000))}},
			[]string{`éé\n[cut: `}, "", []string{"content: block 1 cut to ", " of 5000 characters"},
		},
		"an image among texts": {
			&contracts.Result{Content: []json.RawMessage{text("one"), image, text("two")}},
			[]string{"one", "two", "1 of 3 blocks left out"}, "", []string{"1 of 3 blocks left out (5026 bytes)"},
		},
		"many items": {
			&contracts.Result{StructuredContent: cut.Encode(map[string]any{"total": 1000, "items": items, "next": "abc"})},
			nil, `{"items":[{"id":0},{"id":1},`, []string{"structuredContent: /items cut to ", " of 1000 items"},
		},
		"one big string": {
			&contracts.Result{StructuredContent: cut.Encode(map[string]any{"ok": true, "page": strings.Repeat("x", 9000)})},
			nil, `{"ok":true,"page":"xxx`, []string{"/page cut to ", " of 9000 characters"},
		},
		"text and structure": {
			&contracts.Result{Content: []json.RawMessage{text(strings.Repeat("x", 5000))}, StructuredContent: cut.Encode(items)},
			[]string{`xx\n[cut: `}, `[{"id":0},`, []string{"content: block 1 cut", "; structuredContent: cut to "},
		},
	} {
		out := limit(tt.in, 2000)
		if len(out.Content) != len(tt.content) {
			t.Errorf("%s: %d blocks, want %d", name, len(out.Content), len(tt.content))
			continue
		}
		for i, want := range tt.content {
			if !strings.Contains(string(out.Content[i]), want) {
				t.Errorf("%s: block %d = %s, want %q in it", name, i, out.Content[i], want)
			}
		}
		if !strings.HasPrefix(string(out.StructuredContent), tt.structure) {
			t.Errorf("%s: structured = %s, want it to begin with %s", name, out.StructuredContent, tt.structure)
		}
		for _, want := range tt.truncated {
			if !strings.Contains(out.Truncated, want) {
				t.Errorf("%s: truncated = %q, want %q in it", name, out.Truncated, want)
			}
		}
		if got := contentSize(out.Content) + len(out.StructuredContent); got > 2000 || got < 1000 && name != "an image among texts" {
			t.Errorf("%s: %d bytes of 2000", name, got)
		}
	}
}

func TestLimitOf(t *testing.T) {
	for meta, want := range map[string]int{
		``: resultLimit, `{}`: resultLimit, `{"anthropic/maxResultSizeChars":2000}`: 2000, `{"anthropic/maxResultSizeChars":0}`: leastResultLimit,
		`{"anthropic/maxResultSizeChars":900000000}`: mostResultLimit, `{"anthropic/maxResultSizeChars":"many"}`: resultLimit,
	} {
		if got := limitOf(&contracts.Tool{Meta: json.RawMessage(meta)}); got != want {
			t.Errorf("limitOf(%s) = %d, want %d", meta, got, want)
		}
	}
}
