package hooks

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func newServer(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv
}

// checkFails checks that a failing hook blocks a call, and that it does not where it is advisory. text is the line of the configuration without its last bracket.
func checkFails(t *testing.T, text, url, problem string, change func(*Config)) {
	t.Helper()
	v := before(t, set(t, text+"}\n", url, change), call())
	if v.Decision != contracts.HookBlock || !v.Failed || v.Hook != "a" || v.Arguments != nil || len(v.Runs) != 1 || v.Runs[0].Decision != contracts.HookFailed {
		t.Errorf("Before = %+v, want it blocked because the hook failed", v)
	}
	if got := v.Runs[0].Problem; !strings.Contains(got, problem) || len(got) > 4*longestProblem {
		t.Errorf("the problem is %q, want %q in it", got, problem)
	}
	if v.Reason != noAnswer && !strings.Contains(v.Reason, "the arguments make it") || strings.Contains(v.Runs[0].Problem, "hunter2") {
		t.Errorf("the model is told %q, the operator %q", v.Reason, v.Runs[0].Problem)
	}
	v = before(t, set(t, text+", advisory: true}\n", url, change), call())
	if v.Decision != contracts.HookAllow || v.Failed || len(v.Runs) != 1 || v.Runs[0].Decision != contracts.HookFailed || !strings.Contains(v.Runs[0].Problem, problem) {
		t.Errorf("Before of an advisory hook = %+v, want allow, and the problem %q", v, problem)
	}
}

func TestWebhookFails(t *testing.T) {
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	wait := func(r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-stop:
		}
	}
	reached := make(chan string, 100)
	private := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		reached <- r.URL.Path
		io.WriteString(w, `{"decision":"allow"}`)
	})
	allow := `{"decision":"allow"}`
	for name, tt := range map[string]struct {
		serve   http.HandlerFunc
		problem string
	}{
		"late": {func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body); wait(r) }, "no answer within 300ms"},
		"slow loris": {func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			for i := 0; r.Context().Err() == nil; i++ {
				if _, err := w.Write([]byte(" ")); err != nil {
					return
				}
				w.(http.Flusher).Flush()
				select {
				case <-r.Context().Done():
				case <-stop:
					return
				case <-time.After(20 * time.Millisecond):
				}
			}
		}, "no answer within 300ms"},
		"huge": {func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, allow)
			for range 100 {
				if _, err := w.Write(bytes.Repeat([]byte(" "), 1<<16)); err != nil {
					return
				}
			}
		}, "more than 1048576 bytes"},
		"huge when unpacked": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			for range 4 {
				z.Write(make([]byte, 1<<20))
			}
			z.Close()
		}, "more than 1048576 bytes"},
		"redirect to a private address": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, private.URL+"/reached", http.StatusTemporaryRedirect)
		}, "status 307"},
		"redirect to metadata": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest", http.StatusFound)
		}, "status 302"},
		"redirect to itself": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/a", http.StatusSeeOther) }, "status 303"},
		"error":              {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500); io.WriteString(w, allow) }, "status 500"},
		"refused":            {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, "status 401"},
		"no content":         {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, "it is empty"},
		"no JSON":            {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>ok</html>") }, "it is no JSON"},
		"broken off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, allow)
		}, "broke off"},
		"hung up": {func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }, "could not be reached"},
		"no HTTP": {func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := w.(http.Hijacker).Hijack()
			conn.Write([]byte("what?\r\n\r\n"))
			conn.Close()
		}, "could not be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			srv := newServer(t, tt.serve)
			timeout := "10000" // only for those that are late it matters
			if strings.Contains(tt.problem, "300ms") {
				timeout = "300"
			}
			checkFails(t, `      a: {url: "${env:URL}/a", signingKey: "${env:KEY}", timeout: `+timeout, srv.URL, tt.problem, nil)
		})
	}
	if len(reached) > 0 {
		t.Errorf("a redirect was followed to %s", <-reached)
	}
}

func TestWebhookNotReached(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := "http://" + free.Addr().String()
	free.Close()
	const line = `      a: {url: "${env:URL}", signingKey: "${env:KEY}"`
	checkFails(t, line, gone+"/?token=hunter2", "could not be reached", nil)
	checkFails(t, line, "http://hunter2@127.0.0.1:0/", "could not be reached", nil)
	checkFails(t, line, "http://:hunter2/", "is not an http or https URL", nil)
	checkFails(t, line, "", "is not an http or https URL", nil)
	checkFails(t, `      a: {url: "http://h.example", signingKey: "${env:NONE}"`, "", "environment variable NONE is not set", nil)
	checkFails(t, `      a: {url: "${env:URL}", signingKey: "${env:URL}"`, "http://hunter2.example", "no key of a webhook", nil)
}

// TestTooLargeToAsk has arguments that cannot be sent block the call, with a reason that a model understands.
func TestTooLargeToAsk(t *testing.T) {
	b := natstest.Open(t)
	answered := 0
	respond(t, b.Conn, "guard", func(*nats.Msg) string { answered++; return `{"decision":"allow"}` })
	r := receive(t, says(nil))
	onBus := func(c *Config) { c.Conn = b.Conn }
	args := func(n int) Call {
		c := call()
		c.Arguments = json.RawMessage(`{"x":"` + strings.Repeat("x", n-8) + `"}`)
		return c
	}
	for _, tt := range []struct {
		text string
		size int
		ok   bool
	}{
		{web("a", ""), 1 << 20, true},
		{web("a", ""), 1<<20 + 1, false},
		{web("a", ", advisory: true"), 1<<20 + 1, true},
		{"      a: {bus: guard}\n", 900 << 10, true},
		{"      a: {bus: guard}\n", 960 << 10, false},
		{"      a: {bus: guard, advisory: true}\n", 960 << 10, true},
	} {
		v := before(t, set(t, tt.text, r.URL, onBus), args(tt.size))
		if (v.Decision == contracts.HookAllow) != tt.ok || !tt.ok && (!v.Failed || !strings.Contains(v.Reason, "takes at most ")) {
			t.Errorf("%s with %d bytes: %s %q, want ok %v", tt.text, tt.size, v.Decision, v.Reason, tt.ok)
		}
	}
	if len(r.requests()) != 1 || answered != 1 {
		t.Errorf("%d and %d requests were sent, want 1 and 1", len(r.requests()), answered)
	}
	c := call()
	c.Arguments = json.RawMessage(`{"x":`)
	if v := before(t, set(t, web("a", ""), r.URL, nil), c); v.Decision != contracts.HookBlock || !v.Failed {
		t.Errorf("arguments that are no JSON: %+v, want a block", v)
	}
}

func TestResponderFails(t *testing.T) {
	b := natstest.Open(t)
	onBus := func(c *Config) { c.Conn = b.Conn }
	respond(t, b.Conn, "silly", func(*nats.Msg) string { return "ok" })
	sub, err := b.Conn.Subscribe(contracts.PluginHookSubject(tenant, "silent"), func(*nats.Msg) {})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe()
	broken, err := b.Conn.Subscribe(contracts.PluginHookSubject(tenant, "broken"), func(m *nats.Msg) {
		m.RespondMsg(&nats.Msg{Data: []byte(`{"decision":"allow"}`), Header: nats.Header{"Nats-Service-Error-Code": {"500"}, "Nats-Service-Error": {"oh\nno"}}})
	})
	if err != nil {
		t.Fatal(err)
	}
	defer broken.Unsubscribe()
	checkFails(t, "      a: {bus: nobody", "", "no instance of it is on the bus", onBus)
	checkFails(t, "      a: {bus: silent, timeout: 200", "", "no answer within 200ms", onBus)
	checkFails(t, "      a: {bus: silly", "", "it is no JSON", onBus)
	checkFails(t, "      a: {bus: broken", "", "the error 500: oh no", onBus)
	checkFails(t, "      a: {bus: silly", "", "not connected", nil)
}

// TestBreaker has a hook that is gone not be waited for any more, whether calls need it or not, and be asked again later.
func TestBreaker(t *testing.T) {
	b := natstest.Open(t)
	for _, advisory := range []string{"", ", advisory: true"} {
		name := fmt.Sprint("guard", len(advisory))
		sub, err := b.Conn.SubscribeSync(contracts.PluginHookSubject(tenant, contracts.PluginID(name)))
		if err != nil {
			t.Fatal(err)
		}
		s := set(t, "      a: {bus: "+name+", timeout: 100"+advisory+"}\n", "", func(c *Config) { c.Conn = b.Conn })
		for range silences {
			if v := before(t, s, call()); v.Runs[0].Decision != contracts.HookFailed {
				t.Fatalf("run = %+v", v.Runs[0])
			}
		}
		for range 50 {
			v := before(t, s, call())
			if v.Runs[0].Decision != contracts.HookSkipped || (v.Decision == contracts.HookAllow) != (advisory != "") {
				t.Fatalf("Before = %+v, want the hook skipped", v)
			}
			if advisory == "" && (!v.Failed || v.RetryAfter <= 0 || v.RetryAfter > pause) {
				t.Errorf("blocked %v, to be tried again after %v, want within %v", v.Failed, v.RetryAfter, pause)
			}
		}
		if n, _, _ := sub.Pending(); n != silences {
			t.Errorf("the hook was asked %d times, want %d", n, silences)
		}
		sub.Unsubscribe()
		respond(t, b.Conn, name, func(*nats.Msg) string { return `{"decision":"allow"}` })
		s.before[0].breaker.until = time.Now() // the pause is over
		for range 2 {
			if v := before(t, s, call()); v.Decision != contracts.HookAllow || v.Runs[0].Decision != contracts.HookAllow {
				t.Errorf("Before = %+v, want the hook asked again", v)
			}
		}
	}
}

func TestBreakerStates(t *testing.T) {
	var b breaker
	now := time.Unix(1000, 0)
	for range silences - 1 {
		b.enter(now)
		b.done(now, true)
	}
	b.enter(now)
	b.done(now, false)
	for range silences {
		if wait := b.enter(now); wait != 0 {
			t.Fatalf("enter = %v after fewer silences in a row", wait)
		}
		b.done(now, true)
	}
	if wait := b.enter(now.Add(time.Second)); wait != pause-time.Second {
		t.Errorf("enter = %v, want %v", wait, pause-time.Second)
	}
	now = now.Add(pause)
	if wait := b.enter(now); wait != 0 {
		t.Errorf("enter after the pause = %v, want 0", wait)
	}
	if wait := b.enter(now); wait == 0 {
		t.Error("two calls ask at once whether the hook is back")
	}
	b.leave()
	if wait := b.enter(now); wait != 0 {
		t.Errorf("enter after the one left = %v, want 0", wait)
	}
	b.done(now, true)
	if wait := b.enter(now); wait != pause {
		t.Errorf("enter after it was silent again = %v, want %v", wait, pause)
	}
}

// TestStaleConnection has a connection that the hook closed while it was idle be no failure.
func TestStaleConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { // serves one request a connection, keeps it open, and drops it without a word at the next one
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				buf := make([]byte, 64<<10)
				for i := range 2 {
					if n, err := conn.Read(buf); err != nil || n == 0 || i == 1 {
						return
					}
					io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n"+`{"decision":"allow"}`)
				}
			}()
		}
	}()
	s := set(t, web("a", ""), "http://"+l.Addr().String(), nil)
	for i := range 5 {
		if v := before(t, s, call()); v.Decision != contracts.HookAllow {
			t.Fatalf("call %d: %+v", i, v)
		}
	}
}

// newServerOf starts a server that its caller closes.
func newServerOf(h http.HandlerFunc) *httptest.Server { return httptest.NewServer(h) }
