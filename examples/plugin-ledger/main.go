// Command plugin-ledger is an example of a plugin on the bus: it connects to the NATS server that Toolcrib uses and serves the tools of package
// ledger over one file. Any number of its processes can share that file.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/toolcrib/toolcrib/examples/plugin-ledger/ledger"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := ledger.Main(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "plugin-ledger:", err)
		os.Exit(1)
	}
}
