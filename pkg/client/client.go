// Package client is a small Go client of Toolcrib's HTTP API, with the shapes of its
// requests and answers, which the server uses too. It keeps no state, and tries nothing again but an event stream that broke off.
//
// Every error that the API answers with is a [contracts.Error] with the code of the problem document.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A Client speaks to one server. Safe for concurrent use.
type Client struct {
	base  string
	token string
	http  *http.Client
}

// New returns a Client of the server at base, such as http://127.0.0.1:7420, that
// sends the token with each request, "" for none. It has no time limit of its own: that of the context holds.
func New(base, token string) *Client {
	return &Client{strings.TrimRight(base, "/"), token, &http.Client{}}
}

// OpenRun opens a run and returns it once it is planned.
func (c *Client) OpenRun(ctx context.Context, o RunOptions) (*RunView, error) {
	return get[RunView](ctx, c, http.MethodPost, "/v1/runs", o)
}

// Run returns a run as it stands.
func (c *Client) Run(ctx context.Context, id contracts.RunID) (*RunView, error) {
	return get[RunView](ctx, c, http.MethodGet, runPath(id), nil)
}

// Runs returns runs of the tenant, newest first: those in the given state, "" for any, and
// at most limit, 0 for the server's default.
func (c *Client) Runs(ctx context.Context, state contracts.RunState, limit int) ([]RunSummary, error) {
	q := url.Values{}
	if state != "" {
		q.Set("state", string(state))
	}
	if limit != 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	list, err := get[RunList](ctx, c, http.MethodGet, "/v1/runs?"+q.Encode(), nil)
	if err != nil {
		return nil, err
	}
	return list.Runs, nil
}

// CloseRun ends a run. One that has ended stays as it is.
func (c *Client) CloseRun(ctx context.Context, id contracts.RunID) error {
	return c.do(ctx, http.MethodDelete, runPath(id), nil, nil, nil)
}

// longPoll is how long one request waits for the end of a call.
const longPoll = 30 * time.Second

// Call makes a call and waits until it has ended, or requires the caller to run its own
// tool. When ctx is done first, the error is that of ctx and the call goes on.
func (c *Client) Call(ctx context.Context, run contracts.RunID, q CallRequest) (*CallAnswer, error) {
	a, err := c.call(ctx, run, q, longPoll)
	if err != nil || a.Status != contracts.StatusWaiting {
		return a, err
	}
	return c.Await(ctx, run, a.CallID)
}

// Start is Call without the waiting: it returns how the call stands at once.
func (c *Client) Start(ctx context.Context, run contracts.RunID, q CallRequest) (*CallAnswer, error) {
	return c.call(ctx, run, q, 0)
}

func (c *Client) call(ctx context.Context, run contracts.RunID, q CallRequest, wait time.Duration) (*CallAnswer, error) {
	h := prefer(wait)
	if q.Key != "" {
		h.Set("Idempotency-Key", q.Key)
	}
	var a CallAnswer
	if err := c.do(ctx, http.MethodPost, runPath(run)+"/calls", h, q, &a); err != nil {
		return nil, err
	}
	return &a, nil
}

// Await waits for the end of a call that was made, as [Client.Call] does.
func (c *Client) Await(ctx context.Context, run contracts.RunID, id contracts.CallID) (*CallAnswer, error) {
	for {
		var a CallAnswer
		if err := c.do(ctx, http.MethodGet, callPath(run, id), prefer(longPoll), nil, &a); err != nil {
			return nil, err
		}
		if a.Status != contracts.StatusWaiting {
			return &a, nil
		}
	}
}

// CallState returns how a call stands, without waiting.
func (c *Client) CallState(ctx context.Context, run contracts.RunID, id contracts.CallID) (*CallAnswer, error) {
	return get[CallAnswer](ctx, c, http.MethodGet, callPath(run, id), nil)
}

// Result ends a call that requires the caller's action with what the caller's tool answered.
func (c *Client) Result(ctx context.Context, run contracts.RunID, id contracts.CallID, r ClientResult) (*CallAnswer, error) {
	if r.Content == nil {
		r.Content = []json.RawMessage{}
	}
	return get[CallAnswer](ctx, c, http.MethodPost, callPath(run, id)+"/result", r)
}

// CancelCall asks for the end of a call. One that has ended stays as it is.
func (c *Client) CancelCall(ctx context.Context, run contracts.RunID, id contracts.CallID) error {
	return c.do(ctx, http.MethodDelete, callPath(run, id), nil, nil, nil)
}

// Report returns the report of a run.
func (c *Client) Report(ctx context.Context, run contracts.RunID) (*contracts.Report, error) {
	return get[contracts.Report](ctx, c, http.MethodGet, runPath(run)+"/report", nil)
}

// Discovered returns the ids of the tools that the run found so far.
func (c *Client) Discovered(ctx context.Context, run contracts.RunID) ([]contracts.ToolID, error) {
	d, err := get[Discovered](ctx, c, http.MethodGet, runPath(run)+"/discovered", nil)
	if err != nil {
		return nil, err
	}
	return d.Tools, nil
}

// Sources returns the sources of the tenant.
func (c *Client) Sources(ctx context.Context) ([]Source, error) {
	l, err := get[SourceList](ctx, c, http.MethodGet, "/v1/sources", nil)
	if err != nil {
		return nil, err
	}
	return l.Sources, nil
}

// RefreshSource has a source discovered again and returns it as it then is.
func (c *Client) RefreshSource(ctx context.Context, id contracts.SourceID) (*Source, error) {
	return get[Source](ctx, c, http.MethodPost, "/v1/sources/"+url.PathEscape(id.String())+"/refresh", nil)
}

// Policies returns the policy layers of the tenant.
func (c *Client) Policies(ctx context.Context) (*Policies, error) {
	return get[Policies](ctx, c, http.MethodGet, "/v1/policies", nil)
}

// SetPolicies replaces the policy layers that were set over the API. No layers are as good as [Client.DeletePolicies].
func (c *Client) SetPolicies(ctx context.Context, layers []contracts.PolicyLayer) (*Policies, error) {
	if layers == nil {
		layers = []contracts.PolicyLayer{}
	}
	return get[Policies](ctx, c, http.MethodPut, "/v1/policies", PolicyUpdate{layers})
}

// Ruling says what policy makes of a tool in a run, and why.
func (c *Client) Ruling(ctx context.Context, run contracts.RunID, q RulingRequest) (*RulingView, error) {
	return get[RulingView](ctx, c, http.MethodPost, runPath(run)+"/ruling", q)
}

// DeletePolicies removes the policy layers that were set over the API.
func (c *Client) DeletePolicies(ctx context.Context) error {
	return c.do(ctx, http.MethodDelete, "/v1/policies", nil, nil, nil)
}

func runPath(id contracts.RunID) string { return "/v1/runs/" + url.PathEscape(string(id)) }

func callPath(run contracts.RunID, id contracts.CallID) string {
	return runPath(run) + "/calls/" + url.PathEscape(string(id))
}

func prefer(wait time.Duration) http.Header {
	return http.Header{"Prefer": {"wait=" + strconv.Itoa(int(wait.Seconds()))}}
}

func get[A any](ctx context.Context, c *Client, method, path string, body any) (*A, error) {
	var a A
	if err := c.do(ctx, method, path, nil, body, &a); err != nil {
		return nil, err
	}
	return &a, nil
}

// do sends a request and decodes the answer into out, nil to pass over it.
func (c *Client) do(ctx context.Context, method, path string, h http.Header, body, out any) error {
	res, err := c.send(ctx, method, path, h, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(res.Body).Decode(out); err != nil {
		return fmt.Errorf("read the answer to %s %s: %w", method, path, err)
	}
	return nil
}

// send returns the answer to a request where it is a good one. The caller closes its body.
func (c *Client) send(ctx context.Context, method, path string, h http.Header, body any) (*http.Response, error) {
	var data io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode %T: %w", body, err)
		}
		data = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, data)
	if err != nil {
		return nil, contracts.Errorf(contracts.CodeInvalid, "address of the server: %w", err)
	}
	for k, v := range h {
		req.Header[k] = v
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, contracts.Errorf(contracts.CodeUnavailable, "%s %s: %w", method, path, err)
	}
	if res.StatusCode >= 300 {
		defer res.Body.Close()
		return nil, problem(res)
	}
	return res, nil
}

// problem returns the error that an answer stands for.
func problem(res *http.Response) error {
	const most = 1 << 20
	data, _ := io.ReadAll(io.LimitReader(res.Body, most))
	var p Problem
	if err := json.Unmarshal(data, &p); err == nil && p.Code != "" {
		return &contracts.Error{Code: p.Code, Message: p.Detail, Fields: p.Fields, RetryAfter: p.RetryAfter}
	}
	return contracts.Errorf(codeOf(res.StatusCode), "the server answered %s", res.Status)
}

// codeOf returns the code for an answer that is no problem document, from something between client and server.
func codeOf(status int) contracts.Code {
	switch status {
	case http.StatusUnauthorized:
		return contracts.CodeUnauthenticated
	case http.StatusForbidden:
		return contracts.CodeForbidden
	case http.StatusNotFound:
		return contracts.CodeNotFound
	case http.StatusRequestEntityTooLarge:
		return contracts.CodeTooLarge
	case http.StatusTooManyRequests:
		return contracts.CodeRateLimited
	case http.StatusGatewayTimeout:
		return contracts.CodeTimeout
	}
	if status < 500 {
		return contracts.CodeInvalid
	}
	return contracts.CodeUnavailable
}
