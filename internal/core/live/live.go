// Package live is what holds right now: the sources and policies of each tenant, and
// its runs brought up to them. What held when a run was planned is in the run's record.
package live

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/toolcrib/toolcrib/internal/core/policy"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/run"
	"github.com/toolcrib/toolcrib/internal/kit/store"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A State follows the sources and policies of all tenants. Safe for concurrent use.
type State struct {
	bus      *bus.Bus
	runs     *store.Table[contracts.Run, *contracts.Run]
	sources  *store.Mirror[contracts.SourceRecord]
	policies *store.Mirror[contracts.PolicyRecord]

	mu       sync.Mutex
	compiled map[contracts.TenantID]compiled
}

// compiled is a tenant's policy and what it was made from.
type compiled struct {
	from   string
	policy *policy.Policy
	err    error
}

// Open returns a State that is empty until Run.
func Open(ctx context.Context, b *bus.Bus) (*State, error) {
	runs, err := store.OpenTable[contracts.Run](ctx, b, contracts.BucketRuns)
	if err != nil {
		return nil, err
	}
	sources, err := store.OpenMirror[contracts.SourceRecord](ctx, b, contracts.BucketSources)
	if err != nil {
		return nil, err
	}
	policies, err := store.OpenMirror[contracts.PolicyRecord](ctx, b, contracts.BucketPolicies)
	if err != nil {
		return nil, err
	}
	return &State{bus: b, runs: runs, sources: sources, policies: policies, compiled: map[contracts.TenantID]compiled{}}, nil
}

// Run follows the buckets until ctx is done.
func (s *State) Run(ctx context.Context) error {
	return run.Group(ctx, s.sources.Run, s.policies.Run)
}

// Loaded waits until the State knows what was stored when it started.
func (s *State) Loaded(ctx context.Context) error {
	if err := s.sources.Loaded(ctx); err != nil {
		return err
	}
	return s.policies.Loaded(ctx)
}

// Sync waits until the State has every policy that was set before it was called, and every tool that was put into quarantine: for calls, which
// must not slip through what was just set.
func (s *State) Sync(ctx context.Context) error {
	if err := s.Loaded(ctx); err != nil {
		return err
	}
	sources := make(chan error, 1)
	go func() { sources <- s.sources.Sync(ctx) }()
	return errors.Join(s.policies.Sync(ctx), <-sources)
}

// Sources returns the configured sources of a tenant, sorted, and a channel that is closed at the next change of any source.
func (s *State) Sources(t contracts.TenantID) ([]*contracts.SourceRecord, <-chan struct{}) {
	all, changed := s.sources.Of(t)
	return slices.DeleteFunc(all, func(r *contracts.SourceRecord) bool { return r.Removed }), changed
}

// Policy returns the tenant's policy. A policy that cannot be compiled is an error: nothing is allowed then.
func (s *State) Policy(t contracts.TenantID) (*policy.Policy, error) {
	records, _ := s.policies.Of(t)
	from := contracts.BasisOf(nil, records)
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.compiled[t]
	if !ok || c.from != from {
		var layers []contracts.PolicyLayer
		for _, r := range records {
			layers = append(layers, r.Layers...)
		}
		c.from = from
		c.policy, c.err = policy.Compile(layers)
		s.compiled[t] = c
	}
	return c.policy, c.err
}

// PolicyFor returns what the tenant's policy now is for a run. The error is that of [State.Policy].
func (s *State) PolicyFor(t contracts.TenantID, r *contracts.Run) (*policy.Effective, error) {
	p, err := s.Policy(t)
	if err != nil {
		return nil, err
	}
	return p.For(r.Request.Labels).As(r.Principal), nil
}

// Basis returns the fingerprint of the tenant's sources and policies, see [contracts.BasisOf].
func (s *State) Basis(t contracts.TenantID) string {
	sources, _ := s.Sources(t)
	policies, _ := s.policies.Of(t)
	return contracts.BasisOf(sources, policies)
}

// Current returns the record of an open run whose catalogue is that of now: where sources or
// policies changed since its last revision, the planner makes a new one first. A run
// that ended or failed is an error with [contracts.CodeRunClosed], one that is not
// planned yet one with [contracts.CodeUnavailable].
func (s *State) Current(ctx context.Context, t contracts.TenantID, id contracts.RunID) (*contracts.Run, error) {
	if err := s.Loaded(ctx); err != nil {
		return nil, err
	}
	r, err := s.runs.Get(ctx, contracts.RunKey(t, id))
	if contracts.CodeOf(err) == contracts.CodeNotFound {
		return nil, contracts.Errorf(contracts.CodeNotFound, "there is no run %q", string(id))
	}
	if err != nil {
		return nil, err
	}
	if err := Usable(r); err != nil {
		return nil, err
	}
	if r.Plan.Basis == s.Basis(t) {
		return r, nil
	}
	answer, err := bus.Ask[contracts.ReviseAnswer](ctx, s.bus, t, contracts.VerbRevise, contracts.ReviseRequest{Run: id})
	if err != nil {
		return nil, err
	}
	r.Plan = &answer.Plan
	return r, nil
}

// Usable returns nil for a run that can search and call, and otherwise says why not.
func Usable(r *contracts.Run) error {
	switch r.State {
	case contracts.RunStatePlanned:
		return nil
	case contracts.RunStateClosed:
		return contracts.Errorf(contracts.CodeRunClosed, "the run has ended (%s)", r.Ending)
	case contracts.RunStateFailed:
		return contracts.Errorf(contracts.CodeRunClosed, "the run could not be planned: %s", r.Error.Message)
	}
	return contracts.Errorf(contracts.CodeUnavailable, "the run is not planned yet")
}
