package schema

import (
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// reachable returns sch and every schema that evaluating it can evaluate.
func reachable(sch *jsonschema.Schema) map[*jsonschema.Schema]bool {
	seen := map[*jsonschema.Schema]bool{sch: true}
	queue := []*jsonschema.Schema{sch}
	for len(queue) > 0 {
		for _, c := range children(queue[0]) {
			if !seen[c] {
				seen[c] = true
				queue = append(queue, c)
			}
		}
		queue = queue[1:]
	}
	return seen
}

// children returns the subschemas that evaluating s can evaluate.
func children(s *jsonschema.Schema) []*jsonschema.Schema {
	list := []*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else}
	if s.DynamicRef != nil {
		list = append(list, s.DynamicRef.Ref)
	}
	for _, of := range [][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf, s.PrefixItems} {
		list = append(list, of...)
	}
	if of, ok := s.Items.([]*jsonschema.Schema); ok {
		list = append(list, of...)
	}
	for _, m := range []map[string]*jsonschema.Schema{s.Properties, s.DependentSchemas} {
		for _, c := range m {
			list = append(list, c)
		}
	}
	for _, d := range s.Dependencies {
		if c, ok := d.(*jsonschema.Schema); ok {
			list = append(list, c)
		}
	}
	return append(present(list), elementwise(s)...)
}

// elementwise returns those that it can evaluate for each element of an array or object.
func elementwise(s *jsonschema.Schema) []*jsonschema.Schema {
	list := []*jsonschema.Schema{s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems}
	for _, c := range s.PatternProperties {
		list = append(list, c)
	}
	for _, mixed := range []any{s.AdditionalProperties, s.AdditionalItems, s.Items} {
		if c, ok := mixed.(*jsonschema.Schema); ok {
			list = append(list, c)
		}
	}
	for _, ext := range s.Extensions {
		if n, ok := ext.(nameCheck); ok {
			list = append(list, n.names)
		}
	}
	return present(list)
}

func present(list []*jsonschema.Schema) []*jsonschema.Schema {
	return slices.DeleteFunc(list, func(s *jsonschema.Schema) bool { return s == nil })
}

// A nameCheck does what propertyNames says. The library's own check gives its errors a
// location that later errors overwrite.
type nameCheck struct{ names *jsonschema.Schema }

// Validate is called by the library.
func (n nameCheck) Validate(ctx *jsonschema.ValidatorContext, v any) {
	object, _ := v.(map[string]any)
	for name := range object {
		err := ctx.Validate(n.names, name, []string{name})
		if invalid, ok := err.(*jsonschema.ValidationError); ok {
			ctx.AddErrors([]*jsonschema.ValidationError{invalid}, &kind.PropertyNames{Property: name})
		}
	}
}

func checkNames(sch *jsonschema.Schema) {
	for s := range reachable(sch) {
		if s.PropertyNames != nil {
			s.Extensions = append(s.Extensions, nameCheck{s.PropertyNames})
			s.PropertyNames = nil
		}
	}
}
