package openapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"path/filepath"
	"testing"

	"github.com/toolcrib/toolcrib/internal/core/schema"
)

func nowhere(context.Context, *url.URL) ([]byte, error) { return nil, errors.New("nothing is loaded") }

// FuzzDocument: whatever the document, reading it returns, and each tool of it has schemas that can be used and a binding that makes a request, or the reason why not.
func FuzzDocument(f *testing.F) {
	files, err := filepath.Glob("testdata/cases/*.txt")
	if err != nil || len(files) == 0 {
		f.Fatal(err)
	}
	t := &testing.T{}
	for _, path := range files {
		s := readSections(t, path)
		f.Add(s[0].text)
	}
	server := &url.URL{Scheme: "http", Host: "s.example", Path: "/"}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<16 {
			return
		}
		root, err := parse([]byte(text))
		if err != nil {
			return
		}
		base := &url.URL{Scheme: "http", Host: "docs.example", Path: "/openapi.yaml"}
		d := &description{main: &document{root: root, base: base}, all: map[string]*document{}, load: nowhere}
		d.all[base.String()] = d.main
		filter, _ := newFilter(nil, nil)
		l, _, err := (&Conn{filter: filter}).tools(t.Context(), d, Target{})
		if err != nil {
			return
		}
		for i := range l.Tools {
			tool := &l.Tools[i]
			if !json.Valid(tool.InputSchema) || tool.OutputSchema != nil && !json.Valid(tool.OutputSchema) {
				t.Fatalf("%s: schemas %s and %s", tool.Name, tool.InputSchema, tool.OutputSchema)
			}
			if tool.Name == "" || len(tool.Name) > longestName {
				t.Errorf("the name %q", tool.Name)
			}
			if schema.Check(tool.Name, tool.InputSchema, tool.OutputSchema) != nil {
				continue // which the listing refuses, with the reason
			}
			c, err := newCall(tool.Binding, json.RawMessage(`{}`))
			if err != nil {
				t.Fatalf("%s: %v", tool.Name, err)
			}
			u := *server
			if r, err := c.request(t.Context(), &u); err == nil && (r.URL.Host != server.Host || r.URL.Scheme != server.Scheme) {
				t.Errorf("%s goes to %s", tool.Name, r.URL)
			}
		}
	})
}
