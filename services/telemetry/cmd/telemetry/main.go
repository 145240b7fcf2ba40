// Command telemetry is the service telemetry as a process of its own, on an outside NATS server.
package main

import (
	"context"
	"os"

	"github.com/toolcrib/toolcrib/internal/core/hosted"
	"github.com/toolcrib/toolcrib/services/telemetry"
)

func main() {
	p := hosted.Program{Name: "telemetry", Health: "127.0.0.1:7425", Keeps: telemetry.Keeps(), Open: open}
	os.Exit(p.Main(os.Args[1:], os.Environ(), os.Stderr))
}

func open(ctx context.Context, s hosted.Setting) (hosted.Service, error) {
	return telemetry.New(ctx, s.Bus, telemetry.Config{}, s.Log)
}
