package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
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

func (a *app) demo(ctx context.Context, npm string) error {
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
	servers := demo.Sources(self, npm, folder)
	if _, err := exec.LookPath("node"); err != nil || len(servers) < 5 {
		servers = demo.Sources(self, os.DevNull, folder)
		a.note("The public MCP servers are not installed in %s (make npm does it, with Node); the demo goes on without them.", npm)
	}
	file, err := config.Parse(demo.File(servers), "demo")
	if err != nil {
		return err
	}
	owners := slices.Sorted(maps.Keys(servers))
	fmt.Fprintf(a.stdout, "Toolcrib starts in %s with the MCP servers %v.\n", dir, owners)

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	log := slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	var played error
	err = a.serve(ctx, node.Config{File: file, Environ: a.environ, Data: filepath.Join(dir, "data"), Version: version()}, log, func(n *node.Node) {
		played = demo.Play(ctx, demo.Stage{
			Client: client.New(n.URL, ""), Admin: client.New(n.URL, n.AdminToken), Out: a.stdout,
			Folder: folder, Owners: owners, Report: writeReport,
		})
		cancel()
	})
	if played != nil {
		return fmt.Errorf("the demo failed: %w", played)
	}
	return err
}
