package prelude

import (
	"strings"
	"testing"
)

// TestFiles checks that each file is part of a script: of one of them, but for those that both need.
func TestFiles(t *testing.T) {
	entries, err := files.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text := read(e.Name())
		used := 0
		for _, script := range []string{Body(), TypeScript("the bundle of sucrase"), Polyfills()} {
			used += strings.Count(script, text)
		}
		want := 1
		if e.Name() == "primordials.js" || e.Name() == "state.js" {
			want = 2
		}
		if used != want {
			t.Errorf("%s is part of %d scripts, want %d", e.Name(), used, want)
		}
		if !strings.HasPrefix(text, "// ") || !strings.HasSuffix(text, "\n") {
			t.Errorf("%s does not begin with a comment or does not end with a line's end", e.Name())
		}
	}
}

func TestTypeScriptHoldsTheBundle(t *testing.T) {
	if !strings.HasPrefix(TypeScript("var __sucrase = 1;"), "var __sucrase = 1;\n") {
		t.Error("TypeScript(bundle) does not begin with the bundle")
	}
}
