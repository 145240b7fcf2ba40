package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// words are what the source says of the package's types and constants.
type words struct {
	types  map[string]string            // a type's comment
	fields map[string]map[string]string // a struct's fields' comments
	values map[string][]value           // the constants of a named type, in order
	consts []value                      // the untyped string constants, in order
}

// A value is a string constant.
type value struct {
	name, text string
	comment    string
}

// readWords parses the package in dir, tests aside.
func readWords(dir string) (*words, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(names) == 0 {
		return nil, fmt.Errorf("source in %s: %w", dir, fs.ErrNotExist)
	}
	w := &words{types: map[string]string{}, fields: map[string]map[string]string{}, values: map[string][]value{}}
	fset := token.NewFileSet()
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			if d, ok := d.(*ast.GenDecl); ok {
				w.add(d)
			}
		}
	}
	return w, nil
}

func (w *words) add(d *ast.GenDecl) {
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			doc := s.Doc
			if doc == nil && !d.Lparen.IsValid() {
				doc = d.Doc
			}
			w.types[s.Name.Name] = text(doc, s.Comment)
			if st, ok := s.Type.(*ast.StructType); ok {
				w.addFields(s.Name.Name, st)
			}
		case *ast.ValueSpec:
			w.addConst(s)
		}
	}
}

func (w *words) addFields(typ string, st *ast.StructType) {
	w.fields[typ] = map[string]string{}
	for _, f := range st.Fields.List {
		for _, n := range f.Names {
			w.fields[typ][n.Name] = text(f.Doc, f.Comment)
		}
	}
}

// addConst notes a string constant; others are no part of the documentation.
func (w *words) addConst(s *ast.ValueSpec) {
	if len(s.Names) != 1 || len(s.Values) != 1 {
		return
	}
	lit, ok := s.Values[0].(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return
	}
	v := value{name: s.Names[0].Name, comment: text(s.Doc, s.Comment)}
	v.text, _ = strconv.Unquote(lit.Value)
	switch typ := s.Type.(type) {
	case nil:
		w.consts = append(w.consts, v)
	case *ast.Ident:
		w.values[typ.Name] = append(w.values[typ.Name], v)
	}
}

// constants returns the untyped string constants whose names begin with prefix.
func (w *words) constants(prefix string) []value {
	var found []value
	for _, v := range w.consts {
		if strings.HasPrefix(v.name, prefix) {
			found = append(found, v)
		}
	}
	return found
}

// text joins a declaration's comments to one line.
func text(groups ...*ast.CommentGroup) string {
	var parts []string
	for _, g := range groups {
		parts = append(parts, strings.Fields(g.Text())...)
	}
	return strings.Join(parts, " ")
}

var docLink = regexp.MustCompile(`\[([A-Z][A-Za-z.]*)\]`)

// plain returns a comment without the brackets of its links.
func plain(comment string) string { return docLink.ReplaceAllString(comment, "$1") }

// marked returns a comment with its links as code, fit for a cell of a table in Markdown.
func marked(comment string) string {
	return strings.ReplaceAll(docLink.ReplaceAllString(comment, "`$1`"), "|", `\|`)
}
