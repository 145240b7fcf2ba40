package embedded

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadSchema(t *testing.T) {
	for _, tt := range []struct {
		name, in     string
		names, texts []string
	}{
		{"flat", `{"type":"object","title":"Args","description":"all of it","properties":{"a":{"description":"one"},"b":{"type":"string","enum":["x","y",3,null]}}}`,
			[]string{"a", "b"}, []string{"one", "x", "y"}},
		{"nested", `{"properties":{"list":{"items":{"properties":{"deep":{"title":"T"}}}},"map":{"additionalProperties":{"description":"v"}}}}`,
			[]string{"list", "deep", "map"}, []string{"T", "v"}},
		{"alternatives", `{"anyOf":[{"properties":{"a":{}}},{"properties":{"b":{"oneOf":[{"const":"c"},{"allOf":[{"description":"d"}]}]}}}]}`,
			[]string{"a", "b"}, []string{"c", "d"}},
		{"recursive reference", `{"properties":{"node":{"$ref":"#/$defs/node"},"self":{"$ref":"#"}},"$defs":{"node":{"description":"a node","properties":{"next":{"$ref":"#/$defs/node"}}}}}`,
			[]string{"node", "self", "next"}, []string{"a node"}},
		{"a property called properties", `{"properties":{"properties":{"description":"p","properties":{"title":{}}}}}`,
			[]string{"properties", "title"}, []string{"p"}},
		{"escapes", `{"properties":{"na\"me\u00e9":{"description":"a\\b\n\"c\""}}}`, []string{"na\"meé"}, []string{"a\\b\n\"c\""}},
		{"white space", " {\n\t\"properties\" : { \"a\" : { \"description\" : \"d\" , \"minimum\" : 1 } } , \"required\" : [ ] } ", []string{"a"}, []string{"d"}},
		{"no objects", `{"properties":[{"a":{}}],"items":7,"anyOf":"x","description":{"a":"b"}}`, nil, nil},
		{"texts of other types", `{"properties":{"a":{"description":5,"title":["t",["u",{"v":"w"}]],"enum":{"x":"y"},"default":"no","examples":["no"]}}}`,
			[]string{"a"}, []string{"t", "u"}},
		{"array", `[{"properties":{"a":{}}}]`, nil, nil},
		{"true", `true`, nil, nil},
		{"number", `-1.5e3`, nil, nil},
		{"string", `"properties"`, nil, nil},
		{"no JSON", `{"properties":{"a":`, nil, nil},
		{"nothing", ``, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := readSchema(json.RawMessage(tt.in))
			if diff := cmp.Diff(tt.names, got.names); diff != "" {
				t.Errorf("names differ (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.texts, got.texts); diff != "" {
				t.Errorf("texts differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadSchemaIsBounded(t *testing.T) {
	var many strings.Builder
	for range 5 * maxSchemaParams {
		many.WriteString(`"p":{"description":"` + strings.Repeat("x", 100) + `"},`)
	}
	for name, in := range map[string]string{
		"deep schemas": strings.Repeat(`{"items":`, 3000) + `{"description":"x"}` + strings.Repeat(`}`, 3000),
		"deep arrays":  `{"anyOf":` + strings.Repeat(`[`, 9000) + strings.Repeat(`]`, 9000) + `}`,
		"too deep":     strings.Repeat(`{"not":`, 20000) + `1` + strings.Repeat(`}`, 20000),
		"many":         `{"properties":{` + many.String() + `"z":{}}}`,
		"large":        `{"properties":{"a":{"description":"` + strings.Repeat("x", maxSchemaBytes) + `"}}}`,
		"long text":    `{"properties":{"a":{"description":"` + strings.Repeat("x", maxSchemaText+1) + `"}}}`,
	} {
		t.Run(name, func(t *testing.T) { checkParameters(t, readSchema(json.RawMessage(in))) })
	}
}

func TestReadSchemaReadsDownToTheBound(t *testing.T) {
	schema := func(depth int) json.RawMessage {
		return json.RawMessage(strings.Repeat(`{"properties":{"p":`, depth) + `{}` + strings.Repeat(`}}`, depth))
	}
	if got := len(readSchema(schema(maxSchemaDepth)).names); got != maxSchemaDepth {
		t.Errorf("%d names of %d nested ones", got, maxSchemaDepth)
	}
	if got := len(readSchema(schema(3 * maxSchemaDepth)).names); got > maxSchemaDepth+1 {
		t.Errorf("%d names from a schema that is too deep, want at most %d", got, maxSchemaDepth+1)
	}
}

func checkParameters(t *testing.T, p parameters) {
	t.Helper()
	size := 0
	for _, s := range p.texts {
		size += len(s)
	}
	if len(p.names) > maxSchemaParams || size > maxSchemaText {
		t.Errorf("%d names and %d bytes of text, want at most %d and %d", len(p.names), size, maxSchemaParams, maxSchemaText)
	}
}

func FuzzReadSchema(f *testing.F) {
	for _, s := range []string{``, `{}`, `[]`, `{"properties":{"a":{"description":"b","enum":["c",1]}}}`, `{"$ref":"#","$defs":{"a":{"anyOf":[{"title":"t"}]}}}`,
		`{"items":[{"items":true}],"const":"\u00e9\\\""}`, `{"properties":{"properties":{"items":{"properties":null}}}}`, ` { "a" : [ 1 , { } , "}" ] } `} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		p := readSchema(raw)
		checkParameters(t, p)
		if !json.Valid(raw) && (p.names != nil || p.texts != nil) {
			t.Errorf("readSchema(%q) = %v, want nothing of what is no JSON", raw, p)
		}
		Build(listing("x", tool("a", "b")))
	})
}
