package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/toolcrib/toolcrib/internal/core/guard"
)

// A web sends the requests of one connection to an address, with its headers, and notes what comes back.
type web struct {
	base    *guard.Client
	url     *url.URL
	headers map[string]string
	awaited *awaited // nil where each answer comes with its request
}

// awaited are the requests whose answers come on the one stream of the older SSE. Safe for concurrent use.
type awaited struct {
	mu       sync.Mutex
	captures map[jsonrpc.ID]*capture
}

// add has the answer to a request go to its capture, while the request's context lives.
func (a *awaited) add(r *http.Request, c *capture) {
	if r.GetBody == nil {
		return
	}
	body, err := r.GetBody()
	if err != nil {
		return
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return
	}
	msg, err := jsonrpc.DecodeMessage(data)
	q, ok := msg.(*jsonrpc.Request)
	if err != nil || !ok || !q.IsCall() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.captures[q.ID] = c
	context.AfterFunc(r.Context(), func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.captures, q.ID)
	})
}

// takeMessage gives the answer that data holds to the capture of its request.
func (a *awaited) takeMessage(data []byte) {
	msg, err := jsonrpc.DecodeMessage(data)
	r, ok := msg.(*jsonrpc.Response)
	if err != nil || !ok {
		return
	}
	a.mu.Lock()
	c := a.captures[r.ID]
	a.mu.Unlock()
	if c != nil {
		c.take(r)
	}
}

func newWeb(cfg Config) (*web, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("url: not an http or https URL")
	}
	network := cfg.Network
	network.Named = append(slices.Clone(network.Named), u)
	network.Timeout, network.MaxBody = -1, -1 // streams have no end, and the messages on them are bounded here
	w := &web{base: guard.New(network), url: u, headers: cfg.Headers}
	if cfg.SSE {
		w.awaited = &awaited{captures: map[jsonrpc.ID]*capture{}}
	}
	return w, nil
}

func (w *web) client() *http.Client {
	return &http.Client{Transport: w, CheckRedirect: guard.CheckRedirect}
}

// RoundTrip sends a request. The headers, which may be secrets, go to the configured host only, whatever redirects say.
func (w *web) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	capture := captureOf(ctx)
	if capture != nil {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { capture.markSent(true) }})
	}
	if capture != nil && w.awaited != nil {
		w.awaited.add(r, capture)
	}
	r = r.Clone(ctx)
	if r.URL.Scheme == w.url.Scheme && r.URL.Host == w.url.Host {
		for k, v := range w.headers {
			r.Header.Set(k, v)
		}
	}
	resp, err := w.base.Transport().RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if capture != nil && resp.StatusCode >= 400 && resp.StatusCode < 500 {
		capture.refuse(resp.Status)
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	b := &body{ReadCloser: resp.Body, capture: capture, events: kind == "text/event-stream"}
	switch {
	case capture != nil:
		b.take = capture.takeMessage
	case w.awaited != nil && b.events:
		b.take = w.awaited.takeMessage
	}
	resp.Body = b
	return resp, nil
}

// A body passes an answer on, bounds the size of its messages, and gives what it holds to a capture before the reader has it.
type body struct {
	io.ReadCloser
	capture *capture             // may be nil
	take    func(message []byte) // may be nil
	events  bool                 // server-sent events, else one message
	resumes bool                 // the events have ids: a broken stream can be taken up again
	message []byte               // the message, or the data of the event, so far
	line    []byte               // of an event stream, so far
}

var errTooLong = fmt.Errorf("the server sent a message of more than %d MiB", longestMessage>>20)

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.events {
		b.read(p[:n])
	} else {
		b.message = append(b.message, p[:n]...)
	}
	if len(b.message)+len(b.line) > longestMessage {
		return 0, errTooLong
	}
	if errors.Is(err, io.EOF) {
		b.flush()
	}
	if err != nil && b.events && !b.resumes && b.capture != nil {
		b.capture.lost()
	}
	return n, err
}

// read takes the next bytes of an event stream.
func (b *body) read(p []byte) {
	for {
		piece, rest, end := bytes.Cut(p, []byte("\n"))
		b.line = append(b.line, piece...)
		if !end {
			return
		}
		b.endLine()
		p = rest
	}
}

func (b *body) endLine() {
	line := bytes.TrimSuffix(b.line, []byte("\r"))
	if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
		b.message = append(append(b.message, bytes.TrimPrefix(data, []byte(" "))...), '\n')
	}
	b.resumes = b.resumes || bytes.HasPrefix(line, []byte("id:"))
	if len(line) == 0 {
		b.flush()
	}
	b.line = b.line[:0]
}

func (b *body) flush() {
	if b.take != nil && len(b.message) > 0 {
		b.take(bytes.Clone(bytes.TrimSpace(b.message)))
	}
	b.message = b.message[:0]
}
