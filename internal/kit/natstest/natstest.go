// Package natstest is what tests of services share: a real NATS server for each
// test, with JetStream on files, that opens no port, or one that listens and can be
// stopped and started again; work that runs until the test ends; and waiting for a state.
package natstest

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/toolcrib/toolcrib/internal/kit/bus"
)

// Open starts a server for t, with all streams, in a directory that goes with t.
func Open(t testing.TB) *bus.Bus {
	t.Helper()
	b, err := bus.Open(t.Context(), bus.Config{Dir: t.TempDir()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// A Server is a NATS server on a port of 127.0.0.1, as an outside one is.
type Server struct {
	URL  string
	opts server.Options
	now  *server.Server
}

// Listen starts a Server for t, with the options where they say more than the port and the directory, which go with t. It ends with t.
func Listen(t testing.TB, opts server.Options) *Server {
	t.Helper()
	opts.Host, opts.Port, opts.NoSigs, opts.JetStream, opts.StoreDir = "127.0.0.1", server.RANDOM_PORT, true, true, t.TempDir()
	s := &Server{opts: opts}
	s.Start(t)
	t.Cleanup(func() { s.Stop() })
	addr := s.now.Addr().(*net.TCPAddr)
	s.URL, s.opts.Port = "nats://"+addr.String(), addr.Port
	return s
}

// Stop ends the server; its files stay.
func (s *Server) Stop() {
	s.now.Shutdown()
	s.now.WaitForShutdown()
}

// Start starts the server again where it was, on what it had stored.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	opts := s.opts
	now, err := server.NewServer(&opts)
	if err != nil {
		t.Fatal(err)
	}
	now.Start()
	if !now.ReadyForConnections(patience) {
		t.Fatal("the nats server is not ready")
	}
	s.now = now
}

// Run runs f until t ends, whose context it then finds done, and waits for it. An error of f fails t.
func Run(t testing.TB, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("stopped with %v", err)
		}
	})
}

// patience is how long a state is waited for: far longer than it takes on a busy machine.
const patience = 30 * time.Second

// Eventually polls until ok, for a state that others bring about, and fails t where it does not come.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not seen in time: %s", what)
		}
	}
}
