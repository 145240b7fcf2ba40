package executor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/hooks"
	"github.com/toolcrib/toolcrib/internal/core/names"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// openHooks makes the hooks of all tenants.
func (s *Service) openHooks() error {
	s.hooks = map[contracts.TenantID]*hooks.Set{}
	for t, list := range s.cfg.Hooks {
		if len(list) == 0 {
			continue
		}
		set, err := hooks.New(hooks.Config{Tenant: t, Hooks: list, Refs: s.cfg.resolver(), Conn: s.bus.Conn, Told: s.hookTold})
		if err != nil {
			return fmt.Errorf("hooks of tenant %s: %w", t, err)
		}
		s.hooks[t] = set
	}
	return nil
}

func (s *Service) closeHooks() {
	for _, set := range s.hooks {
		set.Close()
	}
}

// hookTold logs what became of telling a hook of the end of a call.
func (s *Service) hookTold(run contracts.RunID, call contracts.CallID, r contracts.HookRun) {
	if r.Problem != "" {
		s.log.Warn("a hook was not told of a call", "hook", r.Hook, "run", string(run), "call", string(call), "problem", r.Problem)
	}
}

// hooked is what the hooks are told of the call.
func (j *job) hooked() hooks.Call {
	e := j.entry
	ref := e.Ref()
	return hooks.Call{
		Run: j.call.Run, Labels: j.labels, ID: j.call.ID, Arguments: j.args,
		Tool: contracts.HookTool{ID: ref.ID, Name: ref.Name, Source: ref.Source, Hash: ref.Hash, Annotations: e.Annotations, TrustAnnotations: e.Listing.TrustAnnotations},
	}
}

// admit asks the hooks of the call's tenant, once for a call: what they say stands in its record from then on. It returns the outcome
// of a call that they block. moved says that the record has changed, and the call is to be looked at anew.
func (s *Service) admit(ctx context.Context, j *job) (o *contracts.Outcome, moved bool, err error) {
	set := s.hooks[j.key.Tenant()]
	if set == nil || j.call.Passage != nil {
		return nil, false, nil
	}
	ctx, cancel := context.WithDeadline(ctx, j.deadline)
	defer cancel()
	v, err := set.Before(ctx, j.hooked())
	switch {
	case ctx.Err() != nil:
		out := timedOut(contracts.SideEffectsNone)
		out.Tool = j.entry.Ref()
		return &out, false, nil
	case err != nil:
		return nil, false, err
	}
	if len(v.Runs) == 0 && v.Decision == contracts.HookAllow {
		return nil, false, nil // none of them is for this tool
	}
	a := &contracts.Passage{At: time.Now().UTC(), Hooks: v.Runs}
	switch v.Decision {
	case contracts.HookAllow:
	case contracts.HookApprove:
		a.Terms, a.AskedBy = v.Approval, "hook "+strings.Join(v.Asked, ", ")
	default:
		s.log.Info("a hook blocked a call", "tenant", string(j.key.Tenant()), "call", string(j.call.ID), "tool", string(j.entry.ID), "hook", v.Hook, "failed", v.Failed)
		o := j.refused(contracts.CodeHookBlocked, "%s", names.Text(v.Reason))
		o.RetryAfter = v.RetryAfter.Milliseconds()
		return o, false, nil
	}
	if v.Arguments != nil {
		if a.Args, a.ArgsBlob, err = s.caller.Keep(ctx, j.key.Tenant(), v.Arguments); err != nil {
			return nil, false, err
		}
		a.Rewrote = v.Rewrote
	}
	_, err = s.calls.Transition(context.WithoutCancel(ctx), j.key, func(rec *contracts.Call) ([]contracts.Event, error) {
		if !unstarted(rec) || rec.Passage != nil {
			return nil, errMoved
		}
		rec.State, rec.Passage = contracts.CallStateAdmitted, a
		return nil, nil
	})
	return nil, true, ignoreMoved(err)
}
