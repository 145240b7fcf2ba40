package executor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/toolcrib/toolcrib/internal/core/names"
	"github.com/toolcrib/toolcrib/internal/core/outputs"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/trace"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const (
	// mostAttempts bounds how often a call is begun whose tool may be called twice.
	mostAttempts = 3
	// mostTries bounds how often its source is tried to be reached for that.
	mostTries = 6
	// repeatPause is the pause before the second attempt, at most; it doubles.
	repeatPause = 400 * time.Millisecond
	// endFor is how long the end of a call is tried to be recorded, at least.
	endFor = time.Minute
)

// execute makes a call and ends it.
func (s *Service) execute(ctx context.Context, j *job) (err error) {
	t := j.key.Tenant()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if !s.running.add(t, j.call.ID, cancel) {
		return bus.Later(s.cfg.Lease) // a second wake-up for what is at work here
	}
	defer s.running.remove(t, j.call.ID)
	if j.source.callTime > 0 {
		if most := time.Now().Add(j.source.callTime); most.Before(j.deadline) {
			j.deadline = most
		}
	}
	ctx, stop := context.WithDeadlineCause(ctx, j.deadline, errDeadline)
	defer stop()
	ctx, end := trace.Start(ctx, "call tool", attribute.String("toolcrib.tool", string(j.entry.ID)))
	defer func() { end(err) }()

	h := &hold{service: s, job: j, cancel: cancel, dirty: j.after != nil}
	defer h.release()
	o, err := s.attempts(ctx, h)
	switch {
	case errors.Is(err, errMoved), errors.Is(err, errLost):
		return nil
	case err != nil:
		return err
	}
	return h.finish(context.WithoutCancel(ctx), o)
}

// attempts calls the tool, and again where the answer was lost and that does no harm. The error is errMoved or errLost where the call is another's now.
func (s *Service) attempts(ctx context.Context, h *hold) (contracts.Outcome, error) {
	j := h.job
	pause := repeatPause
	for try := 1; ; try++ {
		l, err := s.use(ctx, h)
		if err != nil {
			o := h.notReached(err)
			if wait := time.Duration(o.RetryAfter) * time.Millisecond; !h.dirty || try >= mostTries || wait == 0 || !h.waits(ctx, wait) {
				return o, nil
			}
			continue
		}
		if err := h.claim(ctx); err != nil {
			s.pool.done(l, false)
			if errors.Is(err, errCancelled) {
				return cancelled(h.before()), nil
			}
			return contracts.Outcome{}, err
		}
		o, err := s.attempt(ctx, h, l)
		if err != nil {
			return o, err
		}
		lost := o.Error != nil && o.Error.Code == contracts.CodeOutcomeUnknown
		if !lost || !j.repeatable() || h.attempt >= mostAttempts || ctx.Err() != nil {
			return o, nil
		}
		h.dirty = true
		if !h.waits(ctx, rand.N(pause)) {
			return o, nil
		}
		pause *= 2
	}
}

// waits waits for d, or returns false where the call's time does not allow it.
func (h *hold) waits(ctx context.Context, d time.Duration) bool {
	return time.Now().Add(d).Before(h.job.deadline) && sleep(ctx, d, nil)
}

// attempt calls the tool once; on a new connection where it finds the one at hand dead before anything was sent. It gives l back.
func (s *Service) attempt(ctx context.Context, h *hold, l *link) (contracts.Outcome, error) {
	for again := true; ; again = false {
		works := h.job.source.retry.works()
		r, err := s.callTool(ctx, h.job, l)
		code := contracts.CodeOf(err)
		s.pool.done(l, err == nil || replied(code))
		switch {
		case err == nil:
			return s.outputs.Outcome(ctx, h.job.place, h.job.entry.Tool, h.job.budget(), r), nil
		case errors.Is(context.Cause(ctx), errLost):
			return contracts.Outcome{}, errLost
		case ctx.Err() != nil:
			return h.interrupted(ctx), nil
		case replied(code):
			return s.refused(ctx, h.job, contracts.AsError(err), r), nil
		case code == contracts.CodeInvalidArgs:
			return h.notSent(contracts.AsError(err)), nil
		case code == contracts.CodeOutcomeUnknown:
			return unknown(contracts.AsError(err).Message), nil
		case code != contracts.CodeSourceUnavailable:
			return unknown("an internal error interrupted the call, which may or may not have happened"), nil
		case !again && !h.comesBack(ctx, works, err):
			return h.gaveUp(ctx, err)
		}
		s.pool.drop(l)
		if l, err = s.use(ctx, h); err != nil {
			return h.gaveUp(ctx, err)
		}
	}
}

// callTool calls the tool on l; a panic is an error.
func (s *Service) callTool(ctx context.Context, j *job, l *link) (_ *contracts.Result, err error) {
	defer func() {
		if r := recover(); r != nil {
			s.log.Error("a call panicked", "call", string(j.call.ID), "tool", string(j.entry.ID), "panic", r)
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	if j.entry.ID == outputs.ReadID {
		return s.read(ctx, j)
	}
	meta := map[string]string{contracts.MetaCallID: string(j.call.ID)}
	if parent := trace.Parent(ctx); parent != "" {
		meta["traceparent"] = parent
	}
	return l.conn.Call(ctx, j.entry.Tool, j.args, meta)
}

// A hold is this executor's hold of one call: it claims it before each attempt and keeps its
// lease alive until the call is finished. Everything it writes is fenced: another that took the call over is left alone.
type hold struct {
	service *Service
	job     *job
	cancel  context.CancelCauseFunc

	attempt int  // the number of the last one that is ours; 0 for none
	dirty   bool // an attempt before the present one may have reached the tool
	keeping sync.WaitGroup
	stop    context.CancelFunc // ends the keeping; nil before it began
}

// claim makes the call ours, with one attempt more: from here on its tool may be reached.
func (h *hold) claim(ctx context.Context) error {
	h.pause()
	s, j := h.service, h.job
	rec, err := s.calls.Transition(context.WithoutCancel(ctx), j.key, func(rec *contracts.Call) ([]contracts.Event, error) {
		now := time.Now().UTC()
		after := j.after
		switch {
		case h.attempt == 0 && unstarted(rec):
		case h.attempt > 0 && h.ours(rec) == nil:
		case h.attempt == 0 && after != nil && rec.State == contracts.CallStateRunning &&
			rec.Attempt == after.Attempt && rec.Owner == after.Owner && now.After(rec.Lease):
		default:
			return nil, errMoved
		}
		if rec.Cancelled {
			return nil, errCancelled
		}
		rec.State, rec.Resolved, rec.Started = contracts.CallStateRunning, j.entry.Ref(), now
		rec.Grant = j.grant
		rec.Attempt, rec.Owner, rec.Lease = rec.Attempt+1, s.id, now.Add(s.cfg.Lease)
		return []contracts.Event{contracts.CallRunning{At: now, Run: rec.Run, Call: rec.ID, Tool: *rec.Resolved, Attempt: rec.Attempt}}, nil
	})
	if err != nil && !h.claimed(ctx, rec, err) {
		return err
	}
	h.attempt = rec.Attempt
	h.keep()
	return nil
}

// claimed reports whether the claim that rec shows stands in spite of err: the bus may have taken the record and not its event, which the sweep sends.
func (h *hold) claimed(ctx context.Context, rec *contracts.Call, err error) bool {
	if rec == nil || errors.Is(err, errMoved) || errors.Is(err, errCancelled) {
		return false
	}
	stored, err := h.service.calls.Get(context.WithoutCancel(ctx), h.job.key)
	return err == nil && stored.State == contracts.CallStateRunning && stored.Owner == h.service.id &&
		stored.Attempt == rec.Attempt && stored.Started.Equal(rec.Started)
}

// ours returns nil while rec is the call as this hold has it, and errMoved after that.
func (h *hold) ours(rec *contracts.Call) error {
	if rec.State != contracts.CallStateRunning || rec.Owner != h.service.id || rec.Attempt != h.attempt {
		return errMoved
	}
	return nil
}

// keep renews the lease from now on, and ends the call's context where it is cancelled or no longer ours.
func (h *hold) keep() {
	ctx, stop := context.WithCancel(context.Background())
	h.stop = stop
	h.keeping.Go(func() {
		for sleep(ctx, h.service.cfg.Lease/3, nil) {
			wanted := true
			_, err := h.service.calls.Transition(ctx, h.job.key, func(rec *contracts.Call) ([]contracts.Event, error) {
				if err := h.ours(rec); err != nil {
					return nil, err
				}
				rec.Lease = time.Now().UTC().Add(h.service.cfg.Lease)
				wanted = !rec.Cancelled
				return nil, nil
			})
			switch {
			case errors.Is(err, errMoved):
				h.cancel(errLost)
				return
			case !wanted:
				h.cancel(errCancelled)
			case err != nil && ctx.Err() == nil:
				h.service.log.Error("lease not renewed", "key", string(h.job.key), "err", err)
			}
		}
	})
}

// pause stops renewing the lease, so that the record is changed by one at a time.
func (h *hold) pause() {
	if h.stop != nil {
		h.stop()
		h.keeping.Wait()
		h.stop = nil
	}
}

func (h *hold) release() { h.pause() }

// finish ends the call with o. A bus that cannot take it is tried again while the lease is kept alive.
func (h *hold) finish(ctx context.Context, o contracts.Outcome) error {
	may := h.ours
	if h.attempt == 0 {
		may = func(rec *contracts.Call) error {
			if !unstarted(rec) {
				return errMoved
			}
			return nil
		}
	}
	if o.Tool == nil {
		o.Tool = h.job.entry.Ref()
	}
	pause := 100 * time.Millisecond
	for give := time.Now().Add(endFor); ; pause = min(2*pause, 5*time.Second) {
		_, err := h.service.caller.End(ctx, h.job.key, o, may)
		if err == nil {
			h.service.hooks[h.job.key.Tenant()].After(ctx, h.job.hooked(), o)
		}
		if err = ignoreMoved(err); err == nil || contracts.Final(err) || time.Now().After(give) {
			return err
		}
		h.service.log.Error("the end of a call was not recorded", "key", string(h.job.key), "err", err)
		time.Sleep(pause)
	}
}

// before says what the attempts before the present one may have done.
func (h *hold) before() contracts.SideEffects {
	if h.dirty {
		return contracts.SideEffectsUnknown
	}
	return contracts.SideEffectsNone
}

// interrupted is the outcome of a call whose context ended after its tool may have been reached.
func (h *hold) interrupted(ctx context.Context) contracts.Outcome {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errCancelled):
		return cancelled(contracts.SideEffectsUnknown)
	case errors.Is(cause, errStopping):
		return unknown("the executor was stopped during the call, which may or may not have happened")
	}
	return timedOut(contracts.SideEffectsUnknown)
}

// gaveUp is the outcome of a call whose source could not be reached until now. The error is errLost where the call is another's.
func (h *hold) gaveUp(ctx context.Context, err error) (contracts.Outcome, error) {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if errors.Is(err, errLost) {
		return contracts.Outcome{}, errLost
	}
	return h.notReached(err), nil
}

// notSent is the outcome of a call whose arguments its source cannot be sent.
func (h *hold) notSent(why *contracts.Error) contracts.Outcome {
	e := *why
	e.Message = names.Text(e.Message)
	o := *notMade(contracts.StatusInvalidArgs, &e)
	o.SideEffects = h.before()
	return o
}

// notReached is the outcome of a call whose source cannot be reached. err may be the cause of the end of its context.
func (h *hold) notReached(err error) contracts.Outcome {
	switch {
	case errors.Is(err, errCancelled):
		return cancelled(h.before())
	case errors.Is(err, errDeadline):
		return timedOut(h.before())
	case errors.Is(err, errStopping):
		err = contracts.Errorf(contracts.CodeSourceUnavailable, "the executor was stopped before the call began").After(time.Second)
	}
	e := *contracts.AsError(err)
	e.Message = names.Text(e.Message)
	if wait, _ := h.job.source.retry.wait(); e.RetryAfter == 0 && wait > 0 {
		e.RetryAfter = max(wait.Milliseconds(), 1)
	}
	o := *notMade(contracts.StatusUnavailable, &e)
	o.SideEffects = h.before()
	return o
}
