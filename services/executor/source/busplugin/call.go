package busplugin

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/executor/internal/mcpform"
)

// metaParent is the key of a call's meta that goes in a header.
const metaParent = "traceparent"

const (
	// silences is how often in a row an instance may fail to say that it works before it is taken for lost.
	silences = 3
	// The range of the time between two such words.
	leastWorking, mostWorking = 50 * time.Millisecond, time.Minute
	// mostWait is the longest pause that a plugin can ask for.
	mostWait = time.Hour
	// pendingSlack is how much of an answer may have come that was not yet looked at, beyond the size that is allowed.
	pendingSlack = 1 << 20
)

// Call calls a tool; args must be a JSON object. Where ctx ends first the plugin is told so, and the error is that of ctx. Other errors are a [contracts.Error] with
//
//   - [contracts.CodeToolError]: the plugin answered with an error, or with what is no result;
//   - [contracts.CodeInvalidArgs], [contracts.CodeRateLimited]: it says that it did not begin, because of the arguments or because it has too much to do;
//   - [contracts.CodeSourceUnavailable]: the request reached nobody, or the plugin says that it did not begin;
//   - [contracts.CodeOutcomeUnknown]: it reached an instance that gave no answer.
func (c *Conn) Call(ctx context.Context, tool string, args json.RawMessage, meta map[string]string) (*contracts.Result, error) {
	m := &nats.Msg{Subject: contracts.PluginCallSubject(c.cfg.Tenant, c.cfg.Plugin), Reply: c.cfg.Conn.NewInbox(), Header: nats.Header{}}
	if parent := meta[metaParent]; parent != "" {
		m.Header.Set(metaParent, parent)
	}
	q := contracts.PluginCallRequest{Protocol: contracts.PluginProtocol, CallID: contracts.CallID(meta[contracts.MetaCallID]), Tool: tool, Arguments: args}
	q.Cancel = contracts.PluginCancelSubject(c.cfg.Tenant, c.cfg.Plugin, m.Reply[strings.LastIndexByte(m.Reply, '.')+1:])
	if deadline, ok := ctx.Deadline(); ok {
		q.TimeoutMs = max(time.Until(deadline).Milliseconds(), 1)
	}
	var err error
	if m.Data, err = json.Marshal(q); err != nil {
		return nil, contracts.Errorf(contracts.CodeInvalidArgs, "the arguments are no JSON")
	}
	if len(m.Data) > contracts.PluginMessageMost {
		return nil, contracts.Errorf(contracts.CodeInvalidArgs, "the arguments have %d bytes; a plugin can be sent %d", len(args), contracts.PluginMessageMost)
	}
	header, body, err := c.exchange(ctx, m)
	if err != nil && contracts.CodeOf(err) != contracts.CodeSourceUnavailable {
		c.cfg.Conn.Publish(q.Cancel, nil)
	}
	if ctx.Err() != nil && err != nil {
		return nil, ctx.Err()
	}
	var r *contracts.Result
	if err == nil {
		r, err = decodeAnswer(header, body)
	}
	if code := contracts.CodeOf(err); code == contracts.CodeSourceUnavailable || code == contracts.CodeOutcomeUnknown {
		c.changed() // to find out what is there now
	}
	return r, err
}

// exchange sends a call and gathers its answer.
func (c *Conn) exchange(ctx context.Context, m *nats.Msg) (nats.Header, []byte, error) {
	ctx, stop := c.bound(ctx)
	defer stop()
	if !c.cfg.Conn.IsConnected() {
		return nil, nil, unavailable("nats is not connected").After(time.Second)
	}
	come := make(chan *nats.Msg)
	sub, err := c.cfg.Conn.Subscribe(m.Reply, func(m *nats.Msg) {
		select {
		case come <- m:
		case <-ctx.Done():
		}
	})
	if err != nil {
		return nil, nil, unsent(err)
	}
	defer sub.Unsubscribe()
	sub.SetPendingLimits(-1, contracts.PluginAnswerMost+pendingSlack) // beyond which a part is lost
	if err := c.cfg.Conn.PublishMsg(m); err != nil {
		return nil, nil, unsent(err)
	}
	var a answer
	for {
		next := a.next(ctx, come)
		switch {
		case next == nil && ctx.Err() == nil:
			return nil, nil, contracts.Errorf(contracts.CodeOutcomeUnknown, "the instance of the plugin that took the call was lost; the call may or may not have happened")
		case next == nil:
			return nil, nil, contracts.Errorf(contracts.CodeOutcomeUnknown, "the call was left; it may or may not have happened")
		case a.parts == 0 && a.working == 0 && isNoResponders(next):
			return nil, nil, unsent(nats.ErrNoResponders).After(time.Second)
		}
		whole, err := a.take(next.Header, next.Data)
		if whole || err != nil {
			return next.Header, a.body, err
		}
	}
}

// isNoResponders reports whether m is the server's word that nobody gets the request.
func isNoResponders(m *nats.Msg) bool { return len(m.Data) == 0 && m.Header.Get("Status") == "503" }

// An answer is what has come of one, in its order.
type answer struct {
	body    []byte
	parts   int
	working time.Duration // within which more comes; 0 where that was not said
}

// next waits for the next message, no longer than the instance is thought alive. It returns nil where none comes.
func (a *answer) next(ctx context.Context, come <-chan *nats.Msg) *nats.Msg {
	if a.working == 0 {
		select {
		case m := <-come:
			return m
		case <-ctx.Done():
			return nil
		}
	}
	// One wait after the other: where it was this process that stood still, what came meanwhile is found in the next.
	t := time.NewTicker(a.working)
	defer t.Stop()
	for silent := 0; silent < silences; silent++ {
		select {
		case m := <-come:
			return m
		case <-t.C:
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// take adds a message. whole reports whether it is the last one.
func (a *answer) take(header nats.Header, data []byte) (whole bool, _ error) {
	if ms, err := strconv.ParseInt(header.Get(contracts.PluginWorkingHeader), 10, 64); err == nil {
		a.working = min(max(time.Duration(min(max(ms, 0), mostWorking.Milliseconds()))*time.Millisecond, leastWorking), mostWorking)
		return false, nil
	}
	if len(a.body)+len(data) > contracts.PluginAnswerMost {
		return false, errTooLarge()
	}
	a.body = append(a.body, data...)
	if part := header.Get(contracts.PluginPartHeader); part != "" {
		if a.parts++; part != strconv.Itoa(a.parts) {
			return false, errPartLost()
		}
		return false, nil
	}
	if all := cmp.Or(header.Get(contracts.PluginPartsHeader), "0"); all != strconv.Itoa(a.parts) {
		return false, errPartLost()
	}
	return true, nil
}

func errTooLarge() *contracts.Error {
	return contracts.Errorf(contracts.CodeToolError, "the plugin's answer has more than %d MiB", contracts.PluginAnswerMost>>20)
}

func errPartLost() *contracts.Error {
	return contracts.Errorf(contracts.CodeOutcomeUnknown, "a part of the plugin's answer was lost; what the call did is not known")
}

// decodeAnswer reads the answer to a call.
func decodeAnswer(header nats.Header, body []byte) (*contracts.Result, error) {
	var a struct {
		Error *contracts.Error `json:"error"`
	}
	err := json.Unmarshal(body, &a)
	if code := header.Get(micro.ErrorCodeHeader); code != "" && (err != nil || a.Error == nil) {
		return nil, refusal(&contracts.Error{Code: contracts.Code(code), Message: header.Get(micro.ErrorHeader)})
	}
	if err == nil && a.Error != nil {
		return nil, refusal(a.Error)
	}
	var has struct {
		Content           json.RawMessage `json:"content"`
		StructuredContent json.RawMessage `json:"structuredContent"`
	}
	if r := mcpform.Result(body); r != nil && json.Unmarshal(body, &has) == nil && len(has.Content)+len(has.StructuredContent) > 0 {
		return r, nil
	}
	return nil, contracts.Errorf(contracts.CodeToolError, "the plugin's answer is no result of a tool")
}

// refusal returns what an error that a plugin answered with means.
func refusal(e *contracts.Error) *contracts.Error {
	var out *contracts.Error
	switch e.Code {
	case contracts.CodeInvalidArgs, contracts.CodeRateLimited:
		out = said(e.Code, e)
	case contracts.CodeUnavailable, contracts.CodeUnknownTool:
		out = said(contracts.CodeSourceUnavailable, e)
	default:
		out = said(contracts.CodeToolError, e)
	}
	if wait := min(e.RetryAfter, mostWait.Milliseconds()); wait > 0 {
		return out.After(time.Duration(wait) * time.Millisecond)
	}
	return out
}
