// Package hosted is the process around a service that runs by itself, one of many on an outside
// NATS server: its flags, its connection, what it tells of its health, and its end. What the
// one-process form needs of the same, it takes from here. It knows no service.
package hosted

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/run"
	"github.com/toolcrib/toolcrib/internal/kit/trace"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A Program is one service as a process.
type Program struct {
	// Name is that of the service. Its connection and its inboxes carry it.
	Name string
	// Health is where the process tells how it is, host:port, unless a flag says otherwise.
	Health string
	// Keeps names the streams and buckets whose settings are this service's to change, see [bus.Config]; nil means none.
	Keeps []string
	// Open makes the service. It is called again where the server was lost meanwhile.
	Open func(context.Context, Setting) (Service, error)
}

// A Setting is what a service is made of.
type Setting struct {
	Bus     *bus.Bus // connected
	File    *config.Config
	Environ []string // as [os.Environ]
	Log     *slog.Logger
}

// A Service is what a process runs.
type Service interface {
	run.Service
	// Ready returns nil while the service can do its work, apart from the bus, and otherwise why not. It waits no longer than ctx lasts.
	Ready(ctx context.Context) error
}

// The exit codes of a process.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// StopWithin is how long services may take to stop before a process gives up on them.
const StopWithin = 20 * time.Second

// A usageError is a command line or a configuration that cannot be used.
type usageError struct{ error }

// Main runs the program until it fails or the process is told to stop, and returns its exit code: 0 after a clean stop, 2 where
// flags or configuration cannot be used, else 1. The first SIGTERM or SIGINT has it finish what it took, for 20 s at most; the second ends it at once.
func (p Program) Main(args, environ []string, stderr io.Writer) int {
	o, err := p.parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage // flag has said why
	case o.check:
		return checkHealth(o.health, stderr)
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- p.run(ctx, o, environ, stderr) }()
	for {
		select {
		case err := <-done:
			return p.code(err, stderr)
		case <-signals:
			if ctx.Err() != nil {
				fmt.Fprintf(stderr, "%s: told to stop twice: ends at once\n", p.Name)
				return exitFailed
			}
			stop()
		}
	}
}

func (p Program) code(err error, stderr io.Writer) int {
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(stderr, "%s: %v\n", p.Name, err)
	if _, wrong := errors.AsType[usageError](err); wrong || contracts.CodeOf(err) == contracts.CodeInvalid {
		return exitUsage
	}
	return exitFailed
}

// options are what the flags say.
type options struct {
	config, health string
	level          slog.Level
	check          bool
}

func (p Program) parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet(p.Name, flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.config, "config", "", "the configuration `file`, toolcrib.yaml")
	f.StringVar(&o.health, "health", p.Health, "`address` of /healthz and /readyz; empty for none")
	f.TextVar(&o.level, "log-level", slog.LevelInfo, "the least `level` that is logged: debug, info, warn or error")
	f.BoolVar(&o.check, "check-health", false, "ask the process that serves at -health whether it is ready, and exit with 0 or 1")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		fmt.Fprintf(stderr, "%s: unexpected argument %q: there are flags only\n", p.Name, f.Arg(0))
		return o, errors.New("unexpected argument")
	}
	return o, nil
}

func (p Program) run(ctx context.Context, o options, environ []string, stderr io.Writer) error {
	file, err := load(o.config)
	if err != nil {
		return usageError{err}
	}
	server, err := NATS(file, environ)
	if err != nil {
		return usageError{err}
	}
	if server.URL == "" {
		return usageError{errors.New("nats.url: is not set; a service of its own needs a NATS server (toolcrib up runs all of them with an embedded one)")}
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: o.level})).With("service", p.Name)
	h := newHealth(p.Name)
	stopHealth, err := h.listen(ctx, o.health)
	if err != nil {
		return err
	}
	defer stopHealth()
	flush, err := trace.Setup(ctx, file.OTel.Endpoint, "toolcrib-"+p.Name)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		flush(ctx)
	}()
	context.AfterFunc(ctx, h.stop)
	waits := waiter{log: log, health: h}
	server.Name, server.Keeps, server.Wait = p.Name, append([]string{}, p.Keeps...), waits.failed
	b, err := bus.Open(ctx, server, log)
	if err != nil {
		return unlessStopped(ctx, err)
	}
	defer b.Close()
	waits.over()
	s, err := p.open(ctx, Setting{Bus: b, File: file, Environ: environ, Log: log}, waits.failed)
	if err != nil {
		return unlessStopped(ctx, err)
	}
	h.serve(b, s)
	log.Info("runs")
	if err := run.All(ctx, StopWithin, s); err != nil {
		return err
	}
	log.Info("has stopped")
	return nil
}

func (p Program) open(ctx context.Context, with Setting, failed func(error)) (s Service, err error) {
	err = bus.Retry(ctx, failed, func(ctx context.Context) error {
		s, err = p.Open(ctx, with)
		return err
	})
	return s, err
}

// unlessStopped returns err, or nil where the process was told to stop while it began.
func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// A waiter tells that the server is waited for: at first, and every so often after that.
type waiter struct {
	log    *slog.Logger
	health *health
	told   time.Time
	waited bool
}

// sayAgain is the pause between two words about the same wait.
const sayAgain = 30 * time.Second

func (w *waiter) failed(err error) {
	w.waited = true
	w.health.waiting(err)
	if time.Since(w.told) < sayAgain {
		return
	}
	w.told = time.Now()
	w.log.Warn("waits for nats", "err", err)
}

func (w *waiter) over() {
	if w.waited {
		w.log.Info("nats is there")
	}
	w.told = time.Time{}
	w.health.waiting(nil)
}

func load(path string) (*config.Config, error) {
	if path == "" {
		return nil, errors.New("--config: is not given; want the path of toolcrib.yaml, which names the NATS server and the sources")
	}
	file, err := config.Load(path)
	if err != nil {
		return nil, err
	}
	return file, config.Supported(file)
}
