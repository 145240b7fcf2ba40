package schema

import (
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// mostForms is how many alternatives are looked at.
const mostForms = 64

// alternatives reports why a value fits none of several forms: the problems of
// the one form that was clearly meant, else what all of them want.
func (r *report) alternatives(e *jsonschema.ValidationError) {
	at := e.InstanceLocation
	var forms, meant [][]problem
	for _, c := range e.Causes[:min(len(e.Causes), mostForms)] {
		one := &report{doc: r.doc}
		one.add(c)
		forms = append(forms, one.found)
		if !slices.ContainsFunc(one.found, func(p problem) bool { return len(p.path) == len(at) && p.value != nil }) {
			meant = append(meant, one.found)
		}
	}
	if len(meant) == 0 {
		r.oneOfValues(e, at, forms)
		return
	}
	// Forms that a tag tells apart, such as {"type":"card",…} and {"type":"cash",…}.
	tags := func(f []problem) (n int) {
		for _, p := range f {
			if len(p.path) == len(at)+1 && p.value.tag() {
				n++
			}
		}
		return n
	}
	meant = least(meant, tags)
	if tags(meant[0]) == 1 && len(meant) > 1 && r.wrongTag(e, at, meant) {
		return
	}
	meant = least(meant, missing) // what was given shows which one was meant
	meant = least(meant, func(f []problem) int { return len(f) })
	switch {
	case allSame(meant):
		r.found = append(r.found, meant[0]...)
	case r.lacks(e, at, meant):
	default:
		form := ""
		if node := r.node(e.SchemaURL); node != nil {
			form = "; want " + expression(r.doc, node, 160)
		}
		r.say(e, at, "fits none of the allowed forms%s", form)
	}
}

func missing(f []problem) (n int) {
	for _, p := range f {
		if p.missing {
			n++
		}
	}
	return n
}

// A mismatch is a value that is of no kind and equal to no value that is allowed.
type mismatch struct {
	got     string // its kind
	wants   []string
	ofKinds bool // only kinds are wanted, no values
}

// mismatchOf returns the mismatch that k is, nil for any other.
func mismatchOf(k jsonschema.ErrorKind) *mismatch {
	switch k := k.(type) {
	case *kind.Type:
		m := &mismatch{got: article(k.Got), ofKinds: true}
		for _, t := range k.Want {
			m.wants = append(m.wants, article(t))
		}
		return m
	case *kind.Const:
		return &mismatch{got: kindOf(k.Got), wants: []string{literal(k.Want)}}
	case *kind.Enum:
		m := &mismatch{got: kindOf(k.Got)}
		for _, v := range k.Want[:min(len(k.Want), mostValues+1)] {
			m.wants = append(m.wants, literal(v))
		}
		return m
	}
	return nil
}

// tag reports whether certain values are wanted, such as tell forms apart.
func (m *mismatch) tag() bool { return m != nil && !m.ofKinds }

// least returns the forms of which measure is least.
func least(forms [][]problem, measure func([]problem) int) [][]problem {
	low := measure(forms[0])
	for _, f := range forms {
		low = min(low, measure(f))
	}
	return slices.DeleteFunc(slices.Clone(forms), func(f []problem) bool { return measure(f) != low })
}

func allSame(forms [][]problem) bool {
	for _, f := range forms[1:] {
		if !slices.EqualFunc(f, forms[0], func(a, b problem) bool { return a.message == b.message && slices.Equal(a.path, b.path) }) {
			return false
		}
	}
	return true
}

// oneOfValues reports that the value at path is of no kind and no value that the forms allow.
func (r *report) oneOfValues(e *jsonschema.ValidationError, path []string, forms [][]problem) {
	all := &mismatch{ofKinds: true}
	for _, f := range forms {
		for _, p := range f {
			if p.value == nil || len(p.path) != len(path) {
				continue
			}
			all.got, all.ofKinds = p.value.got, all.ofKinds && p.value.ofKinds
			for _, want := range p.value.wants {
				if !slices.Contains(all.wants, want) {
					all.wants = append(all.wants, want)
				}
			}
		}
	}
	not := ""
	if !all.ofKinds {
		not = " that is not allowed"
	}
	r.say(e, path, "is %s%s; want %s", all.got, not, list(all.wants, func(s string) string { return s }, " or "))
	r.found[len(r.found)-1].value = all
}

// wrongTag reports the property in which all forms want some other value, where it is the same one.
func (r *report) wrongTag(e *jsonschema.ValidationError, at []string, forms [][]problem) bool {
	var path []string
	var tagged [][]problem
	for _, f := range forms {
		i := slices.IndexFunc(f, func(p problem) bool { return len(p.path) == len(at)+1 && p.value.tag() })
		if path == nil {
			path = f[i].path
		}
		if !slices.Equal(path, f[i].path) {
			return false
		}
		tagged = append(tagged, f[i:i+1])
	}
	r.oneOfValues(e, path, tagged)
	return true
}

// lacks reports that one of several sets of properties must be given, where that is all that is wrong.
func (r *report) lacks(e *jsonschema.ValidationError, at []string, forms [][]problem) bool {
	var sets []string
	for _, f := range forms {
		var missing []string
		for _, p := range f {
			if !p.missing || len(p.path) != len(at)+1 {
				return false
			}
			missing = append(missing, quote(p.path[len(at)]))
		}
		sets = append(sets, strings.Join(missing, " and "))
	}
	r.say(e, at, "lacks a property; want %s", list(sets, func(s string) string { return s }, " or "))
	return true
}
