// Command demo-services runs a hosted Toolcrib on this machine, a NATS server and every service as a process of its
// own with its own key, and does with it what the demo does; then it kills an executor and a sandbox in the middle of their
// work and checks that nothing was lost and nothing done twice. It ends with 0 only where all of that held.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", filepath.Join("bin", "services"), "`folder` with the binaries of the services")
	flag.StringVar(&o.nats, "nats", filepath.Join("bin", "nats-server"), "`binary` of the NATS server")
	flag.StringVar(&o.conf, "nats-conf", filepath.Join("deploy", "nats", "nats.conf"), "its configuration `file`")
	flag.StringVar(&o.toolcrib, "toolcrib", filepath.Join("bin", "toolcrib"), "`binary` that serves the workshop")
	flag.StringVar(&o.npm, "npm", filepath.Join("examples", "npm"), "`folder` with the public MCP servers from npm")
	flag.BoolVar(&o.throughput, "throughput", false, "measure calls and bodies with 1, 2 and 4 executors and sandboxes instead")
	flag.BoolVar(&o.keep, "keep", false, "keep the temporary folder, with the logs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "demo-services:", err)
		os.Exit(1)
	}
}
