package gateway

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/approvals"
	"github.com/toolcrib/toolcrib/internal/core/bodies"
	"github.com/toolcrib/toolcrib/internal/core/calls"
	"github.com/toolcrib/toolcrib/internal/core/control"
	"github.com/toolcrib/toolcrib/internal/core/live"
	"github.com/toolcrib/toolcrib/internal/core/outputs"
	"github.com/toolcrib/toolcrib/internal/core/schema"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A callDesk makes the calls that models ask for, for HTTP and MCP alike. Safe for concurrent use.
type callDesk struct {
	bus       *bus.Bus
	runs      *runDesk
	caller    *calls.Caller
	bodies    *bodies.Desk
	live      *live.State
	outputs   *outputs.Shelf
	approvals *approvals.Desk
	timeouts  func(contracts.TenantID) time.Duration
	schemas   *schema.Cache
	repeats   *repeats
	stopping  context.Context
	log       *slog.Logger
}

// A call is what a model asked for.
type call struct {
	name string
	args json.RawMessage
	by   string        // the principal, to whom key belongs
	key  string        // the caller's idempotency key, "" for none
	wait time.Duration // for the end of it
	// patient has the wait go on when the service is told to stop, for a caller who cannot look again.
	patient bool
	started func(contracts.CallID) // is told the call's id, once it was accepted; may be nil
}

func (q call) tell(id contracts.CallID) {
	if q.started != nil {
		q.started(id)
	}
}

// call makes one call. What comes of it is an answer; an error means that nothing was called. A
// call that takes longer than its wait, or than ctx, goes on: the answer is then not final.
func (d *callDesk) call(ctx context.Context, t contracts.TenantID, run string, q call) (*client.CallAnswer, error) {
	rec, err := d.runs.get(ctx, t, run)
	if err != nil {
		return nil, err
	}
	if err := live.Usable(rec); err != nil {
		return nil, err
	}
	if answer := d.answerer(q.name); answer != nil {
		c := &controlCall{tenant: t, run: rec, name: q.name, args: q.args, began: time.Now()}
		outcome, next, err := answer(ctx, c)
		if err != nil || next == nil {
			return answerOf(outcome), err
		}
		a, err := next(ctx, q)
		if err == nil && a.Final() {
			d.repeats.note(c, &a.Outcome)
		}
		return a, err
	}
	direct, repaired, failed := directArgs(q.args)
	if failed != nil {
		return answerOf(failed), nil
	}
	direct, how := d.unwrapped(ctx, t, rec, q.name, direct)
	if how != "" {
		repaired = append(repaired, how)
	}
	return d.start(ctx, t, rec.ID, calls.Request{Tool: q.name, Args: direct, Repaired: repaired}, q)
}

// start has a catalogued tool called and waits for the end of it.
func (d *callDesk) start(ctx context.Context, t contracts.TenantID, run contracts.RunID, r calls.Request, q call) (*client.CallAnswer, error) {
	if q.key != "" {
		r.ID = contracts.KeyedCallID(run, q.by, q.key)
		if err := d.noBody(ctx, contracts.BodyKey(t, run, contracts.BodyOf(r.ID))); err != nil {
			return nil, err
		}
	}
	r.Deadline = time.Now().Add(d.timeouts(t))
	p, err := d.caller.Start(ctx, t, run, r)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	q.tell(p.ID)
	if !q.patient {
		var cancel context.CancelFunc
		ctx, cancel = d.untilStop(ctx)
		defer cancel()
	}
	return d.await(ctx, t, p, q.wait, q.patient)
}

// untilStop returns ctx, done also when the service is told to stop.
func (d *callDesk) untilStop(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	forget := context.AfterFunc(d.stopping, cancel)
	return ctx, func() { forget(); cancel() }
}

// await returns how the call stands once it is settled, or when wait is over or ctx done. A patient
// caller waits on while somebody is asked for an approval: the call's clock stands still meanwhile.
func (d *callDesk) await(ctx context.Context, t contracts.TenantID, p *calls.Pending, wait time.Duration, patient bool) (*client.CallAnswer, error) {
	for {
		waiting, cancel := context.WithTimeout(ctx, wait)
		rec, err := p.Await(waiting)
		cancel()
		if err != nil {
			return nil, err
		}
		if patient && ctx.Err() == nil && waitsFor(rec, contracts.WaitsForApproval) {
			continue
		}
		return d.answer(context.WithoutCancel(ctx), t, rec)
	}
}

// state returns how a call stands, after waiting for the end of it.
func (d *callDesk) state(ctx context.Context, t contracts.TenantID, run, id string, wait time.Duration) (*client.CallAnswer, error) {
	r, c, err := d.find(ctx, t, run, id)
	if err != nil {
		return nil, err
	}
	ctx, cancel := d.untilStop(ctx)
	defer cancel()
	if c.body != "" {
		return d.bodyState(ctx, t, r, c.body, wait)
	}
	p, err := d.caller.Join(t, r, c.id)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return d.await(ctx, t, p, wait, false)
}

// result ends a call that waits for its caller with what the caller's tool answered.
func (d *callDesk) result(ctx context.Context, t contracts.TenantID, run, id string, r client.ClientResult) (*client.CallAnswer, error) {
	res, err := clientResult(r)
	if err != nil {
		return nil, err
	}
	runID, c, err := d.find(ctx, t, run, id)
	if err != nil {
		return nil, err
	}
	if c.body != "" {
		return nil, contracts.Errorf(contracts.CodeConflict, "the call is one of %s and takes no result; results are for the calls in clientCalls", control.Code)
	}
	o, err := d.answered(ctx, t, runID, c.call, res)
	if err != nil {
		return nil, err
	}
	rec, err := d.caller.Answer(ctx, t, runID, c.id, o)
	if contracts.CodeOf(err) == contracts.CodeNotFound {
		return nil, noCall(id)
	}
	if err != nil {
		return nil, err
	}
	return d.answer(ctx, t, rec)
}

// answered returns how a call ends that its caller's tool answered: held against the tool's output schema and cut as any other.
func (d *callDesk) answered(ctx context.Context, t contracts.TenantID, run contracts.RunID, rec *contracts.Call, r *contracts.Result) (contracts.Outcome, error) {
	if !waitsForClient(rec) { // which is an error: nothing is kept for it
		return contracts.Outcome{Result: r}, nil
	}
	of, err := d.runs.get(ctx, t, string(run))
	if err != nil {
		return contracts.Outcome{}, err
	}
	tool, err := d.clientTool(ctx, t, of, rec)
	if err != nil {
		return contracts.Outcome{}, err
	}
	budget := outputs.ForModel(tool)
	if rec.Body != "" {
		budget = outputs.ForBody(tool)
	}
	return d.outputs.Outcome(ctx, d.place(t, of), tool, budget, r), nil
}

// clientTool returns the caller's own tool that a call is of.
func (d *callDesk) clientTool(ctx context.Context, t contracts.TenantID, run *contracts.Run, rec *contracts.Call) (*contracts.Tool, error) {
	if rec.Resolved != nil && run.Request.ClientTools != "" {
		l, err := d.runs.library.Listing(ctx, t, run.Request.ClientTools)
		if err != nil {
			return nil, err
		}
		for i := range l.Tools {
			if l.Tools[i].ID == rec.Resolved.ID {
				return &l.Tools[i], nil
			}
		}
	}
	return &contracts.Tool{}, nil
}

// place is where results of a run belong.
func (d *callDesk) place(t contracts.TenantID, run *contracts.Run) outputs.Place {
	e, err := d.live.PolicyFor(t, run)
	return outputs.Place{Tenant: t, Run: run.ID, Unreadable: err != nil || e.Forbids(outputs.ReadID)}
}

// cancel asks for the end of a call and returns how it then stands.
func (d *callDesk) cancel(ctx context.Context, t contracts.TenantID, run, id string) (*client.CallAnswer, error) {
	r, c, err := d.find(ctx, t, run, id)
	if err != nil {
		return nil, err
	}
	if c.body != "" {
		err = d.bodies.Cancel(ctx, t, r, c.body)
	} else {
		err = d.caller.Cancel(ctx, t, r, c.id)
	}
	if err != nil {
		return nil, err
	}
	return d.state(ctx, t, run, id, 0)
}

// A found call is one of a tool or, with body, of the control tool that runs bodies.
type found struct {
	id   contracts.CallID
	call *contracts.Call // nil for a body
	body contracts.BodyID
}

// find checks that there is such a call of such a run.
func (d *callDesk) find(ctx context.Context, t contracts.TenantID, run, id string) (contracts.RunID, found, error) {
	rec, err := d.runs.get(ctx, t, run)
	if err != nil {
		return "", found{}, err
	}
	c, err := contracts.ParseCallID(id)
	if err != nil {
		return "", found{}, noCall(id)
	}
	f := found{id: c}
	f.call, err = d.runs.calls.Get(ctx, contracts.CallKey(t, rec.ID, c))
	if contracts.CodeOf(err) == contracts.CodeNotFound {
		f.body = contracts.BodyOf(c)
		_, err = d.bodies.Get(ctx, contracts.BodyKey(t, rec.ID, f.body))
	}
	if contracts.CodeOf(err) == contracts.CodeNotFound {
		return "", found{}, noCall(id)
	}
	return rec.ID, f, err
}

func noCall(id string) error {
	return contracts.Errorf(contracts.CodeNotFound, "there is no call %q in this run", clip(id))
}

// answer returns a call as its caller sees it.
func (d *callDesk) answer(ctx context.Context, t contracts.TenantID, rec *contracts.Call) (*client.CallAnswer, error) {
	if rec.State == contracts.CallStateFinished {
		return answerOf(rec.Outcome), nil
	}
	a := &client.CallAnswer{
		Outcome: contracts.Outcome{
			Status: contracts.StatusWaiting, Tool: rec.Resolved, CallID: rec.ID, Repaired: rec.Repaired,
			DurationMs: time.Since(rec.Requested).Milliseconds(),
		},
		Href: href(rec.Run, rec.ID),
	}
	var err error
	if waitsFor(rec, contracts.WaitsForApproval) {
		a.Approval, err = d.pendingApproval(ctx, t, rec.Approval)
		return a, err
	}
	if !waitsForClient(rec) {
		return a, nil
	}
	if a.ClientCall, err = d.clientCall(ctx, t, rec); err != nil {
		return nil, err
	}
	a.Status = contracts.StatusRequiresAction
	return a, nil
}

// href is where to look at a call again.
func href(r contracts.RunID, c contracts.CallID) string {
	return "/v1/runs/" + string(r) + "/calls/" + string(c)
}

func waitsForClient(rec *contracts.Call) bool { return waitsFor(rec, contracts.WaitsForClient) }

func waitsFor(rec *contracts.Call, whom contracts.WaitsFor) bool {
	return rec.State == contracts.CallStateWaiting && rec.Waits == whom
}

// clientCall returns what the caller of a call is to run.
func (d *callDesk) clientCall(ctx context.Context, t contracts.TenantID, rec *contracts.Call) (*client.ClientCall, error) {
	args, err := d.caller.Args(ctx, t, rec)
	if err != nil {
		return nil, err
	}
	c := &client.ClientCall{Tool: rec.Tool, Args: args}
	if rec.Resolved != nil {
		c.Tool = rec.Resolved.Name
	}
	return c, nil
}

func answerOf(o *contracts.Outcome) *client.CallAnswer {
	if o == nil {
		return nil
	}
	return &client.CallAnswer{Outcome: *o}
}

// clientResult checks what a caller's tool answered.
func clientResult(r client.ClientResult) (*contracts.Result, error) {
	bad := contracts.Errorf(contracts.CodeInvalid, "content")
	for i, block := range r.Content {
		var b struct {
			Type string `json:"type"`
		}
		if !isObject(block) || json.Unmarshal(block, &b) != nil || b.Type == "" {
			bad.Fields = append(bad.Fields, contracts.FieldError{Field: "/content/" + itoa(i), Message: "want an object with a type, such as {\"type\":\"text\",\"text\":\"…\"}"})
		}
	}
	if len(bad.Fields) > 0 {
		bad.Message = bad.Fields[0].Field[1:] + ": " + bad.Fields[0].Message
		return nil, bad
	}
	out := &contracts.Result{Content: r.Content, StructuredContent: r.StructuredContent, IsError: r.IsError}
	if string(out.StructuredContent) == "null" {
		out.StructuredContent = nil
	}
	if out.StructuredContent != nil && !isObject(out.StructuredContent) {
		return nil, wrong("structuredContent", "want an object")
	}
	return out, nil
}
