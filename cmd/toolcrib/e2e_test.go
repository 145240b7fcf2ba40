package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// The demo is the main job on real input; it checks everything that it shows.
func TestDemo(t *testing.T) {
	installNPM(t)
	out, err := exec.CommandContext(t.Context(), binary, "demo", "--npm", npmDir).CombinedOutput()
	if err != nil {
		t.Fatalf("demo: %v\n%s", err, out)
	}
	for _, part := range []string{"mcp:filesystem:write_file", "mcp:memory:read_graph", "mcp:everything:get-sum", "blocked:", "Saved:", "All of this really happened."} {
		if !strings.Contains(string(out), part) {
			t.Errorf("the demo does not show %q:\n%s", part, out)
		}
	}
	checkKinds(t, string(out))
}

// checkKinds looks in what the demo shows for a tool of each kind of source that is found, described and called: one by one in the surface "tools", and all of them by one body.
func checkKinds(t *testing.T, shown string) {
	t.Helper()
	body := ""
	var acts []string
	for act := range strings.SplitSeq(shown, "\n== ") {
		if acts = append(acts, act); strings.HasPrefix(act, "One body, every kind of source\n") {
			body = act
		}
	}
	for kind, ids := range map[string]struct{ tools, code string }{
		"mcp":        {"mcp:filesystem:write_file", "mcp:office:create-event"},
		"openapi":    {"plugin:depot:shippingQuote", "plugin:depot:shippingQuote"},
		"bus plugin": {"plugin:ledger:post_entry", "plugin:ledger:list_accounts"},
		"platform":   {"platform:core:now", "platform:core:now"},
		"client":     {"client:client:notify_user", "client:client:notify_user"},
	} {
		if !slices.ContainsFunc(acts, func(act string) bool {
			return strings.Contains(act, "\nsearch ") && strings.Contains(act, ": "+ids.tools+" ") && strings.Contains(act, "\ndescribe ") && strings.Contains(act, "\ncall      ok in ")
		}) {
			t.Errorf("%s: %s is not found, described and called in the surface tools:\n%s", kind, ids.tools, shown)
		}
		if !strings.Contains(body, "\ncall      "+ids.code+": ") { // which is shown of what was found and described
			t.Errorf("%s: %s is not found, described and called by the body:\n%s", kind, ids.code, body)
		}
	}
}

// publicServers returns the three npm servers, the filesystem one on folder.
func publicServers(t *testing.T, folder string) map[string]any {
	t.Helper()
	return map[string]any{
		"everything": map[string]any{"command": npm(t, "mcp-server-everything")},
		"filesystem": map[string]any{"command": npm(t, "mcp-server-filesystem"), "args": []string{folder}},
		"memory":     map[string]any{"command": npm(t, "mcp-server-memory"), "env": map[string]string{"MEMORY_FILE_PATH": filepath.Join(t.TempDir(), "memory.jsonl")}},
	}
}

// clientTasks are what independent clients do with each of the three servers; name is somebody whom the memory server does not know yet.
func clientTasks(folder, name string) []struct{ query, tool, args, want string } {
	return []struct{ query, tool, args, want string }{
		{"add two numbers", "mcp:everything:get-sum", `{"a":40,"b":2}`, "42"},
		{"read the text of a file", "mcp:filesystem:read_text_file", fmt.Sprintf(`{"path":%q}`, filepath.Join(folder, "a.txt")), "written by the test"},
		{"create entities in the knowledge graph", "mcp:memory:create_entities", fmt.Sprintf(`{"entities":[{"name":%q,"entityType":"person","observations":["likes tea"]}]}`, name), "likes tea"},
	}
}

func TestTypeScriptClient(t *testing.T) {
	folder := realDir(t)
	write(t, filepath.Join(folder, "a.txt"), "written by the test")
	servers := publicServers(t, folder)
	s := up(t, t.TempDir(), servers)
	openRun(t, s.client(), client.RunOptions{}) // so that every source is ready
	for _, target := range []string{"http", "stdio"} {
		for _, task := range clientTasks(folder, target) {
			t.Run(target+"/"+task.tool, func(t *testing.T) {
				cmd := exec.CommandContext(t.Context(), "node", "client.mjs", s.url+"/mcp?mode=tools", task.query, task.tool, task.args)
				if target == "stdio" {
					cmd.Args[2] = binary
					serverArgs, _ := json.Marshal([]string{"mcp", "--url", s.url, "--mode", "tools"})
					cmd.Env = append(os.Environ(), "SERVER_ARGS="+string(serverArgs))
				}
				cmd.Dir = npmDir
				cmd.Stderr = testWriter{t}
				out, err := cmd.Output()
				if err != nil {
					t.Fatalf("client.mjs: %v\n%s", err, out)
				}
				var got struct {
					Tools        []string
					Instructions string
					Hits         []string
					Result       json.RawMessage
				}
				if err := json.Unmarshal(out, &got); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				if want := []string{"tool_search", "tool_describe", "tool_call"}; !slices.Equal(got.Tools, want) {
					t.Errorf("tools = %v, want %v", got.Tools, want)
				}
				if !slices.Contains(got.Hits, task.tool) || !strings.Contains(string(got.Result), task.want) || got.Instructions == "" {
					t.Errorf("hits %v, result %s, instructions %q; want %s and %q", got.Hits, got.Result, got.Instructions, task.tool, task.want)
				}
			})
		}
	}
}

// toolcrib mcp starts everything by itself, and a client that asks at once gets what comes late.
func TestMCPStartsByItself(t *testing.T) {
	installNPM(t)
	file := filepath.Join(t.TempDir(), "mcp.json")
	write(t, file, fmt.Sprintf(`{"mcpServers":{"everything":{"command":%q}}}`, npm(t, "mcp-server-everything")))
	args, _ := json.Marshal([]string{"mcp", "--mcp-config", file, "--data", t.TempDir(), "--mode", "tools"})
	cmd := exec.CommandContext(t.Context(), "node", "client.mjs", binary, "sum of two numbers", "mcp:everything:get-sum", `{"a":40,"b":2}`)
	cmd.Env = append(os.Environ(), "SERVER_ARGS="+string(args))
	cmd.Dir = npmDir
	cmd.Stderr = testWriter{t}
	if out, err := cmd.Output(); err != nil || !strings.Contains(string(out), "is 42") {
		t.Errorf("client.mjs: %v\n%s", err, out)
	}
}

// The inspector is a second independent client; its command line makes one request a session.
func TestInspector(t *testing.T) {
	folder := realDir(t)
	write(t, filepath.Join(folder, "a.txt"), "written by the test")
	s := up(t, t.TempDir(), publicServers(t, folder))
	openRun(t, s.client(), client.RunOptions{})
	inspector := npm(t, "mcp-inspector")
	inspect := func(args ...string) string {
		t.Helper()
		all := append([]string{"--cli", s.url + "/mcp?mode=tools", "--transport", "http"}, args...)
		cmd := exec.CommandContext(t.Context(), inspector, all...)
		cmd.Stderr = testWriter{t}
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("inspector %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	if out := inspect("--method", "tools/list"); !strings.Contains(out, "tool_search") || !strings.Contains(out, "tool_describe") || !strings.Contains(out, "tool_call") {
		t.Errorf("tools/list = %s", out)
	}
	for _, task := range clientTasks(folder, "Ada") {
		if out := inspect("--method", "tools/call", "--tool-name", "tool_search", "--tool-arg", "query="+task.query); !strings.Contains(out, task.tool) {
			t.Errorf("search %q does not find %s: %s", task.query, task.tool, out)
		}
		if out := inspect("--method", "tools/call", "--tool-name", "tool_describe", "--tool-arg", "id="+task.tool); !strings.Contains(out, "inputSchema") {
			t.Errorf("describe %s = %s", task.tool, out)
		}
		if out := inspect("--method", "tools/call", "--tool-name", "tool_call", "--tool-arg", "id="+task.tool, "--tool-arg", "args="+task.args); !strings.Contains(out, task.want) {
			t.Errorf("call %s = %s, want %q", task.tool, out, task.want)
		}
	}
}

// A SIGKILL in mid-run: what was finished stays finished and is not done again, what was accepted ends once.
func TestKillAndRestart(t *testing.T) {
	data, counter := t.TempDir(), filepath.Join(t.TempDir(), "counter")
	servers := map[string]any{"ops": exampleServer("ops", "--counter-file", counter)}
	s := up(t, data, servers)
	run := openRun(t, s.client(), client.RunOptions{Agent: "victim"})
	const done = "the finished call"
	first, err := s.client().Call(t.Context(), run.ID, client.CallRequest{Name: "mcp:ops:increment_counter", Key: done, Arguments: []byte(`{"note":"finished"}`)})
	if err != nil || first.Status != contracts.StatusOK {
		t.Fatalf("first call = %+v, %v", first, err)
	}
	// A call that is under way when the process dies: the tool has counted, and holds its answer back.
	underway := contracts.KeyedCallID(run.ID, "local", "the call under way")
	ctx, cancel := context.WithCancel(t.Context())
	go s.client().Call(ctx, run.ID, client.CallRequest{Name: "mcp:ops:increment_counter", Key: "the call under way", Arguments: []byte(`{"note":"underway","hold_ms":60000}`)})
	eventually(t, "the tool counted", func() bool { return executions(t, counter, "underway") == 1 })
	s.kill(t)
	cancel()

	s = up(t, data, servers)
	view, err := s.client().Run(t.Context(), run.ID)
	if err != nil || view.State != contracts.RunStatePlanned || view.Surface != run.Surface {
		t.Errorf("run after the restart = %+v, %v", view, err)
	}
	again, err := s.client().Call(t.Context(), run.ID, client.CallRequest{Name: "mcp:ops:increment_counter", Key: done, Arguments: []byte(`{"note":"finished"}`)})
	if err != nil || again.CallID != first.CallID || again.Status != contracts.StatusOK {
		t.Errorf("the finished call asked again = %+v, %v; want its outcome", again, err)
	}
	if n := executions(t, counter, "finished"); n != 1 {
		t.Errorf("the finished call was executed %d times, want 1", n)
	}
	lost, err := s.client().Await(t.Context(), run.ID, underway)
	if err != nil || lost.Status != contracts.StatusError || lost.SideEffects != contracts.SideEffectsUnknown {
		t.Errorf("the call under way = %+v, %v; want an error with unknown side effects", lost, err)
	}
	if n := executions(t, counter, "underway"); n != 1 {
		t.Errorf("the call under way was executed %d times, want 1", n)
	}
	if err := s.client().CloseRun(t.Context(), run.ID); err != nil {
		t.Fatal(err)
	}
	ends := map[contracts.CallID]int{}
	types := map[string]bool{}
	for l, err := range s.client().Log(t.Context(), run.ID) {
		if err != nil {
			t.Fatal(err)
		}
		types[l.Type] = true
		if l.Type == "call.finished" {
			ends[contracts.CallID(l.ID)]++
		}
	}
	if ends[first.CallID] != 1 || ends[underway] != 1 || len(ends) != 2 {
		t.Errorf("ends of calls in the log = %v, want one for each of two", ends)
	}
	if !types["run.requested"] || !types["run.planned"] || !types["run.closed"] {
		t.Errorf("the log has only %v", types)
	}
	r, err := s.client().Report(t.Context(), run.ID)
	if err != nil || len(r.Calls) != 2 || r.State != contracts.RunStateClosed {
		t.Errorf("report = %+v, %v", r, err)
	}
}

// executions counts the lines of the counter file with the note.
func executions(t *testing.T, file, note string) int {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(b), fmt.Sprintf("%q", note))
}

func TestUpRefusesAStrangersAddress(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), binary, "up", "--listen", "0.0.0.0:0", "--data", t.TempDir()).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "credentials") {
		t.Errorf("up = %v, %s; want a refusal that names credentials", err, out)
	}
}

func TestSecondUpOnTheSameDataIsRefused(t *testing.T) {
	data := t.TempDir()
	up(t, data, nil)
	out, err := exec.CommandContext(t.Context(), binary, "up", "--listen", "127.0.0.1:0", "--data", data).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "another process") {
		t.Errorf("second up = %v, %s", err, out)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// realDir returns a directory by its real path, which the filesystem server insists on.
func realDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
