package planner

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolcrib/toolcrib/internal/core/live"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func (c *crib) withdrawn(t contracts.TenantID, p *contracts.Plan) map[string]string {
	c.t.Helper()
	cat, err := c.library.Catalogue(c.t.Context(), t, p.CatalogueBlob)
	c.check(err)
	out := map[string]string{}
	for id, w := range cat.Withdrawn {
		out[string(id)] = string(w)
	}
	return out
}

func TestReviseForALateSource(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	c.list(acme, "mcp:mail", tools("mcp:mail", "send")...)
	c.mark(acme, "mcp:late", contracts.SourceStatePending, "")
	own := c.clientTools(acme, tools("client:client", "open_file")...)
	r := c.open(acme, contracts.RunRequest{ClientTools: own})
	surface := asJSON(t, c.surface(acme, r))

	if p := c.revise(acme, r.ID); asJSON(t, p) != asJSON(t, r.Plan) {
		t.Errorf("without news the plan changed:\n%s\n%s", asJSON(t, r.Plan), asJSON(t, p))
	}
	late := tool("mcp:late", "thing", "Does it.")
	late.Loading = contracts.LoadingDirect
	c.list(acme, "mcp:late", late)
	p := c.revise(acme, r.ID)
	if p.Catalogue.Revision != 2 || p.Catalogue.Size != 3 || p.Catalogue.Sources["mcp"] != 2 || len(p.Pending) != 0 || p.Basis != c.s.state.Basis(acme) {
		t.Errorf("plan = %s, want revision 2 with 3 tools, none pending", asJSON(t, p))
	}
	if diff := cmp.Diff([]string{"client:client:open_file", "mcp:late:thing", "mcp:mail:send"}, c.ids(acme, p)); diff != "" {
		t.Errorf("catalogue (-want +got):\n%s", diff)
	}
	if p.SurfaceHash != r.Plan.SurfaceHash || asJSON(t, c.surface(acme, r)) != surface || p.Seen != r.Plan.Seen {
		t.Error("the surface changed")
	}
	if got, want := p.Direct.Tokens, r.Plan.Direct.Tokens+late.Tokens; got != want || p.BySource["mcp"].Tokens != want-tools("client:client", "open_file")[0].Tokens {
		t.Errorf("direct exposure costs %d tokens, %+v; want %d", got, p.BySource, want)
	}
	if stored := c.run(acme, r.ID).Plan; asJSON(t, stored) != asJSON(t, p) {
		t.Errorf("the record has another plan:\n%s\n%s", asJSON(t, stored), asJSON(t, p))
	}
	e := events[contracts.RunRevised](c, acme, r.ID)
	if len(e) != 1 || asJSON(t, e[0].Catalogue) != asJSON(t, p.Catalogue) || len(e[0].Pending) != 0 || e[0].Withdrawn != 0 {
		t.Errorf("events = %s, want one with the new catalogue", asJSON(t, e))
	}
}

// News that leave the catalogue as it is make no revision.
func TestReviseWithoutRevision(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	c.list(acme, "mcp:mail", tools("mcp:mail", "send")...)
	r := c.open(acme, contracts.RunRequest{})

	c.mark(acme, "mcp:slow", contracts.SourceStatePending, "")
	p := c.revise(acme, r.ID)
	if p.Catalogue.Revision != 1 || len(p.Pending) != 1 || p.Basis != c.s.state.Basis(acme) {
		t.Errorf("plan = %s, want revision 1 with a pending source", asJSON(t, p))
	}
	c.mark(acme, "mcp:slow", contracts.SourceStateFailed, "no such program")
	p = c.revise(acme, r.ID)
	if p.Catalogue.Revision != 1 || len(p.Pending) != 0 || len(p.Failed) != 1 {
		t.Errorf("plan = %s, want revision 1 with a failed source", asJSON(t, p))
	}
	if n := len(events[contracts.RunRevised](c, acme, r.ID)); n != 2 {
		t.Errorf("%d events, want 2: pending and failed sources are news", n)
	}
	c.policy(acme, deny("mcp:none:*"))
	p = c.revise(acme, r.ID)
	if p.Catalogue.Revision != 1 || p.Basis != c.s.state.Basis(acme) {
		t.Errorf("plan = %s, want revision 1 from the basis of now", asJSON(t, p))
	}
	if n := len(events[contracts.RunRevised](c, acme, r.ID)); n != 2 {
		t.Errorf("%d events, want 2: a policy that changes nothing is no news", n)
	}
}

// A run is told nothing of changes to what policy hides from it.
func TestReviseForHiddenTools(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	c.list(acme, "mcp:mail", tools("mcp:mail", "delete", "send")...)
	c.policy(acme, deny("*:delete", "*:purge", "mcp:vault:*"))
	r := c.open(acme, contracts.RunRequest{})
	c.list(acme, "mcp:mail", tools("mcp:mail", "erase", "purge", "send")[1:]...)
	c.list(acme, "mcp:vault", tools("mcp:vault", "open")...)
	p := c.revise(acme, r.ID)
	if p.Catalogue.Revision != 1 || asJSON(t, p.Catalogue) != asJSON(t, r.Plan.Catalogue) || p.Direct != r.Plan.Direct {
		t.Errorf("plan = %s, want the catalogue as it was", asJSON(t, p))
	}
	c.mark(acme, "mcp:vault", contracts.SourceStateFailed, "on fire")
	p = c.revise(acme, r.ID)
	if len(p.Failed) != 0 {
		t.Errorf("failed = %v, want nothing of a hidden source", p.Failed)
	}
	if e := events[contracts.RunRevised](c, acme, r.ID); len(e) != 0 {
		t.Errorf("events = %s, want none", asJSON(t, e))
	}
	// A visible change of the same source is a revision.
	c.list(acme, "mcp:mail", tool("mcp:mail", "send", "Sends mail, newly."), tools("mcp:mail", "purge")[0])
	if p := c.revise(acme, r.ID); p.Catalogue.Revision != 2 || p.Catalogue.Size != 1 {
		t.Errorf("plan = %s, want revision 2", asJSON(t, p))
	}
}

func TestWithdrawn(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	c.list(acme, "mcp:mail", tools("mcp:mail", "delete", "list", "send")...)
	c.list(acme, "mcp:gone", tools("mcp:gone", "thing")...)
	r := c.open(acme, contracts.RunRequest{ClientTools: c.clientTools(acme, tools("client:client", "open")...)})

	c.policy(acme, deny("*:delete", "client:*"))
	c.list(acme, "mcp:mail", tools("mcp:mail", "delete", "send")...)
	c.mark(acme, "mcp:gone", contracts.SourceStateFailed, "crashed")
	p := c.revise(acme, r.ID)
	want := map[string]string{"mcp:mail:delete": "policy", "mcp:mail:list": "source", "mcp:gone:thing": "source", "client:client:open": "policy"}
	if diff := cmp.Diff(want, c.withdrawn(acme, p)); diff != "" {
		t.Errorf("withdrawn (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"mcp:mail:send"}, c.ids(acme, p)); diff != "" {
		t.Errorf("catalogue (-want +got):\n%s", diff)
	}
	if e := events[contracts.RunRevised](c, acme, r.ID); len(e) != 1 || e[0].Withdrawn != 4 || len(e[0].Failed) != 1 {
		t.Errorf("events = %s, want one with 4 withdrawn tools and mcp:gone failed", asJSON(t, e))
	}

	// What returns is no longer withdrawn; what stays away is, also in later revisions.
	c.list(acme, "mcp:gone", tools("mcp:gone", "thing")...)
	p = c.revise(acme, r.ID)
	delete(want, "mcp:gone:thing")
	if diff := cmp.Diff(want, c.withdrawn(acme, p)); diff != "" {
		t.Errorf("withdrawn after one returned (-want +got):\n%s", diff)
	}
	// That a hidden tool went away is not told.
	c.list(acme, "mcp:mail", tools("mcp:mail", "send")...)
	if again := c.revise(acme, r.ID); again.Catalogue.Revision != p.Catalogue.Revision {
		t.Errorf("revision %d, want %d: only a hidden tool changed", again.Catalogue.Revision, p.Catalogue.Revision)
	}
	c.policy(acme)
	c.list(acme, "mcp:mail", tools("mcp:mail", "delete", "list", "send")...)
	p = c.revise(acme, r.ID)
	if got := c.withdrawn(acme, p); len(got) != 0 || p.Catalogue.Size != 5 {
		t.Errorf("withdrawn = %v with %d tools, want none of 5", got, p.Catalogue.Size)
	}
}

// A tool in quarantine is in no catalogue. Runs that had it are told why it is gone, others nothing.
func TestQuarantined(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	all := tools("mcp:mail", "delete", "list", "send")
	c.list(acme, "mcp:mail", all...)
	c.list(acme, "mcp:solo", tools("mcp:solo", "thing")...)
	r := c.open(acme, contracts.RunRequest{})

	held := listing("mcp:mail", all[1])
	held.Quarantined = []contracts.ToolID{"mcp:mail:delete", "mcp:mail:never_seen", "mcp:mail:send"}
	c.policy(acme, deny("*:delete"))
	c.listAs(acme, held)
	solo := listing("mcp:solo")
	solo.Quarantined = []contracts.ToolID{"mcp:solo:thing"}
	c.listAs(acme, solo)
	p := c.revise(acme, r.ID)
	want := map[string]string{"mcp:mail:delete": "policy", "mcp:mail:send": "admission", "mcp:solo:thing": "admission"}
	if diff := cmp.Diff(want, c.withdrawn(acme, p)); diff != "" {
		t.Errorf("withdrawn (-want +got):\n%s", diff)
	}
	fresh := c.open(acme, contracts.RunRequest{})
	for who, p := range map[string]*contracts.Plan{"the run": p, "a new run": fresh.Plan} {
		if diff := cmp.Diff([]string{"mcp:mail:list"}, c.ids(acme, p)); diff != "" || p.Catalogue.Size != 1 {
			t.Errorf("%s has %d tools (-want +got):\n%s", who, p.Catalogue.Size, diff)
		}
	}
	if got := c.withdrawn(acme, fresh.Plan); len(got) != 0 {
		t.Errorf("a new run is told of %v", got)
	}

	c.list(acme, "mcp:solo") // it is gone altogether
	p = c.revise(acme, r.ID)
	want["mcp:solo:thing"] = "source"
	if diff := cmp.Diff(want, c.withdrawn(acme, p)); diff != "" {
		t.Errorf("withdrawn once one is gone (-want +got):\n%s", diff)
	}
	c.list(acme, "mcp:mail", all...) // admitted
	for _, id := range []contracts.RunID{r.ID, fresh.ID} {
		if diff := cmp.Diff([]string{"mcp:mail:list", "mcp:mail:send"}, c.ids(acme, c.revise(acme, id))); diff != "" {
			t.Errorf("once admitted (-want +got):\n%s", diff)
		}
	}
}

// A tool that the run never saw is not withdrawn but unknown.
func TestNeverSeenIsNotWithdrawn(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	c.list(acme, "mcp:mail", tools("mcp:mail", "delete", "send")...)
	c.policy(acme, deny("*:delete"))
	r := c.open(acme, contracts.RunRequest{})
	c.list(acme, "mcp:mail", tools("mcp:mail", "send", "zip")...)
	p := c.revise(acme, r.ID)
	if got := c.withdrawn(acme, p); p.Catalogue.Revision != 2 || len(got) != 0 {
		t.Errorf("withdrawn = %v in revision %d, want none in 2", got, p.Catalogue.Revision)
	}
}

// An open run obeys the stricter of the policy that it was planned by and that of now.
func TestStricterOfBoth(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	c.list(acme, "mcp:mail", tools("mcp:mail", "delete", "list", "send")...)
	c.policy(acme, deny("*:delete"))
	r := c.open(acme, contracts.RunRequest{})
	for _, tt := range []struct {
		name   string
		layers []contracts.PolicyLayer
		want   []string
	}{
		{"looser now", nil, []string{"mcp:mail:list", "mcp:mail:send"}},
		{"another denial now", []contracts.PolicyLayer{deny("*:send")}, []string{"mcp:mail:list"}},
		{"an allow list now", []contracts.PolicyLayer{allow("*:send", "*:delete")}, []string{"mcp:mail:send"}},
		{"a layer for another agent", []contracts.PolicyLayer{{Level: "agent", Name: "x", Deny: []string{"*"}}}, []string{"mcp:mail:list", "mcp:mail:send"}},
		{"everything denied", []contracts.PolicyLayer{deny("*")}, []string{}},
	} {
		c.policy(acme, tt.layers...)
		if diff := cmp.Diff(tt.want, c.ids(acme, c.revise(acme, r.ID))); diff != "" {
			t.Errorf("%s: catalogue (-want +got):\n%s", tt.name, diff)
		}
	}
	c.policy(acme, deny("["))
	_, err := bus.Ask[contracts.ReviseAnswer](t.Context(), c.bus, acme, contracts.VerbRevise, contracts.ReviseRequest{Run: r.ID})
	if contracts.CodeOf(err) != contracts.CodePolicyDenied {
		t.Errorf("under a policy that cannot be evaluated: %v, want %s", err, contracts.CodePolicyDenied)
	}
}

// A policy holds from the moment it is set, for runs that are opened and for those that are open.
func TestPolicyHoldsAtOnce(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	c.list(acme, "mcp:mail", tools("mcp:mail", "a", "b", "c", "d", "e", "f", "send")...)
	opened := c.open(acme, contracts.RunRequest{})
	c.policy(acme)
	for i, name := range []string{"a", "b", "c", "d", "e", "f"} {
		_, err := c.s.policies.Transition(t.Context(), contracts.PolicyKey(acme, contracts.PolicyAPI), func(r *contracts.PolicyRecord) ([]contracts.Event, error) {
			r.Layers = append(r.Layers, deny("*:"+name))
			return nil, nil
		})
		c.check(err)
		if p := c.revise(acme, opened.ID); p.Catalogue.Size != 6-i {
			t.Errorf("with %s denied, the open run has %d tools, want %d", name, p.Catalogue.Size, 6-i)
		}
	}
}

func TestReviseRefuses(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	c.list(acme, "mcp:mail", tools("mcp:mail", "send")...)
	closed := c.open(acme, contracts.RunRequest{})
	_, err := c.runs.Transition(t.Context(), contracts.RunKey(acme, closed.ID), func(r *contracts.Run) ([]contracts.Event, error) {
		r.State, r.Ending = contracts.RunStateClosed, contracts.EndingClosed
		return nil, nil
	})
	c.check(err)
	failed := c.settled(acme, c.request(acme, contracts.RunRequest{ToolSearch: json.RawMessage(`7`)}))
	c.mark(acme, "mcp:slow", contracts.SourceStatePending, "")
	waiting := c.request(acme, contracts.RunRequest{WaitForSources: 60_000})
	c.until("the run waits", func() bool { return c.waiting(acme) == 1 })
	for _, tt := range []struct {
		name   string
		tenant contracts.TenantID
		run    contracts.RunID
		want   contracts.Code
	}{
		{"a closed run", acme, closed.ID, contracts.CodeRunClosed},
		{"a failed run", acme, failed.ID, contracts.CodeRunClosed},
		{"a run that is not planned", acme, waiting, contracts.CodeUnavailable},
		{"no run", acme, contracts.NewRunID(), contracts.CodeNotFound},
		{"another tenant's run", "other", closed.ID, contracts.CodeNotFound},
		{"no id", acme, "a.b.>", contracts.CodeInvalid},
	} {
		_, err := bus.Ask[contracts.ReviseAnswer](t.Context(), c.bus, tt.tenant, contracts.VerbRevise, contracts.ReviseRequest{Run: tt.run})
		if contracts.CodeOf(err) != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
	c.mark(acme, "mcp:slow", contracts.SourceStateFailed, "x")
}

// Many who ask at once get one revision, and see what holds when they ask.
func TestReviseOnceForMany(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	c.list(acme, "mcp:mail", tools("mcp:mail", "send")...)
	r := c.open(acme, contracts.RunRequest{})
	c.list(acme, "mcp:late", tools("mcp:late", "thing")...)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			a, err := bus.Ask[contracts.ReviseAnswer](t.Context(), c.bus, acme, contracts.VerbRevise, contracts.ReviseRequest{Run: r.ID})
			if err != nil || a.Plan.Catalogue.Revision != 2 || a.Plan.Catalogue.Size != 2 {
				t.Errorf("answer = %s, %v; want revision 2", asJSON(t, a), err)
			}
		})
	}
	all.Wait()
	if n := len(events[contracts.RunRevised](c, acme, r.ID)); n != 1 {
		t.Errorf("%d revisions, want 1", n)
	}
}

// Two replicas that revise one run at a time agree.
func TestReviseInTwoReplicas(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	c.list(acme, "mcp:mail", tools("mcp:mail", "send")...)
	r := c.open(acme, contracts.RunRequest{})
	first := c.s
	c.configure(Config{})
	c.start()
	replicas := []*Service{first, c.s}
	for i := range 5 {
		rec := c.list(acme, fmt.Sprintf("mcp:s%d", i), tools(fmt.Sprintf("mcp:s%d", i), "thing")...)
		second := c.s
		c.s = first
		c.known(acme, rec)
		c.s = second
		var both sync.WaitGroup
		for _, s := range replicas {
			both.Go(func() {
				if a, err := s.revise(t.Context(), acme, contracts.ReviseRequest{Run: r.ID}); err != nil || a.Plan.Catalogue.Revision != i+2 {
					t.Errorf("revise() = revision %d, %v; want %d", a.Plan.Catalogue.Revision, err, i+2)
				}
			})
		}
		both.Wait()
	}
	if _, err := c.s.revised(t.Context(), contracts.RunKey(acme, r.ID), r.Plan, &world{}, "x", 0); !errors.Is(err, errOvertaken) {
		t.Errorf("revised() from a plan that was overtaken = %v, want %v", err, errOvertaken)
	}
	if n := len(events[contracts.RunRevised](c, acme, r.ID)); n != 5 {
		t.Errorf("%d revisions, want 5", n)
	}
}

// A source that would take an open run over its limit is left out, and the run goes on.
func TestReviseWithinTheLimit(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{Tenants: map[contracts.TenantID]Tenant{acme: {MaxTools: 4}}})
	c.list(acme, "mcp:mail", tools("mcp:mail", "a", "b")...)
	r := c.open(acme, contracts.RunRequest{})
	c.list(acme, "mcp:first", tools("mcp:first", "a", "b", "c")...)
	c.list(acme, "mcp:second", tools("mcp:second", "a")...)
	p := c.revise(acme, r.ID)
	if p.Catalogue.Size != 3 || len(p.Failed) != 1 || p.Failed[0].Source.Owner != "first" || !strings.Contains(p.Failed[0].Reason, "limit of 4") {
		t.Errorf("%d tools and failed %v, want 3 and mcp:first", p.Catalogue.Size, p.Failed)
	}
	c.list(acme, "mcp:second", tools("mcp:second", "a", "b", "c")...)
	c.mark(acme, "mcp:first", contracts.SourceStateFailed, "x")
	p = c.revise(acme, r.ID)
	if got := c.withdrawn(acme, p); p.Catalogue.Size != 2 || got["mcp:second:a"] != "source" {
		t.Errorf("%d tools, withdrawn %v; want 2 and mcp:second:a", p.Catalogue.Size, got)
	}
}

// live.State and the planner together: whoever wants the current run gets the new revision.
func TestCurrent(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	state, err := live.Open(t.Context(), c.bus)
	c.check(err)
	go state.Run(t.Context())
	c.check(state.Loaded(t.Context()))
	c.list(acme, "mcp:mail", tools("mcp:mail", "send")...)
	r := c.open(acme, contracts.RunRequest{})
	c.list(acme, "mcp:late", tools("mcp:late", "thing")...)
	c.until("the other service sees two tools", func() bool {
		now, err := state.Current(t.Context(), acme, r.ID)
		c.check(err)
		return now.Plan.Catalogue.Size == 2
	})
}
