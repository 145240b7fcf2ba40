package workshop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// stopTime is how long a stopping HTTP server waits for its requests.
const stopTime = 2 * time.Second

// ServeHTTP serves srv over Streamable HTTP at the path /mcp of addr, a
// host:port whose port may be 0, until ctx is done; then it returns nil. It
// calls ready once with the URL when it accepts connections. Event streams
// that are still open two seconds after ctx is done are cut off.
func ServeHTTP(ctx context.Context, srv *mcp.Server, addr string, ready func(url string)) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", addr, err)
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", http.NewCrossOriginProtection().Handler(mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return srv },
		&mcp.StreamableHTTPOptions{PropagateRequestCancellation: true},
	)))
	hs := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- hs.Serve(ln) }()
	ready("http://" + ln.Addr().String() + "/mcp")
	select {
	case err := <-served:
		return fmt.Errorf("serve %s: %w", addr, err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	if err := hs.Shutdown(stop); err != nil {
		err = hs.Close()
		if err != nil {
			return fmt.Errorf("stop serving %s: %w", addr, err)
		}
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", addr, err)
	}
	return nil
}
