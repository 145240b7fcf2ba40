package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestCommittedFiles fails when the committed documentation is not what the source says now.
func TestCommittedFiles(t *testing.T) {
	files, err := generate("..")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("../../../docs", name))
		if err != nil {
			t.Error(err)
			continue
		}
		if string(got) != want {
			t.Errorf("docs/%s is stale; run: make generate", name)
		}
	}
}

// TestEverythingIsDescribed has each event, placeholder, stream and store carry words.
func TestEverythingIsDescribed(t *testing.T) {
	w, err := readWords("..")
	if err != nil {
		t.Fatal(err)
	}
	m := newModel(w)
	for _, e := range m.events {
		if w.types[e.name] == "" {
			t.Errorf("%s has no comment", e.name)
		}
		for _, name := range placeholders(e.Pattern) {
			if p := parameters(e.Pattern).get(name).(*object); p.get("description") == "" {
				t.Errorf("the placeholder {%s} of %s is not described", name, e.Type)
			}
		}
	}
	for _, prefix := range []string{"Stream", "Bucket", "Store"} {
		if len(w.constants(prefix)) == 0 {
			t.Errorf("found no constants %s… in the source", prefix)
		}
		for _, v := range w.constants(prefix) {
			if v.comment == "" {
				t.Errorf("%s has no comment", v.name)
			}
		}
	}
}

func TestYAML(t *testing.T) {
	got := obj(
		"plain", "some words",
		"tricky", "a: b # c",
		"yes", "true",
		"empty", obj(),
		"list", []any{"a", "b c", "null", ""},
		"objects", []any{obj("$ref", "#/x", "b", obj("c", "d")), obj("e", "f")},
		"nested", obj("1", "é\n\"<"),
	).yaml()
	const want = `plain: some words
tricky: "a: b # c"
"yes": "true"
empty: {}
list: [a, b c, "null", ""]
objects:
  - "$ref": "#/x"
    b:
      c: d
  - e: f
nested:
  "1": "é\n\"<"
`
	if got != want {
		t.Errorf("yaml() =\n%s\nwant\n%s", got, want)
	}
}
