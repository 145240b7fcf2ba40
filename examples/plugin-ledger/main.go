// Command plugin-ledger is an example of a plugin on the bus: it connects to the NATS server that Toolcrib uses and serves the tools of package
// ledger over one file. Any number of its processes can share that file.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/nats-io/nats.go"

	"github.com/toolcrib/toolcrib/examples/plugin-ledger/ledger"
	"github.com/toolcrib/toolcrib/pkg/plugin"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "plugin-ledger:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("plugin-ledger", flag.ContinueOnError)
	url := flags.String("nats", nats.DefaultURL, "`URL` of the NATS server")
	creds := flags.String("creds", "", "`file` with NATS credentials, or with the seed of a key")
	user := flags.String("user", "", "`name` of the user on the server, with --password-file")
	password := flags.String("password-file", "", "`file` with the user's password")
	tenant := flags.String("tenant", "local", "`tenant` whose plugin it is")
	name := flags.String("name", "ledger", "`name` of the plugin in Toolcrib's configuration")
	journal := flags.String("journal", "ledger.jsonl", "`file` that holds the entries; made where it is missing")
	if err := flags.Parse(args); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	opts := []nats.Option{nats.Name("plugin-ledger"), nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true)}
	identity, err := identify(*creds, *user, *password)
	if err != nil {
		return err
	}
	conn, err := nats.Connect(*url, append(opts, identity...)...)
	if err != nil {
		return fmt.Errorf("connect to nats: %w", err)
	}
	defer conn.Close()
	p := plugin.New(conn, plugin.Config{
		Tenant: *tenant, Name: *name, Version: "1.0.0", Title: "Ledger", Instructions: ledger.Instructions, Log: log,
	})
	if err := ledger.New(*journal).AddTo(p); err != nil {
		return err
	}
	log.Info("serves", "plugin", *name, "journal", *journal)
	return p.Run(ctx)
}

// identify returns how the process identifies itself on the server.
func identify(creds, user, passwordFile string) ([]nats.Option, error) {
	switch {
	case creds != "":
		data, err := os.ReadFile(creds)
		if err != nil {
			return nil, err
		}
		if bytes.Contains(data, []byte("BEGIN NATS USER JWT")) {
			return []nats.Option{nats.UserCredentials(creds)}, nil
		}
		opt, err := nats.NkeyOptionFromSeed(creds)
		return []nats.Option{opt}, err
	case user != "":
		data, err := os.ReadFile(passwordFile)
		return []nats.Option{nats.UserInfo(user, strings.TrimSpace(string(data)))}, err
	}
	return nil, nil
}
