package store

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A Mirror holds a small bucket in memory, kept up to date by [Mirror.Run]. Safe for
// concurrent use; records are shared and must not be changed.
type Mirror[T any] struct {
	bus  *bus.Bus
	kv   jetstream.KeyValue
	name string
	log  *slog.Logger

	mu      sync.RWMutex
	records map[contracts.TenantID]map[contracts.Key]*T
	last    uint64        // revision of the newest change that records have
	changed chan struct{} // closed and replaced at each change
	loaded  chan struct{} // closed once the bucket was read whole
	once    sync.Once     // of that
}

// OpenMirror opens the bucket, and makes it where it is missing. The mirror is empty until Run.
func OpenMirror[T any](ctx context.Context, b *bus.Bus, bucket string) (*Mirror[T], error) {
	kv, err := openBucket(ctx, b, bucket)
	if err != nil {
		return nil, err
	}
	return &Mirror[T]{
		bus: b, kv: kv, name: bucket, log: b.Log(), records: map[contracts.TenantID]map[contracts.Key]*T{},
		changed: make(chan struct{}), loaded: make(chan struct{}),
	}, nil
}

// Run follows the bucket until ctx is done.
func (m *Mirror[T]) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		back := m.bus.Reconnected()
		if err := m.follow(ctx, back); err != nil {
			m.log.Warn("bucket not followed", "bucket", m.name, "err", err)
			select {
			case <-time.After(followAgain):
			case <-back:
			case <-ctx.Done():
			}
		}
	}
	return nil
}

// followAgain is the pause after a bucket could not be followed.
const followAgain = time.Second

// follow reads the bucket and follows it until ctx is done or the server was away, which can have changes missed.
func (m *Mirror[T]) follow(ctx context.Context, back <-chan struct{}) error {
	w, err := m.kv.WatchAll(ctx)
	if err != nil {
		return fmt.Errorf("watch %s: %w", m.name, err)
	}
	defer w.Stop()
	for {
		select {
		case e, ok := <-w.Updates():
			switch {
			case !ok:
				return fmt.Errorf("watch %s: the server closed it", m.name)
			case e == nil:
				m.once.Do(func() { close(m.loaded) })
			default:
				if err := m.apply(e); err != nil {
					m.log.Error("mirror", "bucket", m.name, "err", err)
				}
			}
		case <-back:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

func (m *Mirror[T]) apply(e jetstream.KeyValueEntry) error {
	key := contracts.Key(e.Key())
	var rec *T
	if e.Operation() == jetstream.KeyValuePut {
		rec = new(T)
		if err := json.Unmarshal(e.Value(), rec); err != nil {
			return fmt.Errorf("decode %s %s: %w", m.name, key, err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = max(m.last, e.Revision())
	of := m.records[key.Tenant()]
	if rec == nil {
		delete(of, key)
	} else {
		if of == nil {
			of = map[contracts.Key]*T{}
			m.records[key.Tenant()] = of
		}
		of[key] = rec
	}
	close(m.changed)
	m.changed = make(chan struct{})
	return nil
}

// Loaded waits until the bucket was read whole.
func (m *Mirror[T]) Loaded(ctx context.Context) error {
	select {
	case <-m.loaded:
		return nil
	case <-ctx.Done():
		return contracts.Errorf(contracts.CodeUnavailable, "the bucket %s is not read yet", m.name)
	}
}

// Sync waits until the mirror has every change that was stored before it was called: for a decision that must not be behind. It costs a
// question to the server.
func (m *Mirror[T]) Sync(ctx context.Context) error {
	status, err := m.kv.Status(ctx)
	if err != nil {
		return fmt.Errorf("ask for the newest change of %s: %w", m.name, err)
	}
	newest := status.(*jetstream.KeyValueBucketStatus).StreamInfo().State.LastSeq
	for {
		m.mu.RLock()
		last, changed := m.last, m.changed
		m.mu.RUnlock()
		if last >= newest {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return contracts.Errorf(contracts.CodeUnavailable, "the bucket %s is not read up to its newest change", m.name)
		}
	}
}

// Get returns the record of key, nil where there is none.
func (m *Mirror[T]) Get(key contracts.Key) *T {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.records[key.Tenant()][key]
}

// Of returns the records of a tenant, sorted by key, and a channel that is closed at the next change of the bucket.
func (m *Mirror[T]) Of(t contracts.TenantID) ([]*T, <-chan struct{}) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	of := m.records[t]
	out := make([]*T, 0, len(of))
	for _, k := range slices.Sorted(maps.Keys(of)) {
		out = append(out, of[k])
	}
	return out, m.changed
}
