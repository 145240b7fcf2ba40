package approvals_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolcrib/toolcrib/internal/core/approvals"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/internal/kit/store"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const tenant contracts.TenantID = "acme"

type office struct {
	*approvals.Desk
	bus   *bus.Bus
	calls *store.Table[contracts.Call, *contracts.Call]
}

func open(t *testing.T) office {
	t.Helper()
	b := natstest.Open(t)
	d, err := approvals.Open(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	calls, err := store.OpenTable[contracts.Call](t.Context(), b, contracts.BucketCalls)
	if err != nil {
		t.Fatal(err)
	}
	return office{d, b, calls}
}

// question records a call that waits, and returns what is asked for it.
func (o office) question(t *testing.T, args string, terms contracts.ApprovalTerms) approvals.Question {
	t.Helper()
	rec := &contracts.Call{ID: contracts.NewCallID(), Run: contracts.NewRunID(), Tool: "mcp:files:remove", Args: json.RawMessage(args), State: contracts.CallStateWaiting, Waits: contracts.WaitsForApproval}
	if err := o.calls.Create(t.Context(), contracts.CallKey(tenant, rec.Run, rec.ID), rec); err != nil {
		t.Fatal(err)
	}
	digest, err := approvals.Digest(rec.Args)
	if err != nil {
		t.Fatal(err)
	}
	return approvals.Question{
		Call: rec, Agent: "cleaner", Tool: contracts.ToolRef{ID: "mcp:files:remove", Name: "remove", Source: contracts.SourceMCP, Hash: "h1"},
		Args: digest, Policy: "p1", Terms: terms, By: "tenant, rule ask",
	}
}

func (o office) ask(t *testing.T, q approvals.Question) *contracts.Approval {
	t.Helper()
	a, err := o.Ask(t.Context(), tenant, q)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func wantCode(t *testing.T, what string, err error, want contracts.Code) {
	t.Helper()
	if got := contracts.CodeOf(err); got != want {
		t.Errorf("%s: %v, want the code %q", what, err, want)
	}
}

func once(by string) approvals.Choice {
	return approvals.Choice{Decision: contracts.DecisionAllowOnce, By: by}
}

func TestACallAsksOnce(t *testing.T) {
	o := open(t)
	q := o.question(t, `{"path":"/a"}`, contracts.ApprovalTerms{})
	a := o.ask(t, q)
	if a.State != contracts.ApprovalStateWaiting || a.Terms.Title != "Call mcp:files:remove" || a.Terms.Severity != contracts.SeverityWarning || a.Expires.Sub(a.Requested) != contracts.ApprovalTimeout {
		t.Errorf("Ask() = %+v, want it to wait, with the defaults", a)
	}
	again := o.ask(t, q)
	if !again.Requested.Equal(a.Requested) || again.ID != a.ID {
		t.Errorf("asked again: %+v, want the approval that is there", again)
	}
	list, err := o.List(t.Context(), tenant, contracts.ApprovalStateWaiting)
	if err != nil || len(list) != 1 {
		t.Errorf("List() = %v, %v; want one", list, err)
	}
	other, err := o.List(t.Context(), "globex", "")
	if err != nil || len(other) != 0 {
		t.Errorf("another tenant lists %v, %v; want none", other, err)
	}
	args, err := o.Args(t.Context(), tenant, a)
	if string(args) != `{"path":"/a"}` || err != nil {
		t.Errorf("Args() = %s, %v", args, err)
	}
}

func TestOnlyOneDecides(t *testing.T) {
	o := open(t)
	a := o.ask(t, o.question(t, `{}`, contracts.ApprovalTerms{Deciders: []string{"ann", "bob"}}))
	_, err := o.Decide(t.Context(), tenant, a.ID, once("eve"))
	wantCode(t, "somebody who may not decide", err, contracts.CodeForbidden)
	_, err = o.Decide(t.Context(), "globex", a.ID, once("ann"))
	wantCode(t, "another tenant", err, contracts.CodeNotFound)

	decided, err := o.bus.Conn.SubscribeSync(contracts.AllApprovalsDecided)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	won := 0
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			c := once("ann")
			if i%2 == 0 {
				c = approvals.Choice{Decision: contracts.DecisionDeny, By: "bob", Note: "no"}
			}
			_, err := o.Decide(t.Context(), tenant, a.ID, c)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
			} else {
				wantCode(t, "a second decision", err, contracts.CodeConflict)
			}
		})
	}
	wg.Wait()
	if won != 1 {
		t.Errorf("%d of 10 decided, want one", won)
	}
	if _, err := decided.NextMsg(5 * time.Second); err != nil {
		t.Errorf("no event: %v", err)
	}
	if n, _, _ := decided.Pending(); n != 0 {
		t.Errorf("%d events more, want one in all", n)
	}
}

func TestWhatIsApprovedIsBound(t *testing.T) {
	o := open(t)
	for what, change := range map[string]func(*approvals.Question){
		"":              func(*approvals.Question) {},
		"the tool":      func(q *approvals.Question) { q.Tool.Hash = "h2" },
		"the arguments": func(q *approvals.Question) { q.Args = "other" },
		"the policy":    func(q *approvals.Question) { q.Policy = "p2" },
	} {
		q := o.question(t, `{"path":"/a"}`, contracts.ApprovalTerms{})
		a := o.ask(t, q)
		wantCode(t, "not decided", o.Consume(t.Context(), tenant, q), contracts.CodeConflict)
		if _, err := o.Decide(t.Context(), tenant, a.ID, once("ann")); err != nil {
			t.Fatal(err)
		}
		change(&q)
		err := o.Consume(t.Context(), tenant, q)
		if what == "" {
			first, _ := o.Get(t.Context(), tenant, a.ID)
			again := o.Consume(t.Context(), tenant, q)
			second, _ := o.Get(t.Context(), tenant, a.ID)
			if err != nil || again != nil || first.Consumed.IsZero() || !first.Consumed.Equal(second.Consumed) {
				t.Errorf("Consume() = %v, then %v; consumed %v, then %v; want once", err, again, first.Consumed, second.Consumed)
			}
			continue
		}
		if contracts.CodeOf(err) != contracts.CodeConflict || !strings.Contains(err.Error(), what+" has changed") && !strings.Contains(err.Error(), what+" have changed") {
			t.Errorf("Consume() with %s changed = %v, want it refused with that", what, err)
		}
	}
}

func TestADenialIsNoApproval(t *testing.T) {
	o := open(t)
	q := o.question(t, `{}`, contracts.ApprovalTerms{})
	a := o.ask(t, q)
	if _, err := o.Decide(t.Context(), tenant, a.ID, approvals.Choice{Decision: contracts.DecisionDeny, By: "ann"}); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "denied", o.Consume(t.Context(), tenant, q), contracts.CodeConflict)
}

func TestApprovalsExpireByThemselves(t *testing.T) {
	o := open(t)
	ended, err := o.bus.Conn.SubscribeSync(contracts.AllApprovalsEnded)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- o.Sweep(ctx, "test-sweep") }()
	a := o.ask(t, o.question(t, `{}`, contracts.ApprovalTerms{ExpiresIn: 1}))
	m, err := ended.NextMsg(20 * time.Second)
	if err != nil {
		t.Fatalf("no event: %v", err)
	}
	if got := eventOf[contracts.ApprovalEnded](t, m); got.State != contracts.ApprovalStateExpired || got.Approval != a.ID || time.Now().Before(a.Expires) {
		t.Errorf("event %+v, want that %s expired, not before its time", got, a.ID)
	}
	_, err = o.Decide(t.Context(), tenant, a.ID, once("ann"))
	wantCode(t, "too late", err, contracts.CodeConflict)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func eventOf[E contracts.Event](t *testing.T, m *nats.Msg) E {
	t.Helper()
	_, e, err := contracts.DecodeEvent(m.Subject, m.Data)
	if err != nil {
		t.Fatal(err)
	}
	return e.(E)
}

func TestWhatEndedIsNotDecided(t *testing.T) {
	o := open(t)
	q := o.question(t, `{}`, contracts.ApprovalTerms{})
	a := o.ask(t, q)
	_, err := o.calls.Transition(t.Context(), contracts.CallKey(tenant, q.Call.Run, q.Call.ID), func(rec *contracts.Call) ([]contracts.Event, error) {
		rec.State = contracts.CallStateFinished
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = o.Decide(t.Context(), tenant, a.ID, once("ann"))
	wantCode(t, "the call has ended", err, contracts.CodeConflict)
	if a, _ = o.Get(t.Context(), tenant, a.ID); a.State != contracts.ApprovalStateVoid {
		t.Errorf("the approval is %s, want void", a.State)
	}
}

func TestGrants(t *testing.T) {
	o := open(t)
	q := o.question(t, `{"path":"/a","force":true}`, contracts.ApprovalTerms{})
	a := o.ask(t, q)
	for field, c := range map[string]approvals.Choice{
		"decision":   {Decision: "maybe", By: "ann"},
		"scope":      {Decision: contracts.DecisionAllowOnce, By: "ann", Same: []string{"path"}},
		"scope.args": {Decision: contracts.DecisionAllowAlways, By: "ann", Same: []string{"nothing"}},
		"note":       {Decision: contracts.DecisionDeny, By: "ann", Note: strings.Repeat("x", approvals.Longest+1)},
	} {
		_, err := o.Decide(t.Context(), tenant, a.ID, c)
		if contracts.CodeOf(err) != contracts.CodeInvalid || !strings.HasPrefix(contracts.AsError(err).Message, field+":") {
			t.Errorf("Decide(%+v) = %v, want %s named", c, err, field)
		}
	}
	if _, err := o.Decide(t.Context(), tenant, a.ID, approvals.Choice{Decision: contracts.DecisionAllowAlways, By: "ann", Same: []string{"path"}}); err != nil {
		t.Fatal(err)
	}
	grants, err := o.Grants(t.Context(), tenant)
	if err != nil || len(grants) != 1 || grants[0].By != "ann" || grants[0].Approval != a.ID {
		t.Fatalf("Grants() = %+v, %v; want the one", grants, err)
	}
	for what, tt := range map[string]struct {
		change func(*approvals.Question)
		args   string
		want   bool
	}{
		"the same":          {nil, `{"path":"/a"}`, true},
		"written otherwise": {nil, `{"force":false, "path" : "\u002fa"}`, true},
		"another path":      {nil, `{"path":"/b"}`, false},
		"no path":           {nil, `{}`, false},
		"a path in a path":  {nil, `{"path":["/a"]}`, false},
		"another agent":     {func(q *approvals.Question) { q.Agent = "" }, `{"path":"/a"}`, false},
		"another tool":      {func(q *approvals.Question) { q.Tool.ID = "mcp:files:read" }, `{"path":"/a"}`, false},
		"a changed tool":    {func(q *approvals.Question) { q.Tool.Hash = "h2" }, `{"path":"/a"}`, false},
	} {
		q := q
		if tt.change != nil {
			tt.change(&q)
		}
		id, err := o.Granted(t.Context(), tenant, q, json.RawMessage(tt.args))
		if err != nil || (id != "") != tt.want {
			t.Errorf("Granted(%s) = %q, %v; want granted=%v", what, id, err, tt.want)
		}
	}
	if id, err := o.Granted(t.Context(), "globex", q, json.RawMessage(`{"path":"/a"}`)); id != "" || err != nil {
		t.Errorf("another tenant is granted %q, %v", id, err)
	}

	if err := o.Revoke(t.Context(), tenant, grants[0].ID); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "revoked twice", o.Revoke(t.Context(), tenant, grants[0].ID), contracts.CodeNotFound)
	// A crash may have the decision settled again, after the grant was revoked.
	a, _ = o.Get(t.Context(), tenant, a.ID)
	if err := o.Settle(t.Context(), tenant, a); err != nil {
		t.Fatal(err)
	}
	if id, _ := o.Granted(t.Context(), tenant, q, json.RawMessage(`{"path":"/a"}`)); id != "" {
		t.Error("a revoked grant allows")
	}
}

func TestGrantsExpire(t *testing.T) {
	tool := contracts.ToolRef{ID: "mcp:a:b", Hash: "h"}
	now := time.Now()
	g := &contracts.Grant{Tool: tool.ID, Hash: tool.Hash, Expires: now.Add(time.Second)}
	if !approvals.Covers(g, "", tool, nil, now) || approvals.Covers(g, "", tool, nil, g.Expires) {
		t.Error("a grant holds until it expires")
	}
	if approvals.Covers(&contracts.Grant{Tool: tool.ID}, "", contracts.ToolRef{ID: tool.ID}, nil, now) {
		t.Error("a tool without a hash is granted: nobody knows what it was")
	}
}

func TestDigest(t *testing.T) {
	same := [][]string{
		{`{"a":1,"b":[true,null]}`, `{ "b" : [true , null], "a":1 }`},
		{`{"a":"é\n"}`, `{"a":"\u00e9\u000a"}`},
	}
	for _, texts := range same {
		a, errA := approvals.Digest(json.RawMessage(texts[0]))
		b, errB := approvals.Digest(json.RawMessage(texts[1]))
		if a != b || errA != nil || errB != nil {
			t.Errorf("Digest(%s) = %s, %v; Digest(%s) = %s, %v; want the same", texts[0], a, errA, texts[1], b, errB)
		}
	}
	other := []string{`{"a":1}`, `{"a":1.0}`, `{"a":"1"}`, `{"a":9007199254740992}`, `{"a":9007199254740993}`, `{"a":[1]}`, `{"A":1}`, `{}`, `{"a":null}`}
	seen := map[contracts.Hash]string{}
	for _, text := range other {
		h, err := approvals.Digest(json.RawMessage(text))
		if err != nil || seen[h] != "" {
			t.Errorf("Digest(%s) = %s, %v, that of %s", text, h, err, seen[h])
		}
		seen[h] = text
	}
	for _, text := range []string{`{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{`, ``, `{} {}`, "{\"a\":\"\xff\"}"} {
		if h, err := approvals.Digest(json.RawMessage(text)); err == nil {
			t.Errorf("Digest(%q) = %s, want an error", text, h)
		}
	}
}

// The digest of what was decoded and written anew is the same, and so is that of the canonical form: nothing depends on how it is written.
func FuzzDigest(f *testing.F) {
	for _, text := range []string{`{"a":1}`, `{"b":[1,2.50,-0],"a":{"x":"é","":null}}`, `{"a":1,"a":2}`, `[`, `"\ud800"`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		h, err := approvals.Digest(text)
		if err != nil {
			return
		}
		d := json.NewDecoder(strings.NewReader(string(text)))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			t.Fatalf("%q has a digest and is no JSON: %v", text, err)
		}
		again, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if h2, err := approvals.Digest(again); h2 != h || err != nil {
			t.Errorf("Digest(%q) = %s, Digest(%q) = %s, %v", text, h, again, h2, err)
		}
	})
}
