package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/calls"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func callOf(tool, args string) calls.Request {
	return calls.Request{Tool: tool, Args: json.RawMessage(args)}
}

func TestOutcomes(t *testing.T) {
	w := newWorld(t)
	w.executor(servers{"odd": w.server()})
	w.ready("mcp:odd")
	run := w.open(contracts.RunRequest{})
	for name, tt := range map[string]struct {
		tool, args string
		status     contracts.Status
		code       contracts.Code
		effects    contracts.SideEffects
		message    string // a part of it
		result     string // a part of it
	}{
		"ok":             {"mcp:odd:echo", `{"text":"hello"}`, contracts.StatusOK, "", "", "", `"text":"hello"`},
		"by name":        {"odd__echo", `{"text":"hello"}`, contracts.StatusOK, "", "", "", `"text":"hello"`},
		"built in":       {"platform:core:date_add", `{"date":"2026-02-28","days":1}`, contracts.StatusOK, "", "", "", `"date":"2026-03-01"`},
		"exact numbers":  {"precise", `{}`, contracts.StatusOK, "", "", "", `{"z":12345678901234567890,"a":1.10}`},
		"tool fails":     {"fail", `{}`, contracts.StatusError, contracts.CodeToolError, contracts.SideEffectsDone, "it did not work", `"isError":true`},
		"source refuses": {"rpcerror", `{}`, contracts.StatusError, contracts.CodeToolError, contracts.SideEffectsUnknown, "bad parameters", ""},
		"wrong output":   {"wrong", `{}`, contracts.StatusError, contracts.CodeInvalidOutput, contracts.SideEffectsDone, "/n", `"n":"one"`},
		"wrong field": {
			"echo", `{"text":7,"n":"x"}`, contracts.StatusInvalidArgs, contracts.CodeInvalidArgs, contracts.SideEffectsNone,
			"want {text: string; n?: integer}", "",
		},
		"no object": {"echo", `["x"]`, contracts.StatusInvalidArgs, contracts.CodeInvalidArgs, contracts.SideEffectsNone, "no JSON object", ""},
		"unknown":   {"mcp:odd:ecko", `{}`, contracts.StatusError, contracts.CodeUnknownTool, contracts.SideEffectsNone, "mcp:odd:echo", ""},
		"large":     {"big", `{"bytes":300000}`, contracts.StatusOK, "", "", "", `[cut: `},
		"crash":     {"crash", `{}`, contracts.StatusError, contracts.CodeOutcomeUnknown, contracts.SideEffectsUnknown, "exit status 3", ""},
	} {
		t.Run(name, func(t *testing.T) {
			rec := w.call(run, callOf(tt.tool, tt.args))
			o := rec.Outcome
			result, _ := json.Marshal(o.Result)
			message := ""
			var code contracts.Code
			if o.Error != nil {
				code, message = o.Error.Code, o.Error.Message
			}
			if o.Status != tt.status || code != tt.code || o.SideEffects != tt.effects {
				t.Errorf("outcome %s %s %s, want %s %s %s (%s)", o.Status, code, o.SideEffects, tt.status, tt.code, tt.effects, message)
			}
			if !strings.Contains(message, tt.message) || !strings.Contains(string(result), tt.result) {
				t.Errorf("message %q, result %.300s; want %q and %q in them", message, result, tt.message, tt.result)
			}
			const most = 100_000
			if len(result) > most+1500 {
				t.Errorf("%d bytes of result, want at most %d and what is said of the rest", len(result), most)
			}
			if tt.status != contracts.StatusError && o.Tool == nil || o.CallID != rec.ID {
				t.Errorf("tool %v, call %s; want both", o.Tool, o.CallID)
			}
			want := []string{"call.requested", "call.running", "call.finished"}
			if tt.effects == contracts.SideEffectsNone {
				want = []string{"call.requested", "call.finished"}
			}
			if got := w.events(contracts.CallStates(tenant, run, rec.ID)); !slices.Equal(got, want) {
				t.Errorf("events %q, want %q", got, want)
			}
		})
	}
	if n := w.counted("call crash "); n != 1 {
		t.Errorf("the crashing tool was called %d times, want 1", n)
	}
	for _, f := range w.call(run, callOf("echo", `{"text":7,"n":"x"}`)).Outcome.Error.Fields {
		if f.Field != "/text" && f.Field != "/n" {
			t.Errorf("wrong field %q, want /text and /n", f.Field)
		}
	}
}

func TestTheRequestCarriesTheCall(t *testing.T) {
	w := newWorld(t)
	w.executor(servers{"odd": w.server()})
	w.ready("mcp:odd")
	rec := w.call(w.open(contracts.RunRequest{}), callOf("meta", `{}`))
	var meta map[string]string
	json.Unmarshal(rec.Outcome.Result.StructuredContent, &meta)
	if meta["toolcrib/callId"] != string(rec.ID) {
		t.Errorf("_meta %v, want the call's id", meta)
	}
}

func TestWithdrawnTools(t *testing.T) {
	w := newWorld(t)
	w.executor(servers{"odd": w.server()})
	w.ready("mcp:odd")
	run := w.open(contracts.RunRequest{Labels: contracts.Labels{Agent: "a"}})
	put := func(layers ...contracts.PolicyLayer) {
		t.Helper()
		key := contracts.PolicyKey(tenant, contracts.PolicyAPI)
		err := w.policies.Create(t.Context(), key, &contracts.PolicyRecord{Layers: layers})
		if contracts.CodeOf(err) == contracts.CodeConflict {
			_, err = w.policies.Transition(t.Context(), key, func(p *contracts.PolicyRecord) ([]contracts.Event, error) {
				p.Layers = layers
				return nil, nil
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	expect := func(tool string, status contracts.Status, code contracts.Code) {
		t.Helper()
		natstest.Eventually(t, fmt.Sprintf("%s is answered with %s %s", tool, status, code), func() bool {
			o := w.call(run, callOf(tool, `{"text":"x"}`)).Outcome
			if o.Error != nil && (o.SideEffects != contracts.SideEffectsNone || o.Error.Code == code && o.Status != status) {
				t.Errorf("outcome %+v %+v, want status %s", o, o.Error, status)
			}
			return o.Status == status && (o.Error == nil || o.Error.Code == code)
		})
	}
	expect("mcp:odd:echo", contracts.StatusOK, "")
	put(contracts.PolicyLayer{Level: "agent", Name: "a", Deny: []string{"mcp:odd:e*"}})
	expect("mcp:odd:echo", contracts.StatusBlocked, contracts.CodePolicyDenied)
	expect("odd.echo", contracts.StatusBlocked, contracts.CodePolicyDenied)
	put(contracts.PolicyLayer{Level: "nonsense"})
	expect("platform:core:now", contracts.StatusBlocked, contracts.CodePolicyDenied)
	put()
	expect("mcp:odd:echo", contracts.StatusOK, "")
	// The source loses all its tools.
	if _, err := w.sources.Transition(t.Context(), contracts.SourceKey(tenant, sourceID("mcp:odd")), func(rec *contracts.SourceRecord) ([]contracts.Event, error) {
		rec.State, rec.Reason = contracts.SourceStateFailed, "gone"
		return nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	expect("mcp:odd:echo", contracts.StatusUnavailable, contracts.CodeToolGone)
}

func TestThePlansPolicyStaysInForce(t *testing.T) {
	w := newWorld(t)
	w.executor(servers{"odd": w.server()})
	w.ready("mcp:odd")
	run := w.open(contracts.RunRequest{})
	layers := must(w.library.PutLayers(t.Context(), tenant, []contracts.PolicyLayer{{Level: "global", Deny: []string{"*:echo"}}}))
	if _, err := w.runs.Transition(t.Context(), contracts.RunKey(tenant, run), func(r *contracts.Run) ([]contracts.Event, error) {
		r.Plan.Policy = layers
		return nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	if o := w.call(run, callOf("mcp:odd:echo", `{"text":"x"}`)).Outcome; o.Status != contracts.StatusBlocked {
		t.Errorf("outcome %+v, want %s", o, contracts.StatusBlocked)
	}
}

func TestDeadlineAndCancellation(t *testing.T) {
	w := newWorld(t)
	w.executor(servers{"odd": w.server(), "quick": with(w.server(), "timeout", 2000)})
	w.ready("mcp:odd", "mcp:quick")
	run := w.open(contracts.RunRequest{})
	w.call(run, callOf("mcp:odd:echo", `{"text":"the connection is up"}`))

	q := callOf("mcp:odd:hang", `{}`)
	q.Deadline = time.Now().Add(500 * time.Millisecond)
	o := w.call(run, q).Outcome
	if o.Status != contracts.StatusTimeout || o.SideEffects != contracts.SideEffectsUnknown {
		t.Errorf("outcome past the deadline %+v, want %s", o, contracts.StatusTimeout)
	}
	if o := w.call(run, callOf("mcp:quick:hang", `{}`)).Outcome; o.Status != contracts.StatusTimeout {
		t.Errorf("outcome past the source's limit %+v, want %s", o, contracts.StatusTimeout)
	}
	natstest.Eventually(t, "the tools hear of the deadlines", func() bool { return w.counted("cancelled hang") == 2 })

	p := w.start(run, callOf("mcp:odd:hang", `{}`))
	natstest.Eventually(t, "the tool runs", func() bool { return w.counted("call hang ") == 3 })
	if err := w.caller.Cancel(t.Context(), tenant, run, p.ID); err != nil {
		t.Fatal(err)
	}
	if o := w.await(p).Outcome; o.Status != contracts.StatusCancelled || o.SideEffects != contracts.SideEffectsUnknown {
		t.Errorf("outcome of a cancelled call %+v, want %s", o, contracts.StatusCancelled)
	}
	natstest.Eventually(t, "the tool hears of the cancellation", func() bool { return w.counted("cancelled hang") == 3 })

	q = callOf("mcp:odd:echo", `{"text":"x"}`)
	q.Deadline = time.Now().Add(-time.Second)
	if o := w.call(run, q).Outcome; o.Status != contracts.StatusTimeout || o.SideEffects != contracts.SideEffectsNone {
		t.Errorf("outcome of a call that came too late %+v, want %s without effects", o, contracts.StatusTimeout)
	}
}

// The record alone is enough to cancel, should the news be missed.
func TestCancellationIsSeenInTheRecord(t *testing.T) {
	w := newWorld(t)
	w.executor(servers{"odd": w.server()}, func(c *Config) { c.Lease = 600 * time.Millisecond })
	w.ready("mcp:odd")
	run := w.open(contracts.RunRequest{})
	p := w.start(run, callOf("mcp:odd:hang", `{}`))
	natstest.Eventually(t, "the tool runs", func() bool { return w.counted("call hang ") == 1 })
	if _, err := w.calls.Transition(t.Context(), contracts.CallKey(tenant, run, p.ID), func(rec *contracts.Call) ([]contracts.Event, error) {
		rec.Cancelled = true
		return nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	if o := w.await(p).Outcome; o.Status != contracts.StatusCancelled {
		t.Errorf("outcome %+v, want %s", o, contracts.StatusCancelled)
	}
}

func TestClosedAndUnknownRuns(t *testing.T) {
	w := newWorld(t)
	w.executor(servers{})
	w.ready()
	run := w.open(contracts.RunRequest{})
	if _, err := w.runs.Transition(t.Context(), contracts.RunKey(tenant, run), func(r *contracts.Run) ([]contracts.Event, error) {
		r.State, r.Ending = contracts.RunStateClosed, contracts.EndingClosed
		return nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	for r, code := range map[contracts.RunID]contracts.Code{run: contracts.CodeRunClosed, contracts.NewRunID(): contracts.CodeNotFound} {
		if o := w.call(r, callOf("now", `{}`)).Outcome; o.Error == nil || o.Error.Code != code || o.SideEffects != contracts.SideEffectsNone {
			t.Errorf("outcome %+v, want %s", o, code)
		}
	}
}

func TestUnreachableSource(t *testing.T) {
	w := newWorld(t)
	program := filepath.Join(t.TempDir(), "server")
	if err := os.Symlink(must(filepath.Abs(os.Args[0])), program); err != nil {
		t.Fatal(err)
	}
	w.executor(servers{"odd": with(w.server(), "command", program)})
	w.ready("mcp:odd")
	run := w.open(contracts.RunRequest{})
	os.Rename(program, program+"2")
	for range 5 { // the first finds it out, the others are spared the trying
		o := w.call(run, callOf("mcp:odd:echo", `{"text":"x"}`)).Outcome
		if o.Status != contracts.StatusUnavailable || o.Error.Code != contracts.CodeSourceUnavailable || o.SideEffects != contracts.SideEffectsNone ||
			!strings.Contains(o.Error.Message, "no such file") || o.RetryAfter == 0 {
			t.Errorf("outcome %+v %+v, want %s", o, o.Error, contracts.StatusUnavailable)
		}
	}
	os.Rename(program+"2", program)
	natstest.Eventually(t, "it is tried again", func() bool {
		return w.call(run, callOf("mcp:odd:echo", `{"text":"x"}`)).Outcome.Status == contracts.StatusOK
	})
}

func TestAServerThatEndedWhileIdleIsStartedAgain(t *testing.T) {
	w := newWorld(t)
	svc, _ := w.executor(servers{"odd": w.server()})
	w.ready("mcp:odd")
	run := w.open(contracts.RunRequest{})
	w.call(run, callOf("mcp:odd:echo", `{"text":"x"}`))
	svc.pool.mu.Lock()
	l := svc.pool.links[linkKey{contracts.SourceKey(tenant, sourceID("mcp:odd")), runScope(run)}]
	svc.pool.mu.Unlock()
	l.conn.Close()
	if o := w.call(run, callOf("mcp:odd:echo", `{"text":"x"}`)).Outcome; o.Status != contracts.StatusOK {
		t.Errorf("outcome %+v %+v", o, o.Error)
	}
}

func TestClientToolWaits(t *testing.T) {
	w := newWorld(t)
	w.executor(servers{})
	w.ready()
	client := contracts.SourceID{Kind: contracts.SourceClient, Owner: "client"}
	open := contracts.Tool{ID: "client:client:open_file", Name: "open_file", InputSchema: json.RawMessage(`{"type":"object","required":["path"]}`)}
	open.Hash = open.ContentHash()
	listing := must(w.library.PutListing(t.Context(), tenant, &contracts.Listing{Source: client, Tools: []contracts.Tool{open}}))
	run := w.open(contracts.RunRequest{ClientTools: listing})

	if o := w.call(run, callOf("open_file", `{}`)).Outcome; o == nil || o.Status != contracts.StatusInvalidArgs {
		t.Errorf("outcome %+v, want %s", o, contracts.StatusInvalidArgs)
	}
	p := w.start(run, callOf("open_file", `{"path":"a"}`))
	if rec := w.await(p); rec.State != contracts.CallStateWaiting || rec.Waits != contracts.WaitsForClient || rec.Resolved.ID != open.ID {
		t.Fatalf("call %+v, want it to wait for its client", rec)
	}
	rec, err := w.caller.Answer(t.Context(), tenant, run, p.ID, contracts.Outcome{Status: contracts.StatusOK, Result: contracts.TextResult("content", nil)})
	if err != nil || rec.Outcome.Status != contracts.StatusOK {
		t.Errorf("Answer = %+v, %v, want ok", rec, err)
	}
	if got, want := w.events(contracts.CallStates(tenant, run, p.ID)), []string{"call.requested", "call.waiting", "call.finished"}; !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}

	q := callOf("open_file", `{"path":"b"}`)
	q.Deadline = time.Now().Add(700 * time.Millisecond)
	p = w.start(run, q)
	natstest.Eventually(t, "a client that does not answer runs into the deadline", func() bool {
		rec, err := w.caller.Get(t.Context(), contracts.CallKey(tenant, run, p.ID))
		return err == nil && rec.Outcome != nil && rec.Outcome.Status == contracts.StatusTimeout
	})
}

func TestConnectionsBelongToTheirSessions(t *testing.T) {
	w := newWorld(t)
	svc, _ := w.executor(servers{"own": w.server(), "all": with(w.server(), "connection", "shared")}, func(c *Config) { c.Idle = 500 * time.Millisecond })
	w.ready("mcp:own", "mcp:all")
	base := w.counted("pid ") // one each, for their listings
	env := func(run contracts.RunID, source string) { w.call(run, callOf("mcp:"+source+":echo", `{"text":"x"}`)) }
	a, b := w.open(contracts.RunRequest{}), w.open(contracts.RunRequest{})
	s1 := w.open(contracts.RunRequest{Labels: contracts.Labels{Session: "s"}})
	s2 := w.open(contracts.RunRequest{Labels: contracts.Labels{Session: "s"}})
	for _, run := range []contracts.RunID{a, a, b, s1, s2} {
		env(run, "all")
	}
	if n := w.counted("pid ") - base; n != 0 {
		t.Errorf("a shared source got %d connections more, want none", n)
	}
	for _, run := range []contracts.RunID{a, b, s1, s2} {
		env(run, "own")
	}
	if n := w.counted("pid ") - base; n != 3 {
		t.Errorf("two runs and a session got %d connections, want 3", n)
	}
	natstest.Eventually(t, "unused connections end, shared ones stay", func() bool {
		svc.pool.mu.Lock()
		defer svc.pool.mu.Unlock()
		return len(svc.pool.links) == 3 // two for listings, one of them shared, and the built-in tools
	})
}

func TestAClosedRunEndsItsConnection(t *testing.T) {
	w := newWorld(t)
	svc, _ := w.executor(servers{"own": w.server()})
	w.ready("mcp:own")
	run := w.open(contracts.RunRequest{})
	w.call(run, callOf("mcp:own:echo", `{"text":"x"}`))
	key := linkKey{contracts.SourceKey(tenant, sourceID("mcp:own")), runScope(run)}
	has := func() bool {
		svc.pool.mu.Lock()
		defer svc.pool.mu.Unlock()
		return svc.pool.links[key] != nil
	}
	if !has() {
		t.Fatal("the run has no connection of its own")
	}
	if err := w.bus.Publish(t.Context(), tenant, contracts.RunClosed{Run: run}); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "the connection ends", func() bool { return !has() })
}

func TestConnectingIsDoneOnceForMany(t *testing.T) {
	w := newWorld(t)
	w.executor(servers{"own": w.server("-delay", "300ms")})
	w.ready("mcp:own")
	run := w.open(contracts.RunRequest{})
	before := w.counted("pid ")
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if o := w.call(run, callOf("mcp:own:echo", `{"text":"x"}`)).Outcome; o.Status != contracts.StatusOK {
				t.Errorf("outcome %+v %+v", o, o.Error)
			}
		})
	}
	all.Wait()
	if n := w.counted("pid ") - before; n != 1 {
		t.Errorf("10 calls at once made %d connections, want 1", n)
	}
}

func TestOneTenantTakesNoMoreThanItsPlaces(t *testing.T) {
	w := newWorld(t)
	svc, _ := w.executor(servers{"odd": w.server()}, func(c *Config) { c.TenantCalls = 2 })
	w.ready("mcp:odd")
	run := w.open(contracts.RunRequest{})
	w.call(run, callOf("mcp:odd:echo", `{"text":"x"}`))
	ctx, stop := context.WithCancel(t.Context())
	most := make(chan int)
	go func() {
		n := 0
		for sleep(ctx, time.Millisecond, nil) {
			svc.running.mu.Lock()
			n = max(n, len(svc.running.calls))
			svc.running.mu.Unlock()
		}
		most <- n
	}()
	var pending []*calls.Pending
	for range 8 {
		pending = append(pending, w.start(run, callOf("mcp:odd:sleep", `{"ms":100}`)))
	}
	for _, p := range pending {
		if o := w.await(p).Outcome; o.Status != contracts.StatusOK {
			t.Errorf("outcome %+v", o)
		}
	}
	stop()
	if n := <-most; n != 2 {
		t.Errorf("%d calls of one tenant ran at once, want 2", n)
	}
}

func TestAWakeUpOfAnotherTenantIsRefused(t *testing.T) {
	w := newWorld(t)
	svc, err := New(t.Context(), w.bus, configOf(servers{}), nil)
	if err != nil {
		t.Fatal(err)
	}
	key := contracts.CallKey("other", contracts.NewRunID(), contracts.NewCallID())
	data, _ := json.Marshal(bus.Wakeup{Key: key})
	err = svc.woken(t.Context(), bus.Message{Subject: contracts.DispatchSubject(tenant), Data: data})
	if contracts.CodeOf(err) != contracts.CodeInvalid {
		t.Errorf("woken for another tenant: %v, want %s", err, contracts.CodeInvalid)
	}
}

func TestSessionsOfASourceAreBounded(t *testing.T) {
	p := newPool(time.Hour, slog.New(slog.DiscardHandler))
	p.open()
	defer p.close()
	src := builtIn()
	src.key, src.retry, src.refresh = contracts.SourceKey(tenant, src.id), newRetry(), newRefresh()
	var held []*link
	for i := range mostSessions {
		held = append(held, must(p.use(t.Context(), src, fmt.Sprint("session ", i))))
	}
	_, err := p.use(t.Context(), src, "one more")
	if contracts.CodeOf(err) != contracts.CodeSourceUnavailable || contracts.AsError(err).RetryAfter == 0 {
		t.Errorf("one session more: %v, want %s and a time to wait", err, contracts.CodeSourceUnavailable)
	}
	p.done(held[3], true)
	p.done(must(p.use(t.Context(), src, "one more")), true)
	if p.links[held[3].key] != nil {
		t.Error("the unused session still has its connection")
	}
}

func TestRetry(t *testing.T) {
	r := newRetry()
	longest := time.Duration(0)
	r.lost("lost")
	if wait, _ := r.wait(); wait != 0 {
		t.Errorf("a connection that was lost once is left alone for %v, want 0", wait)
	}
	for range 40 { // each pause is random: some are long
		r.lost("lost again")
		wait, why := r.wait()
		if longest = max(longest, wait); wait > 5*time.Minute || why.Message != "lost again" {
			t.Errorf("left alone for %v because of %q", wait, why)
		}
	}
	if longest < 30*time.Second {
		t.Errorf("after 40 failures the longest pause is %v", longest)
	}
	r.worked()
	if wait, _ := r.wait(); wait != 0 {
		t.Errorf("a source that works is left alone for %v, want 0", wait)
	}
}

func BenchmarkCall(b *testing.B) {
	w := newWorld(b)
	w.executor(servers{"odd": with(w.server(), "connection", "shared")})
	w.ready("mcp:odd")
	run := w.open(contracts.RunRequest{})
	for _, tool := range []string{"platform:core:uuid", "mcp:odd:fail"} {
		b.Run(tool, func(b *testing.B) {
			for b.Loop() {
				w.call(run, callOf(tool, `{}`))
			}
		})
	}
}
