// Package bus is how a service meets the others: an embedded or an outside
// NATS server with JetStream, its streams, the consuming of events with one
// place that settles them, questions and answers, and timers. It knows how a
// message travels and nothing of what it means.
package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
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
	// Creds is the path of the credentials file for URL; empty for none.
	Creds string
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
	server   *server.Server
	lock     *flock.Flock
}

// Open starts or reaches the server that cfg names and makes the streams that
// are missing. A nil log is silent. Close the Bus after everything that uses it.
func Open(ctx context.Context, cfg Config, log *slog.Logger) (_ *Bus, err error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	b := &Bus{log: log, replicas: max(cfg.Replicas, 1)}
	defer func() {
		if err != nil {
			b.Close()
		}
	}()
	if cfg.URL != "" {
		err = b.connect(cfg)
	} else {
		err = b.embed(cfg)
	}
	if err != nil {
		return nil, err
	}
	if b.JS, err = jetstream.New(b.Conn); err != nil {
		return nil, fmt.Errorf("use jetstream: %w", err)
	}
	return b, b.provision(ctx)
}

func (b *Bus) connect(cfg Config) (err error) {
	opts := []nats.Option{nats.Name("toolcrib"), nats.MaxReconnects(-1)}
	if cfg.Creds != "" {
		opts = append(opts, nats.UserCredentials(cfg.Creds))
	}
	if b.Conn, err = nats.Connect(cfg.URL, opts...); err != nil {
		return fmt.Errorf("connect to nats at %s: %w", cfg.URL, err)
	}
	return nil
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
	s, err := server.NewServer(&server.Options{
		ServerName: "toolcrib", DontListen: true, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: cfg.Dir,
		SyncInterval: time.Second, SyncAlways: cfg.Strict,
	})
	if err != nil {
		return fmt.Errorf("make the embedded nats server: %w", err)
	}
	b.server = s
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		return errors.New("the embedded nats server is not ready after a minute")
	}
	if b.Conn, err = nats.Connect("", nats.InProcessServer(s), nats.Name("toolcrib")); err != nil {
		return fmt.Errorf("connect to the embedded nats server: %w", err)
	}
	return nil
}

// Close ends the connection and, where it was embedded, the server. It waits for both.
func (b *Bus) Close() {
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

// Healthy returns nil while the server answers.
func (b *Bus) Healthy(ctx context.Context) error {
	if _, err := b.JS.AccountInfo(ctx); err != nil {
		return contracts.Errorf(contracts.CodeUnavailable, "nats does not answer: %w", err)
	}
	return nil
}

// Replicas returns how many replicas streams and buckets are to have.
func (b *Bus) Replicas() int { return b.replicas }

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
		if _, err := b.JS.CreateOrUpdateStream(ctx, c); err != nil {
			return fmt.Errorf("make stream %s: %w", c.Name, err)
		}
	}
	return nil
}
