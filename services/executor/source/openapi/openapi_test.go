package openapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/guard"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// serve serves h, and a document with the given paths at /openapi.yaml.
func serve(t *testing.T, paths string, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/openapi.yaml" {
			io.WriteString(w, "openapi: 3.0.3\ninfo: {title: Test, version: '1'}\npaths:\n"+paths)
			return
		}
		h(w, r)
	}))
	t.Cleanup(func() { ts.CloseClientConnections(); ts.Close() })
	return ts
}

// connect connects to the service that a document at url describes, as the operator's own.
func connect(t *testing.T, target Target, change ...func(*Config)) *Conn {
	t.Helper()
	cfg := Config{OwnAddresses: true, Resolve: func() (Target, error) { return target, nil }}
	for _, f := range change {
		f(&cfg)
	}
	c, err := Dial(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// list returns the tools of c by name.
func list(t *testing.T, c *Conn) map[string]*contracts.Tool {
	t.Helper()
	l, skipped, err := c.List(t.Context())
	if err != nil || len(skipped) > 0 {
		t.Fatalf("List: skipped %v, %v", skipped, err)
	}
	out := map[string]*contracts.Tool{}
	for i := range l.Tools {
		out[l.Tools[i].Name] = &l.Tools[i]
	}
	return out
}

const onePost = "  /x: {post: {operationId: x, responses: {}}}\n"

func TestALongAnswerIsBounded(t *testing.T) {
	ts := serve(t, onePost, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		for range (mostAnswer >> 20) + 10 {
			io.WriteString(w, strings.Repeat("x", 1<<20))
		}
	})
	c := connect(t, Target{URL: ts.URL + "/openapi.yaml"})
	r, err := c.Call(t.Context(), list(t, c)["x"], json.RawMessage(`{}`), nil)
	if contracts.CodeOf(err) != contracts.CodeToolError || r == nil || r.Truncated == "" || len(r.Content[0]) > keptOfLong+100 {
		t.Errorf("Call = %d blocks, truncated %q, %v, want the beginning and an error", len(r.Content), r.Truncated, err)
	}
}

func TestCallsThatHaveNoAnswer(t *testing.T) {
	hung := make(chan struct{}, 10)
	ts := serve(t, onePost+"  /hang: {post: {operationId: hang, responses: {}}}\n  /drop: {post: {operationId: drop, responses: {}}}\n", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/drop" {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				conn.Close()
			}
			return
		}
		hung <- struct{}{}
		<-r.Context().Done()
	})
	c := connect(t, Target{URL: ts.URL + "/openapi.yaml"})
	tools := list(t, c)
	if _, err := c.Call(t.Context(), tools["drop"], json.RawMessage(`{}`), nil); contracts.CodeOf(err) != contracts.CodeOutcomeUnknown {
		t.Errorf("a dropped connection: %v, want %s", err, contracts.CodeOutcomeUnknown)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-hung; cancel() }()
	if _, err := c.Call(ctx, tools["hang"], json.RawMessage(`{}`), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled call: %v, want cancelled", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Call(ctx, tools["hang"], json.RawMessage(`{}`), nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a late call: %v, want a deadline", err)
	}
	ts.CloseClientConnections()
	ts.Close()
	if _, err := c.Call(t.Context(), tools["x"], json.RawMessage(`{}`), nil); contracts.CodeOf(err) != contracts.CodeSourceUnavailable || !strings.Contains(err.Error(), "refused") {
		t.Errorf("nobody there: %v, want %s", err, contracts.CodeSourceUnavailable)
	}
	if _, _, err := c.List(t.Context()); contracts.CodeOf(err) != contracts.CodeSourceUnavailable {
		t.Errorf("a listing with nobody there: %v, want %s", err, contracts.CodeSourceUnavailable)
	}
}

func TestRedirectsOfCalls(t *testing.T) {
	var reached atomic.Int32
	ts := serve(t, "  /get: {get: {operationId: get, responses: {}}}\n  /post: {post: {operationId: post, responses: {}}}\n  /slash: {post: {operationId: slash, responses: {}}}\n",
		func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/get", "/post":
				http.Redirect(w, r, "/end", http.StatusFound)
			case "/slash":
				http.Redirect(w, r, "/slash/", http.StatusTemporaryRedirect)
			default:
				reached.Add(1)
				fmt.Fprintf(w, "%s %s %s", r.Method, r.URL.Path, r.Header.Get("X-Key"))
			}
		})
	c := connect(t, Target{URL: ts.URL + "/openapi.yaml", Headers: map[string]string{"X-Key": "some key"}})
	tools := list(t, c)
	for name, want := range map[string]string{"get": "GET /end some key", "slash": "POST /slash/ some key"} {
		r, err := c.Call(t.Context(), tools[name], json.RawMessage(`{}`), nil)
		if err != nil || !strings.Contains(string(r.Content[0]), want) {
			t.Errorf("%s: %v, %v, want %q", name, r, err, want)
		}
	}
	reached.Store(0)
	_, err := c.Call(t.Context(), tools["post"], json.RawMessage(`{}`), nil)
	if contracts.CodeOf(err) != contracts.CodeToolError || !strings.Contains(err.Error(), "302 Found") || reached.Load() > 0 {
		t.Errorf("a POST that is redirected to a GET: %v, want the answer and no second request", err)
	}
}

// What a document names may not be private, only what the operator does.
func TestADocumentCannotReachPrivateAddresses(t *testing.T) {
	var reached atomic.Int32
	inner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	t.Cleanup(inner.Close)
	ts := serve(t, "  /x: {servers: [{url: '"+inner.URL+"'}], get: {operationId: inner, responses: {}}}\n  /own: {get: {operationId: own, responses: {}}}\n"+
		"  /meta: {servers: [{url: 'http://169.254.169.254'}], get: {operationId: meta, responses: {}}}\n",
		func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/moved.yaml" {
				http.Redirect(w, r, inner.URL+"/openapi.yaml", http.StatusFound)
			}
		})
	url := ts.URL + "/openapi.yaml"
	c := connect(t, Target{URL: url})
	tools := list(t, c)
	for name, want := range map[string]string{"inner": "is a loopback address", "meta": "is a metadata address"} {
		_, err := c.Call(t.Context(), tools[name], json.RawMessage(`{}`), nil)
		if contracts.CodeOf(err) != contracts.CodeSourceUnavailable || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want it refused: %s", name, err, want)
		}
	}
	if _, err := c.Call(t.Context(), tools["own"], json.RawMessage(`{}`), nil); err != nil {
		t.Errorf("the operator's own address: %v", err)
	}
	if _, _, err := connect(t, Target{URL: ts.URL + "/moved.yaml"}).List(t.Context()); err == nil || !strings.Contains(err.Error(), "is a loopback address") {
		t.Errorf("a document that is moved to a private address: %v, want it refused", err)
	}
	if _, _, err := connect(t, Target{URL: url}, func(c *Config) { c.OwnAddresses = false }).List(t.Context()); err == nil || !strings.Contains(err.Error(), "is a loopback address") {
		t.Errorf("a tenant's private address: %v, want it refused", err)
	}
	if n := reached.Load(); n > 0 {
		t.Errorf("%d requests reached a private address", n)
	}
	for name, network := range map[string]guard.Config{"private": {Private: true}, "networks": {Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}} {
		c := connect(t, Target{URL: url}, func(c *Config) { c.Network = network })
		if _, err := c.Call(t.Context(), list(t, c)["inner"], json.RawMessage(`{}`), nil); err != nil {
			t.Errorf("with %s: %v", name, err)
		}
	}
}

const secured = `  /x/{id}: {get: {operationId: x, parameters: [{name: q, in: query, schema: {$ref: '#/nowhere'}}], responses: {}}}
  /echo: {get: {operationId: echo, responses: {}}}
  /fail: {get: {operationId: fail, responses: {}}}
components: {securitySchemes: {key: {type: apiKey, in: query, name: key}, basic: {type: http, scheme: basic}, bearer: {type: http, scheme: bearer}}}
security: [{key: [], basic: [], bearer: []}]
`

// No secret of the configuration is seen in what a call or a listing says, whatever the service sends back.
func TestSecretsStay(t *testing.T) {
	var got atomic.Pointer[http.Request]
	ts := serve(t, secured, func(w http.ResponseWriter, r *http.Request) {
		got.Store(r)
		w.Header().Set("Link", "<"+r.URL.String()+">; rel=next")
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/fail" {
			w.WriteHeader(http.StatusTeapot)
		}
		json.NewEncoder(w).Encode(map[string]any{"detail": "you sent " + r.URL.String() + r.Header.Get("Authorization") + r.Header.Get("X-Extra")})
	})
	target := Target{
		URL: ts.URL + "/openapi.yaml?token=secret-of-the-url", Headers: map[string]string{"X-Extra": "Custom secret-of-the-header"},
		Auth: map[string]string{"key": "secret of/the key", "basic": "ada:secret-of-basic", "bearer": "secret-of-bearer"},
	}
	target.Secrets = []string{target.URL, target.Headers["X-Extra"]}
	c := connect(t, target)
	l, skipped, err := c.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	said, _ := json.Marshal([]any{l, skipped})
	for _, tool := range l.Tools {
		r, err := c.Call(t.Context(), &tool, json.RawMessage(`{}`), nil)
		b, _ := json.Marshal(r)
		said = append(append(said, b...), fmt.Sprint(err)...)
	}
	if q := got.Load(); q.URL.Query().Get("key") != "secret of/the key" || q.Header.Get("Authorization") != "Bearer secret-of-bearer" || q.Header.Get("X-Extra") == "" {
		t.Fatalf("the service got %s %v", q.URL, q.Header)
	}
	ts.Close()
	_, err = c.Call(t.Context(), &l.Tools[0], json.RawMessage(`{}`), nil)
	said = append(said, fmt.Sprint(err)...)
	_, _, err = c.List(t.Context())
	said = append(said, fmt.Sprint(err)...)
	for _, secret := range []string{"secret-of", "secret of", "secret%20of", "secret+of", basic("ada", "secret-of-basic")} {
		if strings.Contains(string(said), secret) {
			t.Errorf("%q is seen in %s", secret, said)
		}
	}
}

// References are resolved for every call: a secret that was changed is used at once.
func TestSecretsAreReadForEachCall(t *testing.T) {
	var key atomic.Value
	key.Store("first key")
	ts := serve(t, onePost, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Header.Get("X-Key")) })
	c, err := Dial(Config{OwnAddresses: true, Resolve: func() (Target, error) {
		if key.Load() == "" {
			return Target{}, errors.New("headers.X-Key: environment variable KEY is not set")
		}
		return Target{URL: ts.URL + "/openapi.yaml", Headers: map[string]string{"X-Key": key.Load().(string)}}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	tool := list(t, c)["x"]
	for _, want := range []string{"first key", "second key"} {
		key.Store(want)
		r, err := c.Call(t.Context(), tool, json.RawMessage(`{}`), nil)
		if err != nil || !strings.Contains(string(r.Content[0]), want) {
			t.Errorf("Call = %v, %v, want %q", r, err, want)
		}
	}
	key.Store("")
	if _, err := c.Call(t.Context(), tool, json.RawMessage(`{}`), nil); contracts.CodeOf(err) != contracts.CodeSourceUnavailable || !strings.Contains(err.Error(), "KEY is not set") {
		t.Errorf("without the secret: %v, want %s", err, contracts.CodeSourceUnavailable)
	}
}

// A tool is called as it was listed, by whoever has it: no document is needed, and its hash tells where the call goes.
func TestAToolIsEnoughForACall(t *testing.T) {
	var loads atomic.Int32
	paths := atomic.Pointer[string]{}
	first := "  /old/{id}: {get: {operationId: x, responses: {}}}\n"
	paths.Store(&first)
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/openapi.yaml" {
			loads.Add(1)
			io.WriteString(w, "openapi: 3.1.0\ninfo: {title: T, version: '1'}\npaths:\n"+*paths.Load())
			return
		}
		io.WriteString(w, r.URL.Path)
	}))
	t.Cleanup(ts.Close)
	target := Target{URL: ts.URL + "/openapi.yaml"}
	old := list(t, connect(t, target))["x"]
	second := "  /new/{id}: {get: {operationId: x, responses: {}}}\n"
	paths.Store(&second)
	loads.Store(0)
	r, err := connect(t, target).Call(t.Context(), old, json.RawMessage(`{"id":"7"}`), nil)
	if err != nil || !strings.Contains(string(r.Content[0]), "/old/7") || loads.Load() > 0 {
		t.Errorf("Call = %v, %v after %d loads, want /old/7 without", r, err, loads.Load())
	}
	now := list(t, connect(t, target))["x"]
	if string(old.InputSchema) != string(now.InputSchema) || old.ContentHash() == now.ContentHash() {
		t.Error("the tool goes elsewhere now, and its hash is the same")
	}
	if _, err := connect(t, target).Call(t.Context(), &contracts.Tool{Name: "x"}, json.RawMessage(`{}`), nil); contracts.CodeOf(err) != contracts.CodeSourceUnavailable {
		t.Errorf("a tool without a binding: %v, want %s", err, contracts.CodeSourceUnavailable)
	}
}

func TestDocumentsThatCannotBeHad(t *testing.T) {
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/missing":
			http.NotFound(w, r)
		case "/long":
			for range (mostBytes >> 20) + 2 {
				io.WriteString(w, "#"+strings.Repeat("x", 1<<20)+"\n")
			}
		case "/slow":
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case "/auth":
			if r.Header.Get("Authorization") == "" {
				w.WriteHeader(http.StatusUnauthorized)
			}
		}
	}))
	t.Cleanup(func() { ts.CloseClientConnections(); ts.Close() })
	for path, want := range map[string]string{
		"/missing": "the server answered 404 Not Found", "/long": "more than 16 MiB", "/slow": "did not answer in time",
		"/auth": "401 Unauthorized", "/empty": "the document is empty",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if path == "/slow" {
			cancel()
			ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
		}
		_, _, err := connect(t, Target{URL: ts.URL + path}).List(ctx)
		cancel()
		if contracts.CodeOf(err) != contracts.CodeSourceUnavailable || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s: %s", path, err, contracts.CodeSourceUnavailable, want)
		}
	}
}

func TestDialRefuses(t *testing.T) {
	for name, target := range map[string]Target{"url": {URL: "file:///etc/passwd"}, "server": {URL: "http://a.example", Server: "nothing"}} {
		if _, err := Dial(Config{Resolve: func() (Target, error) { return target, nil }}); contracts.CodeOf(err) != contracts.CodeSourceUnavailable || !strings.Contains(err.Error(), name+": not an http") {
			t.Errorf("%s: %v, want %s", name, err, contracts.CodeSourceUnavailable)
		}
	}
}
