package gateway

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/toolcrib/toolcrib/internal/core/policy"
	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// registerRuling adds the route by which operators ask what policy says, and why.
func (a *api) registerRuling(r *routes) {
	add(r, operation{method: "POST", path: "/v1/runs/{run}/ruling", id: "explainPolicy", tag: "policies", scopes: operators(), status: http.StatusOK, text: "Say whether policy lets the run see and call a tool, and which layer and rule decide."},
		func(ctx context.Context, in *struct {
			Run  string `path:"run" doc:"The run's id."`
			Body client.RulingRequest
		}) (*body[client.RulingView], error) {
			return answer(a.ruling(ctx, principalOf(ctx).tenant, in.Run, in.Body))
		})
}

// ruling returns what the policies of a run's plan and of now say of a tool, by the stricter of which calls are made.
func (a *api) ruling(ctx context.Context, t contracts.TenantID, run string, q client.RulingRequest) (v client.RulingView, err error) {
	if len(q.Arguments) > 0 && !isObject(q.Arguments) {
		return v, wrong("arguments", "is %s; want an object", clip(string(q.Arguments)))
	}
	if _, _, err := q.Tool.Split(); err != nil {
		return v, wrong("tool", "is %q; want a whole tool id, such as mcp:mail:send", clip(string(q.Tool)))
	}
	rec, err := a.runs.get(ctx, t, run)
	if err != nil {
		return v, err
	}
	if err := a.live.Sync(ctx); err != nil {
		return v, err
	}
	e, err := a.live.PolicyFor(t, rec)
	if err != nil {
		return v, contracts.Errorf(contracts.CodePolicyDenied, "the policy cannot be evaluated, so nothing is allowed: %w", err)
	}
	if rec.Plan != nil && rec.Plan.Policy != "" {
		layers, err := a.runs.library.Layers(ctx, t, rec.Plan.Policy)
		if err != nil {
			return v, fmt.Errorf("read the policy of run %s: %w", rec.ID, err)
		}
		then, err := policy.Compile(layers)
		if err != nil {
			return v, fmt.Errorf("compile the policy of run %s: %w", rec.ID, err)
		}
		e = policy.Both(then.For(rec.Request.Labels).As(rec.Principal), e)
	}
	tool, known, err := a.toolOfPolicy(ctx, t, rec, q.Tool)
	if err != nil {
		return v, err
	}
	v = client.RulingView{Tool: q.Tool, Known: known, Visible: known && !e.See(tool).Denied()}
	d := e.See(tool)
	if len(q.Arguments) > 0 {
		d = e.Call(tool, q.Arguments)
	}
	if v.Effect = d.Effect; d.Denied() {
		v.Effect = contracts.PolicyDeny
	}
	v.Ruling, v.Approval = contracts.Ruling{Layer: d.Layer, Rule: d.Rule, Reason: d.Reason}, d.Approval
	return v, nil
}

// toolOfPolicy returns what policy reads of a tool, and whether a source of the tenant, or the run's caller, has it.
func (a *api) toolOfPolicy(ctx context.Context, t contracts.TenantID, run *contracts.Run, id contracts.ToolID) (policy.Tool, bool, error) {
	source, _, err := id.Split()
	if err != nil {
		return policy.Tool{ID: id}, false, nil
	}
	listing := contracts.Hash("")
	if source.Kind == contracts.SourceClient {
		listing = run.Request.ClientTools
	} else {
		records, _ := a.live.Sources(t)
		for _, r := range records {
			if r.Source == source {
				listing = r.Listing
			}
		}
	}
	if listing == "" {
		return policy.Tool{ID: id}, false, nil
	}
	l, err := a.runs.library.Listing(ctx, t, listing)
	if err != nil {
		return policy.Tool{}, false, fmt.Errorf("read the listing of %s: %w", source, err)
	}
	i := slices.IndexFunc(l.Tools, func(t contracts.Tool) bool { return t.ID == id })
	if i < 0 {
		return policy.Tool{ID: id, Trusted: l.TrustAnnotations}, false, nil
	}
	return policy.ToolOf(&l.Tools[i], l.TrustAnnotations), true, nil
}
