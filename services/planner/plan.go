package planner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/internal/core/policy"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const (
	defaultLife = 24 * time.Hour
	longestLife = 7 * 24 * time.Hour
)

// errSettled says that a run is no longer waiting to be planned: another was faster, or it was closed.
var errSettled = errors.New("the run is settled")

// plan plans the run of key if it still asks for it. A nil stop means not to wait for sources. A
// request that cannot be served fails the run and is no error.
func (s *Service) plan(ctx context.Context, key contracts.Key, stop context.Context) error {
	r, err := s.runs.Get(ctx, key)
	if contracts.CodeOf(err) == contracts.CodeNotFound {
		return nil // too old to be kept
	}
	if err != nil {
		return err
	}
	if r.State != contracts.RunStateRequested {
		return nil
	}
	p, err := s.draft(ctx, key.Tenant(), r, stop)
	if _, later := errors.AsType[putOff](err); later {
		return err
	}
	if _, final := errors.AsType[refusal](err); final || err != nil && contracts.Final(err) {
		return s.fail(ctx, key, err)
	}
	if err != nil {
		return fmt.Errorf("plan %s: %w", r.ID, err)
	}
	return s.settle(ctx, key, p)
}

// draft makes the plan of a run.
func (s *Service) draft(ctx context.Context, t contracts.TenantID, r *contracts.Run, stop context.Context) (*contracts.Plan, error) {
	wish, err := config.ParseToolSearch(r.Request.ToolSearch)
	if err != nil {
		return nil, err
	}
	s.refresh(t)
	if stop != nil {
		if err := s.await(ctx, t, r, stop); err != nil {
			return nil, err
		}
	}
	basis, err := s.sync(ctx, t)
	if err != nil {
		return nil, err
	}
	e, err := s.policy(t, r)
	if err != nil {
		return nil, err
	}
	choice, level := effective(s.cfg.levels(t, wish, r.Request.Profile))
	unready, err := s.sandboxFor(ctx, t, choice)
	if err != nil {
		return nil, err
	}
	var w *world
	var sh shown
	p := &contracts.Plan{
		CodeTimeoutMs: int64(choice.CodeTimeoutMs), SearchLimit: choice.SearchDefaultLimit, SearchMost: choice.MaxSearchLimit,
	}
	err = s.compute(ctx, func() error {
		if w, err = s.survey(ctx, t, basis, e, r.Request.ClientTools); err != nil {
			return err
		}
		if err := w.check(s.cfg.maxTools(t)); err != nil {
			return err
		}
		f := w.facts(e, r.Request.ContextWindow)
		f.choice, f.level, f.surfaces, f.sandbox = choice, level, s.cfg.surfaces(), unready
		p.Decision = decide(f)
		if err := refused(f, p.Decision); err != nil {
			return err
		}
		p.Surface = p.Decision.Surface
		w.describe(p)
		sh = w.surface(p.Surface, choice, r.Request.ContextWindow)
		p.Seen, err = s.measure(t, &sh)
		return err
	})
	if err != nil {
		return nil, err
	}
	return p, s.store(ctx, t, p, w, &sh, e)
}

// store puts what the plan names where it can be found.
func (s *Service) store(ctx context.Context, t contracts.TenantID, p *contracts.Plan, w *world, sh *shown, e *policy.Effective) (err error) {
	p.Catalogue.Revision = 1
	if p.CatalogueBlob, err = s.library.PutCatalogue(ctx, t, w.catalogue()); err != nil {
		return err
	}
	if p.SurfaceHash, err = s.library.PutSurface(ctx, t, &sh.Surface); err != nil {
		return err
	}
	p.Policy, err = s.library.PutLayers(ctx, t, e.Layers())
	return err
}

// check returns why the world is not one that a run can be opened with.
func (w *world) check(most int) error {
	if n := w.size(); n > most {
		big := slices.MaxFunc(w.parts, func(a, b part) int { return cmp.Compare(a.visible, b.visible) })
		return contracts.Errorf(contracts.CodeCatalogueTooLarge, "the run would hold %d tools, %d of them of %s; its tenant's limit is %d",
			n, big.visible, big.source(), most)
	}
	return w.collisions()
}

// facts returns what the world says to a decision.
func (w *world) facts(e *policy.Effective, window int) facts {
	f := facts{denied: deniedControls(e), window: window, tools: w.size(), pending: len(w.pending)}
	for i := range w.parts {
		f.deferred += w.parts[i].deferred
	}
	return f
}

// A refusal is an error of a run that is not to be opened, also where another try could help.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// refused returns an error where the settings say that a run without a sandbox is not to be opened.
func refused(f facts, d contracts.Decision) error {
	missing := f.missing()
	if f.choice.CodeUnavailable != "refuse" || f.choice.Mode != contracts.SurfaceCode || missing == "" || !f.allows(contracts.SurfaceCode) {
		return nil
	}
	if d.Surface == contracts.SurfaceDirect && d.Winner == conditionDefinitions {
		return nil // everything is direct, sandbox or not
	}
	return refusal{contracts.Errorf(contracts.CodeUnavailable,
		"the surface code is not available (%s), and codeUnavailable is refuse; wish another surface, or try again later", missing)}
}

// settle makes the run planned. Its timer is set first, so that no planned run is without one.
func (s *Service) settle(ctx context.Context, key contracts.Key, p *contracts.Plan) error {
	timed := false
	_, err := s.runs.Transition(ctx, key, func(r *contracts.Run) ([]contracts.Event, error) {
		if r.State != contracts.RunStateRequested {
			return nil, errSettled
		}
		r.Expires = expiry(r)
		if !timed {
			timer, due := contracts.RunExpiryTimer(key.Tenant(), r.ID)
			if err := s.bus.Schedule(ctx, timer, due, r.Expires); err != nil {
				return nil, err
			}
			timed = true
		}
		now := time.Now().UTC()
		r.State, r.Planned, r.Plan = contracts.RunStatePlanned, now, p
		return []contracts.Event{contracts.RunPlanned{At: now, Run: r.ID, Plan: *p, Ms: max(now.Sub(r.Created).Milliseconds(), 0)}}, nil
	})
	if errors.Is(err, errSettled) {
		return nil
	}
	return err
}

// expiry returns when the run ends by itself: as its record says, and never later than the longest life.
func expiry(r *contracts.Run) time.Time {
	latest := r.Created.Add(longestLife)
	switch life := r.Request.ExpiresIn; {
	case !r.Expires.IsZero() && r.Expires.Before(latest):
		return r.Expires
	case !r.Expires.IsZero() || life > int64(longestLife/time.Second):
		return latest
	case life > 0:
		return r.Created.Add(time.Duration(life) * time.Second)
	}
	return r.Created.Add(defaultLife)
}

// fail ends a run that cannot be planned.
func (s *Service) fail(ctx context.Context, key contracts.Key, cause error) error {
	e := contracts.AsError(cause)
	if e.Code == contracts.CodeInternal {
		s.log.Error("run cannot be planned", "run", key, "err", cause)
	}
	_, err := s.runs.Transition(ctx, key, func(r *contracts.Run) ([]contracts.Event, error) {
		if r.State != contracts.RunStateRequested {
			return nil, errSettled
		}
		now := time.Now().UTC()
		r.State, r.Ended, r.Error = contracts.RunStateFailed, now, e
		return []contracts.Event{contracts.RunFailed{At: now, Run: r.ID, Error: *e}}, nil
	})
	if errors.Is(err, errSettled) {
		return nil
	}
	return err
}
