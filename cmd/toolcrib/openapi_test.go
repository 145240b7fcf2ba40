package main

import (
	"bytes"
	"flag"
	"io"
	"net/http"
	"os"
	"regexp"
	"testing"
)

var update = flag.Bool("update", false, "write docs/openapi.yaml")

// The committed description of the API is what the server serves, but for its version.
func TestOpenAPI(t *testing.T) {
	const path = "../../docs/openapi.yaml"
	s := up(t, t.TempDir(), nil)
	res, err := http.Get(s.url + "/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	served, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v", res.Status, err)
	}
	served = regexp.MustCompile(`(?m)^  version: .*$`).ReplaceAll(served, []byte("  version: dev"))
	if *update {
		if err := os.WriteFile(path, served, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(committed, served) {
		t.Error("docs/openapi.yaml is stale; run: make generate")
	}
}
