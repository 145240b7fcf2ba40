// Package bus is how a service meets the others: an embedded or an outside
// NATS server with JetStream, its streams, the consuming of events with one
// place that settles them, questions and answers, and timers. It knows how a
// message travels and nothing of what it means.
package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// Config says which server to use. The zero value is an embedded server in a directory that [Open] refuses to guess, so Dir or URL must be given.
type Config struct {
	// URL of an outside server, such as nats://127.0.0.1:4222. Empty starts one in this process that opens no port.
	URL string
	// Creds is the path of the credentials for URL, a NATS credentials file or one with the seed of a key; empty for none.
	Creds string
	// Name is that of the connection and of its inboxes, see [InboxPrefix]; empty means toolcrib.
	Name string
	// Wait is called with what went wrong each time that the server at URL was not reached, and then it is tried again.
	// Nil has Open return the error instead.
	Wait func(error)
	// Keeps names the streams and buckets that this service brings up to what it wants of them, where they exist; nil means all. Of the others
	// it only makes those that are missing.
	Keeps []string
	// Lost bounds how long the server waits for a word about a message that a consumer has, before it gives it to another; 0 leaves it to
	// each consumer, see [Consumer]. All replicas of a service have to agree.
	Lost time.Duration
	// Listen is an address of this machine alone, such as 127.0.0.1:4222, at which the embedded server lets Guests in; empty opens no port.
	Listen string
	Guests []Guest
	// Dir holds the embedded server's files; it is made where it is missing and used by one process at a time.
	Dir string
	// Replicas of streams and buckets: 1 (the default of 0), 3 or 5.
	Replicas int
	// Strict has the embedded server sync every write to the disk before it is
	// acknowledged. Otherwise it syncs once a second: a killed process loses nothing, a lost machine up to that second.
	Strict bool
}

// A Bus is a connection with its streams and buckets in place. Safe for concurrent use.
type Bus struct {
	Conn     *nats.Conn
	JS       jetstream.JetStream
	log      *slog.Logger
	replicas int
	lost     time.Duration
	keeps    []string
	server   *server.Server
	lock     *flock.Flock

	ctx        context.Context // done once the Bus is closed
	cancel     context.CancelFunc
	background sync.WaitGroup

	mu       sync.Mutex
	kept     []kept
	troubles map[string]error // by what does not work
	again    chan struct{}    // closed and replaced when the server is back
}

func (c *Config) name() string { return cmp.Or(c.Name, "toolcrib") }

// Open starts or reaches the server that cfg names and makes the streams that
// are missing. A nil log is silent. Close the Bus after everything that uses it.
func Open(ctx context.Context, cfg Config, log *slog.Logger) (_ *Bus, err error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	b := &Bus{log: log, replicas: max(cfg.Replicas, 1), lost: cfg.Lost, keeps: cfg.Keeps, troubles: map[string]error{}, again: make(chan struct{})}
	b.ctx, b.cancel = context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		if err != nil {
			b.Close()
		}
	}()
	if cfg.URL != "" {
		err = b.reach(ctx, cfg)
	} else {
		err = b.embed(cfg)
	}
	if err != nil {
		return nil, err
	}
	if b.JS, err = jetstream.New(b.Conn); err != nil {
		return nil, fmt.Errorf("use jetstream: %w", err)
	}
	prepare := func(ctx context.Context) error { return b.Keep(ctx, "streams", b.provision) }
	if cfg.Wait == nil {
		return b, prepare(ctx)
	}
	return b, Retry(ctx, cfg.Wait, prepare)
}

func (b *Bus) embed(cfg Config) error {
	if cfg.Dir == "" {
		return contracts.Errorf(contracts.CodeInvalid, "bus: neither a server's address nor a directory for an embedded one is given")
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	b.lock = flock.New(filepath.Join(cfg.Dir, "lock"))
	switch ok, err := b.lock.TryLock(); {
	case err != nil:
		return fmt.Errorf("lock the data directory %s: %w", cfg.Dir, err)
	case !ok:
		b.lock = nil
		return contracts.Errorf(contracts.CodeConflict, "the data directory %s is used by another process", cfg.Dir)
	}
	opts := &server.Options{
		ServerName: "toolcrib", DontListen: true, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: cfg.Dir,
		SyncInterval: time.Second, SyncAlways: cfg.Strict,
	}
	own, err := cfg.door(opts)
	if err != nil {
		return err
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return fmt.Errorf("make the embedded nats server: %w", err)
	}
	b.server = s
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		return errors.New("the embedded nats server is not ready after a minute")
	}
	if b.Conn, err = nats.Connect("", append(own, nats.InProcessServer(s), nats.Name("toolcrib"))...); err != nil {
		return fmt.Errorf("connect to the embedded nats server: %w", err)
	}
	return nil
}

// Close ends the connection and, where it was embedded, the server. It waits for both.
func (b *Bus) Close() {
	b.mu.Lock()
	b.cancel()
	b.mu.Unlock()
	b.background.Wait()
	if b.Conn != nil {
		b.Conn.Close()
	}
	if b.server != nil {
		b.server.Shutdown()
		b.server.WaitForShutdown()
	}
	if b.lock != nil {
		b.lock.Unlock()
	}
}

func (b *Bus) closing() bool { return b.ctx.Err() != nil }

// Replicas returns how many replicas streams and buckets are to have.
func (b *Bus) Replicas() int { return b.replicas }

// Log returns the log of what happens on the bus; never nil.
func (b *Bus) Log() *slog.Logger { return b.log }

// Keeps reports whether a stream or bucket that exists is to be brought up to what this service wants of it.
func (b *Bus) Keeps(name string) bool { return b.keeps == nil || slices.Contains(b.keeps, name) }

const (
	eventsMaxAge   = 7 * 24 * time.Hour
	deadMaxAge     = 30 * 24 * time.Hour
	dispatchMaxAge = 24 * time.Hour
	dispatchMost   = 10_000 // wake-ups of one tenant
	dedupWindow    = 10 * time.Minute
)

func (b *Bus) provision(ctx context.Context) error {
	for _, c := range []jetstream.StreamConfig{
		{Name: contracts.StreamEvents, Subjects: []string{"tc.>"}, MaxAge: eventsMaxAge, Duplicates: dedupWindow},
		{
			Name: contracts.StreamDispatch, Subjects: []string{"dispatch.>"}, Retention: jetstream.WorkQueuePolicy,
			MaxAge: dispatchMaxAge, MaxMsgsPerSubject: dispatchMost, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true,
			Duplicates: dedupWindow,
			// Wake-ups are made anew from the records that they are about. On files, each one that is
			// taken would leave the stream empty and have the server begin a file.
			Storage: jetstream.MemoryStorage,
		},
		{
			Name: contracts.StreamTimers, Subjects: []string{"timer.>", "due.>"},
			MaxMsgsPerSubject: 1, AllowMsgSchedules: true, AllowMsgTTL: true, AllowRollup: true,
		},
		{Name: contracts.StreamDead, Subjects: []string{"dead.>"}, MaxAge: deadMaxAge, AllowDirect: true},
	} {
		c.Replicas = b.replicas
		if err := b.ensure(ctx, c); err != nil {
			return fmt.Errorf("make stream %s: %w", c.Name, err)
		}
	}
	return nil
}

// ensure makes a stream where it is missing, and brings it up to cfg where the Bus keeps it. Others may do the same at the same time.
func (b *Bus) ensure(ctx context.Context, cfg jetstream.StreamConfig) error {
	if b.Keeps(cfg.Name) {
		_, err := b.JS.CreateOrUpdateStream(ctx, cfg)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another was faster, with other settings
			_, err = b.JS.UpdateStream(ctx, cfg)
		}
		return err
	}
	_, err := b.JS.Stream(ctx, cfg.Name)
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	if _, err = b.JS.CreateStream(ctx, cfg); errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return nil
	}
	return err
}
