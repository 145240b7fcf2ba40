package admission

import (
	"encoding/json"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolcrib/toolcrib/internal/core/names"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A Change is one part of a tool that is not what it was.
type Change struct {
	Part string // such as description or inputSchema
	Diff string // in lines: '-' for what was, '+' for what is, ' ' around it; hidden characters escaped
}

// Diff returns what changed from one tool to the other, part by part. JSON is laid out with its members in the order of their names.
func Diff(was, is *contracts.Tool) []Change {
	var changes []Change
	for _, part := range []struct{ name, was, is string }{
		{"title", was.Title, is.Title},
		{"description", was.Description, is.Description},
		{"annotations", laidOut(was.Annotations), laidOut(is.Annotations)},
		{"inputSchema", laidOut(was.InputSchema), laidOut(is.InputSchema)},
		{"outputSchema", laidOut(was.OutputSchema), laidOut(is.OutputSchema)},
		{"_meta", laidOut(was.Meta), laidOut(is.Meta)},
		{"binding", laidOut(was.Binding), laidOut(is.Binding)},
	} {
		if part.was != part.is {
			changes = append(changes, Change{part.name, lines(part.was, part.is)})
		}
	}
	return changes
}

// laidOut returns v as indented JSON; "" for nothing.
func laidOut(v any) string {
	raw, err := json.Marshal(v)
	if err != nil || string(raw) == "null" {
		return ""
	}
	return string(ordered(raw, jsontext.Multiline(true), jsontext.WithIndent("  ")))
}

// lines returns the difference of two texts by lines, without the heading of a file's.
func lines(was, is string) string {
	end := func(s string) string {
		if s = names.Escape(s); s != "" && !strings.HasSuffix(s, "\n") {
			s += "\n"
		}
		return s
	}
	if end(was) == end(is) {
		return " (nothing but the end of the last line)\n"
	}
	d := udiff.Unified("was", "is", end(was), end(is))
	_, d, _ = strings.Cut(d, "\n") // --- was
	_, d, _ = strings.Cut(d, "\n") // +++ is
	return d
}
