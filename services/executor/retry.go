package executor

import (
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A retry says when a source that failed may be tried again: after pauses that grow
// from a second to five minutes, each of a random length up to that. Safe for concurrent use.
type retry struct {
	mu    sync.Mutex
	pause *backoff.ExponentialBackOff
	until time.Time
	why   *contracts.Error
	shaky bool          // it was lost, and has answered nothing since
	since time.Time     // of which it is known to be missing; zero for not
	news  chan struct{} // closed when it works; nil while nobody waits for that
}

func newRetry() *retry {
	// The pause is drawn from 0 to twice the interval.
	return &retry{pause: backoff.NewExponentialBackOff(backoff.WithInitialInterval(500*time.Millisecond), backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(1), backoff.WithMaxInterval(150*time.Second), backoff.WithMaxElapsedTime(0))}
}

func (r *retry) failed(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until = time.Now().Add(r.pause.NextBackOff())
	r.why = contracts.AsError(why)
}

// lost tells that the connection broke before the source answered anything on it. Once is no reason for a pause.
func (r *retry) lost(why string) {
	r.mu.Lock()
	first := !r.shaky
	r.shaky = true
	r.mu.Unlock()
	if !first {
		r.failed(contracts.Errorf(contracts.CodeSourceUnavailable, "%s", why))
	}
}

// worked ends the pause, and the growing of pauses.
func (r *retry) worked() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pause.Reset()
	r.until, r.since, r.shaky = time.Time{}, time.Time{}, false
	if r.news != nil {
		close(r.news)
		r.news = nil
	}
}

// works returns a channel that is closed when the source is next known to work.
func (r *retry) works() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.news == nil {
		r.news = make(chan struct{})
	}
	return r.news
}

// missing notes that nobody is there, and returns for how long that is so.
func (r *retry) missing() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since.IsZero() {
		r.since = time.Now()
	}
	return time.Since(r.since)
}

// wait returns how long the source is still to be left alone, and why.
func (r *retry) wait() (time.Duration, *contracts.Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(0, time.Until(r.until)), r.why
}
