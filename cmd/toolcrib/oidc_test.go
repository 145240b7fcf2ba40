package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/internal/core/issuer/issuertest"
	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A run is its principal's, policy can see who that is, and the deciders that policy names decide by the names in their tokens.
func TestPeopleOfAnIssuer(t *testing.T) {
	d := issuertest.Start(t)
	file := filepath.Join(t.TempDir(), "toolcrib.yaml")
	text := fmt.Sprintf(`
tenants:
  acme:
    oidc: { issuer: %q, audiences: [crib], principalClaim: email }
    policies:
      - rules:
          - { name: ask, effect: approve, tools: ["platform:core:now"], approval: { deciders: [ann@acme.example] } }
          - { name: not-eve, effect: deny, tools: ["platform:core:now"], when: "run.principal == 'eve@acme.example'" }
`, d.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, t.TempDir(), "--config", file)
	as := func(name, scopes string) *client.Client {
		return client.New(s.url, d.Token(t, "u-"+name, "crib", issuertest.Claims{"email": name + "@acme.example", "scope": scopes}))
	}
	bob := as("bob", "runs")
	run := openRun(t, bob, client.RunOptions{Mode: "tools"}).ID
	outcome := make(chan *client.CallAnswer, 1)
	go func() {
		a, err := bob.Call(t.Context(), run, client.CallRequest{Name: "platform:core:now"})
		if err != nil {
			t.Errorf("Call() = %v", err)
		}
		outcome <- a
	}()
	ann := as("ann", "approve")
	var waiting []client.Approval
	eventually(t, "somebody is asked", func() bool {
		var err error
		if waiting, err = ann.Approvals(t.Context(), contracts.ApprovalStateWaiting); err != nil {
			t.Fatal(err)
		}
		return len(waiting) == 1
	})
	allow := client.ApprovalChoice{Decision: contracts.DecisionAllowOnce}
	for name, c := range map[string]*client.Client{"one who is not named": as("cid", "approve runs"), "one without the scope": as("ann", "runs")} {
		if _, err := c.Decide(t.Context(), waiting[0].ID, allow); contracts.CodeOf(err) != contracts.CodeForbidden {
			t.Errorf("%s decides: %v, want it forbidden", name, err)
		}
	}
	decided, err := ann.Decide(t.Context(), waiting[0].ID, allow)
	if err != nil || decided.Verdict == nil || decided.Verdict.By != "ann@acme.example" {
		t.Errorf("ann decides: %+v, %v", decided, err)
	}
	if a := <-outcome; a == nil || a.Status != contracts.StatusOK {
		t.Errorf("the call that ann allowed = %+v", a)
	}
	eve := as("eve", "runs")
	own := openRun(t, eve, client.RunOptions{Mode: "direct"})
	for _, tool := range own.Tools {
		if strings.Contains(tool.Name, "now") {
			t.Errorf("eve is shown %s, which policy denies her", tool.Name)
		}
	}
}
