// Command workshop serves the example tools of package workshop as one MCP
// server, over stdio or over Streamable HTTP.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolcrib/toolcrib/examples/workshop"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "workshop:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	var cfg workshop.Config
	flags := flag.NewFlagSet("workshop", flag.ExitOnError)
	flags.StringVar(&cfg.Name, "name", "workshop", "`name` of the server")
	flags.StringVar(&cfg.CounterFile, "counter-file", "", "`file` that gets a line for each execution of increment_counter")
	areas := flags.String("areas", "", "comma-separated `areas` to serve (default all): "+strings.Join(workshop.Areas(), ", "))
	addr := flags.String("http", "", "serve Streamable HTTP at this `address` instead of stdio")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: there are flags only", flags.Arg(0))
	}
	if *areas != "" {
		cfg.Areas = strings.Split(*areas, ",")
	}
	srv, err := workshop.New(cfg)
	if err != nil {
		return err
	}
	if *addr == "" {
		return srv.Run(ctx, &mcp.StdioTransport{})
	}
	return workshop.ServeHTTP(ctx, srv, *addr, func(url string) {
		fmt.Fprintln(os.Stderr, "workshop ready http="+url)
	})
}
