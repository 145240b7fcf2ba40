package schema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func mustCompile(t testing.TB, raw string) *Validator {
	t.Helper()
	v, err := Compile(json.RawMessage(raw))
	if err != nil {
		t.Fatalf("Compile(%s): %v", raw, err)
	}
	return v
}

// wrong writes field errors as "pointer message".
func wrong(fields []contracts.FieldError) []string {
	var list []string
	for _, f := range fields {
		list = append(list, f.Field+" "+f.Message)
	}
	return list
}

func TestValidate(t *testing.T) {
	const draft7 = `"$schema":"http://json-schema.org/draft-07/schema#",`
	for _, tt := range []struct {
		schema, args string
		want         []string
	}{
		// What fits.
		{`{"type":"object"}`, ``, nil},
		{`{"type":"object"}`, `{"x":1}`, nil},
		{`true`, `{}`, nil},
		{`{"properties":{"a":{"type":"integer"}}}`, `{"a":3.0}`, nil},
		{`{"properties":{"a":{"const":9007199254740993}}}`, `{"a":9007199254740993}`, nil},
		{`{"properties":{"a":{"maxLength":1e30}}}`, `{"a":"long enough"}`, nil},
		{`{"properties":{"a":{"format":"date-time"},"b":{"format":"vendor-thing"}}}`, `{"a":"x","b":"y"}`, nil},
		{`{` + draft7 + `"properties":{"a":{"format":"vendor-thing"}}}`, `{"a":"x"}`, nil},

		// Kinds and whole arguments.
		{`{"type":"object"}`, `null`, []string{" is null; want an object"}},
		{`{"type":"object"}`, `[1]`, []string{" is an array; want an object"}},
		{`{"type":"object"}`, `{`, []string{" the arguments cannot be read: it is no valid JSON: unexpected EOF"}},
		{`{"type":"object"}`, `{} {}`, []string{" the arguments cannot be read: it is no valid JSON: something follows the value"}},
		{`{"type":"object"}`, `{"a":{"b":1,"b":2}}`, []string{" the arguments cannot be read: an object in it has the same property twice"}},
		{`{"type":"object"}`, `{"a":1e99999999}`, []string{" the arguments cannot be read: a number in it is out of range; want an exponent from -400 to 400"}},
		{`false`, `{}`, []string{" is not allowed"}},
		{`{"properties":{"a":{"type":["string","null"]},"b":{"type":"integer"},"c":{"type":"integer"}}}`, `{"a":true,"b":1.5,"c":"1"}`,
			[]string{"/a is a boolean; want null or a string", "/b is a number with a fraction; want an integer", "/c is a string; want an integer"}},

		// Names.
		{`{"required":["a","b"],"properties":{"a":{"type":"string"},"b":{}}}`, `{}`, []string{"/a is missing; it is required: string", "/b is missing; it is required"}},
		{`{"properties":{"title":{},"start":{}},"additionalProperties":false}`, `{"titel":1,"x":2}`,
			[]string{`/titel is not a known property; did you mean "title"?`, `/x is not a known property; known: "start", "title"`}},
		{`{"additionalProperties":false}`, `{"x":2}`, []string{"/x is not a known property"}},
		{`{"allOf":[{"properties":{"title":{}}}],"unevaluatedProperties":false}`, `{"titel":1}`, []string{`/titel is not a known property; did you mean "title"?`}},
		{`{"properties":{"a/b~c":{"type":"string"}}}`, `{"a/b~c":1}`, []string{"/a~1b~0c is a number; want a string"}},
		{`{"properties":{"p":{"propertyNames":{"maxLength":2}},"z":{"items":false}}}`, `{"p":{"long":1},"z":[1]}`,
			[]string{"/p/long has a name that is not allowed: it has 4 characters; want at most 2", "/z/0 is not allowed"}},
		{`{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, []string{`/b is missing; it is required because "a" is given`}},
		{`{` + draft7 + `"dependencies":{"a":["b"]}}`, `{"a":1}`, []string{`/b is missing; it is required because "a" is given`}},
		{`{"minProperties":1}`, `{}`, []string{" has 0 properties; want at least 1"}},
		{`{"maxProperties":1}`, `{"a":1,"b":1}`, []string{" has 2 properties; want at most 1"}},

		// Values.
		{`{"properties":{"a":{"enum":["daily","weekly",null]}}}`, `{"a":"dayly"}`, []string{`/a is a string that is not allowed; want "daily", "weekly" or null; did you mean "daily"?`}},
		{`{"properties":{"a":{"const":"x"}}}`, `{"a":1}`, []string{`/a is a number that is not allowed; want "x"`}},
		{`{"properties":{"a":{"minimum":1,"maximum":2},"b":{"exclusiveMinimum":0.5},"c":{"exclusiveMaximum":18446744073709551616},"d":{"maximum":2}}}`,
			`{"a":0,"b":0.5,"c":18446744073709551616,"d":2.00000000000000000001}`,
			[]string{"/a is too small; want at least 1", "/b is too small; want more than 0.5", "/c is too large; want less than 18446744073709551616", "/d is too large; want at most 2"}},
		{`{"properties":{"a":{"multipleOf":0.1}}}`, `{"a":0.35}`, []string{"/a is no multiple of 0.1"}},
		{`{"properties":{"a":{"minLength":2},"b":{"maxLength":1}}}`, `{"a":"é","b":"éé"}`, []string{"/a has 1 character; want at least 2", "/b has 2 characters; want at most 1"}},
		{`{"properties":{"a":{"pattern":"^[a-z]+$"}}}`, `{"a":"A"}`, []string{"/a does not match the pattern ^[a-z]+$"}},
		{`{` + draft7 + `"properties":{"a":{"format":"date-time"}}}`, `{"a":"soon"}`, []string{"/a is not a valid date-time; want something like 2026-01-31T09:30:00Z"}},
		{`{"properties":{"a":{"not":{"type":"string"}}}}`, `{"a":"x"}`, []string{"/a has a form that is not allowed"}},

		// Arrays.
		{`{"properties":{"a":{"items":{"type":"object","required":["x"]},"minItems":3}}}`, `{"a":[{"x":1},{}]}`, []string{"/a has 2 items; want at least 3", "/a/1/x is missing; it is required"}},
		{`{"properties":{"a":{"maxItems":1,"uniqueItems":true}}}`, `{"a":[1,1.0]}`, []string{"/a has 2 items; want at most 1; has equal items (0 and 1); want each only once"}},
		{`{"properties":{"a":{"contains":{"type":"string"}}}}`, `{"a":[1]}`, []string{"/a has no item of a form that it must contain"}},
		{`{` + draft7 + `"properties":{"a":{"items":[true],"additionalItems":false}}}`, `{"a":[1,2]}`, []string{"/a has 1 item too many"}},

		// References and drafts.
		{`{"properties":{"a":{"$ref":"#/$defs/d"}},"$defs":{"d":{"type":"object","required":["x"]}}}`, `{"a":{}}`, []string{"/a/x is missing; it is required"}},
		{`{"$schema":"https://example.org/mine","properties":{"a":{"type":"string"}}}`, `{"a":1}`, []string{"/a is a number; want a string"}},
		{`{"properties":{"a":{"minimum":3,"exclusiveMinimum":true}}}`, `{"a":3}`, []string{"/a is too small; want more than 3"}},
		{`{"properties":{"a":{"items":[{"type":"string"}]}}}`, `{"a":[1]}`, []string{"/a/0 is a number; want a string"}},
	} {
		got := wrong(mustCompile(t, tt.schema).Validate(json.RawMessage(tt.args)))
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s\nValidate(%s) (-want +got):\n%s", tt.schema, tt.args, diff)
		}
	}
}

func TestValidateAlternatives(t *testing.T) {
	v := mustCompile(t, `{"properties":{
		"pay":{"oneOf":[
			{"type":"object","properties":{"type":{"const":"card"},"number":{"type":"string"}},"required":["type","number"]},
			{"type":"object","properties":{"type":{"const":"cash"},"sum":{"type":"number"}},"required":["type","sum"]}]},
		"who":{"anyOf":[{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]},{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}]},
		"when":{"anyOf":[{"type":"string"},{"type":"null"}]},
		"how":{"anyOf":[{"const":"fast"},{"enum":["slow","lazy"]},{"type":"integer"}]},
		"where":{"anyOf":[{"type":"string","minLength":3},{"type":"string","pattern":"^x"}]},
		"both":{"oneOf":[{"type":"integer"},{"type":"number"}]},
		"deep":{"anyOf":[{"anyOf":[{"type":"string"},{"type":"boolean"}]},{"type":"null"}]}}}`)
	for _, tt := range []struct {
		args string
		want []string
	}{
		{`{"pay":{"type":"card"}}`, []string{"/pay/number is missing; it is required: string"}},
		{`{"pay":{"type":"cash","sum":"1"}}`, []string{"/pay/sum is a string; want a number"}},
		{`{"pay":{"type":"gold"}}`, []string{`/pay/type is a string that is not allowed; want "card" or "cash"`}},
		{`{"pay":7}`, []string{"/pay is a number; want an object"}},
		{`{"who":{}}`, []string{`/who lacks a property; want "id" or "name"`}},
		{`{"who":{"id":"x"}}`, []string{"/who/id is a string; want an integer"}},
		{`{"when":7}`, []string{"/when is a number; want a string or null"}},
		{`{"how":"now"}`, []string{`/how is a string that is not allowed; want "fast", "slow", "lazy" or an integer`}},
		{`{"where":"ab"}`, []string{"/where fits none of the allowed forms; want string"}},
		{`{"both":1}`, []string{"/both fits more than one of the allowed forms (numbers 1 and 2); it must fit exactly one"}},
		{`{"deep":1}`, []string{"/deep is a number; want a string, a boolean or null"}},
	} {
		got := wrong(v.Validate(json.RawMessage(tt.args)))
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("Validate(%s) (-want +got):\n%s", tt.args, diff)
		}
	}
}

func TestValuesStayOut(t *testing.T) {
	v := mustCompile(t, `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{
		"a":{"type":"integer"},"b":{"enum":["x"]},"c":{"pattern":"^x"},"d":{"format":"email"},"e":{"maxLength":2},"f":{"maximum":1},"g":{"anyOf":[{"const":1},{"const":2}]}}}`)
	args := json.RawMessage(`{"a":"hunter2","b":"hunter2","c":"hunter2","d":"hunter2","e":"hunter2","f":48151623,"g":"hunter2"}`)
	fields := v.Validate(args)
	if len(fields) != 7 {
		t.Errorf("%d fields are wrong, want 7: %v", len(fields), fields)
	}
	for _, f := range fields {
		if strings.Contains(f.Message, "hunter2") || strings.Contains(f.Message, "48151623") {
			t.Errorf("%s: %q tells the value", f.Field, f.Message)
		}
	}
}

func TestPatterns(t *testing.T) {
	for _, tt := range []struct {
		pattern, text string
		want          bool
	}{
		{`^a+$`, "aa", true},
		{`^a+$`, "b", false},
		{`^\p{L}+$`, "é", true},
		{`^\p{L}+$`, "1", false},
		{`^[\u4e00-\u9fff]+$`, "世界", true},
		{`^[\u4e00-\u9fff]+$`, "ab", false},
		{`^\u{1F600}$`, "😀", true},
		{`^\u{1F600}$`, "x", false},
		{`\\u0041`, `\u0041`, true},
		// Not checked: Go has no such thing.
		{`^(?!x).*$`, "x", true},
		{`^(a)\1$`, "b", true},
		{`^\p{Script=Greek}$`, "x", true},
		{`^.{1,5000}$`, "", true},
		{`[`, "x", true},
		{`\u12`, "x", true},
		{strings.Repeat("(a|b)", 1000), "x", true},
	} {
		raw, err := json.Marshal(map[string]any{"properties": map[string]any{"a": map[string]any{"pattern": tt.pattern}}})
		if err != nil {
			t.Fatal(err)
		}
		args, err := json.Marshal(map[string]string{"a": tt.text})
		if err != nil {
			t.Fatal(err)
		}
		if got := mustCompile(t, string(raw)).Validate(args) == nil; got != tt.want {
			t.Errorf("pattern %q takes %q: %v, want %v", tt.pattern, tt.text, got, tt.want)
		}
	}
}

// TestUncheckedPropertyPattern holds that a property pattern that cannot be run neither refuses a property nor checks it.
func TestUncheckedPropertyPattern(t *testing.T) {
	v := mustCompile(t, `{"patternProperties":{"^(?!x)":{"type":"string"},"^n_":{"type":"number"}},"additionalProperties":false}`)
	if got := wrong(v.Validate(json.RawMessage(`{"y":1,"n_a":2}`))); got != nil {
		t.Errorf("Validate = %q, want no error", got)
	}
	if got := wrong(v.Validate(json.RawMessage(`{"n_a":"x"}`))); len(got) != 1 {
		t.Errorf("Validate = %q, want one error", got)
	}
}

func TestCompileErrors(t *testing.T) {
	for _, tt := range []struct{ schema, want string }{
		{``, "no valid JSON"},
		{`{`, "no valid JSON"},
		{`3`, "it is a number; want an object or a boolean"},
		{`null`, "it is null; want an object or a boolean"},
		{`{"type":"strin"}`, `/type is a string that is not allowed; want "array", "boolean"`},
		{`{"properties":{"a":{"type":"string","required":true}}}`, "/properties/a/required is a boolean; want an array"},
		{`{"multipleOf":0}`, "/multipleOf is too small; want more than 0"},
		{`{"$ref":"#/$defs/none"}`, `"#/$defs/none" not found`},
		{`{"$ref":"other.json"}`, "it refers to other.json; want only references within the schema"},
		{`{"$ref":"https://example.org/s"}`, "it refers to https://example.org/s"},
		{`{"$ref":"file:///etc/hostname"}`, "it refers to file:///etc/hostname"},
		{`{"minimum":1e500}`, "out of range"},
		{`{"minimum":1` + strings.Repeat("0", 500) + `}`, "501 digits; want at most 400"},
		{strings.Repeat(`{"not":`, 70) + "{}" + strings.Repeat("}", 70), "nested 71 deep; want at most 64"},
		{`{"enum":[` + strings.Repeat("1,", 20_000) + `1]}`, "20003 values; want at most 10000"},
		{`{"title":"` + strings.Repeat("x", 1<<20) + `"}`, "bytes; want at most 1048576"},
	} {
		v, err := Compile(json.RawMessage(tt.schema))
		if err == nil || v != nil {
			t.Errorf("Compile(%.80s) = %v, %v, want an error", tt.schema, v, err)
			continue
		}
		if !strings.Contains(err.Error(), tt.want) || len(err.Error()) > 500 || strings.Contains(err.Error(), base) {
			t.Errorf("Compile(%.80s): %q does not say %q", tt.schema, err, tt.want)
		}
	}
}

func TestManyWrongFields(t *testing.T) {
	v := mustCompile(t, `{"additionalProperties":{"type":"string"}}`)
	args := map[string]int{strings.Repeat("n", 500): 1}
	for i := range 200 {
		args[fmt.Sprint("k", i)] = i
	}
	raw, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	got := v.Validate(raw)
	if len(got) != mostFields+1 || got[mostFields].Message != "151 more fields are wrong" {
		t.Errorf("%d entries, the last %+v", len(got), got[len(got)-1])
	}
	for _, f := range v.Validate(json.RawMessage(`{"` + strings.Repeat("n", 500) + `":1}`)) {
		if len(f.Field) > 200 {
			t.Errorf("a pointer has %d bytes", len(f.Field))
		}
	}
}

func TestConcurrentValidate(t *testing.T) {
	light, recursive := mustCompile(t, string(usual())), mustCompile(t, `{"properties":{"a":{"$ref":"#"},"b":{"type":"string"}}}`)
	if light.weight >= heavy || recursive.weight < heavy {
		t.Fatalf("weights are %d and %d, want a light and a heavy one", light.weight, recursive.weight)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 100 {
				if got := light.Validate(json.RawMessage(`{"title":"x"}`)); len(got) != 1 || got[0].Field != "/start" {
					t.Errorf("light: %v", got)
				}
				args := strings.Repeat(`{"a":`, i) + `{"b":1}` + strings.Repeat("}", i)
				if got := recursive.Validate(json.RawMessage(args)); len(got) != 1 || got[0].Field != strings.Repeat("/a", i)+"/b" {
					t.Errorf("recursive: %v", got)
				}
			}
		})
	}
	wg.Wait()
}

func FuzzValidate(f *testing.F) {
	f.Add([]byte(usual()), []byte(`{"title":1,"attendees":[{}],"x":2}`))
	f.Add([]byte(`{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"$ref":"#"},{"type":"null"}]}}}`), []byte(`{}`))
	f.Add([]byte(`{"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"a":["b"]},"patternProperties":{"(?!x)":false}}`), []byte(`{"a":1e5}`))
	f.Fuzz(func(t *testing.T, schema, args []byte) {
		v, err := Compile(schema)
		if err != nil {
			return
		}
		fields := v.Validate(args)
		if !slices.IsSortedFunc(fields[:min(len(fields), mostFields)], func(a, b contracts.FieldError) int { return strings.Compare(a.Field, b.Field) }) {
			t.Fatalf("not sorted: %v", fields)
		}
		for i, f := range fields {
			if f.Message == "" || i > 0 && i < mostFields && f.Field == fields[i-1].Field {
				t.Fatalf("a field without message, or twice: %v", fields)
			}
		}
		if again := v.Validate(args); (again == nil) != (fields == nil) {
			t.Fatalf("once %v, once %v", fields, again)
		}
		v.weight = heavy
		if guarded := v.Validate(args); (guarded == nil) != (fields == nil) {
			t.Fatalf("free %v, with a budget %v", fields, guarded)
		}
	})
}

func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		if _, err := Compile(usual()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkValidate(b *testing.B) {
	v := mustCompile(b, string(usual()))
	for name, args := range map[string]json.RawMessage{
		"ok":    json.RawMessage(`{"title":"Lunch","start":"2026-01-31T12:00:00Z","attendees":[{"email":"ada@example.org"},{"email":"bob@example.org","optional":true}],"repeat":"weekly","count":3}`),
		"wrong": json.RawMessage(`{"titel":"Lunch","start":7,"attendees":[{"email":"ada"}],"repeat":"weakly","count":300}`),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if (v.Validate(args) == nil) != (name == "ok") {
					b.Fatal("wrong answer")
				}
			}
		})
	}
}

func TestValidateOutput(t *testing.T) {
	v, err := Compile(json.RawMessage(`{"type":"object","properties":{"items":{"type":"array","items":{"type":"integer"}}},"required":["items"]}`))
	if err != nil {
		t.Fatal(err)
	}
	many := `{"items":[1` + strings.Repeat(",1", argsLimits().values) + `]}`
	for answer, wrong := range map[string]bool{`{"items":[1]}`: false, `{"items":["x"]}`: true, `{}`: true, many: false} {
		if got := v.ValidateOutput(json.RawMessage(answer)); len(got) > 0 != wrong {
			t.Errorf("ValidateOutput(%.40s) = %v", answer, got)
		}
	}
	if len(v.Validate(json.RawMessage(many))) == 0 {
		t.Error("arguments without end are taken")
	}
}
