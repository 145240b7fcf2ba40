package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolcrib/toolcrib/internal/core/catalogue"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/store"
	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const (
	planWithin = 20 * time.Second // for a run to be planned, beyond the wait for sources
	// lookAgain bounds how long a wait trusts that no news means no change: news are not stored.
	lookAgain = time.Second
	// tidyWithin is how long what follows a request may take once the request has gone.
	tidyWithin = 10 * time.Second
)

// A runTable holds the records of runs.
type runTable = store.Table[contracts.Run, *contracts.Run]

// A runDesk opens, shows and closes runs, for HTTP and MCP alike. Safe for concurrent use.
type runDesk struct {
	bus      *bus.Bus
	table    *runTable
	calls    *store.Table[contracts.Call, *contracts.Call]
	library  *catalogue.Library
	lifetime time.Duration
	patience time.Duration // for a plan, beyond the wait for sources
	log      *slog.Logger
}

// open opens a run and waits until it is planned. A run that cannot be planned is the error that the planner gave.
func (d *runDesk) open(ctx context.Context, who principal, o client.RunOptions) (*contracts.Run, error) {
	req, err := runRequest(o)
	if err != nil {
		return nil, err
	}
	if req.ClientTools, err = d.keepClientTools(ctx, who.tenant, o.ClientTools); err != nil {
		return nil, err
	}
	now := time.Now().UTC()
	life := cmp.Or(time.Duration(req.ExpiresIn)*time.Second, d.lifetime)
	rec := &contracts.Run{
		ID: contracts.NewRunID(), State: contracts.RunStateRequested, Request: req, Principal: who.name,
		Created: now, Expires: now.Add(life),
	}
	news := make(chan *nats.Msg, 16)
	sub, err := d.bus.Conn.ChanSubscribe(contracts.RunStates(who.tenant, rec.ID), news)
	if err != nil {
		return nil, fmt.Errorf("listen for run %s: %w", rec.ID, err)
	}
	defer sub.Unsubscribe()
	key := contracts.RunKey(who.tenant, rec.ID)
	if err := d.table.Create(ctx, key, rec, contracts.RunRequested{At: now, Run: rec.ID, Request: req}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, d.patience+time.Duration(req.WaitForSources)*time.Millisecond)
	defer cancel()
	planned, err := d.awaitPlan(ctx, key, news)
	if err != nil {
		// Nobody knows the id of the run, so nobody could close it.
		tidy, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyWithin)
		defer cancel()
		if closeErr := d.end(tidy, key, contracts.EndingCancelled); closeErr != nil {
			d.log.Warn("run not closed", "run", rec.ID, "err", closeErr)
		}
		return nil, err
	}
	if planned.State == contracts.RunStateFailed {
		return nil, planned.Error
	}
	return planned, nil
}

// awaitPlan returns the run once it is no longer requested.
func (d *runDesk) awaitPlan(ctx context.Context, key contracts.Key, news <-chan *nats.Msg) (*contracts.Run, error) {
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for {
		rec, err := d.table.Get(ctx, key)
		if ctx.Err() != nil {
			return nil, contracts.Errorf(contracts.CodeTimeout, "the run was not planned in time").After(time.Second)
		}
		if err != nil || rec.State != contracts.RunStateRequested {
			return rec, err
		}
		select {
		case <-news:
		case <-again.C:
		case <-ctx.Done():
		}
	}
}

// get returns the record of a run of the tenant. An id that is none is one that does not exist.
func (d *runDesk) get(ctx context.Context, t contracts.TenantID, id string) (*contracts.Run, error) {
	run, err := contracts.ParseRunID(id)
	if err != nil {
		return nil, noRun(id)
	}
	rec, err := d.table.Get(ctx, contracts.RunKey(t, run))
	if contracts.CodeOf(err) == contracts.CodeNotFound {
		return nil, noRun(id)
	}
	return rec, err
}

func noRun(id string) error {
	return contracts.Errorf(contracts.CodeNotFound, "there is no run %q", clip(id))
}

// view returns a run as its caller sees it.
func (d *runDesk) view(ctx context.Context, t contracts.TenantID, rec *contracts.Run) (*client.RunView, error) {
	v := &client.RunView{
		ID: rec.ID, State: rec.State, Created: rec.Created, Expires: rec.Expires, Ended: rec.Ended, Ending: rec.Ending,
		Error: rec.Error, Pending: []contracts.SourceStatus{}, Failed: []contracts.SourceStatus{},
	}
	p := rec.Plan
	if p == nil {
		return v, nil
	}
	surface, err := d.library.Surface(ctx, t, p.SurfaceHash)
	if err != nil {
		return nil, fmt.Errorf("read the surface of %s: %w", rec.ID, err)
	}
	v.Surface, v.Tools, v.Prompt = p.Surface, surface.Tools, surface.Prompt
	v.Catalogue, v.Decision = &p.Catalogue, &p.Decision
	v.Pending, v.Failed = append(v.Pending, p.Pending...), append(v.Failed, p.Failed...)
	return v, nil
}

// list returns the newest runs of a tenant, at most limit, in the state, "" for any.
func (d *runDesk) list(ctx context.Context, t contracts.TenantID, state contracts.RunState, limit int) ([]client.RunSummary, error) {
	newest := make([]client.RunSummary, 0, limit+1)
	err := d.table.List(ctx, string(t)+".>", func(_ contracts.Key, rec *contracts.Run) error {
		if state != "" && rec.State != state {
			return nil
		}
		at, _ := slices.BinarySearchFunc(newest, rec, func(s client.RunSummary, rec *contracts.Run) int {
			return cmp.Or(rec.Created.Compare(s.Created), cmp.Compare(rec.ID, s.ID))
		})
		if at < limit {
			newest = slices.Insert(newest, at, summary(rec))
			newest = newest[:min(len(newest), limit)]
		}
		return nil
	})
	return newest, err
}

func summary(rec *contracts.Run) client.RunSummary {
	s := client.RunSummary{
		ID: rec.ID, State: rec.State, Labels: rec.Request.Labels, Created: rec.Created, Expires: rec.Expires, Ended: rec.Ended, Ending: rec.Ending,
	}
	if rec.Plan != nil {
		s.Surface, s.Catalogue = rec.Plan.Surface, &rec.Plan.Catalogue
	}
	return s
}

// close ends a run; who has calls and bodies of it ends these. One that has ended stays as it is.
func (d *runDesk) close(ctx context.Context, t contracts.TenantID, id contracts.RunID) error {
	if err := d.end(ctx, contracts.RunKey(t, id), contracts.EndingClosed); err != nil {
		return err
	}
	timer, _ := contracts.RunExpiryTimer(t, id)
	if err := d.bus.Unschedule(ctx, timer); err != nil {
		d.log.Warn("timer not removed", "run", id, "err", err) // it will find the run closed
	}
	return nil
}

var errEnded = errors.New("the run has ended")

// end marks a run as closed, where it has not ended.
func (d *runDesk) end(ctx context.Context, key contracts.Key, why contracts.Ending) error {
	_, err := d.table.Transition(ctx, key, func(rec *contracts.Run) ([]contracts.Event, error) {
		if rec.State != contracts.RunStatePlanned && rec.State != contracts.RunStateRequested {
			return nil, errEnded
		}
		now := time.Now().UTC()
		rec.State, rec.Ended, rec.Ending = contracts.RunStateClosed, now, why
		return []contracts.Event{contracts.RunClosed{At: now, Run: rec.ID, Ending: why}}, nil
	})
	if errors.Is(err, errEnded) {
		return nil
	}
	return err
}
