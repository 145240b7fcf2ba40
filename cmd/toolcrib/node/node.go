// Package node runs all of Toolcrib in one process: an embedded bus, every
// service on it, and the front door. It is wiring only; the services are the same that run one by one in a hosted deployment.
package node

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/internal/core/hosted"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/run"
	"github.com/toolcrib/toolcrib/internal/kit/trace"
	"github.com/toolcrib/toolcrib/services/executor"
	"github.com/toolcrib/toolcrib/services/gateway"
	"github.com/toolcrib/toolcrib/services/indexer"
	"github.com/toolcrib/toolcrib/services/planner"
	"github.com/toolcrib/toolcrib/services/sandbox"
	"github.com/toolcrib/toolcrib/services/telemetry"
)

// A Config says what to run. Data must be set.
type Config struct {
	File    *config.Config
	Data    string // directory of everything that is kept; made where it is missing
	Version string
	// Environ is the environment that references of the configuration are looked up in, as [os.Environ] gives it.
	Environ []string
	// Cache keeps what can be made again, such as the compiled engine of code mode; "" means in Data.
	Cache string
	// Environment is the wished mode of this process, see [planner.Config].
	Environment config.ToolSearch
}

// A Node is all services in one process.
type Node struct {
	// URL is the address of the API, such as http://127.0.0.1:7420; MCP is at URL/mcp.
	URL string
	// AdminToken lets its bearer approve and administer; "" where the configuration has tenants with credentials of their own.
	AdminToken string

	bus      *bus.Bus
	services []run.Service
	flush    func(context.Context) error
	unused   func() error // ends what has begun to work before Run
}

// Open starts the bus, opens every service and listens; requests are answered from Run on. Close it.
func Open(ctx context.Context, cfg Config, log *slog.Logger) (_ *Node, err error) {
	if err := config.Supported(cfg.File); err != nil {
		return nil, err
	}
	n := &Node{}
	defer func() {
		if err != nil {
			n.Close()
		}
	}()
	if n.flush, err = trace.Setup(ctx, cfg.File.OTel.Endpoint, "toolcrib"); err != nil {
		return nil, err
	}
	nats, err := hosted.NATS(cfg.File, cfg.Environ)
	if err != nil {
		return nil, err
	}
	nats.Dir = filepath.Join(cfg.Data, "nats")
	if n.bus, err = bus.Open(ctx, nats, log); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	front := gateway.FromConfig(cfg.File, cfg.Environ)
	front.Version = cfg.Version
	if len(cfg.File.Tenants) == 0 {
		if n.AdminToken, err = adminToken(cfg.Data); err != nil {
			return nil, err
		}
		front.AdminToken = n.AdminToken
	}
	return n, n.open(ctx, cfg, front, log)
}

func (n *Node) open(ctx context.Context, cfg Config, front gateway.Config, log *slog.Logger) error {
	plan := planner.FromConfig(cfg.File)
	plan.Environment = cfg.Environment
	p, err := planner.New(ctx, n.bus, plan, log.With("service", "planner"))
	if err != nil {
		return err
	}
	i, err := indexer.New(ctx, n.bus, indexer.Config{}, log.With("service", "indexer"))
	if err != nil {
		return err
	}
	e, err := executor.New(ctx, n.bus, executor.FromConfig(cfg.File, cfg.Environ), log.With("service", "executor"))
	if err != nil {
		return err
	}
	t, err := telemetry.New(ctx, n.bus, telemetry.Config{}, log.With("service", "telemetry"))
	if err != nil {
		return err
	}
	box := sandbox.FromConfig(cfg.File)
	box.CacheDir = filepath.Join(cmp.Or(cfg.Cache, filepath.Join(cfg.Data, "cache")), "engine")
	s, err := sandbox.New(ctx, n.bus, box, log.With("service", "sandbox"))
	if err != nil {
		return err
	}
	n.unused = s.Close
	g, err := gateway.New(ctx, n.bus, front, log.With("service", "gateway"))
	if err != nil {
		return err
	}
	n.URL = "http://" + g.Addr().String()
	n.services = []run.Service{p, i, e, t, s, g}
	if err := os.WriteFile(addressFile(cfg.Data), []byte(n.URL+"\n"), 0o600); err != nil {
		return fmt.Errorf("write the address: %w", err)
	}
	return nil
}

func addressFile(data string) string { return filepath.Join(data, "address") }

// Address returns the URL of the node that last used the data directory, "" where none did. It may have ended.
func Address(data string) string {
	b, err := os.ReadFile(addressFile(data))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// Run works until ctx is done, and stops cleanly.
func (n *Node) Run(ctx context.Context) error { return run.All(ctx, hosted.StopWithin, n.services...) }

// Close ends what Open began. Call it after Run.
func (n *Node) Close() error {
	var err error
	if n.unused != nil {
		err = n.unused()
	}
	if n.flush != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		err = errors.Join(err, n.flush(ctx))
	}
	if n.bus != nil {
		n.bus.Close()
	}
	return err
}

// adminToken returns the token of DATA/admin.token, which it makes where it is missing.
func adminToken(data string) (string, error) {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return "", fmt.Errorf("make the data directory: %w", err)
	}
	path := TokenFile(data)
	b, err := os.ReadFile(path)
	if token := strings.TrimSpace(string(b)); err == nil && token != "" {
		return token, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the admin token: %w", err)
	}
	token := rand.Text()
	if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write the admin token: %w", err)
	}
	return token, nil
}

// TokenFile returns the path of the admin token's file in a data directory.
func TokenFile(data string) string { return filepath.Join(data, "admin.token") }

// DataDir returns the data directory that a configuration names, or the default one in the home directory.
func DataDir(cfg *config.Config, home string) string {
	return cmp.Or(cfg.Data, filepath.Join(home, ".local", "share", "toolcrib"))
}
