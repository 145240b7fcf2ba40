package planner

import (
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func TestExpiry(t *testing.T) {
	created := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name    string
		expires time.Time
		in      int64
		want    time.Duration
	}{
		{"as the record says", created.Add(time.Hour), 0, time.Hour},
		{"not later than 7 days", created.Add(30 * 24 * time.Hour), 0, 7 * 24 * time.Hour},
		{"by default", time.Time{}, 0, 24 * time.Hour},
		{"as wished", time.Time{}, 90, 90 * time.Second},
		{"wished too long", time.Time{}, 1 << 62, 7 * 24 * time.Hour},
		{"wished below 0", time.Time{}, -5, 24 * time.Hour},
	} {
		r := &contracts.Run{Created: created, Expires: tt.expires, Request: contracts.RunRequest{ExpiresIn: tt.in}}
		if got := expiry(r).Sub(created); got != tt.want {
			t.Errorf("%s: the run lives %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestRunsExpire(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	c.list(acme, "mcp:mail", tools("mcp:mail", "send")...)
	id := c.create(acme, &contracts.Run{
		ID: contracts.NewRunID(), State: contracts.RunStateRequested, Created: time.Now().UTC(), Expires: time.Now().UTC().Add(time.Second),
	})
	long := c.open(acme, contracts.RunRequest{})
	c.settled(acme, id)
	var r *contracts.Run
	c.until("the run is closed", func() bool { r = c.run(acme, id); return r.State == contracts.RunStateClosed })
	if r.Ending != contracts.EndingExpired || r.Ended.Before(r.Expires) {
		t.Errorf("the run ended at %v (%s), want after %v (%s)", r.Ended, r.Ending, r.Expires, contracts.EndingExpired)
	}
	if e := events[contracts.RunClosed](c, acme, id); len(e) != 1 || e[0].Ending != contracts.EndingExpired {
		t.Errorf("events = %s, want one that says expired", asJSON(t, e))
	}
	if r := c.run(acme, long.ID); r.State != contracts.RunStatePlanned {
		t.Errorf("a run whose time has not come is %s", r.State)
	}
	c.until("the due message is gone", func() bool {
		s, err := c.bus.JS.Stream(t.Context(), contracts.StreamTimers)
		c.check(err)
		_, due := contracts.RunExpiryTimer(acme, id)
		_, err = s.GetLastMsgForSubject(t.Context(), due)
		return err != nil
	})
}

// A timer that comes too early does not end the run, and comes again; one for a run that has ended does nothing.
func TestTimerChecksTheRecord(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	c.list(acme, "mcp:mail", tools("mcp:mail", "send")...)
	moved, ended := c.open(acme, contracts.RunRequest{}), c.open(acme, contracts.RunRequest{})
	_, err := c.runs.Transition(t.Context(), contracts.RunKey(acme, moved.ID), func(r *contracts.Run) ([]contracts.Event, error) {
		r.Expires = time.Now().UTC().Add(1500 * time.Millisecond)
		return nil, nil
	})
	c.check(err)
	_, err = c.runs.Transition(t.Context(), contracts.RunKey(acme, ended.ID), func(r *contracts.Run) ([]contracts.Event, error) {
		r.State, r.Ending, r.Expires = contracts.RunStateClosed, contracts.EndingClosed, time.Now().UTC()
		return []contracts.Event{contracts.RunClosed{Run: r.ID, Ending: r.Ending}}, nil
	})
	c.check(err)
	for _, id := range []contracts.RunID{moved.ID, ended.ID} {
		_, due := contracts.RunExpiryTimer(acme, id)
		_, err := c.bus.JS.Publish(t.Context(), due, nil)
		c.check(err)
	}
	var r *contracts.Run
	c.until("the moved run is closed", func() bool { r = c.run(acme, moved.ID); return r.State == contracts.RunStateClosed })
	if r.Ended.Before(r.Expires) {
		t.Errorf("the run ended at %v, before %v", r.Ended, r.Expires)
	}
	if r := c.run(acme, ended.ID); r.Ending != contracts.EndingClosed || len(events[contracts.RunClosed](c, acme, ended.ID)) != 1 {
		t.Errorf("the run that had ended is %s with %s", r.State, r.Ending)
	}
}
