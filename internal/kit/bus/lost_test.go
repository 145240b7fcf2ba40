package bus_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func connect(t *testing.T, cfg bus.Config) *bus.Bus {
	t.Helper()
	b, err := bus.Open(t.Context(), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// A server that ends and comes back has lost what it held in memory, the stream of wake-ups and its consumer. All of it goes on.
func TestServerRestarts(t *testing.T) {
	s := natstest.Listen(t, server.Options{})
	b, other := connect(t, bus.Config{URL: s.URL, Name: "one"}), connect(t, bus.Config{URL: s.URL, Name: "two", Keeps: []string{}})
	var events, wakeups atomic.Int32
	for _, b := range []*bus.Bus{b, other} { // two replicas
		for stream, n := range map[string]*atomic.Int32{contracts.StreamEvents: &events, contracts.StreamDispatch: &wakeups} {
			natstest.Run(t, func(ctx context.Context) error {
				return b.Consume(ctx, bus.Consumer{Stream: stream, Durable: "test"}, func(context.Context, bus.Message) error {
					n.Add(1)
					return nil
				})
			})
		}
	}
	natstest.Run(t, func(ctx context.Context) error {
		return b.Serve(ctx, "test", bus.Answers(contracts.VerbSearch, func(_ context.Context, _ contracts.TenantID, q string) (string, error) {
			return q + "!", nil
		}))
	})
	key := contracts.CallKey(tenant, contracts.NewRunID(), contracts.NewCallID())
	for round := int32(1); round <= 3; round++ {
		natstest.Eventually(t, "the bus is healthy", func() bool { return b.Healthy(t.Context()) == nil && other.Healthy(t.Context()) == nil })
		if err := other.Publish(t.Context(), tenant, closed(contracts.NewRunID())); err != nil {
			t.Fatal(err)
		}
		natstest.Eventually(t, "a wake-up is taken", func() bool { return other.Wake(t.Context(), key, "") == nil })
		natstest.Eventually(t, "all that was sent is handled", func() bool { return events.Load() == round && wakeups.Load() == round })
		if a, err := bus.Ask[string](t.Context(), other, tenant, contracts.VerbSearch, "q"); a != "q!" || err != nil {
			t.Fatalf("answer %q, %v", a, err)
		}
		s.Stop()
		if b.Healthy(t.Context()) == nil {
			t.Error("a bus without its server is healthy")
		}
		s.Start(t)
	}
}

// A question whose answer was lost with the server is asked again, unless it must be asked once.
func TestAnswerLostWithTheServer(t *testing.T) {
	s := natstest.Listen(t, server.Options{})
	b, asker := connect(t, bus.Config{URL: s.URL}), connect(t, bus.Config{URL: s.URL})
	asked := make(chan contracts.Verb, 10)
	answer := func(v contracts.Verb) bus.Answerer {
		var before atomic.Bool
		return bus.Answers(v, func(ctx context.Context, _ contracts.TenantID, q string) (string, error) {
			asked <- v
			if !before.Swap(true) { // until the server is back and the answer in vain
				<-b.Reconnected()
			}
			return q + "!", nil
		})
	}
	natstest.Run(t, func(ctx context.Context) error {
		return b.Serve(ctx, "test", answer(contracts.VerbSearch), answer(contracts.VerbBody))
	})
	ask := func(v contracts.Verb, d time.Duration) <-chan error {
		done := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), d)
		go func() {
			defer cancel()
			_, err := bus.Ask[string](ctx, asker, tenant, v, "q")
			done <- err
		}()
		return done
	}
	search, body := ask(contracts.VerbSearch, 20*time.Second), ask(contracts.VerbBody, 3*time.Second)
	for range 2 {
		<-asked
	}
	s.Stop()
	s.Start(t)
	if err := <-search; err != nil {
		t.Errorf("search: %v", err)
	}
	if err := <-body; err != nil && contracts.CodeOf(err) != contracts.CodeTimeout {
		t.Errorf("body: %v, want no error or %s", err, contracts.CodeTimeout)
	}
	for again := true; again; {
		select {
		case v := <-asked:
			if v == contracts.VerbBody {
				t.Error("the body was asked for twice")
			}
		default:
			again = false
		}
	}
}

func TestOpenWaitsForTheServer(t *testing.T) {
	s := natstest.Listen(t, server.Options{})
	s.Stop()
	waiting := make(chan error, 1000)
	opened := make(chan error, 1)
	go func() {
		b, err := bus.Open(t.Context(), bus.Config{URL: s.URL, Wait: func(err error) { waiting <- err }}, nil)
		if err == nil {
			b.Close()
		}
		opened <- err
	}()
	if err := <-waiting; err == nil {
		t.Error("waiting without a reason")
	}
	if _, err := bus.Open(t.Context(), bus.Config{URL: s.URL}, nil); err == nil {
		t.Error("Open without Wait returned no error")
	}
	s.Start(t)
	if err := <-opened; err != nil {
		t.Errorf("Open = %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s.Stop()
	if _, err := bus.Open(ctx, bus.Config{URL: s.URL, Wait: func(error) { cancel() }}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Open while it was told to stop = %v", err)
	}
}

func TestManyMakeTheStreamsAtOnce(t *testing.T) {
	s := natstest.Listen(t, server.Options{})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			cfg := bus.Config{URL: s.URL}
			if i%2 == 0 {
				cfg.Keeps = []string{contracts.StreamTimers}
			}
			b, err := bus.Open(t.Context(), cfg, nil)
			if err != nil {
				t.Error(err)
				return
			}
			b.Close()
		})
	}
	all.Wait()
}

func TestCredentials(t *testing.T) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, _ := pair.PublicKey()
	seed, _ := pair.Seed()
	s := natstest.Listen(t, server.Options{Nkeys: []*server.NkeyUser{{Nkey: public}}})
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, tt := range []struct {
		name, url, creds string
		want             contracts.Code // "" for none
	}{
		{"seed", s.URL, write("seed", string(seed)+"\n"), ""},
		{"nothing", s.URL, "", contracts.CodeInternal},
		{"missing", s.URL, filepath.Join(dir, "missing"), contracts.CodeInvalid},
		{"rubbish", s.URL, write("rubbish", "SUrubbish"), contracts.CodeInvalid},
		{"scheme", "http://127.0.0.1:1", "", contracts.CodeInvalid},
	} {
		b, err := bus.Open(t.Context(), bus.Config{URL: tt.url, Creds: tt.creds}, nil)
		if err == nil {
			b.Close()
		}
		if (err == nil) != (tt.want == "") || err != nil && contracts.CodeOf(err) != tt.want {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// A service that is told to stop while its server is away has nobody to hand anything over to, and does not wait for it.
func TestStopWithoutTheServer(t *testing.T) {
	s := natstest.Listen(t, server.Options{})
	b := connect(t, bus.Config{URL: s.URL})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() {
		ended <- b.Consume(ctx, bus.Consumer{Stream: contracts.StreamEvents, Durable: "test"}, func(context.Context, bus.Message) error { return nil })
	}()
	go func() {
		ended <- b.Serve(ctx, "test", bus.Answers(contracts.VerbSearch, func(_ context.Context, _ contracts.TenantID, q string) (string, error) { return q, nil }))
	}()
	natstest.Eventually(t, "the bus is healthy", func() bool { return b.Healthy(t.Context()) == nil })
	s.Stop()
	natstest.Eventually(t, "the server is missed", func() bool { return b.Healthy(t.Context()) != nil })
	begun := time.Now()
	stop()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if d := time.Since(begun); d > 5*time.Second {
		t.Errorf("stopping took %v", d)
	}
	s.Start(t)
}
