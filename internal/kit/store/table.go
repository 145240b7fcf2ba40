// Package store keeps a service's state on the bus: records in key/value
// buckets that change by compare-and-set together with their events, mirrors of
// such buckets in memory, and content in object stores named by hash.
package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/trace"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A Record is the pointer to a record type that embeds [contracts.Outbox].
type Record[T any] interface {
	*T
	Notes() *[]contracts.Note
}

// A Table is a bucket of records of one type. Safe for concurrent use.
type Table[T any, P Record[T]] struct {
	bus  *bus.Bus
	kv   jetstream.KeyValue
	name string
}

// Retention of the buckets, counted from a record's last change; 0 keeps for ever.
func retention(bucket string) time.Duration {
	switch bucket {
	case contracts.BucketRuns:
		return 30 * 24 * time.Hour
	case contracts.BucketCalls, contracts.BucketBodies, contracts.BucketApprovals:
		return keptCalls
	case contracts.BucketSeats:
		return 7 * 24 * time.Hour
	}
	return 0
}

// keptCalls is how long calls and what belongs to them are kept: longer than a call can wait for an approval, unchanged, so that its end is seen.
const keptCalls = contracts.ApprovalTimeoutMax + 7*24*time.Hour

func openBucket(ctx context.Context, b *bus.Bus, bucket string) (kv jetstream.KeyValue, err error) {
	cfg := jetstream.KeyValueConfig{
		Bucket: bucket, History: 1, TTL: retention(bucket), Storage: jetstream.FileStorage, Replicas: b.Replicas(),
	}
	err = open(ctx, b, bucket, opening[jetstream.KeyValue]{
		open:   func(ctx context.Context) (jetstream.KeyValue, error) { return b.JS.KeyValue(ctx, bucket) },
		create: func(ctx context.Context) (jetstream.KeyValue, error) { return b.JS.CreateKeyValue(ctx, cfg) },
		update: func(ctx context.Context) (jetstream.KeyValue, error) { return b.JS.CreateOrUpdateKeyValue(ctx, cfg) },
		stream: func(ctx context.Context, kv jetstream.KeyValue) *jetstream.StreamInfo {
			status, _ := kv.Status(ctx)
			if s, ok := status.(*jetstream.KeyValueBucketStatus); ok {
				return s.StreamInfo()
			}
			return nil
		},
		age: cfg.TTL, replicas: cfg.Replicas,
	}, &kv)
	return kv, err
}

// An opening is the ways to open a bucket: as it is, where it is missing, and whatever it is; and what can change of its settings.
type opening[B any] struct {
	open, create, update func(context.Context) (B, error)
	stream               func(context.Context, B) *jetstream.StreamInfo // nil where it is not known
	age                  time.Duration
	replicas             int
}

// settled opens a bucket that is what it is to be.
func (ways opening[B]) settled(ctx context.Context) (opened B, ok bool) {
	opened, err := ways.open(ctx)
	if err != nil {
		return opened, false
	}
	info := ways.stream(ctx, opened)
	return opened, info != nil && info.Config.MaxAge == ways.age && info.Config.Replicas == max(1, ways.replicas)
}

// open opens a bucket, and makes it where it is missing, now and when the server lost it.
func open[B any](ctx context.Context, b *bus.Bus, name string, ways opening[B], into *B) error {
	var once sync.Once
	err := b.Keep(ctx, name, func(ctx context.Context) error {
		opened, err := ways.bucket(ctx, b.Keeps(name))
		if err == nil {
			once.Do(func() { *into = opened })
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("open the bucket %s: %w", name, err)
	}
	return nil
}

func (ways opening[B]) bucket(ctx context.Context, keeps bool) (B, error) {
	if keeps {
		// A server that is told its own settings again is disturbed by it: consumers are made at the same time.
		if opened, ok := ways.settled(ctx); ok {
			return opened, nil
		}
		opened, err := ways.update(ctx)
		if !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return opened, err
		}
		return ways.open(ctx) // another was faster, with other settings
	}
	opened, err := ways.open(ctx)
	if !errors.Is(err, jetstream.ErrBucketNotFound) {
		return opened, err
	}
	if opened, err = ways.create(ctx); errors.Is(err, jetstream.ErrBucketExists) {
		return ways.open(ctx)
	}
	return opened, err
}

// OpenTable opens the bucket, and makes it where it is missing.
func OpenTable[T any, P Record[T]](ctx context.Context, b *bus.Bus, bucket string) (*Table[T, P], error) {
	kv, err := openBucket(ctx, b, bucket)
	return &Table[T, P]{b, kv, bucket}, err
}

// Get returns the record of key, or an error with [contracts.CodeNotFound].
func (t *Table[T, P]) Get(ctx context.Context, key contracts.Key) (P, error) {
	rec, _, err := t.get(ctx, key)
	return rec, err
}

func (t *Table[T, P]) get(ctx context.Context, key contracts.Key) (P, uint64, error) {
	e, err := t.kv.Get(ctx, string(key))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, 0, contracts.Errorf(contracts.CodeNotFound, "no such record in %s", t.name)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read %s %s: %w", t.name, key, err)
	}
	rec := P(new(T))
	if err := json.Unmarshal(e.Value(), rec); err != nil {
		return nil, 0, fmt.Errorf("decode %s %s: %w", t.name, key, err)
	}
	return rec, e.Revision(), nil
}

// List calls f with every record whose key matches the filter, such as "acme.>"; it ends with the first error of f.
// Keys come in no particular order. A record that is stored before List is called is among them.
func (t *Table[T, P]) List(ctx context.Context, filter string, f func(contracts.Key, P) error) error {
	seen := map[contracts.Key]bool{}
	if err := t.snapshot(ctx, filter, func(key contracts.Key, rec P) error {
		seen[key] = true
		return f(key, rec)
	}); err != nil {
		return err
	}
	// A snapshot can miss a record that was changed while it was taken.
	s, err := t.bus.JS.Stream(ctx, "KV_"+t.name)
	if err != nil {
		return fmt.Errorf("list %s: %w", t.name, err)
	}
	prefix := "$KV." + t.name + "."
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(prefix+filter))
	if err != nil {
		return fmt.Errorf("list %s: %w", t.name, err)
	}
	for subject := range info.State.Subjects {
		key := contracts.Key(subject[len(prefix):])
		if seen[key] {
			continue
		}
		rec, err := t.Get(ctx, key)
		if contracts.CodeOf(err) == contracts.CodeNotFound {
			continue // deleted
		}
		if err == nil {
			err = f(key, rec)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *Table[T, P]) snapshot(ctx context.Context, filter string, f func(contracts.Key, P) error) error {
	w, err := t.kv.Watch(ctx, filter, jetstream.IgnoreDeletes())
	if err != nil {
		return fmt.Errorf("list %s: %w", t.name, err)
	}
	defer w.Stop()
	for {
		select {
		case e := <-w.Updates():
			if e == nil {
				return nil
			}
			rec := P(new(T))
			if err := json.Unmarshal(e.Value(), rec); err != nil {
				return fmt.Errorf("decode %s %s: %w", t.name, e.Key(), err)
			}
			if err := f(contracts.Key(e.Key()), rec); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Create stores a new record together with the events that announce it. A record of
// that key is an error with [contracts.CodeConflict].
func (t *Table[T, P]) Create(ctx context.Context, key contracts.Key, rec P, events ...contracts.Event) error {
	if err := t.note(ctx, key, rec, 0, events); err != nil {
		return err
	}
	data, err := json.Marshal(rec)
	if err != nil {
		return fmt.Errorf("encode %s %s: %w", t.name, key, err)
	}
	rev, err := t.kv.Create(ctx, string(key), data)
	if errors.Is(err, jetstream.ErrKeyExists) {
		return contracts.Errorf(contracts.CodeConflict, "the record is in %s already", t.name)
	}
	if err != nil {
		return fmt.Errorf("create %s %s: %w", t.name, key, err)
	}
	return t.publish(ctx, key, rec, rev)
}

// Transition changes the record of key by compare-and-set and publishes the events
// that change returns. change is called again with the newer record where another was
// faster, so it must decide from what it is given; its error ends the transition and
// leaves the record as it is. The record as stored is returned, also with an error of change.
//
// The change and its events cannot come apart: the events stand in the record until they are published, and [Table.Sweep]
// publishes those that a crash left there. A stream takes an event once, so publishing twice does no harm.
func (t *Table[T, P]) Transition(ctx context.Context, key contracts.Key, change func(P) ([]contracts.Event, error)) (P, error) {
	for {
		rec, rev, err := t.get(ctx, key)
		if err != nil {
			return nil, err
		}
		events, err := change(rec)
		if err != nil {
			return rec, err
		}
		if err := t.note(ctx, key, rec, rev, events); err != nil {
			return rec, err
		}
		switch rev, err = t.update(ctx, key, rec, rev); {
		case errors.Is(err, jetstream.ErrKeyRevisionMismatch):
			continue
		case err != nil:
			return rec, err
		}
		return rec, t.publish(ctx, key, rec, rev)
	}
}

func (t *Table[T, P]) update(ctx context.Context, key contracts.Key, rec P, rev uint64) (uint64, error) {
	data, err := json.Marshal(rec)
	if err != nil {
		return 0, fmt.Errorf("encode %s %s: %w", t.name, key, err)
	}
	rev, err = t.kv.Update(ctx, string(key), data, rev)
	if err != nil {
		return 0, fmt.Errorf("update %s %s: %w", t.name, key, err)
	}
	return rev, nil
}

// note appends the events to the record's notes. A message id is the key and the revision that the change came from: only one change can come from it.
func (t *Table[T, P]) note(ctx context.Context, key contracts.Key, rec P, rev uint64, events []contracts.Event) error {
	for i, e := range events {
		data, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("encode %T: %w", e, err)
		}
		notes := rec.Notes()
		*notes = append(*notes, contracts.Note{
			Subject: e.Subject(key.Tenant()), Data: data, Trace: trace.Parent(ctx),
			MsgID: t.name + "." + string(key) + "." + strconv.FormatUint(rev, 10) + "." + strconv.Itoa(i),
		})
	}
	return nil
}

// publish sends the record's notes and clears them. Where another changed the
// record meanwhile, that one took the notes over and clears them.
func (t *Table[T, P]) publish(ctx context.Context, key contracts.Key, rec P, rev uint64) error {
	notes := rec.Notes()
	if len(*notes) == 0 {
		return nil
	}
	for _, n := range *notes {
		m := &nats.Msg{Subject: n.Subject, Data: n.Data, Header: nats.Header{}}
		trace.Inject(trace.WithParent(ctx, n.Trace), m.Header)
		if _, err := t.bus.JS.PublishMsg(ctx, m, jetstream.WithMsgID(n.MsgID)); err != nil {
			return fmt.Errorf("publish %s: %w", n.Subject, err)
		}
	}
	*notes = nil
	if _, err := t.update(ctx, key, rec, rev); err != nil && !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		return err
	}
	return nil
}

// Times of the sweep.
const (
	// sweepAfter is how long a change may leave its events unpublished before the sweeper does it.
	sweepAfter = 5 * time.Second
	// sweepLost is how long a record that a sweeper had at hand when it died is left alone.
	sweepLost = 10 * time.Second
)

// Sweep publishes, until ctx is done, the events that a crash left in records.
// All replicas that sweep a bucket under one name share the work. It gives each record
// that owes no event to next, nil for nothing, which says when it wants to see the record again
// unless it has changed by then; 0 means no more. What next is given may be behind by the time that it acts.
func (t *Table[T, P]) Sweep(ctx context.Context, name string, next func(context.Context, contracts.Key, P) (time.Duration, error)) error {
	prefix := "$KV." + t.name + "."
	c := bus.Consumer{Stream: "KV_" + t.name, Durable: name, Unbounded: true, Lost: sweepLost}
	return t.bus.Consume(ctx, c, func(ctx context.Context, m bus.Message) error {
		key := contracts.Key(m.Subject[len(prefix):])
		if len(m.Data) == 0 {
			return nil // deleted
		}
		rec := P(new(T))
		if err := json.Unmarshal(m.Data, rec); err != nil {
			return contracts.Errorf(contracts.CodeInvalid, "decode %s %s: %w", t.name, key, err)
		}
		if len(*rec.Notes()) > 0 {
			if wait := time.Until(m.Stored.Add(sweepAfter)); wait > 0 {
				return bus.Later(wait)
			}
			return t.repair(ctx, key, m.Seq)
		}
		if next == nil {
			return nil
		}
		switch again, err := next(ctx, key, rec); {
		case err != nil:
			return err
		case again > 0:
			return bus.Later(again)
		}
		return nil
	})
}

// repair publishes the notes of a record that has not changed since the revision. Of one that has, the newer revision comes by itself.
func (t *Table[T, P]) repair(ctx context.Context, key contracts.Key, rev uint64) error {
	rec, now, err := t.get(ctx, key)
	if contracts.CodeOf(err) == contracts.CodeNotFound || err == nil && now != rev {
		return nil
	}
	if err != nil {
		return err
	}
	return t.publish(ctx, key, rec, rev)
}
