package main

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A model is what the pages are made of: the events and every type that they use.
type model struct {
	words  *words
	events []event
	types  []namedType // sorted by name, the events' own not among them
}

// An event is one type of event and its fields.
type event struct {
	contracts.EventType
	name   string // of its Go type
	fields []field
}

// A namedType is a struct, or a string with known values.
type namedType struct {
	name   string
	fields []field // nil for a string
}

// A field is one JSON field.
type field struct {
	name, comment string
	typ           reflect.Type
	optional      bool // left out where it is empty
}

var (
	timeType   = reflect.TypeFor[time.Time]()
	rawType    = reflect.TypeFor[json.RawMessage]()
	sourceType = reflect.TypeFor[contracts.SourceID]()
)

func newModel(w *words) *model {
	m := &model{words: w}
	for _, t := range contracts.EventTypes() {
		typ := reflect.TypeOf(t.Zero)
		e := event{EventType: t, name: typ.Name(), fields: m.fieldsOf(typ)}
		m.events = append(m.events, e)
		m.reach(e.fields)
	}
	slices.SortFunc(m.types, func(a, b namedType) int { return strings.Compare(a.name, b.name) })
	return m
}

// fieldsOf returns the JSON fields of a struct, those of embedded structs in their place.
func (m *model) fieldsOf(typ reflect.Type) []field {
	var all []field
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous:
			all = append(all, m.fieldsOf(f.Type)...)
		case name != "-":
			all = append(all, field{
				name:     name,
				comment:  m.words.fields[typ.Name()][f.Name],
				typ:      f.Type,
				optional: strings.Contains(opts, "omit"),
			})
		}
	}
	return all
}

// reach adds the named types of fields, and theirs, to the model.
func (m *model) reach(fields []field) {
	for _, f := range fields {
		m.reachType(f.typ)
	}
}

func (m *model) reachType(typ reflect.Type) {
	switch typ.Kind() {
	case reflect.Map:
		m.reachType(typ.Key())
		m.reachType(typ.Elem())
		return
	case reflect.Pointer, reflect.Slice:
		m.reachType(typ.Elem())
		return
	}
	if !m.isNamed(typ) || slices.ContainsFunc(m.types, func(t namedType) bool { return t.name == typ.Name() }) {
		return
	}
	n := namedType{name: typ.Name()}
	if typ.Kind() == reflect.Struct {
		n.fields = m.fieldsOf(typ)
	}
	m.types = append(m.types, n)
	m.reach(n.fields)
}

// isNamed reports whether typ has an entry of its own in the documentation: it is
// ours, and says more than the kind of its JSON form.
func (m *model) isNamed(typ reflect.Type) bool {
	return typ.PkgPath() == reflect.TypeFor[contracts.Event]().PkgPath() && m.words.types[typ.Name()] != ""
}
