package executor

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// Why a call's context can end, other than its caller's.
var (
	errDeadline  = errors.New("the call's deadline has passed")
	errCancelled = errors.New("the call was cancelled")
	errLost      = errors.New("the call is no longer ours")
	errStopping  = errors.New("the executor is stopping")
)

// running knows the calls that this executor works on. Safe for concurrent use.
type running struct {
	most int // of one tenant

	mu      sync.Mutex
	tenants map[contracts.TenantID]int
	calls   map[runningKey]context.CancelCauseFunc
}

type runningKey struct {
	tenant contracts.TenantID
	call   contracts.CallID
}

func newRunning(most int) *running {
	return &running{most: most, tenants: map[contracts.TenantID]int{}, calls: map[runningKey]context.CancelCauseFunc{}}
}

// enter takes one of the tenant's places, or returns false where there is none; leave gives it back.
func (r *running) enter(t contracts.TenantID) (leave func(), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tenants[t] >= r.most {
		return nil, false
	}
	r.tenants[t]++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.tenants[t]--; r.tenants[t] == 0 {
			delete(r.tenants, t)
		}
	}, true
}

// add notes how to end a call; it returns false where the call is worked on already.
func (r *running) add(t contracts.TenantID, c contracts.CallID, cancel context.CancelCauseFunc) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := runningKey{t, c}
	if r.calls[k] != nil {
		return false
	}
	r.calls[k] = cancel
	return true
}

func (r *running) remove(t contracts.TenantID, c contracts.CallID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.calls, runningKey{t, c})
}

func (r *running) cancel(t contracts.TenantID, c contracts.CallID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cancel := r.calls[runningKey{t, c}]; cancel != nil {
		cancel(errCancelled)
	}
}

func (r *running) stopAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, cancel := range r.calls {
		cancel(errStopping)
	}
}

// listen hears at once of cancelled calls and closed runs. Nothing depends on it: records tell the same, later.
func (s *Service) listen(ctx context.Context) error {
	cancels, err := s.bus.Conn.Subscribe(contracts.AllCancels, func(m *nats.Msg) {
		if p := strings.Split(m.Subject, "."); len(p) == 4 {
			s.running.cancel(contracts.TenantID(p[1]), contracts.CallID(p[3]))
		}
	})
	if err != nil {
		return err
	}
	defer cancels.Unsubscribe()
	closed, err := s.bus.Conn.Subscribe(contracts.AllRunClosed, func(m *nats.Msg) {
		if subject, err := contracts.ParseSubject(m.Subject); err == nil {
			s.pool.endRun(subject.Tenant, subject.Run)
		}
	})
	if err != nil {
		return err
	}
	defer closed.Unsubscribe()
	<-ctx.Done()
	return nil
}

// hear wakes calls whose approvals have their end, and ends those whose run has, until ctx is done.
func (s *Service) hear(ctx context.Context) error {
	return s.bus.Consume(ctx, bus.Consumer{
		Stream: contracts.StreamEvents, Durable: s.Name() + "-decisions",
		Filters: []string{contracts.AllApprovalsDecided, contracts.AllApprovalsEnded, contracts.AllRunClosed},
	}, bus.EventHandler(func(ctx context.Context, subject contracts.Subject, e contracts.Event, m bus.Message) error {
		var call contracts.CallID
		switch e := e.(type) {
		case contracts.RunClosed:
			return s.caller.CancelRun(ctx, subject.Tenant, subject.Run)
		case contracts.ApprovalDecided:
			call = e.Call
		case contracts.ApprovalEnded:
			call = e.Call
		default:
			return nil
		}
		err := s.bus.Wake(ctx, contracts.CallKey(subject.Tenant, subject.Run, call), m.Subject)
		if contracts.CodeOf(err) == contracts.CodeRateLimited {
			return bus.Later(time.Second)
		}
		return err
	}))
}
