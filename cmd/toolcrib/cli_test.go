package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// cli runs a command line in this process.
func cli(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, nil, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

func TestCommandLine(t *testing.T) {
	s := up(t, t.TempDir(), map[string]any{"office": exampleServer("calendar,contacts,mail")})
	openRun(t, s.client(), client.RunOptions{})
	do := func(want int, stdin string, args ...string) string {
		t.Helper()
		code, out, errs := cli(t, stdin, append(args, "--url", s.url)...)
		if code != want {
			t.Fatalf("%v = %d, want %d\n%s%s", args, code, want, out, errs)
		}
		return out + errs
	}
	has := func(out string, parts ...string) {
		t.Helper()
		for _, p := range parts {
			if !strings.Contains(out, p) {
				t.Errorf("%q is not in:\n%s", p, out)
			}
		}
	}
	id, _, _ := strings.Cut(do(0, "", "run", "open", "--agent", "shell", "--mode", "tools"), "\n")
	if _, err := contracts.ParseRunID(id); err != nil {
		t.Fatalf("run open prints %q", id)
	}
	has(do(0, "", "run", "list"), id, "shell")
	has(do(0, "", "run", "show", id), "tool_search", "surface tools")
	has(do(0, "", "search", id, "put", "a", "meeting", "into", "the", "calendar"), "mcp:office:create-event")
	has(do(0, "", "search", id, "look up a contact by name", "--json"), `"id": "mcp:office:find_contact"`)
	has(do(0, "", "describe", id, "office.create-event"), "inputSchema")
	has(do(0, "", "call", id, "find_contact", `{"name":"Ingrid"}`), "Ingrid")
	has(do(0, `{"name":"Ingrid"}`, "call", id, "find_contact", "-"), "Ingrid")
	has(do(1, "", "call", id, "find_contact", `{}`), "invalid_args", "/name")
	has(do(1, "", "call", id, "find_contakt"), "there is no tool", "mcp:office:find_contact")
	has(do(0, "", "explain", id), "tools", "decided by")
	has(do(0, "", "explain", "--mode", "direct"), "surface direct")
	has(do(0, "", "run", "report", id), "Saved:", "mcp:office:find_contact", "rank ")
	has(do(0, "", "run", "log", id), `"type":"run.planned"`, `"type":"call.finished"`)
	do(0, "", "run", "close", id)
	has(do(0, "", "run", "log", id, "--follow"), `"type":"run.closed"`)
	has(do(1, "", "search", id, "anything"), "ended")

	var view client.RunView
	if err := json.Unmarshal([]byte(do(0, "", "run", "show", id, "--json")), &view); err != nil || view.State != contracts.RunStateClosed {
		t.Errorf("run show --json: %v, %+v", err, view)
	}
	for _, wrong := range [][]string{
		{"run", "show"}, {"run", "show", "nonsense"}, {"nonsense"}, {"run", "nonsense"}, {"call", id, "x", "{"}, {"up", "--nonsense"}, {"call", id, "x", "[]"},
	} {
		do(2, "", wrong...)
	}
	has(do(2, "", "serach", id, "x"), `did you mean "search"`)
}

func TestNobodyThere(t *testing.T) {
	code, _, errs := cli(t, "", "run", "list", "--url", "http://127.0.0.1:1")
	if code != 1 || !strings.Contains(errs, "toolcrib up") {
		t.Errorf("code %d, %q; want 1 and what to do", code, errs)
	}
}

func TestConfigCommands(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml")
	write(t, good, "listen: 127.0.0.1:7000\nmcpServers:\n  a:\n    command: node\n")
	write(t, bad, "listn: 127.0.0.1:7000\n")
	if code, _, errs := cli(t, "", "config", "check", good); code != 0 {
		t.Errorf("good file = %d, %s", code, errs)
	}
	if code, _, errs := cli(t, "", "config", "check", bad); code == 0 || !strings.Contains(errs, "listn") || !strings.Contains(errs, "listen") {
		t.Errorf("bad file = %d, %s; want the key and the one that was meant", code, errs)
	}
	code, out, _ := cli(t, "", "config", "schema")
	var schema map[string]any
	if err := json.Unmarshal([]byte(out), &schema); code != 0 || err != nil || schema["properties"] == nil {
		t.Errorf("schema = %d, %v", code, err)
	}
	if code, _, errs := cli(t, "", "up", "--config", bad, "--data", dir); code != 2 || !strings.Contains(errs, "listn") {
		t.Errorf("up with a bad file = %d, %s", code, errs)
	}
	for _, setting := range []string{"index: {backend: typesense, typesense: {url: 'http://127.0.0.1:1', apiKey: x}}", "limits: {maxRuns: 3}", "mcpServers: {a: {command: x, expose: bare}}", "plugins: {openapi: {a: {url: 'http://127.0.0.1:1', expose: bare}}}"} {
		file := filepath.Join(dir, "unsupported.yaml")
		write(t, file, setting+"\n")
		if code, _, errs := cli(t, "", "up", "--config", file, "--data", dir, "--listen", "127.0.0.1:0"); code != 2 || !strings.Contains(errs, "not supported by this build") {
			t.Errorf("up with %s = %d, %s; want a refusal", setting, code, errs)
		}
		if code, _, errs := cli(t, "", "config", "check", file); code == 0 || !strings.Contains(errs, "not supported by this build") {
			t.Errorf("config check of %s = %d, %s; want what up says", setting, code, errs)
		}
	}
	if code, _, _ := cli(t, "", "config", "check", filepath.Join(dir, "none.yaml")); code != 2 {
		t.Errorf("missing file = %d, want 2", code)
	}
	if code, out, _ := cli(t, "", "version"); code != 0 || !strings.HasPrefix(out, "toolcrib ") {
		t.Errorf("version = %d, %q", code, out)
	}
}
