package embedded

import (
	"bytes"
	"encoding/json"
)

// Bounds of what is read of one schema. A schema that is deeper or holds more
// is read in part, a larger one not at all.
const (
	maxSchemaBytes  = 4 << 20
	maxSchemaDepth  = 16 // schemas in schemas
	maxSchemaParams = 1000
	maxSchemaText   = 64 << 10 // bytes
)

// parameters is the searchable text of a schema. Its strings are copies.
type parameters struct {
	names []string // of properties at any depth
	texts []string // descriptions, titles and values of parameters
}

// readSchema returns the names and texts of a tool's parameters. It takes any
// bytes; what is no JSON holds none. References are not followed: what they
// point at inside the schema is read in its own place, so none can recur.
func readSchema(raw json.RawMessage) parameters {
	if len(raw) > maxSchemaBytes || !json.Valid(raw) {
		return parameters{}
	}
	r := schemaReader{in: raw, left: maxSchemaText}
	r.value(roleRoot, 0)
	return r.out
}

// role is what a JSON value is in a schema.
type role uint8

const (
	roleOther      role = iota
	roleRoot            // the schema of all arguments
	roleSchema          // a schema in it, or a list of them
	roleProperties      // an object of schemas by the name of the property
	roleNamed           // an object of schemas by names that are no properties
	roleText            // a text, or a list of texts
)

// schemaReader walks over valid JSON.
type schemaReader struct {
	in   []byte
	at   int
	left int // bytes of text that may still be taken
	out  parameters
}

// value reads the value at r.at and stops behind it.
func (r *schemaReader) value(as role, depth int) {
	r.space()
	if as == roleOther || depth > maxSchemaDepth {
		r.skip()
		return
	}
	switch r.in[r.at] {
	case '{':
		r.object(as, depth)
	case '[':
		if as != roleSchema && as != roleText {
			as = roleOther
		}
		r.array(as, depth)
	case '"':
		if s := r.str(); as == roleText {
			r.take(unquote(s))
		}
	default:
		r.skip()
	}
}

func (r *schemaReader) object(as role, depth int) {
	for r.next('}') {
		key := r.str()
		r.space()
		r.at++ // ':'
		if as == roleProperties && len(r.out.names) < maxSchemaParams {
			r.out.names = append(r.out.names, unquote(key))
		}
		member := roleOf(as, key)
		down := 0
		if member == roleSchema {
			down = 1
		}
		r.value(member, depth+down)
	}
}

func (r *schemaReader) array(as role, depth int) {
	for r.next(']') {
		r.value(as, depth+1)
	}
}

// roleOf returns the role of the member called key, in quotes, of an object in role as.
func roleOf(as role, key []byte) role {
	switch as {
	case roleProperties, roleNamed:
		return roleSchema
	case roleRoot, roleSchema:
	default:
		return roleOther
	}
	switch string(key) {
	case `"properties"`:
		return roleProperties
	case `"$defs"`, `"definitions"`, `"patternProperties"`, `"dependentSchemas"`:
		return roleNamed
	case `"items"`, `"prefixItems"`, `"additionalProperties"`, `"anyOf"`, `"oneOf"`, `"allOf"`, `"if"`, `"then"`, `"else"`:
		return roleSchema
	case `"title"`, `"description"`, `"enum"`, `"const"`:
		if as == roleSchema { // the root's own texts say nothing about a parameter
			return roleText
		}
	}
	return roleOther
}

// next moves to the next element of an object or array, from its opening or
// from behind an element, and reports whether there is one before the end.
func (r *schemaReader) next(end byte) bool {
	r.space()
	c := r.in[r.at]
	r.at++ // the opening, a comma or the end
	if c == end {
		return false
	}
	r.space()
	if r.in[r.at] == end {
		r.at++
		return false
	}
	return true
}

// skip passes over the value at r.at, however deep.
func (r *schemaReader) skip() {
	for depth := 0; r.at < len(r.in); {
		switch c := r.in[r.at]; c {
		case '"':
			r.str()
		case '{', '[':
			depth++
			r.at++
		case '}', ']':
			if depth == 0 {
				return // behind a number or literal that ended its container
			}
			depth--
			r.at++
		case ',':
			if depth == 0 {
				return
			}
			r.at++
			continue
		default:
			r.at++
			continue
		}
		if depth == 0 {
			return
		}
	}
}

// str returns the string at r.at with its quotes and stops behind it.
func (r *schemaReader) str() []byte {
	start := r.at
	for r.at++; r.in[r.at] != '"'; r.at++ {
		if r.in[r.at] == '\\' {
			r.at++
		}
	}
	r.at++
	return r.in[start:r.at]
}

func (r *schemaReader) space() {
	for r.at < len(r.in) && (r.in[r.at] == ' ' || r.in[r.at] == '\n' || r.in[r.at] == '\t' || r.in[r.at] == '\r') {
		r.at++
	}
}

func (r *schemaReader) take(s string) {
	if s == "" || len(s) > r.left {
		return
	}
	r.left -= len(s)
	r.out.texts = append(r.out.texts, s)
}

// unquote returns the text of a JSON string.
func unquote(s []byte) string {
	if bytes.IndexByte(s, '\\') < 0 {
		return string(s[1 : len(s)-1])
	}
	var text string
	if err := json.Unmarshal(s, &text); err != nil {
		return ""
	}
	return text
}
