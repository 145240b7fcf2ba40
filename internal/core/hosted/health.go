package hosted

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const (
	// probeWithin bounds how long a probe waits for an answer.
	probeWithin = 2 * time.Second
	// healthStopWithin is how long probes may take to end with the process.
	healthStopWithin = time.Second
)

// A health tells how a process is. Safe for concurrent use.
type health struct {
	name string

	mu       sync.Mutex
	bus      *bus.Bus // nil until it is connected
	service  Service  // nil until it is made
	why      error    // for neither
	stopping bool
}

func newHealth(name string) *health { return &health{name: name} }

// listen answers probes at addr until the returned function is called. "" answers none.
func (h *health) listen(ctx context.Context, addr string) (stop func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for health probes: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { h.tell(w, nil, nil) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), probeWithin)
		defer cancel()
		layers, err := h.ready(ctx)
		h.tell(w, layers, err)
	})
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan struct{})
	go func() {
		defer close(served)
		s.Serve(l)
	}()
	return func() {
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), healthStopWithin)
		defer cancel()
		if s.Shutdown(limit) != nil {
			s.Close()
		}
		<-served
	}, nil
}

// waiting says what the process waits for before it has a service.
func (h *health) waiting(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.why = err
}

func (h *health) serve(b *bus.Bus, s Service) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bus, h.service = b, s
}

func (h *health) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopping = true
}

// ready returns nil while work can be done, and the layers of protection around bodies where the service has such.
func (h *health) ready(ctx context.Context) (layers []string, err error) {
	h.mu.Lock()
	b, s, why, stopping := h.bus, h.service, h.why, h.stopping
	h.mu.Unlock()
	unavailable := func(format string, args ...any) error {
		return contracts.Errorf(contracts.CodeUnavailable, format, args...)
	}
	switch {
	case stopping:
		return nil, unavailable("the service is stopping")
	case s == nil && why != nil:
		return nil, unavailable("the service waits for nats: %w", why)
	case s == nil:
		return nil, unavailable("the service is starting")
	}
	if err := cmp.Or(b.Healthy(ctx), s.Ready(ctx)); err != nil {
		return nil, err
	}
	if box, ok := s.(interface{ Layers() []string }); ok {
		layers = box.Layers()
	}
	return layers, nil
}

// tell answers a probe: that all is well, or the problem.
func (h *health) tell(w http.ResponseWriter, layers []string, err error) {
	status, kind := http.StatusOK, "application/json"
	var body any = struct {
		Status  string   `json:"status"`
		Service string   `json:"service"`
		Layers  []string `json:"layers,omitempty"`
	}{"ok", h.name, layers}
	if err != nil {
		e := contracts.AsError(err)
		status, kind = http.StatusServiceUnavailable, "application/problem+json"
		body = struct {
			Type   string         `json:"type"`
			Title  string         `json:"title"`
			Status int            `json:"status"`
			Detail string         `json:"detail"`
			Code   contracts.Code `json:"code"`
		}{"about:blank", http.StatusText(status), status, e.Message, e.Code}
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body)
}

// checkHealth asks the process at addr whether it is ready, and returns an exit code.
func checkHealth(addr string, stderr io.Writer) int {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		fmt.Fprintf(stderr, "--health: %q; want host:port\n", addr)
		return exitUsage
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	c := http.Client{Timeout: 2 * probeWithin}
	r, err := c.Get("http://" + net.JoinHostPort(host, port) + "/readyz")
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitFailed
	}
	defer r.Body.Close()
	io.Copy(stderr, io.LimitReader(r.Body, 64<<10))
	if r.StatusCode != http.StatusOK {
		return exitFailed
	}
	return exitOK
}
