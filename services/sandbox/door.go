package sandbox

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/control"
	"github.com/toolcrib/toolcrib/internal/core/outputs"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/sandbox/engine"
)

// A door is the only way out of one body: it answers what the body asks, by the same ways that every caller has, and keeps what
// belongs into its result. It is an [engine.Door].
type door struct {
	s       *Service
	ctx     context.Context // done when the body has ended
	close   context.CancelFunc
	tenant  contracts.TenantID
	run     *contracts.Run
	body    *contracts.Body
	key     contracts.Key
	content *handles
	answers chan engine.Answer
	pauses  chan bool
	asked   sync.WaitGroup // asks that are being answered

	mu     sync.Mutex
	logs   []contracts.BodyLog
	calls  []contracts.BodyCall
	begun  []time.Time // of each of calls
	counts contracts.BodyTelemetry
	waits  map[contracts.CallID]contracts.WaitsFor // calls that wait for somebody
	now    int64                                   // what the body's clock shows
	told   sync.Mutex                              // held while the record is told of waits, so that it is told in order
}

// open returns the door of a body whose run can be used.
func (s *Service) open(ctx context.Context, t contracts.TenantID, rec *contracts.Body) (*door, error) {
	run, err := s.live.Current(ctx, t, rec.Run)
	if err != nil {
		return nil, err
	}
	x := &door{
		s: s, tenant: t, run: run, body: rec, key: contracts.BodyKey(t, rec.Run, rec.ID), content: newHandles(rec.ID),
		answers: make(chan engine.Answer, 16), pauses: make(chan bool, 16), logs: []contracts.BodyLog{}, calls: []contracts.BodyCall{},
		waits: map[contracts.CallID]contracts.WaitsFor{}, now: rec.Requested.UnixMilli(),
	}
	x.counts.CatalogSize, x.counts.Sources = run.Plan.Catalogue.Size, run.Plan.Catalogue.Sources
	x.ctx, x.close = context.WithCancel(ctx)
	x.content.load = func(ctx context.Context, handle, path string, most int64) (json.RawMessage, error) {
		return s.outputs.Value(ctx, x.place(), handle, path, most)
	}
	return x, nil
}

func (x *door) Answers() <-chan engine.Answer { return x.answers }

func (x *door) Pauses() <-chan bool { return x.pauses }

// Log keeps a line of the body's console.
func (x *door) Log(l engine.Log) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.logs = append(x.logs, contracts.BodyLog{Level: l.Level, Text: l.Text})
}

// Ask answers a question of the body, some time later.
func (x *door) Ask(a engine.Ask) {
	if x.ctx.Err() != nil {
		return
	}
	answer := x.answerer(a)
	x.asked.Go(func() {
		value, err := answer()
		out := engine.Answer{ID: a.ID, Value: value}
		if err != nil {
			out.Value, out.Error = nil, thrown(err)
		}
		x.give(out)
	})
}

// answerer notes an ask, in the order of asking, and returns what answers it.
func (x *door) answerer(a engine.Ask) func() (json.RawMessage, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var args []json.RawMessage
	if err := json.Unmarshal(a.Args, &args); err != nil {
		return func() (json.RawMessage, error) { return nil, control.Wrong("arguments", "want a list") }
	}
	arg := func(i int) json.RawMessage {
		if i < len(args) && string(args[i]) != "null" {
			return args[i]
		}
		return nil
	}
	switch a.Op {
	case engine.OpTimer:
		return func() (json.RawMessage, error) { return nil, x.timer(arg(0)) }
	case engine.OpSearch:
		x.counts.Searches++
		return func() (json.RawMessage, error) { return x.search(arg(0), arg(1)) }
	case engine.OpDescribe:
		x.counts.Describes++
		return func() (json.RawMessage, error) { return x.describe(arg(0)) }
	case engine.OpCall:
		x.counts.Calls++
		id := contracts.BodyCallID(x.body.Run, x.body.ID, a.ID)
		n := len(x.calls)
		x.calls = append(x.calls, contracts.BodyCall{ID: nameOf(arg(0)), CallID: id})
		x.begun = append(x.begun, time.Now())
		return func() (json.RawMessage, error) { return x.call(n, id, arg(0), arg(1), arg(2)) }
	}
	return func() (json.RawMessage, error) {
		return nil, contracts.Errorf(contracts.CodeInvalid, "there is no tools.%s", string(a.Op))
	}
}

// place is where results of the body belong.
func (x *door) place() outputs.Place {
	e, err := x.s.live.PolicyFor(x.tenant, x.run)
	return outputs.Place{Tenant: x.tenant, Run: x.body.Run, Unreadable: err != nil || e.Forbids(outputs.ReadID)}
}

// nameOf returns a tool's id as the body gave it, shortened for the result.
func nameOf(raw json.RawMessage) string {
	id, err := control.ToolID(raw)
	if err != nil {
		return ""
	}
	return id
}

// give hands an answer to the body, with the time that its clock shows from then on.
func (x *door) give(a engine.Answer) {
	x.mu.Lock()
	x.now = max(x.now, time.Now().UnixMilli())
	a.Now = x.now
	x.mu.Unlock()
	select {
	case x.answers <- a:
	case <-x.ctx.Done():
	}
}

// longestTimer bounds a timer of a body. No body lives as long, so that it makes no difference.
const longestTimer = 24 * time.Hour

func (x *door) timer(ms json.RawMessage) error {
	var n float64
	if len(ms) > 0 {
		if err := json.Unmarshal(ms, &n); err != nil {
			return control.Wrong("milliseconds", "want a number")
		}
	}
	t := time.NewTimer(time.Duration(min(max(n, 0), float64(longestTimer.Milliseconds())) * float64(time.Millisecond)))
	defer t.Stop()
	select {
	case <-t.C:
	case <-x.ctx.Done():
	}
	return nil
}

// allowed returns an error where policy does not let the run's model use a control tool. An allow list that does not mention it is about other tools.
func (x *door) allowed(name string) error {
	if err := x.s.live.Loaded(x.ctx); err != nil {
		return err
	}
	e, err := x.s.live.PolicyFor(x.tenant, x.run)
	if err != nil {
		return contracts.Errorf(contracts.CodePolicyDenied, "policy cannot be evaluated, so nothing is allowed: %w", err)
	}
	if e.Forbids(control.ID(name)) {
		return contracts.Errorf(contracts.CodePolicyDenied, "policy does not allow %s", name)
	}
	return nil
}

// search answers tools.search(query, {limit}), also with the query, or a list of queries, in an object.
func (x *door) search(query, options json.RawMessage) (json.RawMessage, error) {
	if err := x.allowed(control.Search); err != nil {
		return nil, err
	}
	args := map[string]json.RawMessage{}
	if len(options) > 0 && json.Unmarshal(options, &args) != nil {
		return nil, control.Wrong("options", "want an object such as {limit: 5}")
	}
	switch {
	case len(query) > 0 && query[0] == '{':
		if err := json.Unmarshal(query, &args); err != nil {
			return nil, control.Wrong("query", "want a text")
		}
	case len(query) > 0 && query[0] == '[':
		args["queries"] = query
	case len(query) > 0:
		args["query"] = query
	}
	for k := range args {
		if k != "query" && k != "queries" && k != "limit" {
			return nil, control.Wrong(k, "unknown; tools.search takes a query and {limit}")
		}
	}
	q, err := control.SearchRequest(args)
	if err != nil {
		return nil, err
	}
	q.Run = x.body.Run
	a, err := bus.Ask[json.RawMessage](x.ctx, x.s.bus, x.tenant, contracts.VerbSearch, q)
	if err != nil || len(q.Queries) == 0 {
		return a, err
	}
	var batch struct {
		Results json.RawMessage `json:"results"`
	}
	if err := json.Unmarshal(a, &batch); err != nil {
		return nil, err
	}
	return json.Marshal(batch)
}

func (x *door) describe(raw json.RawMessage) (json.RawMessage, error) {
	if err := x.allowed(control.Describe); err != nil {
		return nil, err
	}
	id, err := control.ToolID(raw)
	if err != nil {
		return nil, err
	}
	return bus.Ask[json.RawMessage](x.ctx, x.s.bus, x.tenant, contracts.VerbDescribe, contracts.DescribeRequest{Run: x.body.Run, ID: id})
}

// waiting notes that a call of the body waits for somebody, "" for nobody any more. The body's clock stands still meanwhile.
func (x *door) waiting(id contracts.CallID, whom contracts.WaitsFor) {
	x.told.Lock()
	defer x.told.Unlock()
	x.mu.Lock()
	before := len(x.waits)
	if whom == "" {
		delete(x.waits, id)
	} else {
		x.waits[id] = whom
	}
	after := len(x.waits)
	var clients []contracts.CallID
	for c, w := range x.waits {
		if w == contracts.WaitsForClient {
			clients = append(clients, c)
		}
	}
	x.mu.Unlock()
	slices.Sort(clients)
	if before == 0 != (after == 0) {
		select {
		case x.pauses <- after > 0:
		case <-x.ctx.Done():
			return
		}
	}
	x.tell(clients)
}

// tell writes the calls that wait for the caller into the body's record.
func (x *door) tell(clients []contracts.CallID) {
	_, err := x.s.desk.Change(x.ctx, x.key, func(rec *contracts.Body) ([]contracts.Event, error) {
		if slices.Equal(rec.Waits, clients) {
			return nil, errNothing
		}
		more := slices.ContainsFunc(clients, func(c contracts.CallID) bool { return !slices.Contains(rec.Waits, c) })
		rec.Waits, rec.State = clients, contracts.BodyStateRunning
		if len(clients) > 0 {
			rec.State = contracts.BodyStateWaiting
		}
		if !more {
			return nil, nil
		}
		return []contracts.Event{contracts.BodyWaiting{At: time.Now().UTC(), Run: rec.Run, Body: rec.ID, Calls: clients}}, nil
	})
	if err != nil && x.ctx.Err() == nil && !isNothing(err) {
		x.s.log.Error("waiting body not recorded", "body", x.body.ID, "err", err)
	}
}
