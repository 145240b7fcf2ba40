package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// crashRounds is what make crash asks for.
var crashRounds = flag.Int("rounds", 1, "how often the process is killed under calls at every stage")

// The stages at which calls are when the process is killed.
const (
	stageAccepted = "accepted"         // the answer says so
	stageAsking   = "approval waiting" // the approval is in the list
	stageDecided  = "approval decided" // the answer says so
	stageStarted  = "tool started"     // it counted, and holds its answer back
	stageFinished = "finished"         // the answer says so
	stageRandom   = "any moment"
)

// A prey is a call that the process is killed under: a call of its own, or the only one of a body.
type prey struct {
	stage string
	body  bool
	key   string // idempotency key, and note in the counter file
	run   contracts.RunID
}

func (p *prey) id() contracts.CallID { return contracts.KeyedCallID(p.run, "local", p.key) }

// call is the id of the tool's call.
func (p *prey) call() contracts.CallID {
	if !p.body {
		return p.id()
	}
	return contracts.BodyCallID(p.run, contracts.BodyOf(p.id()), 1)
}

func (p *prey) request() client.CallRequest {
	server, hold := "ops", 0
	switch p.stage {
	case stageAsking, stageDecided:
		server = "asks"
	case stageStarted:
		hold = 60_000
	}
	q := client.CallRequest{
		Key: p.key, Name: "mcp:" + server + ":increment_counter", Arguments: fmt.Appendf(nil, `{"note":%q,"hold_ms":%d}`, p.key, hold),
	}
	if p.body {
		code := fmt.Sprintf("return (await tools.call(%q, %s, {outcome: true})).status", q.Name, q.Arguments)
		q.Name = "tool_search_code"
		q.Arguments, _ = json.Marshal(map[string]string{"code": code})
	}
	return q
}

// A hunt is a process that is killed and started again on its data.
type hunt struct {
	*testing.T
	*server
	counter string
	servers map[string]any
	tally   map[string]int // of outcomes, by stage
}

// The one process is killed under calls at every stage of their life, made by models themselves and by bodies, and started again.
func TestTheProcessIsKilled(t *testing.T) {
	t.Parallel()
	h := &hunt{T: t, counter: filepath.Join(t.TempDir(), "counter"), tally: map[string]int{}}
	h.servers = map[string]any{
		"ops": exampleServer("ops", "--counter-file", h.counter), "asks": exampleServer("ops", "--counter-file", h.counter),
	}
	data := t.TempDir()
	h.server = up(t, data, h.servers)
	askFor(t, h.server, "mcp:asks:*")
	for n := range *crashRounds {
		run := codeRun(t, h.client(), time.Minute).ID
		preys := h.bring(run, n)
		h.kill(t)
		h.server = up(t, data, h.servers)
		h.decideAll(preys, n)
		for _, p := range preys {
			h.check(p)
		}
		h.recount(run, preys)
		if t.Failed() {
			t.Fatalf("round %d", n)
		}
	}
	var b strings.Builder
	b.WriteString("\n| call at the kill | outcome | calls |\n|---|---|---:|\n")
	for _, row := range slices.Sorted(maps.Keys(h.tally)) {
		fmt.Fprintf(&b, "| %s | %d |\n", row, h.tally[row])
	}
	t.Log(b.String())
}

// bring makes calls and brings each to its stage; those of any moment are on their way when it returns.
func (h *hunt) bring(run contracts.RunID, round int) []*prey {
	const random = 4
	var preys []*prey
	add := func(body bool, stages ...string) (added []*prey) {
		for _, stage := range stages {
			key := fmt.Sprintf("%d-%d", round, len(preys))
			added = append(added, &prey{stage: stage, body: body, key: key, run: run})
			preys = append(preys, added[len(added)-1])
		}
		return added
	}
	for _, body := range []bool{false, true} {
		for _, p := range add(body, stageStarted, stageAsking, stageDecided, stageFinished) {
			h.send(p)
			switch p.stage {
			case stageStarted:
				eventually(h.T, "the tool counted", func() bool { return executions(h.T, h.counter, p.key) == 1 })
			case stageAsking, stageDecided:
				eventually(h.T, "somebody is asked", func() bool { return h.waits(p) })
			case stageFinished:
				if a, err := h.client().Await(h.Context(), run, p.id()); err != nil || a.Status != contracts.StatusOK {
					h.Fatalf("%+v: %+v, %v", p, a, err)
				}
			}
		}
	}
	var last sync.WaitGroup
	for _, p := range preys {
		if p.stage == stageDecided {
			last.Go(func() { h.decide(p, contracts.DecisionAllowOnce) })
		}
	}
	for _, body := range []bool{false, true} {
		for _, p := range add(body, stageAccepted) {
			last.Go(func() { h.send(p) })
		}
	}
	url := h.url
	for range random {
		for _, p := range add(rand.N(2) == 0, stageRandom) {
			go func() {
				awaitPast(time.Now().Add(rand.N(60 * time.Millisecond)))
				sendTo(context.Background(), url, p)
			}()
		}
	}
	last.Wait()
	if round > 0 {
		awaitPast(time.Now().Add(rand.N(40 * time.Millisecond)))
	}
	return preys
}

// sendTo makes a call and does not wait for its end.
func sendTo(ctx context.Context, url string, p *prey) (*http.Response, error) {
	q := p.request()
	body, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/runs/"+string(p.run)+"/calls", strings.NewReader(string(body)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Prefer", "wait=0")
	req.Header.Set("Idempotency-Key", q.Key)
	resp, err := http.DefaultClient.Do(req)
	if err == nil {
		resp.Body.Close()
	}
	return resp, err
}

func (h *hunt) send(p *prey) {
	resp, err := sendTo(h.Context(), h.url, p)
	if err != nil || resp.StatusCode != http.StatusAccepted && resp.StatusCode != http.StatusOK {
		h.Errorf("%+v: %v, %v, want it accepted", p, resp, err)
	}
}

// waits reports whether somebody is asked about the call.
func (h *hunt) waits(p *prey) bool {
	list, err := h.admin(h.T).Approvals(h.Context(), contracts.ApprovalStateWaiting)
	if err != nil {
		h.Error(err)
	}
	return slices.ContainsFunc(list, func(a client.Approval) bool { return a.Call == p.call() })
}

func (h *hunt) decide(p *prey, d contracts.ApprovalDecision) {
	if _, err := h.admin(h.T).Decide(h.Context(), contracts.ApprovalOf(p.call()), client.ApprovalChoice{Decision: d}); err != nil {
		h.Errorf("%+v: %v", p, err)
	}
}

// decideAll decides on what waits, all of which must still be there, and finds that nothing can be decided twice.
func (h *hunt) decideAll(preys []*prey, round int) {
	for _, p := range preys {
		switch p.stage {
		case stageAsking:
			if !h.waits(p) {
				h.Errorf("nobody is asked any more about %+v", p)
			}
			d := contracts.DecisionAllowOnce
			if p.body == (round%2 == 0) {
				d = contracts.DecisionDeny
			}
			h.decide(p, d)
		case stageDecided:
		default:
			continue
		}
		_, err := h.admin(h.T).Decide(h.Context(), contracts.ApprovalOf(p.call()), client.ApprovalChoice{Decision: contracts.DecisionDeny})
		if contracts.CodeOf(err) != contracts.CodeConflict {
			h.Errorf("a second decision on %+v: %v, want %s", p, err, contracts.CodeConflict)
		}
	}
}

// check waits for the end of a call, and holds it against what the tool counted.
func (h *hunt) check(p *prey) {
	a, err := h.client().Await(h.Context(), p.run, p.id())
	if contracts.CodeOf(err) == contracts.CodeNotFound && p.stage == stageRandom { // it never came in
		if n := executions(h.T, h.counter, p.key); n != 0 {
			h.Errorf("%+v was not accepted, and executed %d times", p, n)
		}
		h.tally[p.what()+" | never accepted"]++
		return
	}
	if err != nil || !a.Final() {
		h.Errorf("%+v: %+v, %v, want its end", p, a, err)
		return
	}
	if p.body { // whose call has an end of its own
		again, err := h.client().Await(h.Context(), p.run, p.call())
		if contracts.CodeOf(err) == contracts.CodeNotFound && (p.stage == stageAccepted || p.stage == stageRandom) {
			h.tally[p.what()+" | no call, the body "+string(a.Status)]++
			return
		}
		if err != nil || !again.Final() {
			h.Errorf("the call of the body %+v: %+v, %v, want its end", p, again, err)
			return
		}
		a = again
	}
	n := executions(h.T, h.counter, p.key)
	h.tally[p.what()+" | "+strings.TrimSpace(string(a.Status)+" "+string(a.SideEffects))]++
	least, most := 0, 1
	switch {
	case a.Status == contracts.StatusOK:
		least = 1
	case a.SideEffects == contracts.SideEffectsNone:
		most = 0
	}
	lost := a.Status == contracts.StatusError && a.SideEffects == contracts.SideEffectsUnknown
	var want bool
	switch p.stage {
	case stageFinished:
		want = a.Status == contracts.StatusOK
	case stageStarted:
		want, least = lost, 1
	case stageAsking:
		want = a.Status == contracts.StatusOK || a.Status == contracts.StatusDenied && a.SideEffects == contracts.SideEffectsNone
	default:
		want = a.Status == contracts.StatusOK || lost
	}
	if !want || n < least || n > most {
		h.Errorf("%+v ended with %s, side effects %q, %v, after %d executions", p, a.Status, a.SideEffects, a.Error, n)
	}
}

func (p *prey) what() string {
	by := ", of a model"
	if p.body {
		by = ", of a body"
	}
	return p.stage + by
}

// recount reads the run's log: what began has ended once.
func (h *hunt) recount(run contracts.RunID, preys []*prey) {
	var ends map[string]int
	eventually(h.T, "all that began has its end in the log", func() bool {
		ends = map[string]int{}
		for l, err := range h.client().Log(h.Context(), run) {
			if err != nil {
				h.Fatal(err)
			}
			switch l.Type {
			case "call.requested", "body.requested":
				ends[l.ID] += 0
			case "call.finished", "body.finished":
				ends[l.ID]++
			}
		}
		return !slices.Contains(slices.Collect(maps.Values(ends)), 0)
	})
	for id, n := range ends {
		if n != 1 {
			h.Errorf("%s ended %d times", id, n)
		}
	}
	for _, p := range preys {
		if _, ok := ends[string(p.call())]; !ok && p.stage != stageRandom && p.stage != stageAccepted {
			h.Errorf("the log does not know the call of %+v", p)
		}
	}
}
