// Package natstest gives each test a real NATS server of its own, with JetStream on files, that opens no port.
package natstest

import (
	"testing"

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
