// Command executor is the service executor as a process of its own, on an outside NATS server.
package main

import (
	"context"
	"os"

	"github.com/toolcrib/toolcrib/internal/core/hosted"
	"github.com/toolcrib/toolcrib/services/executor"
)

func main() {
	p := hosted.Program{Name: "executor", Health: "127.0.0.1:7423", Keeps: executor.Keeps(), Open: open}
	os.Exit(p.Main(os.Args[1:], os.Environ(), os.Stderr))
}

func open(ctx context.Context, s hosted.Setting) (hosted.Service, error) {
	return executor.New(ctx, s.Bus, executor.FromConfig(s.File, s.Environ), s.Log)
}
