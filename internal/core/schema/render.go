package schema

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
)

// A renderer writes one schema at one level of detail. Its work is bounded by a
// number of steps, and by the room: whoever gets a text that is longer than the
// room that was given discards it, so writing may stop there.
type renderer struct {
	doc any
	detail
	steps int
}

// An expr is a type's text; a compound one needs parentheses before [].
type expr struct {
	text     string
	compound bool
}

func newRenderer(doc any, d detail) *renderer {
	return &renderer{doc: doc, detail: d, steps: renderSteps}
}

func (r *renderer) step() bool {
	r.steps--
	return r.steps >= 0
}

// typ writes the schema v; depth is how many levels of objects may be written.
func (r *renderer) typ(v any, depth, room int) expr {
	if b, ok := v.(bool); ok && !b {
		return expr{text: "never"}
	}
	w := r.view(v)
	if w.schema == nil || !r.step() || room < 0 {
		return expr{text: "any"}
	}
	e := r.shape(w, depth, room)
	if w.schema["nullable"] == true && !strings.HasSuffix(e.text, "null") {
		e = expr{e.text + "|null", true}
	}
	return e
}

func (r *renderer) shape(w *view, depth, room int) expr {
	s := w.schema
	if c, ok := s["const"]; ok {
		return expr{text: literal(c)}
	}
	if values, ok := s["enum"].([]any); ok && len(values) > 0 {
		return r.enumeration(values)
	}
	if len(w.alternatives) > 0 {
		return r.union(w, depth, room)
	}
	var kinds []any
	switch t := s["type"].(type) {
	case string:
		kinds = []any{t}
	case []any:
		kinds = t
	default:
		kinds = []any{inferred(s)}
	}
	var parts []string
	for _, k := range kinds[:min(len(kinds), 8)] {
		name, _ := k.(string)
		if text := r.kind(name, w, depth, room); !slices.Contains(parts, text) {
			parts = append(parts, text)
		}
	}
	text := strings.Join(parts, "|")
	return expr{text, len(parts) > 1 || strings.HasSuffix(text, "*/")}
}

// inferred returns the type that a schema without one is about.
func inferred(s map[string]any) string {
	for _, hint := range []struct{ keyword, kind string }{
		{"properties", "object"}, {"additionalProperties", "object"}, {"required", "object"}, {"patternProperties", "object"},
		{"items", "array"}, {"prefixItems", "array"}, {"format", "string"}, {"pattern", "string"}, {"maxLength", "string"},
		{"minLength", "string"}, {"minimum", "number"}, {"maximum", "number"},
	} {
		if _, ok := s[hint.keyword]; ok {
			return hint.kind
		}
	}
	return "any"
}

func (r *renderer) kind(name string, w *view, depth, room int) string {
	switch name {
	case "object":
		return r.object(w, depth, room)
	case "array":
		return r.array(w, depth, room)
	case "string":
		return name + r.stringComment(w.schema)
	case "integer", "number":
		return name + r.numberComment(w.schema)
	case "boolean", "null":
		return name
	}
	return "any"
}

func (r *renderer) enumeration(values []any) expr {
	var parts []string
	add := func(s string) {
		if !slices.Contains(parts, s) {
			parts = append(parts, s)
		}
	}
	for i, v := range values {
		switch {
		case r.enum == 0:
			add(strings.TrimPrefix(strings.TrimPrefix(kindOf(v), "an "), "a "))
		case i == r.enum:
			add(omitted)
			return expr{strings.Join(parts, "|"), true}
		default:
			add(enumLiteral(v))
		}
		if i > 1000 {
			break
		}
	}
	return expr{strings.Join(parts, "|"), len(parts) > 1}
}

func enumLiteral(v any) string {
	switch v.(type) {
	case []any:
		return "any[]"
	case map[string]any:
		return "object"
	}
	return literal(v)
}

// union writes alternatives, and with & what holds beside each of them.
func (r *renderer) union(w *view, depth, room int) expr {
	base := ""
	if props, ok := w.schema["properties"].(map[string]any); ok && len(props) > 0 {
		base = r.object(w, depth, room-len(" & (…)")) + " & "
		room -= length(base) + len("()")
	}
	var parts []string
	used, noted := 0, false
	for _, a := range w.alternatives {
		e := r.typ(a, depth, room-used)
		if slices.Contains(parts, e.text) {
			continue
		}
		n := used + length(e.text) + len("|")
		if r.cut && n+len("…") > room || r.steps < 0 {
			parts = append(parts, omitted)
			break
		}
		parts = append(parts, e.text)
		noted = noted || strings.HasSuffix(e.text, "*/")
		if used = n; used > room {
			break
		}
	}
	e := expr{strings.Join(parts, "|"), len(parts) > 1 || noted}
	if base == "" {
		return e
	}
	return expr{base + r.grouped(e), true}
}

func (r *renderer) grouped(e expr) string {
	if e.compound {
		return "(" + e.text + ")"
	}
	return e.text
}

func (r *renderer) array(w *view, depth, room int) string {
	for _, keyword := range []string{"prefixItems", "items"} {
		if items, ok := w.schema[keyword].([]any); ok {
			return r.tuple(items, depth, room)
		}
	}
	items, ok := w.schema["items"]
	if !ok {
		return "any[]"
	}
	return r.grouped(r.typ(items, depth, room-len("[]"))) + "[]" + r.itemsComment(w.schema)
}

func (r *renderer) tuple(items []any, depth, room int) string {
	var b strings.Builder
	b.WriteByte('[')
	for i, item := range items {
		if i > 0 {
			b.WriteString(", ")
		}
		if b.Len() > room {
			break
		}
		b.WriteString(r.typ(item, depth, room-b.Len()).text)
	}
	b.WriteByte(']')
	return b.String()
}

func (r *renderer) object(w *view, depth, room int) string {
	list := w.members()
	r.steps -= len(list) / 8
	if len(list) == 0 {
		switch {
		case w.open() && depth > 0:
			return "{" + r.index(w, depth, room-2) + "}"
		case w.schema["additionalProperties"] == false:
			return "{}"
		case depth == r.depth && w.schema["properties"] != nil:
			return "{}" // a tool without arguments
		}
		return "object"
	}
	if depth <= 0 {
		return "object"
	}
	within := depth < r.depth
	var b strings.Builder
	b.WriteByte('{')
	used := len("{}")
	for i, p := range list {
		if i > 0 {
			b.WriteString("; ")
			used += len("; ")
		}
		if within && i == r.members || !r.step() {
			b.WriteString(omitted)
			return b.String() + "}"
		}
		text := r.member(p, depth-1, room-used)
		if r.cut && used+length(text)+markLength > room {
			b.WriteString(omitted)
			return b.String() + "}"
		}
		b.WriteString(text)
		if used += length(text); used > room {
			return b.String() // too long whatever follows
		}
	}
	if w.open() {
		b.WriteString("; " + r.index(w, depth, room-used-len("; ")))
	}
	return b.String() + "}"
}

// member writes a property; depth is that of its type.
func (r *renderer) member(p property, depth, room int) string {
	s := propertyName(p.name)
	if !p.required {
		s += "?"
	}
	s += ": "
	return s + r.typ(p.schema, depth, room-length(s)).text
}

func (r *renderer) index(w *view, depth, room int) string {
	const name = "[key: string]: "
	return name + r.typ(w.schema["additionalProperties"], depth-1, room-len(name)).text
}

func (r *renderer) stringComment(s map[string]any) string {
	if !r.comments {
		return ""
	}
	var notes []string
	if f, ok := s["format"].(string); ok {
		if f = plainFormat(f); f != "string" && f != "" {
			notes = append(notes, f)
		}
	}
	if most, ok := s["maxLength"].(json.Number); ok && len(most) < 6 {
		notes = append(notes, "≤"+string(most)+" characters")
	}
	return comment(notes)
}

func (r *renderer) itemsComment(s map[string]any) string {
	if !r.comments {
		return ""
	}
	return comment(bounds(s, "minItems", "maxItems", " items"))
}

func (r *renderer) numberComment(s map[string]any) string {
	if !r.comments {
		return ""
	}
	var notes []string
	if n, ok := bound(s["exclusiveMinimum"]); ok {
		notes = append(notes, ">"+n)
	}
	notes = append(notes, bounds(s, "minimum", "maximum", "")...)
	if n, ok := bound(s["exclusiveMaximum"]); ok {
		notes = append(notes, "<"+n)
	}
	return comment(notes)
}

// bounds writes "1..20", "≥1" or "≤20".
func bounds(s map[string]any, low, high, unit string) []string {
	least, ok1 := bound(s[low])
	most, ok2 := bound(s[high])
	switch {
	case ok1 && ok2:
		return []string{least + ".." + most + unit}
	case ok1 && (unit == "" || least != "0"):
		return []string{"≥" + least + unit}
	case ok2:
		return []string{"≤" + most + unit}
	}
	return nil
}

// bound returns a number that is worth telling: not one of those that generators write for "any".
func bound(v any) (string, bool) {
	n, ok := v.(json.Number)
	if !ok || len(n) > 16 {
		return "", false
	}
	f, err := n.Float64()
	return string(n), err == nil && math.Abs(f) < 1<<31-1
}

func comment(notes []string) string {
	if len(notes) == 0 {
		return ""
	}
	return " /* " + strings.Join(notes, ", ") + " */"
}
