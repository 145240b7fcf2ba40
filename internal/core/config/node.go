package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// A kind is the type of a node, in the words of messages.
type kind string

const (
	kindNull   kind = "nothing"
	kindBool   kind = "a boolean"
	kindNumber kind = "a number"
	kindString kind = "a string"
	kindList   kind = "a list"
	kindObject kind = "an object"
)

// A node is one value of a file, YAML or JSON. Aliases share nodes.
type node struct {
	kind   kind
	line   int    // of its key, or its own; 0 where it is not known
	text   string // of a string; of a number as it is written
	number string // of a whole number, in decimal
	truth  bool
	items  []*node
	fields []field
}

type field struct {
	key   string
	value *node
}

func (n *node) field(key string) *node {
	for _, f := range n.fields {
		if f.key == key {
			return f.value
		}
	}
	return nil
}

const (
	maxBytes = 8 << 20 // of a file
	maxDepth = 100     // of its nesting
)

// parseFile returns the value that data holds, an error of type [Problem] without its file, or nil for an empty file.
func parseFile(data []byte) (*node, error) {
	if len(data) > maxBytes {
		return nil, Problem{Message: fmt.Sprintf("is larger than %d bytes", maxBytes)}
	}
	file, err := parser.ParseBytes(plain(data), 0)
	if err != nil {
		p := Problem{Message: "is neither YAML nor JSON"}
		if e, ok := errors.AsType[yaml.Error](err); ok { // its own text quotes the file, which may hold secrets
			p.Message = e.GetMessage()
			if t := e.GetToken(); t != nil && t.Position != nil {
				p.Line = t.Position.Line
			}
		}
		return nil, p
	}
	var root *node
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.DirectiveType {
			continue
		}
		if root != nil {
			return nil, Problem{Line: lineOf(doc.Body), Message: "holds more than one document"}
		}
		r := yamlReader{anchors: map[string]*node{}}
		if root, err = r.read(doc.Body, 0); err != nil {
			return nil, err
		}
	}
	return root, nil
}

// plain returns data, where it is JSON as people and editors write it, as strict JSON: without a byte order
// mark, and with spaces for comments, for commas before a closing bracket, and for tabs, which YAML minds. Lines stay where they are.
func plain(data []byte) []byte {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	out := bytes.Clone(data)
	comma := -1 // the last one, if only space followed
	for i := 0; i < len(out); i++ {
		switch c := out[i]; {
		case c == '\t':
			out[i] = ' '
		case bytes.HasPrefix(out[i:], []byte("//")):
			i = blank(out, i, "\n")
		case bytes.HasPrefix(out[i:], []byte("/*")):
			i = blank(out, i, "*/")
		case c == ',':
			comma = i
		case (c == '}' || c == ']') && comma >= 0:
			out[comma] = ' '
			comma = -1
		case c == '"':
			i = endOfString(out, i)
			comma = -1
		case c != ' ' && c != '\n' && c != '\r':
			comma = -1
		}
	}
	if json.Valid(out) {
		return out
	}
	return data
}

// endOfString returns the place of the quote that ends the string beginning at i.
func endOfString(b []byte, i int) int {
	for i++; i < len(b) && b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i
}

// blank overwrites b from i to the end of until, but for line ends, and returns the last place overwritten.
func blank(b []byte, i int, until string) int {
	end := len(b)
	if n := bytes.Index(b[i+2:], []byte(until)); n >= 0 {
		end = i + 2 + n + len(until)
	}
	for ; i < end; i++ {
		if b[i] != '\n' && b[i] != '\r' {
			b[i] = ' '
		}
	}
	return end - 1
}

func lineOf(n ast.Node) int {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line
	}
	return 0
}

// A yamlReader turns the syntax tree of YAML into nodes.
type yamlReader struct {
	anchors map[string]*node // complete ones only, so that no node holds itself
}

func (r *yamlReader) read(n ast.Node, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, Problem{Line: lineOf(n), Message: fmt.Sprintf("is nested deeper than %d levels", maxDepth)}
	}
	out := &node{line: lineOf(n)}
	switch n := n.(type) {
	case *ast.NullNode:
		out.kind = kindNull
	case *ast.BoolNode:
		out.kind, out.truth, out.text = kindBool, n.Value, n.Token.Value
	case *ast.IntegerNode:
		out.kind, out.number, out.text = kindNumber, fmt.Sprint(n.Value), n.Token.Value
	case *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		out.kind, out.text = kindNumber, n.GetToken().Value
	case *ast.StringNode:
		out.kind, out.text = kindString, n.Value
	case *ast.LiteralNode:
		out.kind, out.text = kindString, n.Value.Value
	case *ast.SequenceNode:
		out.kind = kindList
		for _, item := range n.Values {
			v, err := r.read(item, depth+1)
			if err != nil {
				return nil, err
			}
			out.items = append(out.items, v)
		}
	case *ast.MappingNode:
		return r.object(out, n.Values, depth)
	case *ast.MappingValueNode:
		return r.object(out, []*ast.MappingValueNode{n}, depth)
	case *ast.AnchorNode:
		v, err := r.read(n.Value, depth+1)
		if err == nil {
			r.anchors[n.Name.GetToken().Value] = v
		}
		return v, err
	case *ast.AliasNode:
		name := n.Value.GetToken().Value
		v := r.anchors[name]
		if v == nil {
			return nil, Problem{Line: out.line, Message: fmt.Sprintf("alias %q has no anchor before it", clip(name))}
		}
		return v, nil
	default:
		return nil, Problem{Line: out.line, Message: fmt.Sprintf("YAML of type %s is not supported here", strings.ToLower(n.Type().String()))}
	}
	return out, nil
}

func (r *yamlReader) object(out *node, values []*ast.MappingValueNode, depth int) (*node, error) {
	out.kind = kindObject
	var merged []field // of merge keys; the object's own keys win
	for _, mv := range values {
		v, err := r.read(mv.Value, depth+1)
		if err != nil {
			return nil, err
		}
		line := lineOf(mv.Key)
		if mv.Key.IsMergeKey() {
			if v.kind != kindObject {
				return nil, Problem{Line: line, Message: "a merge key (<<) takes one object"}
			}
			merged = append(merged, v.fields...)
			continue
		}
		key, ok := mv.Key.(ast.ScalarNode)
		if !ok {
			return nil, Problem{Line: line, Message: "a key must be a plain string"}
		}
		at := *v // an alias has the line of its use
		at.line = line
		out.fields = append(out.fields, field{key.GetToken().Value, &at})
	}
	for _, f := range merged {
		if out.field(f.key) == nil {
			out.fields = append(out.fields, f)
		}
	}
	return out, nil
}
