// Package natstest is what tests of services share: a real NATS server for each
// test, with JetStream on files, that opens no port; work that runs until the
// test ends; and waiting for a state.
package natstest

import (
	"context"
	"testing"
	"time"

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
