package schema

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func TestCheck(t *testing.T) {
	const object = `{"type":"object"}`
	for _, tt := range []struct{ name, in, out, want string }{
		{"create_event", object, "", ""},
		{"create_event", object, `{"type":"array"}`, ""},
		{"any characters: 日本!", object, "null", ""},
		{"no_input", "", "", ""},
		{"null_input", " null ", "", ""},
		{"true_input", "true", "", ""},
		{"false_input", "false", "", ""},
		{"untyped", `{"properties":{}}`, "", ""},
		{"typed", `{"type":["object","null"]}`, "", ""},
		{"", object, "", "the name is empty"},
		{strings.Repeat("x", 257), object, "", "the name has 257 bytes; want at most 256"},
		{"x\xff", object, "", "the name is not valid UTF-8"},
		{"x", `"string"`, "", "input schema: it is a string; want an object or a boolean"},
		{"x", `[]`, "", "input schema: it is an array; want an object or a boolean"},
		{"x", `{"type":"string"}`, "", `input schema: its type is "string"; want "object", arguments are an object`},
		{"x", `{"type":["string","null"]}`, "", `input schema: its types leave out "object"; arguments are an object`},
		{"x", `{"type":"object","properties":[]}`, "", "input schema: /properties is an array; want an object"},
		{"x", object, `{"$ref":"https://example.org"}`, "output schema: it refers to https://example.org; want only references within the schema"},
		{"x", object, `{`, "output schema: it is no valid JSON: unexpected EOF"},
	} {
		got := ""
		if err := Check(tt.name, json.RawMessage(tt.in), json.RawMessage(tt.out)); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("Check(%.20q, %s, %s) = %q, want %q", tt.name, tt.in, tt.out, got, tt.want)
		}
	}
}

func TestNormalise(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", `{"type":"object"}`},
		{" null\n", `{"type":"object"}`},
		{"true", `{"type":"object"}`},
		{"false", `{"type":"object","not":{}}`},
		{`{ "properties": {} }`, `{ "properties": {} }`},
		{`"x"`, `"x"`},
	} {
		if got := string(Normalise(json.RawMessage(tt.in))); got != tt.want {
			t.Errorf("Normalise(%q) = %s, want %s", tt.in, got, tt.want)
		}
	}
	v := mustCompile(t, string(Normalise(json.RawMessage("false"))))
	if v.Validate(json.RawMessage("{}")) == nil {
		t.Error("the schema false lets arguments through")
	}
}

func TestCache(t *testing.T) {
	c := NewCache(2)
	get := func(hash, raw string) *Validator {
		t.Helper()
		v, err := c.For(contracts.Hash(hash), json.RawMessage(raw))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	in, out := get("h", `{"type":"object"}`), get("h", `{"type":"array"}`)
	if in == out {
		t.Error("two schemas of one hash share a validator")
	}
	if get("h", `{"type":"object"}`) != in {
		t.Error("a kept validator is made again")
	}
	get("other", `{}`)
	if n := c.kept.Len(); n != 2 {
		t.Errorf("the cache holds %d, want 2", n)
	}
	if get("h", `{"type":"object"}`) != in || get("h", `{"type":"array"}`) == out {
		t.Error("the cache dropped another than the one used longest ago")
	}
	for range 2 {
		if _, err := c.For("bad", json.RawMessage(`{"type":3}`)); err == nil {
			t.Error("a bad schema has a validator")
		}
	}
}

func TestCacheCompilesOnce(t *testing.T) {
	c := NewCache(0)
	var mu sync.Mutex
	seen := map[*Validator]bool{}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			v, err := c.For("h", large(50))
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			seen[v] = true
			mu.Unlock()
		})
	}
	wg.Wait()
	if len(seen) != 1 {
		t.Errorf("%d validators were made, want 1", len(seen))
	}
}

func BenchmarkCache(b *testing.B) {
	c := NewCache(100)
	raw := usual()
	for b.Loop() {
		if _, err := c.For("h", raw); err != nil {
			b.Fatal(err)
		}
	}
}

func ExampleValidator_Validate() {
	v, err := Compile(json.RawMessage(`{"type":"object","properties":{"title":{"type":"string"},"count":{"type":"integer","minimum":1}},"required":["title"],"additionalProperties":false}`))
	if err != nil {
		panic(err)
	}
	for _, f := range v.Validate(json.RawMessage(`{"titel":"Lunch","count":0}`)) {
		fmt.Println(f.Field, f.Message)
	}
	// Output:
	// /count is too small; want at least 1
	// /titel is not a known property; did you mean "title"?
	// /title is missing; it is required: string
}
