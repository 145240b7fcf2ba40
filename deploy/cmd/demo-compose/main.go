// Command demo-compose starts the compose file on this machine, does against it what the demo does, and takes it down again. The images
// are made from the binaries of make build-services; nothing is pulled. Where no Docker engine can be reached it
// starts one of its own in a temporary folder, and ends it. It ends with 0 only where all of it worked.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	var o options
	flag.StringVar(&o.root, "root", ".", "`folder` of the repository")
	flag.BoolVar(&o.install, "install", false, "install docker.io and docker-compose with apt-get where they are missing")
	flag.BoolVar(&o.keep, "keep", false, "keep the temporary folder")
	flag.Parse()
	o.host = os.Getenv("DOCKER_HOST")
	o.environ = os.Environ()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "demo-compose:", err)
		os.Exit(1)
	}
}
