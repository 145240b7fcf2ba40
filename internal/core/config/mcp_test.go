package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// world resolves references to a few variables and the files under dir.
func world() Resolver {
	vars := map[string]string{"TOKEN": "t0p", "EMPTY": "", "HOST": "x.example", "SCHEME": "ftp"}
	return Resolver{
		Lookup:   func(name string) (string, bool) { v, ok := vars[name]; return v, ok },
		ReadFile: os.ReadFile,
	}
}

func TestLoadMCP(t *testing.T) {
	path := writeFile(t, "mcp.json", `{
		// as VS Code writes it
		"inputs": [{"id": "key"}],
		"servers": {
			"web": {"type": "http", "url": "https://${HOST}/mcp", "headers": {"Authorization": "Bearer ${env:TOKEN}", "X-Key": "${KEY:-none:given}"}},
			"files": {"command": "${EMPTY}npx", "args": ["${file:key.txt}", "$${TOKEN}", "$HOME"], "env": {"A": "${TOKEN}"}, "cwd": "/srv", "alwaysLoad": true},
			"code": {"command": "npx", "args": ["${workspaceFolder}"], "env": {"KEY": "${input:key}"}}
		},
	}`)
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "key.txt"), []byte("line one\nline two\r\n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	servers, err := LoadMCP(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]Target{
		"web": {
			URL:     "https://x.example/mcp",
			Headers: map[string]string{"Authorization": "Bearer t0p", "X-Key": "none:given"},
		},
		"files": {
			Command: "npx", Args: []string{"line one\nline two", "$t0p", "$HOME"}, Env: map[string]string{"A": "t0p"}, Cwd: "/srv",
		},
	} {
		got, err := servers[name].Resolve(world())
		if err != nil {
			t.Errorf("Resolve(%s) = %v", name, err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("Resolve(%s) (-want +got):\n%s", name, diff)
		}
	}
	_, err = servers["code"].Resolve(world())
	want := "env.KEY: ${input:key} is known only to the client that the file is for\nargs[0]: environment variable workspaceFolder is not set"
	if err == nil || err.Error() != want {
		t.Errorf("Resolve(code) = %v, want %s", err, want)
	}
}

func TestLoadMCPPassesOverKeysOfClients(t *testing.T) {
	for _, key := range []string{"autoApprove", "alwaysAllow", "envFile", "disabledTools", "roots", "dev"} {
		servers, err := parseMCP([]byte(`{"mcpServers": {"a": {"command": "x", "`+key+`": []}}}`), "mcp.json")
		if err != nil || len(servers) != 1 {
			t.Errorf("with %s: %v, want it passed over", key, err)
		}
	}
}

func TestLoadMCPRefuses(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{`{"mcpServers": {"a": {"comand": "x"}}}`, "mcpServers.a.comand: unknown key; did you mean command?"},
		{`{"mcpServers": {"a": {}, "A": {"command": "x"}}}`, `servers "A" and "a" would both be called a`},
		{`{"servers": {"a": {}}}`, "servers.a: needs a command or a url"},
		{`{"servers": {"a": {"command": "${X"}}}`, "servers.a.command: holds ${ without a }"},
		{`{"servers": [], "inputs": 5}`, "servers: is a list; want an object"},
		{`{"servers": {}, "mcpServers": {}}`, "holds both"},
		{`{"inputs": []}`, "holds neither"},
		{`[]`, "holds neither"},
		{``, "holds neither"},
		{`{"servers": {`, "could not find"},
	} {
		path := writeFile(t, "mcp.json", tt.text)
		_, err := LoadMCP(path)
		if ps, ok := errors.AsType[Problems](err); !ok || !strings.Contains(err.Error(), tt.want) || ps[0].File != path {
			t.Errorf("LoadMCP(%s) = %v, want Problems with %q", tt.text, err, tt.want)
		}
	}
	if _, err := LoadMCP("testdata/none.json"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("LoadMCP = %v, want not exist", err)
	}
}

func TestAddMCP(t *testing.T) {
	load := func(text string) map[string]MCPServer {
		s, err := parseMCP([]byte(text), "x.json")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	c := parse(t, "mcpServers: {one: {command: a}}")
	if err := c.AddMCP(load(`{"servers": {"two": {"command": "b"}}}`), "two.json"); err != nil {
		t.Fatalf("AddMCP = %v", err)
	}
	err := c.AddMCP(load(`{"servers": {"ONE": {"command": "c"}, "three": {"command": "c"}, "two": {"command": "c"}}}`), "three.json")
	want := "three.json: mcpServers.ONE: is taken by \"one\" of toolcrib.yaml; rename one\nthree.json: mcpServers.two: is taken by \"two\" of two.json; rename one"
	if err == nil || err.Error() != want {
		t.Errorf("AddMCP = %v, want %s", err, want)
	}
	if n := len(c.Sources("local")); n != 2 {
		t.Errorf("%d sources after a refused AddMCP, want 2", n)
	}
	c = parse(t, "")
	if err := c.AddMCP(load(`{"servers": {"two": {"command": "b"}}}`), "two.json"); err != nil || len(c.Sources("local")) != 1 {
		t.Errorf("AddMCP to an empty configuration = %v", err)
	}
	hosted := parse(t, "tenants: {a: {}}")
	if err := hosted.AddMCP(load(`{"servers": {"two": {"command": "b"}}}`), "two.json"); err == nil || hosted.MCPServers != nil {
		t.Errorf("AddMCP beside tenants = %v, want an error", err)
	}
}

// One server that cannot be resolved says why, and does not harm the others.
func TestResolveReasons(t *testing.T) {
	c := parse(t, `
mcpServers:
  good: {command: run, env: {A: "a ${env:TOKEN}", B: "$${env:TOKEN}"}}
  unset: {command: run, args: ["${env:MISSING}"], env: {A: "literal-secret ${env:GONE}"}}
  nofile: {url: "https://x.example", headers: {Authorization: "Bearer ${file:/nowhere/token}"}}
  scheme: {url: "${env:SCHEME}://user:literal-secret@x.example"}
  empty: {command: "${env:EMPTY}"}
`)
	for name, want := range map[string]string{
		"unset":  "env.A: environment variable GONE is not set\nargs[0]: environment variable MISSING is not set",
		"nofile": "headers.Authorization: read the file of a reference: open /nowhere/token: no such file or directory",
		"scheme": "url: is not an http or https URL",
		"empty":  "command: is empty",
	} {
		got, err := c.MCPServers[name].Resolve(world())
		if err == nil || err.Error() != want {
			t.Errorf("Resolve(%s) = %v, want %s", name, err, want)
		}
		if diff := cmp.Diff(Target{}, got); diff != "" {
			t.Errorf("Resolve(%s) gives a target with its error", name)
		}
	}
	got, err := c.MCPServers["good"].Resolve(world())
	if err != nil || got.Env["A"] != "a t0p" || got.Env["B"] != "${env:TOKEN}" {
		t.Errorf("Resolve(good) = %v, %v", got.Env, err)
	}
	if s := fmt.Sprintf("%v %+v %#v %s", got, got, &got, got); strings.Contains(s, "t0p") {
		t.Errorf("a target prints its secret: %s", s)
	}
	if _, err := c.MCPServers["unset"].Resolve(Resolver{}); err == nil {
		t.Error("Resolve with nothing to look up in = nil, want an error")
	}
}
