// Command planner is the service planner as a process of its own, on an outside NATS server.
package main

import (
	"context"
	"os"

	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/internal/core/hosted"
	"github.com/toolcrib/toolcrib/services/planner"
)

func main() {
	p := hosted.Program{Name: "planner", Health: "127.0.0.1:7421", Keeps: planner.Keeps(), Open: open}
	os.Exit(p.Main(os.Args[1:], os.Environ(), os.Stderr))
}

func open(ctx context.Context, s hosted.Setting) (hosted.Service, error) {
	cfg := planner.FromConfig(s.File)
	var err error
	if cfg.Environment, err = config.EnvironToolSearch(s.Environ); err != nil {
		return nil, err
	}
	return planner.New(ctx, s.Bus, cfg, s.Log)
}
