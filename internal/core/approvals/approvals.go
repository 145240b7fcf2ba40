// Package approvals is how calls wait for people: a service asks, somebody with the right to decides, and the call is made by that
// decision once. It makes no calls, and decides nothing itself.
package approvals

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/toolcrib/toolcrib/internal/core/calls"
	"github.com/toolcrib/toolcrib/internal/core/names"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/store"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A Desk asks, and takes decisions. Safe for concurrent use.
type Desk struct {
	approvals *store.Table[contracts.Approval, *contracts.Approval]
	grants    *store.Table[contracts.Grant, *contracts.Grant]
	calls     *store.Table[contracts.Call, *contracts.Call]
	caller    *calls.Caller
}

// Open returns a Desk over the bus.
func Open(ctx context.Context, b *bus.Bus) (*Desk, error) {
	d := &Desk{}
	var err error
	if d.approvals, err = store.OpenTable[contracts.Approval](ctx, b, contracts.BucketApprovals); err != nil {
		return nil, err
	}
	if d.grants, err = store.OpenTable[contracts.Grant](ctx, b, contracts.BucketGrants); err != nil {
		return nil, err
	}
	if d.calls, err = store.OpenTable[contracts.Call](ctx, b, contracts.BucketCalls); err != nil {
		return nil, err
	}
	d.caller, err = calls.Open(ctx, b)
	return d, err
}

// A Question is what somebody is asked, and what the answer is bound to.
type Question struct {
	Call   *contracts.Call
	Agent  string // the run's label
	Tool   contracts.ToolRef
	Args   contracts.Hash // see [Digest]
	Policy contracts.Hash
	Terms  contracts.ApprovalTerms
	By     string    // the rule or hook that asks
	Before time.Time // when the run ends; the question ends then as well. Zero is never
}

// Ask records the question. A call asks once: asked again, it gets the approval as it stands.
func (d *Desk) Ask(ctx context.Context, t contracts.TenantID, q Question) (*contracts.Approval, error) {
	now := time.Now().UTC()
	terms := q.Terms
	terms.Title = cmp.Or(terms.Title, "Call "+string(q.Tool.ID))
	terms.Severity = cmp.Or(terms.Severity, contracts.SeverityWarning)
	limit := contracts.ApprovalTimeout
	if terms.ExpiresIn > 0 {
		limit = min(time.Duration(terms.ExpiresIn)*time.Second, contracts.ApprovalTimeoutMax)
	}
	terms.ExpiresIn = int64(limit / time.Second)
	a := &contracts.Approval{
		ID: contracts.ApprovalOf(q.Call.ID), Run: q.Call.Run, Call: q.Call.ID, Body: q.Call.Body, Agent: q.Agent,
		State: contracts.ApprovalStateWaiting, Tool: q.Tool, Args: q.Args, Policy: q.Policy, Terms: terms, AskedBy: q.By,
		Requested: now, Expires: now.Add(limit),
	}
	if !q.Before.IsZero() && q.Before.Before(a.Expires) {
		a.Expires = q.Before
	}
	key := contracts.ApprovalKey(t, a.ID)
	err := d.approvals.Create(ctx, key, a, contracts.ApprovalRequested{
		At: now, Run: a.Run, Approval: a.ID, Call: a.Call, Tool: a.Tool, Title: terms.Title, Severity: terms.Severity, Expires: a.Expires,
	})
	if contracts.CodeOf(err) == contracts.CodeConflict {
		return d.approvals.Get(ctx, key)
	}
	return a, err
}

// Get returns an approval, or an error with [contracts.CodeNotFound].
func (d *Desk) Get(ctx context.Context, t contracts.TenantID, id contracts.ApprovalID) (*contracts.Approval, error) {
	a, err := d.approvals.Get(ctx, contracts.ApprovalKey(t, id))
	if contracts.CodeOf(err) == contracts.CodeNotFound {
		return nil, contracts.Errorf(contracts.CodeNotFound, "there is no approval %s", id)
	}
	return a, err
}

// List returns the tenant's approvals, those that were asked for last first; only such in that state where it is not "".
func (d *Desk) List(ctx context.Context, t contracts.TenantID, state contracts.ApprovalState) ([]*contracts.Approval, error) {
	list := []*contracts.Approval{}
	err := d.approvals.List(ctx, string(t)+".>", func(_ contracts.Key, a *contracts.Approval) error {
		if state == "" || a.State == state {
			list = append(list, a)
		}
		return nil
	})
	slices.SortFunc(list, func(a, b *contracts.Approval) int {
		return cmp.Or(b.Requested.Compare(a.Requested), cmp.Compare(a.ID, b.ID))
	})
	return list, err
}

// Args returns the arguments that the approval is about, that the call would be made with.
func (d *Desk) Args(ctx context.Context, t contracts.TenantID, a *contracts.Approval) (json.RawMessage, error) {
	rec, err := d.calls.Get(ctx, contracts.CallKey(t, a.Run, a.Call))
	if err != nil {
		return nil, err
	}
	return d.caller.Args(ctx, t, rec)
}

// Longest is the most characters of a note.
const Longest = 512

// A Choice is what somebody decides.
type Choice struct {
	Decision contracts.ApprovalDecision
	By       string // the principal
	Note     string
	// Same names, for allow_always, the arguments that later calls must have the same values of; none leaves all free.
	Same []string
	// GrantFor is how long allow_always holds; 0 is until the grant is deleted.
	GrantFor time.Duration
}

func (c Choice) check() error {
	switch c.Decision {
	case contracts.DecisionAllowOnce, contracts.DecisionDeny:
		if len(c.Same) > 0 || c.GrantFor != 0 {
			return contracts.Errorf(contracts.CodeInvalid, "scope: it goes with the decision allow_always only, not with %s", c.Decision)
		}
	case contracts.DecisionAllowAlways:
	default:
		return contracts.Errorf(contracts.CodeInvalid, "decision: %q; want allow_once, allow_always or deny", c.Decision)
	}
	if n := utf8.RuneCountInString(c.Note); n > Longest {
		return contracts.Errorf(contracts.CodeInvalid, "note: %d characters; want at most %d", n, Longest)
	}
	if c.GrantFor < 0 {
		return contracts.Errorf(contracts.CodeInvalid, "scope.expiresIn: %v; want no negative time", c.GrantFor)
	}
	return nil
}

// Decide takes a decision. It is an error with [contracts.CodeForbidden] where somebody else is to decide, and with
// [contracts.CodeConflict] where there is nothing to decide any more.
func (d *Desk) Decide(ctx context.Context, t contracts.TenantID, id contracts.ApprovalID, c Choice) (*contracts.Approval, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	a, err := d.Get(ctx, t, id)
	if err != nil {
		return nil, err
	}
	if err := decidable(a, c.By, time.Now()); err != nil {
		return nil, err
	}
	if err := d.stillWaits(ctx, t, a); err != nil {
		return nil, err
	}
	var grant *contracts.Grant
	if c.Decision == contracts.DecisionAllowAlways {
		if grant, err = d.grantFor(ctx, t, a, c); err != nil {
			return nil, err
		}
	}
	a, err = d.approvals.Transition(ctx, contracts.ApprovalKey(t, id), func(a *contracts.Approval) ([]contracts.Event, error) {
		now := time.Now().UTC()
		if err := decidable(a, c.By, now); err != nil {
			return nil, err
		}
		a.State = contracts.ApprovalStateDecided
		a.Verdict = &contracts.Verdict{Decision: c.Decision, By: c.By, At: now, Note: names.Text(c.Note)}
		a.Grant = grant
		return []contracts.Event{contracts.ApprovalDecided{At: now, Run: a.Run, Approval: a.ID, Call: a.Call, Decision: c.Decision, By: c.By}}, nil
	})
	if err != nil {
		return a, err
	}
	return a, d.Settle(ctx, t, a)
}

// Settle makes the grant that a decision brought, if it is not there: a crash may have come between the two.
func (d *Desk) Settle(ctx context.Context, t contracts.TenantID, a *contracts.Approval) error {
	if a.Grant == nil {
		return nil
	}
	g := *a.Grant
	err := d.grants.Create(ctx, contracts.GrantKey(t, g.ID), &g)
	if contracts.CodeOf(err) == contracts.CodeConflict {
		return nil
	}
	return err
}

// decidable returns nil while by may decide.
func decidable(a *contracts.Approval, by string, now time.Time) error {
	switch {
	case a.State == contracts.ApprovalStateDecided:
		return contracts.Errorf(contracts.CodeConflict, "the approval was decided already: %s by %s", a.Verdict.Decision, a.Verdict.By)
	case a.State == contracts.ApprovalStateVoid:
		return contracts.Errorf(contracts.CodeConflict, "the approval is void: %s", a.Reason)
	case a.State == contracts.ApprovalStateExpired, !now.Before(a.Expires):
		return contracts.Errorf(contracts.CodeConflict, "the approval expired at %s", a.Expires.Format(time.RFC3339))
	case len(a.Terms.Deciders) > 0 && !slices.Contains(a.Terms.Deciders, by):
		return contracts.Errorf(contracts.CodeForbidden, "%s may not decide on this approval", by)
	}
	return nil
}

// stillWaits returns nil while the call waits for a. Where it has ended meanwhile the approval is made void.
func (d *Desk) stillWaits(ctx context.Context, t contracts.TenantID, a *contracts.Approval) error {
	rec, err := d.calls.Get(ctx, contracts.CallKey(t, a.Run, a.Call))
	if err != nil && contracts.CodeOf(err) != contracts.CodeNotFound {
		return err
	}
	if err == nil && rec.State != contracts.CallStateFinished {
		return nil // it waits, or is about to
	}
	if _, err := d.Void(ctx, t, a.ID, CallEnded); err != nil {
		return err
	}
	return contracts.Errorf(contracts.CodeConflict, "%s", CallEnded)
}

// grantFor returns the grant of a decision.
func (d *Desk) grantFor(ctx context.Context, t contracts.TenantID, a *contracts.Approval, c Choice) (*contracts.Grant, error) {
	g := &contracts.Grant{
		ID: contracts.NewGrantID(), Agent: a.Agent, Tool: a.Tool.ID, Hash: a.Tool.Hash, Approval: a.ID, By: c.By, At: time.Now().UTC(),
	}
	if c.GrantFor > 0 {
		g.Expires = g.At.Add(c.GrantFor)
	}
	if len(c.Same) == 0 {
		return g, nil
	}
	raw, err := d.Args(ctx, t, a)
	if err != nil {
		return nil, err
	}
	args, err := members(raw)
	if err != nil {
		return nil, fmt.Errorf("read the arguments of %s: %w", a.Call, err)
	}
	g.Args = map[string]json.RawMessage{}
	for _, name := range c.Same {
		v, ok := args[name]
		if !ok {
			return nil, contracts.Errorf(contracts.CodeInvalid, "scope.args: %q is no argument of this call", name)
		}
		if g.Args[name], err = canonical(v); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// CallEnded is why an approval is void whose call ended without it.
const CallEnded = "the call has ended meanwhile"

// errSettled ends a change of an approval that has its end already.
var errSettled = errors.New("the approval has ended")

// Void ends an approval that nobody is to decide any more, and returns it as it stands then: one that has ended already stays as it is.
func (d *Desk) Void(ctx context.Context, t contracts.TenantID, id contracts.ApprovalID, why string) (*contracts.Approval, error) {
	return d.endAs(ctx, t, id, contracts.ApprovalStateVoid, why, func(*contracts.Approval) bool { return true })
}

// Expire ends an approval whose time is over, and returns it as it stands then.
func (d *Desk) Expire(ctx context.Context, t contracts.TenantID, id contracts.ApprovalID) (*contracts.Approval, error) {
	return d.endAs(ctx, t, id, contracts.ApprovalStateExpired, "", func(a *contracts.Approval) bool { return !time.Now().Before(a.Expires) })
}

func (d *Desk) endAs(ctx context.Context, t contracts.TenantID, id contracts.ApprovalID, state contracts.ApprovalState, why string, may func(*contracts.Approval) bool) (*contracts.Approval, error) {
	key := contracts.ApprovalKey(t, id)
	a, err := d.approvals.Transition(ctx, key, func(a *contracts.Approval) ([]contracts.Event, error) {
		if a.State != contracts.ApprovalStateWaiting || !may(a) {
			return nil, errSettled
		}
		a.State, a.Reason = state, why
		return []contracts.Event{contracts.ApprovalEnded{At: time.Now().UTC(), Run: a.Run, Approval: a.ID, Call: a.Call, State: state, Reason: why}}, nil
	})
	if errors.Is(err, errSettled) {
		return d.approvals.Get(ctx, key)
	}
	return a, err
}

// Consume notes that the call is made by the approval, which must be the one that q asks for: another tool, other arguments or another
// policy make an error with [contracts.CodeConflict], which says what differs. The call of the approval may consume it again: what
// keeps that call from being made twice is its own record.
func (d *Desk) Consume(ctx context.Context, t contracts.TenantID, q Question) error {
	_, err := d.approvals.Transition(ctx, contracts.ApprovalKey(t, contracts.ApprovalOf(q.Call.ID)), func(a *contracts.Approval) ([]contracts.Event, error) {
		var differs string
		switch {
		case a.State != contracts.ApprovalStateDecided || a.Verdict.Decision == contracts.DecisionDeny:
			return nil, contracts.Errorf(contracts.CodeConflict, "the approval is %s", a.State)
		case a.Run != q.Call.Run || a.Call != q.Call.ID:
			differs = "it is for another call"
		case a.Tool.ID != q.Tool.ID || a.Tool.Hash != q.Tool.Hash:
			differs = "the tool has changed"
		case a.Args != q.Args:
			differs = "the arguments have changed"
		case a.Policy != q.Policy:
			differs = "the policy has changed"
		}
		if differs != "" {
			return nil, contracts.Errorf(contracts.CodeConflict, "%s since it was approved", differs)
		}
		if !a.Consumed.IsZero() {
			return nil, errSettled
		}
		a.Consumed = time.Now().UTC()
		return nil, nil
	})
	if errors.Is(err, errSettled) {
		return nil
	}
	return err
}

// Sweep sees to approvals that stand still: it ends those whose time is over. It runs until ctx is done, in any number of processes.
func (d *Desk) Sweep(ctx context.Context, name string) error {
	return d.approvals.Sweep(ctx, name, func(ctx context.Context, key contracts.Key, a *contracts.Approval) (time.Duration, error) {
		if a.State != contracts.ApprovalStateWaiting {
			return 0, nil
		}
		if left := time.Until(a.Expires); left > 0 {
			return left, nil
		}
		_, err := d.Expire(ctx, key.Tenant(), a.ID)
		if err != nil { // never an error: the sweep would give the record up
			return time.Second, nil
		}
		return 0, nil
	})
}
