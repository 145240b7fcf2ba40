package main

import (
	"fmt"
	"reflect"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const schemaRef = "#/components/schemas/"

// schemaOf returns the JSON Schema of a type where it is used: a reference for a named one.
func (m *model) schemaOf(typ reflect.Type) *object {
	switch {
	case typ == timeType:
		return obj("type", "string", "format", "date-time")
	case typ == rawType:
		return obj("description", "Any JSON.")
	case m.isNamed(typ):
		return obj("$ref", schemaRef+typ.Name())
	}
	switch typ.Kind() {
	case reflect.Pointer:
		return m.schemaOf(typ.Elem())
	case reflect.Slice:
		return obj("type", "array", "items", m.schemaOf(typ.Elem()))
	case reflect.Map:
		return obj("type", "object", "additionalProperties", m.schemaOf(typ.Elem()))
	case reflect.Interface:
		return obj("description", "Any JSON.")
	case reflect.String:
		return obj("type", "string")
	case reflect.Bool:
		return obj("type", "boolean")
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return obj("type", "integer")
	case reflect.Float64:
		return obj("type", "number")
	}
	panic(fmt.Sprintf("no JSON Schema for %v", typ))
}

// structSchema returns the JSON Schema of a struct. More fields may come: it closes nothing.
func (m *model) structSchema(comment string, fields []field) *object {
	properties := obj()
	var required []any
	for _, f := range fields {
		properties.set(f.name, m.fieldSchema(f))
		if !f.optional {
			required = append(required, f.name)
		}
	}
	s := obj("type", "object")
	if comment != "" {
		s.set("description", plain(comment))
	}
	if len(required) > 0 {
		s.set("required", required)
	}
	return s.set("properties", properties)
}

// fieldSchema is the schema of the field's type with its comment. A nil slice or map that is not left out is null.
func (m *model) fieldSchema(f field) *object {
	s := m.schemaOf(f.typ)
	if k := f.typ.Kind(); !f.optional && f.typ != rawType && (k == reflect.Slice || k == reflect.Map) {
		s.set("type", []any{s.get("type"), "null"})
	}
	switch {
	case f.comment == "":
		return s
	case s.get("$ref") != nil: // what stands beside a $ref does not count
		return obj("description", plain(f.comment), "allOf", []any{s})
	}
	return s.set("description", plain(f.comment))
}

// namedSchema returns the JSON Schema of a named type. The values of a string are examples: more may come.
func (m *model) namedSchema(t namedType) *object {
	comment := m.words.types[t.name]
	if t.fields != nil && t.name != sourceType.Name() {
		return m.structSchema(comment, t.fields)
	}
	s := obj("type", "string", "description", plain(comment))
	if t.name == sourceType.Name() {
		return s.set("pattern", `^(platform|plugin|mcp|client):[a-z0-9_-]{1,64}$`)
	}
	var examples []any
	for _, v := range m.valuesOf(t.name) {
		examples = append(examples, v.text)
	}
	if examples != nil {
		s.set("examples", examples)
	}
	return s
}

// valuesOf returns the known values of a named string, none where a constant is no more than an example.
func (m *model) valuesOf(name string) []value {
	if v := m.words.values[name]; len(v) > 1 {
		return v
	}
	return nil
}

// asyncAPI returns the events as an AsyncAPI 3.0 document.
func asyncAPI(m *model) string {
	channels, operations, messages, schemas := obj(), obj(), obj(), obj()
	for _, e := range m.events {
		channels.set(e.Type, obj(
			"address", e.Pattern,
			"summary", e.Text,
			"parameters", parameters(e.Pattern),
			"messages", obj(e.name, obj("$ref", "#/components/messages/"+e.name)),
		))
		operations.set("publish."+e.Type, obj(
			"action", "send",
			"channel", obj("$ref", "#/channels/"+e.Type),
			"summary", e.Text,
			"description", "Published by: "+e.Sender+".",
		))
		messages.set(e.name, obj(
			"name", e.Type,
			"summary", plain(m.words.types[e.name]),
			"headers", obj("$ref", schemaRef+"Headers"),
			"payload", obj("$ref", schemaRef+e.name),
		))
		schemas.set(e.name, m.structSchema(m.words.types[e.name], e.fields))
	}
	for _, t := range m.types {
		schemas.set(t.name, m.namedSchema(t))
	}
	schemas.set("Headers", headers())
	doc := obj(
		"asyncapi", "3.0.0",
		"info", obj(
			"title", "Toolcrib events",
			"version", "1.0.0",
			"description", "The facts that Toolcrib's services publish to the stream "+contracts.StreamEvents+
				". Fields and values are added, never renamed or used for something else: ignore those that you do not know. The tenant is in the subject only.",
		),
		"defaultContentType", "application/json",
		"channels", channels,
		"operations", operations,
		"components", obj("messages", messages, "schemas", schemas),
	)
	return "# Generated from pkg/contracts by its command gen. Change the source and run: make generate\n" + doc.yaml()
}

func headers() *object {
	return obj("type", "object", "properties", obj(
		"Nats-Msg-Id", obj("type", "string", "description", "Equal for an event that is published again: the stream keeps one."),
		"traceparent", obj("type", "string", "description", "W3C trace context."),
	))
}

// parameters describes the placeholders of a pattern.
func parameters(pattern string) *object {
	texts := map[string]string{
		"tenant":   "The tenant: 1 to 63 characters of a-z, 0-9 and '-'.",
		"run":      "The run: run_ and 26 characters.",
		"call":     "The call: call_ and 26 characters.",
		"approval": "The approval: appr_ and the 26 characters of its call.",
		"body":     "The body: body_ and the 26 characters of its call.",
		"search":   "The search: srch_ and 26 characters.",
		"id":       "The question: srch_ and 26 characters.",
		"source":   "The source: kind and owner with '-' between them.",
	}
	p := obj()
	for _, name := range placeholders(pattern) {
		p.set(name, obj("description", texts[name]))
	}
	return p
}
