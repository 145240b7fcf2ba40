package planner

import (
	"context"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func TestAlwaysLoadIsAwaited(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	c.list(acme, "mcp:mail", tools("mcp:mail", "send")...)
	c.mark(acme, "mcp:other", contracts.SourceStatePending, "")
	needed := contracts.SourceID{Kind: contracts.SourceMCP, Owner: "needed"}
	c.put(acme, contracts.SourceRecord{Source: needed, State: contracts.SourceStatePending, AlwaysLoad: true})
	id := c.request(acme, contracts.RunRequest{})
	c.until("the run waits", func() bool { return c.waiting(acme) == 1 })
	// News of another tenant do not end it.
	c.list("other", "mcp:mail", tools("mcp:mail", "send")...)
	thing := tool("mcp:needed", "thing", "Does it.")
	thing.Loading = contracts.LoadingDirect
	l := listing("mcp:needed", thing)
	h, err := c.library.PutListing(t.Context(), acme, l)
	c.check(err)
	c.put(acme, contracts.SourceRecord{Source: needed, State: contracts.SourceStateReady, Listing: h, Tools: 1, Discovered: time.Now(), AlwaysLoad: true})
	r := c.settled(acme, id)
	if took := r.Planned.Sub(r.Created); took >= loadWait {
		t.Errorf("planning took %v, want it to go on at once when the source is there", took)
	}
	if s := c.surface(acme, r); s.Tools[len(s.Tools)-1].Name != "needed__thing" {
		t.Errorf("tools = %s, want needed__thing among them", asJSON(t, s.Tools))
	}
	if len(r.Plan.Pending) != 1 || r.Plan.Pending[0].Source.Owner != "other" {
		t.Errorf("pending = %v, want only mcp:other, which nobody waits for", r.Plan.Pending)
	}
	c.until("nobody waits", func() bool { return c.waiting(acme) == 0 })
}

func (c *crib) waiting(t contracts.TenantID) int {
	c.s.waits.mu.Lock()
	defer c.s.waits.mu.Unlock()
	return c.s.waits.n[string(t)]
}

func TestAlwaysLoadIsNotAwaitedForEver(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	c.put(acme, contracts.SourceRecord{Source: contracts.SourceID{Kind: contracts.SourceMCP, Owner: "dead"}, State: contracts.SourceStatePending, AlwaysLoad: true})
	c.list("other", "mcp:mail", tools("mcp:mail", "send")...)
	id := c.request(acme, contracts.RunRequest{})
	c.until("the run waits", func() bool { return c.waiting(acme) == 1 })
	if r := c.open("other", contracts.RunRequest{}); r.Planned.Sub(r.Created) >= loadWait {
		t.Error("the run of another tenant was held up")
	}
	r := c.settled(acme, id)
	if took := r.Planned.Sub(r.Created); took < loadWait || took > loadWait+3*time.Second {
		t.Errorf("planning took %v, want %v", took, loadWait)
	}
	if len(r.Plan.Pending) != 1 || r.Plan.Pending[0].Source.Owner != "dead" {
		t.Errorf("pending = %v, want mcp:dead", r.Plan.Pending)
	}
}

func TestWaitForSources(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	c.mark(acme, "mcp:slow", contracts.SourceStatePending, "")
	c.mark(acme, "mcp:broken", contracts.SourceStatePending, "")
	id := c.request(acme, contracts.RunRequest{WaitForSources: 60_000})
	c.until("the run waits", func() bool { return c.waiting(acme) == 1 })
	c.list(acme, "mcp:slow", tools("mcp:slow", "thing")...)
	if r := c.run(acme, id); r.State != contracts.RunStateRequested {
		t.Errorf("the run is %s while a source is pending, want requested", r.State)
	}
	c.mark(acme, "mcp:broken", contracts.SourceStateFailed, "no such program")
	r := c.settled(acme, id)
	if got := c.ids(acme, r.Plan); len(got) != 1 || len(r.Plan.Pending) != 0 || len(r.Plan.Failed) != 1 {
		t.Errorf("the run has %v, pending %v and failed %v; want the tool and the failed source", got, r.Plan.Pending, r.Plan.Failed)
	}
	c.mark(acme, "mcp:never", contracts.SourceStatePending, "")
	r = c.open(acme, contracts.RunRequest{WaitForSources: 50})
	if took := r.Planned.Sub(r.Created); took < 50*time.Millisecond || len(r.Plan.Pending) != 1 {
		t.Errorf("planning took %v with pending %v, want 50ms and mcp:never", took, r.Plan.Pending)
	}
}

// A planner that stops while a run waits does not wait with it, and another takes the run over.
func TestStopWhileARunWaits(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	c.mark(acme, "mcp:slow", contracts.SourceStatePending, "")
	id := c.request(acme, contracts.RunRequest{WaitForSources: 60_000})
	c.until("the run waits", func() bool { return c.waiting(acme) == 1 })
	begin := time.Now()
	if err := c.stop(); err != nil || time.Since(begin) > 10*time.Second {
		t.Errorf("stopping took %v and gave %v", time.Since(begin), err)
	}
	c.configure(Config{})
	c.start()
	c.until("the run waits again", func() bool { return c.waiting(acme) == 1 })
	c.list(acme, "mcp:slow", tools("mcp:slow", "thing")...)
	if r := c.settled(acme, id); r.State != contracts.RunStatePlanned || r.Plan.Catalogue.Size != 1 {
		t.Errorf("the run is %s: %s", r.State, asJSON(t, r.Plan))
	}
}

// A run that is closed while it waits stays closed.
func TestCloseWhileARunWaits(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	c.mark(acme, "mcp:slow", contracts.SourceStatePending, "")
	id := c.request(acme, contracts.RunRequest{WaitForSources: 60_000})
	c.until("the run waits", func() bool { return c.waiting(acme) == 1 })
	_, err := c.runs.Transition(t.Context(), contracts.RunKey(acme, id), func(r *contracts.Run) ([]contracts.Event, error) {
		r.State, r.Ending = contracts.RunStateClosed, contracts.EndingClosed
		return nil, nil
	})
	c.check(err)
	c.list(acme, "mcp:slow", tools("mcp:slow", "thing")...)
	c.again(acme, contracts.RunRequested{Run: id})
	if r := c.run(acme, id); r.State != contracts.RunStateClosed || r.Plan != nil {
		t.Errorf("the run is %s with plan %s, want closed without one", r.State, asJSON(t, r.Plan))
	}
}

// Runs of one tenant that wait do not take every place.
func TestWaitingIsBounded(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	c.mark(acme, "mcp:slow", contracts.SourceStatePending, "")
	c.list("other", "mcp:mail", tools("mcp:mail", "send")...)
	var ids []contracts.RunID
	for range mostWaiting + 10 {
		ids = append(ids, c.request(acme, contracts.RunRequest{WaitForSources: 60_000}))
	}
	c.until("as many wait as can", func() bool { return c.waiting(acme) == mostWaiting })
	c.open("other", contracts.RunRequest{})
	c.list(acme, "mcp:slow", tools("mcp:slow", "thing")...)
	for _, id := range ids {
		if r := c.settled(acme, id); r.State != contracts.RunStatePlanned || r.Plan.Catalogue.Size != 1 {
			t.Fatalf("run %s is %s", id, r.State)
		}
	}
}

// Of a listing that is no longer fresh the executor is told, and the run does not wait for it.
func TestStaleListing(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	asked := make(chan contracts.DiscoverRequest, 10)
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan struct{})
	served := make(chan error, 1)
	go func() {
		served <- c.bus.Serve(ctx, "executor", bus.Answers(contracts.VerbDiscover, func(_ context.Context, _ contracts.TenantID, q contracts.DiscoverRequest) (contracts.DiscoverAnswer, error) {
			asked <- q
			<-answer
			return contracts.DiscoverAnswer{}, contracts.Errorf(contracts.CodeUnavailable, "not now")
		}))
	}()
	defer func() { close(answer); cancel(); <-served }()
	old := c.list(acme, "mcp:old", tools("mcp:old", "thing")...)
	old.Discovered = time.Now().Add(-contracts.ListingFresh - time.Minute)
	_, err := c.sources.Transition(t.Context(), contracts.SourceKey(acme, old.Source), func(r *contracts.SourceRecord) ([]contracts.Event, error) {
		r.Discovered = old.Discovered
		return nil, nil
	})
	c.check(err)
	c.until("the planner knows its age", func() bool {
		records, _ := c.s.state.Sources(acme)
		return records[0].Discovered.Equal(old.Discovered)
	})
	c.list(acme, "mcp:fresh", tools("mcp:fresh", "thing")...)
	for range 3 { // one question is on its way at a time
		if r := c.open(acme, contracts.RunRequest{}); r.Plan.Catalogue.Size != 2 || len(r.Plan.Pending) != 0 {
			t.Errorf("%d tools with pending %v, want both sources used", r.Plan.Catalogue.Size, r.Plan.Pending)
		}
	}
	q := <-asked
	if len(q.Sources) != 1 || q.Sources[0] != old.Source || q.Wait != 0 {
		t.Errorf("asked for %+v, want %v without waiting", q, old.Source)
	}
	if len(asked) != 0 {
		t.Errorf("asked %d times more while the first question was open", len(asked))
	}
}
