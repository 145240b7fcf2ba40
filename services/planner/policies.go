package planner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// storePolicies brings the records of origin [contracts.PolicyFile] in line with the configuration: it
// writes the layers of each tenant where they differ, and empties the record of a tenant that has none any more.
func (s *Service) storePolicies(ctx context.Context) error {
	want := map[contracts.Key][]contracts.PolicyLayer{}
	err := s.policies.List(ctx, "*."+contracts.PolicyFile, func(k contracts.Key, _ *contracts.PolicyRecord) error {
		want[k] = nil
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the stored policies: %w", err)
	}
	for t, of := range s.cfg.Tenants {
		if k := contracts.PolicyKey(t, contracts.PolicyFile); len(of.Layers) > 0 {
			want[k] = of.Layers
		}
	}
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if err := s.storePolicy(ctx, k, want[k]); err != nil {
			return fmt.Errorf("store the policy of %s: %w", k.Tenant(), err)
		}
	}
	return nil
}

// errSame says that a record is as it should be.
var errSame = errors.New("the record is as it should be")

func (s *Service) storePolicy(ctx context.Context, k contracts.Key, layers []contracts.PolicyLayer) error {
	change := func(r *contracts.PolicyRecord) ([]contracts.Event, error) {
		if sameLayers(r.Layers, layers) {
			return nil, errSame
		}
		r.Layers = layers
		return nil, nil
	}
	_, err := s.policies.Transition(ctx, k, change)
	if contracts.CodeOf(err) == contracts.CodeNotFound {
		err = s.policies.Create(ctx, k, &contracts.PolicyRecord{Layers: layers})
		if contracts.CodeOf(err) == contracts.CodeConflict { // another replica was faster
			_, err = s.policies.Transition(ctx, k, change)
		}
	}
	if errors.Is(err, errSame) {
		return nil
	}
	return err
}

func sameLayers(a, b []contracts.PolicyLayer) bool {
	return slices.EqualFunc(a, b, func(x, y contracts.PolicyLayer) bool {
		return x.Level == y.Level && x.Name == y.Name && slices.Equal(x.Allow, y.Allow) && slices.Equal(x.Deny, y.Deny) &&
			slices.EqualFunc(x.Rules, y.Rules, contracts.PolicyRule.Equal)
	})
}
