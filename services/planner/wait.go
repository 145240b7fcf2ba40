package planner

import (
	"context"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/policy"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const (
	// loadWait is how long planning waits for a source that must be loaded.
	loadWait = 5 * time.Second
	// mostWait caps what a run can wish to wait for its sources.
	mostWait = time.Minute
	// syncWait is how long the newest policies can take to come.
	syncWait = 5 * time.Second
	// mostWaiting bounds the runs of one tenant that wait at a time in one replica, so that those of others are not held up.
	mostWaiting = workers / 4
)

// A putOff is the error of work that is to be taken up again after so long. It is no failure.
type putOff time.Duration

func (p putOff) Error() string { return "put off for " + time.Duration(p).String() }

func wished(r *contracts.Run) time.Duration {
	ms := min(max(r.Request.WaitForSources, 0), mostWait.Milliseconds())
	return time.Duration(ms) * time.Millisecond
}

// longestWait is how long planning the run can wait for sources.
func longestWait(r *contracts.Run) time.Duration { return max(wished(r), loadWait) }

// await waits for the sources that the run must not miss: those that must be loaded, up to loadWait, and, where
// the run wishes it, every other, up to what it wishes. It waits for nothing that policy hides from the run. Where stop
// ends first, or too many runs of the tenant wait already, the error is a putOff.
func (s *Service) await(ctx context.Context, t contracts.TenantID, r *contracts.Run, stop context.Context) error {
	start := time.Now()
	load, all := start.Add(loadWait), start.Add(wished(r))
	entered := false
	for {
		until, changed, err := s.awaited(t, r, load, all)
		if err != nil || until.IsZero() {
			return err
		}
		if !entered {
			if entered = s.waits.enter(string(t), mostWaiting); !entered {
				return putOff(time.Second)
			}
			defer s.waits.leave(string(t))
		}
		timer := time.NewTimer(time.Until(until))
		select {
		case <-changed:
		case <-timer.C:
		case <-stop.Done():
			timer.Stop()
			return putOff(time.Millisecond)
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		timer.Stop()
	}
}

// awaited returns until when a source is to be waited for, zero for none, and what tells of news.
func (s *Service) awaited(t contracts.TenantID, run *contracts.Run, load, all time.Time) (until time.Time, changed <-chan struct{}, err error) {
	e, err := s.policy(t, run)
	if err != nil {
		return until, nil, err
	}
	now := time.Now()
	records, changed := s.state.Sources(t)
	for _, r := range records {
		if !waiting(r) || !couldShow(e, r.Source) {
			continue
		}
		end := all
		if r.AlwaysLoad && load.After(end) {
			end = load
		}
		if end.After(now) && (until.IsZero() || end.Before(until)) {
			until = end
		}
	}
	return until, changed, nil
}

// sync waits until this process knows the policies that hold now, and returns the basis of what it then knows.
func (s *Service) sync(ctx context.Context, t contracts.TenantID) (basis string, err error) {
	ctx, cancel := context.WithTimeout(ctx, syncWait)
	defer cancel()
	if err := s.state.Sync(ctx); err != nil {
		return "", err
	}
	return s.state.Basis(t), nil
}

// policy returns what holds now for a run of tenant t. A policy that cannot be evaluated lets nothing
// through; the error says no more, because the policy's text can name what it hides.
func (s *Service) policy(t contracts.TenantID, r *contracts.Run) (*policy.Effective, error) {
	e, err := s.state.PolicyFor(t, r)
	if err != nil {
		return nil, s.noPolicy(t, err)
	}
	return e, nil
}

func (s *Service) noPolicy(t contracts.TenantID, cause error) error {
	s.log.Error("policy cannot be evaluated", "tenant", t, "err", cause)
	return contracts.Errorf(contracts.CodePolicyDenied, "the tenant's policy cannot be evaluated, so that it allows nothing; its operator must correct it")
}
