package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolcrib/toolcrib/services/sandbox/engine/guest"
)

// TestBuild makes the engine anew: what is built must be just that, on any machine.
func TestBuild(t *testing.T) {
	if err := install(t.Context(), "../npm"); err != nil {
		t.Fatal(err)
	}
	files, err := build(t.Context(), "../npm")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"README.md", "old.img"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := write(dir, files); err != nil {
		t.Fatal(err)
	}
	var names []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if diff := cmp.Diff([]string{"LICENCES.txt", "README.md", "body.img.zst", "engine.wasm", manifest, "typescript.img.zst"}, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	var made, built guest.Manifest
	text, err := os.ReadFile(filepath.Join("..", "built", manifest))
	if err != nil {
		t.Fatalf("%v: run `make engine`", err)
	}
	if err := json.Unmarshal(text, &built); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(files[manifest], &made); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(built, made); diff != "" {
		t.Errorf("engine/built is not what its sources give: run `make engine` (-built +made):\n%s", diff)
	}
}

func TestPackagesOf(t *testing.T) {
	got, err := packagesOf(`{"inputs": {"node_modules/b/x.js": {}, "node_modules/b/y.js": {}, "node_modules/@a/c/z.js": {}, "node_modules/b/node_modules/d/w.js": {}, "entry.js": {}}}`)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"@a/c", "b", "b/node_modules/d"}, got); diff != "" {
		t.Errorf("packages (-want +got):\n%s", diff)
	}
	if _, err := packagesOf("{"); err == nil {
		t.Error("a broken metafile gave no error")
	}
}

func TestRefuses(t *testing.T) {
	empty := t.TempDir()
	if err := run(t.Context(), empty); err == nil {
		t.Error("it ran in a folder without packages")
	}
	if _, err := licenceFile(empty); err == nil {
		t.Error("a package without a licence was taken")
	}
	folder := filepath.Join(empty, "node_modules", "quickjs-wasi")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "quickjs.wasm"), []byte("another"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := quickjs(empty); err == nil {
		t.Error("another module was taken")
	}
}
