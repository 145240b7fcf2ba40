// Command workshop serves the example tools of package workshop as one MCP
// server, over stdio or over Streamable HTTP.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/toolcrib/toolcrib/examples/workshop"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := workshop.Main(ctx, os.Args[1:]); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "workshop:", err)
		os.Exit(1)
	}
}
