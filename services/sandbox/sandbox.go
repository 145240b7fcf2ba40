package sandbox

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/bodies"
	"github.com/toolcrib/toolcrib/internal/core/calls"
	"github.com/toolcrib/toolcrib/internal/core/live"
	"github.com/toolcrib/toolcrib/internal/core/outputs"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/run"
	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/sandbox/worker"
)

// WorkerCommand is the first argument by which an executable that runs the service knows that it is to be a worker process.
const WorkerCommand = "sandbox-worker"

// Worker is what a worker process does: an executable that is started with [WorkerCommand] calls it at once
// with the arguments after that, and exits with what it returns.
func Worker(args []string) int { return worker.Main(args) }

// A Service runs bodies. Any number of replicas share them.
type Service struct {
	bus       *bus.Bus
	cfg       Config
	id        string // of this replica
	desk      *bodies.Desk
	caller    *calls.Caller
	live      *live.State
	outputs   *outputs.Shelf
	pool      *worker.Pool // nil where bodies cannot be run, for the reason
	reason    string
	admission *admission
	log       *slog.Logger

	running sync.WaitGroup // bodies
	mu      sync.Mutex
	stops   map[contracts.BodyID]context.CancelCauseFunc // of the bodies that are here
}

// New opens what the service needs and starts its first workers; Run or Close ends them. Where this machine or this
// build cannot run bodies, the service tells everybody so. A nil log is silent.
func New(ctx context.Context, b *bus.Bus, cfg Config, log *slog.Logger) (*Service, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Service{bus: b, cfg: cfg.withDefaults(), id: newID(), log: log, stops: map[contracts.BodyID]context.CancelCauseFunc{}}
	s.admission = newAdmission(s.cfg)
	var err error
	if s.desk, err = bodies.Open(ctx, b); err != nil {
		return nil, err
	}
	if s.caller, err = calls.Open(ctx, b); err != nil {
		return nil, err
	}
	if s.live, err = live.Open(ctx, b); err != nil {
		return nil, err
	}
	if s.outputs, err = outputs.Open(ctx, b); err != nil {
		return nil, err
	}
	s.pool, err = worker.Open(ctx, worker.Config{
		Command: cfg.Worker, CacheDir: cfg.CacheDir, Workers: cfg.Workers, Require: cfg.Require,
	}, log)
	if err != nil {
		s.pool, s.reason = nil, err.Error()
		log.Warn("code mode is not available", "reason", s.reason)
		return s, nil
	}
	log.Info("bodies run in locked-down workers", "layers", s.pool.Layers())
	return s, nil
}

func newID() string {
	var b [8]byte
	rand.Read(b[:])
	return "sandbox_" + hex.EncodeToString(b[:])
}

// Keeps returns the streams and buckets whose settings are this service's to change, see [bus.Config].
func Keeps() []string {
	return []string{contracts.BucketBodies}
}

// Name returns "sandbox".
func (s *Service) Name() string { return "sandbox" }

// Ready returns nil once bodies can be run; where they never can be on this machine or in this build, it says why.
func (s *Service) Ready(ctx context.Context) error {
	if s.pool == nil {
		return contracts.Errorf(contracts.CodeUnavailable, "bodies cannot be run here: %s", s.reason)
	}
	return s.live.Loaded(ctx)
}

// Layers returns the layers of protection around bodies, see [contracts.SandboxAnswer]; none where bodies cannot be run.
func (s *Service) Layers() []string {
	if s.pool == nil {
		return nil
	}
	return s.pool.Layers()
}

// Close ends the workers of a service that is not run.
func (s *Service) Close() error {
	if s.pool == nil {
		return nil
	}
	return s.pool.Close()
}

// drain is how long bodies that run may go on when the service is told to stop.
const drain = 10 * time.Second

// Run takes bodies until ctx is done, then ends those it has and its workers.
func (s *Service) Run(ctx context.Context) error {
	cancels, err := s.bus.Conn.Subscribe(contracts.AllBodyCancels, s.cancelled)
	if err != nil {
		return fmt.Errorf("listen for cancellations: %w", err)
	}
	defer cancels.Unsubscribe()
	// What bodies need goes on until they have ended.
	base, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	state := make(chan error, 1)
	go func() { state <- s.live.Run(base) }()
	err = run.Group(ctx,
		func(ctx context.Context) error {
			return s.bus.Serve(ctx, s.Name(), bus.Answers(contracts.VerbBody, s.take), bus.Answers(contracts.VerbSandbox, s.status))
		},
		func(ctx context.Context) error { return s.desk.Sweep(ctx, s.bury) },
		s.hear,
	)
	s.stop()
	end()
	if e := s.Close(); err == nil {
		err = e
	}
	if e := <-state; err == nil {
		err = e
	}
	return err
}

// hear ends the bodies of runs that are closed, wherever they are, until ctx is done.
func (s *Service) hear(ctx context.Context) error {
	return s.bus.Consume(ctx, bus.Consumer{
		Stream: contracts.StreamEvents, Durable: s.Name() + "-closed", Filters: []string{contracts.AllRunClosed},
	}, bus.EventHandler(func(ctx context.Context, subject contracts.Subject, _ contracts.Event, _ bus.Message) error {
		return s.desk.CancelRun(ctx, subject.Tenant, subject.Run)
	}))
}

// stop waits for the bodies that are here, and ends those that take too long.
func (s *Service) stop() {
	stopping := time.AfterFunc(drain, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, stop := range s.stops {
			stop(errStopping)
		}
	})
	defer stopping.Stop()
	s.running.Wait()
}

// status says whether bodies can be run.
func (s *Service) status(context.Context, contracts.TenantID, contracts.SandboxRequest) (contracts.SandboxAnswer, error) {
	if s.pool == nil {
		return contracts.SandboxAnswer{Reason: s.reason}, nil
	}
	return contracts.SandboxAnswer{Ready: true, Layers: s.Layers()}, nil
}

// bury ends a body whose sandbox died. What it called goes by itself.
func (s *Service) bury(ctx context.Context, key contracts.Key, rec *contracts.Body) error {
	now := time.Now()
	_, err := s.desk.End(ctx, key, contracts.BodyEnd{Error: contracts.Errorf(contracts.CodeUnavailable,
		"the sandbox that had the body stopped before its end; calls that the body had made may have happened")}, 0, func(rec *contracts.Body) error {
		if rec.Lease.After(now) {
			return contracts.Errorf(contracts.CodeConflict, "the body has a sandbox")
		}
		return nil
	})
	if contracts.CodeOf(err) == contracts.CodeConflict {
		return nil
	}
	return err
}
