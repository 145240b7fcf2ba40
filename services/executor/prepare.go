package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/approvals"
	"github.com/toolcrib/toolcrib/internal/core/catalogue"
	"github.com/toolcrib/toolcrib/internal/core/names"
	"github.com/toolcrib/toolcrib/internal/core/outputs"
	"github.com/toolcrib/toolcrib/internal/core/policy"
	"github.com/toolcrib/toolcrib/internal/core/schema"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A job is a call that is ready to be executed.
type job struct {
	key      contracts.Key
	call     *contracts.Call
	entry    catalogue.Entry
	args     json.RawMessage
	source   *source       // nil for a tool of the caller's own
	place    outputs.Place // of what it answers
	scope    string        // of the connection
	deadline time.Time
	question *approvals.Question // that must have an answer before the call is made; nil for none
	grant    contracts.GrantID   // that answered it, "" for none
	labels   contracts.Labels    // of the run
	// after is the record of the attempt, of an executor that was lost, which this one follows; nil for a first one.
	after *contracts.Call
}

// repeatable reports whether doing the call twice does no more than doing it once, by the word of a source that is trusted.
func (j *job) repeatable() bool {
	a := j.entry.Annotations
	isSet := func(b *bool) bool { return b != nil && *b }
	return j.entry.Listing.TrustAnnotations && a != nil && (isSet(a.ReadOnlyHint) || isSet(a.IdempotentHint))
}

// budget is how much of the call's result is shown.
func (j *job) budget() outputs.Budget {
	if j.call.Body != "" {
		return outputs.ForBody(j.entry.Tool)
	}
	return outputs.ForModel(j.entry.Tool)
}

// A call of a tool that is not known waits this long, in these steps, for sources that are still pending and could bring it.
const (
	pendingWait  = 5 * time.Second
	pendingPause = 100 * time.Millisecond
)

// currentTimeout bounds the wait for a run's newest catalogue.
const currentTimeout = 10 * time.Second

// prepare resolves a call and checks whether it may and can be made. It returns the job, or the outcome of
// a call that cannot be made, or an error where that cannot be told now.
func (s *Service) prepare(ctx context.Context, key contracts.Key, rec *contracts.Call) (*job, *contracts.Outcome, error) {
	t := key.Tenant()
	ctx, cancel := context.WithTimeout(ctx, currentTimeout)
	defer cancel()
	if err := s.state.Sync(ctx); err != nil { // a policy that was set before this call holds for it
		return nil, nil, fmt.Errorf("read the newest policies: %w", err)
	}
	r, err := s.state.Current(ctx, t, rec.Run)
	switch contracts.CodeOf(err) {
	case "":
	case contracts.CodeRunClosed:
		return nil, notMade(contracts.StatusCancelled, contracts.AsError(err)), nil
	case contracts.CodeNotFound:
		return nil, notMade(contracts.StatusError, contracts.AsError(err)), nil
	default:
		return nil, nil, fmt.Errorf("read run %s: %w", rec.Run, err)
	}
	cat, err := s.library.Catalogue(ctx, t, r.Plan.CatalogueBlob)
	if err != nil {
		return nil, nil, fmt.Errorf("load the catalogue of %s: %w", rec.Run, err)
	}
	entry, err := cat.Resolve(rec.Tool)
	if err != nil && goesBy(outputs.ReadID, rec.Tool) && s.reads(ctx, t, r) {
		entry, err = readEntry(), nil
	}
	if err != nil {
		from := catalogue.MayCome(rec.Tool, r.Plan.Pending)
		if contracts.CodeOf(err) == contracts.CodeUnknownTool && len(from) > 0 && time.Since(rec.Requested) < pendingWait {
			return nil, nil, bus.Later(pendingPause)
		}
		return nil, unresolved(cat, rec.Tool, contracts.AsError(catalogue.StillPending(err, from))), nil
	}
	j := &job{key: key, call: rec, entry: entry, deadline: s.deadline(rec), labels: r.Request.Labels}
	if o, err := s.check(ctx, r, j); o != nil || err != nil {
		if o != nil {
			o.Tool = entry.Ref()
		}
		return nil, o, err
	}
	if id := entry.Listing.Source; id.Kind != contracts.SourceClient {
		if j.source = s.configured[contracts.SourceKey(t, id)]; j.source == nil {
			o := notMade(contracts.StatusUnavailable, contracts.Errorf(contracts.CodeSourceUnavailable, "the source %s is not configured any more", id))
			o.Tool = entry.Ref()
			return nil, o, nil
		}
		j.scope = scopeOf(j.source, r)
	}
	return j, nil, nil
}

// scopeOf says for whom run r needs a connection to src.
func scopeOf(src *source, r *contracts.Run) string {
	switch {
	case !src.perSession:
		return ""
	case r.Request.Session != "":
		return sessionScope(r.Principal, r.Request.Session)
	}
	return runScope(r.ID)
}

// unresolved is the outcome of a call whose tool is not in the run's catalogue.
func unresolved(cat *catalogue.Catalogue, name string, why *contracts.Error) *contracts.Outcome {
	if why.Code != contracts.CodeAmbiguousTool {
		if id, reason := withdrawn(cat.Withdrawn, name); id != "" {
			o := notMade(contracts.StatusUnavailable, contracts.Errorf(contracts.CodeToolGone, "the source no longer has this tool"))
			switch reason {
			case contracts.WithdrawnByPolicy:
				o = notMade(contracts.StatusBlocked, contracts.Errorf(contracts.CodePolicyDenied, "policy no longer allows this tool in this run"))
			case contracts.WithdrawnForAdmission:
				o = notMade(contracts.StatusBlocked, contracts.Errorf(contracts.CodeToolQuarantined,
					"the tool changed or was set aside, and waits for an operator's admission. Do not call it again before that"))
			}
			if source, name, err := id.Split(); err == nil {
				o.Tool = &contracts.ToolRef{ID: id, Name: name, Source: source.Kind}
			}
			return o
		}
	}
	return notMade(contracts.StatusError, why)
}

// goesBy reports whether name is one of the names that a tool is called by.
func goesBy(id contracts.ToolID, name string) bool {
	source, bare, err := id.Split()
	if err != nil {
		return false
	}
	return slices.ContainsFunc([]string{
		string(id), bare, names.Exposed(id, false), names.Exposed(id, true),
		source.Owner + "." + bare, source.Owner + "__" + bare, string(source.Kind) + "__" + source.Owner + "__" + bare,
	}, func(form string) bool { return strings.EqualFold(form, name) })
}

// check applies policy, of the plan and of now, and validates the arguments. It returns the outcome of a call that fails.
func (s *Service) check(ctx context.Context, r *contracts.Run, j *job) (*contracts.Outcome, error) {
	t := j.key.Tenant()
	e, o, err := s.effective(ctx, t, r)
	if o != nil || err != nil {
		return o, err
	}
	j.place = outputs.Place{Tenant: t, Run: r.ID, Unreadable: e.Forbids(outputs.ReadID)}
	if j.args, err = s.caller.Args(ctx, t, j.call); err != nil {
		return nil, fmt.Errorf("read the arguments of %s: %w", j.call.ID, err)
	}
	reads := j.entry.ID == outputs.ReadID && !j.place.Unreadable
	if d := e.See(j.tool()); d.Denied() && !reads {
		return denied(d), nil
	}
	if o := s.validate(j); o != nil || reads {
		return o, nil
	}
	d := e.Call(j.tool(), j.args)
	if d.Denied() {
		return denied(d), nil
	}
	return j.asks(r, d, e.Version()), nil
}

func denied(d policy.Decision) *contracts.Outcome {
	e := contracts.Errorf(contracts.CodePolicyDenied, "policy does not allow this call")
	e.Ruling = &contracts.Ruling{Layer: d.Layer, Rule: d.Rule, Reason: d.Reason}
	return notMade(contracts.StatusBlocked, e)
}

// tool is what policy reads of the call's tool.
func (j *job) tool() policy.Tool {
	return policy.ToolOf(j.entry.Tool, j.entry.Listing.TrustAnnotations)
}

// effective returns what a run may do by the policies of its plan and of now, or the outcome of calls where that cannot be told.
func (s *Service) effective(ctx context.Context, t contracts.TenantID, r *contracts.Run) (*policy.Effective, *contracts.Outcome, error) {
	now, err := s.state.PolicyFor(t, r)
	if err != nil {
		s.log.Error("policy cannot be evaluated: the call is blocked", "tenant", string(t), "err", err)
		return nil, notMade(contracts.StatusBlocked, contracts.Errorf(contracts.CodePolicyDenied, "the policy cannot be evaluated, so nothing is allowed")), nil
	}
	planned, err := s.planned(ctx, t, r.Plan.Policy)
	if err != nil {
		return nil, nil, err
	}
	return policy.Both(planned.For(r.Request.Labels).As(r.Principal), now), nil, nil
}

// planned returns the policy that held when a run was planned.
func (s *Service) planned(ctx context.Context, t contracts.TenantID, h contracts.Hash) (*policy.Policy, error) {
	if h == "" {
		return nil, nil
	}
	key := string(t) + "/" + string(h)
	if p, ok := s.policies.Get(key); ok {
		return p, nil
	}
	layers, err := s.library.Layers(ctx, t, h)
	if err != nil {
		return nil, fmt.Errorf("read the plan's policy: %w", err)
	}
	p, err := policy.Compile(layers)
	if err != nil {
		return nil, fmt.Errorf("compile the plan's policy: %w", err)
	}
	s.policies.Add(key, p)
	return p, nil
}

// signatureLimit bounds the signature in a message about arguments, in characters.
const signatureLimit = 600

// validate checks the arguments against the tool's exact schema.
func (s *Service) validate(j *job) *contracts.Outcome {
	wrong := func(message string, fields []contracts.FieldError) *contracts.Outcome {
		e := contracts.Errorf(contracts.CodeInvalidArgs, "%s; want %s", message, schema.Signature(j.entry.InputSchema, signatureLimit))
		e.Fields = fields
		return notMade(contracts.StatusInvalidArgs, e)
	}
	args := bytes.TrimSpace(j.args)
	if len(args) == 0 || args[0] != '{' || !json.Valid(args) {
		const message = "the arguments are no JSON object"
		return wrong(message, []contracts.FieldError{{Message: message}})
	}
	v, err := s.schemas.For(j.entry.Hash, j.entry.InputSchema)
	if err != nil {
		return notMade(contracts.StatusError, contracts.Errorf(contracts.CodeInternal, "the tool's schema cannot be used: %v", err))
	}
	fields := v.Validate(args)
	if len(fields) == 0 {
		return nil
	}
	var told []string
	const mostTold = 5
	for _, f := range fields[:min(len(fields), mostTold)] {
		told = append(told, strings.TrimPrefix(f.Field+": "+f.Message, ": "))
	}
	if more := len(fields) - mostTold; more > 0 {
		told = append(told, fmt.Sprintf("and %d fields more", more))
	}
	return wrong("the arguments do not fit the tool: "+strings.Join(told, "; "), fields)
}
