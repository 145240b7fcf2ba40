package planner

import (
	"context"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const (
	// sandboxWait is how long planning waits for a sandbox to say whether it can run bodies.
	sandboxWait = 300 * time.Millisecond
	// sandboxStart is how long after the planner's own start planning waits for a sandbox that was never heard of: both may start together.
	sandboxStart = 2 * time.Second
	// What a sandbox said holds for so long.
	readyHolds, unreadyHolds = 10 * time.Second, 2 * time.Second
)

// A sandbox is what the planner knows of the sandboxes. One run asks at a time; those beside it share the answer.
type sandbox struct {
	ask func(context.Context, contracts.TenantID) (contracts.SandboxAnswer, error)
	// wait and start are sandboxWait and sandboxStart.
	wait, start time.Duration

	slot  chan struct{} // held by whoever reads or changes what follows
	began time.Time
	heard bool // of a sandbox, ever
	known string
	until time.Time
}

func newSandbox(b *bus.Bus) *sandbox {
	return &sandbox{
		wait: sandboxWait, start: sandboxStart, slot: make(chan struct{}, 1), began: time.Now(),
		ask: func(ctx context.Context, t contracts.TenantID) (contracts.SandboxAnswer, error) {
			return bus.Ask[contracts.SandboxAnswer](ctx, b, t, contracts.VerbSandbox, contracts.SandboxRequest{})
		},
	}
}

// begin says that the planner begins to work.
func (s *sandbox) begin() {
	s.slot <- struct{}{}
	s.began = time.Now()
	<-s.slot
}

// unready returns why no body can be run now, "" where one can. The error is that of ctx.
func (s *sandbox) unready(ctx context.Context, t contracts.TenantID) (string, error) {
	select {
	case s.slot <- struct{}{}:
		defer func() { <-s.slot }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if time.Now().Before(s.until) {
		return s.known, nil
	}
	wait := s.wait
	if !s.heard {
		wait = max(wait, time.Until(s.began.Add(s.start)))
	}
	asking, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	a, err := s.ask(asking, t)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	switch code := contracts.CodeOf(err); {
	case code == contracts.CodeUnavailable || code == contracts.CodeTimeout:
		s.known = "no sandbox answers"
	case err != nil:
		s.heard, s.known = true, reason(contracts.AsError(err).Message)
	case !a.Ready:
		s.heard, s.known = true, reason(a.Reason)
	default:
		s.heard, s.known = true, ""
	}
	holds := unreadyHolds
	if s.known == "" {
		holds = readyHolds
	}
	s.until = time.Now().Add(holds)
	return s.known, nil
}

// sandboxFor returns why a run with this choice could not have bodies run, "" where it could or would have none.
func (s *Service) sandboxFor(ctx context.Context, t contracts.TenantID, choice config.ToolSearch) (string, error) {
	if choice.Mode != contracts.SurfaceCode || !s.cfg.offers(contracts.SurfaceCode) {
		return "", nil
	}
	return s.sandbox.unready(ctx, t)
}
