package openapi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A direction says what a schema is for: readOnly properties are not sent, writeOnly ones not answered.
type direction int

const (
	request direction = iota
	response
)

// mostSchemaValues bounds one schema without those that it refers to.
const mostSchemaValues = 6000

// A schemas converts the schemas of a description to JSON Schema 2020-12, each once for each direction. What they refer to becomes a definition.
type schemas struct {
	ctx  context.Context
	of   *description
	old  bool // the description is of OpenAPI 3.0
	defs map[defKey]*def
}

type defKey struct {
	place string
	direction
}

// A def is a schema that others refer to.
type def struct {
	name string
	from place
	dir  direction

	made   bool
	raw    json.RawMessage
	values int
	refs   []*def
	err    error
}

// def returns the definition for the schema at p.
func (s *schemas) def(p place, dir direction) *def {
	key := defKey{p.key(), dir}
	d := s.defs[key]
	if d == nil {
		d = &def{name: s.defName(p), from: p, dir: dir}
		s.defs[key] = d
	}
	return d
}

// defName names a definition by nothing but its place.
func (s *schemas) defName(p place) string {
	name := unescape(p.at[strings.LastIndexByte(p.at, '/')+1:])
	plain := word(name, 64)
	if p.doc == s.of.main && plain == name && p.at == "/components/schemas/"+name {
		return plain
	}
	return plain + "_" + hash(p.key())
}

// make converts a definition, once.
func (s *schemas) make(d *def) error {
	if d.made {
		return d.err
	}
	d.made = true
	v, c, err := s.convert(d.from, d.dir)
	if d.err = err; err == nil {
		d.raw, d.values, d.refs = encode(v), c.values, c.refs
	}
	return d.err
}

// convert returns the schema at p in the form of 2020-12, and what it refers to.
func (s *schemas) convert(p place, dir direction) (any, *conversion, error) {
	c := &conversion{schemas: s, dir: dir}
	v, err := c.schema(p, nil)
	return v, c, err
}

// A budget bounds a schema with its definitions.
type budget struct{ bytes, values int }

// complete adds to a schema the definitions that it needs, nearest first. Those that the budget
// has no room for allow everything. It returns an error where one of the others cannot be read.
func (s *schemas) complete(root map[string]any, refs []*def, b budget) (json.RawMessage, error) {
	b.bytes = max(b.bytes-len(encode(root)), b.bytes/4)
	defs := map[string]json.RawMessage{}
	for queue := slices.Clone(refs); len(queue) > 0; queue = queue[1:] {
		d := queue[0]
		if _, ok := defs[d.name]; ok {
			continue
		}
		if err := s.make(d); err != nil {
			return nil, err
		}
		if len(d.raw) > b.bytes || d.values > b.values {
			defs[d.name] = json.RawMessage(`{"description":"Left out because of its size; anything is accepted here."}`)
			continue
		}
		b.bytes -= len(d.raw) + len(d.name)
		b.values -= d.values
		defs[d.name] = d.raw
		queue = append(queue, d.refs...)
	}
	if len(defs) > 0 {
		root = maps.Clone(root)
		root["$defs"] = defs
	}
	return encode(root), nil
}

// A conversion is that of one schema.
type conversion struct {
	*schemas
	dir    direction
	values int
	refs   []*def
}

var errTooManyValues = fmt.Errorf("a schema holds more than %d values", mostSchemaValues)

func (c *conversion) count() error {
	if c.values++; c.values > mostSchemaValues {
		return errTooManyValues
	}
	return nil
}

// schema converts the schema at p. hidden are properties that it must not require.
func (c *conversion) schema(p place, hidden map[string]bool) (any, error) {
	if err := c.count(); err != nil {
		return nil, err
	}
	if b, ok := p.value.(bool); ok {
		return b, nil
	}
	m := p.object()
	if m == nil {
		return nil, fmt.Errorf("%s is no schema", clip(p.at))
	}
	if _, ok := m["$ref"].(string); ok {
		return c.reference(p)
	}
	hidden = c.hiddenOf(p, hidden)
	out := map[string]any{}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		value := p.child(k)
		if k == "items" && value.list() != nil { // a tuple of older drafts
			k = "prefixItems"
		}
		v, keep, err := c.keyword(k, value, hidden)
		if err != nil {
			return nil, err
		}
		if keep {
			out[k] = v
		}
	}
	c.modernise(m, out)
	return out, nil
}

// reference converts a reference, with what stands beside it.
func (c *conversion) reference(p place) (any, error) {
	target, err := c.of.follow(c.ctx, p)
	if err != nil {
		return nil, err
	}
	d := c.def(target, c.dir)
	c.refs = append(c.refs, d)
	rest := maps.Clone(p.object())
	nullable := p.truth("nullable")
	maps.DeleteFunc(rest, func(k string, _ any) bool {
		// In 3.0 nothing beside a reference means anything, but the description and nullable are meant.
		return k == "$ref" || k == "nullable" || c.old && k != "description"
	})
	out := map[string]any{}
	if len(rest) > 0 {
		v, err := c.schema(place{p.doc, p.at, rest}, nil)
		if err != nil {
			return nil, err
		}
		out, _ = v.(map[string]any)
	}
	out["$ref"] = "#/$defs/" + escape(d.name)
	if nullable {
		return orNull(out), nil
	}
	return out, nil
}

// keyword converts the value at p of a keyword; keep is false for what is left out.
func (c *conversion) keyword(k string, p place, hidden map[string]bool) (v any, keep bool, err error) {
	switch k {
	case "properties", "patternProperties", "dependentSchemas":
		v, err = c.properties(p, k == "properties")
		return v, v != nil, err
	case "items", "additionalProperties", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties", "contentSchema", "not", "if", "then", "else":
		v, err = c.schema(p, hidden)
		return v, true, err
	case "allOf", "anyOf", "oneOf", "prefixItems":
		list, err := c.list(p, hidden)
		return list, len(list) > 0, err
	case "required":
		list := slices.DeleteFunc(slices.Clone(p.list()), func(v any) bool { s, ok := v.(string); return !ok || hidden[s] })
		return list, len(list) > 0, nil
	case "exclusiveMinimum", "exclusiveMaximum":
		_, old := p.value.(bool)
		return p.value, !old, nil
	case "examples":
		list := p.list()
		return p.value, len(list) > 0 && len(encode(list)) <= longestExample, nil
	case "enum", "const", "default", "discriminator":
		left := mostSchemaValues - c.values
		if err := measure(p.value, 0, &left); err != nil {
			return nil, false, errTooManyValues
		}
		c.values = mostSchemaValues - left
		return p.value, true, nil
	case "type", "format", "title", "description", "pattern", "minimum", "maximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems",
		"uniqueItems", "minContains", "maxContains", "minProperties", "maxProperties", "contentEncoding", "contentMediaType", "dependentRequired", "deprecated":
		return p.value, true, c.count()
	}
	return nil, false, nil
}

const longestExample = 300 // in bytes

func (c *conversion) properties(p place, filtered bool) (any, error) {
	out := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(p.object())) {
		child := p.child(name)
		if filtered && c.isHidden(child, c.dir) {
			continue
		}
		v, err := c.schema(child, nil)
		if err != nil {
			return nil, err
		}
		out[name] = v
	}
	if len(out) == 0 {
		return nil, nil
	}
	return out, nil
}

func (c *conversion) list(p place, hidden map[string]bool) ([]any, error) {
	var out []any
	for i := range p.list() {
		v, err := c.schema(p.item(i), hidden)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// modernise brings what older forms say in the schema m, of which out was made, into the form of 2020-12.
func (c *conversion) modernise(m, out map[string]any) {
	for bound, exclusive := range map[string]string{"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"} {
		if on, _ := m[exclusive].(bool); on && out[bound] != nil {
			out[exclusive] = out[bound]
			delete(out, bound)
		}
	}
	if e, ok := m["example"]; ok && out["examples"] == nil && len(encode(e)) <= longestExample {
		out["examples"] = []any{e}
	}
	if nullable, _ := m["nullable"].(bool); nullable {
		makeNullable(out)
	}
}

// makeNullable lets a schema, which is no reference, allow null.
func makeNullable(s map[string]any) {
	if list, ok := s["enum"].([]any); ok && !slices.Contains(list, nil) {
		s["enum"] = append(slices.Clone(list), nil)
	}
	switch t := s["type"].(type) {
	case string:
		s["type"] = []any{t, "null"}
	case []any:
		if !slices.Contains(t, any("null")) {
			s["type"] = append(slices.Clone(t), "null")
		}
	}
	if s["allOf"] == nil && s["anyOf"] == nil && s["oneOf"] == nil {
		return
	}
	inner := maps.Clone(s)
	clear(s)
	maps.Copy(s, orNull(inner))
}

// orNull returns a schema that allows what s does, and null.
func orNull(s map[string]any) map[string]any {
	out := map[string]any{"anyOf": []any{s, map[string]any{"type": "null"}}}
	if d, ok := s["description"]; ok {
		out["description"] = d
		delete(s, "description")
	}
	return out
}

// isHidden reports whether the property at p is left out in a direction.
func (s *schemas) isHidden(p place, dir direction) bool {
	flag := "readOnly"
	if dir == response {
		flag = "writeOnly"
	}
	for range mostHops {
		if p.truth(flag) {
			return true
		}
		ref, ok := p.object()["$ref"].(string)
		if !ok {
			return false
		}
		var err error
		if p, err = s.of.resolve(s.ctx, p.doc, ref); err != nil {
			return false
		}
	}
	return false
}

// hiddenOf returns the properties that the schema at p must not require: those hidden in it or in what it is made of, and the known ones.
func (c *conversion) hiddenOf(p place, known map[string]bool) map[string]bool {
	found := map[string]bool{}
	var add func(p place, depth int)
	add = func(p place, depth int) {
		p, err := c.of.follow(c.ctx, p)
		if err != nil || depth > 8 {
			return
		}
		properties := p.child("properties")
		for name := range properties.object() {
			if c.isHidden(properties.child(name), c.dir) {
				found[name] = true
			}
		}
		all := p.child("allOf")
		for i := range all.list() {
			add(all.item(i), depth+1)
		}
	}
	add(p, 0)
	if len(found) == 0 {
		return known
	}
	maps.Copy(found, known)
	return found
}
