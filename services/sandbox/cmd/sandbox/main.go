// Command sandbox is the service sandbox as a process of its own, on an outside NATS server, and the workers that it starts.
package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/toolcrib/toolcrib/internal/core/hosted"
	"github.com/toolcrib/toolcrib/services/sandbox"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == sandbox.WorkerCommand {
		os.Exit(sandbox.Worker(os.Args[2:]))
	}
	p := hosted.Program{Name: "sandbox", Health: "127.0.0.1:7424", Keeps: sandbox.Keeps(), Open: open}
	os.Exit(p.Main(os.Args[1:], os.Environ(), os.Stderr))
}

func open(ctx context.Context, s hosted.Setting) (hosted.Service, error) {
	cfg := sandbox.FromConfig(s.File)
	if s.File.Data != "" {
		cfg.CacheDir = filepath.Join(s.File.Data, "cache", "engine")
	}
	return sandbox.New(ctx, s.Bus, cfg, s.Log)
}
