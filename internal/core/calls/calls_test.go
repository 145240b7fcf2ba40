package calls_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/calls"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/internal/kit/store"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const tenant contracts.TenantID = "acme"

func open(t *testing.T) (*bus.Bus, *calls.Caller) {
	t.Helper()
	b := natstest.Open(t)
	c, err := calls.Open(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	return b, c
}

func anyState(*contracts.Call) error { return nil }

func start(t *testing.T, c *calls.Caller, run contracts.RunID, q calls.Request) *calls.Pending {
	t.Helper()
	q.Deadline = time.Now().Add(time.Minute)
	p, err := c.Start(t.Context(), tenant, run, q)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func count(t *testing.T, b *bus.Bus, stream string) uint64 {
	t.Helper()
	s, err := b.JS.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}

func TestStartAndAwait(t *testing.T) {
	b, c := open(t)
	run := contracts.NewRunID()
	large := strings.Repeat("x", 3*calls.Inline)
	args := json.RawMessage(`{"text":"` + large + `"}`)
	p := start(t, c, run, calls.Request{Tool: "echo", Args: args})
	if n := count(t, b, contracts.StreamDispatch); n != 1 {
		t.Errorf("%d wake-ups, want 1", n)
	}
	key := contracts.CallKey(tenant, run, p.ID)
	rec, err := c.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.Args(t.Context(), tenant, rec); err != nil || string(got) != string(args) {
		t.Errorf("Args = %d bytes, %v; want %d", len(got), err, len(args))
	}
	got := make(chan *contracts.Call, 1)
	go func() {
		rec, err := p.Await(context.Background())
		if err != nil {
			t.Error(err)
		}
		got <- rec
	}()
	if _, err := c.End(t.Context(), key, contracts.Outcome{Status: contracts.StatusOK, Result: contracts.TextResult(large, nil)}, anyState); err != nil {
		t.Fatal(err)
	}
	rec = <-got
	if rec.Outcome == nil || rec.Outcome.Status != contracts.StatusOK || rec.Outcome.CallID != p.ID || rec.Outcome.Result == nil {
		t.Fatalf("outcome = %+v, want ok with its result", rec.Outcome)
	}
	if !strings.Contains(string(rec.Outcome.Result.Content[0]), large) {
		t.Error("the large result is not whole")
	}
}

func TestEqualIDsAreOneCall(t *testing.T) {
	b, c := open(t)
	run := contracts.NewRunID()
	id := contracts.KeyedCallID(run, "local", "order-7")
	q := calls.Request{ID: id, Tool: "buy", Args: json.RawMessage(`{"n":1}`)}
	start(t, c, run, q)
	if p := start(t, c, run, q); p.ID != id {
		t.Errorf("id = %s, want %s", p.ID, id)
	}
	if n := count(t, b, contracts.StreamEvents); n != 1 {
		t.Errorf("%d events, want 1 call.requested", n)
	}
	q.Args = json.RawMessage(` { "n" : 1 } `)
	if p := start(t, c, run, q); p.ID != id {
		t.Errorf("the same arguments written otherwise are another call")
	}
	q.Args = json.RawMessage(`{"n":2}`)
	if _, err := c.Start(t.Context(), tenant, run, q); contracts.CodeOf(err) != contracts.CodeConflict {
		t.Errorf("the same key for another call = %v, want conflict", err)
	}
}

func TestEndsOnce(t *testing.T) {
	_, c := open(t)
	run := contracts.NewRunID()
	p := start(t, c, run, calls.Request{Tool: "t"})
	if err := c.Cancel(t.Context(), tenant, run, p.ID); err != nil {
		t.Fatal(err)
	}
	if err := c.Cancel(t.Context(), tenant, run, p.ID); err != nil {
		t.Errorf("second Cancel = %v, want nil", err)
	}
	rec, err := p.Await(t.Context())
	if err != nil || rec.Outcome.Status != contracts.StatusCancelled || rec.Outcome.SideEffects != contracts.SideEffectsNone {
		t.Fatalf("outcome = %+v, %v; want cancelled without side effects", rec.Outcome, err)
	}
	if _, err := c.Answer(t.Context(), tenant, run, p.ID, contracts.Outcome{Status: contracts.StatusOK, Result: contracts.TextResult("late", nil)}); contracts.CodeOf(err) != contracts.CodeConflict {
		t.Errorf("Answer after the end = %v, want conflict", err)
	}
	if err := c.Cancel(t.Context(), tenant, run, contracts.NewCallID()); contracts.CodeOf(err) != contracts.CodeNotFound {
		t.Errorf("Cancel of nothing = %v, want not_found", err)
	}
	if err := c.Cancel(t.Context(), "other", run, p.ID); contracts.CodeOf(err) != contracts.CodeNotFound {
		t.Errorf("Cancel by another tenant = %v, want not_found", err)
	}
}

func TestRunningCallIsTold(t *testing.T) {
	b, c := open(t)
	run := contracts.NewRunID()
	p := start(t, c, run, calls.Request{Tool: "t"})
	tab, err := store.OpenTable[contracts.Call](t.Context(), b, contracts.BucketCalls)
	if err != nil {
		t.Fatal(err)
	}
	key := contracts.CallKey(tenant, run, p.ID)
	if _, err := tab.Transition(t.Context(), key, func(r *contracts.Call) ([]contracts.Event, error) {
		r.State = contracts.CallStateRunning
		return nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	told, err := b.Conn.SubscribeSync(contracts.AllCancels)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Cancel(t.Context(), tenant, run, p.ID); err != nil {
		t.Fatal(err)
	}
	if m, err := told.NextMsg(10 * time.Second); err != nil || m.Subject != contracts.CancelSubject(tenant, p.ID) {
		t.Errorf("told %v, %v", m, err)
	}
	rec, err := c.Get(t.Context(), key)
	if err != nil || !rec.Cancelled || rec.State != contracts.CallStateRunning {
		t.Errorf("record = %+v, %v; want running and marked as cancelled", rec, err)
	}
}

func TestClientToolIsAnswered(t *testing.T) {
	b, c := open(t)
	run := contracts.NewRunID()
	p := start(t, c, run, calls.Request{Tool: "open_file"})
	if _, err := c.Answer(t.Context(), tenant, run, p.ID, contracts.Outcome{Status: contracts.StatusOK, Result: contracts.TextResult("early", nil)}); contracts.CodeOf(err) != contracts.CodeConflict {
		t.Errorf("Answer before it waits = %v, want conflict", err)
	}
	tab, err := store.OpenTable[contracts.Call](t.Context(), b, contracts.BucketCalls)
	if err != nil {
		t.Fatal(err)
	}
	ref := contracts.ToolRef{ID: "client:client:open_file", Name: "open_file", Source: contracts.SourceClient}
	if _, err := tab.Transition(t.Context(), contracts.CallKey(tenant, run, p.ID), func(r *contracts.Call) ([]contracts.Event, error) {
		r.State, r.Waits, r.Resolved = contracts.CallStateWaiting, contracts.WaitsForClient, &ref
		return []contracts.Event{contracts.CallWaiting{Run: run, Call: p.ID, Tool: ref, For: r.Waits}}, nil
	}); err != nil {
		t.Fatal(err)
	}
	if rec, err := p.Await(t.Context()); err != nil || rec.State != contracts.CallStateWaiting {
		t.Fatalf("Await = %+v, %v; want it to come back while the client is to act", rec, err)
	}
	q := start(t, c, run, calls.Request{Tool: "open_file"})
	if _, err := tab.Transition(t.Context(), contracts.CallKey(tenant, run, q.ID), func(r *contracts.Call) ([]contracts.Event, error) {
		r.State, r.Waits = contracts.CallStateWaiting, contracts.WaitsForClient
		return nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := c.Cancel(t.Context(), tenant, run, q.ID); err != nil {
		t.Fatal(err)
	}
	if rec, err := q.Await(t.Context()); err != nil || rec.Outcome.SideEffects != contracts.SideEffectsUnknown {
		t.Errorf("cancelled while the client has it = %+v, %v; want unknown side effects", rec.Outcome, err)
	}
	rec, err := c.Answer(t.Context(), tenant, run, p.ID, contracts.Outcome{Status: contracts.StatusOK, Result: contracts.TextResult("opened", nil)})
	if err != nil || rec.Outcome.Status != contracts.StatusOK || *rec.Outcome.Tool != ref {
		t.Errorf("Answer = %+v, %v; want ok of %s", rec, err, ref.ID)
	}
}

func TestFullBacklogIsRefused(t *testing.T) {
	b, c := open(t)
	s, err := b.JS.Stream(t.Context(), contracts.StreamDispatch)
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	cfg.MaxMsgsPerSubject = 1
	if _, err := b.JS.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	run := contracts.NewRunID()
	start(t, c, run, calls.Request{Tool: "t"})
	_, err = c.Start(t.Context(), tenant, run, calls.Request{ID: contracts.KeyedCallID(run, "local", "k"), Tool: "t", Deadline: time.Now().Add(time.Minute)})
	if contracts.CodeOf(err) != contracts.CodeRateLimited {
		t.Fatalf("Start = %v, want rate_limited", err)
	}
	rec, err := c.Get(t.Context(), contracts.CallKey(tenant, run, contracts.KeyedCallID(run, "local", "k")))
	if err != nil || rec.Outcome == nil || rec.Outcome.Status != contracts.StatusRateLimited {
		t.Errorf("record = %+v, %v; want it ended as rate_limited", rec, err)
	}
}

func TestAwaitEndTellsOfWaits(t *testing.T) {
	b, c := open(t)
	run := contracts.NewRunID()
	p := start(t, c, run, calls.Request{Tool: "open_file", Body: contracts.BodyOf(contracts.NewCallID())})
	table, err := store.OpenTable[contracts.Call](t.Context(), b, contracts.BucketCalls)
	if err != nil {
		t.Fatal(err)
	}
	key := contracts.CallKey(tenant, run, p.ID)
	waits := make(chan contracts.WaitsFor, 4)
	ended := make(chan *contracts.Call, 1)
	go func() {
		rec, err := p.AwaitEnd(t.Context(), func(w contracts.WaitsFor) { waits <- w })
		if err != nil {
			t.Error(err)
		}
		ended <- rec
	}()
	ref := contracts.ToolRef{ID: "client:client:open_file"}
	if _, err := table.Transition(t.Context(), key, func(r *contracts.Call) ([]contracts.Event, error) {
		r.State, r.Waits = contracts.CallStateWaiting, contracts.WaitsForClient
		return []contracts.Event{contracts.CallWaiting{At: time.Now(), Run: run, Call: p.ID, Tool: ref, For: r.Waits}}, nil
	}); err != nil {
		t.Fatal(err)
	}
	if w := <-waits; w != contracts.WaitsForClient {
		t.Fatalf("told that the call waits for %q", w)
	}
	if _, err := c.Answer(t.Context(), tenant, run, p.ID, contracts.Outcome{Status: contracts.StatusOK, Result: contracts.TextResult("opened", nil)}); err != nil {
		t.Fatal(err)
	}
	if rec := <-ended; rec.State != contracts.CallStateFinished || rec.Body == "" {
		t.Errorf("AwaitEnd returned a call that is %s, of body %q", rec.State, rec.Body)
	}
	if w := <-waits; w != "" {
		t.Errorf("told that the ended call waits for %q", w)
	}
}
