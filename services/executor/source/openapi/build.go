package openapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// mostOperations bounds the tools of one document.
const mostOperations = 10_000

// methods are those of operations, in the order of a listing of equal paths.
func methods() []string {
	return []string{"get", "head", "options", "post", "put", "patch", "delete"}
}

// An operation is one of a document.
type operation struct {
	at           place // of the operation
	item         place // of the path item around it
	method, path string
	id           string // its operationId
	base         string // what its name is made of
	name         string // of its tool
	tags         []string
	bad          error // why it cannot be used, where that is known before it is read
}

// called is how people know an operation.
func (o *operation) called() string {
	switch {
	case o.id != "":
		return o.id
	case o.method == "":
		return o.path
	}
	return o.method + " " + o.path
}

// A builder makes tools of the operations of a document.
type builder struct {
	ctx     context.Context
	conn    *Conn
	target  Target
	of      *description
	root    place
	schemas *schemas
	schemes map[string]scheme // that can be used, by name
	// inputs and outputs bound the schemas of a tool.
	inputs, outputs budget
}

// tools returns the operations of d as tools.
func (c *Conn) tools(ctx context.Context, d *description, target Target) (*contracts.Listing, []contracts.SkippedTool, error) {
	root := place{doc: d.main, value: d.main.root}
	version := fmt.Sprint(root.object()["openapi"])
	b := &builder{
		ctx: ctx, conn: c, target: target, of: d, root: root,
		schemas: &schemas{ctx: ctx, of: d, old: version == "3" || strings.HasPrefix(version, "3.0"), defs: map[defKey]*def{}},
	}
	if err := b.readSchemes(); err != nil {
		return nil, nil, err
	}
	all, err := b.operations()
	if err != nil {
		return nil, nil, err
	}
	b.inputs, b.outputs = budgets(len(all))
	info := root.child("info")
	l := &contracts.Listing{Title: info.text("title"), Instructions: info.text("description"), Tools: []contracts.Tool{}}
	var skipped []contracts.SkippedTool
	for _, o := range all {
		if ctx.Err() != nil {
			return nil, nil, fmt.Errorf("read the document: %s", reason(ctx, ctx.Err()))
		}
		t, err := b.tool(o)
		if err != nil {
			skipped = append(skipped, contracts.SkippedTool{Name: o.called(), Reason: target.redact(err.Error())})
			continue
		}
		l.Tools = append(l.Tools, *t)
	}
	skipped = append(skipped, b.unusedNames(all)...)
	if len(l.Tools) == 0 && len(skipped) > 0 {
		return nil, nil, fmt.Errorf("no operation of the document can be used; %s: %s", clip(skipped[0].Name), skipped[0].Reason)
	}
	return l, skipped, nil
}

// operations returns the chosen operations, named.
func (b *builder) operations() ([]*operation, error) {
	paths := b.root.child("paths")
	if paths.object() == nil {
		if b.root.object()["webhooks"] != nil || b.root.object()["components"] != nil {
			return nil, nil // which OpenAPI 3.1 allows
		}
		return nil, errors.New("paths: is missing")
	}
	var all []*operation
	for _, path := range slices.Sorted(maps.Keys(paths.object())) {
		if !strings.HasPrefix(path, "/") {
			continue // an extension, or nothing that could be called
		}
		all = append(all, b.ofPath(path, paths.child(path))...)
	}
	all = slices.DeleteFunc(all, func(o *operation) bool {
		return !b.conn.filter.takes(o) || o.at.truth("deprecated") && !b.conn.cfg.Deprecated
	})
	if len(all) > mostOperations {
		return nil, fmt.Errorf("%d operations are chosen; want at most %d", len(all), mostOperations)
	}
	nameAll(all, b.conn.cfg.Rename)
	seen := map[string]string{}
	for _, o := range all {
		if other, ok := seen[o.name]; ok {
			o.bad = fmt.Errorf("it is renamed to %q, which is the name of %s as well", o.name, other)
		}
		seen[o.name] = o.called()
	}
	return all, nil
}

// unusedNames names what rename speaks of and the document does not have.
func (b *builder) unusedNames(all []*operation) []contracts.SkippedTool {
	known := map[string]bool{}
	for _, o := range all {
		known[o.id], known[o.method+" "+o.path] = true, true
	}
	var out []contracts.SkippedTool
	for _, key := range slices.Sorted(maps.Keys(b.conn.cfg.Rename)) {
		if !known[key] {
			out = append(out, contracts.SkippedTool{Name: key, Reason: "rename: no chosen operation has this id, or this method and path"})
		}
	}
	return out
}

// ofPath returns the operations of one path.
func (b *builder) ofPath(path string, at place) []*operation {
	item, bad := b.of.follow(b.ctx, at)
	if bad != nil { // which operations there are is not known
		return []*operation{{path: path, base: path, bad: bad}}
	}
	var out []*operation
	for _, method := range methods() {
		op := item.child(method)
		if op.value == nil {
			continue
		}
		o := &operation{at: op, item: item, method: strings.ToUpper(method), path: path, id: op.text("operationId")}
		if op.object() == nil {
			o.bad = errors.New("the operation is no object")
		}
		tags := op.child("tags")
		for _, t := range tags.list() {
			if s, ok := t.(string); ok {
				o.tags = append(o.tags, s)
			}
		}
		o.base = baseName(o.id, method, path)
		out = append(out, o)
	}
	return out
}

// tool makes the tool of an operation. The error says why that cannot be done.
func (b *builder) tool(o *operation) (t *contracts.Tool, err error) {
	defer func() {
		if p := recover(); p != nil { // a form of document that nobody foresaw
			t, err = nil, fmt.Errorf("it cannot be read: %v", p)
		}
	}()
	if o.bad != nil {
		return nil, o.bad
	}
	bind := &binding{Method: o.method, Path: o.path}
	b.secure(o, bind)
	if err := b.address(o, bind); err != nil {
		return nil, err
	}
	in, err := b.input(o, bind)
	if err != nil {
		return nil, err
	}
	out := b.output(o, bind)
	return &contracts.Tool{
		Name: o.name, Title: o.at.text("summary"), Description: b.describe(o, bind), InputSchema: in, OutputSchema: out,
		Annotations: annotations(o.method), Binding: encode(bind),
	}, nil
}

// describe returns the description of an operation, with what a caller has to know besides.
func (b *builder) describe(o *operation, bind *binding) string {
	var lines []string
	add := func(s string) {
		if s = strings.TrimSpace(s); s != "" {
			lines = append(lines, s)
		}
	}
	if add(o.at.text("description")); len(lines) == 0 {
		add(o.at.text("summary"))
	}
	if len(lines) == 0 {
		add(o.item.text("description"))
	}
	if len(lines) == 0 {
		add(o.item.text("summary"))
	}
	if len(lines) == 0 {
		add(o.method + " " + o.path)
	}
	if o.at.truth("deprecated") {
		add("Deprecated.")
	}
	if len(bind.Accept) > 0 && !slices.ContainsFunc(bind.Accept, func(m string) bool { return isJSON(m) || strings.Contains(m, "*") }) {
		add("Answers with " + strings.Join(bind.Accept, " or ") + ".")
	}
	return strings.Join(lines, "\n\n")
}

// annotations returns what the method promises.
func annotations(method string) *contracts.Annotations {
	yes, no := true, false
	switch method {
	case "GET", "HEAD", "OPTIONS":
		return &contracts.Annotations{ReadOnlyHint: &yes}
	case "PUT":
		return &contracts.Annotations{ReadOnlyHint: &no, IdempotentHint: &yes}
	case "DELETE":
		return &contracts.Annotations{ReadOnlyHint: &no, DestructiveHint: &yes, IdempotentHint: &yes}
	}
	return &contracts.Annotations{ReadOnlyHint: &no}
}

// encode returns v as compact JSON.
func encode(v any) json.RawMessage {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("openapi: no JSON: " + err.Error()) // only values of JSON are encoded
	}
	return json.RawMessage(strings.TrimSuffix(b.String(), "\n"))
}
