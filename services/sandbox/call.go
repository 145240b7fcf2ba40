package sandbox

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/calls"
	"github.com/toolcrib/toolcrib/internal/core/control"
	"github.com/toolcrib/toolcrib/internal/core/names"
	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/sandbox/engine"
)

var errNothing = errors.New("nothing to change")

func isNothing(err error) bool { return errors.Is(err, errNothing) }

// call answers tools.call(id, args, {outcome}): the n-th call of the body.
func (x *door) call(n int, id contracts.CallID, tool, args, options json.RawMessage) (json.RawMessage, error) {
	rec, err := x.makeCall(id, tool, args)
	o := &contracts.Outcome{Status: contracts.StatusOf(contracts.CodeOf(err)), CallID: id, Error: contracts.AsError(err)}
	switch {
	case err == nil:
		o = rec.Outcome
	case x.ctx.Err() != nil:
		o.Status = contracts.StatusCancelled
	}
	x.mu.Lock()
	c := &x.calls[n]
	c.Status, c.Ms = o.Status, time.Since(x.begun[n]).Milliseconds()
	if o.Tool != nil {
		c.ID = string(o.Tool.ID)
	}
	x.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if o, err = x.content.hide(o); err != nil {
		return nil, err
	}
	x.warn(o)
	text, err := encode(o)
	if err != nil {
		return nil, err
	}
	var want struct {
		Outcome bool `json:"outcome"`
	}
	if len(options) > 0 && json.Unmarshal(options, &want) != nil {
		return nil, control.Wrong("options", "want an object such as {outcome: true}")
	}
	if o.Status == contracts.StatusOK || want.Outcome {
		return text, nil
	}
	return nil, &failedCall{outcome: o, text: text}
}

// makeCall has the tool called and returns the record of the call that ended.
func (x *door) makeCall(id contracts.CallID, tool, args json.RawMessage) (*contracts.Call, error) {
	if err := x.allowed(control.Call); err != nil {
		return nil, err
	}
	args, repaired := mended(args)
	name, err := control.ToolID(tool)
	if err != nil {
		return nil, err
	}
	if i := strings.LastIndexByte(name, ':'); isControl(name[i+1:]) {
		return nil, contracts.Errorf(contracts.CodeInvalid, "id: %s is no tool of the catalogue; inside a body use tools.search, tools.describe and tools.call", name)
	}
	if len(args) > 0 && args[0] != '{' {
		return nil, control.Wrong("args", "want an object with the tool's arguments: tools.call(id, {…})")
	}
	args, err = x.content.show(x.ctx, args)
	if err != nil {
		return nil, err
	}
	p, err := x.s.caller.Start(x.ctx, x.tenant, x.body.Run, calls.Request{
		Tool: name, Args: args, Repaired: repaired, ID: id, Body: x.body.ID, Deadline: time.Now().Add(x.s.cfg.callTimeout(x.tenant)),
	})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	rec, err := p.AwaitEnd(x.ctx, func(whom contracts.WaitsFor) { x.waiting(id, whom) })
	if err != nil {
		return nil, err
	}
	if rec.State != contracts.CallStateFinished {
		return nil, contracts.Errorf(contracts.CodeCancelled, "the body ended before the call")
	}
	return rec, nil
}

// mended returns the arguments that are meant where they are a text with an object in it, and that this was mended.
func mended(args json.RawMessage) (json.RawMessage, []string) {
	var text string
	if len(args) == 0 || args[0] != '"' || json.Unmarshal(args, &text) != nil {
		return args, nil
	}
	inner := json.RawMessage(strings.TrimSpace(text))
	if len(inner) == 0 || inner[0] != '{' || !json.Valid(inner) {
		return args, nil
	}
	return inner, []string{"args was a text with an object in it"}
}

// warn has the log say that the body was not given all of a result: what it makes of the part would pass for what it makes of the whole.
func (x *door) warn(o *contracts.Outcome) {
	if o.Result == nil || o.Result.Truncated == "" {
		return
	}
	const longest = 400
	name := string(o.CallID)
	if o.Tool != nil {
		name = string(o.Tool.ID)
	}
	x.Log(engine.Log{Level: "warn", Text: names.Cut(fmt.Sprintf("%s: its result is only a part: %s", name, o.Result.Truncated), longest)})
}

func isControl(name string) bool {
	for _, c := range control.Names() {
		if c == name {
			return true
		}
	}
	return false
}

// A failedCall is an outcome that is not ok, as an error.
type failedCall struct {
	outcome *contracts.Outcome
	text    json.RawMessage // the outcome as the body sees it
}

// longestReason is the most characters of what a tool said of its failure that stand in the message; the outcome has all of it.
const longestReason = 600

func (f *failedCall) Error() string {
	o := f.outcome
	what := string(o.CallID)
	if o.Tool != nil {
		what = string(o.Tool.ID)
	}
	reason := string(o.Status)
	if o.Error != nil {
		reason = o.Error.Message
		if said := firstText(o.Result); said != "" && o.Error.Code == contracts.CodeToolError {
			reason = said
		}
	}
	return fmt.Sprintf("%s: %s: %s", what, o.Status, names.Cut(reason, longestReason))
}

// firstText returns the first text block of a result, "" where there is none.
func firstText(r *contracts.Result) string {
	if r == nil {
		return ""
	}
	for _, b := range r.Content {
		var text struct{ Type, Text string }
		if json.Unmarshal(b, &text) == nil && text.Type == "text" {
			return text.Text
		}
	}
	return ""
}

// thrown returns the error that a failed ask throws inside the body.
func thrown(err error) *engine.Thrown {
	if f, ok := errors.AsType[*failedCall](err); ok {
		return &engine.Thrown{Message: f.Error(), Props: map[string]json.RawMessage{
			"status": quoted(string(f.outcome.Status)), "callId": quoted(string(f.outcome.CallID)), "outcome": f.text,
		}}
	}
	e := contracts.AsError(err)
	out := &engine.Thrown{Message: e.Message, Props: map[string]json.RawMessage{
		"status": quoted(string(contracts.StatusOf(e.Code))), "code": quoted(string(e.Code)),
	}}
	if e.RetryAfter > 0 {
		out.Props["retryAfter"], _ = json.Marshal(e.RetryAfter)
	}
	return out
}

func quoted(s string) json.RawMessage {
	b, _ := json.Marshal(cmp.Or(s, "error"))
	return b
}
