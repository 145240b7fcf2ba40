package executor

import (
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// A retry says when a source that failed may be tried again: after pauses that grow
// from a second to five minutes, each of a random length up to that. Safe for concurrent use.
type retry struct {
	mu    sync.Mutex
	pause *backoff.ExponentialBackOff
	until time.Time
	why   string
	shaky bool // it was lost, and has answered nothing since
}

func newRetry() *retry {
	// The pause is drawn from 0 to twice the interval.
	return &retry{pause: backoff.NewExponentialBackOff(backoff.WithInitialInterval(500*time.Millisecond), backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(1), backoff.WithMaxInterval(150*time.Second), backoff.WithMaxElapsedTime(0))}
}

func (r *retry) failed(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until = time.Now().Add(r.pause.NextBackOff())
	r.why = why
}

// lost tells that the connection broke before the source answered anything on it. Once is no reason for a pause.
func (r *retry) lost(why string) {
	r.mu.Lock()
	first := !r.shaky
	r.shaky = true
	r.mu.Unlock()
	if !first {
		r.failed(why)
	}
}

// worked ends the pause, and the growing of pauses.
func (r *retry) worked() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pause.Reset()
	r.until, r.shaky = time.Time{}, false
}

// wait returns how long the source is still to be left alone, and why.
func (r *retry) wait() (time.Duration, string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(0, time.Until(r.until)), r.why
}
