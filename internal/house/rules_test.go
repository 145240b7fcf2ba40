package house

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// ours is what the import paths of the repository begin with.
const ours = "github.com/toolcrib/toolcrib/"

// mayImport names the areas that each area may import. An area not named here may import nothing of ours.
var mayImport = map[string][]string{
	"pkg/contracts":  {},
	"pkg/client":     {"pkg/contracts"},
	"pkg/plugin":     {"pkg/contracts"},
	"internal/kit":   {"pkg/contracts"},
	"internal/core":  {"pkg/contracts", "internal/kit"},
	"internal/house": {},
	"examples":       {"pkg/contracts", "pkg/plugin"},
	"services":       {"pkg/contracts", "pkg/client", "internal/kit", "internal/core"},
	"cmd":            {"pkg/contracts", "pkg/client", "internal/kit", "internal/core", "services", "examples"},
	"deploy":         {"pkg/contracts", "pkg/client", "cmd", "examples"}, // it plays the demo of cmd from outside
	"eval":           {"pkg/contracts", "pkg/client", "internal/kit", "internal/core", "services", "examples"},
}

// mayImportInTests names what the tests of an area may import besides.
var mayImportInTests = map[string][]string{
	"services": {"examples", "pkg/plugin"},                    // real sources
	"deploy":   {"internal/kit", "internal/core", "services"}, // what the users of the server may do
}

const (
	maxExported = 8 // names of a service
	getenv      = "os.Getenv os.LookupEnv os.ExpandEnv"
	settlers    = "Ack AckSync DoubleAck Nak NakWithDelay Term TermWithReason InProgress" // of messages of JetStream
)

// pollHelper is what a function that may sleep in tests is called: it waits for a state.
var pollHelper = regexp.MustCompile(`^(?i)(eventually|await|wait|poll|until)`)

// A goPackage is what go list says of a package.
type goPackage struct {
	ImportPath, Dir                    string
	GoFiles, CgoFiles, IgnoredGoFiles  []string
	TestGoFiles, XTestGoFiles          []string
	Imports, TestImports, XTestImports []string
	Module                             *struct{ Path, Dir, GoVersion string }
	path                               string // without ours
	area                               string // key of mayImport
}

// TestRules holds every rule over every package of the workspace.
func TestRules(t *testing.T) {
	all := packages(t)
	for name, rule := range map[string]func(*testing.T, []goPackage){
		"imports":      imports,
		"environment":  environment,
		"noInit":       noInit,
		"comments":     comments,
		"noSleep":      noSleep,
		"noSkip":       noSkip,
		"deepServices": deepServices,
		"modules":      modules,
		"settling":     settling,
	} {
		t.Run(name, func(t *testing.T) { rule(t, all) })
	}
}

// packages returns every package of the workspace.
func packages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json", "work")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	var all []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		p.path = strings.TrimPrefix(p.ImportPath, ours)
		p.area = areaOf(p.path)
		all = append(all, p)
	}
	if len(all) < 10 {
		t.Fatalf("go list found %d packages, want all of the workspace", len(all))
	}
	return all
}

// root is the folder of the repository.
const root = "../.."

// areaOf returns the first part of a path that is an area.
func areaOf(path string) string {
	first, rest, _ := strings.Cut(path, "/")
	if first == "pkg" || first == "internal" {
		second, _, _ := strings.Cut(rest, "/")
		return first + "/" + second
	}
	return first
}

// service returns the service that a path is of, "" for none.
func service(path string) string {
	rest, ok := strings.CutPrefix(path, "services/")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
	return name
}

// isMain reports whether a path is of a command, the place for flags and environment.
func isMain(path string) bool {
	return strings.HasPrefix(path, "cmd/") || strings.Contains(path, "/cmd/")
}

func imports(t *testing.T, all []goPackage) {
	for _, p := range all {
		for _, to := range p.Imports {
			checkImport(t, p, to, mayImport[p.area])
		}
		inTests := slices.Concat(mayImport[p.area], mayImportInTests[p.area])
		for _, to := range slices.Concat(p.TestImports, p.XTestImports) {
			checkImport(t, p, to, inTests)
		}
	}
}

// checkImport reports an import of p that is not allowed, where allowed are areas.
func checkImport(t *testing.T, p goPackage, to string, allowed []string) {
	t.Helper()
	path, our := strings.CutPrefix(to, ours)
	domain, _, _ := strings.Cut(to, "/")
	switch {
	case !our && p.area == "pkg/contracts" && strings.Contains(domain, "."):
		t.Errorf("%s imports %s: the contracts import only the standard library", p.path, to)
	case !our:
	case areaOf(path) == "services" && p.area == "services" && service(path) != service(p.path):
		t.Errorf("%s imports %s: services meet only in pkg/contracts and on the bus", p.path, path)
	case areaOf(path) != p.area && !slices.Contains(allowed, areaOf(path)):
		t.Errorf("%s imports %s: %s may import of ours only %v", p.path, path, p.area, allowed)
	}
}

// A source is one parsed file.
type source struct {
	*ast.File
	name string // from the root
	test bool   // for tests only: a test file, or a package like natstest
}

var fset = token.NewFileSet()

// sources returns the parsed files of p, also those for other systems.
func sources(t *testing.T, p goPackage) []source {
	t.Helper()
	var all []source
	for _, name := range slices.Concat(p.GoFiles, p.CgoFiles, p.IgnoredGoFiles, p.TestGoFiles, p.XTestGoFiles) {
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		test := strings.HasSuffix(name, "_test.go") || strings.HasSuffix(p.path, "test")
		all = append(all, source{f, p.path + "/" + name, test})
	}
	return all
}

// uses yields the places where a file speaks of one of the names, each "package.Name", and the function around each.
func (s source) uses(names string, found func(at token.Pos, name, function string)) {
	for _, d := range s.Decls {
		function := ""
		if f, ok := d.(*ast.FuncDecl); ok {
			function = f.Name.Name
		}
		ast.Inspect(d, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := sel.X.(*ast.Ident); ok {
					if name := x.Name + "." + sel.Sel.Name; slices.Contains(strings.Fields(names), name) {
						found(sel.Pos(), name, function)
					}
				}
			}
			return true
		})
	}
}

// line returns where a position is, from the root.
func (s source) line(at token.Pos) string {
	return s.name + ":" + strings.Split(fset.Position(at).String(), ":")[1]
}

func environment(t *testing.T, all []goPackage) {
	for _, p := range all {
		for _, s := range sources(t, p) {
			if isMain(p.path) || strings.HasSuffix(s.name, "_test.go") {
				continue
			}
			s.uses(getenv, func(at token.Pos, name, function string) {
				if function != "Main" { // of a server that a test binary becomes
					t.Errorf("%s: %s: only a main reads the environment", s.line(at), name)
				}
			})
		}
	}
}

func noInit(t *testing.T, all []goPackage) {
	for _, p := range all {
		for _, s := range sources(t, p) {
			for _, d := range s.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
					t.Errorf("%s: func init: nothing happens by being imported", s.line(f.Pos()))
				}
			}
		}
	}
}

func comments(t *testing.T, all []goPackage) {
	for _, p := range all {
		var docs []string
		for _, s := range sources(t, p) {
			if s.Doc.Text() != "" && !strings.HasSuffix(s.name, "_test.go") {
				docs = append(docs, s.name)
			}
		}
		if len(p.GoFiles) > 0 && len(docs) != 1 {
			t.Errorf("%s has package comments in %v, want one that says what it is for and what not", p.path, docs)
		}
	}
}

func noSleep(t *testing.T, all []goPackage) {
	for _, p := range all {
		for _, s := range sources(t, p) {
			if !s.test {
				continue
			}
			steps := loopSteps(s.File)
			s.uses("time.Sleep", func(at token.Pos, _, function string) {
				if !pollHelper.MatchString(function) && !steps[at] {
					t.Errorf("%s: %s sleeps: wait for a state, in a helper named like eventually", s.line(at), function)
				}
			})
		}
	}
}

// loopSteps returns where the steps of f's loops over a condition begin: to sleep there is to wait for a state.
func loopSteps(f *ast.File) map[token.Pos]bool {
	steps := map[token.Pos]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		if loop, ok := n.(*ast.ForStmt); ok && loop.Cond != nil && loop.Post != nil {
			steps[loop.Post.Pos()] = true
		}
		return true
	})
	return steps
}

func noSkip(t *testing.T, all []goPackage) {
	for _, p := range all {
		for _, s := range sources(t, p) {
			s.uses("t.Skip t.Skipf t.SkipNow b.Skip b.Skipf b.SkipNow", func(at token.Pos, name, function string) {
				if !strings.HasPrefix(function, "Fuzz") { // there it sets an input aside
					t.Errorf("%s: %s: a test that skips holds nothing", s.line(at), name)
				}
			})
		}
	}
}

func deepServices(t *testing.T, all []goPackage) {
	for _, p := range all {
		if p.path != "services/"+service(p.path) {
			continue
		}
		names := map[string]bool{}
		for _, s := range sources(t, p) {
			if !s.test {
				exported(s.File, names)
			}
		}
		if len(names) > maxExported {
			t.Errorf("%s exports %d names, want at most %d: %v", p.path, len(names), maxExported, slices.Sorted(maps.Keys(names)))
		}
	}
}

// settling lets one package alone say what became of a message, so that no handler acknowledges what it did not finish.
func settling(t *testing.T, all []goPackage) {
	const settles = "internal/kit/bus"
	known := map[string]bool{}
	for _, p := range all {
		for _, s := range sources(t, p) {
			ast.Inspect(s.File, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				if sel, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains(strings.Fields(settlers), sel.Sel.Name) {
					if p.path == settles {
						known[sel.Sel.Name] = true
					} else {
						t.Errorf("%s: %s: only %s settles messages", s.line(sel.Pos()), sel.Sel.Name, settles)
					}
				}
				return true
			})
		}
	}
	if !known["Ack"] || !known["NakWithDelay"] {
		t.Errorf("%s is not seen to settle messages, so this rule sees nothing", settles)
	}
}

// exported adds the exported top-level names of f, methods aside.
func exported(f *ast.File, names map[string]bool) {
	add := func(ids ...*ast.Ident) {
		for _, id := range ids {
			if id.IsExported() {
				names[id.Name] = true
			}
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				add(d.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					add(s.Name)
				case *ast.ValueSpec:
					add(s.Names...)
				}
			}
		}
	}
}

// modules has go.work name every module but tools, and all of them agree on the Go version.
func modules(t *testing.T, all []goPackage) {
	listed := map[string]bool{}
	versions := map[string][]string{}
	for _, p := range all {
		if p.Module != nil && !listed[p.Module.Dir] {
			listed[p.Module.Dir] = true
			versions[p.Module.GoVersion] = append(versions[p.Module.GoVersion], p.Module.Path)
		}
	}
	if len(versions) != 1 {
		t.Errorf("the go lines of the modules differ: %v", versions)
	}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git"):
			return fs.SkipDir
		case d.Name() != "go.mod" || path == filepath.Join(root, "tools/go.mod"):
			return nil
		}
		dir, err := filepath.Abs(filepath.Dir(path))
		if err == nil && !listed[dir] {
			t.Errorf("go.work does not name %s", filepath.Dir(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
