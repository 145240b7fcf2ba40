package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// An object is a mapping of YAML whose keys keep their order.
type object struct {
	keys   []string
	values map[string]any // string, *object or []any
}

// obj returns an object of alternating keys and values.
func obj(pairs ...any) *object {
	o := &object{values: map[string]any{}}
	for i := 0; i < len(pairs); i += 2 {
		o.set(pairs[i].(string), pairs[i+1])
	}
	return o
}

// set adds a key or replaces its value, and returns o.
func (o *object) set(key string, v any) *object {
	if _, ok := o.values[key]; !ok {
		o.keys = append(o.keys, key)
	}
	o.values[key] = v
	return o
}

// get returns the value of key, nil where there is none.
func (o *object) get(key string) any { return o.values[key] }

// yaml returns o as a YAML document.
func (o *object) yaml() string {
	var b strings.Builder
	o.write(&b, "")
	return b.String()
}

func (o *object) write(b *strings.Builder, indent string) {
	for _, k := range o.keys {
		b.WriteString(indent + scalar(k) + ":")
		writeValue(b, o.values[k], indent)
	}
}

// writeValue writes v after a key at indent.
func writeValue(b *strings.Builder, v any, indent string) {
	switch v := v.(type) {
	case string:
		b.WriteString(" " + scalar(v) + "\n")
	case *object:
		if len(v.keys) == 0 {
			b.WriteString(" {}\n")
			return
		}
		b.WriteString("\n")
		v.write(b, indent+"  ")
	case []any:
		writeList(b, v, indent)
	default:
		panic(fmt.Sprintf("no YAML for %T", v))
	}
}

// writeList writes strings on one line and objects one below the other.
func writeList(b *strings.Builder, list []any, indent string) {
	var flat []string
	for _, x := range list {
		if s, ok := x.(string); ok {
			flat = append(flat, scalar(s))
		}
	}
	if len(flat) == len(list) {
		b.WriteString(" [" + strings.Join(flat, ", ") + "]\n")
		return
	}
	b.WriteString("\n")
	for _, x := range list {
		var item strings.Builder
		x.(*object).write(&item, indent+"    ")
		b.WriteString(indent + "  - " + strings.TrimLeft(item.String(), " "))
	}
}

var (
	simple   = regexp.MustCompile(`^[A-Za-z_/][A-Za-z0-9_./-]*( [A-Za-z0-9_./()-]+)*$`)
	reserved = regexp.MustCompile(`(?i)^(true|false|yes|no|on|off|null|y|n)$`)
)

// scalar returns s as it is where nothing in it means anything to YAML, and else in quotes: a string of JSON is one of YAML.
func scalar(s string) string {
	if simple.MatchString(s) && !reserved.MatchString(s) {
		return s
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // of a string into memory
	return strings.TrimSpace(b.String())
}
