package gateway

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/policy"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/store"
	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A policyTable holds the records of policies.
type policyTable = store.Table[contracts.PolicyRecord, *contracts.PolicyRecord]

// registerAdmin adds the routes that operate a tenant.
func (a *api) registerAdmin(r *routes) {
	add(r, operation{method: "GET", path: "/v1/sources", id: "listSources", tag: "sources", scopes: operators(), text: "List the sources of the tenant."},
		func(ctx context.Context, _ *nothing) (*body[client.SourceList], error) {
			list, err := a.sources(ctx, principalOf(ctx).tenant)
			return answer(client.SourceList{Sources: list}, err)
		})
	type source struct {
		Source string `path:"source" maxLength:"128" doc:"kind:owner, such as mcp:calendar."`
	}
	add(r, operation{method: "POST", path: "/v1/sources/{source}/refresh", id: "refreshSource", tag: "sources", scopes: admins(), text: "Discover the tools of a source again."},
		func(ctx context.Context, in *source) (*body[client.Source], error) {
			return answer(a.refresh(ctx, principalOf(ctx).tenant, in.Source))
		})
	add(r, operation{method: "GET", path: "/v1/policies", id: "showPolicies", tag: "policies", scopes: admins(), text: "Show the policy layers of the tenant."},
		func(ctx context.Context, _ *nothing) (*body[client.Policies], error) {
			return answer(a.policiesOf(ctx, principalOf(ctx).tenant))
		})
	add(r, operation{method: "PUT", path: "/v1/policies", id: "setPolicies", tag: "policies", scopes: admins(), text: "Replace the policy layers that were set here."},
		func(ctx context.Context, in *body[client.PolicyUpdate]) (*body[client.Policies], error) {
			t := principalOf(ctx).tenant
			if err := a.setPolicies(ctx, t, in.Body.Layers); err != nil {
				return nil, err
			}
			return answer(a.policiesOf(ctx, t))
		})
	add(r, operation{method: "DELETE", path: "/v1/policies", id: "deletePolicies", tag: "policies", scopes: admins(), status: http.StatusNoContent, text: "Remove the policy layers that were set here."},
		func(ctx context.Context, _ *nothing) (*nothing, error) {
			return &nothing{}, a.setPolicies(ctx, principalOf(ctx).tenant, nil)
		})
}

// sources returns the sources of a tenant.
func (a *api) sources(ctx context.Context, t contracts.TenantID) ([]client.Source, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := a.live.Loaded(ctx); err != nil {
		return nil, err
	}
	records, _ := a.live.Sources(t)
	list := make([]client.Source, 0, len(records))
	for _, rec := range records {
		list = append(list, sourceView(rec))
	}
	return list, nil
}

// sourceView returns what an operator is shown of a source.
func sourceView(r *contracts.SourceRecord) client.Source {
	v := client.Source{
		Source: r.Source, State: r.State, Reason: r.Reason, Detail: r.Detail, Tools: r.Tools, Listing: r.Listing,
		Discovered: r.Discovered, AlwaysLoad: r.AlwaysLoad, Skipped: r.Skipped,
	}
	if r.Admission != nil {
		v.Changed, v.Quarantined = r.Admission.Changed, r.Admission.Quarantined
	}
	return v
}

// refreshWithin is how long a refresh is waited for; it goes on after that.
const refreshWithin = 20 * time.Second

// refresh has a source discovered again and returns it as it then is.
func (a *api) refresh(ctx context.Context, t contracts.TenantID, id string) (client.Source, error) {
	none := contracts.Errorf(contracts.CodeNotFound, "there is no source %q", clip(id))
	if plain, err := url.PathUnescape(id); err == nil {
		id = plain
	}
	source, err := contracts.ParseSourceID(id)
	if err != nil {
		return client.Source{}, none
	}
	q := contracts.DiscoverRequest{Sources: []contracts.SourceID{source}, Force: true, Wait: refreshWithin.Milliseconds()}
	found, err := bus.Ask[contracts.DiscoverAnswer](ctx, a.bus, t, contracts.VerbDiscover, q)
	if err != nil {
		return client.Source{}, err
	}
	for i := range found.Sources {
		if found.Sources[i].Source == source {
			return sourceView(&found.Sources[i]), nil
		}
	}
	return client.Source{}, none
}

// policiesOf returns the policy layers of a tenant.
func (a *api) policiesOf(ctx context.Context, t contracts.TenantID) (client.Policies, error) {
	p := client.Policies{Layers: []contracts.PolicyLayer{}}
	for origin, layers := range map[string]*[]contracts.PolicyLayer{contracts.PolicyAPI: &p.Layers, contracts.PolicyFile: &p.File} {
		rec, err := a.policies.Get(ctx, contracts.PolicyKey(t, origin))
		switch {
		case contracts.CodeOf(err) == contracts.CodeNotFound:
		case err != nil:
			return p, err
		case len(rec.Layers) > 0:
			*layers = rec.Layers
		}
	}
	return p, nil
}

// setPolicies replaces the policy layers that were set over the API.
func (a *api) setPolicies(ctx context.Context, t contracts.TenantID, layers []contracts.PolicyLayer) error {
	now, err := a.policiesOf(ctx, t)
	if err != nil {
		return err
	}
	_, err = policy.Compile(slices.Concat(layers, now.File)) // they hold together
	if err == nil {
		err = policy.CheckAim(layers)
	}
	if err != nil {
		e := contracts.AsError(err)
		for i := range e.Fields {
			e.Fields[i].Field = "/layers" + e.Fields[i].Field
		}
		return e
	}
	key := contracts.PolicyKey(t, contracts.PolicyAPI)
	for {
		_, err := a.policies.Transition(ctx, key, func(rec *contracts.PolicyRecord) ([]contracts.Event, error) {
			rec.Layers = layers
			return nil, nil
		})
		if contracts.CodeOf(err) != contracts.CodeNotFound || len(layers) == 0 {
			return ignoreNotFound(err)
		}
		err = a.policies.Create(ctx, key, &contracts.PolicyRecord{Layers: layers})
		if contracts.CodeOf(err) != contracts.CodeConflict { // another was faster: replace what it made
			return err
		}
	}
}

func ignoreNotFound(err error) error {
	if contracts.CodeOf(err) == contracts.CodeNotFound {
		return nil
	}
	return err
}
