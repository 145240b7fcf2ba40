// Command nats-keys makes the keys of the services for the NATS server of deploy/nats/nats.conf in
// the directory that it is given; those that are there it keeps.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/toolcrib/toolcrib/deploy/keys"
)

func main() {
	containers := flag.Bool("containers", false, "let users of containers read the keys that are mounted there; the directory keeps others of this machine out")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: nats-keys [-containers] DIRECTORY")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	dir := flag.Arg(0)
	environ, err := keys.Make(dir)
	if err == nil && *containers {
		err = keys.ForContainers(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "nats-keys:", err)
		os.Exit(1)
	}
	fmt.Printf("%d keys are in %s; the variables for the server are in %s\n", len(environ), dir, keys.EnvFile(dir))
}
