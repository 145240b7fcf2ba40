package openapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// budgets returns the bounds of an input and an output schema of a document with n tools. They are far below what a listing takes of one tool, and
// smaller where there are many, so that a listing stays small of a document in which everything leads to everything.
func budgets(n int) (in, out budget) {
	size := 32 << 10
	for most := 256; n > most && size > 4<<10; most *= 4 {
		size /= 2
	}
	return budget{bytes: size, values: size / 8}, budget{bytes: size / 2, values: size / 16}
}

// An argument is one property of a tool's input schema.
type argument struct {
	in, name string // where its value goes: path, query, header, cookie or body
	schema   any
	required bool
	arg      string // its property
	set      func(arg string)
}

// An input gathers the arguments of an operation.
type input struct {
	args []*argument
	refs []*def
}

// input makes the input schema of an operation, and says in bind where each of its properties goes.
func (b *builder) input(o *operation, bind *binding) (json.RawMessage, error) {
	in := &input{}
	if err := b.params(o, bind, in); err != nil {
		return nil, err
	}
	if err := b.body(o, bind, in); err != nil {
		return nil, err
	}
	in.name()
	properties := map[string]any{}
	var required []string
	for _, a := range in.args {
		a.set(a.arg)
		properties[a.arg] = a.told()
		if a.required {
			required = append(required, a.arg)
		}
	}
	root := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		root["required"] = required
	}
	return b.schemas.complete(root, in.refs, b.inputs)
}

// wholeBody is the argument that a body is which is not made of several.
const wholeBody = "body"

// name gives each argument its name: that of its parameter or property. Those that would share one have their place
// before it, query_id and body_id; what is still the same then has a hash after it. A body as a whole is always "body".
func (in *input) name() {
	count := func() map[string]int {
		n := map[string]int{}
		for _, a := range in.args {
			n[a.arg]++
		}
		return n
	}
	for _, a := range in.args {
		if a.arg = strings.Trim(word(a.name, longestName), "_"); a.arg == "" {
			a.arg = a.in
		}
		if len(word(a.name, longestName+1)) > longestName {
			a.arg = hashed(a.arg, a.in+" "+a.name)
		}
	}
	same := count()
	for _, a := range in.args {
		if same[a.arg] > 1 && !a.whole() {
			a.arg = word(a.in+"_"+a.arg, longestName)
		}
	}
	same = count()
	for _, a := range in.args {
		if same[a.arg] > 1 && !a.whole() {
			a.arg = hashed(a.arg, a.in+" "+a.name)
		}
	}
}

func (a *argument) whole() bool { return a.in == "whole" }

// told returns the schema of an argument, with the name on the wire where that is another.
func (a *argument) told() any {
	s, ok := a.schema.(map[string]any)
	if !ok || a.arg == a.name {
		return a.schema
	}
	note := "Sent as " + a.in + " parameter " + a.name + "."
	if a.in == "body" {
		note = "Sent as " + a.name + " in the body."
	}
	s = maps.Clone(s)
	if d, ok := s["description"].(string); ok {
		note = d + "\n" + note
	}
	s["description"] = note
	return s
}

// params adds the parameters of an operation, those of its path included.
func (b *builder) params(o *operation, bind *binding, in *input) error {
	all, err := b.paramsOf(o)
	if err != nil {
		return err
	}
	template := templateNames(o.path)
	declared := map[string]bool{}
	for _, p := range all {
		where, name := p.text("in"), p.text("name")
		switch {
		case where == "path" && !slices.Contains(template, name), where == "header" && forbidden(name), b.given(bind, where, name):
			continue
		case where == "path":
			declared[name] = true
		}
		if err := b.param(p, bind, in); err != nil {
			return fmt.Errorf("%s parameter %s: %w", where, clip(name), err)
		}
	}
	for _, name := range template {
		if !declared[name] { // it is needed, whatever the document says of it
			declared[name] = true
			bind.Params = append(bind.Params, param{Name: name, In: "path", Style: "simple"})
			i := len(bind.Params) - 1
			in.args = append(in.args, &argument{in: "path", name: name, schema: map[string]any{"type": "string"}, required: true,
				set: func(arg string) { bind.Params[i].Arg = arg }})
		}
	}
	return nil
}

// paramsOf returns the parameters of an operation: its own, and those of its path item that it does not replace.
func (b *builder) paramsOf(o *operation) ([]place, error) {
	var out []place
	at := map[string]int{}
	for _, list := range []place{o.item.child("parameters"), o.at.child("parameters")} {
		if list.value != nil && list.list() == nil {
			if _, ok := list.value.([]any); !ok {
				return nil, errors.New("parameters: it is no list")
			}
		}
		for i := range list.list() {
			p, err := b.of.follow(b.ctx, list.item(i))
			if err != nil {
				return nil, fmt.Errorf("parameters: %w", err)
			}
			where, name := p.text("in"), p.text("name")
			if name == "" || !slices.Contains([]string{"path", "query", "header", "cookie"}, where) {
				return nil, fmt.Errorf("parameters: number %d has no name, or is not in path, query, header or cookie", i+1)
			}
			if k, ok := at[where+" "+name]; ok {
				out[k] = p
				continue
			}
			at[where+" "+name] = len(out)
			out = append(out, p)
		}
	}
	return out, nil
}

// param adds one parameter.
func (b *builder) param(p place, bind *binding, in *input) error {
	w := param{Name: p.text("name"), In: p.text("in"), Reserved: p.truth("allowReserved")}
	if (w.In == "header" || w.In == "cookie") && !isToken(w.Name) {
		return errors.New("the name cannot be sent")
	}
	schema := p.child("schema")
	content := p.child("content")
	if len(content.object()) > 0 {
		media := slices.Sorted(maps.Keys(content.object()))[0]
		schema = content.child(media).child("schema")
		w.JSON = isJSON(media)
	}
	if err := w.style(p); err != nil {
		return err
	}
	var s any = map[string]any{}
	if schema.value != nil {
		v, c, err := b.schemas.convert(schema, request)
		if err != nil {
			return err
		}
		s, in.refs = v, append(in.refs, c.refs...)
	}
	bind.Params = append(bind.Params, w)
	i := len(bind.Params) - 1
	in.args = append(in.args, &argument{
		in: w.In, name: w.Name, schema: described(s, p), required: w.In == "path" || p.truth("required"),
		set: func(arg string) { bind.Params[i].Arg = arg },
	})
	return nil
}

// style reads how the parameter at p is written, with the defaults of its place.
func (w *param) style(p place) error {
	allowed := map[string][]string{
		"path": {"simple", "label", "matrix"}, "query": {"form", "spaceDelimited", "pipeDelimited", "deepObject"},
		"header": {"simple"}, "cookie": {"form"},
	}[w.In]
	w.Style = allowed[0]
	if s := p.text("style"); s != "" {
		w.Style = s
	}
	if !slices.Contains(allowed, w.Style) {
		return fmt.Errorf("style: is %q; want %s", clip(w.Style), strings.Join(allowed, ", "))
	}
	w.Explode = w.Style == "form"
	if e, ok := p.object()["explode"].(bool); ok {
		w.Explode = e
	}
	return nil
}

// described returns a schema with the description of the parameter at p where it has none of its own, and marked where that is deprecated.
func described(schema any, p place) any {
	s, ok := schema.(map[string]any)
	if !ok {
		if schema == true && p.text("description") != "" {
			return map[string]any{"description": p.text("description")}
		}
		return schema
	}
	s = maps.Clone(s)
	if d := p.text("description"); d != "" {
		s["description"] = d
	}
	if p.truth("deprecated") {
		s["deprecated"] = true
	}
	if e, ok := p.object()["example"]; ok && s["examples"] == nil && len(encode(e)) <= longestExample {
		s["examples"] = []any{e}
	}
	return s
}

// forbidden reports whether a header is not a parameter: it belongs to the client, or the document says it elsewhere.
func forbidden(name string) bool {
	switch strings.ToLower(name) {
	case "accept", "content-type", "authorization", "host", "connection", "content-length", "transfer-encoding", "upgrade", "te", "trailer",
		"keep-alive", "cookie", "set-cookie", "expect", "accept-encoding":
		return true
	}
	return strings.HasPrefix(strings.ToLower(name), "proxy-")
}

// templateNames returns the names in braces of a path, each once.
func templateNames(path string) []string {
	var out []string
	for {
		_, after, found := strings.Cut(path, "{")
		name, tail, closed := strings.Cut(after, "}")
		if !found || !closed {
			return out
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
		path = tail
	}
}
