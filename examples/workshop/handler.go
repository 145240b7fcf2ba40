package workshop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A handler does the work of one tool. Its result is one of
//
//   - a *mcp.CallToolResult, sent as it is;
//   - a string, sent as text alone;
//   - any other value that marshals to a JSON object, sent as structured
//     content and as text.
//
// An error becomes a result with isError, so that the model can read it.
type handler func(ctx context.Context, c *call) (any, error)

// A call is what a handler gets to know of the request.
type call struct {
	args json.RawMessage // valid for the input schema, defaults filled in
	req  *mcp.CallToolRequest
}

// obj is a JSON object that needs no type of its own.
type obj = map[string]any

// with makes a handler of f, which needs nothing but the arguments.
func with[A any](f func(A) (any, error)) handler {
	return func(_ context.Context, c *call) (any, error) {
		a, err := decode[A](c)
		if err != nil {
			return nil, err
		}
		return f(a)
	}
}

func decode[A any](c *call) (A, error) {
	var a A
	err := json.Unmarshal(c.args, &a)
	var te *json.UnmarshalTypeError
	if errors.As(err, &te) {
		return a, fmt.Errorf("%s: a %s is not allowed, want %s", te.Field, te.Value, te.Type)
	}
	return a, err
}

// progress tells the caller how far the call is. Without a progress token in
// the request it does nothing.
func (c *call) progress(ctx context.Context, done, total float64, msg string) error {
	token := c.req.Params.GetProgressToken()
	if token == nil {
		return nil
	}
	return c.req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
		ProgressToken: token, Progress: done, Total: total, Message: msg,
	})
}

// serve checks the arguments, runs h under mu and encodes its result before
// mu is given back, so that handlers may return parts of their state.
func serve(h handler, name string, in *schema, mu sync.Locker) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		args, err := in.check(req.Params.Arguments)
		if err != nil {
			return failed(fmt.Errorf("invalid arguments for %s: %w", name, err)), nil
		}
		mu.Lock()
		defer mu.Unlock()
		v, err := h(ctx, &call{args: args, req: req})
		if err != nil {
			return failed(err), nil
		}
		return encode(v)
	}
}

func failed(err error) *mcp.CallToolResult {
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: err.Error()}}}
}

func encode(v any) (*mcp.CallToolResult, error) {
	switch v := v.(type) {
	case *mcp.CallToolResult:
		return v, nil
	case string:
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: v}}}, nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode the result: %w", err)
	}
	return &mcp.CallToolResult{
		Content:           []mcp.Content{&mcp.TextContent{Text: string(b)}},
		StructuredContent: json.RawMessage(b),
	}, nil
}

// missing is the error for an id that nothing has.
func missing(kind, id, list string) error {
	return fmt.Errorf("there is no %s %q; %s shows what there is", kind, id, list)
}

// oneOf is the error for a value that is none of those allowed.
func oneOf(field, got string, allowed []string) error {
	return fmt.Errorf("%s: %q is not allowed; allowed are %s", field, got, strings.Join(allowed, ", "))
}
