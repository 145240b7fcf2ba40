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
	plugin := flag.String("plugin", "", "make the key of this plugin, `TENANT.NAME`, too, and print its user for nats.conf")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: nats-keys [-containers] [-plugin TENANT.NAME] DIRECTORY")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *plugin, *containers); err != nil {
		fmt.Fprintln(os.Stderr, "nats-keys:", err)
		os.Exit(1)
	}
}

func run(dir, plugin string, containers bool) error {
	environ, err := keys.Make(dir)
	if err != nil {
		return err
	}
	user := ""
	if plugin != "" {
		p, err := keys.ParsePlugin(plugin)
		if err != nil {
			return err
		}
		if user, err = p.User(dir); err != nil {
			return err
		}
	}
	if containers {
		if err := keys.ForContainers(dir); err != nil {
			return err
		}
	}
	fmt.Fprintf(os.Stderr, "%d keys are in %s; the variables for the server are in %s\n", len(environ), dir, keys.EnvFile(dir))
	fmt.Print(user)
	return nil
}
