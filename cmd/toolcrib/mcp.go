package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/cmd/toolcrib/node"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func (a *app) mcpCommand() *cobra.Command {
	var f upFlags
	var mode, profile string
	var approve bool
	c := &cobra.Command{
		Use: "mcp", Short: "Be an MCP server on standard input and output, for a desktop client",
		Long: "Bridges an MCP client on standard input and output to a running toolcrib. Without one at --url, or\n" +
			"with --config or --mcp-config, it starts everything in this process; where another toolcrib uses the\n" +
			"data directory already, it bridges to that one.",
		Args: exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := context.WithCancel(c.Context())
			defer cancel()
			carry := func(base, data string) error {
				token := a.token
				if approve && token == "" {
					b, err := os.ReadFile(node.TokenFile(data))
					if err != nil {
						return usagef("--approve: it needs the admin token, or one with the scope approve in --token: %w", err)
					}
					token = strings.TrimSpace(string(b))
				}
				return newBridge(a.front(base, profile, mode), token, a.stdout).run(ctx, a.stdin)
			}
			own := f.config != "" || len(f.mcp) > 0
			if !own && (c.Flags().Changed("url") || answers(ctx, a.url)) {
				return carry(a.url, cmp.Or(f.data, usualData()))
			}
			cfg, err := f.load(a)
			if err != nil {
				return err
			}
			if f.listen == "" {
				cfg.File.Listen = "127.0.0.1:0"
			}
			var carried error
			err = a.serve(ctx, cfg, f.logger(a), func(n *node.Node) {
				carried = carry(n.URL, cfg.Data)
				cancel()
			})
			// Another toolcrib has the data directory, for another client of this machine, say: that one serves this client too.
			if base := node.Address(cfg.Data); contracts.CodeOf(err) == contracts.CodeConflict && base != "" && answers(ctx, base) {
				a.note("toolcrib at %s uses %s already: bridging to it, with its servers", base, cfg.Data)
				return carry(base, cfg.Data)
			}
			return errors.Join(carried, err)
		},
	}
	f.add(c)
	c.Flags().StringVar(&mode, "mode", "", "true, false, auto, auto:N, code, tools, directory or direct")
	c.Flags().BoolVar(&approve, "approve", false, "have the client ask its user about approvals (MCP elicitation); uses the admin token of --data")
	c.Flags().StringVar(&profile, "profile", "", "profile of the run")
	return c
}

// front returns the address of the MCP front of the server at base.
func (a *app) front(base, profile, mode string) string {
	u := base + "/mcp"
	if profile != "" {
		u += "/" + url.PathEscape(profile)
	}
	if mode != "" {
		u += "?mode=" + url.QueryEscape(mode)
	}
	return u
}

// answers reports whether a toolcrib is at base.
func answers(ctx context.Context, base string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return get(ctx, base+"/healthz") == nil
}

// waitReady waits until the server at base answers requests.
func waitReady(ctx context.Context, base string) error {
	for {
		err := get(ctx, base+"/readyz")
		if err == nil {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func get(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", url, res.Status)
	}
	return nil
}
