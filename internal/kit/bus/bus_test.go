package bus_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const tenant = contracts.LocalTenant

func closed(run contracts.RunID) contracts.RunClosed {
	return contracts.RunClosed{At: time.Now().UTC(), Run: run, Ending: contracts.EndingClosed}
}

func TestOneProcessPerDirectory(t *testing.T) {
	dir := t.TempDir()
	b, err := bus.Open(t.Context(), bus.Config{Dir: dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bus.Open(t.Context(), bus.Config{Dir: dir}, nil); contracts.CodeOf(err) != contracts.CodeConflict {
		t.Errorf("second Open = %v, want %s", err, contracts.CodeConflict)
	}
	b.Close()
	b, err = bus.Open(t.Context(), bus.Config{Dir: dir}, nil)
	if err != nil {
		t.Fatalf("Open after Close = %v", err)
	}
	b.Close()
}

func TestEventsSurviveRestart(t *testing.T) {
	dir := t.TempDir()
	b, err := bus.Open(t.Context(), bus.Config{Dir: dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	run := contracts.NewRunID()
	if err := b.Publish(t.Context(), tenant, closed(run)); err != nil {
		t.Fatal(err)
	}
	b.Close()
	if b, err = bus.Open(t.Context(), bus.Config{Dir: dir}, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	got := make(chan contracts.RunID, 1)
	natstest.Run(t, func(ctx context.Context) error {
		return b.Consume(ctx, bus.Consumer{Stream: contracts.StreamEvents, Durable: "test"}, bus.EventHandler(
			func(_ context.Context, s contracts.Subject, e contracts.Event, _ bus.Message) error {
				got <- e.(contracts.RunClosed).Run
				return nil
			}))
	})
	if r := <-got; r != run {
		t.Errorf("run = %s, want %s", r, run)
	}
}

func TestSettling(t *testing.T) {
	b := natstest.Open(t)
	var tries, panics, putOff atomic.Int32
	runs := []contracts.RunID{contracts.NewRunID(), contracts.NewRunID(), contracts.NewRunID(), contracts.NewRunID()}
	bad, panicking, later := runs[1], runs[2], runs[3]
	natstest.Run(t, func(ctx context.Context) error {
		c := bus.Consumer{Stream: contracts.StreamEvents, Durable: "test", MaxTries: 2}
		return b.Consume(ctx, c, bus.EventHandler(func(_ context.Context, s contracts.Subject, _ contracts.Event, _ bus.Message) error {
			switch s.Run {
			case bad:
				tries.Add(1)
				return contracts.Errorf(contracts.CodeInvalid, "never")
			case panicking:
				panics.Add(1)
				panic("odd")
			case later:
				if putOff.Add(1) < 4 { // more often than MaxTries: putting off is no failure
					return bus.Later(time.Millisecond)
				}
			}
			return nil
		}))
	})
	for _, r := range runs {
		if err := b.Publish(t.Context(), tenant, closed(r)); err != nil {
			t.Fatal(err)
		}
	}
	cons, err := b.JS.Consumer(t.Context(), contracts.StreamEvents, "test")
	for errors.Is(err, jetstream.ErrConsumerNotFound) {
		cons, err = b.JS.Consumer(t.Context(), contracts.StreamEvents, "test")
	}
	if err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "all settled", func() bool {
		info, err := cons.Info(t.Context())
		return err == nil && info.AckFloor.Stream == uint64(len(runs))
	})
	if got := tries.Load(); got != 1 {
		t.Errorf("a final error was tried %d times, want 1", got)
	}
	if got := panics.Load(); got != 2 {
		t.Errorf("a panicking handler was tried %d times, want 2", got)
	}
	if got := putOff.Load(); got != 4 {
		t.Errorf("a put-off message was handled %d times, want 4", got)
	}
	dead, err := b.JS.Stream(t.Context(), contracts.StreamDead)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []contracts.RunID{bad, panicking} {
		m, err := dead.GetLastMsgForSubject(t.Context(), "dead."+closed(r).Subject(tenant))
		if err != nil {
			t.Fatalf("dead letter: %v", err)
		}
		if m.Header.Get("Toolcrib-Error") == "" || m.Header.Get("Toolcrib-Stream") != contracts.StreamEvents {
			t.Errorf("dead letter headers = %v, want error and stream", m.Header)
		}
	}
	if s, _ := dead.Info(t.Context()); s.State.Msgs != 2 {
		t.Errorf("dead letters = %d, want 2", s.State.Msgs)
	}
}

func TestUnknownEventIsPassedOver(t *testing.T) {
	h := bus.EventHandler(func(context.Context, contracts.Subject, contracts.Event, bus.Message) error {
		t.Error("called")
		return nil
	})
	run := contracts.NewRunID()
	if err := h(t.Context(), bus.Message{Subject: "tc.acme.run." + string(run) + ".painted", Data: []byte("{}")}); err != nil {
		t.Errorf("unknown type = %v, want nil", err)
	}
	if err := h(t.Context(), bus.Message{Subject: "tc.acme.run." + string(run) + ".closed", Data: []byte("{")}); contracts.CodeOf(err) != contracts.CodeInvalid {
		t.Errorf("malformed = %v, want %s", err, contracts.CodeInvalid)
	}
}

func TestConsumeFinishesWhatItTook(t *testing.T) {
	b := natstest.Open(t)
	begun, release := make(chan struct{}), make(chan struct{})
	var finished atomic.Bool
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		done <- b.Consume(ctx, bus.Consumer{Stream: contracts.StreamEvents, Durable: "test"}, func(ctx context.Context, _ bus.Message) error {
			close(begun)
			<-release
			finished.Store(ctx.Err() == nil)
			return nil
		})
	}()
	if err := b.Publish(t.Context(), tenant, closed(contracts.NewRunID())); err != nil {
		t.Fatal(err)
	}
	<-begun
	cancel()
	close(release)
	if err := <-done; err != nil || !finished.Load() {
		t.Errorf("Consume = %v, finished with a live context = %v; want nil, true", err, finished.Load())
	}
}

func TestAsk(t *testing.T) {
	b := natstest.Open(t)
	serve := func(ctx context.Context) error {
		return b.Serve(ctx, "indexer", bus.Answers(contracts.VerbDescribe, func(ctx context.Context, tn contracts.TenantID, q contracts.DescribeRequest) (contracts.DescribeAnswer, error) {
			switch q.ID {
			case "missing":
				return contracts.DescribeAnswer{}, contracts.Errorf(contracts.CodeUnknownTool, "no %s", q.ID)
			case "secret":
				return contracts.DescribeAnswer{}, errors.New("password in a stack trace")
			case "panic":
				panic("odd")
			case "slow":
				<-ctx.Done()
				return contracts.DescribeAnswer{}, contracts.Errorf(contracts.CodeTimeout, "late")
			}
			return contracts.DescribeAnswer{Name: q.ID, Owner: string(tn)}, nil
		}))
	}
	ask := func(ctx context.Context, id string) (contracts.DescribeAnswer, error) {
		return bus.Ask[contracts.DescribeAnswer](ctx, b, "acme", contracts.VerbDescribe, contracts.DescribeRequest{ID: id})
	}

	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := ask(short, "x"); contracts.CodeOf(err) != contracts.CodeTimeout && contracts.CodeOf(err) != contracts.CodeUnavailable {
		t.Errorf("nobody there = %v, want unavailable or timeout", err)
	}
	natstest.Run(t, serve)
	if got, err := ask(t.Context(), "x"); err != nil || got.Name != "x" || got.Owner != "acme" {
		t.Errorf("answer = %+v, %v; want x of acme", got, err)
	}
	for id, want := range map[string]contracts.Code{"missing": contracts.CodeUnknownTool, "secret": contracts.CodeInternal, "panic": contracts.CodeInternal} {
		_, err := ask(t.Context(), id)
		e, ok := errors.AsType[*contracts.Error](err)
		if !ok || e.Code != want {
			t.Errorf("ask(%s) = %v, want %s", id, err, want)
		} else if want == contracts.CodeInternal && e.Message != "internal error" {
			t.Errorf("ask(%s) lets %q out", id, e.Message)
		}
	}
	slow, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := ask(slow, "slow"); contracts.CodeOf(err) != contracts.CodeTimeout {
		t.Errorf("slow answer = %v, want timeout", err)
	}
}

func TestSchedule(t *testing.T) {
	b := natstest.Open(t)
	due := make(chan contracts.RunID, 4)
	natstest.Run(t, func(ctx context.Context) error {
		c := bus.Consumer{Stream: contracts.StreamTimers, Durable: "test", Filters: []string{contracts.AllRunExpiriesDue}}
		return b.Consume(ctx, c, func(_ context.Context, m bus.Message) error {
			_, run, err := contracts.ParseRunExpiry(m.Subject)
			due <- run
			return err
		})
	})
	kept, dropped, replaced := contracts.NewRunID(), contracts.NewRunID(), contracts.NewRunID()
	for run, in := range map[contracts.RunID]time.Duration{kept: 1200 * time.Millisecond, dropped: time.Second, replaced: 600 * time.Millisecond} {
		timer, target := contracts.RunExpiryTimer(tenant, run)
		if err := b.Schedule(t.Context(), timer, target, time.Now().Add(in)); err != nil {
			t.Fatal(err)
		}
	}
	timer, target := contracts.RunExpiryTimer(tenant, replaced)
	if err := b.Schedule(t.Context(), timer, target, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	timer, _ = contracts.RunExpiryTimer(tenant, dropped)
	if err := b.Unschedule(t.Context(), timer); err != nil {
		t.Fatal(err)
	}
	if got := <-due; got != kept {
		t.Errorf("due = %s, want %s only", got, kept)
	}
	if len(due) > 0 {
		t.Errorf("also due: %s", <-due)
	}
}

// Errors that come after the handler of the question returned, which is what micro counts.
func TestManyErrors(t *testing.T) {
	b := natstest.Open(t)
	natstest.Run(t, func(ctx context.Context) error {
		return b.Serve(ctx, "test", bus.Answers(contracts.VerbSearch, func(context.Context, contracts.TenantID, struct{}) (struct{}, error) {
			return struct{}{}, contracts.Errorf(contracts.CodeConflict, "no\r\nno")
		}))
	})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				_, err := bus.Ask[struct{}](t.Context(), b, "acme", contracts.VerbSearch, struct{}{})
				if contracts.CodeOf(err) != contracts.CodeConflict && contracts.CodeOf(err) != contracts.CodeUnavailable {
					t.Errorf("Ask() = %v, want %s", err, contracts.CodeConflict)
				}
			}
		})
	}
	wg.Wait()
}
