package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

func compiled(t testing.TB) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("toolcrib.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("toolcrib.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// value returns n as encoding/json would.
func (n *node) value() any {
	if n == nil {
		return nil
	}
	switch n.kind {
	case kindBool:
		return n.truth
	case kindNumber:
		return json.Number(cmp.Or(n.number, "0.5"))
	case kindString:
		return n.text
	case kindList:
		out := []any{}
		for _, item := range n.items {
			out = append(out, item.value())
		}
		return out
	case kindObject:
		out := map[string]any{}
		for _, f := range n.fields {
			out[f.key] = f.value.value()
		}
		return out
	}
	return nil
}

func TestSchema(t *testing.T) {
	schema := compiled(t)
	full, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	good := []string{
		string(full), "", "{}", "mcpServers:\ntenants:\nnats:\n", "toolSearch: true", "toolSearch: auto:100", "toolSearch: auto", "toolSearch: {}",
		"hooks: {a: {bus: x, priority: -1000, timeout: 100}}", "hooks:", "toolSearch: {auto: 0}", "tools.toolSearch: code", "tools: {toolSearch: {mode: directory}}",
		"mcpServers: {a: {type: stdio, command: x}}", "nats: {durability: ''}",
	}
	for _, text := range good {
		if _, err := Parse([]byte(text), ""); err != nil {
			t.Errorf("Parse(%s) = %v", text, err)
		}
		if err := schema.Validate(read(t, text)); err != nil {
			t.Errorf("schema refuses %s: %v", text, err)
		}
	}
	bad := []string{
		"mcpServer: {}", "listen: 1", "toolSearch: 5", "toolSearch: auto:101", "toolSearch: on", "toolSearch: {mode: auto:5}", "toolSearch: {modes: code}",
		"toolSearch: {maxSearchLimit: 51}", "tools: {allow: []}", "tenants: {A: {}}", "tenants: {a: {mcpServers: {}}}",
		"tenants: {a: {keys: [{name: n, scopes: [runs]}]}}", "tenants: {a: {keys: [{name: n, hash: h, scopes: [root]}]}}",
		"mcpServers: {a: {command: [x]}}", "mcpServers: {a: {command: x, args: [1]}}", "mcpServers: {a: {command: x, loading: eager}}",
		"hooks: {a: {bus: x, timeout: 99}}", "hooks: {a: {bus: x, events: [before]}}", "hooks: []", "nats: {replicas: 6}", "policies: [{level: team}]", "policies: {}", "limits: {maxTools: 0}", "- a", "listen:",
	}
	for _, text := range bad {
		if _, err := Parse([]byte(text), ""); err == nil {
			t.Errorf("Parse(%s) = nil, want an error", text)
		}
		if err := schema.Validate(read(t, text)); err == nil {
			t.Errorf("schema accepts %s", text)
		}
	}
}

func read(t *testing.T, text string) any {
	t.Helper()
	n, err := parseFile([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return n.value()
}

// Every key has a text for people.
func TestSchemaDescribes(t *testing.T) {
	var walk func(path string, v any)
	walk = func(path string, v any) {
		m, _ := v.(map[string]any)
		if properties, ok := m["properties"].(map[string]any); ok {
			for key, p := range properties {
				p := p.(map[string]any)
				if text, _ := p["description"].(string); text == "" {
					t.Errorf("%s.%s has no description", path, key)
				}
			}
		}
		for key, inner := range m {
			walk(path+"/"+key, inner)
		}
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	walk("", doc)
}

// FuzzParse: whatever the bytes, Parse returns; what it accepts is servable again, and the schema accepts it too.
func FuzzParse(f *testing.F) {
	full, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		f.Fatal(err)
	}
	bad, err := os.ReadFile("testdata/bad.txt")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(full))
	for _, s := range strings.Split(string(bad), "\n-- ")[1:] {
		_, body, _ := strings.Cut(s, " --\n")
		f.Add(body)
	}
	schema := compiled(f)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4096 {
			return
		}
		_, _ = parseMCP([]byte(text), "fuzz.json")
		c, err := Parse([]byte(text), "fuzz.yaml")
		if err != nil {
			if ps, ok := err.(Problems); !ok || len(ps) == 0 || c != nil {
				t.Fatalf("Parse = %v, %#v, want Problems alone", c, err)
			}
			return
		}
		root, err := parseFile([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(root.value()); err != nil {
			t.Errorf("the schema refuses what Parse accepts: %v", err)
		}
		for _, id := range c.TenantIDs() {
			for _, s := range c.Sources(id) {
				if s.ID.Owner == "" || s.Type == "" || s.Connection == "" || s.Expose == "" {
					t.Errorf("source %+v lacks a default", s)
				}
			}
		}
	})
}
