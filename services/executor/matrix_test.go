package executor

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/approvals"
	"github.com/toolcrib/toolcrib/internal/core/calls"
	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// crashRounds is what make crash asks for.
var crashRounds = flag.Int("rounds", 0, "how often the crash matrix is gone through at every step; 0 is once, at some of them")

// A victim is a kind of call that executors are killed under.
type victim struct {
	name   string
	tool   string
	repeat bool              // the tool may be called again
	choice *approvals.Choice // that is made once the call asks; nil for a call that does not ask
}

var victims = []victim{
	{name: "plain", tool: "once"},
	{name: "idempotent", tool: "often", repeat: true},
	{name: "approved", tool: "asks", choice: &allow},
	{name: "denied", tool: "asks", choice: &deny},
}

// An executor is killed at each message that it sends or is given on the way of a call, and another takes over.
func TestCrashMatrix(t *testing.T) {
	var table matrix
	var lanes sync.WaitGroup
	for i, v := range victims {
		for j, after := range []bool{false, true} {
			lanes.Go(func() {
				t.Run(v.name+"/"+when(after), func(t *testing.T) {
					l := newLane(t, v, after)
					l.walk(&table, i+2*j)
					l.recount()
				})
			})
		}
	}
	lanes.Wait()
	t.Log("\n" + table.String())
}

func when(after bool) string {
	if after {
		return "after"
	}
	return "before"
}

// A lane goes through the steps of one kind of call, one killed executor after the other.
type lane struct {
	*approving
	victim
	after   bool
	url     string
	servers servers
	run     contracts.RunID
	ended   map[contracts.CallID]contracts.Status
}

func newLane(t *testing.T, v victim, after bool) *lane {
	w, url := openWorld(t)
	l := &lane{
		approving: &approving{world: w, desk: must(approvals.Open(t.Context(), w.bus))},
		victim:    v, after: after, url: url, ended: map[contracts.CallID]contracts.Status{},
	}
	l.rules(contracts.PolicyRule{Name: "ask", Effect: contracts.PolicyApprove, Tools: []string{"mcp:odd:asks"}, Approval: &contracts.ApprovalTerms{Title: "?"}})
	file := t.TempDir() + "/tools.json"
	l.tools(file, tool("once"), tool("asks"), tool("often", `"annotations":{"idempotentHint":true}`))
	l.servers = servers{"odd": with(l.server("-tools", file), "trustAnnotations", true)}
	_, stop := l.executor(l.servers)
	l.ready("mcp:odd")
	l.run = l.open(contracts.RunRequest{})
	stop()
	return l
}

// walk makes calls undisturbed to see their steps, and then kills an executor at each of these, so many times. A step that does not come
// in every call, as the order of some is by chance, is tried a few times more. Without rounds it takes a part of the steps, another in each lane.
func (l *lane) walk(table *matrix, lane int) {
	const parts = 6
	rounds, looks := *crashRounds, 3
	if rounds == 0 {
		rounds, looks = 1, 1
	}
	var places []place
	for range looks {
		for _, at := range l.kill(place{}, table) {
			if !slices.Contains(places, at) && (at.nth <= 2 || !strings.Contains(at.name, "KV_")) {
				places = append(places, at)
			}
		}
	}
	for i, at := range places {
		if *crashRounds == 0 && i%parts != lane%parts {
			continue
		}
		for done, tries := 0, 0; done < rounds && tries < 2*rounds && !l.Failed(); tries++ {
			if l.kill(at, table) == nil {
				done++
			}
		}
	}
}

// kill makes a call whose executor is killed at that place, and has another end it. Where the call ended before, it returns the places that it passed.
func (l *lane) kill(at place, table *matrix) []place {
	p := newTap(l, l.url)
	p.kill = l.process(p.url, l.servers)
	defer p.kill()
	natstest.Eventually(l, "the executor takes calls", p.ready)
	p.arm(at, l.after)
	q := callOf("mcp:odd:"+l.tool, `{}`)
	q.ID = contracts.NewCallID()
	q.Args = fmt.Appendf(nil, `{"call":%q}`, q.ID)
	q.Deadline = time.Now().Add(time.Minute)
	c := l.start(l.run, q)
	defer c.Close()

	var stop func()
	another := func() bool {
		if stop == nil && p.death() != nil {
			_, stop = l.executor(l.servers, func(c *Config) { c.Lease = shortLease })
			return true
		}
		return stop != nil
	}
	if l.choice != nil {
		l.settle(c, another)
	}
	var rec *contracts.Call
	natstest.Eventually(l, "the call has ended", func() bool {
		another()
		rec = must(l.calls.Get(l.Context(), contracts.CallKey(tenant, l.run, c.ID)))
		return rec.State == contracts.CallStateFinished && len(rec.Unsent) == 0
	})
	died := p.death()
	if stop != nil {
		stop()
	}
	l.check(p, died, rec)
	l.ended[rec.ID] = rec.Outcome.Status
	if died == nil {
		return p.places()
	}
	table.add(l, at, rec, l.runs(rec.ID))
	return nil
}

// settle waits until the call asks, whoever is alive, and makes the choice. It can be made once.
func (l *lane) settle(c *calls.Pending, another func() bool) {
	natstest.Eventually(l, "the call asks", func() bool {
		another()
		rec := must(l.calls.Get(l.Context(), contracts.CallKey(tenant, l.run, c.ID)))
		return rec.State == contracts.CallStateWaiting
	})
	waiting := must(l.desk.List(l.Context(), tenant, contracts.ApprovalStateWaiting))
	if len(waiting) != 1 || waiting[0].Call != c.ID {
		l.Fatalf("%d approvals wait, want that of %s alone", len(waiting), c.ID)
	}
	l.decide(waiting[0], *l.choice)
	for _, again := range []approvals.Choice{allow, deny} {
		again.By = "bob"
		if _, err := l.desk.Decide(l.Context(), tenant, waiting[0].ID, again); contracts.CodeOf(err) != contracts.CodeConflict {
			l.Errorf("a second decision: %v, want %s", err, contracts.CodeConflict)
		}
	}
}

// runs returns how often the tool was called.
func (l *lane) runs(id contracts.CallID) int {
	return l.counted(fmt.Sprintf("call %s {\"call\":%q}", l.tool, id))
}

// check holds the end of a call against where its executor died.
func (l *lane) check(p *tap, died *step, rec *contracts.Call) {
	l.Helper()
	want := contracts.StatusOK
	if l.choice == &deny {
		want = contracts.StatusDenied
	}
	begun := p.reached(contracts.CallStateRunning) && !p.reached(contracts.CallStateFinished)
	if died != nil && begun && !l.repeat {
		want = contracts.StatusError // nobody can know more
	}
	o, n := rec.Outcome, l.runs(rec.ID)
	var effects contracts.SideEffects
	least, most := 1, 1
	switch want {
	case contracts.StatusError:
		effects, least = contracts.SideEffectsUnknown, 0
		if o.Error == nil || o.Error.Code != contracts.CodeOutcomeUnknown {
			l.Errorf("%v: the call ended with %v, want %s", died, o.Error, contracts.CodeOutcomeUnknown)
		}
	case contracts.StatusDenied:
		effects, least, most = contracts.SideEffectsNone, 0, 0
	case contracts.StatusOK:
		if begun && l.repeat {
			most = 2
		}
	}
	if o.Status != want || o.SideEffects != effects || n < least || n > most {
		l.Errorf("%v: the call ended with %s, side effects %q, after %d runs of the tool; want %s, %q, after %d to %d: %+v", died, o.Status, o.SideEffects, n, want, effects, least, most, o.Error)
	}
}

// recount looks at all calls when all is over: each has one end, and nothing came of it later.
func (l *lane) recount() {
	l.Helper()
	for id, status := range l.ended {
		ends := 0
		for _, e := range l.events(contracts.CallStates(tenant, l.run, id)) {
			if e == "call.finished" {
				ends++
			}
		}
		if rec := must(l.calls.Get(l.Context(), contracts.CallKey(tenant, l.run, id))); ends != 1 || rec.Outcome.Status != status {
			l.Errorf("%s ended %d times, first with %s and now with %s", id, ends, status, rec.Outcome.Status)
		}
		if n := l.runs(id); !l.repeat && n > 1 {
			l.Errorf("the tool of %s was called %d times", id, n)
		}
	}
}

// A matrix is what came of the calls whose executors were killed. Safe for concurrent use.
type matrix struct {
	mu   sync.Mutex
	rows map[row]*tally
}

type row struct {
	victim string
	at     place
	when   string
}

type tally struct {
	rounds   int
	outcomes map[string]int
	runs     map[int]int
}

func (m *matrix) add(l *lane, at place, rec *contracts.Call, runs int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := row{l.victim.name, at, when(l.after)}
	if m.rows == nil {
		m.rows = map[row]*tally{}
	}
	if m.rows[r] == nil {
		m.rows[r] = &tally{outcomes: map[string]int{}, runs: map[int]int{}}
	}
	c := m.rows[r]
	c.rounds++
	c.outcomes[strings.TrimSpace(string(rec.Outcome.Status)+" "+string(rec.Outcome.SideEffects))]++
	c.runs[runs]++
}

// String returns the matrix as a table in Markdown.
func (m *matrix) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b strings.Builder
	b.WriteString("| call | killed | step | rounds | outcomes | runs of the tool |\n|---|---|---|---:|---|---|\n")
	order := func(a, b row) int {
		return cmp.Or(cmp.Compare(a.victim, b.victim), cmp.Compare(a.at.name, b.at.name), cmp.Compare(a.at.nth, b.at.nth), cmp.Compare(b.when, a.when))
	}
	for _, r := range slices.SortedFunc(maps.Keys(m.rows), order) {
		c := m.rows[r]
		name := r.at.name
		if r.at.nth > 1 {
			name += fmt.Sprintf(" (%d)", r.at.nth)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %d | %s | %s |\n", r.victim, r.when, name, c.rounds, counts(c.outcomes), counts(c.runs))
	}
	return b.String()
}

func counts[K cmp.Ordered](m map[K]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%v ×%d", k, m[k]))
	}
	return strings.Join(parts, ", ")
}
