package live_test

import (
	"context"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/live"
	"github.com/toolcrib/toolcrib/internal/core/policy"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/internal/kit/store"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const tenant contracts.TenantID = "acme"

type world struct {
	*testing.T
	bus   *bus.Bus
	state *live.State
	runs  *store.Table[contracts.Run, *contracts.Run]
	pols  *store.Table[contracts.PolicyRecord, *contracts.PolicyRecord]
}

func start(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, bus: natstest.Open(t)}
	var err error
	if w.runs, err = store.OpenTable[contracts.Run](t.Context(), w.bus, contracts.BucketRuns); err != nil {
		t.Fatal(err)
	}
	if w.pols, err = store.OpenTable[contracts.PolicyRecord](t.Context(), w.bus, contracts.BucketPolicies); err != nil {
		t.Fatal(err)
	}
	if w.state, err = live.Open(t.Context(), w.bus); err != nil {
		t.Fatal(err)
	}
	natstest.Run(w, w.state.Run)
	if err := w.state.Loaded(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) open(state contracts.RunState, basis string) contracts.RunID {
	w.Helper()
	id := contracts.NewRunID()
	rec := &contracts.Run{ID: id, State: state, Plan: &contracts.Plan{Basis: basis}, Error: contracts.Errorf(contracts.CodeInvalid, "wrong")}
	if err := w.runs.Create(w.Context(), contracts.RunKey(tenant, id), rec); err != nil {
		w.Fatal(err)
	}
	return id
}

// deny sets a policy and waits until the state knows it.
func (w *world) deny(glob string) {
	w.Helper()
	before := w.state.Basis(tenant)
	rec := &contracts.PolicyRecord{Layers: []contracts.PolicyLayer{{Level: "tenant", Deny: []string{glob}}}}
	if err := w.pols.Create(w.Context(), contracts.PolicyKey(tenant, contracts.PolicyAPI), rec); err != nil {
		w.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); w.state.Basis(tenant) == before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatal("the policy is not seen")
		}
	}
}

func TestCurrent(t *testing.T) {
	w := start(t)
	fresh := w.open(contracts.RunStatePlanned, w.state.Basis(tenant))
	if r, err := w.state.Current(t.Context(), tenant, fresh); err != nil || r.ID != fresh {
		t.Errorf("Current = %+v, %v", r, err)
	}
	for state, want := range map[contracts.RunState]contracts.Code{
		contracts.RunStateRequested: contracts.CodeUnavailable,
		contracts.RunStateFailed:    contracts.CodeRunClosed,
		contracts.RunStateClosed:    contracts.CodeRunClosed,
	} {
		if _, err := w.state.Current(t.Context(), tenant, w.open(state, "")); contracts.CodeOf(err) != want {
			t.Errorf("Current of a run that is %s = %v, want %s", state, err, want)
		}
	}
	if _, err := w.state.Current(t.Context(), "other", fresh); contracts.CodeOf(err) != contracts.CodeNotFound {
		t.Errorf("Current of another tenant's run = %v, want not_found", err)
	}
}

// A run that is behind is revised before it is used; one that cannot be is not used.
func TestCurrentRevises(t *testing.T) {
	w := start(t)
	run := w.open(contracts.RunStatePlanned, w.state.Basis(tenant))
	w.deny("mcp:*")
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := w.state.Current(short, tenant, run); err == nil {
		t.Error("Current without a planner gives the old catalogue")
	}
	natstest.Run(w, func(ctx context.Context) error { // stands in for the planner
		return w.bus.Serve(ctx, "planner", bus.Answers(contracts.VerbRevise, func(context.Context, contracts.TenantID, contracts.ReviseRequest) (contracts.ReviseAnswer, error) {
			return contracts.ReviseAnswer{Plan: contracts.Plan{Catalogue: contracts.CatalogueRef{Revision: 2}}}, nil
		}))
	})
	r, err := w.state.Current(t.Context(), tenant, run)
	if err != nil || r.Plan.Catalogue.Revision != 2 {
		t.Errorf("Current = %+v, %v; want revision 2", r, err)
	}
}

func TestPolicy(t *testing.T) {
	tool := policy.Tool{ID: "mcp:a:b"}
	w := start(t)
	p, err := w.state.Policy(tenant)
	if err != nil || p.For(contracts.Labels{}).See(tool).Denied() {
		t.Errorf("without policies: %v, want all allowed", err)
	}
	w.deny("mcp:a:*")
	if p, err = w.state.Policy(tenant); err != nil || !p.For(contracts.Labels{}).See(tool).Denied() {
		t.Errorf("after the denial: %v, want it denied", err)
	}
	if p, err = w.state.Policy("other"); err != nil || p.For(contracts.Labels{}).See(tool).Denied() {
		t.Errorf("another tenant: %v, want all allowed", err)
	}
}

func TestPolicyFailsClosed(t *testing.T) {
	w := start(t)
	w.deny("mcp:[a")
	if p, err := w.state.Policy(tenant); err == nil {
		t.Errorf("a policy that cannot be compiled gives %+v, want an error", p)
	}
}

// After Sync the state has every change of a source that was made before, and sources that are not configured any more are not among them.
func TestSyncHasTheSources(t *testing.T) {
	w := start(t)
	table, err := store.OpenTable[contracts.SourceRecord](t.Context(), w.bus, contracts.BucketSources)
	if err != nil {
		t.Fatal(err)
	}
	id := contracts.SourceID{Kind: contracts.SourceMCP, Owner: "a"}
	key := contracts.SourceKey(tenant, id)
	if err := table.Create(t.Context(), key, &contracts.SourceRecord{Source: id}); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		want := i + 1
		if _, err := table.Transition(t.Context(), key, func(rec *contracts.SourceRecord) ([]contracts.Event, error) {
			rec.Tools = want
			return nil, nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := w.state.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, _ := w.state.Sources(tenant); len(got) != 1 || got[0].Tools != want {
			t.Fatalf("after change %d: %+v", want, got)
		}
	}
	none := w.state.Basis("other")
	if _, err := table.Transition(t.Context(), key, func(rec *contracts.SourceRecord) ([]contracts.Event, error) {
		rec.Removed = true
		return nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := w.state.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, _ := w.state.Sources(tenant); len(got) != 0 || w.state.Basis(tenant) != none {
		t.Errorf("removed: %+v", got)
	}
}
