package openapi

import (
	"errors"
	"fmt"
	"maps"
	"mime"
	"slices"
	"strings"
)

// body adds the body of an operation.
func (b *builder) body(o *operation, bind *binding, in *input) error {
	at := o.at.child("requestBody")
	if at.value == nil {
		return nil
	}
	at, err := b.of.follow(b.ctx, at)
	if err != nil {
		return fmt.Errorf("requestBody: %w", err)
	}
	content := at.child("content")
	if len(content.object()) == 0 {
		return errors.New("requestBody: it has no content")
	}
	all := slices.DeleteFunc(slices.Collect(maps.Keys(content.object())), func(m string) bool { return !isMedia(m) })
	if len(all) == 0 {
		return errors.New("requestBody: it has no media type that can be sent")
	}
	media, k := chooseBody(all)
	bind.Body = &body{Media: media, Kind: k, Required: at.truth("required")}
	m := content.child(media)
	if media == "*/*" {
		bind.Body.Media = "application/json"
	}
	if err := b.fill(m, at, bind.Body, in); err != nil {
		return fmt.Errorf("requestBody: %s: %w", clip(media), err)
	}
	return nil
}

// chooseBody returns the media type to send, and the form of such a body: JSON before forms before text before anything else.
func chooseBody(all []string) (string, kind) {
	rank := func(media string) (int, kind) {
		t, _, err := mime.ParseMediaType(media)
		if err != nil {
			t = media
		}
		switch t = strings.ToLower(t); {
		case t == "application/json":
			return 0, kindJSON
		case isJSON(t):
			return 1, kindJSON
		case t == "*/*" || t == "application/*":
			return 2, kindJSON
		case t == "application/x-www-form-urlencoded":
			return 3, kindForm
		case t == "multipart/form-data":
			return 4, kindMultipart
		case t == "text/plain":
			return 5, kindText
		case isText(t):
			return 6, kindText
		}
		return 7, kindFile
	}
	slices.SortFunc(all, func(a, b string) int {
		x, _ := rank(a)
		y, _ := rank(b)
		if x != y {
			return x - y
		}
		return strings.Compare(a, b)
	})
	_, k := rank(all[0])
	return all[0], k
}

// fill makes the arguments of a body of media type m, which stands in the request body at.
func (b *builder) fill(m, at place, w *body, in *input) error {
	schema := m.child("schema")
	switch w.Kind {
	case kindFile:
		in.whole(fileSchema(), at, w.Required)
		return nil
	case kindText:
		in.whole(map[string]any{"type": "string", "description": "Text of the media type " + w.Media + "."}, at, w.Required)
		return nil
	case kindForm, kindMultipart:
		if err := b.parts(m, w); err != nil {
			return err
		}
	}
	if schema.value == nil {
		in.whole(map[string]any{}, at, w.Required)
		return nil
	}
	if fields, ok := b.flat(schema, w.Required); ok {
		return b.fields(fields, w, in)
	}
	if w.Kind == kindMultipart && len(w.files()) > 0 {
		return errors.New("a form with files whose properties do not simply stand in one object is not supported")
	}
	s, c, err := b.schemas.convert(schema, request)
	if err != nil {
		return err
	}
	in.refs = append(in.refs, c.refs...)
	in.whole(s, at, w.Required)
	return nil
}

// whole adds the body as one argument.
func (in *input) whole(schema any, at place, required bool) {
	in.args = append(in.args, &argument{in: "whole", name: wholeBody, schema: described(schema, at), required: required, set: func(string) {}})
}

// A property is one of a flat body.
type property struct {
	at       place
	name     string
	required bool
}

// flat returns the properties of a body that is nothing but an object with these: then each is an argument. An
// optional body that has required properties is not flat, since leaving all of them out has a meaning.
func (b *builder) flat(schema place, required bool) ([]property, bool) {
	var out []property
	if !b.flatten(schema, &out, 0) || len(out) == 0 {
		return nil, false
	}
	seen := map[string]bool{}
	for _, p := range out {
		if seen[p.name] || p.required && !required {
			return nil, false
		}
		seen[p.name] = true
	}
	return out, true
}

func (b *builder) flatten(schema place, out *[]property, depth int) bool {
	p, err := b.of.follow(b.ctx, schema)
	if err != nil || depth > 8 || p.object() == nil {
		return false
	}
	for k, v := range p.object() {
		switch k {
		case "type":
			if v != "object" {
				return false
			}
		case "additionalProperties":
			if v != false {
				return false
			}
		case "nullable":
			if v != false {
				return false
			}
		case "properties", "required", "allOf", "title", "description", "example", "examples", "discriminator", "xml", "externalDocs", "default", "deprecated":
		default:
			if !strings.HasPrefix(k, "x-") {
				return false
			}
		}
	}
	need := p.child("required")
	properties := p.child("properties")
	for _, r := range need.list() {
		if name, _ := r.(string); properties.object()[name] == nil { // required of another part
			return false
		}
	}
	for _, name := range slices.Sorted(maps.Keys(properties.object())) {
		if child := properties.child(name); !b.schemas.isHidden(child, request) {
			*out = append(*out, property{child, name, slices.Contains(need.list(), any(name))})
		}
	}
	all := p.child("allOf")
	for i := range all.list() {
		if !b.flatten(all.item(i), out, depth+1) {
			return false
		}
	}
	return true
}

// fields adds each property of a body as an argument.
func (b *builder) fields(all []property, w *body, in *input) error {
	w.Fields = make([]field, len(all))
	for i, p := range all {
		var s any
		if w.Parts[p.name].File {
			s = fileSchema()
			if b.isList(p.at) {
				s = map[string]any{"type": "array", "items": s}
			}
			s = described(s, p.at)
		} else {
			v, c, err := b.schemas.convert(p.at, request)
			if err != nil {
				return fmt.Errorf("%s: %w", clip(p.name), err)
			}
			s, in.refs = v, append(in.refs, c.refs...)
		}
		w.Fields[i].Name = p.name
		in.args = append(in.args, &argument{in: "body", name: p.name, schema: s, required: p.required, set: func(arg string) { w.Fields[i].Arg = arg }})
	}
	return nil
}

// parts reads how the properties of a form are written.
func (b *builder) parts(m place, w *body) error {
	w.Parts = map[string]part{}
	encoding := m.child("encoding")
	for name := range encoding.object() {
		e := encoding.child(name)
		t := part{Style: e.text("style"), Reserved: e.truth("allowReserved"), Media: firstMedia(e.text("contentType"))}
		t.Explode = t.Style == "" || t.Style == "form"
		if x, ok := e.object()["explode"].(bool); ok {
			t.Explode = x
			if t.Style == "" {
				t.Style = "form"
			}
		}
		if t.Style != "" && !slices.Contains([]string{"form", "spaceDelimited", "pipeDelimited", "deepObject"}, t.Style) {
			return fmt.Errorf("encoding of %s: style: is %q; want form, spaceDelimited, pipeDelimited or deepObject", clip(name), clip(t.Style))
		}
		w.Parts[name] = t
	}
	if w.Kind == kindMultipart {
		b.findFiles(m.child("schema"), w, 0)
	}
	return nil
}

// findFiles marks the properties of a multipart form whose values are files.
func (b *builder) findFiles(schema place, w *body, depth int) {
	p, err := b.of.follow(b.ctx, schema)
	if err != nil || depth > 8 {
		return
	}
	properties := p.child("properties")
	for name := range properties.object() {
		if t := w.Parts[name]; b.isFile(properties.child(name), t.Media) {
			t.File = true
			w.Parts[name] = t
		}
	}
	all := p.child("allOf")
	for i := range all.list() {
		b.findFiles(all.item(i), w, depth+1)
	}
}

func (w *body) files() []string {
	var out []string
	for name, t := range w.Parts {
		if t.File {
			out = append(out, name)
		}
	}
	return out
}

// isFile reports whether the property at p, whose part has media type media, takes a file or a list of files.
func (b *builder) isFile(p place, media string) bool {
	p, err := b.of.follow(b.ctx, p)
	if err != nil {
		return false
	}
	if p.text("type") == "array" {
		if p, err = b.of.follow(b.ctx, p.child("items")); err != nil {
			return false
		}
	}
	t, format, own := p.text("type"), p.text("format"), p.text("contentMediaType")
	if own != "" {
		media = own
	}
	switch {
	case t != "" && t != "string", p.text("contentEncoding") != "": // what is encoded is text
		return false
	case format == "binary":
		return true
	}
	return media != "" && !isText(media) && !isJSON(media)
}

func (b *builder) isList(p place) bool {
	p, err := b.of.follow(b.ctx, p)
	return err == nil && p.text("type") == "array"
}

// fileSchema is the schema of a file as an argument.
func fileSchema() map[string]any {
	text := map[string]any{"type": "string"}
	return map[string]any{
		"type": "object", "description": "A file: its bytes in base64 as data, or its text as text.",
		"properties": map[string]any{
			"data": map[string]any{"type": "string", "contentEncoding": "base64"}, "text": text, "filename": text, "mediaType": text,
		},
		"additionalProperties": false,
		"oneOf":                []any{map[string]any{"required": []any{"data"}}, map[string]any{"required": []any{"text"}}},
	}
}

// firstMedia returns the first of a list of media types, "" for one that leaves it open.
func firstMedia(list string) string {
	first, _, _ := strings.Cut(list, ",")
	if first = strings.TrimSpace(first); strings.Contains(first, "*") || !isMedia(first) {
		return ""
	}
	return first
}

// isMedia reports whether s is a media type or a range of them, and nothing that would break a header.
func isMedia(s string) bool {
	_, _, err := mime.ParseMediaType(s)
	return err == nil && strings.Contains(s, "/") && !strings.ContainsFunc(s, func(r rune) bool { return isControl(r) || r > 0x7e })
}

// isJSON reports whether a media type is one of JSON.
func isJSON(media string) bool {
	t, _, err := mime.ParseMediaType(media)
	if err != nil {
		return false
	}
	return t == "application/json" || t == "text/json" || strings.HasSuffix(t, "+json")
}

// isText reports whether a media type is one of text that people read.
func isText(media string) bool {
	t, _, err := mime.ParseMediaType(media)
	if err != nil {
		return false
	}
	switch t {
	case "application/xml", "application/yaml", "application/x-yaml", "application/javascript", "application/x-ndjson", "application/jsonl",
		"application/graphql", "application/sql", "application/toml", "application/x-www-form-urlencoded":
		return true
	}
	return strings.HasPrefix(t, "text/") || strings.HasSuffix(t, "+xml") || strings.HasSuffix(t, "+yaml")
}
