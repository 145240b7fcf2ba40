package nats_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/toolcrib/toolcrib/cmd/toolcrib/demo"
	"github.com/toolcrib/toolcrib/deploy/keys"
	"github.com/toolcrib/toolcrib/deploy/stage"
	"github.com/toolcrib/toolcrib/examples/depot"
	"github.com/toolcrib/toolcrib/examples/plugin-ledger/ledger"
	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/internal/core/hosted"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/services/executor"
	"github.com/toolcrib/toolcrib/services/gateway"
	"github.com/toolcrib/toolcrib/services/indexer"
	"github.com/toolcrib/toolcrib/services/planner"
	"github.com/toolcrib/toolcrib/services/sandbox"
	"github.com/toolcrib/toolcrib/services/telemetry"
)

func contextOfMain() context.Context {
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	return ctx
}

// A watch is a log that keeps what the server refused.
type watch struct {
	slog.Handler
	mu      sync.Mutex
	refused []string
}

func (w *watch) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok && errors.Is(err, nats.ErrPermissionViolation) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.refused = append(w.refused, err.Error())
		}
		return true
	})
	return nil
}
func (w *watch) Enabled(context.Context, slog.Level) bool { return true }
func (w *watch) WithAttrs([]slog.Attr) slog.Handler       { return w }
func (w *watch) WithGroup(string) slog.Handler            { return w }

// TestTheDemoAsItsUsers plays the demo with two of each service, each as its own user, and again after the server was away. Nothing that they do is refused.
func TestTheDemoAsItsUsers(t *testing.T) {
	plugin := keys.Plugin{Tenant: "demo", ID: demo.LedgerName}
	h := listen(t, plugin)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tenant := stage.NewTenant("demo")
	for name, server := range demo.Servers(self, os.DevNull, t.TempDir()) {
		tenant.Servers[name] = server
	}
	shop := httptest.NewServer(depot.New("a key"))
	t.Cleanup(shop.Close)
	tenant.Plugins = demo.Plugins(shop.URL+"/openapi.yaml", "a key", "")
	natstest.Run(t, func(ctx context.Context) error {
		return ledger.Main(ctx, []string{
			"--nats", h.URL, "--creds", plugin.File(h.keys), "--tenant", string(plugin.Tenant), "--journal", filepath.Join(t.TempDir(), "ledger.jsonl"),
		})
	})
	data := stage.File(tenant)
	data["listen"] = "127.0.0.1:0"
	text, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	file, err := config.Parse(text, "test")
	if err != nil {
		t.Fatal(err)
	}
	w := &watch{}
	log := slog.New(w)
	open := func(service string, keeps []string) *bus.Bus {
		b, err := bus.Open(t.Context(), bus.Config{URL: h.URL, Creds: keys.File(h.keys, service), Name: service, Keeps: append([]string{}, keeps...)}, log)
		if err != nil {
			t.Fatalf("%s: %v", service, err)
		}
		t.Cleanup(b.Close)
		return b
	}
	var all []hosted.Service
	var buses []*bus.Bus
	start := func(b *bus.Bus, s hosted.Service, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		all, buses = append(all, s), append(buses, b)
		natstest.Run(t, s.Run)
	}
	var url string
	for range 2 {
		b := open("gateway", nil)
		g, err := gateway.New(t.Context(), b, gateway.FromConfig(file, nil), log)
		start(b, g, err)
		url = "http://" + g.Addr().String()
		b = open("sandbox", sandbox.Keeps())
		box, err := sandbox.New(t.Context(), b, sandbox.FromConfig(file), log)
		start(b, box, err)
		b = open("executor", executor.Keeps())
		e, err := executor.New(t.Context(), b, executor.FromConfig(file, os.Environ()), log)
		start(b, e, err)
		b = open("indexer", nil)
		i, err := indexer.New(t.Context(), b, indexer.Config{}, log)
		start(b, i, err)
		b = open("telemetry", telemetry.Keeps())
		tel, err := telemetry.New(t.Context(), b, telemetry.Config{}, log)
		start(b, tel, err)
		b = open("planner", planner.Keeps())
		p, err := planner.New(t.Context(), b, planner.FromConfig(file), log)
		start(b, p, err)
	}
	for round := range 2 {
		if round > 0 {
			h.Stop()
			natstest.Eventually(t, "the server is missed", func() bool {
				return !slices.ContainsFunc(buses, func(b *bus.Bus) bool { return b.Healthy(t.Context()) == nil })
			})
			h.Start(t)
		}
		for i, s := range all {
			natstest.Eventually(t, s.Name()+" is ready", func() bool { return s.Ready(t.Context()) == nil && buses[i].Healthy(t.Context()) == nil })
		}
		var out bytes.Buffer
		if err := stage.Play(t.Context(), tenant, url, "", &out); err != nil {
			t.Fatalf("round %d of the demo failed: %v\n%s", round+1, err, &out)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.refused {
		t.Errorf("refused: %s", r)
	}
}
