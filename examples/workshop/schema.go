package workshop

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// A schema is a tool's input schema, taken apart so that an error can name
// the argument that is wrong. It may be used concurrently.
type schema struct {
	whole    *jsonschema.Resolved
	argument *jsonschema.Resolved // for one argument alone
	required []string
	props    map[string]json.RawMessage
	together map[string]json.RawMessage // what the root demands of several arguments
}

func newSchema(text string) (*schema, error) {
	whole, err := compile([]byte(text))
	if err != nil {
		return nil, err
	}
	s := &schema{whole: whole, required: whole.Schema().Required}
	root := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(text), &root); err != nil {
		return nil, fmt.Errorf("read the root: %w", err)
	}
	if len(root["properties"]) > 0 {
		if err := json.Unmarshal(root["properties"], &s.props); err != nil {
			return nil, fmt.Errorf("read properties: %w", err)
		}
	}
	s.together = map[string]json.RawMessage{}
	delete(root, "required")
	for _, k := range []string{"oneOf", "anyOf", "allOf", "not", "if", "then", "else"} {
		if v, ok := root[k]; ok {
			s.together[k] = v
			delete(root, k)
		}
	}
	rest, err := json.Marshal(root)
	if err != nil {
		return nil, fmt.Errorf("write the root: %w", err)
	}
	s.argument, err = compile(rest)
	return s, err
}

func compile(text []byte) (*jsonschema.Resolved, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	return s.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
}

// check returns raw with defaults filled in, or what is wrong with it. Nothing
// and null count as no arguments.
func (s *schema) check(raw json.RawMessage) (json.RawMessage, error) {
	args := map[string]any{}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &args); err != nil {
			return nil, fmt.Errorf("the arguments must be one JSON object: %w", err)
		}
	}
	if args == nil {
		args = map[string]any{}
	}
	var absent []string
	for _, name := range s.required {
		if _, ok := args[name]; !ok {
			absent = append(absent, fmt.Sprintf("%q", name))
		}
	}
	if absent != nil {
		return nil, fmt.Errorf("missing %s; required are %s", strings.Join(absent, ", "), strings.Join(s.required, ", "))
	}
	if err := s.whole.ApplyDefaults(&args); err != nil {
		return nil, fmt.Errorf("fill in defaults: %w", err)
	}
	if err := s.whole.Validate(args); err != nil {
		return nil, s.explain(args, err)
	}
	return json.Marshal(args)
}

// explain says which argument is the cause of err, and what is allowed.
func (s *schema) explain(args map[string]any, err error) error {
	for _, name := range slices.Sorted(maps.Keys(args)) {
		cause := s.argument.Validate(map[string]any{name: args[name]})
		if cause == nil {
			continue
		}
		prop, known := s.props[name]
		if !known {
			return fmt.Errorf("%s: there is no such argument; allowed are %s", name, strings.Join(slices.Sorted(maps.Keys(s.props)), ", "))
		}
		return fmt.Errorf("%s: %s is not allowed; its schema is %s (%w)", name, compact(args[name], 200), compact(prop, 600), cause)
	}
	return fmt.Errorf("the arguments do not fit together; they must match %s (%w)", compact(s.together, 600), err)
}

// compact is v as JSON, cut at n characters. v comes from JSON, so that it
// can be written as JSON.
func compact(v any, n int) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if r := []rune(string(b)); len(r) > n {
		return string(r[:n]) + "…"
	}
	return string(b)
}
