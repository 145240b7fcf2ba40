package executor

import (
	"context"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/approvals"
	"github.com/toolcrib/toolcrib/internal/core/names"
	"github.com/toolcrib/toolcrib/internal/core/policy"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// permitted reports whether the call has the approval that it needs, by a decision, a grant, or because it needs none. Where what was
// approved is not what would be called, that is an error with [contracts.CodeApprovalVoid].
func (s *Service) permitted(ctx context.Context, j *job) (bool, error) {
	if j.question == nil {
		return true, nil
	}
	t := j.key.Tenant()
	if j.call.Approval == "" {
		var err error
		j.grant, err = s.approvals.Granted(ctx, t, *j.question, j.args)
		return err == nil && j.grant != "", err
	}
	err := s.approvals.Consume(ctx, t, *j.question)
	switch contracts.CodeOf(err) {
	case contracts.CodeConflict, contracts.CodeNotFound:
		return false, contracts.Errorf(contracts.CodeApprovalVoid, "the approval does not hold: %s. Make the call again to have it asked for anew", contracts.AsError(err).Message)
	}
	return err == nil, err
}

// ask asks for the approval that the call needs. The call waits from then on.
func (s *Service) ask(ctx context.Context, j *job) error {
	a, err := s.approvals.Ask(ctx, j.key.Tenant(), *j.question)
	if err != nil {
		return err
	}
	if err := s.wait(ctx, j, contracts.WaitsForApproval, a.ID); err != nil {
		return err
	}
	// Somebody may have decided before the call waited: the event of that found nothing to move on.
	rec, err := s.calls.Get(ctx, j.key)
	if err != nil || rec.State != contracts.CallStateWaiting || rec.Waits != contracts.WaitsForApproval {
		return err
	}
	return s.decided(ctx, j.key, rec)
}

// refused is the outcome of the call where it may not be made.
func (j *job) refused(code contracts.Code, format string, args ...any) *contracts.Outcome {
	o := refusal(code, format, args...)
	o.Tool = j.entry.Ref()
	return o
}

// refusal is the outcome of a call that may not be made.
func refusal(code contracts.Code, format string, args ...any) *contracts.Outcome {
	status := contracts.StatusBlocked
	switch code {
	case contracts.CodeApprovalDenied:
		status = contracts.StatusDenied
	case contracts.CodeApprovalTimeout:
		status = contracts.StatusApprovalTimeout
	}
	return notMade(status, contracts.Errorf(code, format, args...))
}

// wait has the call wait for somebody.
func (s *Service) wait(ctx context.Context, j *job, whom contracts.WaitsFor, approval contracts.ApprovalID) error {
	_, err := s.calls.Transition(ctx, j.key, func(rec *contracts.Call) ([]contracts.Event, error) {
		if !unstarted(rec) {
			return nil, errMoved
		}
		rec.State, rec.Waits, rec.Resolved = contracts.CallStateWaiting, whom, j.entry.Ref()
		if approval != "" {
			rec.Approval = approval
		}
		return []contracts.Event{contracts.CallWaiting{
			At: time.Now().UTC(), Run: rec.Run, Call: rec.ID, Tool: *rec.Resolved, For: whom, Approval: approval,
		}}, nil
	})
	return ignoreMoved(err)
}

// decided moves a call on that waits for an approval, once that has its end.
func (s *Service) decided(ctx context.Context, key contracts.Key, rec *contracts.Call) error {
	a, err := s.approvals.Expire(ctx, key.Tenant(), rec.Approval)
	waits := func(now *contracts.Call) error {
		if now.State != contracts.CallStateWaiting || now.Waits != contracts.WaitsForApproval || now.Approval != rec.Approval {
			return errMoved
		}
		return nil
	}
	end := func(code contracts.Code, format string, args ...any) error {
		o := refusal(code, format, args...)
		o.Tool = rec.Resolved
		return s.end(ctx, key, *o, waits)
	}
	switch {
	case contracts.CodeOf(err) == contracts.CodeNotFound:
		return end(contracts.CodeApprovalVoid, "the approval is no longer kept")
	case err != nil:
		return err
	}
	switch a.State {
	case contracts.ApprovalStateWaiting:
		return nil
	case contracts.ApprovalStateExpired:
		return end(contracts.CodeApprovalTimeout, "nobody decided whether the call may be made, within %v", a.Expires.Sub(a.Requested).Round(time.Second))
	case contracts.ApprovalStateVoid:
		return end(contracts.CodeApprovalVoid, "the approval is void: %s", a.Reason)
	}
	if err := s.approvals.Settle(ctx, key.Tenant(), a); err != nil {
		return err
	}
	if a.Verdict.Decision == contracts.DecisionDeny {
		note := ""
		if a.Verdict.Note != "" {
			note = ": " + names.Text(a.Verdict.Note)
		}
		return end(contracts.CodeApprovalDenied, "the call was denied by who was asked%s. This is final: do not make it again", note)
	}
	_, err = s.calls.Transition(ctx, key, func(now *contracts.Call) ([]contracts.Event, error) {
		if err := waits(now); err != nil {
			return nil, err
		}
		now.State, now.Waits = contracts.CallStateAdmitted, ""
		now.Deadline = s.deadline(now).Add(time.Since(a.Requested)) // its clock stood still
		return nil, nil
	})
	if err != nil {
		return ignoreMoved(err)
	}
	return s.advance(ctx, key)
}

// asks notes what has to be asked before j is made, by policy and by hooks. It returns the outcome of a call for which that cannot be.
func (j *job) asks(r *contracts.Run, d policy.Decision, version contracts.Hash) *contracts.Outcome {
	terms, by := d.Approval, d.Layer+", rule "+d.Rule
	if a := j.call.Passage; a != nil && a.Terms != nil {
		if terms == nil {
			terms, by = a.Terms, a.AskedBy
		} else {
			both, ok := policy.StricterTerms(*terms, *a.Terms)
			if !ok {
				return j.refused(contracts.CodePolicyDenied, "nobody may give all the approvals that the call needs")
			}
			terms, by = &both, by+"; "+a.AskedBy
		}
	}
	if terms == nil {
		return nil
	}
	digest, err := approvals.Digest(j.args)
	if err != nil {
		return notMade(contracts.StatusInvalidArgs, contracts.Errorf(contracts.CodeInvalidArgs, "%v", err))
	}
	j.question = &approvals.Question{
		Call: j.call, Agent: r.Request.Agent, Tool: *j.entry.Ref(), Args: digest, Policy: version, Terms: *terms, By: by, Before: r.Expires,
	}
	return nil
}
