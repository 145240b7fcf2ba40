package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Why a worker was not taken, or was ended without its fault.
var (
	errVersion  = errors.New("wrong version of the protocol")
	errUnlocked = errors.New("the worker lacks layers of protection that are required")
	errRecycled = errors.New("the worker is replaced")
	errClosed   = errors.New("the sandbox is closed")
)

// settle brings the workers in line with what is needed. p.mu is held.
func (p *Pool) settle() {
	if p.closed {
		return
	}
	now := time.Now()
	p.roster.share(now)
	n := p.roster.plan(now)
	for _, m := range n.end {
		p.stats.Recycled++
		m.child.kill(errRecycled)
	}
	if n.start > 0 && now.Before(p.retry) {
		n.start, n.again = 0, look
	}
	for range n.start {
		p.roster.starting++
		p.wg.Go(func() {
			c, active, err := p.start()
			if err != nil {
				p.miss(err)
				return
			}
			p.employ(p.join(c, active))
		})
	}
	if p.failures >= tolerated {
		p.roster.refuse(fmt.Errorf("no sandbox worker can be started: %w", p.failure), func(tenant string) bool { return !p.roster.holds(tenant) })
	}
	if n.again > 0 {
		p.timer.Reset(n.again)
	}
}

// look settles what only time changes.
func (p *Pool) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle()
}

// start starts a worker and waits until it is ready.
func (p *Pool) start() (*child, []string, error) {
	l, err := p.launcher.launch()
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(p.ctx, startLimit)
	defer cancel()
	c := newChild(l.proc, l.conn)
	stop := context.AfterFunc(ctx, func() { c.kill(context.Cause(ctx)) })
	active, err := p.greet(l)
	if !stop() {
		err = context.Cause(ctx) // whatever came of it
	}
	if err != nil {
		c.kill(err)
		state, _ := c.serve(nil)
		return nil, nil, fmt.Errorf("%w (%s)", err, state)
	}
	return c, active, nil
}

// greet tells the worker what it is to be, and hears what it is.
func (p *Pool) greet(l launched) ([]string, error) {
	out, err := encode(kindHello, 0, hello{
		Protocol: protocol, Budget: p.cfg.Budget, Bodies: p.cfg.MaxBodies, Layers: l.layers, Require: p.cfg.Require,
	})
	if err != nil {
		return nil, err
	}
	if _, err := l.conn.Write(out); err != nil {
		return nil, fmt.Errorf("greet the worker: %w", err)
	}
	f, err := readFrame(l.conn)
	if err != nil {
		return nil, fmt.Errorf("the worker did not get ready: %w", err)
	}
	if f.kind != kindReady {
		return nil, fmt.Errorf("%w: kind %d in place of ready", errFrame, f.kind)
	}
	r, err := decode[ready](f)
	switch {
	case err != nil:
		return nil, err
	case r.Protocol != protocol:
		return nil, fmt.Errorf("%w: the worker speaks version %d, this service %d: both must be of one build", errVersion, r.Protocol, protocol)
	}
	if gone := missing(p.cfg.Require, r.Layers); len(gone) > 0 {
		return nil, fmt.Errorf("%w: %s", errUnlocked, strings.Join(gone, ", "))
	}
	return r.Layers, nil
}

// miss notes that a worker could not be started.
func (p *Pool) miss(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.roster.starting--
	if p.closed {
		return
	}
	p.stats.Failed++
	p.failures++
	p.failure = err
	p.retry = time.Now().Add(min(look<<min(p.failures, 10), maxRetry))
	p.log.Error("sandbox worker did not start", "err", err, "failures", p.failures)
	p.settle()
}

// employ lets a worker work until it ends.
func (p *Pool) employ(m *member) {
	state, cause := m.child.serve(func() { p.release(m) })
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.roster.members, m)
	switch {
	case errors.Is(cause, errRecycled), errors.Is(cause, errClosed):
		p.log.Debug("sandbox worker ended", "cause", cause, "bodies", m.served)
	case cause != nil:
		p.stats.Killed++
		p.log.Warn("sandbox worker killed", "cause", cause, "state", state, "running", m.bodies)
	default:
		p.stats.Died++
		p.log.Error("sandbox worker died", "state", state, "running", m.bodies)
	}
	p.settle()
}

// join takes in a worker that is ready.
func (p *Pool) join(c *child, active []string) *member {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := &member{child: c}
	p.roster.starting--
	p.roster.members[m] = struct{}{}
	if p.stats.Started++; p.stats.Started == 1 {
		p.layers = slices.DeleteFunc(slices.Clone(layers), func(l string) bool { return !slices.Contains(active, l) })
	} else {
		p.layers = slices.DeleteFunc(p.layers, func(l string) bool { return !slices.Contains(active, l) })
	}
	p.failures, p.failure, p.retry = 0, nil, time.Time{}
	if p.closed {
		c.kill(errClosed)
	}
	p.settle()
	return m
}

// release notes that a body left a worker.
func (p *Pool) release(m *member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.roster.put(m, time.Now())
	p.settle()
}

// lose notes that a worker which was handed out for a body turned out to be lost.
func (p *Pool) lose(m *member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.roster.put(m, time.Now())
	m.leaving, m.ending = true, true
	p.settle()
}
