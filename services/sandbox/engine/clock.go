package engine

import (
	"sync"
	"sync/atomic"
	"time"
)

// A stop is why a body is stopped from outside.
type stop int32

const (
	running stop = iota
	timeout
	cancelled
	closed
)

// A clock measures a body's time and stops it when that is over. It stands still while the body is paused and does not compute.
type clock struct {
	stopped atomic.Int32
	over    chan struct{} // closed when stopped is set
	once    sync.Once

	// Only the body's goroutine uses what follows.
	left      time.Duration
	since     time.Time // when it started to go, zero while it stands
	timer     *time.Timer
	paused    bool
	computing bool
}

func newClock(d time.Duration) *clock {
	c := &clock{over: make(chan struct{}), left: d}
	c.timer = time.AfterFunc(d, func() { c.stop(timeout) })
	c.since = time.Now()
	return c
}

// stop stops the body for a reason; the first one holds. Any goroutine may call it.
func (c *clock) stop(why stop) {
	c.once.Do(func() {
		c.stopped.Store(int32(why))
		close(c.over)
	})
}

func (c *clock) why() stop { return stop(c.stopped.Load()) }

// remaining is how much of the body's time is left.
func (c *clock) remaining() time.Duration {
	if c.since.IsZero() {
		return c.left
	}
	return c.left - time.Since(c.since)
}

// hurry leaves the body at most d.
func (c *clock) hurry(d time.Duration) {
	if d < c.remaining() {
		c.timer.Reset(d)
	}
}

func (c *clock) pause(paused bool) {
	c.paused = paused
	c.adjust()
}

func (c *clock) compute(computing bool) {
	c.computing = computing
	c.adjust()
}

// adjust lets the clock go or stand, as it should.
func (c *clock) adjust() {
	goes := c.computing || !c.paused
	switch {
	case goes && c.since.IsZero():
		c.since = time.Now()
		c.timer.Reset(c.left)
	case !goes && !c.since.IsZero():
		c.left -= time.Since(c.since)
		c.since = time.Time{}
		if !c.timer.Stop() || c.left <= 0 {
			c.stop(timeout)
		}
	}
}

// end frees the clock.
func (c *clock) end() { c.timer.Stop() }
