package ledger

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolcrib/toolcrib/pkg/plugin"
)

// retryWait is how often a server that is not there is looked for.
const retryWait = 500 * time.Millisecond

// Main is the command plugin-ledger: it serves as args, the flags of its command line, say, until ctx is done. It waits for a server that is not there.
func Main(ctx context.Context, args []string) error {
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
	opts := []nats.Option{nats.Name("plugin-ledger"), nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true), nats.ReconnectWait(retryWait)}
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
		Tenant: *tenant, Name: *name, Version: "1.0.0", Title: "Ledger", Instructions: Instructions, Log: log,
	})
	if err := New(*journal).AddTo(p); err != nil {
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
