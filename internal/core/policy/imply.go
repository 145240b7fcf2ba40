package policy

import (
	"slices"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// aimsOf returns globs over tool ids of which one matches every tool for which e is not false: e demands a source, a name or
// an id with other things. In CEL what is false stays false beside what cannot be evaluated. nil means that it demands none.
func aimsOf(e ast.Expr) []string {
	if e.Kind() != ast.CallKind {
		return nil
	}
	call := e.AsCall()
	args := call.Args()
	switch call.FunctionName() {
	case operators.LogicalAnd:
		for _, part := range args {
			if aims := aimsOf(part); aims != nil {
				return aims
			}
		}
	case operators.LogicalOr:
		var all []string
		for _, part := range args {
			aims := aimsOf(part)
			if aims == nil {
				return nil
			}
			all = append(all, aims...)
		}
		return all
	case operators.Equals:
		for i, arg := range args {
			if aim, ok := aimOf(arg, args[1-i]); ok {
				return []string{aim}
			}
		}
	case operators.In:
		if args[1].Kind() != ast.ListKind || len(args[1].AsList().OptionalIndices()) > 0 {
			return nil
		}
		all := []string{}
		for _, element := range args[1].AsList().Elements() {
			aim, ok := aimOf(args[0], element)
			if !ok {
				return nil
			}
			all = append(all, aim)
		}
		return all
	}
	return nil
}

// aimOf returns the glob that matches the tools whose variable has the value.
func aimOf(variable, value ast.Expr) (string, bool) {
	if variable.Kind() != ast.IdentKind && variable.Kind() != ast.SelectKind || value.Kind() != ast.LiteralKind {
		return "", false
	}
	text, ok := value.AsLiteral().(types.String)
	if !ok {
		return "", false
	}
	exact := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(string(text))
	switch pathOf(variable) {
	case varSource:
		return exact + ":*", true
	case varName:
		return "*:" + exact, true
	case varID:
		return exact, true
	}
	return "", false
}

// pathOf returns the name of a variable as it is written.
func pathOf(e ast.Expr) string {
	switch e.Kind() {
	case ast.IdentKind:
		return e.AsIdent()
	case ast.SelectKind:
		if s := e.AsSelect(); !s.IsTestOnly() {
			return pathOf(s.Operand()) + "." + s.FieldName()
		}
	}
	return ""
}

// usable reports whether all aims are globs.
func usable(aims []string) bool {
	return aims != nil && !slices.ContainsFunc(aims, func(g string) bool { _, err := parseGlob(g); return err != nil })
}
