package openapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/toolcrib/toolcrib/internal/core/guard"
	"github.com/toolcrib/toolcrib/internal/core/names"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// Call calls the operation of a tool; args must be a JSON object that the tool's input schema allows. meta goes along as far as there is a header for
// it. Where ctx ends first the error is that of ctx. Other errors are a [contracts.Error] with
//
//   - [contracts.CodeInvalidArgs]: an argument cannot be sent, and nothing was;
//   - [contracts.CodeSourceUnavailable]: the request did not reach the service;
//   - [contracts.CodeToolError]: the service answered that it failed;
//   - [contracts.CodeRateLimited]: the service takes no more requests for now, and did nothing;
//   - [contracts.CodeUnavailable]: the service says that it is away for a while;
//   - [contracts.CodeOutcomeUnknown]: the request may have reached the service, and there is no answer.
//
// With the three where there is an answer, the result is what it says.
func (c *Conn) Call(ctx context.Context, tool *contracts.Tool, args json.RawMessage, meta map[string]string) (*contracts.Result, error) {
	target, err := c.cfg.Resolve()
	if err != nil {
		return nil, unavailable("%w", err)
	}
	one, err := newCall(tool.Binding, args)
	if err != nil {
		return nil, err
	}
	server, err := c.serverOf(one, target)
	if err != nil {
		return nil, err
	}
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	r, err := one.request(traced, server)
	if err != nil {
		return nil, err
	}
	if id := meta[contracts.MetaCallID]; id != "" && !safe(one.Method) && r.Header.Get(headerKey) == "" {
		r.Header.Set(headerKey, id)
	}
	if err := authorise(r, one, target); err != nil {
		if contracts.CodeOf(err) == contracts.CodeInvalidArgs {
			return nil, err
		}
		return nil, unavailable("%s", target.redact(err.Error()))
	}
	if parent := meta["traceparent"]; parent != "" {
		r.Header.Set("Traceparent", parent)
	}
	sendOnce(r.Header)
	resp, err := c.client.Do(r)
	if err == nil {
		defer resp.Body.Close()
		a := answer{binding: &one.binding, target: target}
		err = a.read(resp)
		if err == nil {
			return a.result()
		}
	}
	return nil, failure(ctx, err, sent.Load(), target)
}

// headerKey carries the id of the call where the operation may change something, unless an argument is for it: a service that knows the
// header does what it does once, however often it is asked.
const headerKey = "Idempotency-Key"

// sendOnce hides from the client that a request has a key: it would send it again by itself where a connection breaks, as if every
// service knew what the key means. The names of headers are the same in small letters.
func sendOnce(h http.Header) {
	for _, name := range []string{headerKey, "X-" + headerKey} {
		if v, ok := h[name]; ok {
			delete(h, name)
			h[strings.ToLower(name)] = v
		}
	}
}

// safe reports whether a request of the method changes nothing, by the promise of HTTP.
func safe(method string) bool {
	switch strings.ToUpper(method) {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// serverOf returns where a call goes.
func (c *Conn) serverOf(one *call, target Target) (*url.URL, error) {
	text := one.Server
	if target.Server != "" {
		text = target.Server
	}
	u, err := url.Parse(text)
	switch {
	case text == "" || err != nil:
		return nil, unavailable("server: not an http or https URL")
	case target.Server == "" && (len(one.Auth) > 0 || len(target.Headers) > 0) && !c.trusts(target, u):
		return nil, unavailable("the server of the operation gets no credentials of the configuration")
	}
	return u, nil
}

// authorise adds credentials and the headers of the configuration.
func authorise(r *http.Request, one *call, target Target) error {
	for _, s := range one.Auth { // an argument that is an object can have any names
		_, err := r.Cookie(s.Key)
		if s.In == "query" && r.URL.Query().Has(s.Key) || s.In == "cookie" && err == nil {
			return contracts.Errorf(contracts.CodeInvalidArgs, "the arguments hold %s, which only the configuration can give", clip(s.Key))
		}
	}
	query, err := credentials(r, one.Auth, target.Auth)
	if err != nil {
		return err
	}
	for _, q := range query {
		if r.URL.RawQuery != "" {
			q = r.URL.RawQuery + "&" + q
		}
		r.URL.RawQuery = q
	}
	for k, v := range target.Headers {
		r.Header.Set(k, v)
	}
	return nil
}

// failure is the error of a call without a usable answer.
func failure(ctx context.Context, err error, sent bool, target Target) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	const longest = 300
	why := names.Cut(names.Text(target.redact(reason(ctx, err))), longest)
	refusal, refused := errors.AsType[*guard.Refusal](err)
	switch {
	case refused && refusal.Status > 0:
		return contracts.Errorf(contracts.CodeToolError, "the service answered %s; %s", statusOf(refusal.Status), why)
	case !sent:
		return unavailable("%s", why)
	}
	return contracts.Errorf(contracts.CodeOutcomeUnknown, "the service was lost during the call, which may or may not have happened: %s", why)
}
