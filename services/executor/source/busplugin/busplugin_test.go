package busplugin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/pkg/plugin"
)

const (
	tenant = contracts.LocalTenant
	shop   = contracts.PluginID("shop")
)

// connect returns a plugin's own connection to a server, and the executor's Conn to the plugin shop on it.
func connect(t *testing.T) (*nats.Conn, *Conn) {
	t.Helper()
	b := natstest.Open(t)
	c := New(Config{Conn: b.Conn, Tenant: tenant, Plugin: shop}, func() {})
	t.Cleanup(c.Close)
	return b.Conn, c
}

// serve runs a plugin of these tools until the test ends or stop is called, once it can be reached.
func serve(t *testing.T, conn *nats.Conn, cfg plugin.Config, tools map[string]plugin.Handler) (_ *plugin.Plugin, stop func()) {
	t.Helper()
	cfg.Name = string(shop)
	p := plugin.New(conn, cfg)
	for name, h := range tools {
		if err := p.Tool(plugin.Tool{Name: name, Description: "does " + name}, h); err != nil {
			t.Fatal(err)
		}
	}
	here := make(chan struct{}, 100)
	sub, err := conn.Subscribe(contracts.PluginChangedSubject(tenant, shop), func(*nats.Msg) { here <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	<-here
	sub.Unsubscribe()
	var stopped atomic.Bool
	stop = func() {
		cancel()
		if stopped.CompareAndSwap(false, true) {
			if err := <-ended; err != nil {
				t.Errorf("Run: %v", err)
			}
		}
	}
	t.Cleanup(stop)
	return p, stop
}

func says(s string) plugin.Handler {
	return func(context.Context, json.RawMessage) (*contracts.Result, error) {
		return contracts.TextResult(s, nil), nil
	}
}

func fails(err error) plugin.Handler {
	return func(context.Context, json.RawMessage) (*contracts.Result, error) { return nil, err }
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestList(t *testing.T) {
	conn, c := connect(t)
	serve(t, conn, plugin.Config{Title: "Shop", Instructions: "sells", Version: "1.2.3"}, map[string]plugin.Handler{"b": says(""), "a": says(""), "a.x": says("")})
	c.cfg.Include, c.cfg.Exclude = []string{"a*", "zz"}, []string{"*x"}
	l, skipped, err := c.List(within(t, 20*time.Second))
	if err != nil || len(skipped) != 0 || l.Title != "Shop" || l.Instructions != "sells" || len(l.Tools) != 1 || l.Tools[0].Name != "a" || l.Tools[0].Description != "does a" {
		t.Errorf("List = %+v, %v, %v, want the tool a alone", l, skipped, err)
	}
}

func TestCall(t *testing.T) {
	conn, c := connect(t)
	args := make(chan string, 1)
	big := strings.Repeat("0123456789abcdef", 3<<20/16)
	serve(t, conn, plugin.Config{}, map[string]plugin.Handler{
		"echo": func(ctx context.Context, a json.RawMessage) (*contracts.Result, error) {
			args <- string(a) + " " + string(plugin.CallOf(ctx).ID) + " " + plugin.CallOf(ctx).Parent
			return contracts.TextResult("x", json.RawMessage(`{"z":12345678901234567890,"a":1.10}`)), nil
		},
		"typed": plugin.Typed(func(_ context.Context, in struct{ N int }) (map[string]int, error) {
			return map[string]int{"n": in.N + 1}, nil
		}),
		"nothing": func(context.Context, json.RawMessage) (*contracts.Result, error) { return nil, nil },
		"fail":    fails(errors.New("it did not work")),
		"missing": fails(contracts.Errorf(contracts.CodeNotFound, "no such thing")),
		"args":    fails(contracts.Errorf(contracts.CodeInvalidArgs, "bad\nargs")),
		"busy":    fails(contracts.Errorf(contracts.CodeRateLimited, "later").After(7 * time.Second)),
		"away":    fails(contracts.Errorf(contracts.CodeUnavailable, "not now")),
		"panic":   func(context.Context, json.RawMessage) (*contracts.Result, error) { panic("oh") },
		"broken": func(context.Context, json.RawMessage) (*contracts.Result, error) {
			return contracts.TextResult("", json.RawMessage("{")), nil
		},
		"big":  says(big),
		"huge": says(strings.Repeat("x", 17<<20)),
	})
	for _, tt := range []struct {
		tool, args string
		code       contracts.Code
		want       string // a part of the result or of the message
	}{
		{"echo", `{"b":1}`, "", `"structuredContent":{"z":12345678901234567890,"a":1.10}`},
		{"typed", `{"n":4}`, "", `"structuredContent":{"n":5}`},
		{"typed", `{"n":"x"}`, contracts.CodeInvalidArgs, "cannot unmarshal"},
		{"nothing", `{}`, "", `{"content":[]}`},
		{"fail", `{}`, "", `"it did not work"}],"isError":true`},
		{"missing", `{}`, "", `"no such thing"}],"isError":true`},
		{"args", `{}`, contracts.CodeInvalidArgs, "the plugin answered: bad args"},
		{"busy", `{}`, contracts.CodeRateLimited, "later"},
		{"away", `{}`, contracts.CodeSourceUnavailable, "not now"},
		{"nobody", `{}`, contracts.CodeSourceUnavailable, `no tool "nobody"`},
		{"panic", `{}`, contracts.CodeToolError, "internal error"},
		{"broken", `{}`, contracts.CodeToolError, "no JSON"},
		{"big", `{}`, "", big},
		{"huge", `{}`, contracts.CodeToolError, "at most"},
		{"echo", `{"b":"` + strings.Repeat("x", 1<<20) + `"}`, contracts.CodeInvalidArgs, "can be sent"},
	} {
		r, err := c.Call(within(t, 20*time.Second), tt.tool, json.RawMessage(tt.args), map[string]string{contracts.MetaCallID: "call_1", metaParent: "00-x"})
		got, _ := json.Marshal(r)
		if err != nil {
			got = []byte(err.Error())
		}
		if contracts.CodeOf(err) != tt.code || !bytes.Contains(got, []byte(tt.want)) {
			t.Errorf("Call(%s, %.40s) = %.200s, %v, want %s and %.100q", tt.tool, tt.args, got, err, tt.code, tt.want)
		}
		if tt.tool == "busy" && contracts.AsError(err).RetryAfter != 7000 {
			t.Errorf("busy: %v, want to be tried again after 7 s", err)
		}
	}
	if got := <-args; got != `{"b":1} call_1 00-x` {
		t.Errorf("the tool got %q", got)
	}
}

// TestCancel has the end of the caller's context reach the tool, and only that call of it.
func TestCancel(t *testing.T) {
	conn, c := connect(t)
	began, ended, free := make(chan string, 2), make(chan string, 2), make(chan struct{})
	serve(t, conn, plugin.Config{}, map[string]plugin.Handler{"wait": func(ctx context.Context, a json.RawMessage) (*contracts.Result, error) {
		began <- string(a)
		select {
		case <-ctx.Done():
			ended <- string(a)
			return nil, ctx.Err()
		case <-free:
			return contracts.TextResult("done", nil), nil
		}
	}})
	ctx, cancel := context.WithCancel(t.Context())
	left, stays := make(chan error, 1), make(chan error, 1)
	call := func(ctx context.Context, args string, to chan<- error) {
		_, err := c.Call(ctx, "wait", json.RawMessage(args), map[string]string{contracts.MetaCallID: "call_1"}) // the same call, made twice
		to <- err
	}
	go call(ctx, `{"n":1}`, left)
	go call(within(t, 20*time.Second), `{"n":2}`, stays)
	<-began
	<-began
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the call that was left: %v, want %v", err, context.Canceled)
	}
	if got := <-ended; got != `{"n":1}` {
		t.Errorf("the call %s was cancelled", got)
	}
	close(free)
	if err := <-stays; err != nil {
		t.Errorf("the other call: %v", err)
	}
}

// TestTimeLimit has the tool's context end with the caller's deadline by itself.
func TestTimeLimit(t *testing.T) {
	conn, c := connect(t)
	left := make(chan time.Duration, 1)
	serve(t, conn, plugin.Config{}, map[string]plugin.Handler{"when": func(ctx context.Context, _ json.RawMessage) (*contracts.Result, error) {
		deadline, _ := ctx.Deadline()
		left <- time.Until(deadline)
		return nil, nil
	}})
	if _, err := c.Call(within(t, 20*time.Second), "when", json.RawMessage("{}"), nil); err != nil {
		t.Fatal(err)
	}
	if d := <-left; d <= 0 || d > 20*time.Second {
		t.Errorf("the tool has %v, want up to 20 s", d)
	}
}

// TestConcurrency has calls beyond the limit wait, and those beyond what may wait be refused.
func TestConcurrency(t *testing.T) {
	conn, c := connect(t)
	began, free := make(chan struct{}, 20), make(chan struct{})
	serve(t, conn, plugin.Config{Concurrency: 1}, map[string]plugin.Handler{"wait": func(context.Context, json.RawMessage) (*contracts.Result, error) {
		began <- struct{}{}
		<-free
		return nil, nil
	}})
	const n = 12 // one runs and eight wait
	ctx, errs := within(t, 30*time.Second), make(chan error, n)
	for range n {
		go func() {
			_, err := c.Call(ctx, "wait", json.RawMessage("{}"), nil)
			errs <- err
		}()
	}
	for range n - 9 {
		if err := <-errs; contracts.CodeOf(err) != contracts.CodeRateLimited {
			t.Errorf("a call too many: %v, want %s", err, contracts.CodeRateLimited)
		}
	}
	if len(began) != 1 {
		t.Errorf("%d calls run at once, want 1", len(began))
	}
	close(free)
	for range 9 {
		if err := <-errs; err != nil {
			t.Errorf("a call that waited: %v", err)
		}
	}
}

// TestInstances has two instances share the calls, and a stopping one end those that it took.
func TestInstances(t *testing.T) {
	conn, c := connect(t)
	began, free := make(chan struct{}), make(chan struct{})
	slow := func(context.Context, json.RawMessage) (*contracts.Result, error) {
		close(began)
		<-free
		return contracts.TextResult("slow", nil), nil
	}
	_, stop := serve(t, conn, plugin.Config{}, map[string]plugin.Handler{"slow": slow, "who": says("one")})
	done := make(chan error, 1)
	ctx := within(t, 30*time.Second)
	go func() {
		_, err := c.Call(ctx, "slow", json.RawMessage("{}"), nil)
		done <- err
	}()
	<-began
	serve(t, conn, plugin.Config{}, map[string]plugin.Handler{"who": says("two")})
	seen := map[string]bool{}
	who := func() {
		r, err := c.Call(ctx, "who", json.RawMessage("{}"), nil)
		if err != nil {
			t.Fatal(err)
		}
		seen[string(r.Content[0])] = true
	}
	for i := 0; len(seen) < 2 && i < 200; i++ {
		who()
	}
	if len(seen) != 2 {
		t.Errorf("calls were answered by %v, want both instances", seen)
	}
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	natstest.Eventually(t, "the first instance takes no more", func() bool {
		clear(seen)
		for range 20 {
			who()
		}
		return len(seen) == 1
	})
	close(free)
	if err := <-done; err != nil {
		t.Errorf("the call that ran when its instance was stopped: %v", err)
	}
	<-stopped
}

// TestPages has a listing of many tools come whole, and the right one where it changes.
func TestPages(t *testing.T) {
	conn, c := connect(t)
	p, _ := serve(t, conn, plugin.Config{}, nil)
	const n = 2000
	for i := range n {
		if err := p.Tool(plugin.Tool{Name: fmt.Sprintf("tool_%04d", i), Description: strings.Repeat("word ", 200)}, says("")); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	l, _, err := c.List(within(t, 30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range l.Tools {
		names = append(names, tool.Name)
	}
	if len(names) != n || !slices.IsSorted(names) || slices.Compact(names)[n-1] != "tool_1999" {
		t.Errorf("List has %d tools, want %d in order", len(names), n)
	}
	if !p.Remove("tool_0007") || p.Remove("tool_0007") {
		t.Error("Remove does not tell whether there was the tool")
	}
	if l, _, err = c.List(within(t, 30*time.Second)); err != nil || len(l.Tools) != n-1 {
		t.Errorf("List after one was removed has %d tools, %v, want %d", len(l.Tools), err, n-1)
	}
}

// respond answers every request of a kind with messages as the test writes them.
func respond(t *testing.T, conn *nats.Conn, subject string, answer func(m *nats.Msg)) {
	t.Helper()
	sub, err := conn.Subscribe(subject, answer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sub.Unsubscribe() })
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
}

// send answers m with a body and headers, names and values in turn.
func send(m *nats.Msg, body string, headers ...string) {
	out := &nats.Msg{Data: []byte(body), Header: nats.Header{}}
	for i := 0; i < len(headers); i += 2 {
		out.Header.Set(headers[i], headers[i+1])
	}
	m.RespondMsg(out)
}

func TestNobody(t *testing.T) {
	_, c := connect(t)
	changed := 0
	c.changed = func() { changed++ }
	_, _, err := c.List(within(t, 20*time.Second))
	if contracts.CodeOf(err) != contracts.CodeSourceUnavailable || !strings.Contains(err.Error(), "no instance") {
		t.Errorf("List of nobody: %v", err)
	}
	if _, err := c.Call(within(t, 20*time.Second), "x", json.RawMessage("{}"), nil); contracts.CodeOf(err) != contracts.CodeSourceUnavailable || changed != 1 {
		t.Errorf("Call of nobody: %v, and it was told %d times", err, changed)
	}
}

// TestLost has an instance that said that it works and then says nothing be taken for lost, and one that said nothing be waited for.
func TestLost(t *testing.T) {
	conn, c := connect(t)
	cancelled := make(chan string, 1)
	respond(t, conn, contracts.PluginCancels(tenant, shop), func(m *nats.Msg) { cancelled <- m.Subject })
	var cancel string
	respond(t, conn, contracts.PluginCallSubject(tenant, shop), func(m *nats.Msg) {
		var q contracts.PluginCallRequest
		json.Unmarshal(m.Data, &q)
		cancel = q.Cancel
		if q.Tool == "says" {
			send(m, "", contracts.PluginWorkingHeader, "60")
		}
	})
	_, err := c.Call(within(t, 30*time.Second), "says", json.RawMessage("{}"), nil)
	if contracts.CodeOf(err) != contracts.CodeOutcomeUnknown {
		t.Errorf("Call of an instance that is lost: %v, want %s", err, contracts.CodeOutcomeUnknown)
	}
	if got := <-cancelled; got != cancel {
		t.Errorf("cancelled at %q, want %q", got, cancel)
	}
	_, err = c.Call(within(t, 300*time.Millisecond), "says nothing", json.RawMessage("{}"), nil)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Call of an instance that says nothing: %v, want %v", err, context.DeadlineExceeded)
	}
}

func TestStrangeAnswers(t *testing.T) {
	conn, c := connect(t)
	var answer func(m *nats.Msg)
	respond(t, conn, contracts.PluginCallSubject(tenant, shop), func(m *nats.Msg) { answer(m) })
	say := func(body string, headers ...string) func(*nats.Msg) {
		return func(m *nats.Msg) { send(m, body, headers...) }
	}
	const result = `{"content":[],"structuredContent":{"n":1},"more":{"handle":"x"},"truncated":"y","new":1}`
	for name, tt := range map[string]struct {
		answer func(*nats.Msg)
		code   contracts.Code
	}{
		"with unknown fields": {say(result), ""},
		"in parts": {func(m *nats.Msg) {
			send(m, result[:10], contracts.PluginPartHeader, "1")
			send(m, "", contracts.PluginWorkingHeader, "5000")
			send(m, result[10:20], contracts.PluginPartHeader, "2")
			send(m, result[20:], contracts.PluginPartsHeader, "2")
		}, ""},
		"without a part": {func(m *nats.Msg) {
			send(m, result[:10], contracts.PluginPartHeader, "1")
			send(m, result[20:], contracts.PluginPartsHeader, "2")
		}, contracts.CodeOutcomeUnknown},
		"with parts in disorder": {say("x", contracts.PluginPartHeader, "2"), contracts.CodeOutcomeUnknown},
		"with only the end":      {say(result, contracts.PluginPartsHeader, "3"), contracts.CodeOutcomeUnknown},
		"empty":                  {say(""), contracts.CodeToolError},
		"null":                   {say("null"), contracts.CodeToolError},
		"an empty object":        {say("{}"), contracts.CodeToolError},
		"no JSON":                {say("<html>"), contracts.CodeToolError},
		"an array":               {say("[1]"), contracts.CodeToolError},
		"content of text":        {say(`{"content":"x"}`), contracts.CodeToolError},
		"a deep hole":            {say(strings.Repeat("[", 200_000)), contracts.CodeToolError},
		"an error":               {say(`{"error":{"code":"whatever","message":"\u202e"}}`), contracts.CodeToolError},
		"an error of micro":      {say("", "Nats-Service-Error-Code", "500", "Nats-Service-Error", "broke"), contracts.CodeToolError},
		"a forged 503 after a word": {func(m *nats.Msg) {
			send(m, "", contracts.PluginWorkingHeader, "5000")
			send(m, "", "Status", "503")
		}, contracts.CodeToolError},
		"strange words": {func(m *nats.Msg) {
			send(m, "", contracts.PluginWorkingHeader, "-9223372036854775808")
			send(m, "", contracts.PluginWorkingHeader, "9223372036854775807")
			send(m, result, contracts.PluginWorkingHeader, "no number")
		}, ""},
	} {
		answer = tt.answer
		r, err := c.Call(within(t, 20*time.Second), "x", json.RawMessage("{}"), nil)
		if contracts.CodeOf(err) != tt.code {
			t.Errorf("an answer %s: %v, %v, want %q", name, r, err, tt.code)
		}
		if got, _ := json.Marshal(r); err == nil && string(got) != `{"content":[],"structuredContent":{"n":1}}` {
			t.Errorf("an answer %s: %s", name, got)
		}
	}
}

func TestStrangeListings(t *testing.T) {
	conn, c := connect(t)
	var answer func(m *nats.Msg, q contracts.PluginListRequest)
	respond(t, conn, contracts.PluginListSubject(tenant, shop), func(m *nats.Msg) {
		var q contracts.PluginListRequest
		json.Unmarshal(m.Data, &q)
		answer(m, q)
	})
	say := func(body string) func(*nats.Msg, contracts.PluginListRequest) {
		return func(m *nats.Msg, _ contracts.PluginListRequest) { send(m, body) }
	}
	n := 0
	for name, tt := range map[string]struct {
		answer func(*nats.Msg, contracts.PluginListRequest)
		want   string // a part of the message; "" for a good listing of the tool a
	}{
		"with unknown fields":  {say(`{"protocol":1,"tools":[{"name":"a","new":1}],"new":1}`), ""},
		"with bad tools":       {say(`{"protocol":1,"tools":[{"name":"a"},null,7,{"name":7},{"name":"b","inputSchema":3,"title":[]}]}`), ""},
		"of no version":        {say(`{"tools":[]}`), "version 0"},
		"of version 2":         {say(`{"protocol":2,"tools":[]}`), "version 2"},
		"empty":                {say(``), "no list of tools"},
		"no JSON":              {say(`hello`), "no list of tools"},
		"tools of text":        {say(`{"protocol":1,"tools":"x"}`), "no list of tools"},
		"an error":             {say(`{"error":{"code":"unavailable","message":"soon"}}`), "the plugin answered: soon"},
		"no end":               {say(`{"protocol":1,"revision":"1","nextCursor":"x"}`), "no end"},
		"pages of no revision": {say(`{"protocol":1,"nextCursor":"x"}`), "needs a revision"},
		"always another": {func(m *nats.Msg, q contracts.PluginListRequest) {
			n++
			send(m, fmt.Sprintf(`{"protocol":1,"revision":"%d","nextCursor":"%d"}`, n, n))
		}, "changed again and again"},
		"changed once": {func(m *nats.Msg, q contracts.PluginListRequest) {
			n++
			send(m, map[bool]string{
				true:  fmt.Sprintf(`{"protocol":1,"revision":"%d","tools":[{"name":"a"}],"nextCursor":"2"}`, min(n, 3)),
				false: fmt.Sprintf(`{"protocol":1,"revision":"%d"}`, min(n, 3)),
			}[q.Cursor == ""])
		}, ""},
	} {
		answer, n = tt.answer, 0
		l, _, err := c.List(within(t, 20*time.Second))
		switch {
		case tt.want != "" && (contracts.CodeOf(err) != contracts.CodeSourceUnavailable || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("a listing %s: %v, want %q in it", name, err, tt.want)
		case tt.want == "" && (err != nil || !slices.ContainsFunc(l.Tools, func(t contracts.Tool) bool { return t.Name == "a" })):
			t.Errorf("a listing %s: %+v, %v, want the tool a", name, l, err)
		}
	}
}

func TestWildcard(t *testing.T) {
	for _, tt := range []struct {
		glob, s string
		want    bool
	}{
		{"a", "a", true}, {"a", "ab", false}, {"*", "", true}, {"*", "abc", true}, {"a*", "abc", true}, {"*c", "abc", true}, {"a*c", "ac", true},
		{"a*a", "a", false}, {"a*b*c", "axxbyyc", true}, {"a*b*c", "axxc", false}, {"*b*", "abc", true}, {"a**c", "abc", true}, {"", "a", false},
	} {
		if got := wildcard(tt.glob, tt.s); got != tt.want {
			t.Errorf("wildcard(%q, %q) = %v, want %v", tt.glob, tt.s, got, tt.want)
		}
	}
}
