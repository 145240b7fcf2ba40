// Command depot serves the example warehouse of package depot over HTTP, with its OpenAPI document.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/toolcrib/toolcrib/examples/depot"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := depot.Main(ctx, os.Args[1:]); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "depot:", err)
		os.Exit(1)
	}
}
