package sandbox

import (
	"cmp"
	"context"
	"math"
	"sync"
	"time"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// An admission says which bodies may run. Each tenant has a line of its own; when there is room, the
// tenant whose bodies used the least CPU time of late is next, so that one tenant's loops hold up only its own line.
// Safe for concurrent use.
type admission struct {
	most, ofTenant, line int

	mu      sync.Mutex
	running int
	shares  map[contracts.TenantID]*share
	now     func() time.Time
}

// A share is what a tenant has of the sandbox.
type share struct {
	running int
	waiting []*ticket     // in the order of their coming
	used    time.Duration // CPU time, as it counts at the time at
	at      time.Time
	length  time.Duration // how long its bodies take: a moving average
}

// usedHalf is after how long used CPU time counts half.
const usedHalf = 10 * time.Second

// A ticket is a body's place, in line or running. Give it back with leave.
type ticket struct {
	a      *admission
	tenant contracts.TenantID
	ready  chan struct{} // closed once the body may run
	began  time.Time
}

func newAdmission(cfg Config) *admission {
	return &admission{most: cfg.Bodies, ofTenant: cfg.TenantBodies, line: cfg.Queue, shares: map[contracts.TenantID]*share{}, now: time.Now}
}

// enter takes a place in the tenant's line, or refuses with [contracts.CodeRateLimited] where that is full.
func (a *admission) enter(t contracts.TenantID) (*ticket, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.shares[t]
	if s == nil {
		s = &share{at: a.now()}
		a.shares[t] = s
	}
	if len(s.waiting) >= a.line {
		return nil, contracts.Errorf(contracts.CodeRateLimited, "%d bodies stand in line already", len(s.waiting)).After(a.wait(s))
	}
	k := &ticket{a: a, tenant: t, ready: make(chan struct{})}
	s.waiting = append(s.waiting, k)
	a.admit()
	return k, nil
}

// wait estimates after how long the line of s has room again.
func (a *admission) wait(s *share) time.Duration {
	rounds := float64(len(s.waiting)) / float64(a.ofTenant)
	d := time.Duration(rounds * float64(cmp.Or(s.length, time.Second)))
	return min(max(d, 100*time.Millisecond), 30*time.Second)
}

// admit lets bodies run while there is room. The caller holds the lock.
func (a *admission) admit() {
	for a.running < a.most {
		var next *share
		for _, s := range a.shares {
			if len(s.waiting) > 0 && s.running < a.ofTenant && (next == nil || a.before(s, next)) {
				next = s
			}
		}
		if next == nil {
			return
		}
		k := next.waiting[0]
		next.waiting = next.waiting[1:]
		next.running++
		a.running++
		k.began = a.now()
		close(k.ready)
	}
}

// before reports whether s is to be served before o.
func (a *admission) before(s, o *share) bool {
	return cmp.Or(cmp.Compare(a.recent(s), a.recent(o)), cmp.Compare(s.running, o.running)) < 0
}

// recent returns the CPU time of s as it counts now, in steps too coarse for noise to decide.
func (a *admission) recent(s *share) time.Duration {
	now := a.now()
	s.used = time.Duration(float64(s.used) * math.Exp2(-float64(now.Sub(s.at))/float64(usedHalf)))
	s.at = now
	return s.used.Truncate(10 * time.Millisecond)
}

// await waits until the body may run. A wait of more than most is refused with [contracts.CodeRateLimited]; the ticket is given back then.
func (k *ticket) await(ctx context.Context, most time.Duration) error {
	select {
	case <-k.ready:
		return nil
	default:
	}
	t := time.NewTimer(most)
	defer t.Stop()
	var err error
	select {
	case <-k.ready:
		return nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-t.C:
		err = contracts.Errorf(contracts.CodeRateLimited, "the body stood in line for %s", most).After(most)
	}
	k.drop()
	return err
}

// drop gives back a ticket whose body was not run.
func (k *ticket) drop() {
	k.a.mu.Lock()
	defer k.a.mu.Unlock()
	s := k.a.shares[k.tenant]
	for i, w := range s.waiting {
		if w == k {
			s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
			k.a.forget(k.tenant, s)
			return
		}
	}
	k.a.done(k.tenant, s) // it was let in meanwhile
}

// leave gives back the ticket of a body that ran and used cpu.
func (k *ticket) leave(cpu time.Duration) {
	k.a.mu.Lock()
	defer k.a.mu.Unlock()
	s := k.a.shares[k.tenant]
	k.a.recent(s)
	s.used += cpu
	took := k.a.now().Sub(k.began)
	s.length += (took - s.length) / 8
	if s.length == 0 {
		s.length = took
	}
	k.a.done(k.tenant, s)
}

func (a *admission) done(t contracts.TenantID, s *share) {
	s.running--
	a.running--
	a.admit()
	a.forget(t, s)
}

// forget drops the share of a tenant that has nothing here and owes next to nothing.
func (a *admission) forget(t contracts.TenantID, s *share) {
	if s.running == 0 && len(s.waiting) == 0 && a.recent(s) == 0 {
		delete(a.shares, t)
	}
}

// counts returns how many bodies run and stand in line.
func (a *admission) counts() (running, waiting int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.shares {
		waiting += len(s.waiting)
	}
	return a.running, waiting
}
