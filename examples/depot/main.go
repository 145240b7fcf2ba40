package depot

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

// stopTime is how long a stopping server waits for its requests.
const stopTime = 2 * time.Second

// Main is the command depot: it serves as args, the flags of its command line, say, until ctx is done. When it accepts requests it prints the URL of the document to standard error.
func Main(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("depot", flag.ContinueOnError)
	addr := flags.String("http", "127.0.0.1:0", "serve at this `address`")
	key := flags.String("key", "", "answer only requests with this `key` in X-Depot-Key")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: there are flags only", flags.Arg(0))
	}
	return Serve(ctx, New(*key), *addr, func(url string) {
		fmt.Fprintln(os.Stderr, "depot ready http="+url)
	})
}

// Serve serves h at addr, a host:port whose port may be 0, until ctx is done; then it returns nil. It calls ready once with the URL of the document when it accepts requests.
func Serve(ctx context.Context, h http.Handler, addr string, ready func(url string)) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", addr, err)
	}
	hs := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- hs.Serve(ln) }()
	ready("http://" + ln.Addr().String() + "/openapi.yaml")
	select {
	case err := <-served:
		return fmt.Errorf("serve %s: %w", addr, err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	if hs.Shutdown(stop) != nil {
		if err := hs.Close(); err != nil {
			return fmt.Errorf("stop serving %s: %w", addr, err)
		}
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", addr, err)
	}
	return nil
}
