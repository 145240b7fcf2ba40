package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/toolcrib/toolcrib/internal/core/names"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const (
	mostFields  = 50  // wrong fields that are named
	mostValues  = 12  // allowed values or names that a message lists
	longestText = 300 // characters of a message
)

// A report turns the tree of errors of one check into a list of wrong fields.
type report struct {
	doc   any // the schema, nil where messages do without
	found []problem
}

// A problem is one thing that is wrong with one field.
type problem struct {
	path    []string
	at      string // path as a pointer, set at the end
	message string
	missing bool      // a required property
	value   *mismatch // where the value is of the wrong kind or not among those allowed
}

func newReport(doc any) *report { return &report{doc: doc} }

// fields returns the wrong fields, one entry each, sorted by their pointers.
func (r *report) fields(e *jsonschema.ValidationError) []contracts.FieldError {
	r.add(e)
	for i := range r.found {
		r.found[i].at = pointer(r.found[i].path)
	}
	slices.SortStableFunc(r.found, func(a, b problem) int { return strings.Compare(a.at, b.at) })
	var list []contracts.FieldError
	before := ""
	for _, p := range r.found {
		last := len(list) - 1
		switch {
		case last < 0 || before != p.at:
			list = append(list, contracts.FieldError{Field: shortPointer(p.path), Message: names.Cut(p.message, longestText)})
		case !strings.Contains(list[last].Message, p.message):
			list[last].Message = names.Cut(list[last].Message+"; "+p.message, longestText)
		}
		before = p.at
	}
	if more := len(list) - mostFields; more > 0 {
		list = append(list[:mostFields], contracts.FieldError{Message: fmt.Sprintf("%d more fields are wrong", more)})
	}
	return list
}

// shortPointer is pointer with very long names cut.
func shortPointer(path []string) string {
	const most = 128
	for _, p := range path {
		if len(p) > most {
			path = slices.Clone(path)
			for i := range path {
				path[i] = names.Cut(path[i], most)
			}
			break
		}
	}
	return pointer(path)
}

func (r *report) say(e *jsonschema.ValidationError, path []string, format string, args ...any) {
	_, missing := e.ErrorKind.(*kind.Required)
	r.found = append(r.found, problem{path: path, message: fmt.Sprintf(format, args...), missing: missing, value: mismatchOf(e.ErrorKind)})
}

func below(path []string, name string) []string { return append(slices.Clip(path), name) }

// add takes the problems of e and what caused it.
func (r *report) add(e *jsonschema.ValidationError) {
	at := e.InstanceLocation
	switch k := e.ErrorKind.(type) {
	case *kind.AnyOf:
		r.alternatives(e)
	case *kind.OneOf:
		if len(k.Subschemas) == 2 {
			r.say(e, at, "fits more than one of the allowed forms (numbers %d and %d); it must fit exactly one", k.Subschemas[0]+1, k.Subschemas[1]+1)
			return
		}
		r.alternatives(e)
	case *kind.Required:
		for _, name := range k.Missing {
			r.say(e, below(at, name), "is missing; it is required%s", r.wanted(e, "properties", name))
		}
	case *kind.DependentRequired:
		r.dependency(e, k.Prop, k.Missing)
	case *kind.Dependency:
		r.dependency(e, k.Prop, k.Missing)
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			r.unknown(e, at, name)
		}
	case *kind.FalseSchema:
		if n := len(at); n > 0 && strings.HasSuffix(e.SchemaURL, "/unevaluatedProperties") {
			r.unknown(e, at[:n-1], at[n-1])
			return
		}
		r.say(e, at, "is not allowed")
	case *kind.PropertyNames:
		inner := &report{doc: r.doc}
		for _, c := range e.Causes {
			inner.add(c)
		}
		why := ""
		if len(inner.found) > 0 {
			why = ": it " + inner.found[0].message
		}
		r.say(e, below(at, k.Property), "has a name that is not allowed%s", why)
	case *kind.Contains, *kind.MinContains, *kind.MaxContains: // their causes are the items that need not fit
		r.say(e, at, "%s", simple(k))
	default:
		if len(e.Causes) == 0 {
			r.say(e, at, "%s", simple(k))
		}
		for _, c := range e.Causes {
			r.add(c)
		}
	}
}

func (r *report) dependency(e *jsonschema.ValidationError, given string, missing []string) {
	for _, name := range missing {
		r.say(e, below(e.InstanceLocation, name), "is missing; it is required because %s is given", quote(given))
	}
}

// unknown reports a property that the object at path may not have.
func (r *report) unknown(e *jsonschema.ValidationError, path []string, name string) {
	known := r.known(e.SchemaURL)
	hint := ""
	if near := names.Suggest(name, known, 1); len(near) > 0 {
		hint = "; did you mean " + quote(near[0]) + "?"
	} else if len(known) > 0 {
		hint = "; known: " + list(known, quote, ", ")
	}
	r.say(e, below(path, name), "is not a known property%s", hint)
}

// known returns the names of the properties that the schema at a location knows, sorted.
func (r *report) known(location string) []string {
	node := r.node(location)
	if node == nil { // unevaluatedProperties: those of the schema around it, wherever it has them from
		around := r.node(location[:max(0, strings.LastIndexByte(location, '/'))])
		node = newRenderer(r.doc, detail{}).merged(around, 0)
	}
	props, _ := node["properties"].(map[string]any)
	return slices.Sorted(maps.Keys(props))
}

// wanted returns the form of a subschema of the one that failed, to end a message with.
func (r *report) wanted(e *jsonschema.ValidationError, path ...string) string {
	var v any = r.node(e.SchemaURL)
	for _, p := range path {
		m, _ := v.(map[string]any)
		v = m[p]
	}
	if m, ok := v.(map[string]any); ok && len(m) > 0 {
		if form := expression(r.doc, m, 120); form != "any" {
			return ": " + form
		}
	}
	return ""
}

// node returns the object at a location of the schema, nil where there is none.
func (r *report) node(location string) map[string]any {
	_, fragment, _ := strings.Cut(location, "#")
	v := r.doc
	for i, token := range strings.Split(fragment, "/") {
		if i == 0 {
			continue
		}
		token, err := url.PathUnescape(token)
		if err != nil {
			return nil
		}
		v = child(v, token)
	}
	m, _ := v.(map[string]any)
	return m
}

// child follows one token of a JSON Pointer.
func child(v any, token string) any {
	token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
	switch v := v.(type) {
	case map[string]any:
		return v[token]
	case []any:
		if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(v) {
			return v[i]
		}
	}
	return nil
}

// simple returns the message of an error that has no causes.
func simple(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return wrongType(k)
	case *kind.Enum:
		return wrongValue(k)
	case *kind.Const:
		return fmt.Sprintf("is %s that is not allowed; want %s", kindOf(k.Got), literal(k.Want))
	case *kind.MinLength:
		return fmt.Sprintf("has %s; want at least %d", count(k.Got, "character"), k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("has %s; want at most %d", count(k.Got, "character"), k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("has %s; want at least %d", count(k.Got, "item"), k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("has %s; want at most %d", count(k.Got, "item"), k.Want)
	case *kind.AdditionalItems:
		return fmt.Sprintf("has %s too many", count(k.Count, "item"))
	case *kind.MinProperties:
		return fmt.Sprintf("has %s; want at least %d", properties(k.Got), k.Want)
	case *kind.MaxProperties:
		return fmt.Sprintf("has %s; want at most %d", properties(k.Got), k.Want)
	case *kind.Minimum:
		return "is too small; want at least " + number(k.Want)
	case *kind.Maximum:
		return "is too large; want at most " + number(k.Want)
	case *kind.ExclusiveMinimum:
		return "is too small; want more than " + number(k.Want)
	case *kind.ExclusiveMaximum:
		return "is too large; want less than " + number(k.Want)
	case *kind.MultipleOf:
		return "is no multiple of " + number(k.Want)
	case *kind.Pattern:
		return "does not match the pattern " + names.Cut(names.Text(k.Want), 160)
	case *kind.Format:
		return wrongFormat(k.Want)
	case *kind.UniqueItems:
		return fmt.Sprintf("has equal items (%d and %d); want each only once", k.Duplicates[0], k.Duplicates[1])
	case *kind.Contains:
		return "has no item of a form that it must contain"
	case *kind.MinContains:
		return fmt.Sprintf("has %s of a form that it must contain; want at least %d", count(len(k.Got), "item"), k.Want)
	case *kind.MaxContains:
		return fmt.Sprintf("has %s of a form that is limited; want at most %d", count(len(k.Got), "item"), k.Want)
	case *kind.RefCycle:
		return "cannot be checked; the schema refers to itself without end"
	}
	return "has a form that is not allowed"
}

func wrongType(k *kind.Type) string {
	want := list(k.Want, article, " or ")
	if k.Got == "number" && slices.Contains(k.Want, "integer") {
		return "is a number with a fraction; want " + want
	}
	return fmt.Sprintf("is %s; want %s", article(k.Got), want)
}

func article(kind string) string {
	switch kind {
	case "null":
		return kind
	case "integer", "array", "object":
		return "an " + kind
	}
	return "a " + kind
}

func wrongValue(k *kind.Enum) string {
	hint := ""
	if got, ok := k.Got.(string); ok {
		var allowed []string
		for _, v := range k.Want {
			if s, ok := v.(string); ok {
				allowed = append(allowed, s)
			}
		}
		if near := names.Suggest(got, allowed, 1); len(near) > 0 {
			hint = "; did you mean " + quote(near[0]) + "?"
		}
	}
	return fmt.Sprintf("is %s that is not allowed; want %s%s", kindOf(k.Got), list(k.Want, literal, " or "), hint)
}

func wrongFormat(format string) string {
	examples := map[string]string{
		"date-time": "2026-01-31T09:30:00Z", "date": "2026-01-31", "time": "09:30:00Z", "duration": "PT1H30M",
		"email": "ada@example.org", "uri": "https://example.org/page", "hostname": "example.org",
		"ipv4": "192.0.2.1", "ipv6": "2001:db8::1", "uuid": "123e4567-e89b-12d3-a456-426614174000",
	}
	if example, ok := examples[format]; ok {
		return fmt.Sprintf("is not a valid %s; want something like %s", format, example)
	}
	return "is not a valid " + plainFormat(format)
}

// list joins values with commas and, before the last, with and; it leaves out what is too much.
func list[T any](values []T, show func(T) string, and string) string {
	var b strings.Builder
	for i, v := range values {
		switch {
		case i == mostValues || b.Len() > longestText/2:
			return b.String() + fmt.Sprintf(" … (%d in all)", len(values))
		case i > 0 && i == len(values)-1:
			b.WriteString(and)
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(show(v))
	}
	return b.String()
}

func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}

func properties(n int) string {
	if n == 1 {
		return "1 property"
	}
	return strconv.Itoa(n) + " properties"
}

// number writes r as a decimal, cut at 20 digits after the point.
func number(r *big.Rat) string {
	n, _ := r.FloatPrec()
	s := r.FloatString(min(n, 20))
	if len(s) > 40 {
		f, _ := r.Float64()
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	return s
}

// quote writes untrusted text as a JSON string, clean and not too long.
func quote(s string) string {
	return encode(names.Cut(names.Text(s), 60))
}

// literal writes a JSON value, clean and not too long.
func literal(v any) string {
	if s, ok := v.(string); ok {
		return quote(s)
	}
	return names.Cut(names.Text(encode(v)), 60)
}

// encode writes v as JSON without escapes for HTML.
func encode(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil { // v was decoded from JSON
		return "null"
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// clip makes text of others fit for an error message.
func clip(s string) string { return names.Cut(names.Text(s), longestText) }
