package openapi

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/schema"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// huge returns a document of n operations over n/3 schemas, each of which refers to two others.
func huge(n int) string {
	var b strings.Builder
	b.WriteString("openapi: 3.1.0\ninfo: {title: Huge, version: '1'}\nservers: [{url: 'https://api.example.com/v1'}]\npaths:\n")
	for i := range n / 3 {
		fmt.Fprintf(&b, `  /things%[1]d/{id}:
    parameters:
      - {name: id, in: path, required: true, schema: {type: string}}
    get:
      operationId: getThing%[1]d
      summary: Get thing %[1]d
      description: Returns the thing number %[1]d with everything that belongs to it, its parts and its history.
      parameters:
        - {name: expand, in: query, schema: {type: array, items: {type: string, enum: [a, b, c]}}}
      responses:
        '200': {description: ok, content: {application/json: {schema: {$ref: '#/components/schemas/Thing%[1]d'}}}}
    put:
      operationId: putThing%[1]d
      requestBody: {required: true, content: {application/json: {schema: {$ref: '#/components/schemas/Thing%[1]d'}}}}
      responses: {'200': {description: ok, content: {application/json: {schema: {$ref: '#/components/schemas/Thing%[1]d'}}}}}
    delete:
      operationId: deleteThing%[1]d
      responses: {'204': {description: gone}}
`, i)
	}
	b.WriteString("components:\n  schemas:\n")
	for i := range n / 3 {
		fmt.Fprintf(&b, `    Thing%[1]d:
      type: object
      required: [id, name]
      properties:
        id: {type: string, readOnly: true, description: The identifier of the thing}
        name: {type: [string, 'null'], maxLength: 200, description: What people call it}
        parent: {$ref: '#/components/schemas/Thing%[1]d'}
        next: {$ref: '#/components/schemas/Thing%[2]d'}
        tags: {type: array, items: {type: string}}
        state: {type: string, enum: [new, open, closed]}
`, i, (i+1)%(n/3))
	}
	return b.String()
}

// served serves one document.
func served(t testing.TB, text string) string {
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) }))
	t.Cleanup(ts.Close)
	return ts.URL
}

func TestHuge(t *testing.T) {
	const n = 1500
	c := connect(t, Target{URL: served(t, huge(n))})
	tools := list(t, c)
	if len(tools) != n {
		t.Fatalf("%d tools, want %d", len(tools), n)
	}
	total := 0
	in, out := budgets(n)
	for _, tool := range tools {
		total += len(tool.InputSchema) + len(tool.OutputSchema) + len(tool.Binding)
		if len(tool.InputSchema) > 2*in.bytes || len(tool.OutputSchema) > 2*out.bytes {
			t.Errorf("%s: %d and %d bytes of schema", tool.Name, len(tool.InputSchema), len(tool.OutputSchema))
		}
	}
	for _, name := range []string{"getThing0", "putThing7", "deleteThing499"} {
		if err := schema.Check(name, tools[name].InputSchema, tools[name].OutputSchema); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !strings.Contains(string(tools["putThing0"].InputSchema), "Left out because of its size") {
		t.Error("a schema that leads to all others is whole")
	}
	if total > 16<<20 {
		t.Errorf("%d tools take %d bytes", len(tools), total)
	}
}

func BenchmarkList(b *testing.B) {
	url := served(b, huge(1500))
	c, err := Dial(Config{OwnAddresses: true, Resolve: func() (Target, error) { return Target{URL: url}, nil }})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if l, _, err := c.List(b.Context()); err != nil || len(l.Tools) != 1500 {
			b.Fatal(err)
		}
	}
}

// Documents that would grow without end, or be nested without end, are refused, and quickly.
func TestHostileDocuments(t *testing.T) {
	bomb := "openapi: 3.0.0\nx0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	for i := range 9 {
		bomb += fmt.Sprintf("x%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 10), ","))
	}
	inSchema := "openapi: 3.0.0\ninfo: {}\nx: &a0 {type: object, properties: {a: {type: string}, b: {type: string}}}\n"
	for i := range 8 {
		inSchema += fmt.Sprintf("x%d: &a%d {type: object, properties: {a: *a%d, b: *a%d, c: *a%d}}\n", i, i+1, i, i, i)
	}
	inSchema += "paths: {/a: {get: {operationId: a, servers: [{url: 'http://a.example'}], parameters: [{name: q, in: query, schema: *a8}]}}}\n"
	for name, tt := range map[string]struct{ text, want string }{
		"aliases":     {bomb, "more than 2000000 values"},
		"schema":      {inSchema, "a schema holds more than 6000 values"},
		"itself":      {"openapi: 3.0.0\npaths: &p {/a: *p}", "is used within itself"},
		"deep JSON":   {`{"openapi":"3.0.0","x":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + "}", "nested deeper"},
		"deeper JSON": {strings.Repeat("[", 1_000_000), "neither JSON nor YAML"},
		"deep YAML":   {"openapi: 3.0.0\nx: " + strings.Repeat("[", 300) + strings.Repeat("]", 300), "nested deeper"},
		"two JSON":    {`{"openapi":"3.0.0"} {}`, "two documents"},
		"two YAML":    {"openapi: 3.0.0\n---\nopenapi: 3.0.0\n", "two documents"},
		"key":         {"openapi: 3.0.0\n? [a]\n: b\n", "a key is no plain text"},
	} {
		begin := time.Now()
		_, _, err := connect(t, Target{URL: served(t, tt.text)}).List(t.Context())
		if contracts.CodeOf(err) != contracts.CodeSourceUnavailable || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %.200v, want %q", name, err, tt.want)
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("%s: it took %v", name, took)
		}
	}
}

func TestWildcard(t *testing.T) {
	for _, tt := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true}, {"*", "", true}, {"*", "a/b", true}, {"a*", "b", false}, {"*b", "ab", true}, {"a*c", "abbc", true}, {"a?c", "abc", true},
		{"a?c", "ac", false}, {"*a*b*", "xxaxxbxx", true}, {"*a*b*", "ba", false}, {"a", "ab", false}, {"**", "x", true},
	} {
		if got := wildcard(tt.pattern, tt.text); got != tt.want {
			t.Errorf("wildcard(%q, %q) = %v, want %v", tt.pattern, tt.text, got, tt.want)
		}
	}
	long := strings.Repeat("a", 1000)
	if wildcard(strings.Repeat("*a", 500)+"b", long) {
		t.Error("a pattern matches what it should not")
	}
}
