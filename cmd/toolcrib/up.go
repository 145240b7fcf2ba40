package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/cmd/toolcrib/node"
	"github.com/toolcrib/toolcrib/internal/core/config"
)

// upFlags are what up and mcp need to start a node.
type upFlags struct {
	config  string
	mcp     []string
	listen  string
	data    string
	verbose bool
}

func (f *upFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.config, "config", "", "configuration file, toolcrib.yaml")
	c.Flags().StringArrayVar(&f.mcp, "mcp-config", nil, "file of MCP servers as desktop clients have it, such as .mcp.json; may be repeated")
	c.Flags().StringVar(&f.listen, "listen", "", "address of the API; overrides the configuration")
	c.Flags().StringVar(&f.data, "data", "", "directory of everything that is kept; overrides the configuration")
	c.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "log what happens")
}

// load returns the configuration that the flags describe.
func (f *upFlags) load(a *app) (node.Config, error) {
	cfg := node.Config{Version: version(), Environ: a.environ}
	var err error
	if f.config == "" {
		cfg.File, err = config.Parse(nil, "defaults")
	} else {
		cfg.File, err = config.Load(f.config)
	}
	if err != nil {
		return cfg, usageError{err}
	}
	for _, path := range f.mcp {
		servers, err := config.LoadMCP(path)
		if err == nil {
			err = cfg.File.AddMCP(servers, path)
		}
		if err != nil {
			return cfg, usageError{err}
		}
	}
	if f.listen != "" {
		cfg.File.Listen = f.listen
	}
	if cfg.Environment, err = config.EnvironToolSearch(a.environ); err != nil {
		return cfg, usageError{err}
	}
	if dir, err := os.UserCacheDir(); err == nil {
		cfg.Cache = filepath.Join(dir, "toolcrib")
	}
	if cfg.Data = f.data; cfg.Data == "" {
		home, err := os.UserHomeDir()
		if err != nil && cfg.File.Data == "" {
			return cfg, usagef("--data: give a directory: %w", err)
		}
		cfg.Data = node.DataDir(cfg.File, home)
	}
	return cfg, nil
}

func (f *upFlags) logger(a *app) *slog.Logger {
	level := slog.LevelWarn
	if f.verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level}))
}

func (a *app) upCommand() *cobra.Command {
	var f upFlags
	c := &cobra.Command{
		Use: "up", Short: "Run everything in one process", Args: exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := f.load(a)
			if err != nil {
				return err
			}
			return a.serve(c.Context(), cfg, f.logger(a), func(n *node.Node) {
				fmt.Fprintf(a.stdout, "toolcrib ready http=%s mcp=%s/mcp console=none\n", n.URL, n.URL)
			})
		},
	}
	f.add(c)
	return c
}

// serve runs a node until ctx is done, and calls ready once requests are answered.
func (a *app) serve(ctx context.Context, cfg node.Config, log *slog.Logger, ready func(*node.Node)) error {
	n, err := node.Open(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer n.Close()
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	if err := waitReady(ctx, n.URL); err == nil {
		ready(n)
	}
	return <-done
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "dev"
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: exactly(0),
		RunE: func(*cobra.Command, []string) error {
			if a.json {
				return a.printJSON(map[string]string{"version": version()})
			}
			fmt.Fprintln(a.stdout, "toolcrib", version())
			return nil
		},
	}
}
