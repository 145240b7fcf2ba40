package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// askFor has the calls of a tool need an approval.
func askFor(t *testing.T, s *server, tool string) {
	t.Helper()
	_, err := s.admin(t).SetPolicies(t.Context(), []contracts.PolicyLayer{{Level: "tenant", Rules: []contracts.PolicyRule{
		{Name: "ask", Effect: contracts.PolicyApprove, Tools: []string{tool}, Approval: &contracts.ApprovalTerms{Title: "What time is it?", ExpiresIn: 600}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
}

// asked waits for the only approval that waits.
func asked(t *testing.T, s *server) client.Approval {
	t.Helper()
	var list []client.Approval
	eventually(t, "somebody is asked", func() bool {
		var err error
		if list, err = s.admin(t).Approvals(t.Context(), contracts.ApprovalStateWaiting); err != nil {
			t.Fatal(err)
		}
		return len(list) == 1
	})
	return list[0]
}

// operate runs a command that needs the admin token, which it finds in the data directory.
func operate(t *testing.T, s *server, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(binary, append(args, "--url", s.url, "--data", s.data)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// A call asks, the process dies, and who decides after that has it made, once.
func TestAnApprovalOutlivesTheProcess(t *testing.T) {
	data := t.TempDir()
	s := up(t, data, nil)
	askFor(t, s, "platform:core:now")
	r := openRun(t, s.client(), client.RunOptions{Mode: "tools"})
	body := strings.NewReader(`{"name":"platform:core:now","arguments":{}}`)
	a := post(t, s.url+"/v1/runs/"+string(r.ID)+"/calls", body)
	if a.Status != contracts.StatusWaiting || a.Approval == nil || a.Approval.Title != "What time is it?" {
		t.Fatalf("answer %+v, want that it waits for an approval", a)
	}
	p := asked(t, s)
	if p.ID != a.Approval.ID || p.Call != a.CallID || string(p.Args) != "{}" || p.AskedBy != "tenant, rule ask" {
		t.Errorf("approval %+v, want that of the call", p)
	}
	// Who makes calls can neither look nor decide.
	if _, err := s.client().Approvals(t.Context(), ""); contracts.CodeOf(err) != contracts.CodeUnauthenticated {
		t.Errorf("without a token: %v, want %s", err, contracts.CodeUnauthenticated)
	}
	if _, err := s.client().Decide(t.Context(), p.ID, client.ApprovalChoice{Decision: contracts.DecisionAllowOnce}); contracts.CodeOf(err) != contracts.CodeUnauthenticated {
		t.Errorf("decided without a token: %v, want %s", err, contracts.CodeUnauthenticated)
	}
	s.kill(t)

	s = up(t, data, nil)
	if out, err := operate(t, s, "approvals", "list"); err != nil || !strings.Contains(out, string(p.ID)) || !strings.Contains(out, "platform:core:now") {
		t.Errorf("approvals list: %v\n%s", err, out)
	}
	if out, err := operate(t, s, "approvals", "approve", string(p.ID), "--always"); err != nil || !strings.Contains(out, "allow_always") {
		t.Fatalf("approvals approve: %v\n%s", err, out)
	}
	o, err := s.client().Await(t.Context(), r.ID, a.CallID)
	if err != nil || o.Status != contracts.StatusOK {
		t.Fatalf("the call ended with %+v, %v; want ok", o, err)
	}
	if out, err := operate(t, s, "approvals", "deny", string(p.ID)); err == nil || !strings.Contains(out, "decided already") {
		t.Errorf("a second decision: %v\n%s", err, out)
	}
	if o := call(t, s.client(), r.ID, "platform:core:now", `{}`); o.Status != contracts.StatusOK {
		t.Errorf("a granted call ended with %+v", o)
	}
	out, err := operate(t, s, "grants", "list", "--json")
	var grants []client.Grant
	if err != nil || json.Unmarshal([]byte(out), &grants) != nil || len(grants) != 1 {
		t.Fatalf("grants list: %v\n%s", err, out)
	}
	if out, err := operate(t, s, "grants", "revoke", string(grants[0].ID)); err != nil {
		t.Errorf("grants revoke: %v\n%s", err, out)
	}
	a = post(t, s.url+"/v1/runs/"+string(r.ID)+"/calls", strings.NewReader(`{"name":"platform:core:now"}`))
	if a.Status != contracts.StatusWaiting {
		t.Errorf("once the grant is revoked: %+v, want that it is asked again", a)
	}
	if out, err := operate(t, s, "approvals", "deny", string(asked(t, s).ID), "--note", "late"); err != nil {
		t.Errorf("approvals deny: %v\n%s", err, out)
	}
	if o, err := s.client().Await(t.Context(), r.ID, a.CallID); err != nil || o.Status != contracts.StatusDenied || !strings.Contains(o.Error.Message, "late") {
		t.Errorf("the denied call ended with %+v, %v", o, err)
	}
}

// A body waits longer than its own time, and goes on.
func TestABodyWaitsForAnApproval(t *testing.T) {
	s := up(t, t.TempDir(), nil)
	askFor(t, s, "platform:core:date_add")
	r := codeRun(t, s.client(), time.Second)
	began := time.Now()
	type end struct {
		o   *client.CallAnswer
		err error
	}
	done := make(chan end, 1)
	go func() {
		args, _ := json.Marshal(map[string]string{"code": `const o = await tools.call("platform:core:date_add", {date: "2026-02-28", days: 1}); return o.status`})
		o, err := s.client().Call(t.Context(), r.ID, client.CallRequest{Name: "tool_search_code", Arguments: args})
		done <- end{o, err}
	}()
	p := asked(t, s)
	if p.Body == "" {
		t.Errorf("approval %+v, want the body named", p)
	}
	awaitPast(began.Add(1500 * time.Millisecond)) // longer than the body may take
	if _, err := s.admin(t).Decide(t.Context(), p.ID, client.ApprovalChoice{Decision: contracts.DecisionAllowOnce}); err != nil {
		t.Fatal(err)
	}
	e := <-done
	if e.err != nil {
		t.Fatal(e.err)
	}
	if res := bodyResult(t, e.o); string(res.Value) != `"ok"` {
		t.Errorf("status %s, value %s, error %+v", e.o.Status, res.Value, res.Error)
	}
}

// post makes a call that is waited for a second.
func post(t *testing.T, url string, body io.Reader) *client.CallAnswer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Prefer", "wait=1")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var a client.CallAnswer
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil || resp.StatusCode != http.StatusAccepted {
		t.Fatalf("POST %s: %s, %v", url, resp.Status, err)
	}
	return &a
}

// An MCP client is answered when the call has ended, however long somebody thinks about it.
func TestAnMCPCallWaitsForAnApproval(t *testing.T) {
	file := filepath.Join(t.TempDir(), "toolcrib.yaml")
	if err := os.WriteFile(file, []byte("limits: {callTimeoutMs: 1000}\ntoolSearch: {mode: tools}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := up(t, t.TempDir(), nil, "--config", file)
	askFor(t, s, "platform:core:now")
	ss, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: s.url + "/mcp"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ss.Close()
	began := time.Now()
	type end struct {
		r   *mcp.CallToolResult
		err error
	}
	done := make(chan end, 1)
	go func() {
		r, err := ss.CallTool(t.Context(), &mcp.CallToolParams{Name: "tool_call", Arguments: map[string]any{"id": "platform:core:now", "args": map[string]any{}}})
		done <- end{r, err}
	}()
	p := asked(t, s)
	awaitPast(began.Add(8 * time.Second)) // longer than a call is waited for
	if _, err := s.admin(t).Decide(t.Context(), p.ID, client.ApprovalChoice{Decision: contracts.DecisionAllowOnce}); err != nil {
		t.Fatal(err)
	}
	if e := <-done; e.err != nil || e.r.IsError {
		t.Errorf("the call ended with %+v, %v; want what the tool answered", e.r, e.err)
	}
}
