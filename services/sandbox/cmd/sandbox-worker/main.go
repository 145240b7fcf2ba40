// Command sandbox-worker is a worker of the sandbox and nothing else, for services that keep it in a file of its own.
package main

import (
	"os"

	"github.com/toolcrib/toolcrib/services/sandbox/worker"
)

func main() { os.Exit(worker.Main(os.Args[1:])) }
