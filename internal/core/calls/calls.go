// Package calls is how a service has a tool called: it records the call, wakes an
// executor and awaits the outcome. It calls nothing itself.
package calls

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/store"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// Inline is the size in bytes up to which arguments and results stand in the record of their call; larger ones are stored beside it.
const Inline = 64 << 10

// A Caller has tools called. Safe for concurrent use.
type Caller struct {
	bus      *bus.Bus
	calls    *store.Table[contracts.Call, *contracts.Call]
	payloads *store.Blobs
}

// Open returns a Caller over the bus.
func Open(ctx context.Context, b *bus.Bus) (*Caller, error) {
	t, err := store.OpenTable[contracts.Call](ctx, b, contracts.BucketCalls)
	if err != nil {
		return nil, err
	}
	p, err := store.OpenBlobs(ctx, b, contracts.StorePayloads)
	if err != nil {
		return nil, err
	}
	return &Caller{b, t, p}, nil
}

// A Request is a call to be made.
type Request struct {
	Tool string          // an id or a name
	Args json.RawMessage // nil means {}
	// ID is the call's id; equal ids are the same call, made once. "" means a fresh one.
	ID       contracts.CallID
	Deadline time.Time
	Repaired []string         // what was mended in the arguments on the way here
	Body     contracts.BodyID // that makes the call, "" for none
}

// A Pending is a call on its way. Await it or Close it.
type Pending struct {
	ID     contracts.CallID
	caller *Caller
	key    contracts.Key
	sub    *nats.Subscription
	news   chan *nats.Msg
}

// Start records the call, so that it will end in exactly one outcome whatever
// happens to this process, and wakes an executor. A call of that id that exists already is
// joined where it is the same tool, and an error with [contracts.CodeConflict] where it is not.
func (c *Caller) Start(ctx context.Context, t contracts.TenantID, r contracts.RunID, q Request) (*Pending, error) {
	if q.ID == "" {
		q.ID = contracts.NewCallID()
	}
	p, err := c.Join(t, r, q.ID)
	if err != nil {
		return nil, err
	}
	if err := c.record(ctx, t, r, q, p.key); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (c *Caller) record(ctx context.Context, t contracts.TenantID, r contracts.RunID, q Request, key contracts.Key) error {
	now := time.Now().UTC()
	rec := &contracts.Call{
		ID: q.ID, Run: r, Tool: q.Tool, Args: q.Args, State: contracts.CallStateRequested,
		Requested: now, Deadline: q.Deadline.UTC(), Repaired: q.Repaired, Body: q.Body,
	}
	var err error
	if rec.Args, rec.ArgsBlob, err = c.Keep(ctx, t, q.Args); err != nil {
		return err
	}
	err = c.calls.Create(ctx, key, rec, contracts.CallRequested{At: now, Run: r, Call: q.ID, Tool: q.Tool, Body: q.Body})
	if contracts.CodeOf(err) == contracts.CodeConflict {
		return c.same(ctx, key, rec)
	}
	if err != nil {
		return err
	}
	err = c.bus.Wake(ctx, key, string(q.ID))
	if contracts.CodeOf(err) != contracts.CodeRateLimited {
		return nil // the call is recorded: where nobody was woken, the sweeper of the executor wakes one later
	}
	_, endErr := c.calls.Transition(ctx, key, EndUnstarted(contracts.Outcome{
		Status: contracts.StatusRateLimited, Error: contracts.AsError(err), SideEffects: contracts.SideEffectsNone,
	}))
	return errors.Join(err, endErr)
}

// same checks that the call under key is what rec asks for.
func (c *Caller) same(ctx context.Context, key contracts.Key, rec *contracts.Call) error {
	old, err := c.calls.Get(ctx, key)
	if err != nil {
		return err
	}
	if old.Tool != rec.Tool || old.ArgsBlob != rec.ArgsBlob || !equalJSON(old.Args, rec.Args) {
		return contracts.Errorf(contracts.CodeConflict, "Idempotency-Key: it was used in this run for another call (%s)", old.ID)
	}
	return nil
}

// equalJSON reports whether two texts are the same JSON value: a caller that tries again may write it otherwise.
func equalJSON(a, b json.RawMessage) bool {
	if string(a) == string(b) {
		return true
	}
	decode := func(raw json.RawMessage) (v any, err error) {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		err = d.Decode(&v)
		return v, err
	}
	x, errX := decode(a)
	y, errY := decode(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

// EndUnstarted returns the change that ends a call which no executor has begun; it is an error with [contracts.CodeConflict] once one has.
func EndUnstarted(o contracts.Outcome) func(*contracts.Call) ([]contracts.Event, error) {
	return func(rec *contracts.Call) ([]contracts.Event, error) {
		switch rec.State {
		case contracts.CallStateWaiting:
			if rec.Waits == contracts.WaitsForClient { // who has the arguments, and may have run the tool
				o.SideEffects = contracts.SideEffectsUnknown
			}
			fallthrough
		case contracts.CallStateRequested, contracts.CallStateAdmitted:
			return []contracts.Event{Finish(rec, o, time.Now().UTC())}, nil
		}
		return nil, contracts.Errorf(contracts.CodeConflict, "the call is %s", rec.State)
	}
}

// Finish ends the call in rec with o, at time now, and returns the event that tells it. o's call id, tool, repairs and duration are filled in.
func Finish(rec *contracts.Call, o contracts.Outcome, now time.Time) contracts.CallFinished {
	o.CallID, o.Repaired = rec.ID, rec.Repaired
	if o.Tool == nil {
		o.Tool = rec.Resolved
	}
	o.DurationMs = now.Sub(rec.Requested).Milliseconds()
	rec.State, rec.Outcome, rec.Lease = contracts.CallStateFinished, &o, time.Time{}
	e := contracts.CallFinished{
		At: now, Run: rec.Run, Call: rec.ID, Tool: o.Tool, Name: rec.Tool, Status: o.Status,
		SideEffects: o.SideEffects, Attempts: rec.Attempt, DurationMs: o.DurationMs,
	}
	if o.Error != nil {
		e.Code, e.Ruling = o.Error.Code, o.Error.Ruling
	}
	return e
}

// Join attaches to a call that may exist already.
func (c *Caller) Join(t contracts.TenantID, r contracts.RunID, id contracts.CallID) (*Pending, error) {
	p := &Pending{ID: id, caller: c, key: contracts.CallKey(t, r, id), news: make(chan *nats.Msg, 16)}
	var err error
	if p.sub, err = c.bus.Conn.ChanSubscribe(contracts.CallStates(t, r, id), p.news); err != nil {
		return nil, fmt.Errorf("listen for call %s: %w", id, err)
	}
	return p, nil
}

// Close ends the listening; the call goes on.
func (p *Pending) Close() { p.sub.Unsubscribe() }

// lookAgain bounds how long Await trusts that no news means no change: news are not stored.
const lookAgain = 2 * time.Second

// unreadable is how long a record is tried to be read, or a large result, while the bus does not answer: the call goes on meanwhile.
const unreadable = 30 * time.Second

// Await returns the call's record once it is finished, with its result, once it waits for the
// caller's own tool, or as it stands when ctx is done.
func (p *Pending) Await(ctx context.Context) (*contracts.Call, error) {
	return p.await(ctx, func(rec *contracts.Call) bool {
		return rec.State == contracts.CallStateFinished || rec.State == contracts.CallStateWaiting && rec.Waits == contracts.WaitsForClient
	})
}

// AwaitEnd returns the call's record once it is finished, or as it stands when ctx is done. Each time
// that the call begins or ceases to wait for somebody, waiting is told whom for, "" for nobody.
func (p *Pending) AwaitEnd(ctx context.Context, waiting func(contracts.WaitsFor)) (*contracts.Call, error) {
	var told contracts.WaitsFor
	return p.await(ctx, func(rec *contracts.Call) bool {
		var now contracts.WaitsFor
		if rec.State == contracts.CallStateWaiting {
			now = rec.Waits
		}
		if now != told {
			told = now
			waiting(now)
		}
		return rec.State == contracts.CallStateFinished
	})
}

func (p *Pending) await(ctx context.Context, settled func(*contracts.Call) bool) (*contracts.Call, error) {
	read := func() (*contracts.Call, error) { return p.caller.Get(context.WithoutCancel(ctx), p.key) }
	began := time.Now() // to fail
	rec, err := read()
	for ctx.Err() == nil {
		switch {
		case err == nil && settled(rec), err != nil && (contracts.Final(err) || time.Since(began) > unreadable):
			return rec, err
		case err == nil:
			began = time.Now()
		}
		again := time.NewTimer(lookAgain)
		select {
		case m := <-p.news:
			again.Stop()
			if s, err := contracts.ParseSubject(m.Subject); err != nil || s.Type != "call.finished" && s.Type != "call.waiting" {
				continue
			}
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
		}
		rec, err = read()
	}
	return rec, err
}

// Answer ends a call that waits for its caller with what came of the caller's tool. A
// call that does not wait for its caller is an error with [contracts.CodeConflict].
func (c *Caller) Answer(ctx context.Context, t contracts.TenantID, r contracts.RunID, id contracts.CallID, o contracts.Outcome) (*contracts.Call, error) {
	key := contracts.CallKey(t, r, id)
	_, err := c.End(ctx, key, o, func(rec *contracts.Call) error {
		if rec.State != contracts.CallStateWaiting || rec.Waits != contracts.WaitsForClient {
			return contracts.Errorf(contracts.CodeConflict, "the call is %s and waits for no result", rec.State)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return c.Get(ctx, key)
}

// End finishes a call with o, whose result is stored beside the record where it is
// large. may is asked, with the record as it is then, whether this caller may still end it.
func (c *Caller) End(ctx context.Context, key contracts.Key, o contracts.Outcome, may func(*contracts.Call) error) (*contracts.Call, error) {
	var blob contracts.Hash
	var size int
	if o.Result != nil {
		data, err := json.Marshal(o.Result)
		if err != nil {
			return nil, fmt.Errorf("encode the result of %s: %w", key, err)
		}
		if size = len(data); size > Inline {
			if blob, err = c.payloads.Put(ctx, key.Tenant(), data); err != nil {
				return nil, err
			}
			o.Result = nil
		}
	}
	return c.calls.Transition(ctx, key, func(rec *contracts.Call) ([]contracts.Event, error) {
		if err := may(rec); err != nil {
			return nil, err
		}
		rec.ResultBlob = blob
		e := Finish(rec, o, time.Now().UTC())
		e.ResultBytes = size
		return []contracts.Event{e}, nil
	})
}

// Get returns the record of a call with its result, or an error with [contracts.CodeNotFound].
func (c *Caller) Get(ctx context.Context, key contracts.Key) (*contracts.Call, error) {
	rec, err := c.calls.Get(ctx, key)
	if contracts.CodeOf(err) == contracts.CodeNotFound {
		return nil, contracts.Errorf(contracts.CodeNotFound, "there is no such call in this run")
	}
	if err != nil || rec.ResultBlob == "" || rec.Outcome == nil {
		return rec, err
	}
	data, err := c.payloads.Get(ctx, key.Tenant(), rec.ResultBlob)
	if contracts.CodeOf(err) == contracts.CodeNotFound {
		rec.Outcome.Result = contracts.TextResult("[the result is no longer kept]", nil)
		return rec, nil
	}
	if err != nil {
		return nil, err
	}
	return rec, json.Unmarshal(data, &rec.Outcome.Result)
}

// Keep returns arguments as they stand in a record: themselves or, where they are large, the name of what is stored in their place.
func (c *Caller) Keep(ctx context.Context, t contracts.TenantID, args json.RawMessage) (inline json.RawMessage, blob contracts.Hash, err error) {
	if len(args) <= Inline {
		return args, "", nil
	}
	blob, err = c.payloads.Put(ctx, t, args)
	return nil, blob, err
}

// Args returns the arguments that a call is made with, as hooks left them; "{}" where it has none.
func (c *Caller) Args(ctx context.Context, t contracts.TenantID, rec *contracts.Call) (json.RawMessage, error) {
	args, blob := rec.Args, rec.ArgsBlob
	if a := rec.Passage; a != nil && (a.ArgsBlob != "" || len(a.Args) > 0) {
		args, blob = a.Args, a.ArgsBlob
	}
	switch {
	case blob != "":
		return c.payloads.Get(ctx, t, blob)
	case len(args) == 0:
		return json.RawMessage("{}"), nil
	}
	return args, nil
}

// Cancel asks for the end of a call. One that no executor has begun ends at once;
// of one that runs the executor tells the tool. A finished call stays as it is.
func (c *Caller) Cancel(ctx context.Context, t contracts.TenantID, r contracts.RunID, id contracts.CallID) error {
	rec, err := c.calls.Transition(ctx, contracts.CallKey(t, r, id), func(rec *contracts.Call) ([]contracts.Event, error) {
		if rec.State == contracts.CallStateFinished || rec.Cancelled {
			return nil, errUnchanged
		}
		rec.Cancelled = true
		events, err := EndUnstarted(contracts.Outcome{
			Status: contracts.StatusCancelled, SideEffects: contracts.SideEffectsNone,
			Error: contracts.Errorf(contracts.CodeCancelled, "the call was cancelled before an executor began it"),
		})(rec)
		if err != nil {
			return nil, nil // it runs: the executor ends it
		}
		return events, nil
	})
	switch {
	case contracts.CodeOf(err) == contracts.CodeNotFound:
		return contracts.Errorf(contracts.CodeNotFound, "there is no such call in this run")
	case errors.Is(err, errUnchanged), err == nil && rec.State == contracts.CallStateFinished:
		return nil
	case err != nil:
		return err
	}
	return c.bus.Conn.Publish(contracts.CancelSubject(t, id), nil)
}

// CancelRun asks for the end of every call of a run.
func (c *Caller) CancelRun(ctx context.Context, t contracts.TenantID, r contracts.RunID) error {
	var going []contracts.CallID
	err := c.calls.List(ctx, string(contracts.RunKey(t, r))+".>", func(_ contracts.Key, rec *contracts.Call) error {
		if rec.State != contracts.CallStateFinished {
			going = append(going, rec.ID)
		}
		return nil
	})
	for _, id := range going {
		err = errors.Join(err, c.Cancel(ctx, t, r, id))
	}
	return err
}

var errUnchanged = errors.New("unchanged")
