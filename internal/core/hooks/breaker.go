package hooks

import (
	"sync"
	"time"
)

const (
	// silences is how often in a row a hook gives no answer until it is left alone.
	silences = 3
	// pause is for how long.
	pause = 5 * time.Second
)

// A breaker keeps a hook that is gone from being waited for by every call: after a few times without an answer it is not asked for a while, and
// then by one call alone until it answers again. A hook that answers, whatever it answers, is not gone.
type breaker struct {
	mu      sync.Mutex
	silent  int       // in a row
	until   time.Time // when the hook is asked again, where silent says that it is left alone
	probing bool      // one call asks it already
}

// enter returns 0 where the hook may be asked, and then done or leave must be called. Otherwise it returns after which time it may be.
func (b *breaker) enter(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.silent < silences:
		return 0
	case now.Before(b.until):
		return b.until.Sub(now)
	case b.probing:
		return pause
	}
	b.probing = true
	return 0
}

// done says whether the hook was silent.
func (b *breaker) done(now time.Time, silent bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
	if !silent {
		b.silent = 0
		return
	}
	if b.silent++; b.silent >= silences {
		b.until = now.Add(pause)
	}
}

// leave says that the caller did not wait for what came.
func (b *breaker) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
}
