// Package schema reads the JSON Schemas that tools come with: it tells whether
// a tool can be taken, writes the short signature that a model sees, and checks
// arguments, with messages that a model can act on. Schemas and arguments are
// untrusted: size, depth and time are bounded and nothing is loaded from
// elsewhere. It makes no schemas and mends no arguments.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// longestToolName is the most bytes of a tool's name.
const longestToolName = 256

// Check reports whether a tool with this name, input schema and output schema can be
// taken into a listing. The input schema may be absent, null or a boolean, see
// [Normalise], else it must be a JSON object that allows objects; the output schema
// may be absent. The error says what is wrong and what is allowed.
func Check(name string, in, out json.RawMessage) error {
	switch {
	case name == "":
		return errors.New("the name is empty")
	case len(name) > longestToolName:
		return fmt.Errorf("the name has %d bytes; want at most %d", len(name), longestToolName)
	case !utf8.ValidString(name):
		return errors.New("the name is not valid UTF-8")
	}
	if err := checkInput(Normalise(in)); err != nil {
		return fmt.Errorf("input schema: %w", err)
	}
	if absent(out) {
		return nil
	}
	if _, err := Compile(out); err != nil {
		return fmt.Errorf("output schema: %w", err)
	}
	return nil
}

func checkInput(in json.RawMessage) error {
	v, err := Compile(in)
	if err != nil {
		return err
	}
	root, ok := v.doc.(map[string]any)
	if !ok {
		return fmt.Errorf("it is %s; want an object", kindOf(v.doc))
	}
	switch t := root["type"].(type) {
	case string:
		if t != "object" {
			return fmt.Errorf("its type is %q; want \"object\", arguments are an object", t)
		}
	case []any:
		if !slices.Contains(t, any("object")) {
			return errors.New("its types leave out \"object\"; arguments are an object")
		}
	}
	return nil
}

// Normalise returns the input schema in the form that a listing holds, a JSON
// object: an absent one, null and true become {"type":"object"}, false one that
// allows nothing. Everything else is returned as it is.
func Normalise(in json.RawMessage) json.RawMessage {
	switch {
	case absent(in) || string(bytes.TrimSpace(in)) == "true":
		return json.RawMessage(`{"type":"object"}`)
	case string(bytes.TrimSpace(in)) == "false":
		return json.RawMessage(`{"type":"object","not":{}}`)
	}
	return in
}

func absent(raw json.RawMessage) bool {
	s := bytes.TrimSpace(raw)
	return len(s) == 0 || string(s) == "null"
}

// kindOf names the kind of a decoded JSON value, with its article.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case json.Number:
		return "a number"
	case string:
		return "a string"
	case []any:
		return "an array"
	}
	return "an object"
}

// pointer returns the JSON Pointer of a path.
func pointer(path []string) string {
	var b strings.Builder
	for _, p := range path {
		b.WriteByte('/')
		b.WriteString(strings.ReplaceAll(strings.ReplaceAll(p, "~", "~0"), "/", "~1"))
	}
	return b.String()
}
