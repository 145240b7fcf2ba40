// Package bodies is how a service has a body run: it records the body, asks a sandbox for it
// and awaits its end. It runs nothing itself.
package bodies

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolcrib/toolcrib/internal/core/calls"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/store"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// Lease is how long a sandbox that has a body may be silent before it is taken for dead.
const Lease = 30 * time.Second

// DefaultTimeout is the wall clock limit of a body where its run has no other, by the specification.
const DefaultTimeout = 10 * time.Second

// A Desk has bodies run. Safe for concurrent use.
type Desk struct {
	bus      *bus.Bus
	bodies   *store.Table[contracts.Body, *contracts.Body]
	payloads *store.Blobs
}

// Open returns a Desk over the bus.
func Open(ctx context.Context, b *bus.Bus) (*Desk, error) {
	t, err := store.OpenTable[contracts.Body](ctx, b, contracts.BucketBodies)
	if err != nil {
		return nil, err
	}
	p, err := store.OpenBlobs(ctx, b, contracts.StorePayloads)
	if err != nil {
		return nil, err
	}
	return &Desk{b, t, p}, nil
}

// A Request is a body to be run.
type Request struct {
	ID       contracts.BodyID // equal ids are the same body, run once
	Code     string
	Timeout  time.Duration // 0 means [DefaultTimeout]
	Repaired []string      // what was mended in the arguments on the way here
}

// A Pending is a body on its way. Await it and Close it.
type Pending struct {
	ID   contracts.BodyID
	desk *Desk
	key  contracts.Key
	sub  *nats.Subscription
	news chan *nats.Msg
}

// Start records the body, so that it will end exactly once whatever happens to this process, and has a
// sandbox take it. Where none does, the body ends with the reason as its error. A body of that id that exists already
// is joined where it has the same text, and an error with [contracts.CodeConflict] where it has not.
func (d *Desk) Start(ctx context.Context, t contracts.TenantID, r contracts.RunID, q Request) (*Pending, error) {
	if len(q.Code) > contracts.LongestBody {
		return nil, contracts.Errorf(contracts.CodeTooLarge, "code: %d bytes; want at most %d", len(q.Code), contracts.LongestBody)
	}
	p, err := d.Join(t, r, q.ID)
	if err != nil {
		return nil, err
	}
	if err := d.start(ctx, t, r, q, p.key); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (d *Desk) start(ctx context.Context, t contracts.TenantID, r contracts.RunID, q Request, key contracts.Key) error {
	now := time.Now().UTC().Truncate(time.Millisecond)
	if q.Timeout == 0 {
		q.Timeout = DefaultTimeout
	}
	rec := &contracts.Body{
		ID: q.ID, Run: r, Code: q.Code, Seed: rand.Uint64(), Requested: now, TimeoutMs: q.Timeout.Milliseconds(),
		State: contracts.BodyStateRequested, Repaired: q.Repaired, Lease: now.Add(Lease),
	}
	err := d.bodies.Create(ctx, key, rec, contracts.BodyRequested{At: now, Run: r, Body: q.ID, Bytes: len(q.Code)})
	if contracts.CodeOf(err) == contracts.CodeConflict {
		old, err := d.bodies.Get(ctx, key)
		if err == nil && old.Code != rec.Code {
			err = contracts.Errorf(contracts.CodeConflict, "Idempotency-Key: it was used in this run for another body (%s)", old.ID.Call())
		}
		return err
	}
	if err != nil {
		return err
	}
	_, err = bus.Ask[contracts.BodyAnswer](ctx, d.bus, t, contracts.VerbBody, contracts.BodyRequest{Run: r, Body: q.ID})
	if err == nil || ctx.Err() != nil {
		return nil // taken; or nobody knows, and the sweeper of the sandboxes ends it
	}
	_, err = d.End(context.WithoutCancel(ctx), key, contracts.BodyEnd{Error: contracts.AsError(err)}, 0, func(rec *contracts.Body) error {
		if rec.Owner != "" {
			return errUnchanged // it was taken all the same
		}
		return nil
	})
	if errors.Is(err, errUnchanged) {
		return nil
	}
	return err
}

var errUnchanged = errors.New("unchanged")

// Join attaches to a body that may exist already.
func (d *Desk) Join(t contracts.TenantID, r contracts.RunID, id contracts.BodyID) (*Pending, error) {
	p := &Pending{ID: id, desk: d, key: contracts.BodyKey(t, r, id), news: make(chan *nats.Msg, 16)}
	var err error
	if p.sub, err = d.bus.Conn.ChanSubscribe(contracts.BodyStates(t, r, id), p.news); err != nil {
		return nil, fmt.Errorf("listen for body %s: %w", id, err)
	}
	return p, nil
}

// Close ends the listening; the body goes on.
func (p *Pending) Close() { p.sub.Unsubscribe() }

// lookAgain bounds how long Await trusts that no news means no change: news are not stored.
const lookAgain = 2 * time.Second

// Await returns the body's record once it is finished, with its end, once calls of it wait for the
// caller's own tools, but for those that are answered, or as it stands when ctx is done.
func (p *Pending) Await(ctx context.Context, answered ...contracts.CallID) (*contracts.Body, error) {
	waits := func(rec *contracts.Body) bool {
		return slices.ContainsFunc(rec.Waits, func(id contracts.CallID) bool { return !slices.Contains(answered, id) })
	}
	rec, err := p.desk.Get(context.WithoutCancel(ctx), p.key)
	for err == nil && rec.State != contracts.BodyStateFinished && !waits(rec) && ctx.Err() == nil {
		again := time.NewTimer(lookAgain)
		select {
		case m := <-p.news:
			again.Stop()
			if s, err := contracts.ParseSubject(m.Subject); err != nil || s.Type == "body.requested" {
				continue
			}
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
		}
		rec, err = p.desk.Get(context.WithoutCancel(ctx), p.key)
	}
	return rec, err
}

// Get returns the record of a body with its end, or an error with [contracts.CodeNotFound].
func (d *Desk) Get(ctx context.Context, key contracts.Key) (*contracts.Body, error) {
	rec, err := d.bodies.Get(ctx, key)
	if contracts.CodeOf(err) == contracts.CodeNotFound {
		return nil, contracts.Errorf(contracts.CodeNotFound, "there is no such body in this run")
	}
	if err != nil || rec.EndedBlob == "" {
		return rec, err
	}
	data, err := d.payloads.Get(ctx, key.Tenant(), rec.EndedBlob)
	if contracts.CodeOf(err) == contracts.CodeNotFound {
		rec.Ended = &contracts.BodyEnd{Error: contracts.Errorf(contracts.CodeNotFound, "the result of the body is no longer kept")}
		return rec, nil
	}
	if err != nil {
		return nil, err
	}
	return rec, json.Unmarshal(data, &rec.Ended)
}

// Cancel asks for the end of a body. The sandbox that has it ends it; a finished one stays as it is.
func (d *Desk) Cancel(ctx context.Context, t contracts.TenantID, r contracts.RunID, id contracts.BodyID) error {
	_, err := d.bodies.Transition(ctx, contracts.BodyKey(t, r, id), func(rec *contracts.Body) ([]contracts.Event, error) {
		if rec.State == contracts.BodyStateFinished || rec.Cancelled {
			return nil, errUnchanged
		}
		rec.Cancelled = true
		return nil, nil
	})
	switch {
	case contracts.CodeOf(err) == contracts.CodeNotFound:
		return contracts.Errorf(contracts.CodeNotFound, "there is no such body in this run")
	case err != nil && !errors.Is(err, errUnchanged):
		return err
	}
	return d.bus.Conn.Publish(contracts.BodyCancelSubject(t, id), nil)
}

// CancelRun asks for the end of every body of a run.
func (d *Desk) CancelRun(ctx context.Context, t contracts.TenantID, r contracts.RunID) error {
	var running []contracts.BodyID
	err := d.bodies.List(ctx, string(contracts.RunKey(t, r))+".>", func(_ contracts.Key, rec *contracts.Body) error {
		if rec.State != contracts.BodyStateFinished {
			running = append(running, rec.ID)
		}
		return nil
	})
	for _, id := range running {
		err = errors.Join(err, d.Cancel(ctx, t, r, id))
	}
	return err
}

// Change changes the record of a body that is not finished. change says what to; its error leaves the record as it is.
func (d *Desk) Change(ctx context.Context, key contracts.Key, change func(*contracts.Body) ([]contracts.Event, error)) (*contracts.Body, error) {
	return d.bodies.Transition(ctx, key, func(rec *contracts.Body) ([]contracts.Event, error) {
		if rec.State == contracts.BodyStateFinished {
			return nil, contracts.Errorf(contracts.CodeConflict, "the body is finished")
		}
		return change(rec)
	})
}

// End finishes a body, which is stored beside the record where it is large. cpu is the CPU time of its isolate. may is
// asked, with the record as it is then, whether this caller may still end it; a finished body is an error with [contracts.CodeConflict].
func (d *Desk) End(ctx context.Context, key contracts.Key, end contracts.BodyEnd, cpu time.Duration, may func(*contracts.Body) error) (*contracts.Body, error) {
	data, err := json.Marshal(end)
	if err != nil {
		return nil, fmt.Errorf("encode the end of %s: %w", key, err)
	}
	stored := &end
	var blob contracts.Hash
	if len(data) > calls.Inline {
		if blob, err = d.payloads.Put(ctx, key.Tenant(), data); err != nil {
			return nil, err
		}
		stored = nil
	}
	return d.Change(ctx, key, func(rec *contracts.Body) ([]contracts.Event, error) {
		if err := may(rec); err != nil {
			return nil, err
		}
		now := time.Now().UTC()
		rec.State, rec.Finished, rec.Lease, rec.Waits = contracts.BodyStateFinished, now, time.Time{}, nil
		rec.Ended, rec.EndedBlob = stored, blob
		return []contracts.Event{finished(rec, &end, cpu, now)}, nil
	})
}

// finished is the event that tells the end of a body.
func finished(rec *contracts.Body, end *contracts.BodyEnd, cpu time.Duration, now time.Time) contracts.BodyFinished {
	e := contracts.BodyFinished{
		At: now, Run: rec.Run, Body: rec.ID, DurationMs: now.Sub(rec.Requested).Milliseconds(), CPUMicros: cpu.Microseconds(),
	}
	if end.Error != nil {
		e.Refused = end.Error.Code
	}
	if r := end.Result; r != nil {
		e.OK, e.ValueBytes = r.OK, len(r.Value)
		e.Searches, e.Describes, e.Calls = r.Telemetry.Searches, r.Telemetry.Describes, r.Telemetry.Calls
		if r.Error != nil {
			e.Code = r.Error.Code
		}
	}
	return e
}

// Sweep calls dead, until ctx is done, with each body that no sandbox has any more. All replicas that sweep share the work.
func (d *Desk) Sweep(ctx context.Context, dead func(context.Context, contracts.Key, *contracts.Body) error) error {
	return d.bodies.Sweep(ctx, "sandbox", func(ctx context.Context, key contracts.Key, rec *contracts.Body) (time.Duration, error) {
		if rec.State == contracts.BodyStateFinished {
			return 0, nil
		}
		if wait := time.Until(rec.Lease); wait > 0 {
			return wait + time.Second, nil
		}
		return 0, dead(ctx, key, rec)
	})
}
