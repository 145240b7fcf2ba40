package gateway

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/calls"
	"github.com/toolcrib/toolcrib/internal/core/live"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A callDesk makes the calls that models ask for, for HTTP and MCP alike. Safe for concurrent use.
type callDesk struct {
	bus      *bus.Bus
	runs     *runDesk
	caller   *calls.Caller
	live     *live.State
	timeouts func(contracts.TenantID) time.Duration
	repeats  *repeats
	stopping context.Context
	log      *slog.Logger
}

// A call is what a model asked for.
type call struct {
	name string
	args json.RawMessage
	key  string        // the caller's idempotency key, "" for none
	wait time.Duration // for the end of it
	// patient has the wait go on when the service is told to stop, for a caller who cannot look again.
	patient bool
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
	if control := d.control(q.name); control != nil {
		c := &controlCall{tenant: t, run: rec, name: q.name, args: q.args, began: time.Now()}
		outcome, next, err := control(ctx, c)
		if err != nil || next == nil {
			return answerOf(outcome), err
		}
		a, err := d.start(ctx, t, rec.ID, *next, q)
		if err == nil && a.Final() {
			d.repeats.note(c, &a.Outcome)
		}
		return a, err
	}
	direct, repaired, failed := directArgs(q.args)
	if failed != nil {
		return answerOf(failed), nil
	}
	return d.start(ctx, t, rec.ID, calls.Request{Tool: q.name, Args: direct, Repaired: repaired}, q)
}

// start has a catalogued tool called and waits for the end of it.
func (d *callDesk) start(ctx context.Context, t contracts.TenantID, run contracts.RunID, r calls.Request, q call) (*client.CallAnswer, error) {
	if q.key != "" {
		r.ID = contracts.KeyedCallID(run, q.key)
	}
	r.Deadline = time.Now().Add(d.timeouts(t))
	p, err := d.caller.Start(ctx, t, run, r)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	if !q.patient {
		var cancel context.CancelFunc
		ctx, cancel = d.untilStop(ctx)
		defer cancel()
	}
	return d.await(ctx, t, p, q.wait)
}

// untilStop returns ctx, done also when the service is told to stop.
func (d *callDesk) untilStop(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	forget := context.AfterFunc(d.stopping, cancel)
	return ctx, func() { forget(); cancel() }
}

// await returns how the call stands once it is settled, or when wait is over or ctx done.
func (d *callDesk) await(ctx context.Context, t contracts.TenantID, p *calls.Pending, wait time.Duration) (*client.CallAnswer, error) {
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	rec, err := p.Await(waiting)
	if err != nil {
		return nil, err
	}
	return d.answer(context.WithoutCancel(ctx), t, rec)
}

// state returns how a call stands, after waiting for the end of it.
func (d *callDesk) state(ctx context.Context, t contracts.TenantID, run, id string, wait time.Duration) (*client.CallAnswer, error) {
	r, c, err := d.ids(ctx, t, run, id)
	if err != nil {
		return nil, err
	}
	p, err := d.caller.Join(t, r, c)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	ctx, cancel := d.untilStop(ctx)
	defer cancel()
	return d.await(ctx, t, p, wait)
}

// result ends a call that waits for its caller with what the caller's tool answered.
func (d *callDesk) result(ctx context.Context, t contracts.TenantID, run, id string, r client.ClientResult) (*client.CallAnswer, error) {
	res, err := clientResult(r)
	if err != nil {
		return nil, err
	}
	runID, callID, err := d.ids(ctx, t, run, id)
	if err != nil {
		return nil, err
	}
	rec, err := d.caller.Answer(ctx, t, runID, callID, res)
	if contracts.CodeOf(err) == contracts.CodeNotFound {
		return nil, noCall(id)
	}
	if err != nil {
		return nil, err
	}
	return d.answer(ctx, t, rec)
}

// cancel asks for the end of a call and returns how it then stands.
func (d *callDesk) cancel(ctx context.Context, t contracts.TenantID, run, id string) (*client.CallAnswer, error) {
	r, c, err := d.ids(ctx, t, run, id)
	if err != nil {
		return nil, err
	}
	if err := d.caller.Cancel(ctx, t, r, c); err != nil {
		return nil, err
	}
	return d.state(ctx, t, run, id, 0)
}

// ids checks that there is such a call of such a run.
func (d *callDesk) ids(ctx context.Context, t contracts.TenantID, run, id string) (contracts.RunID, contracts.CallID, error) {
	rec, err := d.runs.get(ctx, t, run)
	if err != nil {
		return "", "", err
	}
	c, err := contracts.ParseCallID(id)
	if err == nil {
		_, err = d.runs.calls.Get(ctx, contracts.CallKey(t, rec.ID, c))
	}
	switch contracts.CodeOf(err) {
	case contracts.CodeInvalid, contracts.CodeNotFound:
		return "", "", noCall(id)
	}
	return rec.ID, c, err
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
		Href: "/v1/runs/" + string(rec.Run) + "/calls/" + string(rec.ID),
	}
	if rec.State != contracts.CallStateWaiting || rec.Waits != contracts.WaitsForClient {
		return a, nil
	}
	args, err := d.caller.Args(ctx, t, rec)
	if err != nil {
		return nil, err
	}
	a.Status = contracts.StatusRequiresAction
	a.ClientCall = &client.ClientCall{Tool: rec.Tool, Args: args}
	if rec.Resolved != nil {
		a.ClientCall.Tool = rec.Resolved.Name
	}
	return a, nil
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
