package hooks

import (
	"encoding/json"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const bothEvents = ", events: [before_tool_call, after_tool_call]"

func TestAfter(t *testing.T) {
	b := natstest.Open(t)
	bodies := make(chan []byte, 1)
	respond(t, b.Conn, "audit", func(m *nats.Msg) string { bodies <- m.Data; return "whatever" })
	r := receive(t, says(map[string]string{"/a": `{"decision":"block"}`, "/b": ""}))
	runs := make(chan contracts.HookRun, 10)
	s := set(t, web("a", bothEvents)+web("b", ", events: [after_tool_call]")+web("c", "")+web("d", `, events: [after_tool_call], tools: ["mcp:other:*"]`)+
		"      e: {bus: audit, events: [after_tool_call]}\n", r.URL, func(c *Config) { c.Conn = b.Conn; told(runs)(c) })
	o := contracts.Outcome{
		Status: contracts.StatusOK, CallID: "call_1", DurationMs: 7, Result: contracts.TextResult("done", json.RawMessage(`{"n":1.50}`)),
		Tool: &contracts.ToolRef{ID: "mcp:files:write", Name: "write", Source: contracts.SourceMCP, Hash: "h1"},
	}
	c := call()
	s.After(t.Context(), c, o)
	var names []string
	for range 3 {
		run := <-runs
		if run.Decision != contracts.HookTold || run.Event != contracts.HookAfter || run.Problem != "" {
			t.Errorf("run = %+v, want it told", run)
		}
		names = append(names, run.Hook)
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"a", "b", "e"}) {
		t.Errorf("told were %v, want a, b, e", names)
	}
	want := contracts.HookRequest{
		Protocol: 1, Type: contracts.HookAfter, Tenant: tenant, Run: c.Run, Labels: c.Labels, CallID: c.ID, Tool: c.Tool, Arguments: c.Arguments, Outcome: &o,
	}
	if diff := cmp.Diff([]contracts.HookRequest{want, want}, r.requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if onBus := <-bodies; string(onBus) != string(r.bodies[0]) {
		t.Errorf("on the bus %s, as a webhook %s", onBus, r.bodies[0])
	}
	key, _ := contracts.ParseHookKey(secret)
	if err := contracts.VerifyHook(key, r.header[0], r.bodies[0], time.Now()); err != nil {
		t.Errorf("VerifyHook: %v", err)
	}
}

// TestAfterLarge has what fits into no request be left out, and said to be.
func TestAfterLarge(t *testing.T) {
	text := func(n int) string { return strings.Repeat("x", n) }
	for _, tt := range []struct {
		args, result, most int
		omitted            []string
	}{
		{100, 100, mostRequest, nil},
		{1<<20 - 10, 900 << 10, mostRequest, nil},
		{1 << 20, 100, mostRequest, []string{"arguments"}},
		{100, 3 << 20, mostRequest, []string{"outcome.result"}},
		{100 << 10, 900 << 10, contracts.PluginMessageMost, []string{"outcome.result"}},
		{960 << 10, 100, contracts.PluginMessageMost, []string{"outcome.result", "arguments"}},
	} {
		c := call()
		c.Arguments = json.RawMessage(`{"x":"` + text(tt.args) + `"}`)
		o := contracts.Outcome{Status: contracts.StatusOK, Result: contracts.TextResult(text(tt.result), nil)}
		n := &news{set: set(t, "      {}", "", nil), call: c, outcome: o}
		body, err := n.body(tt.most)
		var q contracts.HookRequest
		if err == nil {
			err = json.Unmarshal(body, &q)
		}
		if err != nil || len(body) > tt.most || !slices.Equal(q.Omitted, tt.omitted) {
			t.Errorf("%d and %d bytes in %d: %d bytes without %v, %v, want without %v", tt.args, tt.result, tt.most, len(body), q.Omitted, err, tt.omitted)
			continue
		}
		if (q.Arguments == nil) != slices.Contains(q.Omitted, "arguments") || (q.Outcome.Result == nil) != slices.Contains(q.Omitted, "outcome.result") {
			t.Errorf("what is left does not fit %v", q.Omitted)
		}
	}
}

// TestAfterWaitsForNobody has a hook that takes nothing hold up neither the caller nor another hook, and bounds what waits for it.
func TestAfterWaitsForNobody(t *testing.T) {
	stop := make(chan struct{})
	slow := newServer(t, func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body); <-stop })
	t.Cleanup(func() { close(stop) })
	fast := receive(t, says(nil))
	runs := make(chan contracts.HookRun, 1000)
	s := set(t, `      slow: {url: "${env:URL}", signingKey: "${env:KEY}", events: [after_tool_call], timeout: 10000}
      fast: {url: "`+fast.URL+`", signingKey: "${env:KEY}", events: [after_tool_call]}`, slow.URL, told(runs))
	start := time.Now()
	const n = mostWaiting + 50
	for range n {
		s.After(t.Context(), call(), contracts.Outcome{})
		natstest.Eventually(t, "the fast hook is told", func() bool { return s.after[0].queue.idle() }) // as fast as it takes them
	}
	var lost int
	natstest.Eventually(t, "the fast hook hears all", func() bool { return len(fast.requests()) == n })
	for len(runs) > 0 {
		if r := <-runs; r.Hook == "slow" && strings.Contains(r.Problem, "too slowly") {
			lost++
		}
	}
	if lost != n-mostWaiting {
		t.Errorf("%d were lost, want %d", lost, n-mostWaiting)
	}
	if took := time.Since(start); took > 8*time.Second {
		t.Errorf("telling took %v", took)
	}
}

func (q *queue) idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.n == 0
}

func TestQueueBytes(t *testing.T) {
	q := newQueue()
	if !q.enter(2*mostWaitingBytes) || q.enter(1) {
		t.Error("a large one is not taken alone")
	}
	q.leave(2 * mostWaitingBytes)
	const half = mostWaitingBytes / 2
	first, second := q.enter(half), q.enter(half)
	if !first || !second || q.enter(1) {
		t.Error("what waits is not bounded in bytes")
	}
}

// TestClose has everything end with the Set: what is under way gets its time, the rest is broken off, and no goroutine stays.
func TestClose(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	func() {
		stop, asked := make(chan struct{}), make(chan struct{}, 10)
		srv := newServerOf(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			if r.URL.Path == "/never" {
				asked <- struct{}{}
				<-stop
			}
			io.WriteString(w, `{"decision":"allow"}`)
		})
		defer srv.Close()
		defer close(stop)
		runs := make(chan contracts.HookRun, 100)
		s := set(t, web("good", ", priority: -1"+bothEvents)+web("never", ", timeout: 10000"+bothEvents), srv.URL, told(runs))
		done := make(chan error, 1)
		go func() {
			_, err := s.Before(t.Context(), call())
			done <- err
		}()
		<-asked
		s.After(t.Context(), call(), contracts.Outcome{})
		<-asked
		start := time.Now()
		s.Close()
		if took := time.Since(start); took < closeWithin || took > closeWithin+3*time.Second {
			t.Errorf("Close took %v, want %v", took, closeWithin)
		}
		if err := <-done; contracts.CodeOf(err) != contracts.CodeUnavailable {
			t.Errorf("Before of a Set that is closed meanwhile: %v, want %s", err, contracts.CodeUnavailable)
		}
		if _, err := s.Before(t.Context(), call()); contracts.CodeOf(err) != contracts.CodeUnavailable {
			t.Errorf("Before of a closed Set: %v, want %s", err, contracts.CodeUnavailable)
		}
		s.After(t.Context(), call(), contracts.Outcome{})
		decisions := map[contracts.HookDecision]int{}
		for range 4 {
			decisions[(<-runs).Decision]++
		}
		if decisions[contracts.HookTold] != 1 || decisions[contracts.HookFailed] != 3 {
			t.Errorf("of what hooks were told became %v, want 1 told and 3 failed", decisions)
		}
		s.Close()
	}()
	natstest.Eventually(t, "all goroutines have ended", func() bool { return runtime.NumGoroutine() <= goroutines })
}
