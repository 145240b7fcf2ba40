package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A user answers what the MCP client asks.
type user func(context.Context, string) (action, decision string)

// session opens an MCP session over the transport whose client asks the user.
func (u user) session(t *testing.T, transport mcp.Transport) *mcp.ClientSession {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(ctx context.Context, q *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			action, decision := u(ctx, q.Params.Message)
			r := &mcp.ElicitResult{Action: action}
			if decision != "" {
				r.Content = map[string]any{"decision": decision, "note": "said to the client"}
			}
			return r, nil
		},
	})
	ss, err := c.Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ss.Close() })
	return ss
}

func callMCP(t *testing.T, ss *mcp.ClientSession, name string, args any) string {
	t.Helper()
	r, err := ss.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("call %s: %v", name, err)
	}
	return string(asJSON(t, r))
}

// Whoever opened an MCP session with a credential that may decide is asked by their client about the calls of the session, and nobody else is.
func TestApprovalsByElicitation(t *testing.T) {
	s := up(t, t.TempDir(), nil)
	askFor(t, s, "platform:core:date_add")
	token := func(ss string) *mcp.StreamableClientTransport {
		h := http.DefaultClient
		if ss != "" {
			h = &http.Client{Transport: bearer(ss)}
		}
		return &mcp.StreamableClientTransport{Endpoint: s.url + "/mcp?mode=code", HTTPClient: h}
	}
	admin := adminToken(t, s)
	add := map[string]any{"date": "2026-02-28", "days": 1}

	var heard atomic.Value
	yes := user(func(_ context.Context, q string) (string, string) { heard.Store(q); return "accept", "allow_once" })
	if got := callMCP(t, yes.session(t, token(admin)), "platform:core:date_add", add); !strings.Contains(got, "2026-03-01") {
		t.Errorf("approved: %s", got)
	}
	for _, want := range []string{"What time is it?", "platform:core:date_add", "2026-02-28", "warning"} {
		if q, _ := heard.Load().(string); !strings.Contains(q, want) {
			t.Errorf("the user is asked %q, want %s in it", q, want)
		}
	}
	code := map[string]any{"code": fmt.Sprintf(`const o = await tools.call("platform:core:date_add", %s, {outcome: true}); return o`, asJSON(t, add))}
	if got := callMCP(t, yes.session(t, token(admin)), "tool_search_code", code); !strings.Contains(got, "2026-03-01") {
		t.Errorf("approved in a body: %s", got)
	}
	no := user(func(context.Context, string) (string, string) { return "decline", "" })
	if got := callMCP(t, no.session(t, token(admin)), "platform:core:date_add", add); !strings.Contains(got, "approval_denied") {
		t.Errorf("declined: %s", got)
	}
	list, err := s.admin(t).Approvals(t.Context(), contracts.ApprovalStateDecided)
	if err != nil || len(list) != 3 || list[2].Verdict.By != "admin" || list[2].Verdict.Note != "said to the client" || list[0].Verdict.Decision != contracts.DecisionDeny {
		t.Errorf("approvals %+v, %v", list, err)
	}

	// A user who puts it off, or thinks about it, leaves it to others.
	for name, u := range map[string]user{
		"put off": func(context.Context, string) (string, string) { return "cancel", "" },
		"thought about": func(ctx context.Context, _ string) (string, string) {
			<-ctx.Done() // the question is taken back once somebody else has decided
			return "accept", "deny"
		},
		"answered with nonsense": func(context.Context, string) (string, string) { return "accept", "perhaps" },
	} {
		ss := u.session(t, token(admin))
		done := make(chan string, 1)
		go func() { done <- callMCP(t, ss, "platform:core:date_add", add) }()
		if _, err := s.admin(t).Decide(t.Context(), asked(t, s).ID, client.ApprovalChoice{Decision: contracts.DecisionAllowOnce}); err != nil {
			t.Fatal(err)
		}
		if got := <-done; !strings.Contains(got, "2026-03-01") {
			t.Errorf("%s: %s", name, got)
		}
	}

	// Without a credential nobody is asked, whatever the client offers.
	never := user(func(context.Context, string) (string, string) {
		t.Error("a session without a credential was asked to decide about its own call")
		return "accept", "allow_once"
	})
	ss := never.session(t, token(""))
	done := make(chan string, 1)
	go func() { done <- callMCP(t, ss, "platform:core:date_add", add) }()
	if _, err := s.admin(t).Decide(t.Context(), asked(t, s).ID, client.ApprovalChoice{Decision: contracts.DecisionDeny}); err != nil {
		t.Fatal(err)
	}
	if got := <-done; !strings.Contains(got, "approval_denied") {
		t.Errorf("without a credential: %s", got)
	}

	// Over standard input and output it takes a flag.
	bridge := exec.Command(binary, "mcp", "--url", s.url, "--data", s.data, "--approve", "--mode", "tools")
	if got := callMCP(t, yes.session(t, &mcp.CommandTransport{Command: bridge}), "tool_call", map[string]any{"id": "platform:core:date_add", "args": add}); !strings.Contains(got, "2026-03-01") {
		t.Errorf("approved over the bridge: %s", got)
	}
}

func TestApproveNeedsAToken(t *testing.T) {
	s := up(t, t.TempDir(), nil)
	if code, _, stderr := cli(t, "", "mcp", "--url", s.url, "--data", t.TempDir(), "--approve"); code != 2 || !strings.Contains(stderr, "--approve: it needs the admin token") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

// adminToken returns the token that may do everything.
func adminToken(t *testing.T, s *server) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(s.data, "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}
