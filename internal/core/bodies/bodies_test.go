package bodies_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/bodies"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const tenant contracts.TenantID = "acme"

// sandbox answers for sandboxes as answer says, until t ends.
func sandbox(t *testing.T, b *bus.Bus, answer func(context.Context, contracts.TenantID, contracts.BodyRequest) (contracts.BodyAnswer, error)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Serve(ctx, "sandbox", bus.Answers(contracts.VerbBody, answer)) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func open(t *testing.T, b *bus.Bus) *bodies.Desk {
	t.Helper()
	d, err := bodies.Open(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func request(code string) (contracts.RunID, bodies.Request) {
	return contracts.NewRunID(), bodies.Request{ID: contracts.BodyOf(contracts.NewCallID()), Code: code}
}

func anyone(*contracts.Body) error { return nil }

func TestBodyEndsOnce(t *testing.T) {
	b := natstest.Open(t)
	d := open(t, b)
	taken := make(chan contracts.BodyRequest, 1)
	sandbox(t, b, func(_ context.Context, _ contracts.TenantID, q contracts.BodyRequest) (contracts.BodyAnswer, error) {
		taken <- q
		return contracts.BodyAnswer{Owner: "me"}, nil
	})
	run, q := request("return 1")
	p, err := d.Start(t.Context(), tenant, run, q)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if got := <-taken; got.Body != q.ID || got.Run != run {
		t.Fatalf("the sandbox was asked for %v", got)
	}
	again, err := d.Start(t.Context(), tenant, run, q)
	if err != nil {
		t.Fatalf("the same body once more: %v", err)
	}
	defer again.Close()
	if len(taken) > 0 {
		t.Error("the same body was given out twice")
	}
	other := q
	other.Code = "return 2"
	if _, err := d.Start(t.Context(), tenant, run, other); contracts.CodeOf(err) != contracts.CodeConflict {
		t.Errorf("another body of that id: %v, want %s", err, contracts.CodeConflict)
	}
	key := contracts.BodyKey(tenant, run, q.ID)
	big, _ := json.Marshal(strings.Repeat("x", 200_000))
	end := contracts.BodyEnd{Result: &contracts.BodyResult{OK: true, Value: big}}
	if _, err := d.End(t.Context(), key, end, time.Millisecond, anyone); err != nil {
		t.Fatal(err)
	}
	if _, err := d.End(t.Context(), key, contracts.BodyEnd{}, 0, anyone); contracts.CodeOf(err) != contracts.CodeConflict {
		t.Errorf("a second end: %v, want %s", err, contracts.CodeConflict)
	}
	for _, p := range []*bodies.Pending{p, again} {
		rec, err := p.Await(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if rec.State != contracts.BodyStateFinished || rec.EndedBlob == "" || rec.Ended == nil || string(rec.Ended.Result.Value) != string(big) {
			t.Errorf("the record does not hold its end: %v", rec.State)
		}
	}
}

func TestBodyThatNoSandboxTakes(t *testing.T) {
	b := natstest.Open(t)
	d := open(t, b)
	sandbox(t, b, func(context.Context, contracts.TenantID, contracts.BodyRequest) (contracts.BodyAnswer, error) {
		return contracts.BodyAnswer{}, contracts.Errorf(contracts.CodeRateLimited, "full").After(time.Second)
	})
	run, q := request("return 1")
	p, err := d.Start(t.Context(), tenant, run, q)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	rec, err := p.Await(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if e := rec.Ended.Error; e == nil || e.Code != contracts.CodeRateLimited || e.RetryAfter != 1000 {
		t.Errorf("ended with %v, want what the sandbox said", e)
	}
}

func TestBodyWaitsAndIsCancelled(t *testing.T) {
	b := natstest.Open(t)
	d := open(t, b)
	sandbox(t, b, func(context.Context, contracts.TenantID, contracts.BodyRequest) (contracts.BodyAnswer, error) {
		return contracts.BodyAnswer{}, nil
	})
	news, err := b.Conn.SubscribeSync(contracts.AllBodyCancels)
	if err != nil {
		t.Fatal(err)
	}
	run, q := request("return 1")
	p, err := d.Start(t.Context(), tenant, run, q)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	call := contracts.BodyCallID(run, q.ID, 1)
	if _, err := d.Change(t.Context(), contracts.BodyKey(tenant, run, q.ID), func(rec *contracts.Body) ([]contracts.Event, error) {
		rec.Waits = []contracts.CallID{call}
		return []contracts.Event{contracts.BodyWaiting{At: time.Now(), Run: run, Body: q.ID, Calls: rec.Waits}}, nil
	}); err != nil {
		t.Fatal(err)
	}
	rec, err := p.Await(t.Context())
	if err != nil || len(rec.Waits) != 1 || rec.Waits[0] != call {
		t.Fatalf("Await = %v, %v; want the waiting body", rec, err)
	}
	if err := d.Cancel(t.Context(), tenant, run, q.ID); err != nil {
		t.Fatal(err)
	}
	if m, err := news.NextMsg(5 * time.Second); err != nil || m.Subject != contracts.BodyCancelSubject(tenant, q.ID) {
		t.Errorf("news of the cancellation: %v, %v", m, err)
	}
	if rec, err = d.Get(t.Context(), contracts.BodyKey(tenant, run, q.ID)); err != nil || !rec.Cancelled {
		t.Errorf("the record does not say that it is cancelled: %v", err)
	}
	if err := d.Cancel(t.Context(), tenant, run, contracts.BodyOf(contracts.NewCallID())); contracts.CodeOf(err) != contracts.CodeNotFound {
		t.Errorf("cancel of an unknown body: %v", err)
	}
}
