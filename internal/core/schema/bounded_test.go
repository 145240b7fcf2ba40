package schema

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// hostile are schemas and arguments made to take long, and what must become of them:
// "" for allowed, else a part of the first message.
func hostile() map[string][3]string {
	chain := func(n int, body string) string {
		var defs []string
		for i := range n {
			defs = append(defs, fmt.Sprintf(`"d%d":`+body, i, i+1))
		}
		return strings.Join(append(defs, fmt.Sprintf(`"d%d":{"type":"string"}`, n)), ",")
	}
	repeat := func(n int, format string) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(format, i))
		}
		return strings.Join(all, ",")
	}
	nested := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	return map[string][3]string{
		"doubling":         {`{"$ref":"#/$defs/d0","$defs":{` + chain(60, `{"anyOf":[{"$ref":"#/$defs/d%[2]d"},{"$ref":"#/$defs/d%[2]d"}]}`) + `}}`, `{}`, "too large or too deep"},
		"doubling allOf":   {`{"$ref":"#/$defs/d0","$defs":{` + chain(60, `{"allOf":[{"$ref":"#/$defs/d%[2]d"},{"$ref":"#/$defs/d%[2]d"}]}`) + `}}`, `{}`, "too large or too deep"},
		"branching in not": {`{"not":{"$ref":"#/$defs/n"},"$defs":{"n":{"anyOf":[{"type":"object","properties":{"a":{"$ref":"#/$defs/n"}}},{"type":"object","additionalProperties":{"$ref":"#/$defs/n"}}]}}}`, nested(100), "too large or too deep"},
		"branching depth":  {`{"anyOf":[{"properties":{"a":{"$ref":"#"}},"required":["x"]},{"properties":{"a":{"$ref":"#"}},"required":["y"]}]}`, nested(100), "too large or too deep"},
		"long chain":       {`{"$ref":"#/$defs/d0","$defs":{` + chain(1000, `{"$ref":"#/$defs/d%[2]d"}`) + `}}`, `{}`, "is an object"},
		"cycle":            {`{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, `{}`, "refers to itself"},
		"odd places":       {`{"anyOf":[` + repeat(600, `{"$ref":"#/x/y%d"}`) + `],"x":{` + repeat(600, `"y%d":{"type":"string"}`) + `}}`, `{}`, "is an object"},
		"many ids":         {`{"$defs":{` + repeat(800, `"a%[1]d":{"$id":"https://example.org/%[1]d"}`) + `}}`, `{}`, ""},
		"many anchors":     {`{"$defs":{` + repeat(800, `"a%[1]d":{"$anchor":"a%[1]d"}`) + `}}`, `{}`, ""},
		"wide":             {`{"properties":{` + repeat(1500, `"p%d":{"type":"string"}`) + `}}`, `{` + repeat(1500, `"p%d":1`) + `}`, "is a number"},
		"wide uneval":      {`{"unevaluatedProperties":{"type":"string"},"anyOf":[` + repeat(600, `{"properties":{"a%d":{"type":"string"}},"required":["z"]}`) + `]}`, `{` + repeat(10_000, `"p%d":1`) + `}`, "too large or too deep"},
		"wide enum":        {`{"properties":{"a":{"items":{"enum":[` + repeat(9000, `%d.5`) + `]}}}}`, `{"a":[` + repeat(20_000, `%d.25`) + `]}`, "too large or too deep"},
		"unique":           {`{"properties":{"a":{"uniqueItems":true}}}`, `{"a":[` + repeat(10_000, `[%d]`) + `]}`, ""},
		"patterns":         {`{"properties":{"a":{"allOf":[` + repeat(1000, `{"pattern":"(x+x+)+y%d"}`) + `]}}}`, `{"a":"` + strings.Repeat("x", 1<<15) + `"}`, "too large or too deep"},
		"large patterns":   {`{"properties":{"a":{"allOf":[` + repeat(500, `{"pattern":"(\\p{L}{500}|%d){2}"}`) + `]}}}`, `{"a":"` + strings.Repeat("é", 1<<15) + `"}`, ""},
		"long numbers":     {`{"properties":{"a":{"items":{"multipleOf":1e-300}}}}`, `{"a":[` + repeat(5_000, `%de300`) + `]}`, ""},
	}
}

// TestHostile holds that reading, checking and signing end, whatever a schema says: without
// bounds most of these take hours.
func TestHostile(t *testing.T) {
	for name, in := range hostile() {
		t.Run(name, func(t *testing.T) {
			Signature(json.RawMessage(in[0]), 300)
			fields := mustCompile(t, in[0]).Validate(json.RawMessage(in[1]))
			switch {
			case len(fields) == 0 && in[2] != "":
				t.Errorf("Validate lets them through, want an error of %q", in[2])
			case len(fields) > 0 && (in[2] == "" || !strings.Contains(fields[0].Message, in[2])):
				t.Errorf("Validate = %q, want an error of %q", fields[0].Message, in[2])
			}
		})
	}
}
