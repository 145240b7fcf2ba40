package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolcrib/toolcrib/internal/core/names"
	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/executor/internal/mcpform"
)

// Call calls a tool; args must be a JSON object. meta goes along in the request's _meta. Where ctx ends first
// the server is told so, and the error is that of ctx. Other errors are a [contracts.Error] with
//
//   - [contracts.CodeToolError]: the server answered with an error;
//   - [contracts.CodeSourceUnavailable]: the request did not reach the server;
//   - [contracts.CodeOutcomeUnknown]: it may have, and there is no answer.
func (c *Conn) Call(ctx context.Context, tool string, args json.RawMessage, meta map[string]string) (*contracts.Result, error) {
	bound, stop := c.bound(ctx)
	defer stop()
	params := &sdk.CallToolParams{Name: tool, Arguments: args, Meta: sdk.Meta{}}
	for k, v := range meta {
		params.Meta[k] = v
	}
	got := &capture{lose: stop}
	_, err := c.session.CallTool(withCapture(bound, got), params)
	raw, failure := got.answer()
	switch {
	case raw != nil:
		return c.result(raw)
	case failure != nil:
		return nil, contracts.Errorf(contracts.CodeToolError, "the server answered: %s", names.Line(c.cfg.redact(failure.Message), longestMessageOfServer))
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	if c.process != nil {
		within(c.process.waited, drainTime) // to say how it ended
	}
	reached, refused := got.reached()
	switch {
	case refused != "":
		return nil, c.cfg.unavailable("the server refused the request: " + refused)
	case !reached:
		return nil, c.lost(bound, "", err)
	}
	return nil, contracts.Errorf(contracts.CodeOutcomeUnknown, "the server was lost during the call, which may or may not have happened: %s", c.why(bound, err))
}

const longestMessageOfServer = 2000

// bound returns ctx that also ends when the connection is closed.
func (c *Conn) bound(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// result reads the result of a call.
func (c *Conn) result(raw json.RawMessage) (*contracts.Result, error) {
	if asksForInput(raw) {
		return nil, contracts.Errorf(contracts.CodeToolError, "the tool asks for input in mid-call, which cannot be given to it")
	}
	r := mcpform.Result(raw)
	if r == nil {
		return nil, contracts.Errorf(contracts.CodeToolError, "the server's answer is no result of a tool")
	}
	return r, nil
}

// asksForInput reports whether a result is a question of the server and not yet the end of the call.
func asksForInput(raw json.RawMessage) bool {
	var r struct {
		ResultType string `json:"resultType"`
	}
	return json.Unmarshal(raw, &r) == nil && r.ResultType == "input_required"
}

// plain returns the text of err without the URL, which may hold secrets.
func plain(err error) string {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}
