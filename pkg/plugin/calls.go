package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// partSize is how much of an answer that fits into no message goes into one, in bytes.
const partSize = 512 << 10

// A Call is what a Handler can know of the call beside its arguments.
type Call struct {
	// ID is the same when a call is made again because its answer was lost: a tool that remembers it does nothing twice.
	ID     contracts.CallID
	Parent string // traceparent of W3C trace context; "" for none
}

type callKey struct{}

// CallOf returns the call that ctx, as a Handler got it, is of; the zero Call for another context.
func CallOf(ctx context.Context) Call {
	c, _ := ctx.Value(callKey{}).(Call)
	return c
}

// errLeft is why the context of a call ended for which nobody waits any more.
var errLeft = errors.New("the call was cancelled")

// A call is one that was taken and is not answered.
type call struct {
	reply   string // where it is answered; the request itself is micro's again once it was taken
	subject string // of its cancellation; "" for none
	cancel  context.CancelCauseFunc
}

// takeCall takes a call, and has it run as soon as there is room.
func (p *Plugin) takeCall(base context.Context, r micro.Request) {
	var q contracts.PluginCallRequest
	if err := json.Unmarshal(r.Data(), &q); err != nil || q.Tool == "" {
		p.refuse(r, contracts.Errorf(contracts.CodeInvalid, "the request is no JSON object of a call"))
		return
	}
	if r.Reply() == "" {
		p.cfg.Log.Warn("a call that wants no answer was not made", "tool", q.Tool)
		return
	}
	if len(q.Arguments) == 0 || string(q.Arguments) == "null" {
		q.Arguments = json.RawMessage("{}")
	}
	ctx, cancel := context.WithCancelCause(context.WithValue(base, callKey{}, Call{q.CallID, r.Headers().Get("traceparent")}))
	c := &call{r.Reply(), q.Cancel, cancel}
	p.mu.Lock()
	t, full := p.tools[q.Tool], len(p.calls) >= (1+waiting)*p.cfg.Concurrency
	if t != nil && !full {
		p.calls[c] = struct{}{}
		p.running.Add(1)
	}
	p.mu.Unlock()
	switch {
	case t == nil:
		cancel(nil)
		p.refuse(r, contracts.Errorf(contracts.CodeUnknownTool, "the plugin has no tool %q", q.Tool))
	case full:
		cancel(nil)
		p.refuse(r, contracts.Errorf(contracts.CodeRateLimited, "the plugin has too much to do").After(time.Second))
	default:
		go p.runCall(ctx, c, t, q)
	}
}

// cancelCall cancels the call that listens to that subject, if it is here.
func (p *Plugin) cancelCall(subject string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.calls {
		if c.subject == subject {
			c.cancel(errLeft)
		}
	}
}

// runCall runs a call and answers it.
func (p *Plugin) runCall(ctx context.Context, c *call, t *tool, q contracts.PluginCallRequest) {
	defer p.running.Done()
	defer func() {
		p.mu.Lock()
		delete(p.calls, c)
		p.mu.Unlock()
		c.cancel(nil)
	}()
	if q.TimeoutMs > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, time.Duration(q.TimeoutMs)*time.Millisecond)
		defer stop()
	}
	quiet := p.tellWorking(c.reply)
	r, err := p.whenFree(ctx, t, q.Arguments)
	quiet()
	p.answer(c.reply, r, err)
}

// whenFree waits for room and calls the handler.
func (p *Plugin) whenFree(ctx context.Context, t *tool, args json.RawMessage) (*contracts.Result, error) {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return nil, contracts.Errorf(contracts.CodeUnavailable, "the plugin had too much to do to begin with the call").After(time.Second)
	}
	return p.try(ctx, t, args)
}

// try calls the handler; a panic is an error.
func (p *Plugin) try(ctx context.Context, t *tool, args json.RawMessage) (_ *contracts.Result, err error) {
	defer func() {
		if r := recover(); r != nil {
			p.cfg.Log.Error("a tool panicked", "tool", t.name, "panic", r, "stack", string(debug.Stack()))
			err = contracts.Errorf(contracts.CodeInternal, "an internal error of the plugin interrupted the tool")
		}
	}()
	return t.handle(ctx, args)
}

// tellWorking tells the caller that the call is being worked on, now and again and again, until quiet is called, which waits for the last word.
func (p *Plugin) tellWorking(reply string) (quiet func()) {
	say := func() {
		err := p.respond(reply, nil, nats.Header{contracts.PluginWorkingHeader: {strconv.FormatInt(p.cfg.Working.Milliseconds(), 10)}})
		if err != nil {
			p.cfg.Log.Warn("not told that a call is worked on", "err", err)
		}
	}
	say()
	stop := make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() {
		tick := time.NewTicker(p.cfg.Working)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				say()
			}
		}
	})
	return func() {
		close(stop)
		telling.Wait()
	}
}

// refusals are the codes of errors that are none of the tool itself.
func refusals() []contracts.Code {
	return []contracts.Code{contracts.CodeInvalidArgs, contracts.CodeRateLimited, contracts.CodeUnavailable, contracts.CodeInternal}
}

// answer sends the end of a call, in parts where it fits into no message.
func (p *Plugin) answer(reply string, result *contracts.Result, err error) {
	if err != nil {
		e, ours := errors.AsType[*contracts.Error](err)
		text := err.Error()
		if ours {
			text = e.Message
		}
		if ours && slices.Contains(refusals(), e.Code) {
			p.fail(reply, e)
			return
		}
		result = contracts.TextResult(text, nil)
		result.IsError = true
	}
	if result == nil {
		result = &contracts.Result{}
	}
	if result.Content == nil {
		whole := *result
		whole.Content = []json.RawMessage{}
		result = &whole
	}
	data, err := json.Marshal(contracts.PluginAnswer{Result: result})
	switch {
	case err != nil:
		p.cfg.Log.Error("a tool's result is no JSON", "err", err)
		p.fail(reply, contracts.Errorf(contracts.CodeInternal, "the tool's result is no JSON"))
	case len(data) > contracts.PluginAnswerMost:
		p.fail(reply, contracts.Errorf(contracts.CodeTooLarge, "the tool ran, and its result has %d bytes; at most %d can be answered", len(data), contracts.PluginAnswerMost))
	default:
		p.send(reply, data)
	}
}

// respond sends a message to who waits at reply.
func (p *Plugin) respond(reply string, body []byte, header nats.Header) error {
	return p.conn.PublishMsg(&nats.Msg{Subject: reply, Header: header, Data: body})
}

// fail answers a call that was taken with an error.
func (p *Plugin) fail(reply string, e *contracts.Error) {
	body, err := json.Marshal(contracts.PluginAnswer{Error: e})
	if err == nil {
		err = p.respond(reply, body, nats.Header{micro.ErrorHeader: {string(e.Code)}, micro.ErrorCodeHeader: {string(e.Code)}})
	}
	if err != nil {
		p.cfg.Log.Error("call not answered", "err", err)
	}
}

func (p *Plugin) send(reply string, data []byte) {
	respond := func(body []byte, key string, n int) error {
		if n == 0 {
			return p.respond(reply, body, nil)
		}
		return p.respond(reply, body, nats.Header{key: {strconv.Itoa(n)}})
	}
	var err error
	parts := 0
	if len(data) > contracts.PluginMessageMost {
		for ; len(data) > partSize && err == nil; data = data[partSize:] {
			parts++
			err = respond(data[:partSize], contracts.PluginPartHeader, parts)
		}
	}
	if err == nil {
		err = respond(data, contracts.PluginPartsHeader, parts)
	}
	if err != nil {
		p.cfg.Log.Error("call not answered", "err", err)
	}
}
