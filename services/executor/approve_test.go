package executor

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/approvals"
	"github.com/toolcrib/toolcrib/internal/core/calls"
	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/internal/kit/store"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// An approving world has an odd server whose tool echo needs an approval.
type approving struct {
	*world
	desk *approvals.Desk
}

func newApproving(t *testing.T, terms contracts.ApprovalTerms) *approving {
	w := &approving{world: newWorld(t)}
	w.desk = must(approvals.Open(t.Context(), w.bus))
	w.rules(contracts.PolicyRule{Name: "ask", Effect: contracts.PolicyApprove, Tools: []string{"mcp:odd:echo", "client:*"}, Approval: &terms})
	return w
}

// rules replaces the policy.
func (w *approving) rules(rules ...contracts.PolicyRule) {
	w.Helper()
	key := contracts.PolicyKey(tenant, contracts.PolicyAPI)
	layers := []contracts.PolicyLayer{{Level: "tenant", Rules: rules}}
	err := w.policies.Create(w.Context(), key, &contracts.PolicyRecord{Layers: layers})
	if contracts.CodeOf(err) == contracts.CodeConflict {
		_, err = w.policies.Transition(w.Context(), key, func(r *contracts.PolicyRecord) ([]contracts.Event, error) {
			r.Layers = layers
			return nil, nil
		})
	}
	if err != nil {
		w.Fatal(err)
	}
}

// asked waits until the call asks, and returns the approval.
func (w *approving) asked(p *calls.Pending) *contracts.Approval {
	w.Helper()
	id := contracts.ApprovalOf(p.ID)
	var a *contracts.Approval
	natstest.Eventually(w, "the call waits for an approval", func() bool {
		var err error
		if a, err = w.desk.Get(w.Context(), tenant, id); err != nil {
			return false
		}
		rec, err := w.calls.Get(w.Context(), contracts.CallKey(tenant, a.Run, p.ID))
		return err == nil && rec.State == contracts.CallStateWaiting
	})
	return a
}

func (w *approving) decide(a *contracts.Approval, c approvals.Choice) {
	w.Helper()
	c.By = "ann"
	if _, err := w.desk.Decide(w.Context(), tenant, a.ID, c); err != nil {
		w.Fatal(err)
	}
}

func (w *approving) ended(p *calls.Pending, status contracts.Status, code contracts.Code, effects contracts.SideEffects) *contracts.Outcome {
	w.Helper()
	o := w.await(p).Outcome
	var got contracts.Code
	if o.Error != nil {
		got = o.Error.Code
	}
	if o.Status != status || got != code || o.SideEffects != effects {
		w.Errorf("the call ended with %s %s %s, want %s %s %s: %v", o.Status, got, o.SideEffects, status, code, effects, o.Error)
	}
	return o
}

var (
	allow = approvals.Choice{Decision: contracts.DecisionAllowOnce}
	deny  = approvals.Choice{Decision: contracts.DecisionDeny, Note: "not today"}
)

func TestApprovals(t *testing.T) {
	w := newApproving(t, contracts.ApprovalTerms{Title: "Echo?"})
	_, stop := w.executor(servers{"odd": w.server()})
	w.ready("mcp:odd")
	run := w.open(contracts.RunRequest{Labels: contracts.Labels{Agent: "planner"}})

	p := w.start(run, callOf("mcp:odd:echo", `{"text":"a"}`))
	a := w.asked(p)
	if a.Terms.Title != "Echo?" || a.Agent != "planner" || a.AskedBy != "tenant, rule ask" || a.Tool.Hash == "" || w.counted("call echo") != 0 {
		t.Errorf("asked %+v after %d calls, want what the rule says, and no call", a, w.counted("call echo"))
	}
	w.decide(a, allow)
	w.ended(p, contracts.StatusOK, "", "")
	if got, want := strings.Join(w.events(contracts.RunEvents(tenant, run)), " "), "call.requested approval.requested call.waiting approval.decided call.running call.finished"; got != want {
		t.Errorf("events %s, want %s", got, want)
	}
	if a := must(w.desk.Get(t.Context(), tenant, a.ID)); a.Consumed.IsZero() {
		t.Error("the approval is not consumed")
	}

	p = w.start(run, callOf("mcp:odd:echo", `{"text":"b"}`))
	w.decide(w.asked(p), deny)
	if o := w.ended(p, contracts.StatusDenied, contracts.CodeApprovalDenied, contracts.SideEffectsNone); !strings.Contains(o.Error.Message, "not today") || !strings.Contains(o.Error.Message, "final") {
		t.Errorf("the model is told %q, want the note and that it is final", o.Error.Message)
	}

	// Nobody works while it is decided.
	p = w.start(run, callOf("mcp:odd:echo", `{"text":"c"}`))
	a = w.asked(p)
	stop()
	w.decide(a, allow)
	w.executor(servers{"odd": w.server()})
	w.ended(p, contracts.StatusOK, "", "")
	if n := w.counted("call echo"); n != 2 {
		t.Errorf("the tool was called %d times, want 2", n)
	}
}

func TestNobodyDecides(t *testing.T) {
	w := newApproving(t, contracts.ApprovalTerms{ExpiresIn: 1})
	w.executor(servers{"odd": w.server()})
	w.ready("mcp:odd")
	p := w.start(w.open(contracts.RunRequest{}), callOf("mcp:odd:echo", `{"text":"a"}`))
	w.ended(p, contracts.StatusApprovalTimeout, contracts.CodeApprovalTimeout, contracts.SideEffectsNone)
	if n := w.counted("call echo"); n != 0 {
		t.Errorf("the tool was called %d times", n)
	}
}

// What was approved is not what would be called any more.
func TestApprovalsThatDoNotHold(t *testing.T) {
	for what, change := range map[string]func(*approving, *contracts.Approval){
		"policy": func(w *approving, _ *contracts.Approval) {
			w.rules(contracts.PolicyRule{Name: "ask", Effect: contracts.PolicyApprove, Tools: []string{"mcp:odd:*"}, Approval: &contracts.ApprovalTerms{Severity: contracts.SeverityCritical}})
		},
		"tool": func(w *approving, a *contracts.Approval) {
			table := must(openApprovals(w))
			must(table.Transition(w.Context(), contracts.ApprovalKey(tenant, a.ID), func(a *contracts.Approval) ([]contracts.Event, error) {
				a.Tool.Hash = "another"
				return nil, nil
			}))
		},
		"arguments": func(w *approving, a *contracts.Approval) {
			must(w.calls.Transition(w.Context(), contracts.CallKey(tenant, a.Run, a.Call), func(rec *contracts.Call) ([]contracts.Event, error) {
				rec.Args = json.RawMessage(`{"text":"other"}`)
				return nil, nil
			}))
		},
	} {
		t.Run(what, func(t *testing.T) {
			w := newApproving(t, contracts.ApprovalTerms{})
			w.executor(servers{"odd": w.server()})
			w.ready("mcp:odd")
			p := w.start(w.open(contracts.RunRequest{}), callOf("mcp:odd:echo", `{"text":"a"}`))
			a := w.asked(p)
			change(w, a)
			w.decide(a, allow)
			w.ended(p, contracts.StatusBlocked, contracts.CodeApprovalVoid, contracts.SideEffectsNone)
			if n := w.counted("call echo"); n != 0 {
				t.Errorf("the tool was called %d times", n)
			}
		})
	}
	t.Run("denied by policy meanwhile", func(t *testing.T) {
		w := newApproving(t, contracts.ApprovalTerms{})
		w.executor(servers{"odd": w.server()})
		w.ready("mcp:odd")
		p := w.start(w.open(contracts.RunRequest{}), callOf("mcp:odd:echo", `{"text":"a"}`))
		a := w.asked(p)
		w.rules(contracts.PolicyRule{Name: "no", Effect: contracts.PolicyDeny, Tools: []string{"mcp:odd:echo"}})
		w.decide(a, allow)
		w.ended(p, contracts.StatusBlocked, contracts.CodePolicyDenied, contracts.SideEffectsNone)
	})
}

func TestGrantsSpareAsking(t *testing.T) {
	w := newApproving(t, contracts.ApprovalTerms{})
	w.executor(servers{"odd": w.server()})
	w.ready("mcp:odd")
	run := w.open(contracts.RunRequest{})
	p := w.start(run, callOf("mcp:odd:echo", `{"text":"a","n":1}`))
	w.decide(w.asked(p), approvals.Choice{Decision: contracts.DecisionAllowAlways, Same: []string{"text"}})
	w.ended(p, contracts.StatusOK, "", "")
	rec := w.call(run, callOf("mcp:odd:echo", `{"n":2,"text":"a"}`))
	grants := must(w.desk.Grants(t.Context(), tenant))
	if rec.Outcome.Status != contracts.StatusOK || len(grants) != 1 || rec.Grant != grants[0].ID || rec.Approval != "" {
		t.Errorf("the call ended with %s by grant %q, want it made by %+v without asking", rec.Outcome.Status, rec.Grant, grants)
	}
	p = w.start(run, callOf("mcp:odd:echo", `{"text":"b"}`))
	w.decide(w.asked(p), deny)
	w.ended(p, contracts.StatusDenied, contracts.CodeApprovalDenied, contracts.SideEffectsNone)
}

// The clock of a call stands still while it waits.
func TestACallsClockStopsForAnApproval(t *testing.T) {
	w := newApproving(t, contracts.ApprovalTerms{})
	w.executor(servers{"odd": w.server()})
	w.ready("mcp:odd")
	q := callOf("mcp:odd:echo", `{"text":"a"}`)
	q.Deadline = time.Now().Add(3 * time.Second)
	p := w.start(w.open(contracts.RunRequest{}), q)
	a := w.asked(p)
	natstest.Eventually(w, "the call's own time is over", func() bool { return time.Now().After(q.Deadline.Add(time.Second)) })
	w.decide(a, allow)
	w.ended(p, contracts.StatusOK, "", "")
}

func TestACancelledCallIsNotDecided(t *testing.T) {
	w := newApproving(t, contracts.ApprovalTerms{})
	w.executor(servers{"odd": w.server()})
	w.ready("mcp:odd")
	run := w.open(contracts.RunRequest{})
	p := w.start(run, callOf("mcp:odd:echo", `{"text":"a"}`))
	a := w.asked(p)
	if err := w.caller.Cancel(t.Context(), tenant, run, p.ID); err != nil {
		t.Fatal(err)
	}
	w.ended(p, contracts.StatusCancelled, contracts.CodeCancelled, contracts.SideEffectsNone)
	if _, err := w.desk.Decide(t.Context(), tenant, a.ID, approvals.Choice{Decision: contracts.DecisionAllowOnce, By: "ann"}); contracts.CodeOf(err) != contracts.CodeConflict {
		t.Errorf("Decide() = %v, want a conflict", err)
	}
	if n := w.counted("call echo"); n != 0 {
		t.Errorf("the tool was called %d times", n)
	}
}

// Nobody is left to be asked about a call that has ended, however it did, also where the record of the call does not know that it asked.
func TestTheApprovalOfAnEndedCallIsVoid(t *testing.T) {
	w := newApproving(t, contracts.ApprovalTerms{})
	w.executor(servers{"odd": w.server()})
	w.ready("mcp:odd")
	run := w.open(contracts.RunRequest{})
	void := func(what string, id contracts.CallID) {
		t.Helper()
		natstest.Eventually(t, what, func() bool {
			a, err := w.desk.Get(t.Context(), tenant, contracts.ApprovalOf(id))
			return err == nil && a.State == contracts.ApprovalStateVoid && a.Reason == approvals.CallEnded
		})
	}
	p := w.start(run, callOf("mcp:odd:echo", `{"text":"a"}`))
	w.asked(p)
	if err := w.caller.Cancel(t.Context(), tenant, run, p.ID); err != nil {
		t.Fatal(err)
	}
	void("the approval of a cancelled call is void", p.ID)

	call := &contracts.Call{ID: contracts.NewCallID(), Run: run, Tool: "mcp:odd:nothing", State: contracts.CallStateRequested, Requested: time.Now()}
	must(w.desk.Ask(t.Context(), tenant, approvals.Question{Call: call, Tool: contracts.ToolRef{ID: "mcp:odd:echo"}}))
	q := callOf(call.Tool, `{}`)
	q.ID = call.ID
	w.call(run, q)
	void("the approval of a call that could not be made is void", call.ID)
}

// A run that has its end, by whoever or by time, takes its calls along.
func TestCallsEndWithTheirRun(t *testing.T) {
	w := newApproving(t, contracts.ApprovalTerms{})
	w.executor(servers{"odd": w.server()})
	w.ready("mcp:odd")
	run, other := w.open(contracts.RunRequest{}), w.open(contracts.RunRequest{})
	runs := w.start(run, callOf("mcp:odd:hang", `{}`))
	waits := w.start(run, callOf("mcp:odd:echo", `{"text":"a"}`))
	stays := w.start(other, callOf("mcp:odd:sleep", `{"ms":1000}`))
	w.asked(waits)
	natstest.Eventually(t, "the tools run", func() bool { return w.counted("call hang ") == 1 && w.counted("call sleep ") == 1 })
	must(w.runs.Transition(t.Context(), contracts.RunKey(tenant, run), func(r *contracts.Run) ([]contracts.Event, error) {
		r.State, r.Ending = contracts.RunStateClosed, contracts.EndingExpired
		return []contracts.Event{contracts.RunClosed{At: time.Now(), Run: run, Ending: r.Ending}}, nil
	}))
	w.ended(runs, contracts.StatusCancelled, contracts.CodeCancelled, contracts.SideEffectsUnknown)
	w.ended(waits, contracts.StatusCancelled, contracts.CodeCancelled, contracts.SideEffectsNone)
	natstest.Eventually(t, "the approval is void", func() bool {
		return must(w.desk.Get(t.Context(), tenant, contracts.ApprovalOf(waits.ID))).State == contracts.ApprovalStateVoid
	})
	w.ended(stays, contracts.StatusOK, "", "")
}

func openApprovals(w *approving) (*store.Table[contracts.Approval, *contracts.Approval], error) {
	return store.OpenTable[contracts.Approval](w.Context(), w.bus, contracts.BucketApprovals)
}

// Somebody may be faster than the call, which has asked and does not wait yet.
func TestADecisionBeforeTheCallWaits(t *testing.T) {
	w := newApproving(t, contracts.ApprovalTerms{})
	w.executor(servers{"odd": w.server()})
	w.ready("mcp:odd")
	run := w.open(contracts.RunRequest{})
	for range 10 {
		p := w.start(run, callOf("mcp:odd:echo", `{"text":"a"}`))
		var a *contracts.Approval
		for a == nil {
			a, _ = w.desk.Get(t.Context(), tenant, contracts.ApprovalOf(p.ID))
		}
		w.decide(a, allow)
		w.ended(p, contracts.StatusOK, "", "")
	}
}

// A call that was begun is not made again where policy wants an approval by now, even where its tool allows that.
func TestALostCallIsNotRepeatedWithoutAnApproval(t *testing.T) {
	for name, rules := range map[string][]contracts.PolicyRule{
		"asked by now": {{Name: "ask", Effect: contracts.PolicyApprove, Tools: []string{"mcp:odd:*"}}},
		"free":         nil,
	} {
		w := newApproving(t, contracts.ApprovalTerms{})
		w.rules(rules...)
		server := w.server()
		server["trustAnnotations"] = true
		w.executor(servers{"odd": server})
		w.ready("mcp:odd")
		run := w.open(contracts.RunRequest{})
		rec := &contracts.Call{
			ID: contracts.NewCallID(), Run: run, Tool: "mcp:odd:echo", Args: json.RawMessage(`{"text":"a"}`), State: contracts.CallStateRunning, Requested: time.Now(), Deadline: time.Now().Add(time.Minute),
			Attempt: 1, Owner: "gone", Lease: time.Now().Add(-time.Second), Started: time.Now().Add(-2 * time.Second),
		}
		if err := w.calls.Create(t.Context(), contracts.CallKey(tenant, run, rec.ID), rec); err != nil {
			t.Fatal(err)
		}
		p := must(w.caller.Join(tenant, run, rec.ID))
		t.Cleanup(p.Close)
		if rules == nil {
			w.ended(p, contracts.StatusOK, "", "")
			continue
		}
		w.ended(p, contracts.StatusError, contracts.CodeOutcomeUnknown, contracts.SideEffectsUnknown)
		if n := w.counted("call "); n != 0 {
			t.Errorf("%s: the tool was called %d times", name, n)
		}
	}
}
