package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolcrib/toolcrib/internal/core/guard"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// webServer serves the SDK's own server with a few tools over Streamable HTTP, and tells of cancelled calls. wrap sees every request.
func webServer(t *testing.T, opts *sdk.StreamableHTTPOptions, wrap func(http.Handler) http.Handler) (_ *httptest.Server, cancelled chan struct{}) {
	t.Helper()
	return serverOver(t, func(server func(*http.Request) *sdk.Server) http.Handler {
		return wrap(sdk.NewStreamableHTTPHandler(server, opts))
	})
}

// sseServer is a webServer with the older SSE.
func sseServer(t *testing.T, wrap func(http.Handler) http.Handler) (_ *httptest.Server, cancelled chan struct{}) {
	t.Helper()
	return serverOver(t, func(server func(*http.Request) *sdk.Server) http.Handler { return wrap(sdk.NewSSEHandler(server, nil)) })
}

// bigger is a little more than an event of the SDK may have.
const bigger = sdk.DefaultMaxEventSize + 1<<10

func serverOver(t *testing.T, over func(server func(*http.Request) *sdk.Server) http.Handler) (_ *httptest.Server, cancelled chan struct{}) {
	t.Helper()
	cancelled = make(chan struct{}, 10)
	end := make(chan struct{}) // of the test, where the SDK's server does not see that a client is gone
	srv := sdk.NewServer(&sdk.Implementation{Name: "web", Version: "1"}, nil)
	schema := json.RawMessage(`{"type":"object","properties":{"z":{"type":"integer"},"a":{"type":"integer"}}}`)
	add := func(name string, h sdk.ToolHandler) {
		srv.AddTool(&sdk.Tool{Name: name, InputSchema: schema}, h)
	}
	add("precise", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{StructuredContent: json.RawMessage(`{"n":12345678901234567890}`)}, nil
	})
	add("hang", func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		select {
		case <-ctx.Done():
			cancelled <- struct{}{}
		case <-end:
		}
		return nil, ctx.Err()
	})
	add("more", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		srv.AddTool(&sdk.Tool{Name: "new", InputSchema: schema}, nil)
		return &sdk.CallToolResult{}, nil
	})
	add("big", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: strings.Repeat("x", bigger)}}}, nil
	})
	ts := httptest.NewServer(over(func(*http.Request) *sdk.Server { return srv }))
	t.Cleanup(func() { close(end); ts.CloseClientConnections(); ts.Close() })
	return ts, cancelled
}

func asIs(h http.Handler) http.Handler { return h }

func TestWeb(t *testing.T) {
	for name, opts := range map[string]*sdk.StreamableHTTPOptions{
		"events": nil, "json": {JSONResponse: true}, "stateless": {Stateless: true}, "sse": nil,
	} {
		t.Run(name, func(t *testing.T) {
			var without atomic.Int32
			wrap := func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Header.Get("X-Key") != "k" {
						without.Add(1)
					}
					h.ServeHTTP(w, r)
				})
			}
			ts, _ := webServer(t, opts, wrap)
			if name == "sse" {
				ts, _ = sseServer(t, wrap)
			}
			c := dial(t, Config{URL: ts.URL, SSE: name == "sse", Headers: map[string]string{"X-Key": "k"}})
			for range 2 {
				l, skipped, err := c.List(t.Context())
				if err != nil || len(skipped) > 0 || len(l.Tools) != 4 || l.Title != "web" {
					t.Fatalf("List = %+v, %v, %v, want 4 tools of web", l, skipped, err)
				}
				if want := `{"type":"object","properties":{"z":{"type":"integer"},"a":{"type":"integer"}}}`; string(l.Tools[0].InputSchema) != want {
					t.Errorf("schema = %s, want %s", l.Tools[0].InputSchema, want)
				}
			}
			r, err := c.Call(t.Context(), "precise", json.RawMessage(`{}`), nil)
			if err != nil || string(r.StructuredContent) != `{"n":12345678901234567890}` {
				t.Errorf("Call = %+v, %v, want the exact number", r, err)
			}
			if _, err := c.Call(t.Context(), "missing", json.RawMessage(`{}`), nil); contracts.CodeOf(err) != contracts.CodeToolError {
				t.Errorf("Call of no tool: %v, want %s", err, contracts.CodeToolError)
			}
			if name == "events" { // a message may be larger than what the SDK takes
				if r, err := c.Call(t.Context(), "big", json.RawMessage(`{}`), nil); err != nil || len(r.Content) != 1 || len(r.Content[0]) < bigger {
					t.Errorf("Call of a tool that answers a lot: %v", err)
				}
			}
			if n := without.Load(); n > 0 {
				t.Errorf("%d requests came without the header", n)
			}
		})
	}
}

func TestWebHearsOfChanges(t *testing.T) {
	ts, _ := webServer(t, nil, asIs)
	heard := make(chan struct{}, 10)
	c, err := Dial(t.Context(), Config{URL: ts.URL}, func() { heard <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Call(t.Context(), "more", json.RawMessage(`{}`), nil); err != nil {
		t.Fatal(err)
	}
	select {
	case <-heard:
	case <-time.After(10 * time.Second):
		t.Error("the change was not heard")
	}
}

func TestWebLostInMidCall(t *testing.T) {
	began := make(chan struct{}, 1)
	var ts *httptest.Server
	ts, _ = webServer(t, nil, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(strings.NewReader(string(b)))
			if strings.Contains(string(b), `"hang"`) {
				w.Header().Set("Content-Type", "text/event-stream")
				w.WriteHeader(http.StatusOK)
				w.(http.Flusher).Flush()
				began <- struct{}{}
				<-r.Context().Done()
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	c := dial(t, Config{URL: ts.URL})
	go func() {
		<-began
		ts.CloseClientConnections()
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	begin := time.Now()
	_, err := c.Call(ctx, "hang", json.RawMessage(`{}`), nil)
	if contracts.CodeOf(err) != contracts.CodeOutcomeUnknown || time.Since(begin) > 10*time.Second {
		t.Errorf("Call lost in mid-call: %v after %v, want %s at once", err, time.Since(begin), contracts.CodeOutcomeUnknown)
	}
}

// TestOldSSE has what is particular where all answers come on one stream: news, calls at once, calls that are left, and the loss of it.
func TestOldSSE(t *testing.T) {
	began := make(chan struct{}, 10)
	ts, cancelled := sseServer(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(strings.NewReader(string(b)))
			h.ServeHTTP(w, r)
			if strings.Contains(string(b), `"hang"`) {
				began <- struct{}{}
			}
		})
	})
	heard := make(chan struct{}, 10)
	c, err := Dial(t.Context(), Config{URL: ts.URL, SSE: true}, func() { heard <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			r, err := c.Call(t.Context(), "precise", json.RawMessage(`{}`), nil)
			if err != nil || string(r.StructuredContent) != `{"n":12345678901234567890}` {
				t.Errorf("Call = %+v, %v, want the exact number", r, err)
			}
		})
	}
	all.Wait()
	if _, err := c.Call(t.Context(), "more", json.RawMessage(`{}`), nil); err != nil {
		t.Fatal(err)
	}
	<-heard
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := c.Call(ctx, "hang", json.RawMessage(`{}`), nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Call that is left: %v", err)
	}
	<-began
	<-cancelled
	lost := make(chan error, 1)
	go func() {
		_, err := c.Call(t.Context(), "hang", json.RawMessage(`{}`), nil)
		lost <- err
	}()
	<-began
	ts.CloseClientConnections()
	if err := <-lost; contracts.CodeOf(err) != contracts.CodeOutcomeUnknown {
		t.Errorf("Call whose stream is lost: %v, want %s", err, contracts.CodeOutcomeUnknown)
	}
	<-c.Done()
}

func TestWebUnreachable(t *testing.T) {
	var refuse atomic.Int32
	ts, _ := webServer(t, nil, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if code := refuse.Load(); code != 0 {
				w.WriteHeader(int(code))
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	c := dial(t, Config{URL: ts.URL})
	refuse.Store(http.StatusNotFound) // the server has forgotten the session
	if _, err := c.Call(t.Context(), "precise", json.RawMessage(`{}`), nil); contracts.CodeOf(err) != contracts.CodeSourceUnavailable {
		t.Errorf("Call in a forgotten session: %v, want %s", err, contracts.CodeSourceUnavailable)
	}
	refuse.Store(http.StatusUnauthorized)
	secret := "?key=hunter2hunter2"
	for name, cfg := range map[string]Config{
		"refuses":     {URL: ts.URL + secret},
		"not there":   {URL: "http://127.0.0.1:1/" + secret},
		"not an URL":  {URL: "ftp://example.com" + secret},
		"sse refuses": {URL: ts.URL + secret, SSE: true},
	} {
		_, err := Dial(t.Context(), cfg, func() {})
		if contracts.CodeOf(err) != contracts.CodeSourceUnavailable || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("Dial %s: %v, want %s without the secret", name, err, contracts.CodeSourceUnavailable)
		}
	}
}

func TestARedirectElsewhere(t *testing.T) {
	reached := make(chan string, 10)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached <- r.Method + " " + r.Header.Get("X-Key")
		w.WriteHeader(http.StatusNotFound)
	}))
	defer other.Close()
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}))
	defer ts.Close()
	private := guard.Config{Private: true}
	for name, tt := range map[string]struct {
		cfg  Config
		want string // of the error
		got  string // by the other server
	}{
		"messages stay":                {Config{URL: ts.URL, Network: private}, "is not followed", ""},
		"addresses are checked":        {Config{URL: ts.URL, SSE: true}, "is a loopback address", ""},
		"headers stay with their host": {Config{URL: ts.URL, SSE: true, Network: private}, "Not Found", "GET "},
	} {
		tt.cfg.Headers = map[string]string{"X-Key": "some key"}
		_, err := Dial(t.Context(), tt.cfg, func() {})
		if contracts.CodeOf(err) != contracts.CodeSourceUnavailable || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		got := ""
		select {
		case got = <-reached:
		default:
		}
		if got != tt.got {
			t.Errorf("%s: the other server got %q, want %q", name, got, tt.got)
		}
	}
}

func TestWebCancelled(t *testing.T) {
	ts, cancelled := webServer(t, nil, asIs)
	c := dial(t, Config{URL: ts.URL})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := c.Call(ctx, "hang", json.RawMessage(`{}`), nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Call past its deadline: %v, want %v", err, context.DeadlineExceeded)
	}
	<-cancelled // or the test does not end
}
