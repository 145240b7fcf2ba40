package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/toolcrib/toolcrib/internal/core/calls"
	"github.com/toolcrib/toolcrib/internal/core/control"
	"github.com/toolcrib/toolcrib/internal/core/outputs"
	"github.com/toolcrib/toolcrib/internal/core/policy"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A controlCall is one call of a control tool.
type controlCall struct {
	tenant   contracts.TenantID
	run      *contracts.Run
	name     string
	args     json.RawMessage
	repaired []string
	began    time.Time
}

// An answerer answers a call of a control tool: with its outcome, or with the work that it stands for. An error
// means that the run cannot be used.
type answerer func(context.Context, *controlCall) (*contracts.Outcome, work, error)

// A work takes time, and is waited for as the call says: the call of a catalogued tool, or a body.
type work func(context.Context, call) (*client.CallAnswer, error)

// answerer returns what answers calls of the name, nil where it is not that of a control tool.
func (d *callDesk) answerer(name string) answerer {
	switch name {
	case control.Search:
		return d.allowed(d.questioned(d.search))
	case control.Describe:
		return d.allowed(d.questioned(d.describe))
	case control.Call:
		return d.allowed(d.callTool)
	case control.Code:
		return d.allowed(d.runBody)
	}
	return nil
}

// allowed makes a control not exist where policy denies it. An allow list that does not mention it is about other tools.
func (d *callDesk) allowed(next answerer) answerer {
	return func(ctx context.Context, c *controlCall) (*contracts.Outcome, work, error) {
		err := d.live.Loaded(ctx)
		if err == nil {
			var e *policy.Effective
			if e, err = d.live.PolicyFor(c.tenant, c.run); err != nil {
				err = contracts.Errorf(contracts.CodePolicyDenied, "policy cannot be evaluated, so nothing is allowed: %w", err)
			} else if e.Forbids(c.ref().ID) {
				err = contracts.Errorf(contracts.CodeUnknownTool, "there is no tool %q", c.name)
			}
		}
		if err != nil {
			o, err := d.failed(c, err)
			return o, nil, err
		}
		return next(ctx, c)
	}
}

// questioned makes a control of a question whose answer is the result.
func (d *callDesk) questioned(ask func(context.Context, *controlCall) (any, error)) answerer {
	return func(ctx context.Context, c *controlCall) (*contracts.Outcome, work, error) {
		answer, err := ask(ctx, c)
		var o *contracts.Outcome
		if err == nil {
			var text json.RawMessage
			if text, err = compact(answer); err == nil {
				r := d.outputs.Keep(ctx, d.place(c.tenant, c.run), outputs.ForControl(), contracts.TextResult(string(text), text))
				o = c.outcome(contracts.Outcome{Status: contracts.StatusOK, Result: r})
			}
		}
		if err != nil {
			if o, err = d.failed(c, err); err != nil {
				return nil, nil, err
			}
		}
		d.repeats.note(c, o)
		return o, nil, nil
	}
}

func (d *callDesk) search(ctx context.Context, c *controlCall) (any, error) {
	q, err := searchArgs(c)
	if err != nil {
		return nil, err
	}
	q.Run = c.run.ID
	a, err := bus.Ask[contracts.SearchAnswer](ctx, d.bus, c.tenant, contracts.VerbSearch, q)
	if err == nil && len(q.Queries) > 0 {
		return struct {
			Results []contracts.SearchAnswer `json:"results"`
		}{a.Results}, nil
	}
	return a, err
}

func (d *callDesk) describe(ctx context.Context, c *controlCall) (any, error) {
	id, err := describeArgs(c)
	if err != nil {
		return nil, err
	}
	return bus.Ask[contracts.DescribeAnswer](ctx, d.bus, c.tenant, contracts.VerbDescribe, contracts.DescribeRequest{Run: c.run.ID, ID: id})
}

// callTool returns the call that a tool_call stands for.
func (d *callDesk) callTool(ctx context.Context, c *controlCall) (*contracts.Outcome, work, error) {
	id, args, err := callArgs(c)
	if err != nil {
		return d.refused(c, err)
	}
	if id == control.Search || id == control.Describe || id == control.Code {
		c.name, c.args = id, args
		c.repair("%s was called through %s", id, control.Call)
		return d.answerer(id)(ctx, c)
	}
	args, how := d.unwrapped(ctx, c.tenant, c.run, id, args)
	if how != "" {
		c.repair("%s", how)
	}
	r := calls.Request{Tool: id, Args: args, Repaired: c.repaired}
	return nil, func(ctx context.Context, q call) (*client.CallAnswer, error) {
		return d.start(ctx, c.tenant, c.run.ID, r, q)
	}, nil
}

// refused answers a call whose arguments cannot be used.
func (d *callDesk) refused(c *controlCall, err error) (*contracts.Outcome, work, error) {
	o, err := d.failed(c, err)
	if err == nil {
		d.repeats.note(c, o)
	}
	return o, nil, err
}

// repair notes what was mended in the arguments.
func (c *controlCall) repair(format string, args ...any) {
	c.repaired = append(c.repaired, fmt.Sprintf(format, args...))
}

// ref returns the reference to the control tool that outcomes carry.
func (c *controlCall) ref() *contracts.ToolRef { return controlRef(c.name) }

func controlRef(name string) *contracts.ToolRef {
	return &contracts.ToolRef{ID: control.ID(name), Name: name, Source: control.Source().Kind}
}

// outcome fills in what is the same in every outcome of the control tool.
func (c *controlCall) outcome(o contracts.Outcome) *contracts.Outcome {
	o.CallID, o.Repaired, o.SideEffects = contracts.NewCallID(), c.repaired, contracts.SideEffectsNone
	o.Tool = c.ref()
	o.DurationMs = time.Since(c.began).Milliseconds()
	return &o
}

// failed returns the outcome that err stands for, or err where it says that there is no such run.
func (d *callDesk) failed(c *controlCall, err error) (*contracts.Outcome, error) {
	switch contracts.CodeOf(err) {
	case contracts.CodeNotFound, contracts.CodeRunClosed:
		return nil, err
	case contracts.CodeInternal:
		d.log.Error("control tool failed", "tool", c.name, "run", c.run.ID, "err", err)
	}
	return c.outcome(failure(contracts.AsError(err))), nil
}

// plain returns arguments in the one form of all that mean the same.
func plain(args json.RawMessage) string {
	var v any
	if json.Unmarshal(args, &v) != nil {
		return string(args)
	}
	text, _ := json.Marshal(v)
	return string(text)
}

// failure returns status and error of what failed with e.
func failure(e *contracts.Error) contracts.Outcome {
	o := contracts.Outcome{Status: contracts.StatusOf(e.Code), Error: e, RetryAfter: e.RetryAfter}
	if o.Status == contracts.StatusInvalidArgs {
		o.Error = &contracts.Error{Code: contracts.CodeInvalidArgs, Message: e.Message, Fields: e.Fields}
	}
	return o
}

// compact returns v as JSON without the escapes that only HTML needs: a model reads it.
func compact(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// enough is the number of equal failures in a row from which on a model is told to stop.
const enough = 3

// repeats counts equal failures of control calls, of the runs used last. It is in memory: what it says is advice, and a model that comes to
// another replica in the middle gets it two failures later, which is less than a write to the bus for each failure. Safe for concurrent use.
type repeats struct {
	last *lru.Cache[string, repeat]
}

type repeat struct {
	what  contracts.Hash
	call  contracts.CallID // the last of them
	times int
}

func newRepeats() *repeats {
	last, _ := lru.New[string, repeat](4096)
	return &repeats{last}
}

// note counts a failure, and has its error say that it is enough where it is.
func (r *repeats) note(c *controlCall, o *contracts.Outcome) {
	key := string(contracts.RunKey(c.tenant, c.run.ID))
	switch o.Status {
	case contracts.StatusOK:
		r.last.Remove(key)
		return
	case contracts.StatusUnavailable, contracts.StatusTimeout, contracts.StatusRateLimited, contracts.StatusCancelled:
		return // another try can help
	}
	if o.Error == nil {
		return
	}
	what := strings.Join([]string{c.name, plain(c.args), string(o.Status), string(o.Error.Code)}, "\x00")
	now := repeat{contracts.HashOf([]byte(what)), o.CallID, 1}
	if before, ok := r.last.Get(key); ok && before.what == now.what {
		now.times += before.times
		if before.call == now.call { // its answer was asked for again, by its key
			now.times--
		}
	}
	r.last.Add(key, now)
	if now.times >= enough {
		e := *o.Error
		e.Message = fmt.Sprintf("Stop: these are %d calls of %s in a row with the same arguments, and each failed in the same way. Do something else. It fails because: %s", now.times, c.name, e.Message)
		o.Error = &e
		if o.Result != nil { // which may be all that a model is shown
			r := *o.Result
			r.Content = slices.Concat(r.Content, contracts.TextResult(e.Message, nil).Content)
			o.Result = &r
		}
	}
}
