package sandbox

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// admitted reports whether the ticket's body may run.
func admitted(k *ticket) bool {
	select {
	case <-k.ready:
		return true
	default:
		return false
	}
}

func enter(t *testing.T, a *admission, tenant contracts.TenantID) *ticket {
	t.Helper()
	k, err := a.enter(tenant)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestAdmissionHoldsLimits(t *testing.T) {
	a := newAdmission(Config{Bodies: 3, TenantBodies: 2, Queue: 1})
	one, two, three := enter(t, a, "a"), enter(t, a, "a"), enter(t, a, "a")
	if !admitted(one) || !admitted(two) || admitted(three) {
		t.Fatal("want two of the tenant's three bodies let in")
	}
	_, err := a.enter("a")
	if e, ok := errors.AsType[*contracts.Error](err); !ok || e.Code != contracts.CodeRateLimited || e.RetryAfter <= 0 {
		t.Fatalf("a full line: %v, want %s with a time to wait", err, contracts.CodeRateLimited)
	}
	b := enter(t, a, "b")
	if !admitted(b) {
		t.Fatal("another tenant was held up")
	}
	c := enter(t, a, "c")
	if admitted(c) {
		t.Fatal("more bodies than there may be")
	}
	one.leave(0)
	if admitted(three) == admitted(c) {
		t.Fatal("room for one was given to both or none")
	}
	two.leave(0)
	if !admitted(three) || !admitted(c) {
		t.Fatal("who stood in line was forgotten")
	}
	for _, k := range []*ticket{three, b, c} {
		k.leave(0)
	}
	if len(a.shares) != 0 || a.running != 0 {
		t.Errorf("left: %d shares, %d running", len(a.shares), a.running)
	}
}

func TestAdmissionPrefersWhoUsedLess(t *testing.T) {
	a := newAdmission(Config{Bodies: 1, TenantBodies: 1, Queue: 10})
	now := time.Unix(0, 0)
	a.now = func() time.Time { return now }
	greedy := enter(t, a, "greedy")
	next := enter(t, a, "greedy")
	modest := enter(t, a, "modest")
	greedy.leave(5 * time.Second)
	if admitted(next) || !admitted(modest) {
		t.Fatal("the tenant that used the CPU was let in before the other")
	}
	modest.leave(time.Millisecond)
	if !admitted(next) {
		t.Fatal("nobody else waits, and it was not let in")
	}
	now = now.Add(20 * usedHalf)
	next.leave(0)
	if len(a.shares) != 0 {
		t.Errorf("what was used long ago still counts: %v", a.shares)
	}
}

func TestTicketsAreGivenBack(t *testing.T) {
	a := newAdmission(Config{Bodies: 1, TenantBodies: 1, Queue: 10})
	first := enter(t, a, "a")
	second, third := enter(t, a, "a"), enter(t, a, "a")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errCancelled)
	if err := second.await(ctx, time.Minute); !errors.Is(err, errCancelled) {
		t.Fatalf("await = %v, want the cause", err)
	}
	if err := third.await(t.Context(), time.Nanosecond); contracts.CodeOf(err) != contracts.CodeRateLimited {
		t.Fatalf("await = %v, want %s", err, contracts.CodeRateLimited)
	}
	first.leave(0)
	if running, waiting := a.counts(); running != 0 || waiting != 0 {
		t.Errorf("%d running and %d waiting, want none", running, waiting)
	}
}
