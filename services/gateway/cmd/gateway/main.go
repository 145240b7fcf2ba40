// Command gateway is the service gateway as a process of its own, on an outside NATS server.
package main

import (
	"context"
	"os"

	"github.com/toolcrib/toolcrib/internal/core/hosted"
	"github.com/toolcrib/toolcrib/services/gateway"
)

func main() {
	p := hosted.Program{Name: "gateway", Health: "127.0.0.1:7426", Open: open}
	os.Exit(p.Main(os.Args[1:], os.Environ(), os.Stderr))
}

func open(ctx context.Context, s hosted.Setting) (hosted.Service, error) {
	return gateway.New(ctx, s.Bus, gateway.FromConfig(s.File, s.Environ), s.Log)
}
