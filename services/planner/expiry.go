package planner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// errEarly says that a timer came before the run's end, which was moved or which our clock has not reached.
var errEarly = errors.New("the run has not expired")

// expire closes the run that a due timer names, if its time has come.
func (s *Service) expire(ctx context.Context, m bus.Message) error {
	t, id, err := contracts.ParseRunExpiry(m.Subject)
	if err != nil {
		return err
	}
	r, err := s.runs.Transition(ctx, contracts.RunKey(t, id), func(r *contracts.Run) ([]contracts.Event, error) {
		now := time.Now().UTC()
		switch {
		case r.State != contracts.RunStatePlanned:
			return nil, errSettled
		case now.Before(r.Expires):
			return nil, errEarly
		}
		r.State, r.Ended, r.Ending = contracts.RunStateClosed, now, contracts.EndingExpired
		return []contracts.Event{contracts.RunClosed{At: now, Run: id, Ending: contracts.EndingExpired}}, nil
	})
	switch {
	case errors.Is(err, errEarly):
		return bus.Later(max(time.Until(r.Expires), time.Millisecond))
	case err != nil && !errors.Is(err, errSettled) && contracts.CodeOf(err) != contracts.CodeNotFound:
		return err
	}
	return s.forget(ctx, m.Seq)
}

// forget deletes a message that became due, which the stream would keep for ever. Purging its subject
// instead would have the server forget others of the consumer's messages that are put off.
func (s *Service) forget(ctx context.Context, seq uint64) error {
	timers, err := s.bus.JS.Stream(ctx, contracts.StreamTimers)
	if err == nil {
		err = timers.DeleteMsg(ctx, seq)
	}
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) && !errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
		return fmt.Errorf("delete a timer that was due: %w", err)
	}
	return nil
}
