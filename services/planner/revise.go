package planner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/catalogue"
	"github.com/toolcrib/toolcrib/internal/core/live"
	"github.com/toolcrib/toolcrib/internal/core/policy"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// errOvertaken says that another revision came between reading a run and changing it.
var errOvertaken = errors.New("the run was revised meanwhile")

// revise brings a run's catalogue up to the present state of sources and policies. Questions about one run
// are worked on one after the other, so that all but the first find the work done.
func (s *Service) revise(ctx context.Context, t contracts.TenantID, q contracts.ReviseRequest) (contracts.ReviseAnswer, error) {
	id, err := contracts.ParseRunID(string(q.Run))
	if err != nil {
		return contracts.ReviseAnswer{}, err
	}
	key := contracts.RunKey(t, id)
	unlock, err := s.locks.lock(ctx, key)
	if err != nil {
		return contracts.ReviseAnswer{}, err
	}
	defer unlock()
	for {
		p, err := s.reviseOnce(ctx, key)
		if errors.Is(err, errOvertaken) {
			continue
		}
		if err != nil {
			return contracts.ReviseAnswer{}, err
		}
		return contracts.ReviseAnswer{Plan: *p}, nil
	}
}

func (s *Service) reviseOnce(ctx context.Context, key contracts.Key) (*contracts.Plan, error) {
	r, err := s.runs.Get(ctx, key)
	if contracts.CodeOf(err) == contracts.CodeNotFound {
		return nil, contracts.Errorf(contracts.CodeNotFound, "there is no such run")
	}
	if err != nil {
		return nil, err
	}
	if err := live.Usable(r); err != nil {
		return nil, err
	}
	t := key.Tenant()
	basis, err := s.sync(ctx, t)
	if err != nil {
		return nil, err
	}
	if r.Plan.Basis == basis {
		return r.Plan, nil
	}
	e, err := s.stricter(ctx, t, r)
	if err != nil {
		return nil, err
	}
	before, err := s.library.Catalogue(ctx, t, r.Plan.CatalogueBlob)
	if err != nil {
		return nil, fmt.Errorf("read the catalogue of run %s: %w", r.ID, err)
	}
	var w *world
	var c *contracts.Catalogue
	err = s.compute(ctx, func() (err error) {
		if w, err = s.survey(ctx, t, basis, e, r.Request.ClientTools); err != nil {
			return err
		}
		most := s.cfg.maxTools(t)
		w.keep(before)
		w.bound(before, most)
		c = w.catalogue()
		c.Withdrawn = w.withdrawn(before, e, most)
		return nil
	})
	if err != nil {
		return nil, err
	}
	blob, err := s.library.PutCatalogue(ctx, t, c)
	if err != nil {
		return nil, err
	}
	return s.revised(ctx, key, r.Plan, w, blob, len(c.Withdrawn))
}

// stricter returns what both the layers that held when the run was planned and those of now allow.
func (s *Service) stricter(ctx context.Context, t contracts.TenantID, r *contracts.Run) (*policy.Effective, error) {
	now, err := s.policy(t, r)
	if err != nil {
		return nil, err
	}
	layers, err := s.library.Layers(ctx, t, r.Plan.Policy)
	if err != nil {
		return nil, fmt.Errorf("read the policy of run %s: %w", r.ID, err)
	}
	then, err := policy.Compile(layers)
	if err != nil {
		return nil, s.noPolicy(t, err)
	}
	return policy.Both(then.For(r.Request.Labels).As(r.Principal), now), nil
}

// revised writes the world into the run's plan, as a new revision where the catalogue changed.
func (s *Service) revised(ctx context.Context, key contracts.Key, from *contracts.Plan, w *world, blob contracts.Hash, withdrawn int) (*contracts.Plan, error) {
	r, err := s.runs.Transition(ctx, key, func(r *contracts.Run) ([]contracts.Event, error) {
		if err := live.Usable(r); err != nil {
			return nil, err
		}
		p := r.Plan
		if p.CatalogueBlob != from.CatalogueBlob || p.Basis != from.Basis {
			return nil, errOvertaken
		}
		news := p.CatalogueBlob != blob
		if news {
			p.CatalogueBlob = blob
			p.Catalogue.Revision++
		}
		news = news || !slices.Equal(p.Pending, w.pending) || !slices.Equal(p.Failed, w.failed)
		w.describe(p)
		if !news {
			return nil, nil
		}
		return []contracts.Event{contracts.RunRevised{
			At: time.Now().UTC(), Run: r.ID, Catalogue: p.Catalogue, CatalogueBlob: p.CatalogueBlob, Pending: p.Pending, Failed: p.Failed, Withdrawn: withdrawn,
		}}, nil
	})
	if err != nil {
		return nil, err
	}
	return r.Plan, nil
}

// keep puts back the listing of the revision before where the run sees no difference to the newest one. A change of
// tools that policy hides so makes no new revision: not even their existence can be told from it.
func (w *world) keep(before *catalogue.Catalogue) {
	for i := range w.parts {
		p := &w.parts[i]
		old := partOf(before, p.source())
		if old == nil || old.Hash == p.listing.Hash || !sameTools(p, old) {
			continue
		}
		v := *p.view
		v.hidden = old.Hidden
		w.parts[i] = part{&v, old.Listing}
	}
}

func partOf(c *catalogue.Catalogue, s contracts.SourceID) *catalogue.Part {
	for i := range c.Parts {
		if c.Parts[i].Source == s {
			return &c.Parts[i]
		}
	}
	return nil
}

// sameTools reports whether a run sees the same in both.
func sameTools(p *part, old *catalogue.Part) bool {
	a, b := p.listing.Listing, old.Listing.Listing
	if a.Title != b.Title || a.Instructions != b.Instructions || a.TrustAnnotations != b.TrustAnnotations ||
		p.visible != len(b.Tools)-len(old.Hidden) {
		return false
	}
	earlier := part{&view{hidden: old.Hidden}, old.Listing}
	var list []*contracts.Tool
	earlier.tools(func(t *contracts.Tool) { list = append(list, t) })
	same := true
	p.tools(func(t *contracts.Tool) {
		o := list[0]
		list = list[1:]
		same = same && t.ID == o.ID && t.Hash == o.Hash && t.Loading == o.Loading
	})
	return same
}

// bound leaves out sources that would take an open run over its limit of tools, those that are new to it
// first. They become failed ones; the run goes on with the others.
func (w *world) bound(before *catalogue.Catalogue, most int) {
	left := most
	take := func(known bool) {
		w.parts = slices.DeleteFunc(w.parts, func(p part) bool {
			if (partOf(before, p.source()) != nil) != known {
				return false
			}
			if p.visible <= left {
				left -= p.visible
				return false
			}
			w.failed = append(w.failed, contracts.SourceStatus{
				Source: p.source(), Reason: "its " + count(p.visible) + " would take the run over its limit of " + strconv.Itoa(most),
			})
			return true
		})
	}
	take(true)
	take(false)
}

// withdrawn returns the tools that the run could see in an earlier revision and can no longer see, with the
// reason of each: policy where e hides the tool, whatever became of it at its source. Those of the
// revision before come first where there are more than most.
func (w *world) withdrawn(before *catalogue.Catalogue, e *policy.Effective, most int) map[contracts.ToolID]contracts.Withdrawal {
	now := map[contracts.ToolID]bool{}
	for i := range w.parts {
		w.parts[i].tools(func(tool *contracts.Tool) { now[tool.ID] = true })
	}
	out := map[contracts.ToolID]contracts.Withdrawal{}
	note := func(id contracts.ToolID, why contracts.Withdrawal) {
		if !now[id] && len(out) < most {
			out[id] = why
		}
	}
	left := func(id contracts.ToolID) contracts.Withdrawal {
		if w.quarantined[id] {
			return contracts.WithdrawnForAdmission
		}
		return contracts.WithdrawnBySource
	}
	for tool := range before.All() {
		why := left(tool.ID)
		if e.See(policy.ToolOf(tool.Tool, tool.Listing.TrustAnnotations)).Denied() {
			why = contracts.WithdrawnByPolicy
		}
		note(tool.ID, why)
	}
	for _, id := range slices.Sorted(maps.Keys(before.Withdrawn)) {
		why := before.Withdrawn[id]
		if why != contracts.WithdrawnByPolicy {
			why = left(id)
		}
		note(id, why)
	}
	if len(out) == 0 {
		return nil
	}
	return out
}
