package schema

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/toolcrib/toolcrib/internal/core/names"
)

const (
	omitted = "…"
	// markLength is the length of "; …" in characters.
	markLength = 3
	// renderSteps bounds the subschemas that one rendering looks at.
	renderSteps = 2000
)

// A detail says how much a signature tells.
type detail struct {
	comments bool
	depth    int  // levels of objects
	enum     int  // values of an enumeration; 0 shows its type
	members  int  // of an object within
	cut      bool // leave out what has no room, rather than write too much
}

// details are the ways to write a signature, fullest first.
func details() []detail {
	return []detail{
		{comments: true, depth: 4, enum: 8, members: 40},
		{depth: 4, enum: 8, members: 40},
		{depth: 3, enum: 8, members: 12},
		{depth: 2, enum: 5, members: 6},
		{depth: 1, enum: 3},
		{depth: 1, cut: true},
	}
}

// Signature writes a JSON Schema for a model in at most limit characters, as a
// type in the manner of TypeScript: {title: string; start: string /* date-time */; repeat?: "daily"|"weekly"}.
// Required properties come first, in the order of required, then the optional ones by
// bytes; formats and bounds are comments. Where not all fits, comments,
// enumerations and inner objects give way before names do, and "; …" marks where properties
// were left out. Any JSON value is taken: what is no schema, or larger than [Compile] takes, is "any".
// Text of the schema is cleaned, see [names.Text].
func Signature(input json.RawMessage, limit int) string {
	doc, _, err := decode(input, schemaLimits())
	if err != nil {
		doc = true
	}
	return expression(doc, doc, limit)
}

// expression writes v, a part of the schema doc, as [Signature] does.
func expression(doc, v any, limit int) string {
	all := details()
	for _, d := range all {
		if s := newRenderer(doc, d).typ(v, d.depth, limit).text; length(s) <= limit {
			return s
		}
		if _, ok := v.(map[string]any); ok && d == all[0] {
			if s, ok := fitMembers(doc, v, limit); ok {
				return s
			}
		}
	}
	if limit < 1 {
		return ""
	}
	return omitted
}

// fitMembers writes an object that is too large to be written whole; ok is false where v is no
// object with properties or limit is too small for any.
func fitMembers(doc, v any, limit int) (s string, ok bool) {
	all := details()
	plain := newRenderer(doc, all[len(all)-1])
	view := plain.view(v)
	if !view.isObject() || len(view.alternatives) > 0 {
		return "", false
	}
	members, left := shortest(plain, view, limit)
	if len(members) == 0 {
		return "", false
	}
	used := len("{}") + separator(len(members)-1)*(len(members)-1)
	for _, m := range members {
		used += length(m.text)
	}
	if left {
		used += markLength
	}
	// More about each, the same kind of detail for all before the next.
	steps := 10 * renderSteps
	for i := len(all) - 2; i >= 0; i-- {
		for _, m := range members {
			r := newRenderer(doc, all[i])
			text := r.member(m.property, all[i].depth-1, limit-used+length(m.text))
			if steps -= renderSteps - r.steps; steps < 0 {
				break
			}
			if n := used + length(text) - length(m.text); n <= limit {
				used, m.text = n, text
			}
		}
	}
	var texts []string
	for _, m := range members {
		texts = append(texts, m.text)
	}
	if left {
		texts = append(texts, omitted)
	}
	return "{" + strings.Join(texts, "; ") + "}", true
}

// shortest writes as many properties as have room, each at its shortest; left says whether any is missing.
func shortest(r *renderer, w *view, limit int) (members []*member, left bool) {
	list := w.members()
	left = w.open()
	used := len("{}")
	for i, p := range list {
		text := r.member(p, 0, limit)
		n := used + separator(len(members)) + length(text)
		reserve := 0
		if left || i+1 < len(list) {
			reserve = markLength
		}
		if n+reserve > limit {
			left = true
			if limit-used < len("a: b; …") {
				break
			}
			continue
		}
		used = n
		members = append(members, &member{p, text})
	}
	return members, left
}

// A member is a property as it is written.
type member struct {
	property property
	text     string
}

func separator(before int) int {
	if before == 0 {
		return 0
	}
	return len("; ")
}

func length(s string) int { return utf8.RuneCountInString(s) }

// propertyName writes a name as it is, or as a string where it is no identifier.
func propertyName(s string) string {
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '$'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return quote(s)
		}
	}
	if s == "" || len(s) > 60 {
		return quote(s)
	}
	return s
}

// plainFormat returns the name of a format where it is one, else "string".
func plainFormat(s string) string {
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.:", r) {
			return "string"
		}
	}
	return names.Cut(s, 40)
}
