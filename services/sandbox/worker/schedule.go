package worker

import (
	"container/list"
	"time"
)

// How the pool shares workers out.
const (
	spread = 2               // bodies in each of a tenant's workers before it gets another one
	turn   = time.Second     // how long a busy worker stays with its tenant while others have none
	look   = time.Second / 8 // between two looks at what only time changes
)

// A member is a worker of the pool. All of it is guarded by the pool's lock.
type member struct {
	child   *child
	tenant  string    // "" while it is spare; it never changes once it is set
	bodies  int       // that run
	served  int       // that were ever given to it
	bound   time.Time // when it got its tenant
	idle    time.Time // since when it runs nothing
	leaving bool      // takes no new bodies, and ends when it runs nothing
	ending  bool      // was told to end
}

// A line is the queue of one tenant's bodies that wait for a worker.
type line struct {
	tenant  string
	waiters list.List // of *waiter
}

// A waiter is a body that waits. It gets a member, or an error.
type waiter struct {
	got chan grant // holds one
	at  *list.Element
}

type grant struct {
	m   *member
	err error
}

// A roster is the state of the sharing out: who has which worker, and who waits. It starts and ends no worker itself.
type roster struct {
	cfg Config // with its defaults

	members  map[*member]struct{}
	starting int                      // workers that are being started
	ring     list.List                // of *line, the next to be served first
	lines    map[string]*list.Element // in ring, by tenant
	waiting  int                      // bodies in all lines
}

func newRoster(cfg Config) *roster {
	return &roster{cfg: cfg, members: make(map[*member]struct{}), lines: make(map[string]*list.Element)}
}

// wait puts a new waiter at the end of its tenant's line.
func (r *roster) wait(tenant string) *waiter {
	e := r.lines[tenant]
	if e == nil {
		e = r.ring.PushBack(&line{tenant: tenant})
		r.lines[tenant] = e
	}
	w := &waiter{got: make(chan grant, 1)}
	w.at = e.Value.(*line).waiters.PushBack(w)
	r.waiting++
	return w
}

// leave takes w out of its line, and reports whether it still stood there.
func (r *roster) leave(tenant string, w *waiter) bool {
	e := r.lines[tenant]
	if w.at == nil || e == nil {
		return false
	}
	r.remove(e, w)
	return true
}

// remove takes w out of the line at e, and an empty line out of the ring.
func (r *roster) remove(e *list.Element, w *waiter) {
	l := e.Value.(*line)
	l.waiters.Remove(w.at)
	w.at = nil
	r.waiting--
	if l.waiters.Len() == 0 {
		r.ring.Remove(e)
		delete(r.lines, l.tenant)
	}
}

// refuse gives err to those who wait and whose tenant is one that which selects.
func (r *roster) refuse(err error, which func(tenant string) bool) {
	for tenant, e := range r.lines {
		if !which(tenant) {
			continue
		}
		for l := e.Value.(*line); l.waiters.Len() > 0; {
			w := l.waiters.Front().Value.(*waiter)
			r.remove(e, w)
			w.got <- grant{err: err}
		}
	}
}

// share gives workers to those who wait: first those that the tenants have, then the spare ones, one tenant after the other. What
// it costs depends on the number of workers, not on how many wait.
func (r *roster) share(now time.Time) {
	for m := range r.members {
		if e := r.lines[m.tenant]; e != nil {
			r.serve(e, now)
		}
	}
	for e := r.ring.Front(); e != nil && r.spare() != nil; {
		next := e.Next()
		if !r.holds(e.Value.(*line).tenant) {
			r.ring.MoveToBack(e)
			r.serve(e, now)
		}
		e = next
	}
}

// serve gives workers to those in the line at e, as long as there are some for it.
func (r *roster) serve(e *list.Element, now time.Time) {
	l := e.Value.(*line)
	for l.waiters.Len() > 0 {
		m := r.pick(l.tenant, now)
		if m == nil {
			return
		}
		w := l.waiters.Front().Value.(*waiter)
		r.remove(e, w)
		r.take(m)
		w.got <- grant{m: m}
	}
}

// take notes that m got another body.
func (r *roster) take(m *member) {
	m.bodies++
	m.served++
	m.leaving = m.leaving || m.served >= r.cfg.Recycle
}

// pick finds the worker that a body of the tenant should go to, nil if it has to wait. A spare one becomes the tenant's.
func (r *roster) pick(tenant string, now time.Time) *member {
	best, held := r.own(tenant, now)
	if held >= r.cfg.PerTenant || best != nil && (best.bodies < spread || r.starved() > 0) {
		return best
	}
	if m := r.spare(); m != nil {
		m.tenant, m.bound = tenant, now
		return m
	}
	return best
}

// spare finds a worker that belongs to nobody, nil if there is none.
func (r *roster) spare() *member {
	for m := range r.members {
		if m.tenant == "" && !m.leaving {
			return m
		}
	}
	return nil
}

// own finds the least busy worker of the tenant that takes another body, and counts those that take bodies at all.
func (r *roster) own(tenant string, now time.Time) (best *member, held int) {
	for m := range r.members {
		if m.tenant != tenant || m.leaving || now.Sub(m.bound) >= r.cfg.RecycleAge {
			continue
		}
		held++
		if m.bodies < r.cfg.MaxBodies && (best == nil || m.bodies < best.bodies) {
			best = m
		}
	}
	return best, held
}

// starved counts the tenants that wait and have no worker.
func (r *roster) starved() int {
	fed := make(map[string]bool, len(r.members))
	for m := range r.members {
		if !m.leaving && r.lines[m.tenant] != nil {
			fed[m.tenant] = true
		}
	}
	return len(r.lines) - len(fed)
}

// holds reports whether the tenant has a worker that takes bodies.
func (r *roster) holds(tenant string) bool {
	for m := range r.members {
		if m.tenant == tenant && !m.leaving {
			return true
		}
	}
	return false
}

// put notes that m got rid of a body.
func (r *roster) put(m *member, now time.Time) {
	m.bodies--
	m.idle = now
}

// A need is what has to happen for those who wait, and for the spare workers.
type need struct {
	start int           // workers to start
	end   []*member     // workers to end; they run nothing
	again time.Duration // after which time alone may change the answer, 0 if it does not
}

// plan finds out what is needed, after share. No worker is ended that runs bodies, but where tenants have none, those that had
// their turn are told to leave.
func (r *roster) plan(now time.Time) need {
	var n need
	spare, ending, leaving := 0, 0, 0 // leaving: those that still run bodies. Each that ends or leaves makes room for another one
	leave := func(m *member) {
		m.leaving = true
		if m.bodies > 0 {
			leaving++
			return
		}
		ending++
		if !m.ending {
			m.ending = true
			n.end = append(n.end, m)
		}
	}
	for m := range r.members {
		age := now.Sub(m.bound)
		switch {
		case m.leaving, m.tenant != "" && age >= r.cfg.RecycleAge:
			leave(m)
		case m.tenant == "":
			spare++
		case m.bodies == 0 && (n.again == 0 || r.cfg.RecycleAge-age < n.again):
			n.again = r.cfg.RecycleAge - age
		}
	}
	starved := r.starved()
	lack := max(0, starved+r.cfg.Spare-spare-r.starting)
	n.start = max(0, min(lack, r.cfg.Workers-len(r.members)-r.starting))
	lack -= n.start
	for m := r.longestIdle(); m != nil && (ending < min(lack, starved) || ending+leaving < lack && now.Sub(m.idle) >= r.cfg.Idle); m = r.longestIdle() {
		leave(m)
	}
	for m := r.longestBound(now); m != nil && ending+leaving < min(lack, starved); m = r.longestBound(now) {
		leave(m)
	}
	if ending+leaving < lack {
		n.again = look
	}
	return n
}

// longestIdle finds the worker that runs nothing for the longest time.
func (r *roster) longestIdle() *member {
	var best *member
	for m := range r.members {
		if m.tenant != "" && !m.leaving && m.bodies == 0 && (best == nil || m.idle.Before(best.idle)) {
			best = m
		}
	}
	return best
}

// longestBound finds the worker that has been with its tenant for the longest time, if that had its turn.
func (r *roster) longestBound(now time.Time) *member {
	var best *member
	for m := range r.members {
		if m.tenant != "" && !m.leaving && now.Sub(m.bound) >= turn && (best == nil || m.bound.Before(best.bound)) {
			best = m
		}
	}
	return best
}
