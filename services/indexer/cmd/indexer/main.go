// Command indexer is the service indexer as a process of its own, on an outside NATS server.
package main

import (
	"context"
	"os"

	"github.com/toolcrib/toolcrib/internal/core/hosted"
	"github.com/toolcrib/toolcrib/services/indexer"
)

func main() {
	p := hosted.Program{Name: "indexer", Health: "127.0.0.1:7422", Open: open}
	os.Exit(p.Main(os.Args[1:], os.Environ(), os.Stderr))
}

func open(ctx context.Context, s hosted.Setting) (hosted.Service, error) {
	return indexer.New(ctx, s.Bus, indexer.Config{}, s.Log)
}
