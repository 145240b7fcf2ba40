package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/internal/kit/store"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

type runs = store.Table[contracts.Run, *contracts.Run]

func open(t *testing.T) (*bus.Bus, *runs) {
	t.Helper()
	b := natstest.Open(t)
	tab, err := store.OpenTable[contracts.Run](t.Context(), b, contracts.BucketRuns)
	if err != nil {
		t.Fatal(err)
	}
	return b, tab
}

func events(t *testing.T, b *bus.Bus) uint64 {
	t.Helper()
	s, err := b.JS.Stream(t.Context(), contracts.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}

const tenant contracts.TenantID = "acme"

func TestTransition(t *testing.T) {
	b, tab := open(t)
	id := contracts.NewRunID()
	key := contracts.RunKey(tenant, id)
	if _, err := tab.Get(t.Context(), key); contracts.CodeOf(err) != contracts.CodeNotFound {
		t.Errorf("Get before Create = %v, want not_found", err)
	}
	rec := &contracts.Run{ID: id, State: contracts.RunStateRequested}
	if err := tab.Create(t.Context(), key, rec, contracts.RunRequested{Run: id}); err != nil {
		t.Fatal(err)
	}
	if err := tab.Create(t.Context(), key, rec); contracts.CodeOf(err) != contracts.CodeConflict {
		t.Errorf("second Create = %v, want conflict", err)
	}
	got, err := tab.Transition(t.Context(), key, func(r *contracts.Run) ([]contracts.Event, error) {
		r.State = contracts.RunStatePlanned
		return []contracts.Event{contracts.RunPlanned{Run: id}}, nil
	})
	if err != nil || got.State != contracts.RunStatePlanned {
		t.Fatalf("Transition = %+v, %v", got, err)
	}
	refusal := errors.New("no")
	if _, err := tab.Transition(t.Context(), key, func(*contracts.Run) ([]contracts.Event, error) { return nil, refusal }); !errors.Is(err, refusal) {
		t.Errorf("refused Transition = %v, want its error", err)
	}
	stored, err := tab.Get(t.Context(), key)
	if err != nil || len(*stored.Notes()) != 0 || stored.State != contracts.RunStatePlanned {
		t.Errorf("stored = %+v, %v; want planned and nothing unsent", stored, err)
	}
	if n := events(t, b); n != 2 {
		t.Errorf("%d events, want 2", n)
	}
}

// Many at once: every change counts once, and each has its event.
func TestTransitionsRace(t *testing.T) {
	b, tab := open(t)
	id := contracts.NewRunID()
	key := contracts.RunKey(tenant, id)
	if err := tab.Create(t.Context(), key, &contracts.Run{ID: id}); err != nil {
		t.Fatal(err)
	}
	const workers, each = 8, 10
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				_, err := tab.Transition(t.Context(), key, func(r *contracts.Run) ([]contracts.Event, error) {
					r.Request.ContextWindow++
					return []contracts.Event{contracts.Searched{Run: id, Search: contracts.SearchID(fmt.Sprintf("srch_%d-%d", w, i))}}, nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	r, err := tab.Get(t.Context(), key)
	if err != nil || r.Request.ContextWindow != workers*each {
		t.Errorf("counted %d, %v; want %d", r.Request.ContextWindow, err, workers*each)
	}
	if n := events(t, b); n != workers*each {
		t.Errorf("%d events, want %d", n, workers*each)
	}
}

// A crash between the change and its event: the sweeper publishes what was noted, once.
func TestSweepPublishesWhatACrashLeft(t *testing.T) {
	b, tab := open(t)
	kv, err := b.JS.KeyValue(t.Context(), contracts.BucketRuns)
	if err != nil {
		t.Fatal(err)
	}
	id := contracts.NewRunID()
	key := contracts.RunKey(tenant, id)
	e := contracts.RunClosed{Run: id}
	left := fmt.Sprintf(`{"id":%q,"state":"closed","unsent":[{"subject":%q,"msgId":"m1","data":{"run":%q}}]}`, id, e.Subject(tenant), id)
	if _, err := kv.Create(t.Context(), string(key), []byte(left)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	seen := make(chan contracts.Key, 10)
	for range 2 { // two replicas
		go func() {
			done <- tab.Sweep(ctx, "test-sweep", func(_ context.Context, k contracts.Key, r *contracts.Run) (time.Duration, error) {
				seen <- k
				return 0, nil
			})
		}()
	}
	natstest.Eventually(t, "the event and the cleared note", func() bool {
		r, err := tab.Get(t.Context(), key)
		return err == nil && len(*r.Notes()) == 0
	})
	if k := <-seen; k != key {
		t.Errorf("next was given %s, want %s", k, key)
	}
	cancel()
	for range 2 {
		if err := <-done; err != nil {
			t.Errorf("Sweep = %v", err)
		}
	}
	if n := events(t, b); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
}

func TestSweepComesBack(t *testing.T) {
	_, tab := open(t)
	key := contracts.RunKey(tenant, contracts.NewRunID())
	if err := tab.Create(t.Context(), key, &contracts.Run{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	visits := make(chan struct{}, 100)
	go func() {
		done <- tab.Sweep(ctx, "test-sweep", func(context.Context, contracts.Key, *contracts.Run) (time.Duration, error) {
			visits <- struct{}{}
			return time.Millisecond, nil
		})
	}()
	for range 12 { // more often than any limit on failures
		<-visits
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Sweep = %v", err)
	}
}

func TestMirror(t *testing.T) {
	b := natstest.Open(t)
	tab, err := store.OpenTable[contracts.SourceRecord](t.Context(), b, contracts.BucketSources)
	if err != nil {
		t.Fatal(err)
	}
	src := func(owner string) contracts.SourceID {
		return contracts.SourceID{Kind: contracts.SourceMCP, Owner: owner}
	}
	put := func(tn contracts.TenantID, owner string) {
		t.Helper()
		if err := tab.Create(t.Context(), contracts.SourceKey(tn, src(owner)), &contracts.SourceRecord{Source: src(owner)}); err != nil {
			t.Fatal(err)
		}
	}
	put("acme", "b")
	put("other", "a")
	m, err := store.OpenMirror[contracts.SourceRecord](t.Context(), b, contracts.BucketSources)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- m.Run(ctx) }()
	if err := m.Loaded(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, changed := m.Of("acme")
	if len(got) != 1 || got[0].Source.Owner != "b" {
		t.Errorf("Of(acme) = %v, want b only", got)
	}
	put("acme", "a")
	<-changed
	if got, _ = m.Of("acme"); len(got) != 2 || got[0].Source.Owner != "a" {
		t.Errorf("Of(acme) = %v, want a, b", got)
	}
	if m.Get(contracts.SourceKey("other", src("b"))) != nil {
		t.Error("Get finds another tenant's record")
	}
	for i := range 50 { // what is stored before Sync is there after it
		owner := fmt.Sprintf("s%d", i)
		put("third", owner)
		if err := m.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if m.Get(contracts.SourceKey("third", src(owner))) == nil {
			t.Fatalf("%s is missing after Sync", owner)
		}
	}
	kv, _ := b.JS.KeyValue(t.Context(), contracts.BucketSources)
	if err := kv.Delete(t.Context(), string(contracts.SourceKey("acme", src("a")))); err != nil {
		t.Fatal(err)
	}
	if err := m.Sync(t.Context()); err != nil {
		t.Errorf("Sync after a deletion = %v", err)
	}
	natstest.Eventually(t, "deletion", func() bool { got, _ := m.Of("acme"); return len(got) == 1 })
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run = %v", err)
	}
}

// Records that change all the time are listed all the same.
func TestListMissesNothing(t *testing.T) {
	_, tab := open(t)
	var keys []contracts.Key
	for range 10 {
		keys = append(keys, contracts.RunKey(tenant, contracts.NewRunID()))
		if err := tab.Create(t.Context(), keys[len(keys)-1], &contracts.Run{}); err != nil {
			t.Fatal(err)
		}
	}
	natstest.Run(t, func(ctx context.Context) error {
		for i := 0; ctx.Err() == nil; i++ {
			if _, err := tab.Transition(context.WithoutCancel(ctx), keys[i%len(keys)], func(*contracts.Run) ([]contracts.Event, error) { return nil, nil }); err != nil {
				return err
			}
		}
		return nil
	})
	for range 100 {
		seen := map[contracts.Key]bool{}
		if err := tab.List(t.Context(), string(tenant)+".>", func(k contracts.Key, _ *contracts.Run) error {
			seen[k] = true
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if len(seen) != len(keys) {
			t.Fatalf("listed %d of %d", len(seen), len(keys))
		}
	}
}

func TestBlobs(t *testing.T) {
	b := natstest.Open(t)
	for _, name := range []string{contracts.StoreListings, contracts.StorePayloads} {
		s, err := store.OpenBlobs(t.Context(), b, name)
		if err != nil {
			t.Fatal(err)
		}
		data := make([]byte, 3<<20)
		for i := range data {
			data[i] = byte(i * i >> 3)
		}
		h, err := s.Put(t.Context(), "acme", data)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := s.Put(t.Context(), "acme", data); err != nil || again != h {
			t.Errorf("second Put = %s, %v; want %s", again, err, h)
		}
		got, err := s.Get(t.Context(), "acme", h)
		if err != nil || contracts.HashOf(got) != h {
			t.Errorf("Get = %d bytes, %v", len(got), err)
		}
		if _, err := s.Get(t.Context(), "other", h); contracts.CodeOf(err) != contracts.CodeNotFound {
			t.Errorf("Get by another tenant = %v, want not_found", err)
		}
	}
}

func TestBucketsKeepOneRevision(t *testing.T) {
	b, tab := open(t)
	key := contracts.RunKey(tenant, contracts.NewRunID())
	if err := tab.Create(t.Context(), key, &contracts.Run{}); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := tab.Transition(t.Context(), key, func(*contracts.Run) ([]contracts.Event, error) { return nil, nil }); err != nil {
			t.Fatal(err)
		}
	}
	s, err := b.JS.Stream(t.Context(), "KV_"+contracts.BucketRuns)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := s.Info(t.Context(), jetstream.WithSubjectFilter(">")); err != nil || info.State.Msgs != 1 {
		t.Errorf("messages = %d, %v; want 1", info.State.Msgs, err)
	}
}

func BenchmarkTransition(b *testing.B) {
	bb := natstest.Open(b)
	tab, err := store.OpenTable[contracts.Run](b.Context(), bb, contracts.BucketRuns)
	if err != nil {
		b.Fatal(err)
	}
	id := contracts.NewRunID()
	key := contracts.RunKey(tenant, id)
	if err := tab.Create(b.Context(), key, &contracts.Run{ID: id}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := tab.Transition(b.Context(), key, func(r *contracts.Run) ([]contracts.Event, error) {
			return []contracts.Event{contracts.RunClosed{Run: id}}, nil
		}); err != nil {
			b.Fatal(err)
		}
	}
}

// A bucket that is what it is to be is left alone, and one of other settings is brought up to them.
func TestBucketsAreNotToldTheirOwnSettings(t *testing.T) {
	b := natstest.Open(t)
	open := func() {
		t.Helper()
		if _, err := store.OpenTable[contracts.Call](t.Context(), b, contracts.BucketCalls); err != nil {
			t.Fatal(err)
		}
		if _, err := store.OpenBlobs(t.Context(), b, contracts.StorePayloads); err != nil {
			t.Fatal(err)
		}
	}
	open()
	updated, err := b.Conn.SubscribeSync("$JS.EVENT.ADVISORY.STREAM.UPDATED.>")
	if err != nil {
		t.Fatal(err)
	}
	open()
	other, err := b.JS.Stream(t.Context(), "KV_"+contracts.BucketCalls)
	if err != nil {
		t.Fatal(err)
	}
	cfg := other.CachedInfo().Config
	cfg.MaxAge = time.Hour
	if _, err := b.JS.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if m, err := updated.NextMsg(5 * time.Second); err != nil || !strings.HasSuffix(m.Subject, contracts.BucketCalls) {
		t.Fatalf("the first update is %v, %v; want the one of the test alone", m, err)
	}
	open()
	if _, err := updated.NextMsg(5 * time.Second); err != nil {
		t.Errorf("a bucket with other settings was not brought up to date: %v", err)
	}
	if n, _, _ := updated.Pending(); n != 0 {
		t.Errorf("%d updates more, want none", n)
	}
}
