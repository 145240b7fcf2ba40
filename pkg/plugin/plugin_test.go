package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func nothing(context.Context, json.RawMessage) (*contracts.Result, error) { return nil, nil }

func TestMistakesAreReturnedByRun(t *testing.T) {
	good := Tool{Name: "a"}
	for name, tt := range map[string]struct {
		cfg    Config
		tool   Tool
		handle Handler
		want   string
	}{
		"tenant":       {Config{Tenant: "a.b", Name: "x"}, good, nothing, `tenant "a.b"`},
		"name":         {Config{Name: "A"}, good, nothing, `plugin "A"`},
		"no name":      {Config{}, good, nothing, `plugin ""`},
		"instructions": {Config{Name: "x", Instructions: strings.Repeat("x", 65<<10)}, good, nothing, "instructions: 66560 bytes"},
		"empty tool":   {Config{Name: "x"}, Tool{}, nothing, `tool "": want a name`},
		"odd tool":     {Config{Name: "x"}, Tool{Name: "a\nb"}, nothing, `tool "a\nb": want a name`},
		"no handler":   {Config{Name: "x"}, good, nil, "no handler"},
		"schema":       {Config{Name: "x"}, Tool{Name: "a", InputSchema: json.RawMessage("true")}, nothing, "inputSchema is no JSON object"},
		"output":       {Config{Name: "x"}, Tool{Name: "a", OutputSchema: json.RawMessage("{")}, nothing, "outputSchema is no JSON object"},
		"large":        {Config{Name: "x"}, Tool{Name: "a", Description: strings.Repeat("x", 600<<10)}, nothing, "at most 524288"},
	} {
		p := New(nil, tt.cfg)
		p.Tool(tt.tool, tt.handle)
		if err := p.Run(t.Context()); contracts.CodeOf(err) != contracts.CodeInvalid || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: Run = %v, want %q in it", name, err, tt.want)
		}
	}
}

// TestListing has the pages hold all tools once, in order, within the size, and the revision tell sets of tools apart.
func TestListing(t *testing.T) {
	p := New(nil, Config{Name: "x"})
	if l := p.listing(); len(l.pages) != 1 || len(l.pages[0]) != 0 {
		t.Errorf("the listing of no tools has the pages %v, want an empty one", l.pages)
	}
	const n = 1000
	for i := range n {
		p.Tool(Tool{Name: fmt.Sprintf("t%03d", i), Description: strings.Repeat("x", 1000)}, nothing)
	}
	p.Tool(Tool{Name: "large", Description: strings.Repeat("x", 400<<10)}, nothing)
	l := p.listing()
	var names []string
	for _, page := range l.pages {
		size := 0
		for _, raw := range page {
			var tool Tool
			if err := json.Unmarshal(raw, &tool); err != nil {
				t.Fatal(err)
			}
			names = append(names, tool.Name)
			size += len(raw)
		}
		if size > pageSize && len(page) > 1 {
			t.Errorf("a page of %d tools has %d bytes, want at most %d", len(page), size, pageSize)
		}
	}
	if len(names) != n+1 || names[0] != "large" || names[1] != "t000" || names[n] != "t999" || len(l.pages) < 5 {
		t.Errorf("%d tools on %d pages, want %d", len(names), len(l.pages), n+1)
	}
	before := l.revision
	for _, step := range []struct {
		what string
		do   func()
	}{
		{"removed", func() { p.Remove("large") }}, {"replaced", func() { p.Tool(Tool{Name: "t000"}, nothing) }}, {"added", func() { p.Tool(Tool{Name: "u"}, nothing) }},
	} {
		step.do()
		now := p.listing().revision
		if now == before || now != p.listing().revision {
			t.Errorf("the revision %s after a tool was %s was %s before", now, step.what, before)
		}
		before = now
	}
}

func TestTyped(t *testing.T) {
	type in struct{ N int }
	for want, h := range map[string]Handler{
		`{"content":[{"type":"text","text":"n is 3"}]}`:                                Typed(func(_ context.Context, v in) (string, error) { return fmt.Sprint("n is ", v.N), nil }),
		`{"content":[{"type":"text","text":"[3]"}]}`:                                   Typed(func(_ context.Context, v in) ([]int, error) { return []int{v.N}, nil }),
		`{"content":[{"type":"text","text":"{\"N\":3}"}],"structuredContent":{"N":3}}`: Typed(func(_ context.Context, v in) (in, error) { return v, nil }),
	} {
		r, err := h(t.Context(), json.RawMessage(`{"n":3}`))
		if got, _ := json.Marshal(r); string(got) != want || err != nil {
			t.Errorf("result %s, %v, want %s", got, err, want)
		}
		if _, err := h(t.Context(), json.RawMessage(`{"n":"x"}`)); contracts.CodeOf(err) != contracts.CodeInvalidArgs {
			t.Errorf("wrong arguments: %v, want %s", err, contracts.CodeInvalidArgs)
		}
	}
}
