package hooks

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/policy"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A Verdict is what the hooks of a tenant make of a call. The zero Verdict lets nothing pass.
type Verdict struct {
	// Decision is [contracts.HookAllow], [contracts.HookBlock] or [contracts.HookApprove].
	Decision contracts.HookDecision
	// Arguments is the compact JSON object that takes the place of the arguments; nil where they stay. Policy and validation have to look at it again.
	Arguments json.RawMessage
	// Rewrote names the hooks that rewrote the arguments, in their order.
	Rewrote []string

	// Hook names the hook that blocked the call; "" where none did.
	Hook string
	// Reason says why the call is blocked, fit for a model: it names no hook.
	Reason string
	// Failed reports that the call is blocked because of no decision, but because the hook failed. RetryAfter is then after which time another try
	// can have another end; 0 where that is not known.
	Failed     bool
	RetryAfter time.Duration

	// Approval is what is asked of whom, complete, with the decision approve; Asked names the hooks that want it.
	Approval *contracts.ApprovalTerms
	Asked    []string

	// Runs are the hooks that were asked, each once.
	Runs []contracts.HookRun
}

// Texts for a model.
const (
	noReason = "A rule of the operator does not allow this call."
	noAnswer = "The call was not made: a check that has to let it pass did not work."
	noBody   = "The call was not made: a check that has to let it pass takes at most %d bytes, and the arguments make it %d."
	nobody   = "The call was not made: nobody may give all the approvals that it needs."
)

// Before asks the hooks that are for a call, one after the other, each with the arguments as those before it left them, until one blocks it.
// The error is that of ctx where it ended meanwhile, or one with [contracts.CodeUnavailable] where the Set was closed; the Verdict then says only which hooks ran.
func (s *Set) Before(ctx context.Context, c Call) (Verdict, error) {
	if s == nil || !concern(s.before, c.Tool.ID) {
		return Verdict{Decision: contracts.HookAllow}, nil
	}
	return s.askAll(ctx, c)
}

// concern reports whether one of hooks is for calls of the tool.
func concern(hooks []*hook, id contracts.ToolID) bool {
	return slices.ContainsFunc(hooks, func(h *hook) bool { return h.tools.Match(id) })
}

func (s *Set) askAll(ctx context.Context, c Call) (Verdict, error) {
	if !s.begin(1) {
		return Verdict{}, errClosed()
	}
	defer s.end()
	ctx, cancel := s.within(ctx)
	defer cancel()
	a := asking{set: s, request: s.request(contracts.HookBefore, &c), verdict: Verdict{Decision: contracts.HookAllow}}
	for _, h := range s.before {
		if !h.tools.Match(c.Tool.ID) {
			continue
		}
		if err := a.ask(ctx, h); err != nil {
			return Verdict{Runs: a.verdict.Runs}, err
		}
		if a.verdict.Decision == contracts.HookBlock {
			break
		}
	}
	return a.verdict, nil
}

// asking is the state of [Set.Before].
type asking struct {
	set     *Set
	request contracts.HookRequest
	body    []byte // the request with the arguments as they are now; nil where it is to be made
	verdict Verdict
}

// ask asks one hook. The error is that of ctx.
func (a *asking) ask(ctx context.Context, h *hook) error {
	start := time.Now()
	answer, err := a.answer(ctx, h)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	run := contracts.HookRun{Hook: h.Name, Event: contracts.HookBefore, Decision: answer.Decision, Advisory: h.Advisory, Micros: time.Since(start).Microseconds()}
	if err != nil {
		run.Decision, run.Problem = failed(err)
	}
	a.verdict.Runs = append(a.verdict.Runs, run)
	switch {
	case h.Advisory:
	case err != nil:
		a.blockFor(h, err)
	default:
		a.apply(h, answer)
	}
	return nil
}

// answer returns what h answers.
func (a *asking) answer(ctx context.Context, h *hook) (contracts.HookAnswer, error) {
	if a.body == nil {
		if n := len(a.request.Arguments); n > contracts.HookArgumentsMost {
			return contracts.HookAnswer{}, tooLarge(n, contracts.HookArgumentsMost)
		}
		var err error
		if a.body, err = encode(&a.request); err != nil {
			return contracts.HookAnswer{}, &failure{problem: "the arguments are no JSON"}
		}
	}
	data, err := h.ask(ctx, a.body)
	if err != nil {
		return contracts.HookAnswer{}, err
	}
	return decode(data)
}

// apply does what an answer says.
func (a *asking) apply(h *hook, answer contracts.HookAnswer) {
	v := &a.verdict
	if len(answer.Arguments) > 0 && !a.same(answer.Arguments) {
		v.Arguments, a.request.Arguments, a.body = answer.Arguments, answer.Arguments, nil
		v.Rewrote = append(v.Rewrote, h.Name)
	}
	switch answer.Decision {
	case contracts.HookBlock:
		a.block(h, answer.Reason)
	case contracts.HookApprove:
		terms, ok := policy.CompleteTerms(answer.Approval), true
		if v.Approval != nil {
			terms, ok = policy.StricterTerms(*v.Approval, terms)
		}
		if !ok {
			a.block(h, nobody)
			return
		}
		v.Decision, v.Approval, v.Asked = contracts.HookApprove, &terms, append(v.Asked, h.Name)
	}
}

// same reports whether args, which are compact, are the arguments as they are already.
func (a *asking) same(args json.RawMessage) bool {
	var now bytes.Buffer
	return json.Compact(&now, a.request.Arguments) == nil && bytes.Equal(now.Bytes(), args)
}

func (a *asking) block(h *hook, reason string) {
	a.verdict = Verdict{Decision: contracts.HookBlock, Hook: h.Name, Reason: reason, Runs: a.verdict.Runs}
}

// blockFor blocks a call because of a failure.
func (a *asking) blockFor(h *hook, err error) {
	f := asFailure(err)
	a.block(h, noAnswer)
	if f.most > 0 {
		a.verdict.Reason = fmt.Sprintf(noBody, f.most, f.size)
	}
	a.verdict.Failed, a.verdict.RetryAfter = true, f.retry
}

// encode returns a request as JSON, its texts as they are.
func encode(q *contracts.HookRequest) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(q); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
