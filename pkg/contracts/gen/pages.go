package main

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const notice = "<!-- Generated from pkg/contracts by its command gen. Change the source and run: make generate -->\n\n"

// A page is a document in Markdown that is being written.
type page struct{ strings.Builder }

func (p *page) say(format string, args ...any) { fmt.Fprintf(p, format+"\n\n", args...) }

// table writes rows of cells, the first row being the heads.
func (p *page) table(rows ...[]string) {
	for i, r := range rows {
		fmt.Fprintf(p, "| %s |\n", strings.Join(r, " | "))
		if i == 0 {
			fmt.Fprintf(p, "|%s\n", strings.Repeat("---|", len(r)))
		}
	}
	p.WriteString("\n")
}

// eventsPage returns events.md.
func eventsPage(m *model) string {
	var p page
	p.WriteString(notice)
	p.say("# What is on the bus")
	p.say("Streams, stored records and questions, and every event with its fields. The same events for machines: [asyncapi.yaml](asyncapi.yaml). " +
		"One committed sample of each: `pkg/contracts/testdata/events`.")
	p.say("Fields and values are added, never renamed or used for something else. Ignore those that you do not know. " +
		"The tenant is in the subject of each event and question and in the key of each record; no payload decides it. " +
		"A wake-up names its record by key, and is refused unless that key is of the tenant of its subject.")
	for _, s := range []struct{ head, prefix, column string }{
		{"Streams", "Stream", "stream"},
		{"Records", "Bucket", "key/value bucket"},
		{"Content", "Store", "object store"},
	} {
		p.say("## %s", s.head)
		rows := [][]string{{s.column, "holds"}}
		for _, v := range m.words.constants(s.prefix) {
			rows = append(rows, []string{code(v.text), marked(v.comment)})
		}
		p.table(rows...)
	}
	p.questions(m)
	p.subjects(m)
	for _, e := range m.events {
		p.event(m, e)
	}
	p.say("## Types")
	for _, t := range m.types {
		p.namedType(m, t)
	}
	return strings.TrimRight(p.String(), "\n") + "\n"
}

func (p *page) questions(m *model) {
	p.say("## Questions")
	p.say("One service answers them for another, by request and reply.")
	rows := [][]string{{"subject", "question → answer; who answers"}}
	for _, v := range m.words.values["Verb"] {
		rows = append(rows, []string{code(contracts.AskSubject("{tenant}", contracts.Verb(v.text))), marked(v.comment)})
	}
	p.table(rows...)
}

func (p *page) subjects(m *model) {
	p.say("## Events")
	rows := [][]string{{"event", "subject", "published by", "says"}}
	for _, e := range m.events {
		rows = append(rows, []string{fmt.Sprintf("[%s](#%s)", e.Type, anchor(e.Type)), code(e.Pattern), e.Sender, marked(e.Text)})
	}
	p.table(rows...)
}

func (p *page) event(m *model, e event) {
	p.say("### %s", e.Type)
	p.say("%s Published by: %s.", marked(m.words.types[e.name]), e.Sender)
	p.say("`%s`", e.Pattern)
	p.fields(m, e.fields)
}

func (p *page) namedType(m *model, t namedType) {
	p.say("### %s", t.name)
	if t.name == sourceType.Name() {
		p.say("%s It is a string, `kind:owner`.", marked(m.words.types[t.name]))
		return
	}
	p.say("%s", marked(m.words.types[t.name]))
	if t.fields != nil {
		p.fields(m, t.fields)
		return
	}
	values := m.valuesOf(t.name)
	if len(values) == 0 {
		p.say("It is a string.")
		return
	}
	rows := [][]string{{"value", ""}}
	for _, v := range values {
		rows = append(rows, []string{code(v.text), marked(v.comment)})
	}
	p.table(rows...)
}

func (p *page) fields(m *model, fields []field) {
	rows := [][]string{{"field", "type", ""}}
	for _, f := range fields {
		typ := m.typeName(f.typ)
		if f.optional {
			typ += ", optional"
		}
		rows = append(rows, []string{code(f.name), typ, marked(f.comment)})
	}
	p.table(rows...)
}

// typeName returns what a table says of a type, in the words of JSON.
func (m *model) typeName(typ reflect.Type) string {
	switch {
	case typ == timeType:
		return "time (RFC 3339)"
	case typ == rawType, typ.Kind() == reflect.Interface:
		return "any JSON"
	case m.isNamed(typ):
		return fmt.Sprintf("[%s](#%s)", typ.Name(), anchor(typ.Name()))
	}
	switch typ.Kind() {
	case reflect.Pointer:
		return m.typeName(typ.Elem())
	case reflect.Slice:
		return "list of " + m.typeName(typ.Elem())
	case reflect.Map:
		return "map of " + m.typeName(typ.Key()) + " to " + m.typeName(typ.Elem())
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return "integer"
	case reflect.Float64:
		return "number"
	}
	return typ.Kind().String()
}

// errorsPage returns errors.md.
func errorsPage() string {
	var p page
	p.WriteString(notice)
	p.say("# Error codes")
	p.say("Every error that leaves Toolcrib has one of these codes. Codes are added, never changed or used for something else: "+
		"treat one that you do not know like `%s`. HTTP is the status of a problem document (RFC 9457), MCP the code of a JSON-RPC error, exit the exit status of the command line.", contracts.CodeInternal)
	rows := [][]string{{"code", "HTTP", "MCP", "exit", "means"}}
	for _, c := range contracts.Codes() {
		rows = append(rows, []string{code(string(c.Code)), fmt.Sprint(c.HTTP), fmt.Sprint(c.MCP), fmt.Sprint(c.Exit), marked(c.Text)})
	}
	p.table(rows...)
	return strings.TrimRight(p.String(), "\n") + "\n"
}

func code(s string) string { return "`" + s + "`" }

// anchor returns where a heading of s is found on its page.
func anchor(s string) string { return strings.ToLower(strings.ReplaceAll(s, ".", "")) }

var placeholder = regexp.MustCompile(`\{(\w+)\}`)

// placeholders returns the names in braces of a pattern.
func placeholders(pattern string) []string {
	var names []string
	for _, m := range placeholder.FindAllStringSubmatch(pattern, -1) {
		names = append(names, m[1])
	}
	return names
}
