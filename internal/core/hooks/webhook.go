package hooks

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/internal/core/guard"
	"github.com/toolcrib/toolcrib/internal/kit/trace"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// mostRequest bounds the body of a request to a webhook.
const mostRequest = 2*contracts.HookArgumentsMost + 64<<10

// A webhook is reached over HTTP.
type webhook struct {
	source config.HookSource
	refs   config.Resolver

	mu     sync.Mutex
	target config.HookTarget
	client *guard.Client // nil until the references were resolved
}

func (w *webhook) most() int { return mostRequest }

func (w *webhook) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.client != nil {
		w.client.CloseIdle()
	}
}

// open returns how the hook is reached.
func (w *webhook) open() (config.HookTarget, *guard.Client, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.client != nil {
		return w.target, w.client, nil
	}
	target, err := w.source.Resolve(w.refs)
	if err != nil {
		return target, nil, problem("%v", err)
	}
	named, err := url.Parse(target.URL)
	if err != nil {
		return target, nil, problem("url: is not an http or https URL") // the error quotes it
	}
	cfg := guard.Config{Named: []*url.URL{named}, Timeout: -1, MaxBody: contracts.HookAnswerMost}
	if target.Proxy != "" {
		if cfg.Proxy, err = url.Parse(target.Proxy); err != nil {
			return target, nil, problem("network.proxy: is not an http or https URL")
		}
	}
	w.target, w.client = target, guard.New(cfg)
	return w.target, w.client, nil
}

// exchange is that of transport. A connection that turns out to have been closed by the other side while it was idle is replaced once: the hook did not see the request, or
// is asked a question a second time, under another id.
func (w *webhook) exchange(ctx context.Context, body []byte) ([]byte, error) {
	target, client, err := w.open()
	if err != nil {
		return nil, err
	}
	data, stale, err := w.post(ctx, target, client, body)
	if stale && ctx.Err() == nil {
		client.CloseIdle()
		data, _, err = w.post(ctx, target, client, body)
	}
	return data, err
}

// post sends one request. stale reports that it failed on a connection that was used before, without a byte of an answer.
func (w *webhook) post(ctx context.Context, target config.HookTarget, client *guard.Client, body []byte) (data []byte, stale bool, _ error) {
	var used, answered atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:              func(i httptrace.GotConnInfo) { used.Store(i.Reused) },
		GotFirstResponseByte: func() { answered.Store(true) },
	})
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, target.URL, bytes.NewReader(body))
	if err != nil {
		return nil, false, problem("url: is not an http or https URL")
	}
	sign(ctx, r, target, body)
	resp, err := client.Transport().RoundTrip(r) // which follows no redirect
	if err != nil {
		return nil, used.Load() && !answered.Load(), unreached(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, false, problem("it answered with the status %d", resp.StatusCode)
	}
	data, err = io.ReadAll(resp.Body)
	switch {
	case errors.Is(err, guard.ErrTooLarge):
		return nil, false, problem("its answer has more than %d bytes", contracts.HookAnswerMost)
	case err != nil:
		return nil, false, silence("its answer broke off: %v", err)
	}
	return data, false, nil
}

// unreached returns the failure that an error of sending is.
func unreached(err error) *failure {
	if refusal, ok := errors.AsType[*guard.Refusal](err); ok {
		return problem("%v", refusal)
	}
	return silence("it could not be reached: %v", err)
}

// sign sets the headers of a request.
func sign(ctx context.Context, r *http.Request, target config.HookTarget, body []byte) {
	for k, v := range target.Headers {
		r.Header.Set(k, v)
	}
	if u := r.URL.User; u != nil {
		password, _ := u.Password()
		r.SetBasicAuth(u.Username(), password)
		r.URL.User = nil
	}
	id, now := newID(), time.Now()
	signatures := make([]string, len(target.Keys))
	for i, k := range target.Keys {
		signatures[i] = k.Sign(id, now, body)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "toolcrib")
	r.Header.Set(contracts.HookIDHeader, id)
	r.Header.Set(contracts.HookTimeHeader, strconv.FormatInt(now.Unix(), 10))
	r.Header.Set(contracts.HookSignatureHeader, strings.Join(signatures, " "))
	common(ctx, nats.Header(r.Header))
}

func newID() string { return "hook_" + rand.Text() }

// common sets the headers that requests of both kinds have.
func common(ctx context.Context, h nats.Header) {
	trace.Inject(ctx, h)
	if deadline, ok := ctx.Deadline(); ok {
		h.Set(contracts.HookTimeoutHeader, strconv.FormatInt(max(time.Until(deadline).Milliseconds(), 1), 10))
	}
}
