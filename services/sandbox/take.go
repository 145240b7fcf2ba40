package sandbox

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolcrib/toolcrib/internal/core/bodies"
	"github.com/toolcrib/toolcrib/internal/kit/trace"
	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/sandbox/engine"
)

// Why a body is ended from outside.
var (
	errCancelled = errors.New("cancelled")
	errStopping  = errors.New("the sandbox is stopping")
)

// take takes the body of a record for this sandbox, or says that there is no room for it.
func (s *Service) take(ctx context.Context, t contracts.TenantID, q contracts.BodyRequest) (contracts.BodyAnswer, error) {
	if s.pool == nil {
		return contracts.BodyAnswer{}, contracts.Errorf(contracts.CodeUnavailable, "code mode is not available here: %s", s.reason)
	}
	key := contracts.BodyKey(t, q.Run, q.Body)
	rec, err := s.desk.Get(ctx, key)
	if err != nil {
		return contracts.BodyAnswer{}, err
	}
	if rec.State != contracts.BodyStateRequested || rec.Owner != "" {
		return contracts.BodyAnswer{}, contracts.Errorf(contracts.CodeConflict, "the body is %s", rec.State)
	}
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	if !s.hold(q.Body, stop) {
		return contracts.BodyAnswer{}, contracts.Errorf(contracts.CodeConflict, "the body is here already")
	}
	ticket, err := s.admission.enter(t)
	if err != nil {
		s.release(q.Body)
		return contracts.BodyAnswer{}, err
	}
	go func() {
		defer s.release(q.Body)
		defer stop(nil)
		work, end := trace.Start(work, "body")
		end(s.run(work, stop, ticket, t, key, rec))
	}()
	return contracts.BodyAnswer{Owner: s.id}, nil
}

// hold notes that a body is here, and how it is stopped.
func (s *Service) hold(id contracts.BodyID, stop context.CancelCauseFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stops[id] != nil {
		return false
	}
	s.stops[id] = stop
	s.running.Add(1)
	return true
}

func (s *Service) release(id contracts.BodyID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.stops, id)
	s.running.Done()
}

// cancelled hears that somebody no longer wants a body.
func (s *Service) cancelled(m *nats.Msg) {
	id := contracts.BodyID(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:])
	s.mu.Lock()
	defer s.mu.Unlock()
	if stop := s.stops[id]; stop != nil {
		stop(errCancelled)
	}
}

// run runs a body and ends its record.
func (s *Service) run(ctx context.Context, stop context.CancelCauseFunc, ticket *ticket, t contracts.TenantID, key contracts.Key, rec *contracts.Body) error {
	renewing, enough := context.WithCancel(ctx)
	defer enough()
	go s.renew(renewing, stop, key)
	end, cpu := s.outcome(ctx, ticket, t, rec)
	enough()
	ctx = context.WithoutCancel(ctx)
	_, err := s.desk.End(ctx, key, end, cpu, func(*contracts.Body) error { return nil })
	if err != nil {
		s.log.Error("body not ended", "body", rec.ID, "run", rec.Run, "err", err)
	}
	return err
}

// outcome runs a body once there is room for it, and returns how it ended and the CPU time that it used.
func (s *Service) outcome(ctx context.Context, ticket *ticket, t contracts.TenantID, rec *contracts.Body) (contracts.BodyEnd, time.Duration) {
	refused := func(err error) (contracts.BodyEnd, time.Duration) {
		switch {
		case errors.Is(err, errCancelled):
			err = contracts.Errorf(contracts.CodeCancelled, "the body was cancelled before it was run")
		case errors.Is(err, errStopping):
			err = contracts.Errorf(contracts.CodeUnavailable, "the sandbox stopped before the body was run").After(time.Second)
		case contracts.CodeOf(err) == contracts.CodeInternal:
			s.log.Error("body not run", "body", rec.ID, "run", rec.Run, "err", err)
		}
		return contracts.BodyEnd{Error: contracts.AsError(err)}, 0
	}
	if err := ticket.await(ctx, s.cfg.QueueWait); err != nil {
		return refused(err)
	}
	x, err := s.open(ctx, t, rec)
	if err != nil {
		ticket.drop()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return refused(err)
	}
	ending := s.pool.Run(ctx, string(t), engine.Body{
		Code: rec.Code, Seed: rec.Seed, Now: rec.Requested.UnixMilli(),
		Limits: engine.Limits{Timeout: time.Duration(rec.TimeoutMs) * time.Millisecond},
	}, x)
	ticket.leave(ending.CPU)
	if f := ending.Failure; f != nil && f.Code == engine.CodeCancelled && errors.Is(context.Cause(ctx), errStopping) {
		f.Code, f.Message = engine.CodeUnavailable, "the sandbox stopped while the body ran"
	}
	return x.end(ending), ending.CPU
}

// renew keeps the lease of a body, and hears of a cancellation whose news was missed, until ctx is done.
func (s *Service) renew(ctx context.Context, stop context.CancelCauseFunc, key contracts.Key) {
	again := time.NewTicker(bodies.Lease / 3)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
		rec, err := s.desk.Change(ctx, key, func(rec *contracts.Body) ([]contracts.Event, error) {
			rec.Owner, rec.Lease = s.id, time.Now().UTC().Add(bodies.Lease)
			if rec.State == contracts.BodyStateRequested {
				rec.State = contracts.BodyStateRunning
			}
			return nil, nil
		})
		switch {
		case ctx.Err() != nil:
		case contracts.CodeOf(err) == contracts.CodeConflict: // somebody else ended it
			stop(errCancelled)
		case err != nil:
			s.log.Warn("lease of a body not renewed", "body", key, "err", err)
		case rec.Cancelled:
			stop(errCancelled)
		}
	}
}
