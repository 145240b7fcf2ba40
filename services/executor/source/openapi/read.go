package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	// mostBytes bounds a document and those that it refers to, together.
	mostBytes = 16 << 20
	// mostValues and mostDepth bound what a document holds, each alias of YAML counted with all that it stands for.
	mostValues = 2_000_000
	mostDepth  = 200
)

// parse returns the value that data, JSON or YAML, holds: nil, a bool, a string, a json.Number,
// an []any or a map[string]any. Aliases share values, so nothing of it may be changed.
func parse(data []byte) (any, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	text := bytes.TrimSpace(data)
	if len(text) == 0 {
		return nil, errors.New("the document is empty")
	}
	if text[0] == '{' || text[0] == '[' {
		v, err := parseJSON(text)
		if _, syntax := errors.AsType[*json.SyntaxError](err); !syntax && !errors.Is(err, io.ErrUnexpectedEOF) {
			return v, err
		}
	}
	return parseYAML(data)
}

func parseJSON(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errTwo
	}
	left := mostValues
	if err := measure(v, 0, &left); err != nil {
		return nil, err
	}
	return v, nil
}

var errTwo = errors.New("there are two documents in one")

// measure checks the bounds of a value without aliases.
func measure(v any, depth int, left *int) error {
	if *left--; *left < 0 || depth > mostDepth {
		return errBounds
	}
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if err := measure(item, depth+1, left); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, item := range v {
			if err := measure(item, depth+1, left); err != nil {
				return err
			}
		}
	}
	return nil
}

var errBounds = fmt.Errorf("the document holds more than %d values, or is nested deeper than %d levels", mostValues, mostDepth)

func parseYAML(data []byte) (v any, err error) {
	defer func() {
		if p := recover(); p != nil { // a document that the library did not foresee
			v, err = nil, errors.New("the document is neither JSON nor YAML")
		}
	}()
	if first, rest, ok := bytes.Cut(data, []byte("\n")); ok && bytes.HasPrefix(first, []byte("%YAML 1.2")) { // which the library does not know, and reads
		data = rest
	}
	var root, more yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(&root); errors.Is(err, io.EOF) || err == nil && len(root.Content) != 1 {
		return nil, errors.New("the document is empty")
	} else if err != nil {
		return nil, fmt.Errorf("the document is neither JSON nor YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if d.Decode(&more) == nil {
		return nil, errTwo
	}
	r := yamlReader{known: map[*yaml.Node]sized{}}
	v, _, err = r.read(root.Content[0], 0)
	return v, err
}

// A yamlReader makes values of the syntax tree of YAML.
type yamlReader struct {
	known map[*yaml.Node]sized // of anchors; size 0 while it is being read
}

type sized struct {
	value any
	size  int
}

// read returns the value of n, and how many values it holds with its aliases written out.
func (r *yamlReader) read(n *yaml.Node, depth int) (v any, size int, err error) {
	if depth > mostDepth {
		return nil, 0, errBounds
	}
	if n.Kind == yaml.AliasNode {
		a, ok := r.known[n.Alias]
		if !ok || a.size == 0 {
			return nil, 0, fmt.Errorf("line %d: the alias %q is used within itself", n.Line, n.Value)
		}
		return a.value, a.size, nil
	}
	if n.Anchor != "" {
		r.known[n] = sized{}
		defer func() { r.known[n] = sized{v, size} }()
	}
	switch n.Kind {
	case yaml.ScalarNode:
		return scalar(n), 1, nil
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		size = 1
		for _, c := range n.Content {
			item, s, err := r.read(c, depth+1)
			if size += s; err != nil || size > mostValues {
				return nil, 0, orBounds(err)
			}
			list = append(list, item)
		}
		return list, size, nil
	case yaml.MappingNode:
		return r.readMap(n, depth)
	}
	return nil, 0, fmt.Errorf("line %d: this YAML is not supported", n.Line)
}

// orBounds returns err, and where that is nil that the bounds are passed.
func orBounds(err error) error {
	if err == nil {
		return errBounds
	}
	return err
}

func (r *yamlReader) readMap(n *yaml.Node, depth int) (any, int, error) {
	m := make(map[string]any, len(n.Content)/2)
	var merged []map[string]any
	size := 1
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if key.Kind != yaml.ScalarNode {
			return nil, 0, fmt.Errorf("line %d: a key is no plain text", n.Content[i].Line)
		}
		v, s, err := r.read(n.Content[i+1], depth+1)
		if size += s; err != nil || size > mostValues {
			return nil, 0, orBounds(err)
		}
		if key.ShortTag() == "!!merge" {
			list, isList := v.([]any)
			if !isList {
				list = []any{v}
			}
			for _, item := range list {
				o, ok := item.(map[string]any)
				if !ok {
					return nil, 0, fmt.Errorf("line %d: a merge key (<<) takes objects", key.Line)
				}
				merged = append(merged, o)
			}
			continue
		}
		m[key.Value] = v
	}
	for _, o := range merged { // the object's own keys win, then the earlier
		for k, v := range o {
			if _, ok := m[k]; !ok {
				m[k] = v
			}
		}
	}
	return m, size, nil
}

func scalar(n *yaml.Node) any {
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		var b bool
		if n.Decode(&b) == nil {
			return b
		}
	case "!!int", "!!float":
		if isNumber(n.Value) {
			return json.Number(n.Value)
		}
		var i int64
		if n.Decode(&i) == nil { // 0x1F, 1_000
			return json.Number(strconv.FormatInt(i, 10))
		}
		var f float64
		if n.Decode(&f) == nil && !math.IsInf(f, 0) && !math.IsNaN(f) { // .5
			return json.Number(strconv.FormatFloat(f, 'g', -1, 64))
		}
	}
	return n.Value
}

// isNumber reports whether s is a number of JSON.
func isNumber(s string) bool {
	return s != "" && (s[0] == '-' || s[0] >= '0' && s[0] <= '9') && json.Valid([]byte(s))
}
