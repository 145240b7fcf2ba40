package tokens

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

func TestCount(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want int
	}{
		{"", 0},
		{"hello world", 2},
		{"Hello, world!", 4},
		{"create_event", 2},
		{"   ", 1},
		{"こんにちは", 1},
		{`{"type":"object"}`, 5},
	} {
		if got := Count(tt.in); got != tt.want {
			t.Errorf("Count(%q) = %d, want %d", tt.in, got, tt.want)
		}
	}
}

// TestSplitChangesNothing compares counts of pieces with counts of the whole.
func TestSplitChangesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	words := []string{"hello", " world", "'s", " ", "  ", "\n", "\n\n", " \n ", "\t", "!", "...", "/", "12345", " 7", "Ünïcode", "世界", "\u00a0", "{\"a\":\"b\"}", "\xff", "e\u0301", "CamelCase", " A"}
	for range 8 {
		var b strings.Builder
		for b.Len() < 3*pieceBytes {
			b.WriteString(words[rng.IntN(len(words))])
		}
		s := b.String()
		if split(s) == len(s) {
			t.Fatal("the text is not split at all")
		}
		if got, want := Count(s), count(s); got != want {
			t.Fatalf("Count = %d, of the whole %d:\n%q", got, want, s)
		}
	}
}

// TestHardTexts counts texts that are hard for a tokenizer; without pieces some take minutes.
func TestHardTexts(t *testing.T) {
	const size = 1 << 17
	letters := make([]byte, size)
	for i := range letters {
		letters[i] = 'a' + byte(rand.IntN(26))
	}
	for name, s := range map[string]string{
		"one letter": strings.Repeat("a", size), "capitals": strings.Repeat("A", size), "letters": string(letters),
		"spaces": strings.Repeat(" ", size), "lines": strings.Repeat("\n", size), "empty lines": strings.Repeat(" \n", size/2),
		"marks": strings.Repeat("\u0301", size/2), "invalid": strings.Repeat("\xff", size), "signs": strings.Repeat("!", size),
		"wide spaces": strings.Repeat("\u2003\n", size/4),
	} {
		if n := Count(s); n == 0 || n > len(s) {
			t.Errorf("%s: Count = %d of %d bytes", name, n, len(s))
		}
		longest := 0
		for rest := s; rest != ""; {
			n := split(rest)
			longest = max(longest, n)
			rest = rest[n:]
		}
		if longest > unbrokenBytes+4 || strings.TrimSpace(s) == "" && longest > spaceBytes+4 {
			t.Errorf("%s: a piece has %d bytes", name, longest)
		}
	}
}

func TestDefinition(t *testing.T) {
	for _, tt := range []struct{ name, description, schema, want string }{
		{"a", "", `{ "type" : "object" }`, `{"name":"a","description":"","inputSchema":{"type":"object"}}`},
		{"a", "x < y & \"z\"\n", `{"enum":["<&>"]}`, `{"name":"a","description":"x < y & \"z\"\n","inputSchema":{"enum":["<&>"]}}`},
		{"a", "b", "", `{"name":"a","description":"b","inputSchema":null}`},
		{"a", "b", `{"x":[1,`, `{"name":"a","description":"b","inputSchema":{"x":[1,}`},
	} {
		size, n := Definition(tt.name, tt.description, json.RawMessage(tt.schema))
		if size != len(tt.want) || n != Count(tt.want) {
			t.Errorf("Definition(%q, %q, %q) = %d, %d, want %d, %d", tt.name, tt.description, tt.schema, size, n, len(tt.want), Count(tt.want))
		}
	}
}

func TestConcurrent(t *testing.T) {
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if got := Count("hello world"); got != 2 {
				t.Errorf("Count = %d, want 2", got)
			}
		})
	}
	wg.Wait()
}

func FuzzCount(f *testing.F) {
	f.Add("hello world")
	f.Add("\xff \n\u0301")
	f.Fuzz(func(t *testing.T, s string) {
		n := Count(s)
		if n > len(s) {
			t.Fatalf("Count(%q) = %d", s, n)
		}
		if len(s) < spaceBytes && n != count(s) {
			t.Fatalf("Count(%q) = %d, want %d", s, n, count(s))
		}
	})
}

func BenchmarkDefinition(b *testing.B) {
	schema := json.RawMessage(`{"type":"object","properties":{"title":{"type":"string","description":"What the event is called"},"start":{"type":"string","format":"date-time","description":"When it begins"},"attendees":{"type":"array","items":{"type":"string"}}},"required":["title","start"]}`)
	size, _ := Definition("create_event", "Creates an event in a calendar.", schema)
	b.SetBytes(int64(size))
	for b.Loop() {
		Definition("create_event", "Creates an event in a calendar.", schema)
	}
}
