package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// A capture holds what happened to one request on its way, below the SDK. It travels in the request's context. Safe for concurrent use.
type capture struct {
	mu      sync.Mutex
	sent    bool   // bytes of the request may have reached the server
	refused string // by the HTTP status of the answer: the server did not take the request
	result  json.RawMessage
	err     *jsonrpc.Error
	lose    func() // ends the waiting for an answer that cannot come; may be nil
}

// A refusal is a server's answer that is an error.
type refusal struct{ answer *jsonrpc.Error }

func (r *refusal) Error() string { return "the server answered: " + r.answer.Message }

type captureKey struct{}

func withCapture(ctx context.Context, c *capture) context.Context {
	return context.WithValue(ctx, captureKey{}, c)
}

func captureOf(ctx context.Context) *capture {
	c, _ := ctx.Value(captureKey{}).(*capture)
	return c
}

func (c *capture) markSent(sent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = sent
}

func (c *capture) refuse(status string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused = status
}

// take notes the response. A later one of the same request, as after a question of the server, replaces it.
func (c *capture) take(r *jsonrpc.Response) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.result, c.err = r.Result, nil
	if r.Error != nil {
		c.result = nil
		if e, ok := errors.AsType[*jsonrpc.Error](r.Error); ok {
			c.err = e
		} else {
			c.err = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: r.Error.Error()}
		}
	}
}

// takeMessage notes the response that data holds, if it holds one.
func (c *capture) takeMessage(data []byte) {
	msg, err := jsonrpc.DecodeMessage(data)
	if r, ok := msg.(*jsonrpc.Response); ok && err == nil {
		c.take(r)
	}
}

func (c *capture) answer() (json.RawMessage, *jsonrpc.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.result, c.err
}

// or returns the server's error answer, or else err.
func (c *capture) or(err error) error {
	if f := c.failure(); f != nil {
		return &refusal{f}
	}
	return err
}

// lost tells that what could bring the answer has ended.
func (c *capture) lost() {
	if result, err := c.answer(); result == nil && err == nil && c.lose != nil {
		c.lose()
	}
}

func (c *capture) failure() *jsonrpc.Error {
	_, err := c.answer()
	return err
}

// reached reports whether the server may have begun to work on the request; if it refused it, with which status.
func (c *capture) reached() (bool, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent && c.refused == "", c.refused
}
