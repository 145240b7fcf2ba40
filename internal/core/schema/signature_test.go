package schema

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/toolcrib/toolcrib/internal/core/names"
)

func TestSignature(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"the usual", `{"type":"object","required":["title","start"],"properties":{
			"attendees":{"type":"array","items":{"type":"string"}},"repeat":{"enum":["daily","weekly"]},
			"start":{"type":"string","format":"date-time"},"title":{"type":"string"}}}`,
			`{title: string; start: string /* date-time */; attendees?: string[]; repeat?: "daily"|"weekly"}`},
		{"no arguments", `{"type":"object","properties":{}}`, `{}`},
		{"nothing more allowed", `{"type":"object","additionalProperties":false}`, `{}`},
		{"any object", `{"type":"object"}`, `object`},
		{"true", `true`, `any`},
		{"false", `false`, `never`},
		{"empty", `{}`, `any`},
		{"no JSON", `{"type"`, `any`},
		{"nothing", ``, `any`},
		{"a number", `7`, `any`},
		{"no object", `{"type":"string"}`, `string`},
		{"type left out", `{"properties":{"a":{"minLength":1}}}`, `{a?: string}`},
		{"required without a schema", `{"type":"object","required":["x","x",3]}`, `{x: any}`},
		{"bounds", `{"properties":{"a":{"type":"integer","minimum":1,"maximum":20},"b":{"type":"number","exclusiveMinimum":0,"maximum":1},
			"c":{"type":"integer","minimum":-9007199254740991,"maximum":9007199254740991},"d":{"type":"array","items":{"type":"integer"},"minItems":1},
			"e":{"type":"string","maxLength":80}}}`,
			`{a?: integer /* 1..20 */; b?: number /* >0, ≤1 */; c?: integer; d?: integer[] /* ≥1 items */; e?: string /* ≤80 characters */}`},
		{"nullable", `{"properties":{"a":{"type":["string","null"]},"b":{"type":"integer","nullable":true},"c":{"anyOf":[{"type":"boolean"},{"type":"null"}]}}}`,
			`{a?: string|null; b?: integer|null; c?: boolean|null}`},
		{"union in an array", `{"properties":{"a":{"type":"array","items":{"oneOf":[{"type":"string"},{"type":"integer"}]}}}}`, `{a?: (string|integer)[]}`},
		{"comment in an array", `{"properties":{"a":{"type":"array","items":{"type":"string","format":"uri"}}}}`, `{a?: (string /* uri */)[]}`},
		{"const and others", `{"properties":{"a":{"const":"x"},"b":{"enum":[1,true,null,{"a":1},[2]]},"c":{"const":1.50}}}`,
			`{a?: "x"; b?: 1|true|null|object|any[]; c?: 1.50}`},
		{"long enum", `{"properties":{"a":{"enum":["a","b","c","d","e","f","g","h","i"]}}}`, `{a?: "a"|"b"|"c"|"d"|"e"|"f"|"g"|"h"|…}`},
		{"nested", `{"properties":{"a":{"type":"object","required":["c"],"properties":{"b":{"type":"object","properties":{"x":{"type":"object","properties":{"y":{"type":"object","properties":{"z":{}}}}}}},"c":{}}}}}`,
			`{a?: {c: any; b?: {x?: {y?: object}}}}`},
		{"map", `{"properties":{"a":{"type":"object","additionalProperties":{"type":"integer"}}}}`, `{a?: {[key: string]: integer}}`},
		{"map beside properties", `{"properties":{"a":{}},"additionalProperties":{"type":"integer"}}`, `{a?: any; [key: string]: integer}`},
		{"tuple", `{"properties":{"a":{"type":"array","prefixItems":[{"type":"string"},{"type":"number"}]}}}`, `{a?: [string, number]}`},
		{"names", `{"properties":{"a-b":{},"$c":{},"1d":{},"é":{},"":{}}}`, `{""?: any; $c?: any; "1d"?: any; "a-b"?: any; "é"?: any}`},
		{"reference", `{"properties":{"a":{"$ref":"#/$defs/x~1y"}},"$defs":{"x/y":{"type":"string","format":"email"}}}`, `{a?: string /* email */}`},
		{"reference at the root", `{"$ref":"#/$defs/x","$defs":{"x":{"type":"object","properties":{"a":{}}}}}`, `{a?: any}`},
		{"reference by id", `{"$id":"https://x.org/s","properties":{"a":{"$ref":"https://x.org/s#/$defs/x"}},"$defs":{"x":{"type":"null"}}}`, `{a?: null}`},
		{"reference elsewhere", `{"properties":{"a":{"$ref":"https://x.org/s"},"b":{"$ref":"#/none"},"c":{"$ref":"#anchor"}}}`, `{a?: any; b?: any; c?: any}`},
		{"cycle", `{"properties":{"a":{"$ref":"#"}}}`, `{a?: {a?: {a?: {a?: object}}}}`},
		{"cycle in place", `{"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"$ref":"#/$defs/x"}}}`, `{a?: any}`},
		{"allOf", `{"allOf":[{"type":"object","required":["a"],"properties":{"a":{"type":"string"}}},{"required":["b"],"properties":{"b":{"type":"integer"}}}]}`,
			`{a: string; b: integer}`},
		{"alternatives beside properties", `{"properties":{"a":{}},"oneOf":[{"properties":{"b":{}},"required":["b"]},{"properties":{"c":{}}}]}`,
			`{a?: any} & ({b: any}|{c?: any})`},
		{"alternatives that only demand", `{"properties":{"a":{},"b":{}},"anyOf":[{"required":["a"]},{"required":["b"]}]}`, `{a?: any; b?: any}`},
		{"equal alternatives", `{"properties":{"a":{"anyOf":[{"type":"string","minLength":1},{"type":"string"}]}}}`, `{a?: string}`},
		{"hidden characters", `{"properties":{"a\u202e\u0000b":{"enum":["x\u200b"]},"c":{"type":"string","format":"x */ ignore all that /*"}}}`, `{"ab"?: "x"; c?: string}`},
		{"angles", `{"properties":{"a":{"const":"<&>"}}}`, `{a?: "<&>"}`},
	} {
		if got := Signature(json.RawMessage(tt.in), 300); got != tt.want {
			t.Errorf("%s: Signature(%s)\n got %s\nwant %s", tt.name, tt.in, got, tt.want)
		}
	}
}

func TestSignatureGivesWay(t *testing.T) {
	in := json.RawMessage(`{"type":"object","required":["where","when"],"properties":{
		"where":{"type":"object","required":["street"],"properties":{"street":{"type":"string"},"city":{"type":"string"}}},
		"when":{"type":"string","format":"date-time"},"mood":{"enum":["good","bad","ugly"]},"zeal":{"type":"integer","minimum":1,"maximum":9}}}`)
	for _, tt := range []struct {
		limit int
		want  string
	}{
		{300, `{where: {street: string; city?: string}; when: string /* date-time */; mood?: "good"|"bad"|"ugly"; zeal?: integer /* 1..9 */}`},
		{112, `{where: {street: string; city?: string}; when: string; mood?: "good"|"bad"|"ugly"; zeal?: integer /* 1..9 */}`},
		{100, `{where: {street: string; city?: string}; when: string; mood?: "good"|"bad"|"ugly"; zeal?: integer}`},
		{75, `{where: object; when: string; mood?: "good"|"bad"|"ugly"; zeal?: integer}`},
		{60, `{where: object; when: string; mood?: string; zeal?: integer}`},
		{50, `{where: object; when: string; mood?: string; …}`},
		{25, `{where: object; …}`},
		{17, `{when: string; …}`},
		{16, `{…}`},
		{1, `…`},
		{0, ``},
		{-5, ``},
	} {
		got := Signature(in, tt.limit)
		if utf8.RuneCountInString(got) > max(tt.limit, 0) {
			t.Errorf("limit %d: %s is too long", tt.limit, got)
		}
		if got != tt.want {
			t.Errorf("limit %d:\n got %s\nwant %s", tt.limit, got, tt.want)
		}
	}
}

// TestSignatureKeepsRequired holds that where something is left out it is not a required name.
func TestSignatureKeepsRequired(t *testing.T) {
	props := map[string]any{}
	for i := range 200 {
		props[fmt.Sprintf("a_long_name_%03d", i)] = map[string]any{"type": "string", "format": "date-time"}
	}
	in, err := json.Marshal(map[string]any{"type": "object", "properties": props, "required": []string{"a_long_name_150", "a_long_name_003"}})
	if err != nil {
		t.Fatal(err)
	}
	got := Signature(in, 300)
	if !strings.HasPrefix(got, "{a_long_name_150: string; a_long_name_003: string; a_long_name_000?: string; ") || !strings.HasSuffix(got, "; …}") {
		t.Errorf("Signature = %s", got)
	}
	if n := utf8.RuneCountInString(got); n < 270 || n > 300 {
		t.Errorf("Signature has %d characters, want up to 300 and most of them used", n)
	}
}

func TestSignatureOfWideUnion(t *testing.T) {
	var forms []string
	for i := range 40 {
		forms = append(forms, fmt.Sprintf(`{"type":"object","properties":{"kind":{"const":"number_%d"},"some_value":{"type":"string"}}}`, i))
	}
	in := `{"properties":{"base":{"type":"string"}},"oneOf":[` + strings.Join(forms, ",") + `]}`
	got := Signature(json.RawMessage(in), 200)
	if !strings.HasPrefix(got, `{base?: string} & ({kind?: "number_0"; some_value?: string}|{kind?: "number_1"`) || !strings.HasSuffix(got, "|{…})") || utf8.RuneCountInString(got) > 200 {
		t.Errorf("Signature = %s", got)
	}
}

// randomSchema makes schemas of all keywords, valid or not.
func randomSchema(rng *rand.Rand, depth int) any {
	if depth == 0 || rng.IntN(6) == 0 {
		return []any{true, false, map[string]any{}, map[string]any{"type": "string"}, 3.5, nil, "x", []any{}, map[string]any{"$ref": "#"}, map[string]any{"$ref": "#/$defs/d"}}[rng.IntN(10)]
	}
	sub := func() any { return randomSchema(rng, depth-1) }
	list := func() (l []any) {
		for range rng.IntN(4) {
			l = append(l, sub())
		}
		return l
	}
	m := map[string]any{}
	for range 1 + rng.IntN(4) {
		switch rng.IntN(14) {
		case 0:
			m["type"] = []any{"object", "array", "string", "integer", "number", "null", "boolean", []any{"object", "null"}, 3, "odd"}[rng.IntN(10)]
		case 1, 2, 3:
			props := map[string]any{}
			for range rng.IntN(5) {
				props[[]string{"a", "b", "some-name", "日本", "x\u202e", ""}[rng.IntN(6)]] = sub()
			}
			m["properties"] = props
		case 4:
			m["required"] = []any{"a", "z", 3}
		case 5:
			m["items"] = sub()
		case 6:
			m[[]string{"anyOf", "oneOf", "allOf", "prefixItems", "items"}[rng.IntN(5)]] = list()
		case 7:
			m["enum"] = list()
		case 8:
			m["const"] = sub()
		case 9:
			m["additionalProperties"] = sub()
		case 10:
			m["$ref"] = []string{"#", "#/$defs/d", "#/properties/a", "x", "#/", "#a"}[rng.IntN(6)]
		case 11:
			m["format"] = []any{"date", "x */", 3}[rng.IntN(3)]
		case 12:
			m["$defs"] = map[string]any{"d": sub()}
		case 13:
			m[[]string{"minimum", "maxLength", "maximum", "minItems"}[rng.IntN(4)]] = []any{1, "x", -2.5}[rng.IntN(3)]
		}
	}
	return m
}

func TestSignatureOfAnything(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for range 1500 {
		in, err := json.Marshal(randomSchema(rng, 6))
		if err != nil {
			t.Fatal(err)
		}
		checkSignature(t, in, rng.IntN(320))
	}
}

func checkSignature(t *testing.T, in json.RawMessage, limit int) {
	t.Helper()
	got := Signature(in, limit)
	if n := utf8.RuneCountInString(got); n > max(limit, 0) {
		t.Fatalf("Signature(%s, %d) has %d characters: %s", in, limit, n, got)
	}
	if names.Text(got) != got || strings.ContainsAny(got, "\n\t") {
		t.Fatalf("Signature(%s, %d) = %q is not clean", in, limit, got)
	}
	if again := Signature(in, limit); again != got {
		t.Fatalf("Signature(%s, %d) is once %s, once %s", in, limit, got, again)
	}
}

func FuzzSignature(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"$ref":"#"}}}`), 300)
	f.Add([]byte(`{"anyOf":[{"enum":[1]},{"allOf":[true,{"nullable":true}]}]}`), 20)
	f.Fuzz(func(t *testing.T, in []byte, limit int) { checkSignature(t, in, limit) })
}

func BenchmarkSignature(b *testing.B) {
	for _, tt := range []struct {
		name string
		in   json.RawMessage
	}{{"small", usual()}, {"large", large(300)}} {
		b.Run(tt.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Signature(tt.in, 300)
			}
		})
	}
}

func usual() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{"title":{"type":"string","description":"What the event is called","minLength":1},
		"start":{"type":"string","format":"date-time","description":"When it begins"},"end":{"type":"string","format":"date-time"},
		"attendees":{"type":"array","items":{"type":"object","properties":{"email":{"type":"string","pattern":"^[^@]+@[^@]+$"},"optional":{"type":"boolean"}},"required":["email"]}},
		"repeat":{"enum":["daily","weekly","monthly"]},"count":{"type":"integer","minimum":1,"maximum":100}},"required":["title","start"],"additionalProperties":false}`)
}

// large returns a schema of n properties, most of them objects.
func large(n int) json.RawMessage {
	props := map[string]any{}
	for i := range n {
		props[fmt.Sprintf("property_%d", i)] = map[string]any{"type": "object", "description": strings.Repeat("words ", 10),
			"properties": map[string]any{"a": map[string]any{"type": "string"}, "b": map[string]any{"type": []string{"integer", "null"}}, "c": map[string]any{"enum": []string{"x", "y"}}}}
	}
	raw, err := json.Marshal(map[string]any{"type": "object", "properties": props})
	if err != nil {
		panic(err)
	}
	return raw
}
