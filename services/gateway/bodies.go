package gateway

import (
	"context"
	"fmt"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/bodies"
	"github.com/toolcrib/toolcrib/internal/core/control"
	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// runBody returns the work that a tool_search_code stands for.
func (d *callDesk) runBody(_ context.Context, c *controlCall) (*contracts.Outcome, work, error) {
	code, err := codeArgs(c)
	if err != nil {
		return d.refused(c, err)
	}
	if len(code) > contracts.LongestBody {
		o, err := tooLarge(c, len(code))
		if err == nil {
			d.repeats.note(c, o)
		}
		return o, nil, err
	}
	r := bodies.Request{Code: code, Timeout: time.Duration(c.run.Plan.CodeTimeoutMs) * time.Millisecond, Repaired: c.repaired}
	return nil, func(ctx context.Context, q call) (*client.CallAnswer, error) {
		return d.startBody(ctx, c.tenant, c.run.ID, r, q)
	}, nil
}

// tooLarge is the outcome of a body whose text is too large to be taken.
func tooLarge(c *controlCall, size int) (*contracts.Outcome, error) {
	rec := &contracts.Body{Repaired: c.repaired, Ended: &contracts.BodyEnd{Result: &contracts.BodyResult{
		Logs: []contracts.BodyLog{}, Calls: []contracts.BodyCall{},
		Error: &contracts.BodyError{
			Name: "RangeError", Code: contracts.BodyTooLarge,
			Message: fmt.Sprintf("the body has %d bytes, at most %d are allowed: pass large data through tools, not through code", size, contracts.LongestBody),
		},
	}}}
	o, err := bodyOutcome(rec)
	if err != nil {
		return nil, err
	}
	return c.outcome(*o), nil
}

// startBody has a sandbox run a body and waits for the end of it. The body has the id of the call that brought it.
func (d *callDesk) startBody(ctx context.Context, t contracts.TenantID, run contracts.RunID, r bodies.Request, q call) (*client.CallAnswer, error) {
	id := contracts.NewCallID()
	if q.key != "" {
		id = contracts.KeyedCallID(run, q.by, q.key)
		if err := absent(d.runs.calls.Get(ctx, contracts.CallKey(t, run, id))); err != nil {
			return nil, err
		}
	}
	r.ID = contracts.BodyOf(id)
	p, err := d.bodies.Start(ctx, t, run, r)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	q.tell(id)
	if !q.patient {
		var cancel context.CancelFunc
		ctx, cancel = d.untilStop(ctx)
		defer cancel()
	}
	return d.awaitBody(ctx, t, p, q.wait, q.patient)
}

// noBody is an error with [contracts.CodeConflict] where the idempotency key of a call was that of a body.
func (d *callDesk) noBody(ctx context.Context, key contracts.Key) error {
	return absent(d.bodies.Get(ctx, key))
}

// absent is an error with [contracts.CodeConflict] where there is a record already.
func absent(_ any, err error) error {
	switch contracts.CodeOf(err) {
	case "":
		return contracts.Errorf(contracts.CodeConflict, "Idempotency-Key: it was used in this run for another call")
	case contracts.CodeNotFound:
		return nil
	}
	return err
}

// bodyState returns how a body stands, after waiting for the end of it.
func (d *callDesk) bodyState(ctx context.Context, t contracts.TenantID, run contracts.RunID, id contracts.BodyID, wait time.Duration) (*client.CallAnswer, error) {
	p, err := d.bodies.Join(t, run, id)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return d.awaitBody(ctx, t, p, wait, false)
}

// awaitBody returns how a body stands once it is finished or its caller must act, or when wait is over or ctx done. A
// patient caller waits on while a sandbox has the body: its clock can stand still for any time.
func (d *callDesk) awaitBody(ctx context.Context, t contracts.TenantID, p *bodies.Pending, wait time.Duration, patient bool) (*client.CallAnswer, error) {
	var answered []contracts.CallID
	for {
		waiting, cancel := context.WithTimeout(ctx, wait)
		rec, err := p.Await(waiting, answered...)
		over := waiting.Err() != nil
		cancel()
		if err != nil {
			return nil, err
		}
		a, err := d.bodyAnswer(context.WithoutCancel(ctx), t, rec)
		if err != nil || a.Status != contracts.StatusWaiting || ctx.Err() != nil {
			return a, err
		}
		if over && !(patient && time.Now().Before(rec.Lease)) {
			return a, nil
		}
		answered = rec.Waits // their results are there, and the sandbox is about to take them
	}
}

// bodyAnswer returns a body as its caller sees it.
func (d *callDesk) bodyAnswer(ctx context.Context, t contracts.TenantID, rec *contracts.Body) (*client.CallAnswer, error) {
	if rec.State == contracts.BodyStateFinished {
		o, err := bodyOutcome(rec)
		return answerOf(o), err
	}
	a := &client.CallAnswer{
		Outcome: contracts.Outcome{
			Status: contracts.StatusWaiting, Tool: controlRef(control.Code), CallID: rec.ID.Call(), Repaired: rec.Repaired,
			DurationMs: time.Since(rec.Requested).Milliseconds(),
		},
		Href: href(rec.Run, rec.ID.Call()),
	}
	for _, id := range rec.Waits {
		c, err := d.caller.Get(ctx, contracts.CallKey(t, rec.Run, id))
		if contracts.CodeOf(err) == contracts.CodeNotFound || err == nil && !waitsForClient(c) {
			continue
		}
		if err != nil {
			return nil, err
		}
		cc, err := d.clientCall(ctx, t, c)
		if err != nil {
			return nil, err
		}
		cc.CallID = id
		a.ClientCalls = append(a.ClientCalls, *cc)
	}
	if len(a.ClientCalls) > 0 {
		a.Status = contracts.StatusRequiresAction
	}
	return a, nil
}

// bodyOutcome returns the outcome of a finished body.
func bodyOutcome(rec *contracts.Body) (*contracts.Outcome, error) {
	o := contracts.Outcome{Status: contracts.StatusOK, SideEffects: contracts.SideEffectsNone}
	end := rec.Ended
	switch {
	case end == nil || end.Result == nil && end.Error == nil:
		return nil, fmt.Errorf("body %s is finished without an end", rec.ID)
	case end.Result == nil:
		o = failure(end.Error)
		o.SideEffects = contracts.SideEffectsNone
		if rec.Owner != "" { // it was begun, and what it called is not known
			o.SideEffects = contracts.SideEffectsUnknown
		}
	default:
		text, err := compact(end.Result)
		if err != nil {
			return nil, err
		}
		o.Result = contracts.TextResult(string(text), text)
		o.Result.Content = append(o.Result.Content, end.Content...)
		o.Result.Truncated, o.Result.More = end.Result.Truncated, end.Result.More
		failBody(&o, end.Result)
	}
	o.Tool, o.CallID, o.Repaired = controlRef(control.Code), rec.ID.Call(), rec.Repaired
	o.DurationMs = rec.Finished.Sub(rec.Requested).Milliseconds()
	return &o, nil
}

// failBody has the outcome of a body say how it failed, where it did.
func failBody(o *contracts.Outcome, r *contracts.BodyResult) {
	switch {
	case len(r.Calls) == 0:
	case r.OK:
		o.SideEffects = "" // each call has its own outcome
	default:
		o.SideEffects = contracts.SideEffectsUnknown
	}
	if r.OK {
		return
	}
	o.Status, o.Result.IsError = contracts.StatusError, true
	o.Error = contracts.Errorf(contracts.CodeBodyFailed, "the body failed")
	e := r.Error
	if e == nil {
		return
	}
	o.Error.Message = fmt.Sprintf("%s: %s%s", e.Code, e.Message, position(e))
	if e.Code == contracts.BodyCancelled {
		o.Status, o.Error.Code = contracts.StatusCancelled, contracts.CodeCancelled
	}
}

// position says where in the body's text an error is, "" where that is not known.
func position(e *contracts.BodyError) string {
	switch {
	case e.Line == 0:
		return ""
	case e.Column == 0:
		return fmt.Sprintf(" (line %d)", e.Line)
	}
	return fmt.Sprintf(" (line %d, column %d)", e.Line, e.Column)
}
