package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/cmd/toolcrib/demo"
	"github.com/toolcrib/toolcrib/cmd/toolcrib/node"
	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/pkg/client"
)

func (a *app) demoCommand() *cobra.Command {
	var npm string
	c := &cobra.Command{
		Use: "demo", Short: "Do the main job on real input, and say what it saved",
		Long: "Starts everything in a temporary folder with real MCP servers, opens a run, and lets a scripted model\n" +
			"search, describe and call. Ends with 0 only where all of it really happened.",
		Args: exactly(0),
		RunE: func(c *cobra.Command, _ []string) error { return a.demo(c.Context(), npm) },
	}
	c.Flags().StringVar(&npm, "npm", filepath.Join("examples", "npm"), "folder with the public MCP servers from npm, see make npm")
	return c
}

func (a *app) demo(ctx context.Context, npm string) (err error) {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the own binary: %w", err)
	}
	dir, err := os.MkdirTemp("", "toolcrib-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	folder := filepath.Join(dir, "files")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	if folder, err = filepath.EvalSymlinks(folder); err != nil {
		return err
	}
	servers := demo.Servers(self, npm, folder)
	if _, err := exec.LookPath("node"); err != nil || len(servers) < 5 {
		servers = demo.Servers(self, os.DevNull, folder)
		a.note("The public MCP servers are not installed in %s (make npm does it, with Node); the demo goes on without them.", npm)
	}
	names := slices.Sorted(maps.Keys(servers))
	n, err := neighbours(ctx, self, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.stop()) }()
	file, err := config.Parse(demo.File(servers, n.plugins, n.nats), "demo")
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "Toolcrib starts in %s with the MCP servers %v, the HTTP service %s and the plugin %s.\n", dir, names, demo.DepotName, demo.LedgerName)

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	log := slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	var played error
	err = a.serve(ctx, node.Config{File: file, Environ: a.environ, Data: filepath.Join(dir, "data"), Version: version()}, log, func(n *node.Node) {
		played = demo.Play(ctx, demo.Stage{
			Client: client.New(n.URL, ""), Admin: client.New(n.URL, n.AdminToken), Out: a.stdout,
			Folder: folder, Sources: demo.IDs(names, true), Report: writeReport,
		})
		cancel()
	})
	if played != nil {
		return fmt.Errorf("the demo failed: %w", played)
	}
	return err
}

// next are the neighbours of a demo, and what Toolcrib is to know of them.
type next struct {
	nats    string // the address where the ledger looks for NATS
	plugins map[string]any
	depot   *demo.Neighbour
	ledger  *demo.Neighbour
}

// neighbours starts the depot, and the ledger, which waits for NATS.
func neighbours(ctx context.Context, self, dir string) (*next, error) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	n := &next{nats: free.Addr().String()}
	if err := free.Close(); err != nil {
		return nil, err
	}
	password := filepath.Join(dir, "ledger.password")
	if err := os.WriteFile(password, []byte(rand.Text()), 0o600); err != nil {
		return nil, err
	}
	key, url := rand.Text(), ""
	if n.depot, url, err = demo.StartDepot(ctx, self, key); err != nil {
		return nil, err
	}
	n.plugins = demo.Plugins(url, key, "${file:"+password+"}")
	n.ledger, err = demo.StartLedger(ctx, self, "nats://"+n.nats, password, filepath.Join(dir, "ledger.jsonl"))
	if err != nil {
		return nil, errors.Join(err, n.depot.Stop())
	}
	return n, nil
}

func (n *next) stop() error { return errors.Join(n.ledger.Stop(), n.depot.Stop()) }
