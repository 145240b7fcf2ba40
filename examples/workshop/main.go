package workshop

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Main is the command workshop: it serves as args, the flags of its command line, say, until ctx is done or standard input ends.
func Main(ctx context.Context, args []string) error {
	var cfg Config
	flags := flag.NewFlagSet("workshop", flag.ContinueOnError)
	flags.StringVar(&cfg.Name, "name", "workshop", "`name` of the server")
	flags.StringVar(&cfg.CounterFile, "counter-file", "", "`file` that gets a line for each execution of increment_counter")
	areas := flags.String("areas", "", "comma-separated `areas` to serve (default all): "+strings.Join(Areas(), ", "))
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
	srv, err := New(cfg)
	if err != nil {
		return err
	}
	if *addr == "" {
		return srv.Run(ctx, &mcp.StdioTransport{})
	}
	return ServeHTTP(ctx, srv, *addr, func(url string) {
		fmt.Fprintln(os.Stderr, "workshop ready http="+url)
	})
}
