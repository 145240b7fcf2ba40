package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/toolcrib/toolcrib/internal/core/bodies"
	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/internal/kit/store"
	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// These tests reach inside for what is only seen after a long time, or when something is wrong.

// serve runs a service that change may have changed, with nobody behind it.
func serve(t *testing.T, change func(*Service)) *Service {
	t.Helper()
	s, err := New(t.Context(), natstest.Open(t), Config{Listen: "127.0.0.1:0"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	change(s)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run() = %v", err)
		}
	})
	return s
}

func TestRunThatNobodyPlans(t *testing.T) {
	s := serve(t, func(s *Service) { s.mcp.runs.patience = 100 * time.Millisecond })
	c := client.New("http://"+s.Addr().String(), "")
	_, err := c.OpenRun(t.Context(), client.RunOptions{})
	if e, ok := errors.AsType[*contracts.Error](err); !ok || e.Code != contracts.CodeTimeout || e.RetryAfter == 0 {
		t.Errorf("OpenRun() that nobody plans = %v, want a timeout that says when to try again", err)
	}
	runs, err := c.Runs(t.Context(), contracts.RunStateClosed, 0)
	if err != nil || len(runs) != 1 || runs[0].Ending != contracts.EndingCancelled {
		t.Errorf("after it Runs() = %+v, %v; want the run cancelled", runs, err)
	}
}

// planned stores a run that is open, and returns its id.
func planned(t *testing.T, s *Service) contracts.RunID {
	t.Helper()
	id := contracts.NewRunID()
	rec := &contracts.Run{ID: id, State: contracts.RunStatePlanned, Plan: &contracts.Plan{}}
	if err := s.mcp.runs.table.Create(t.Context(), contracts.RunKey("local", id), rec, contracts.RunRequested{Run: id}); err != nil {
		t.Fatal(err)
	}
	return id
}

func TestEventStreamShowsLifeAndIsBounded(t *testing.T) {
	var a *api
	s := serve(t, func(s *Service) {
		a = &api{
			bus: s.bus, runs: s.mcp.runs, calls: s.mcp.calls, live: s.live, approvals: s.mcp.calls.approvals,
			streams: make(chan struct{}, 1), quiet: 50 * time.Millisecond, stopping: s.stopping,
		}
		keys, _ := newKeyring(Config{}, s.log)
		f := newFront(keys, s.Addr(), s.log)
		a.register(f, "")
		s.server.Handler = f
	})
	url := "http://" + s.Addr().String() + "/v1/runs/" + string(planned(t, s)) + "/events"
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, "GET", url, nil)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	signs := 0
	for lines := bufio.NewScanner(res.Body); signs < 3 && lines.Scan(); {
		if lines.Text() == ": still here" {
			signs++
		}
	}
	if signs != 3 {
		t.Errorf("a quiet stream gave %d signs of life, want more", signs)
	}
	second, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	second.Body.Close()
	if second.StatusCode != 429 || second.Header.Get("Retry-After") == "" {
		t.Errorf("one stream more than there can be = %d, want 429 with Retry-After", second.StatusCode)
	}
	cancel()
	for deadline := time.Now().Add(10 * time.Second); len(a.streams) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the place of a stream that ended is not free")
		}
	}
}

// TestSlowReaderIsCutOff connects without reading.
func TestSlowReaderIsCutOff(t *testing.T) {
	ended := make(chan error, 1)
	s := serve(t, func(s *Service) {
		f := s.server.Handler.(*front)
		f.patience = 200 * time.Millisecond
		f.handle("GET /flood", nil, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			block := make([]byte, 1<<20)
			for {
				if _, err := w.Write(block); err != nil {
					ended <- err
					return
				}
			}
		}))
	})
	conn, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.Write([]byte("GET /flood HTTP/1.1\r\nHost: " + s.Addr().String() + "\r\n\r\n"))
	select {
	case err := <-ended:
		if e, ok := errors.AsType[net.Error](err); !ok || !e.Timeout() {
			t.Errorf("the write to a reader that does not read = %v, want a timeout", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("a reader that does not read is not cut off")
	}
}

// A logBook keeps what is logged.
type logBook struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logBook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logBook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestFaultsStayInTheLog(t *testing.T) {
	book := &logBook{}
	s := serve(t, func(s *Service) {
		f := s.server.Handler.(*front)
		f.log = slog.New(slog.NewTextHandler(book, nil))
		f.handle("GET /panic", nil, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("the secret cause") }))
		f.mux.HandleFunc("GET /unlisted", func(http.ResponseWriter, *http.Request) { t.Error("a route without a rule was reached") })
	})
	base := "http://" + s.Addr().String()
	for path, want := range map[string]int{"/panic": 500, "/unlisted": 403} {
		res, err := http.Get(base + path)
		if err != nil {
			t.Fatal(err)
		}
		var p client.Problem
		json.NewDecoder(res.Body).Decode(&p)
		res.Body.Close()
		if res.StatusCode != want || p.Status != want || strings.Contains(p.Detail, "secret") {
			t.Errorf("GET %s = %d %+v, want a problem of %d without the cause", path, res.StatusCode, p, want)
		}
	}
	if !strings.Contains(book.String(), "the secret cause") {
		t.Errorf("the log says %q, want the cause in it", book)
	}
}

// A patient caller waits while a sandbox has the body, however often its wait is over.
func TestPatientWaitForABody(t *testing.T) {
	s := serve(t, func(*Service) {})
	d := s.mcp.calls
	run := planned(t, s)
	start := func(lease time.Time) (*bodies.Pending, contracts.Key) {
		t.Helper()
		id := contracts.BodyOf(contracts.NewCallID())
		key := contracts.BodyKey("local", run, id)
		table, err := store.OpenTable[contracts.Body](t.Context(), s.bus, contracts.BucketBodies)
		if err != nil {
			t.Fatal(err)
		}
		rec := &contracts.Body{ID: id, Run: run, State: contracts.BodyStateWaiting, Requested: time.Now(), Owner: "x", Lease: lease}
		if err := table.Create(t.Context(), key, rec, contracts.BodyRequested{Run: run, Body: id}); err != nil {
			t.Fatal(err)
		}
		p, err := d.bodies.Join("local", run, id)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		return p, key
	}
	const wait = 20 * time.Millisecond
	p, _ := start(time.Now())
	if a, err := d.awaitBody(t.Context(), "local", p, wait, true); err != nil || a.Status != contracts.StatusWaiting {
		t.Errorf("the wait for a body that nobody has = %+v, %v; want it waiting", a, err)
	}
	p, key := start(time.Now().Add(time.Minute))
	if a, err := d.awaitBody(t.Context(), "local", p, wait, false); err != nil || a.Status != contracts.StatusWaiting {
		t.Errorf("the wait of a caller that can look again = %+v, %v; want the body waiting", a, err)
	}
	time.AfterFunc(10*wait, func() {
		d.bodies.End(context.Background(), key, contracts.BodyEnd{Result: &contracts.BodyResult{OK: true}}, 0, func(*contracts.Body) error { return nil })
	})
	if a, err := d.awaitBody(t.Context(), "local", p, wait, true); err != nil || a.Status != contracts.StatusOK {
		t.Errorf("the wait for a body that ends after 10 waits = %+v, %v; want its end", a, err)
	}
}

func TestTraceContextGoesOn(t *testing.T) {
	s := serve(t, func(s *Service) { s.mcp.runs.patience = time.Millisecond })
	const trace = "0af7651916cd43dd8448eb211c80319c"
	req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://"+s.Addr().String()+"/v1/runs", strings.NewReader("{}"))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("traceparent", "00-"+trace+"-b7ad6b7169203331-01")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	stream, err := s.bus.JS.Stream(t.Context(), contracts.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	m, err := stream.GetLastMsgForSubject(t.Context(), contracts.AllRunRequested)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Header["traceparent"]; len(got)+len(m.Header["Traceparent"]) != 1 || !strings.Contains(m.Header.Get("Traceparent")+strings.Join(got, ""), trace) {
		t.Errorf("the event's headers are %v, want the request's trace %s", m.Header, trace)
	}
}

func cutResult(structured string) *contracts.Result {
	return &contracts.Result{
		StructuredContent: json.RawMessage(structured), Truncated: `cut "it"`, More: &contracts.More{Handle: "out_x", Bytes: 9, Parts: []contracts.CutPart{}},
	}
}

func TestToolResult(t *testing.T) {
	tool := contracts.TextResult("said", json.RawMessage(`{"a":1}`))
	for _, tt := range []struct {
		outcome contracts.Outcome
		want    string
	}{
		{contracts.Outcome{Status: contracts.StatusOK, Result: tool}, `{"content":[{"type":"text","text":"said"}],"structuredContent":{"a":1}}`},
		{contracts.Outcome{Status: contracts.StatusOK, Result: &contracts.Result{}}, `{"content":[]}`},
		{
			contracts.Outcome{Status: contracts.StatusOK, Result: cutResult(`{"a":1}`)},
			`{"_meta":{"toolcrib/more":{"handle":"out_x","bytes":9,"parts":[]}},"content":[],"structuredContent":{"a":1,"_toolcrib":"cut \"it\""}}`,
		},
		{
			contracts.Outcome{Status: contracts.StatusOK, Result: cutResult(`{ }`)},
			`{"_meta":{"toolcrib/more":{"handle":"out_x","bytes":9,"parts":[]}},"content":[],"structuredContent":{"_toolcrib":"cut \"it\""}}`,
		},
		{contracts.Outcome{Status: contracts.StatusOK, Result: cutResult(``)}, `{"_meta":{"toolcrib/more":{"handle":"out_x","bytes":9,"parts":[]}},"content":[]}`},
		{contracts.Outcome{Status: contracts.StatusError, Result: tool, Error: contracts.Errorf(contracts.CodeInvalidOutput, "bad")}, `{"content":[{"type":"text","text":"{\"status\":\"error\",\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"said\"}],\"structuredContent\":{\"a\":1}},\"error\":{\"code\":\"invalid_output\",\"message\":\"bad\"},\"callId\":\"\",\"durationMs\":0}"}],"isError":true}`},
		{contracts.Outcome{Status: contracts.StatusWaiting, CallID: "c"}, `{"content":[{"type":"text","text":"{\"status\":\"waiting\",\"callId\":\"c\",\"durationMs\":0}"}],"isError":true}`},
	} {
		got, err := toolResult(&client.CallAnswer{Outcome: tt.outcome})
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(got)
		if d := cmp.Diff(tt.want, string(b)); d != "" || err != nil {
			t.Errorf("toolResult(%+v), %v (-want +got):\n%s", tt.outcome, err, d)
		}
	}
}

func TestFromConfig(t *testing.T) {
	hash := string(contracts.HashOf([]byte("k")))
	c, err := config.Parse([]byte(`{"listen":"0.0.0.0:1","tenants":{"acme":{"limits":{"callTimeoutMs":5000},"keys":[{"name":"n","hash":"`+hash+`","scopes":["runs","read"]}]}}}`), "t.json")
	if err != nil {
		t.Fatal(err)
	}
	want := Config{Listen: "0.0.0.0:1", Tenants: map[contracts.TenantID]Tenant{
		"acme": {CallTimeout: 5 * time.Second, Keys: []Key{{Name: "n", Hash: contracts.Hash(hash), Scopes: []string{"runs", "read"}}}},
	}}
	if d := cmp.Diff(want, FromConfig(c, nil), cmpopts.IgnoreTypes(config.Network{})); d != "" {
		t.Errorf("FromConfig() (-want +got):\n%s", d)
	}
	if got := FromConfig(c, nil).withDefaults(); got.callTimeout("acme") != 5*time.Second || got.callTimeout("other") != time.Minute {
		t.Errorf("call timeouts = %v and %v, want 5 s and the default", got.callTimeout("acme"), got.callTimeout("other"))
	}
	c, err = config.Parse([]byte(`{"limits":{"callTimeoutMs":7000}}`), "t.json")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(Config{Listen: "127.0.0.1:7420", CallTimeout: 7 * time.Second}, FromConfig(c, nil), cmpopts.IgnoreTypes(config.Network{})); d != "" {
		t.Errorf("FromConfig() of no tenants (-want +got):\n%s", d)
	}
}

// A body that was begun and lost may have called tools.
func TestALostBodyMayHaveHadEffects(t *testing.T) {
	for owner, want := range map[string]contracts.SideEffects{"": contracts.SideEffectsNone, "sandbox_x": contracts.SideEffectsUnknown} {
		rec := &contracts.Body{ID: "body_x", Owner: owner, Ended: &contracts.BodyEnd{Error: contracts.Errorf(contracts.CodeUnavailable, "it is gone")}}
		if o, err := bodyOutcome(rec); err != nil || o.SideEffects != want {
			t.Errorf("owner %q: side effects %q, %v; want %q", owner, o.SideEffects, err, want)
		}
	}
}
