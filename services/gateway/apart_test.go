package gateway_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/approvals"
	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/gateway"
)

// belongings are things of a tenant, by what stands for them in a path.
type belongings map[string]string

func (b belongings) in(path string) string {
	for name, id := range b {
		path = strings.ReplaceAll(path, "{"+name+"}", id)
	}
	return path
}

// own has tenant acme, to which the key belongs, get one of everything.
func (w *world) own(t *testing.T, key string) belongings {
	t.Helper()
	v, err := client.New(w.base, key).OpenRun(t.Context(), client.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	desk, err := approvals.Open(t.Context(), w.bus)
	if err != nil {
		t.Fatal(err)
	}
	b := belongings{"run": string(v.ID), "source": "mcp:calendar", "tool": "mcp:calendar:slow"}
	for _, name := range []string{"grant", "approval"} {
		a := w.ask(t, desk, "acme", key, v.ID, contracts.ApprovalTerms{})
		b["call"], b[name] = string(a.Call), string(a.ID)
		if name == "grant" {
			a, err := desk.Decide(t.Context(), "acme", a.ID, approvals.Choice{Decision: contracts.DecisionAllowAlways, By: "ann"})
			if err != nil || a.Grant == nil {
				t.Fatalf("Decide() = %+v, %v; want a grant", a, err)
			}
			b[name] = string(a.Grant.ID)
		}
	}
	return b
}

// ask has a call of the run wait for an approval, as the executor would have it.
func (w *world) ask(t *testing.T, desk *approvals.Desk, tenant contracts.TenantID, key string, run contracts.RunID, terms contracts.ApprovalTerms) *contracts.Approval {
	t.Helper()
	a := w.do(t, "POST", "/v1/runs/"+string(run)+"/calls", `{"name":"slow"}`, "Authorization", "Bearer "+key, "Prefer", "wait=0")
	call := decode[client.CallAnswer](t, a)
	if a.status != 202 || call.Final() {
		t.Fatalf("the call of slow = %d %s, want it to take its time", a.status, a.body)
	}
	rec, err := w.calls.Get(t.Context(), contracts.CallKey(tenant, run, call.CallID))
	if err != nil {
		t.Fatal(err)
	}
	asked, err := desk.Ask(t.Context(), tenant, approvals.Question{Call: rec, Tool: contracts.ToolRef{ID: "mcp:calendar:slow", Name: "slow"}, Terms: terms, By: "rule x"})
	if err != nil {
		t.Fatal(err)
	}
	return asked
}

// TestTenantsAreApart sees that nothing of one tenant can be had by another, and that it cannot be told from what does not exist.
func TestTenantsAreApart(t *testing.T) {
	tenant := func(name string) gateway.Tenant {
		return gateway.Tenant{Keys: []gateway.Key{{Name: "k", Hash: contracts.HashOf([]byte(name)), Scopes: []string{"runs", "read", "admin", "approve"}}}}
	}
	w := open(t, gateway.Config{Tenants: map[contracts.TenantID]gateway.Tenant{"acme": tenant("a"), "bell": tenant("b")}})
	acme, bell := client.New(w.base, "a"), client.New(w.base, "b")
	theirs := w.own(t, "a")
	nobodys := belongings{
		"run": string(contracts.NewRunID()), "call": string(contracts.NewCallID()), "source": "mcp:diary", "tool": "mcp:diary:slow",
		"approval": string(contracts.ApprovalOf(contracts.NewCallID())), "grant": string(contracts.NewGrantID()),
	}
	bodies := map[string]string{
		"POST /v1/runs/{run}/calls":               `{"name":"tool_search","arguments":{"query":"x"}}`,
		"POST /v1/runs/{run}/calls/{call}/result": `{"content":[]}`,
		"POST /v1/runs/{run}/ruling":              `{"tool":"mcp:a:b"}`,
		"POST /v1/approvals/{approval}":           `{"decision":"allow_once"}`,
	}
	for route := range routes() {
		method, path, ok := strings.Cut(route, " ")
		if !ok || !strings.Contains(path, "{") {
			continue
		}
		ask := func(b belongings) (int, string) {
			a := w.do(t, method, b.in(path), bodies[route], "Authorization", "Bearer b")
			for name, id := range b {
				a.body = bytes.ReplaceAll(a.body, []byte(id), []byte(name))
			}
			return a.status, string(a.body)
		}
		gotStatus, got := ask(theirs)
		wantStatus, want := ask(nobodys)
		if gotStatus != wantStatus || got != want {
			t.Errorf("%s of another tenant = %d %s\nwhat does not exist is %d %s", route, gotStatus, got, wantStatus, want)
		}
		if gotStatus != 404 {
			t.Errorf("%s of another tenant = %d %s, want 404", route, gotStatus, got)
		}
	}
	for _, path := range []string{"/v1/runs", "/v1/approvals", "/v1/grants", "/v1/sources", "/v1/policies"} {
		a := w.do(t, "GET", path, "", "Authorization", "Bearer b")
		for _, id := range theirs {
			if a.status != 200 || bytes.Contains(a.body, []byte(id)) {
				t.Errorf("GET %s of another tenant = %d %s, shows %s", path, a.status, a.body, id)
			}
		}
	}
	if _, err := acme.SetPolicies(t.Context(), []contracts.PolicyLayer{{Level: "tenant", Deny: []string{"mcp:*"}}}); err != nil {
		t.Fatal(err)
	}
	if p, err := bell.Policies(t.Context()); err != nil || len(p.Layers) != 0 {
		t.Errorf("the other tenant's policies = %+v, %v", p, err)
	}
	if got := w.runState(t, "acme", contracts.RunID(theirs["run"])); got != contracts.RunStatePlanned {
		t.Errorf("the run is %s, want it untouched", got)
	}
	for route, want := range map[string]string{"GET /v1/approvals/{approval}": `"waiting"`, "GET /v1/grants": theirs["grant"], "GET /v1/runs/{run}/calls/{call}": `"status":"waiting"`} {
		method, path, _ := strings.Cut(route, " ")
		if a := w.do(t, method, theirs.in(path), "", "Authorization", "Bearer a"); a.status > 202 || !strings.Contains(string(a.body), want) {
			t.Errorf("%s of its own tenant = %d %s, want it untouched: %s", route, a.status, a.body, want)
		}
	}
	close(w.release)
}

// A request that is refused costs neither memory for its body nor time for a body that never comes.
func TestRefusedWithoutItsBody(t *testing.T) {
	w := open(t, gateway.Config{Tenants: map[contracts.TenantID]gateway.Tenant{"acme": keys("runs")}})
	for name, tt := range map[string]struct {
		request string
		want    int
	}{
		"a body that never comes":      {"POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{", 401},
		"a huge body with a wrong key": {"POST /v1/runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer nonsense\r\nContent-Length: 99999999999\r\n\r\n", 401},
		"a huge key":                   {"GET /v1/runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + strings.Repeat("x", 128<<10) + "\r\n\r\n", 431},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", strings.TrimPrefix(w.base, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(8 * time.Second))
			if _, err := io.WriteString(conn, tt.request); err != nil {
				t.Fatal(err)
			}
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatalf("no answer: %v", err)
			}
			defer res.Body.Close()
			if res.StatusCode != tt.want {
				t.Errorf("the answer is %s, want %d", res.Status, tt.want)
			}
		})
	}
}
