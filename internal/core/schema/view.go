package schema

import (
	"maps"
	"net/url"
	"slices"
	"strings"
)

// mostHops is how many references and allOf may stand within each other.
const mostHops = 16

// A view is a schema with its references and allOf taken together.
type view struct {
	schema       map[string]any
	alternatives []any // of anyOf and oneOf, those that say what a value looks like
}

// A property is one property of an object's view.
type property struct {
	name     string
	required bool
	schema   any
}

func (v *view) isObject() bool {
	if v.schema == nil {
		return false
	}
	if t, ok := v.schema["type"].(string); ok {
		return t == "object"
	}
	_, props := v.schema["properties"].(map[string]any)
	return props && v.schema["type"] == nil
}

// open reports whether an object takes further properties of a stated form.
func (v *view) open() bool {
	m, ok := v.schema["additionalProperties"].(map[string]any)
	return ok && len(m) > 0
}

// members returns the properties in the order of a signature.
func (v *view) members() []property {
	props, _ := v.schema["properties"].(map[string]any)
	var list []property
	done := map[string]bool{}
	required, _ := v.schema["required"].([]any)
	for _, item := range required {
		if name, ok := item.(string); ok && !done[name] {
			done[name] = true
			s, ok := props[name]
			if !ok {
				s = true
			}
			list = append(list, property{name, true, s})
		}
	}
	first := len(list)
	for name, s := range props {
		if !done[name] {
			list = append(list, property{name, false, s})
		}
	}
	slices.SortFunc(list[first:], func(a, b property) int { return strings.Compare(a.name, b.name) })
	return list
}

// view takes v's references and allOf together. Its schema is nil where v is no object.
func (r *renderer) view(v any) *view {
	m := r.merged(v, 0)
	w := &view{schema: m}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		list, _ := m[keyword].([]any)
		for _, a := range list {
			if r.describes(a) {
				w.alternatives = append(w.alternatives, a)
			}
		}
	}
	return w
}

// describes reports whether an alternative says what a value looks like, not only what it must hold.
func (r *renderer) describes(v any) bool {
	m, ok := v.(map[string]any)
	if !ok {
		return v == true
	}
	for _, keyword := range []string{"type", "properties", "enum", "const", "$ref", "anyOf", "oneOf", "allOf", "items"} {
		if _, ok := m[keyword]; ok {
			return true
		}
	}
	return len(m) == 0
}

// merged returns v with what its $ref and allOf say added; v itself where it has neither, nil where it is no object.
func (r *renderer) merged(v any, hops int) map[string]any {
	m, ok := v.(map[string]any)
	if !ok || hops > mostHops || !r.step() {
		return nil
	}
	ref, isRef := m["$ref"].(string)
	all, _ := m["allOf"].([]any)
	if !isRef && len(all) == 0 {
		return m
	}
	out := maps.Clone(m)
	delete(out, "$ref")
	delete(out, "allOf")
	if isRef {
		add(out, r.merged(r.resolve(ref), hops+1))
	}
	for _, a := range all {
		add(out, r.merged(a, hops+1))
	}
	return out
}

// add puts into m what from says and m does not; properties and required are joined.
func add(m, from map[string]any) {
	for k, v := range from {
		old, ok := m[k]
		if !ok {
			m[k] = v
			continue
		}
		switch k {
		case "properties":
			a, ok1 := old.(map[string]any)
			b, ok2 := v.(map[string]any)
			if ok1 && ok2 {
				joined := maps.Clone(b)
				maps.Copy(joined, a)
				m[k] = joined
			}
		case "required":
			a, ok1 := old.([]any)
			b, ok2 := v.([]any)
			if ok1 && ok2 {
				m[k] = append(slices.Clip(a), b...)
			}
		}
	}
}

// resolve returns what a reference within the schema leads to, nil for any other.
func (r *renderer) resolve(ref string) any {
	base, fragment, ok := strings.Cut(ref, "#")
	if root, isMap := r.doc.(map[string]any); base != "" && (!isMap || root["$id"] != base) {
		return nil
	}
	if !ok || fragment == "" {
		return r.doc
	}
	path, err := url.PathUnescape(fragment)
	if err != nil || !strings.HasPrefix(path, "/") {
		return nil
	}
	v := r.doc
	for _, token := range strings.Split(path[1:], "/") {
		v = child(v, token)
	}
	return v
}
