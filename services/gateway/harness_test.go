package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/gateway"
)

const adminToken = "admin-token-of-the-test"

// A world is a front door with stand-ins behind it.
type world struct {
	*standIns
	base   string
	routes map[string][]string
	client *client.Client
	stop   func() error // stops the front door and returns what Run returned
}

// open starts a world with the configuration, which listens on a free port of this machine.
func open(t *testing.T, cfg gateway.Config) *world {
	t.Helper()
	b := natstest.Open(t)
	return openOn(t, b, startStandIns(t, b), cfg)
}

func openOn(t *testing.T, b *bus.Bus, s *standIns, cfg gateway.Config) *world {
	t.Helper()
	return openLogged(t, b, s, cfg, nil)
}

func openLogged(t *testing.T, b *bus.Bus, s *standIns, cfg gateway.Config, log *slog.Logger) *world {
	t.Helper()
	cfg.Listen = "127.0.0.1:0"
	if len(cfg.Tenants) == 0 {
		cfg.AdminToken = adminToken
	}
	g, err := gateway.New(t.Context(), b, cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	var result error
	stopped := false
	w := &world{standIns: s, base: "http://" + g.Addr().String(), routes: g.Routes()}
	w.client = client.New(w.base, "")
	w.stop = func() error {
		if !stopped {
			cancel()
			result, stopped = <-done, true
		}
		return result
	}
	t.Cleanup(func() {
		if err := w.stop(); err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
	})
	return w
}

// An answer is what came of a request.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// problem decodes the answer as a problem document.
func (a answer) problem(t *testing.T) client.Problem {
	t.Helper()
	var p client.Problem
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type = %q, want application/problem+json; body %s", got, a.body)
	}
	if err := json.Unmarshal(a.body, &p); err != nil {
		t.Fatalf("problem %s: %v", a.body, err)
	}
	if p.Status != a.status || p.Title == "" || p.Type == "" || p.Code == "" || p.Detail == "" {
		t.Errorf("problem = %s with status %d, want type, title, status, detail and code", a.body, a.status)
	}
	return p
}

// do sends a request; headers are name, value, name, value…
func (w *world) do(t *testing.T, method, path, body string, headers ...string) answer {
	t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // for an answer that should end and does not
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, w.base+path, r)
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header.Add(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, bytes.TrimSpace(data)}
}

func decode[T any](t *testing.T, a answer) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(a.body, &v); err != nil {
		t.Fatalf("answer %d %s: %v", a.status, a.body, err)
	}
	return v
}

// openRun opens a run.
func (w *world) openRun(t *testing.T, o client.RunOptions) *client.RunView {
	t.Helper()
	v, err := w.client.OpenRun(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// await waits for a state.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// runState returns the state of a run's record.
func (w *world) runState(t *testing.T, tenant contracts.TenantID, id contracts.RunID) contracts.RunState {
	t.Helper()
	r, err := w.runs.Get(t.Context(), contracts.RunKey(tenant, id))
	if err != nil {
		t.Fatal(err)
	}
	return r.State
}

// stop runs a service that was made only to see whether it can be, to close what it opened.
func stop(t *testing.T, g *gateway.Service) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := g.Run(ctx); err != nil {
		t.Errorf("Run() with an ended context = %v, want nil", err)
	}
}
