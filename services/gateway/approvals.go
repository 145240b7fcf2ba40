package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/approvals"
	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// registerApprovals adds the routes by which people decide.
func (a *api) registerApprovals(r *routes) {
	deciders := []string{scopeApprove}
	look := []string{scopeApprove, scopeRead}
	type list struct {
		State string `query:"state" enum:"waiting,decided,expired,void" doc:"Only approvals in this state."`
		Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	}
	type one struct {
		Approval string `path:"approval" maxLength:"64"`
	}
	add(r, operation{method: "GET", path: "/v1/approvals", id: "listApprovals", tag: "approvals", scopes: look, text: "List the approvals of the tenant, the newest first."},
		func(ctx context.Context, in *list) (*body[client.ApprovalList], error) {
			return answer(a.approvalList(ctx, principalOf(ctx).tenant, contracts.ApprovalState(in.State), in.Limit))
		})
	add(r, operation{method: "GET", path: "/v1/approvals/{approval}", id: "showApproval", tag: "approvals", scopes: look, text: "Show an approval."},
		func(ctx context.Context, in *one) (*body[client.Approval], error) {
			id, err := approvalID(in.Approval)
			if err != nil {
				return nil, err
			}
			t := principalOf(ctx).tenant
			rec, err := a.approvals.Get(ctx, t, id)
			if err != nil {
				return nil, err
			}
			return answer(a.approvalView(ctx, t, rec))
		})
	add(r, operation{method: "POST", path: "/v1/approvals/{approval}", id: "decideApproval", tag: "approvals", scopes: deciders, text: "Decide whether the call may be made. It can be decided once."},
		func(ctx context.Context, in *struct {
			Approval string `path:"approval" maxLength:"64"`
			Body     client.ApprovalChoice
		}) (*body[client.Approval], error) {
			id, err := approvalID(in.Approval)
			if err != nil {
				return nil, err
			}
			return answer(a.decide(ctx, principalOf(ctx), id, in.Body))
		})
	add(r, operation{method: "GET", path: "/v1/grants", id: "listGrants", tag: "approvals", scopes: look, text: "List the grants that hold: what was approved once and for all."},
		func(ctx context.Context, _ *nothing) (*body[client.GrantList], error) {
			grants, err := a.approvals.Grants(ctx, principalOf(ctx).tenant)
			out := client.GrantList{Grants: make([]client.Grant, 0, len(grants))}
			for _, g := range grants {
				out.Grants = append(out.Grants, grantView(g))
			}
			return answer(out, err)
		})
	add(r, operation{method: "DELETE", path: "/v1/grants/{grant}", id: "revokeGrant", tag: "approvals", scopes: deciders, status: http.StatusNoContent, text: "Revoke a grant."},
		func(ctx context.Context, in *struct {
			Grant string `path:"grant" maxLength:"64"`
		}) (*nothing, error) {
			id, err := contracts.ParseGrantID(in.Grant)
			if err != nil {
				return nil, contracts.Errorf(contracts.CodeNotFound, "there is no grant %q", clip(in.Grant))
			}
			return &nothing{}, a.approvals.Revoke(ctx, principalOf(ctx).tenant, id)
		})
}

func approvalID(s string) (contracts.ApprovalID, error) {
	id, err := contracts.ParseApprovalID(s)
	if err != nil {
		return "", contracts.Errorf(contracts.CodeNotFound, "there is no approval %q", clip(s))
	}
	return id, nil
}

func (a *api) approvalList(ctx context.Context, t contracts.TenantID, state contracts.ApprovalState, limit int) (client.ApprovalList, error) {
	out := client.ApprovalList{Approvals: []client.Approval{}}
	list, err := a.approvals.List(ctx, t, state)
	if err != nil {
		return out, err
	}
	for _, rec := range list[:min(len(list), limit)] {
		v, err := a.approvalView(ctx, t, rec)
		if err != nil {
			return out, err
		}
		out.Approvals = append(out.Approvals, v)
	}
	return out, nil
}

// shownArgs is how many bytes of arguments are shown with an approval; larger ones are read from the call.
const shownArgs = 64 << 10

// approvalView returns what those who decide are shown.
func (a *api) approvalView(ctx context.Context, t contracts.TenantID, rec *contracts.Approval) (client.Approval, error) {
	v := client.Approval{
		ID: rec.ID, State: rec.State, Run: rec.Run, Call: rec.Call, Body: rec.Body, Agent: rec.Agent, Tool: rec.Tool, Title: rec.Terms.Title,
		Description: rec.Terms.Description, Severity: rec.Terms.Severity, Deciders: rec.Terms.Deciders, AskedBy: rec.AskedBy,
		Requested: rec.Requested, Expires: rec.Expires, Verdict: rec.Verdict, Consumed: rec.Consumed, Reason: rec.Reason,
	}
	if rec.Grant != nil {
		v.Grant = rec.Grant.ID
	}
	args, err := a.approvals.Args(ctx, t, rec)
	switch {
	case contracts.CodeOf(err) == contracts.CodeNotFound: // no longer kept
	case err != nil:
		return v, err
	case len(args) > shownArgs:
		v.ArgsBytes = len(args)
	default:
		v.Args, v.ArgsBytes = args, len(args)
	}
	return v, nil
}

func grantView(g *contracts.Grant) client.Grant {
	return client.Grant{ID: g.ID, Agent: g.Agent, Tool: g.Tool, Hash: g.Hash, Args: g.Args, Approval: g.Approval, By: g.By, At: g.At, Expires: g.Expires}
}

func (a *api) decide(ctx context.Context, who principal, id contracts.ApprovalID, c client.ApprovalChoice) (client.Approval, error) {
	choice := approvals.Choice{Decision: c.Decision, By: who.name, Note: c.Note}
	if c.Scope != nil {
		choice.Same, choice.GrantFor = c.Scope.Args, time.Duration(c.Scope.ExpiresIn)*time.Second
		if c.Decision != contracts.DecisionAllowAlways {
			return client.Approval{}, contracts.Errorf(contracts.CodeInvalid, "scope: it goes with the decision allow_always only, not with %q", c.Decision)
		}
	}
	rec, err := a.approvals.Decide(ctx, who.tenant, id, choice)
	if err != nil {
		return client.Approval{}, err
	}
	return a.approvalView(ctx, who.tenant, rec)
}

// pendingApproval returns what the caller of a call is told of the approval that it waits for: nothing that could decide it.
func (d *callDesk) pendingApproval(ctx context.Context, t contracts.TenantID, id contracts.ApprovalID) (*client.PendingApproval, error) {
	a, err := d.approvals.Get(ctx, t, id)
	if contracts.CodeOf(err) == contracts.CodeNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &client.PendingApproval{ID: a.ID, Title: a.Terms.Title, Description: a.Terms.Description, Severity: a.Terms.Severity, Expires: a.Expires}, nil
}
