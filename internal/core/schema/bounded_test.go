package schema

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// hostile are schemas and arguments made to take long.
func hostile() map[string][2]string {
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
	return map[string][2]string{
		"doubling":        {`{"$ref":"#/$defs/d0","$defs":{` + chain(60, `{"anyOf":[{"$ref":"#/$defs/d%[2]d"},{"$ref":"#/$defs/d%[2]d"}]}`) + `}}`, `{}`},
		"doubling allOf":  {`{"$ref":"#/$defs/d0","$defs":{` + chain(60, `{"allOf":[{"$ref":"#/$defs/d%[2]d"},{"$ref":"#/$defs/d%[2]d"}]}`) + `}}`, `{}`},
		"doubling not":    {`{"not":{"$ref":"#/$defs/d0"},"$defs":{` + chain(60, `{"$ref":"#/$defs/d%[2]d","properties":{"a":{"$ref":"#/$defs/d%[2]d"}}}`) + `}}`, nested(60)},
		"branching depth": {`{"anyOf":[{"properties":{"a":{"$ref":"#"}},"required":["x"]},{"properties":{"a":{"$ref":"#"}},"required":["y"]}]}`, nested(100)},
		"long chain":      {`{"$ref":"#/$defs/d0","$defs":{` + chain(3000, `{"$ref":"#/$defs/d%[2]d"}`) + `}}`, `{}`},
		"cycle":           {`{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, `{}`},
		"odd places":      {`{"anyOf":[` + repeat(1500, `{"$ref":"#/x/y%d"}`) + `],"x":{` + repeat(1500, `"y%d":{"type":"string"}`) + `}}`, `{}`},
		"many ids":        {`{"$defs":{` + repeat(2500, `"a%[1]d":{"$id":"https://example.org/%[1]d"}`) + `}}`, `{}`},
		"many anchors":    {`{"$defs":{` + repeat(2500, `"a%[1]d":{"$anchor":"a%[1]d"}`) + `}}`, `{}`},
		"wide":            {`{"properties":{` + repeat(4900, `"p%d":{"type":"string"}`) + `}}`, `{` + repeat(4900, `"p%d":1`) + `}`},
		"wide uneval":     {`{"unevaluatedProperties":{"type":"string"},"anyOf":[` + repeat(1500, `{"properties":{"a%d":{"type":"string"}},"required":["z"]}`) + `]}`, `{` + repeat(20_000, `"p%d":1`) + `}`},
		"wide enum":       {`{"properties":{"a":{"items":{"enum":[` + repeat(9000, `%d.5`) + `]}}}}`, `{"a":[` + repeat(50_000, `%d.25`) + `]}`},
		"unique":          {`{"properties":{"a":{"uniqueItems":true}}}`, `{"a":[` + repeat(40_000, `[%d]`) + `]}`},
		"patterns":        {`{"properties":{"a":{"allOf":[` + repeat(1000, `{"pattern":"(x+x+)+y%d"}`) + `]}}}`, `{"a":"` + strings.Repeat("x", 1<<16) + `"}`},
		"large patterns":  {`{"properties":{"a":{"allOf":[` + repeat(500, `{"pattern":"(\\p{L}{500}|%d){2}"}`) + `]}}}`, `{"a":"` + strings.Repeat("é", 1<<16) + `"}`},
		"long numbers":    {`{"properties":{"a":{"items":{"multipleOf":1e-300}}}}`, `{"a":[` + repeat(20_000, `%de300`) + `]}`},
	}
}

// TestHostile holds that neither reading, nor checking, nor a signature takes long, whatever a schema says.
func TestHostile(t *testing.T) {
	const most = 20 * time.Second // some take a second; without bounds they take hours
	for name, in := range hostile() {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			Signature(json.RawMessage(in[0]), 300)
			signed := time.Since(start)
			v, err := Compile(json.RawMessage(in[0]))
			compiled := time.Since(start) - signed
			if err != nil {
				t.Fatalf("Compile: %v", err)
			}
			fields := v.Validate(json.RawMessage(in[1]))
			took := time.Since(start)
			t.Logf("signature %v, compile %v, validate %v: %.200v", signed, compiled, took-compiled-signed, fields)
			if took > most {
				t.Errorf("took %v", took)
			}
		})
	}
}
