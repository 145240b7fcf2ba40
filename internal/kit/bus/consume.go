package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolcrib/toolcrib/internal/kit/trace"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A Message is one delivery of a stored message. Its bytes belong to the handler until it returns.
type Message struct {
	Subject   string
	Data      []byte
	Seq       uint64    // in its stream
	Stored    time.Time // when the stream took it
	Delivered int       // 1 for the first delivery
}

// A Handler does the work one message asks for. Returning nil settles it; an error
// that is [contracts.Final] ends it as a dead letter; an error of [Later] has it
// delivered again then; any other has it delivered again with growing pauses, and
// makes it a dead letter after the last. A message can arrive more than once, and at
// several replicas: a Handler must be idempotent. Its context has no deadline and
// outlives a stop of the service, so that what was taken is finished.
type Handler func(ctx context.Context, m Message) error

// EventHandler returns a Handler of events: it decodes each and gives it with its subject. An event of a type that this code does not know is passed over.
func EventHandler(h func(ctx context.Context, s contracts.Subject, e contracts.Event, m Message) error) Handler {
	return func(ctx context.Context, m Message) error {
		s, e, err := contracts.DecodeEvent(m.Subject, m.Data)
		if err != nil {
			if s.Type != "" && e == nil && !knownType(s.Type) {
				return nil
			}
			return err
		}
		return h(ctx, s, e, m)
	}
}

func knownType(typ string) bool {
	for _, t := range contracts.EventTypes() {
		if t.Type == typ {
			return true
		}
	}
	return false
}

// Later is the error of a handler that wants its message again after d; it does not count as a failure.
func Later(d time.Duration) error { return laterError(d) }

type laterError time.Duration

func (e laterError) Error() string { return "later: " + time.Duration(e).String() }

// A Consumer is a durable pull consumer, shared by all replicas of a service.
type Consumer struct {
	Stream  string
	Durable string   // its name; the same in every replica
	Filters []string // subjects; none means all of the stream
	Workers int      // messages handled at once by this replica; 0 means 16
	// MaxTries is the number of failures after which a message becomes a dead letter; 0 means 8.
	MaxTries int
	// Lost is how long the server waits for a word about a message before it gives it to another
	// replica; 0 means 30 s. A handler that takes longer is no reason: the consumer says that it is at work.
	Lost time.Duration
	// Unbounded lifts the limit on messages that are delivered and not settled, for handlers that put many off.
	Unbounded bool
}

const defaultLost = 30 * time.Second

// heartbeat is how often the server says that a consumer without news is there.
const heartbeat = 5 * time.Second

// Consume handles messages until ctx is done, then finishes those it took and returns nil. Where the server is lost, or
// loses the consumer, it goes on when both are there again.
func (b *Bus) Consume(ctx context.Context, c Consumer, h Handler) error {
	c.Workers = cmp.Or(c.Workers, 16)
	c.Lost = cmp.Or(c.Lost, defaultLost)
	if b.lost > 0 {
		c.Lost = min(c.Lost, b.lost)
	}
	f := &follower{
		settler: &settler{bus: b, log: b.log.With("consumer", c.Durable), durable: c.Durable, stream: c.Stream, maxTries: cmp.Or(c.MaxTries, 8), lost: c.Lost},
		name:    "consumer " + c.Durable, c: c, handler: h, slots: make(chan struct{}, c.Workers),
	}
	defer f.close()
	b.begins(f.name)
	defer b.well(f.name)
	for try := 1; ; try++ {
		began := time.Now()
		err := f.follow(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil: // the server was away
			try = 0
			continue
		case !Lost(err):
			return err
		case time.Since(began) > longestPause:
			try = 1
		}
		b.ails(f.name, err)
		sleep(ctx, pauseBefore(try))
	}
}

// A follower handles the messages of one consumer.
type follower struct {
	*settler
	name    string
	c       Consumer
	handler Handler
	slots   chan struct{} // held by the messages that are handled

	mu      sync.Mutex
	over    bool // no more messages are taken
	running sync.WaitGroup
}

func (f *follower) config() jetstream.ConsumerConfig {
	cfg := jetstream.ConsumerConfig{
		Durable: f.c.Durable, AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: f.c.Lost, MaxDeliver: -1, MaxAckPending: max(1000, 4*f.c.Workers), Replicas: f.bus.replicas,
	}
	if f.c.Unbounded {
		cfg.MaxAckPending = -1
	}
	if len(f.c.Filters) == 1 { // which then stands in the subject of the request, where permissions see it
		cfg.FilterSubject = f.c.Filters[0]
	} else {
		cfg.FilterSubjects = f.c.Filters
	}
	return cfg
}

// follow handles messages until ctx is done or the consumer does not answer. It returns nil where the server was away: the consumer is
// to be made again.
func (f *follower) follow(ctx context.Context) error {
	back := f.bus.Reconnected()
	cons, err := f.bus.JS.CreateOrUpdateConsumer(ctx, f.c.Stream, f.config())
	if err != nil {
		return fmt.Errorf("make consumer %s: %w", f.c.Durable, err)
	}
	gone := make(chan error, 1)
	cc, err := cons.Consume(f.take(ctx), jetstream.PullMaxMessages(f.c.Workers), jetstream.PullHeartbeat(heartbeat),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
			f.log.Debug("consume", "err", err)
			if Lost(err) {
				select {
				case gone <- err:
				default:
				}
			}
		}))
	if err != nil {
		return fmt.Errorf("consume %s: %w", f.c.Durable, err)
	}
	f.bus.well(f.name)
	select {
	case <-ctx.Done():
		f.drain(cc)
		return nil
	case err = <-gone:
	case <-cc.Closed():
		err = jetstream.ErrConsumerDeleted
	case <-back:
	}
	cc.Drain() // what has come is handled beside what will
	if err != nil {
		return fmt.Errorf("consume %s: %w", f.c.Durable, err)
	}
	return nil
}

// drain has no more messages come, and takes those that have. Where the server is away they come again, to somebody, when it is back.
func (f *follower) drain(cc jetstream.ConsumeContext) {
	cc.Drain()
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for f.bus.Conn.IsConnected() {
		select {
		case <-cc.Closed():
			return
		case <-look.C:
		}
	}
}

// close waits for the messages that are handled. None is taken after it.
func (f *follower) close() {
	f.mu.Lock()
	f.over = true
	f.mu.Unlock()
	f.running.Wait()
}

// take returns what is called with each message, one at a time.
func (f *follower) take(ctx context.Context) jetstream.MessageHandler {
	return func(msg jetstream.Msg) {
		f.slots <- struct{}{}
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.over {
			<-f.slots
			return
		}
		f.running.Go(func() {
			defer func() { <-f.slots }()
			f.run(context.WithoutCancel(ctx), msg, f.handler)
		})
	}
}

type settler struct {
	bus      *Bus
	log      *slog.Logger
	durable  string
	stream   string
	maxTries int
	lost     time.Duration
}

func (s *settler) run(ctx context.Context, msg jetstream.Msg, h Handler) {
	meta, err := msg.Metadata()
	if err != nil {
		s.log.Error("message without metadata", "subject", msg.Subject(), "err", err)
		return
	}
	ctx = trace.Extract(ctx, msg.Headers())
	ctx, end := trace.Start(ctx, "handle "+s.durable)
	stop := s.heartbeat(msg)
	err = s.handle(ctx, h, Message{msg.Subject(), msg.Data(), meta.Sequence.Stream, meta.Timestamp, int(meta.NumDelivered)})
	stop()
	end(err)
	s.settle(ctx, msg, int(meta.NumDelivered), err)
}

// handle turns a handler's panic into an error, so that one message cannot end the service.
func (s *settler) handle(ctx context.Context, h Handler, m Message) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("handler panicked", "subject", m.Subject, "panic", p)
			err = contracts.Errorf(contracts.CodeInternal, "handler panicked: %v", p)
		}
	}()
	return h(ctx, m)
}

// heartbeat keeps the server from delivering msg to another replica while it is worked on.
func (s *settler) heartbeat(msg jetstream.Msg) (stop func()) {
	var mu sync.Mutex
	var timer *time.Timer
	beat := func() {
		mu.Lock()
		defer mu.Unlock()
		if timer == nil {
			return
		}
		if err := msg.InProgress(); err != nil {
			s.log.Warn("heartbeat", "subject", msg.Subject(), "err", err)
		}
		timer.Reset(s.lost / 3)
	}
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(s.lost/3, beat)
	return func() {
		mu.Lock()
		defer mu.Unlock()
		timer.Stop()
		timer = nil
	}
}

// settle tells the server what became of msg. Nothing else acknowledges.
func (s *settler) settle(ctx context.Context, msg jetstream.Msg, delivered int, err error) {
	log := s.log.With("subject", msg.Subject())
	later, putOff := errors.AsType[laterError](err)
	var ackErr error
	switch {
	case err == nil:
		ackErr = msg.Ack()
	case putOff:
		ackErr = msg.NakWithDelay(time.Duration(later))
	case contracts.Final(err) || delivered >= s.maxTries:
		log.Error("dead letter", "err", err, "delivered", delivered)
		if ackErr = s.bury(ctx, msg, err); ackErr == nil {
			ackErr = msg.TermWithReason(string(contracts.CodeOf(err)))
		}
	default:
		log.Warn("will be delivered again", "err", err, "delivered", delivered)
		ackErr = msg.NakWithDelay(pause(delivered))
	}
	if ackErr != nil && !errors.Is(ackErr, nats.ErrConnectionClosed) {
		log.Error("not settled", "err", ackErr)
	}
}

// pause is the exponential pause, with jitter, before delivery n+1.
func pause(n int) time.Duration {
	b := backoff.NewExponentialBackOff(backoff.WithInitialInterval(200*time.Millisecond),
		backoff.WithMaxInterval(time.Minute), backoff.WithMaxElapsedTime(0))
	var d time.Duration
	for range n {
		d = b.NextBackOff()
	}
	return d
}

// Headers of a dead letter.
const (
	headerDeadSubject = "Toolcrib-Subject"
	headerDeadError   = "Toolcrib-Error"
	headerDeadStream  = "Toolcrib-Stream"
)

// bury stores a copy of msg among the dead letters, under its old subject behind "dead.".
func (s *settler) bury(ctx context.Context, msg jetstream.Msg, cause error) error {
	dead := &nats.Msg{Subject: "dead." + msg.Subject(), Data: msg.Data(), Header: nats.Header{}}
	dead.Header.Set(headerDeadSubject, msg.Subject())
	dead.Header.Set(headerDeadStream, s.stream)
	dead.Header.Set(headerDeadError, contracts.AsError(cause).Error())
	if _, err := s.bus.JS.PublishMsg(ctx, dead); err != nil {
		return fmt.Errorf("store dead letter: %w", err)
	}
	return nil
}
