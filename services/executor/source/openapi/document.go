package openapi

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// A document is one file of a description.
type document struct {
	name string // where it is, from the folder of the first
	root any
	base *url.URL // where it is; its host is empty for a file of the operator's
	// anchors are the schemas that name themselves, by the fragment or URL that leads to them; nil until one is looked for.
	anchors map[string]place
}

// A place is a value in a document, with the JSON Pointer that leads to it.
type place struct {
	doc   *document
	at    string
	value any
}

// child returns what the object at p has under a key; its value is nil where there is none.
func (p place) child(key string) place {
	m, _ := p.value.(map[string]any)
	return place{p.doc, p.at + "/" + escape(key), m[key]}
}

// item returns element i of the list at p.
func (p place) item(i int) place {
	return place{p.doc, p.at + "/" + strconv.Itoa(i), p.value.([]any)[i]}
}

func (p place) object() map[string]any { m, _ := p.value.(map[string]any); return m }

func (p place) list() []any { l, _ := p.value.([]any); return l }

func (p place) text(key string) string { s, _ := p.object()[key].(string); return s }

func (p place) truth(key string) bool { b, _ := p.object()[key].(bool); return b }

// key names the place among all documents.
func (p place) key() string { return p.doc.name + "#" + p.at }

func escape(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
}

func unescape(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "~1", "/"), "~0", "~")
}

const (
	// mostHops bounds a chain of references.
	mostHops = 32
	// mostDocuments bounds how many documents one can refer to.
	mostDocuments = 100
)

// A description is a document with those that it refers to, which are loaded when they are needed.
type description struct {
	main   *document
	folder string               // of main, as a URL
	all    map[string]*document // by URL without fragment; nil for one that could not be loaded
	load   func(ctx context.Context, u *url.URL) ([]byte, error)
}

// follow returns what the references at p lead to; p itself where it is none.
func (d *description) follow(ctx context.Context, p place) (place, error) {
	for range mostHops {
		ref, ok := p.object()["$ref"].(string)
		if !ok {
			return p, nil
		}
		var err error
		if p, err = d.resolve(ctx, p.doc, ref); err != nil {
			return place{}, err
		}
	}
	return place{}, errors.New("a $ref leads back to itself")
}

// resolve returns what a reference in doc leads to.
func (d *description) resolve(ctx context.Context, doc *document, ref string) (place, error) {
	bad := func(why string) (place, error) { return place{}, fmt.Errorf("$ref %q: %s", clip(ref), why) }
	u, err := url.Parse(ref)
	if err != nil {
		return bad("it is no URL")
	}
	fragment := u.Fragment
	if u.Scheme != "" || u.Host != "" || u.Path != "" || u.RawQuery != "" {
		to := doc.base.ResolveReference(u)
		if p, ok := doc.anchor(to.String()); ok {
			return p, nil
		}
		to.Fragment, to.RawFragment = "", ""
		if doc, err = d.document(ctx, to); err != nil {
			return bad(err.Error())
		}
	}
	if fragment != "" && !strings.HasPrefix(fragment, "/") {
		if p, ok := doc.anchor("#" + fragment); ok {
			return p, nil
		}
		return bad("there is no such anchor")
	}
	p := place{doc: doc, value: doc.root}
	if fragment == "" {
		return p, nil
	}
	for token := range strings.SplitSeq(fragment[1:], "/") {
		token = unescape(token)
		switch v := p.value.(type) {
		case map[string]any:
			if _, ok := v[token]; !ok {
				return bad("there is nothing")
			}
			p = p.child(token)
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(v) {
				return bad("there is nothing")
			}
			p = p.item(i)
		default:
			return bad("there is nothing")
		}
	}
	return p, nil
}

// document returns the document at u, which is loaded where that is allowed.
func (d *description) document(ctx context.Context, u *url.URL) (*document, error) {
	key := u.String()
	if doc, ok := d.all[key]; ok {
		if doc == nil {
			return nil, errors.New("the document could not be loaded")
		}
		return doc, nil
	}
	if len(d.all) >= mostDocuments {
		return nil, fmt.Errorf("there are more than %d documents", mostDocuments)
	}
	d.all[key] = nil
	data, err := d.load(ctx, u)
	if err != nil {
		return nil, err
	}
	root, err := parse(data)
	if err != nil {
		return nil, err
	}
	doc := &document{name: strings.TrimPrefix(key, d.folder), root: root, base: u}
	d.all[key] = doc
	return doc, nil
}

// anchor returns the schema that calls itself name: "#" and an $anchor, or an $id.
func (d *document) anchor(name string) (place, bool) {
	if d.anchors == nil {
		d.anchors = map[string]place{}
		d.index(place{doc: d, value: d.root})
	}
	p, ok := d.anchors[name]
	return p, ok
}

func (d *document) index(p place) {
	switch v := p.value.(type) {
	case map[string]any:
		for _, key := range []string{"$anchor", "$dynamicAnchor"} {
			if s, ok := v[key].(string); ok {
				d.anchors["#"+s] = p
			}
		}
		if s, ok := v["$id"].(string); ok {
			if u, err := url.Parse(s); err == nil {
				d.anchors[d.base.ResolveReference(u).String()] = p
			}
		}
		for k := range v {
			d.index(p.child(k))
		}
	case []any:
		for i := range v {
			d.index(p.item(i))
		}
	}
}

// clip shortens text from outside for a message.
func clip(s string) string {
	const most = 100
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
