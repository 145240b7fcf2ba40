package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// handOverWithin is how long another executor has to take a call before it is taken for gone.
const handOverWithin = 3 * time.Second

// perform executes a call, or hands it to the executor that has the connection of the call's session: what a session did over it is known there alone.
func (s *Service) perform(ctx context.Context, j *job) error {
	if j.scope == "" {
		return s.execute(ctx, j)
	}
	key := contracts.SeatKey(j.key.Tenant(), j.source.id, j.scope)
	gone := ""
	for {
		owner, err := s.sit(ctx, key, gone)
		switch {
		case err != nil:
			return err
		case owner == s.id:
			return s.execute(ctx, j)
		}
		taken, err := s.handOver(ctx, j.key, owner)
		switch {
		case err != nil:
			s.log.Warn("an executor is gone: another takes its session", "executor", owner, "source", j.source.id.String(), "err", err)
			gone = owner
		case taken:
			return nil
		default:
			return bus.Later(putOff(1))
		}
	}
}

var errSeated = errors.New("the seat is taken")

// sit returns the executor that has the seat: this one where it was free or belonged to the one that is gone.
func (s *Service) sit(ctx context.Context, key contracts.Key, gone string) (owner string, err error) {
	for {
		seat, err := s.seats.Get(ctx, key)
		switch {
		case contracts.CodeOf(err) == contracts.CodeNotFound:
			err = s.seats.Create(ctx, key, &contracts.Seat{Executor: s.id})
			if contracts.CodeOf(err) == contracts.CodeConflict {
				continue // another was faster
			}
			return s.id, err
		case err != nil:
			return "", err
		case seat.Executor != gone:
			return seat.Executor, nil
		}
		seat, err = s.seats.Transition(ctx, key, func(seat *contracts.Seat) ([]contracts.Event, error) {
			if seat.Executor != gone {
				return nil, errSeated
			}
			seat.Executor = s.id
			return nil, nil
		})
		if err != nil && !errors.Is(err, errSeated) {
			return "", err
		}
		return seat.Executor, nil
	}
}

// The answers of an executor that is handed a call.
const (
	handTaken = "taken"
	handBusy  = "busy"
)

// handOver asks an executor to take a call, which it does not where the tenant's places there are taken. The error is of one that does not answer.
func (s *Service) handOver(ctx context.Context, key contracts.Key, to string) (taken bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, handOverWithin)
	defer cancel()
	data, err := json.Marshal(bus.Wakeup{Key: key})
	if err != nil {
		return false, err
	}
	m, err := s.bus.Conn.RequestWithContext(ctx, contracts.HandOverSubject(key.Tenant(), to), data)
	if err != nil {
		return false, fmt.Errorf("hand a call over: %w", err)
	}
	return string(m.Data) == handTaken, nil
}

// receive takes the calls that others hand over, until ctx is done, and then finishes them. The sweep wakes for one that is put off.
func (s *Service) receive(ctx context.Context) error {
	var working sync.WaitGroup
	defer working.Wait()
	var mu sync.Mutex
	over := false
	sub, err := s.bus.Conn.Subscribe(contracts.AllHandOvers(s.id), func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		if over {
			m.Respond([]byte(handBusy))
			return
		}
		key, leave, ok := s.handed(m)
		if !ok {
			m.Respond([]byte(handBusy))
			return
		}
		m.Respond([]byte(handTaken))
		working.Go(func() {
			defer leave()
			if err := s.advance(context.WithoutCancel(ctx), key); err != nil {
				s.log.Debug("a call that was handed over is put off", "key", string(key), "err", err)
			}
		})
	})
	if err != nil {
		return fmt.Errorf("listen for calls that are handed over: %w", err)
	}
	<-ctx.Done()
	sub.Unsubscribe()
	mu.Lock()
	defer mu.Unlock()
	over = true
	return nil
}

// handed returns the call that a message hands over, where its tenant has a place for it.
func (s *Service) handed(m *nats.Msg) (key contracts.Key, leave func(), ok bool) {
	var w bus.Wakeup
	p := strings.Split(m.Subject, ".")
	if err := json.Unmarshal(m.Data, &w); err != nil || len(p) != 4 || contracts.TenantID(p[1]) != w.Key.Tenant() {
		s.log.Error("not a call that could be handed over", "subject", m.Subject)
		return "", nil, false
	}
	leave, ok = s.running.enter(w.Key.Tenant())
	return w.Key, leave, ok
}
