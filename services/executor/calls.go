package executor

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/approvals"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// errMoved ends a change of a call that another has taken on meanwhile.
var errMoved = errors.New("another has moved the call on")

// dispatch takes wake-ups until ctx is done.
func (s *Service) dispatch(ctx context.Context) error {
	// Failures here are those of the bus or the planner. A wake-up that is given up is made anew by the sweep.
	const tries = 20
	return s.bus.Consume(ctx, bus.Consumer{
		Stream: contracts.StreamDispatch, Durable: s.Name(), Workers: s.cfg.Workers, MaxTries: tries, Unbounded: true,
	}, s.woken)
}

// woken handles a wake-up: whatever is to be done is in the record.
func (s *Service) woken(ctx context.Context, m bus.Message) error {
	var w bus.Wakeup
	if err := json.Unmarshal(m.Data, &w); err != nil {
		return contracts.Errorf(contracts.CodeInvalid, "wake-up: %w", err)
	}
	t := w.Key.Tenant()
	if m.Subject != contracts.DispatchSubject(t) {
		return contracts.Errorf(contracts.CodeInvalid, "wake-up for another tenant than that of its subject")
	}
	leave, ok := s.running.enter(t)
	if !ok {
		return bus.Later(putOff(m.Delivered))
	}
	defer leave()
	return s.advance(ctx, w.Key)
}

// putOff is how long a wake-up waits that finds its tenant's places taken: from about 50 ms to 0.8 s, the more often it did.
func putOff(delivered int) time.Duration {
	d := 50 * time.Millisecond << min(max(delivered-1, 0), 4)
	return d/2 + rand.N(d)
}

// advance does what the call of key needs now.
func (s *Service) advance(ctx context.Context, key contracts.Key) error {
	rec, err := s.calls.Get(ctx, key)
	switch {
	case contracts.CodeOf(err) == contracts.CodeNotFound:
		return nil
	case err != nil:
		return err
	}
	switch rec.State {
	case contracts.CallStateFinished:
		return nil
	case contracts.CallStateWaiting:
		if rec.Waits == contracts.WaitsForApproval {
			return s.decided(ctx, key, rec)
		}
		return nil
	case contracts.CallStateRunning:
		return s.takeOver(ctx, key, rec)
	}
	switch {
	case rec.Cancelled:
		return s.endUnstarted(ctx, key, cancelled(contracts.SideEffectsNone))
	case !time.Now().Before(s.deadline(rec)):
		return s.endUnstarted(ctx, key, timedOut(contracts.SideEffectsNone))
	}
	j, o, err := s.prepare(ctx, key, rec)
	switch {
	case err != nil:
		return err
	case o != nil:
		return s.endUnstarted(ctx, key, *o)
	}
	o, moved, err := s.admit(ctx, j)
	switch {
	case err != nil:
		return err
	case o != nil:
		return s.endUnstarted(ctx, key, *o)
	case moved:
		return s.advance(ctx, key)
	}
	ok, err := s.permitted(ctx, j)
	switch {
	case contracts.CodeOf(err) == contracts.CodeApprovalVoid:
		return s.endUnstarted(ctx, key, *j.refused(contracts.CodeApprovalVoid, "%s", contracts.AsError(err).Message))
	case err != nil:
		return err
	case !ok:
		return s.ask(ctx, j)
	}
	if j.source == nil {
		return s.wait(ctx, j, contracts.WaitsForClient, "")
	}
	return s.perform(ctx, j)
}

// deadline returns when the call is over at the latest.
func (s *Service) deadline(rec *contracts.Call) time.Time {
	if rec.Deadline.IsZero() {
		return rec.Requested.Add(s.cfg.CallTimeout)
	}
	return rec.Deadline
}

// takeOver decides on a call that an executor has begun, once that one's lease has ended.
func (s *Service) takeOver(ctx context.Context, key contracts.Key, rec *contracts.Call) error {
	if wait := time.Until(rec.Lease); wait > 0 {
		return bus.Later(wait)
	}
	if s.mayRepeat(rec) {
		j, _, err := s.prepare(ctx, key, rec)
		if err != nil && !contracts.Final(err) && time.Now().Before(s.deadline(rec)) {
			return err
		}
		if err == nil && j != nil && j.source != nil && j.repeatable() {
			// Where policy wants an approval by now that the call does not have, it ends as it is: nobody is asked in the middle of a call.
			ok, err := s.permitted(ctx, j)
			if err != nil && !contracts.Final(err) {
				return err
			}
			if ok {
				j.after = rec
				return s.perform(ctx, j)
			}
		}
	}
	o := unknown("the executor of the call was lost; the call may or may not have happened")
	if rec.Cancelled {
		o = cancelled(contracts.SideEffectsUnknown)
	}
	return s.end(ctx, key, o, func(now *contracts.Call) error {
		if now.State != contracts.CallStateRunning || now.Attempt != rec.Attempt || now.Owner != rec.Owner || time.Now().Before(now.Lease) {
			return errMoved
		}
		return nil
	})
}

// mayRepeat reports whether a call that was begun could be begun again, if its tool allows it.
func (s *Service) mayRepeat(rec *contracts.Call) bool {
	return !rec.Cancelled && rec.Attempt < mostAttempts && time.Now().Before(s.deadline(rec))
}

func unstarted(rec *contracts.Call) bool {
	return rec.State == contracts.CallStateRequested || rec.State == contracts.CallStateAdmitted
}

// endUnstarted ends a call that nobody has begun.
func (s *Service) endUnstarted(ctx context.Context, key contracts.Key, o contracts.Outcome) error {
	return s.end(ctx, key, o, func(rec *contracts.Call) error {
		if !unstarted(rec) {
			return errMoved
		}
		return nil
	})
}

// end ends a call, unless may says that it is not ours to end.
func (s *Service) end(ctx context.Context, key contracts.Key, o contracts.Outcome, may func(*contracts.Call) error) error {
	_, err := s.caller.End(ctx, key, o, may)
	return ignoreMoved(err)
}

func ignoreMoved(err error) error {
	if errors.Is(err, errMoved) || contracts.CodeOf(err) == contracts.CodeNotFound {
		return nil
	}
	return err
}

// Times of the sweep.
const (
	// unheardAfter is how long a call may wait for an executor before it is woken for again.
	unheardAfter = 5 * time.Second
	// unheardDecision is how often a call that waits for a decision looks whether it missed it.
	unheardDecision = 10 * time.Minute
	// leaseSlack is how long after the end of a lease others look at its call.
	leaseSlack = 100 * time.Millisecond
)

// sweep sees to calls that nobody works on.
func (s *Service) sweep(ctx context.Context) error {
	return s.calls.Sweep(ctx, "executor-sweep", func(ctx context.Context, key contracts.Key, rec *contracts.Call) (time.Duration, error) {
		again, err := s.look(ctx, key, rec)
		if err != nil { // never an error: the sweep would give the record up
			s.log.Error("call not looked after", "key", string(key), "err", err)
			return soon, nil
		}
		return again, nil
	})
}

// look does what a call needs that stands still, and says when to look again.
func (s *Service) look(ctx context.Context, key contracts.Key, rec *contracts.Call) (time.Duration, error) {
	left := time.Until(s.deadline(rec))
	switch rec.State {
	case contracts.CallStateRequested, contracts.CallStateAdmitted:
		age := time.Since(rec.Requested)
		switch {
		case left <= 0:
			return 0, s.endUnstarted(ctx, key, timedOut(contracts.SideEffectsNone))
		case age < unheardAfter:
			return min(unheardAfter-age, left), nil
		}
		// The longer it waits the more rarely: it may stand in a long queue.
		return min(age, left), s.wakeAgain(ctx, key)
	case contracts.CallStateWaiting:
		if rec.Waits == contracts.WaitsForApproval { // whose end is an event
			return unheardDecision, s.wakeAgain(ctx, key)
		}
		if left > 0 {
			return left, nil
		}
		return 0, s.end(ctx, key, timedOut(contracts.SideEffectsUnknown), func(now *contracts.Call) error {
			if now.State != contracts.CallStateWaiting || time.Now().Before(s.deadline(now)) {
				return errMoved
			}
			return nil
		})
	case contracts.CallStateRunning:
		if wait := time.Until(rec.Lease); wait > 0 {
			return wait + leaseSlack, nil
		}
		return s.cfg.Lease, s.wakeAgain(ctx, key)
	case contracts.CallStateFinished:
		if rec.Approval != "" || rec.Attempt == 0 { // it may have asked, and died before that was in its record
			return 0, s.withdraw(ctx, key.Tenant(), rec)
		}
	}
	return 0, nil
}

// withdraw ends the approval that a finished call still asks for.
func (s *Service) withdraw(ctx context.Context, t contracts.TenantID, rec *contracts.Call) error {
	_, err := s.approvals.Void(ctx, t, contracts.ApprovalOf(rec.ID), approvals.CallEnded)
	if contracts.CodeOf(err) == contracts.CodeNotFound {
		return nil
	}
	return err
}

// wakeAgain wakes an executor. A queue that is full will have one come by in any case.
func (s *Service) wakeAgain(ctx context.Context, key contracts.Key) error {
	err := s.bus.Wake(ctx, key, "")
	if contracts.CodeOf(err) == contracts.CodeRateLimited {
		return nil
	}
	return err
}

// withdrawn finds the tool of that name among those that the run once had, and why it left; "" for none.
func withdrawn(tools map[contracts.ToolID]contracts.Withdrawal, name string) (contracts.ToolID, contracts.Withdrawal) {
	name = strings.TrimSpace(name)
	found := contracts.ToolID(name)
	if _, ok := tools[found]; !ok {
		found = ""
		for id := range tools {
			if goesBy(id, name) && (found == "" || id < found) {
				found = id
			}
		}
	}
	return found, tools[found]
}
