package planner

import (
	"context"
	"sync"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// locks is a lock for each key. The zero value is ready.
type locks struct {
	mu   sync.Mutex
	held map[contracts.Key]*keyLock
}

type keyLock struct {
	slot  chan struct{}
	users int // who have it or wait for it
}

// lock waits for the key's lock while ctx allows. Call unlock exactly once where err is nil.
func (l *locks) lock(ctx context.Context, key contracts.Key) (unlock func(), err error) {
	l.mu.Lock()
	if l.held == nil {
		l.held = map[contracts.Key]*keyLock{}
	}
	k := l.held[key]
	if k == nil {
		k = &keyLock{slot: make(chan struct{}, 1)}
		l.held[key] = k
	}
	k.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if k.users--; k.users == 0 {
			delete(l.held, key)
		}
	}
	select {
	case k.slot <- struct{}{}:
		return func() { <-k.slot; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, contracts.Errorf(contracts.CodeTimeout, "the run is still being revised: %w", ctx.Err())
	}
}

// A tally counts what goes on under a name. The zero value is ready.
type tally struct {
	mu sync.Mutex
	n  map[string]int
}

// enter counts one more under name unless there are limit already, and reports whether it did.
func (t *tally) enter(name string, limit int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == nil {
		t.n = map[string]int{}
	}
	if t.n[name] >= limit {
		return false
	}
	t.n[name]++
	return true
}

// leave takes one away.
func (t *tally) leave(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n[name]--; t.n[name] == 0 {
		delete(t.n, name)
	}
}
