package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/toolcrib/toolcrib/services/sandbox/engine"
)

// How starting workers is tried again.
const (
	startLimit = 30 * time.Second // for one worker to become ready
	tolerated  = 3                // starts that fail in a row before those who wait are told
	maxRetry   = 5 * time.Second  // between two tries
)

// A launcher starts worker processes.
type launcher interface {
	// launch starts one and tells which layers are around it. It is called from many goroutines.
	launch() (launched, error)
	// close frees what all of them share, when the last one has ended.
	close()
}

// launched is a process that was started and has said nothing yet.
type launched struct {
	proc   process
	conn   stream
	layers []string // around it
}

// A Pool runs bodies in worker processes. It is safe for concurrent use.
type Pool struct {
	cfg      Config
	log      *slog.Logger
	launcher launcher
	ctx      context.Context // ends with the pool
	cancel   context.CancelFunc
	wg       sync.WaitGroup // goroutines that start and serve workers

	mu       sync.Mutex
	roster   *roster
	layers   []string
	stats    Stats // the counters
	failures int   // starts that failed in a row
	failure  error // the last of them
	retry    time.Time
	timer    *time.Timer
	closed   bool
}

// open makes a pool of workers that l starts, and waits for the first one. The pool owns l.
func open(ctx context.Context, cfg Config, log *slog.Logger, l launcher) (*Pool, error) {
	p := &Pool{cfg: cfg, log: log, launcher: l, roster: newRoster(cfg)}
	p.ctx, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
	p.timer = time.AfterFunc(look, p.look)
	p.timer.Stop()
	p.roster.starting = 1
	p.wg.Add(1)
	stop := context.AfterFunc(ctx, p.cancel)
	c, active, err := p.start()
	if err == nil && stop() {
		m := p.join(c, active)
		go func() {
			defer p.wg.Done()
			p.employ(m)
		}()
		return p, nil
	}
	if err == nil {
		err = context.Cause(ctx)
		c.kill(err)
		c.serve(nil)
	}
	p.wg.Done()
	return nil, errors.Join(fmt.Errorf("start the first sandbox worker: %w", err), p.Close())
}

// Run runs b for the tenant, with d as its door, and returns how it ended. It waits for a worker until ctx is done; from when
// the body is in a worker, its limits hold whatever that worker does. When ctx is done the body ends as cancelled. A body whose
// worker is lost ends with the code unavailable, or is run once more if nothing went through its door yet. d is used by one
// goroutine, and only until Run returns. The CPU time of a body that had to be given up is the time that it was given.
func (p *Pool) Run(ctx context.Context, tenant string, b engine.Body, d engine.Door) engine.Ending {
	if tenant == "" {
		return failed(engine.CodeUnavailable, "the body belongs to no tenant")
	}
	b.Limits = b.Limits.OrDefaults()
	body, err := encode(kindRun, 0, b)
	if err != nil || len(b.Code) > b.Limits.Code {
		return failed(engine.CodeTooLarge, fmt.Sprintf("the body has %d bytes, at most %d are allowed", len(b.Code), b.Limits.Code))
	}
	for tries := 0; ; {
		m, err := p.acquire(ctx, tenant)
		if err != nil {
			code := engine.CodeUnavailable
			if ctx.Err() != nil {
				code = engine.CodeCancelled
			}
			return failed(code, err.Error())
		}
		j := m.child.open(b.Limits, body)
		if j == nil {
			p.lose(m)
			continue
		}
		tries++
		end, again := m.child.run(ctx, j, d, p.cfg.Grace)
		if !again || tries == 2 || p.ctx.Err() != nil {
			return end
		}
	}
}

// acquire waits for a worker that takes a body of the tenant.
func (p *Pool) acquire(ctx context.Context, tenant string) (*member, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, errClosed
	}
	w := p.roster.wait(tenant)
	p.settle()
	p.mu.Unlock()
	select {
	case g := <-w.got:
		return g.m, g.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.roster.leave(tenant, w) {
		if g := <-w.got; g.m != nil {
			p.roster.put(g.m, time.Now())
			p.settle()
		}
	}
	return nil, fmt.Errorf("the body was cancelled while it waited for a worker: %w", ctx.Err())
}

// Layers are the layers of protection that all workers so far had, in a fixed order.
func (p *Pool) Layers() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.layers)
}

// Stats counts.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Workers, s.Waiting = len(p.roster.members), p.roster.waiting
	for m := range p.roster.members {
		s.Bodies += m.bodies
		switch {
		case m.tenant == "":
			s.Spare++
		case m.bodies == 0:
			s.Idle++
		}
	}
	return s
}

// Close ends all workers and waits until nothing of them is left. Bodies that run or wait end with the code unavailable. Called
// again it does nothing.
func (p *Pool) Close() error {
	p.cancel()
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	p.timer.Stop()
	p.roster.refuse(errClosed, func(string) bool { return true })
	for m := range p.roster.members {
		m.ending = true
		m.child.kill(errClosed)
	}
	p.mu.Unlock()
	p.wg.Wait()
	p.launcher.close()
	return nil
}
