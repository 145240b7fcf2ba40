package config

import (
	"encoding/json"
	"maps"
	"reflect"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// Schema returns the JSON Schema (2020-12) of the file, indented. It accepts every file that [Parse] accepts.
func Schema() []byte {
	g := schemaMaker{defs: map[string]any{}}
	g.defs["ToolSearch"] = g.toolSearch()
	root := g.object(reflect.TypeFor[Config]())
	alias := map[string]any{"$ref": "#/$defs/ToolSearch", "description": "Another name of toolSearch.", "deprecated": true}
	properties := root["properties"].(map[string]any)
	properties["tools.toolSearch"] = alias
	properties["tools"] = map[string]any{
		"type":                 "object",
		"description":          "Another place for toolSearch.",
		"deprecated":           true,
		"properties":           map[string]any{"toolSearch": alias},
		"additionalProperties": false,
	}
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "toolcrib.yaml"
	root["$defs"] = g.defs
	b, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic("config: the schema is no JSON: " + err.Error())
	}
	return append(b, '\n')
}

// A schemaMaker makes schemas of types, each named struct once, under its name.
type schemaMaker struct {
	defs map[string]any
}

// of returns the schema of t with the constraints of tag, which has those of the decoder.
func (g *schemaMaker) of(t reflect.Type, tag reflect.StructTag) map[string]any {
	switch t {
	case reflect.TypeFor[Secret]():
		return map[string]any{"type": "string"}
	case reflect.TypeFor[Path]():
		return map[string]any{"type": "string"}
	case reflect.TypeFor[ToolSearch]():
		return map[string]any{"$ref": "#/$defs/ToolSearch"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return g.of(t.Elem(), tag)
	case reflect.Struct:
		if g.defs[t.Name()] == nil {
			g.defs[t.Name()] = g.object(t)
		}
		return map[string]any{"$ref": "#/$defs/" + t.Name()}
	case reflect.Map:
		s := map[string]any{"type": []string{"object", "null"}, "additionalProperties": g.of(t.Elem(), tag)}
		if t.Key() == reflect.TypeFor[contracts.TenantID]() {
			s["propertyNames"] = map[string]any{"pattern": "^[a-z0-9][a-z0-9-]{0,62}$"}
		}
		return s
	case reflect.Slice:
		return map[string]any{"type": []string{"array", "null"}, "items": g.of(t.Elem(), tag)}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int:
		low, high := rangeOf(tag)
		return map[string]any{"type": "integer", "minimum": low, "maximum": high}
	case reflect.String:
		s := map[string]any{"type": "string"}
		if words := enumOf(tag); words != nil {
			s["enum"] = words
		}
		return s
	}
	panic("config: no schema for a " + t.String())
}

func (g *schemaMaker) object(t reflect.Type) map[string]any {
	properties := map[string]any{}
	var required []string
	for _, f := range fieldsOf(t) {
		p := maps.Clone(g.of(f.Type, f.Tag))
		p["description"] = f.Tag.Get("doc")
		properties[f.key] = p
		if f.required {
			required = append(required, f.key)
		}
	}
	s := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if required != nil {
		s["required"] = required
	} else { // a key with nothing after it, its values commented out
		s["type"] = []string{"object", "null"}
	}
	return s
}

func (g *schemaMaker) toolSearch() map[string]any {
	return map[string]any{
		"description": "How tools reach the model: " + toolSearchForms + ".",
		"anyOf": []any{
			map[string]any{"type": []string{"boolean", "null"}},
			map[string]any{"type": "string", "pattern": "^(true|false|code|tools|directory|direct|auto|auto:0*([0-9]|[1-9][0-9]|100))$"},
			g.object(reflect.TypeFor[toolSearchSettings]()),
		},
	}
}
