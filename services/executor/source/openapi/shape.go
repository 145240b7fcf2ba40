package openapi

import "slices"

// A shape is what kind of JSON value a schema describes.
type shape int

const (
	anything  shape = iota // or nobody can tell
	objects                // objects only
	otherwise              // anything but objects
)

// shapeOf returns the shape of the values of the schema at p.
func (s *schemas) shapeOf(p place, depth int) shape {
	p, err := s.of.follow(s.ctx, p)
	if err != nil || depth > 8 || p.truth("nullable") {
		return anything
	}
	switch t := p.object()["type"].(type) {
	case string:
		if t == "object" {
			return objects
		}
		return otherwise
	case []any:
		switch {
		case !slices.Contains(t, any("object")):
			return otherwise
		case len(t) == 1:
			return objects
		}
		return anything
	}
	if p.child("properties").object() != nil {
		return objects
	}
	all := p.child("allOf")
	for i := range all.list() {
		if sh := s.shapeOf(all.item(i), depth+1); sh != anything {
			return sh
		}
	}
	for _, k := range []string{"oneOf", "anyOf"} {
		if sh := s.commonShape(p.child(k), depth); sh != anything {
			return sh
		}
	}
	return anything
}

func (s *schemas) commonShape(list place, depth int) shape {
	common := anything
	for i := range list.list() {
		switch sh := s.shapeOf(list.item(i), depth+1); {
		case sh == anything, i > 0 && sh != common:
			return anything
		default:
			common = sh
		}
	}
	return common
}
