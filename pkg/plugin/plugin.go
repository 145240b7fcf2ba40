// Package plugin makes a process a plugin of Toolcrib: it tells of tools over a NATS connection and runs them when they are called. The whole of
// it is
//
//	p := plugin.New(conn, plugin.Config{Name: "ledger"})
//	p.Tool(plugin.Tool{Name: "balance", Description: "…", InputSchema: …}, plugin.Typed(balance))
//	err := p.Run(ctx)
//
// The protocol is that of docs/plugins.md. The package validates no arguments, which Toolcrib does before it calls, and keeps nothing: of several
// processes that are the same plugin each call reaches one.
package plugin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// Config says which plugin a process is. Only Name must be set.
type Config struct {
	Tenant string // whose plugin it is; "" means local
	Name   string // as the configuration of Toolcrib has it: 1 to 64 characters of a-z, 0-9, '_' and '-'
	// Version of the plugin, as semantic versions are written; "" means 0.0.0.
	Version      string
	Title        string // for people
	Instructions string // for models: what the tools together are good for

	// Concurrency is how many calls run at once; 0 means 16. Eight times as many wait for that, and more are refused.
	Concurrency int
	// Working is how often Toolcrib is told that a call is being worked on; 0 means 5 s. An instance that does not do so three times in a row is taken for lost.
	Working time.Duration
	// Grace is how long calls that run when the plugin is stopped have to end by themselves; 0 means 10 s.
	Grace time.Duration
	// Log hears of panics and of what NATS refuses; nil is silent.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Tenant, c.Version = cmp.Or(c.Tenant, string(contracts.LocalTenant)), cmp.Or(c.Version, "0.0.0")
	if c.Concurrency <= 0 {
		c.Concurrency = 16
	}
	if c.Working <= 0 {
		c.Working = 5 * time.Second
	}
	if c.Grace <= 0 {
		c.Grace = 10 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// A Tool is what Toolcrib and its models are told of a tool. Its name has 1 to 128 characters. InputSchema is a JSON Schema of type object; nil means that the tool takes no arguments.
type Tool = contracts.PluginTool

// A Handler runs a tool. args is a JSON object that fits the tool's input schema. ctx ends when nobody waits for the result any more.
//
// An error is what the tool says of its failure, and is read by a model. A [contracts.Error] with CodeInvalidArgs, CodeRateLimited or
// CodeUnavailable says that the call was not begun, and with its RetryAfter when to try again. A nil result without an error is an empty one.
// Handlers run concurrently.
type Handler func(ctx context.Context, args json.RawMessage) (*contracts.Result, error)

// A Plugin is one instance of a plugin. Make one with [New]. Safe for concurrent use.
type Plugin struct {
	conn   *nats.Conn
	cfg    Config
	tenant contracts.TenantID
	id     contracts.PluginID
	slots  chan struct{} // has an element for each call that runs
	news   chan struct{} // has an element where the tools changed

	mu      sync.Mutex
	err     error // the first mistake in what New and Tool were given
	ran     bool
	tools   map[string]*tool
	pages   *pages // of the tools; nil where they are to be made
	calls   map[*call]struct{}
	running sync.WaitGroup
}

// waiting is how many calls may wait for each that runs.
const waiting = 8

// New returns a plugin without tools on a connection, which stays the caller's. [Plugin.Run] returns what is wrong with cfg.
func New(conn *nats.Conn, cfg Config) *Plugin {
	cfg = cfg.withDefaults()
	p := &Plugin{
		conn: conn, cfg: cfg, slots: make(chan struct{}, cfg.Concurrency), news: make(chan struct{}, 1),
		tools: map[string]*tool{}, calls: map[*call]struct{}{},
	}
	var errs [2]error
	p.tenant, errs[0] = contracts.ParseTenantID(cfg.Tenant)
	p.id, errs[1] = contracts.ParsePluginID(cfg.Name)
	if p.err = errors.Join(errs[:]...); p.err == nil && len(cfg.Instructions) > mostInstructions {
		p.err = contracts.Errorf(contracts.CodeInvalid, "instructions: %d bytes; at most %d are allowed", len(cfg.Instructions), mostInstructions)
	}
	return p
}

// Run serves the plugin until ctx is done, or the connection is closed, which is an error. Then it takes no more calls, ends those that it took,
// and returns nil. It can be called once. A connection that is lost and comes back is no reason to return.
func (p *Plugin) Run(ctx context.Context) error {
	p.mu.Lock()
	err, ran := p.err, p.ran
	p.ran = true
	p.mu.Unlock()
	switch {
	case err != nil:
		return err
	case ran:
		return errors.New("plugin: Run was called before")
	}
	state := p.conn.StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer p.conn.RemoveStatusListener(state)
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop, err := p.serve(base)
	if err == nil {
		err = p.attend(ctx, state)
	}
	return errors.Join(err, stop(cancel))
}

// attend announces the plugin, and does so again when its tools change or NATS was lost, until ctx is done.
func (p *Plugin) attend(ctx context.Context, state <-chan nats.Status) error {
	p.announce()
	for {
		select {
		case <-ctx.Done():
			return nil
		case s := <-state:
			if s == nats.CLOSED {
				return errors.New("plugin: the connection to nats was closed")
			}
		case <-p.news:
		}
		p.announce()
	}
}

func (p *Plugin) announce() {
	if err := p.conn.Publish(contracts.PluginChangedSubject(p.tenant, p.id), nil); err != nil {
		p.cfg.Log.Warn("plugin not announced", "err", err)
	}
}

// serve subscribes to requests, whose handlers get base. stop ends it; it is never nil.
func (p *Plugin) serve(base context.Context) (stop func(cancel func()) error, _ error) {
	svc, err := micro.AddService(p.conn, micro.Config{
		Name: contracts.PluginService(p.tenant, p.id), Version: p.cfg.Version, Description: p.cfg.Title,
		Metadata: map[string]string{
			"toolcrib.protocol": strconv.Itoa(contracts.PluginProtocol), "toolcrib.tenant": string(p.tenant), "toolcrib.plugin": string(p.id),
		},
		ErrorHandler: func(_ micro.Service, e *micro.NATSError) {
			p.cfg.Log.Warn("nats", "subject", e.Subject, "err", e.Description)
		},
	})
	if err != nil {
		return func(func()) error { return nil }, fmt.Errorf("plugin: %w", err)
	}
	p.flush()
	before := p.conn.LastError()
	cancels, err := p.conn.Subscribe(contracts.PluginCancels(p.tenant, p.id), func(m *nats.Msg) { p.cancelCall(m.Subject) })
	for _, e := range []struct {
		name, subject string
		handle        func(micro.Request)
	}{
		{"list", contracts.PluginListSubject(p.tenant, p.id), p.answerList},
		{"call", contracts.PluginCallSubject(p.tenant, p.id), func(r micro.Request) { p.takeCall(base, r) }},
	} {
		if err == nil {
			err = svc.AddEndpoint(e.name, micro.HandlerFunc(e.handle), micro.WithEndpointSubject(e.subject))
		}
	}
	p.flush() // the server has refused by then what it refuses
	if why := p.conn.LastError(); err == nil && why != before && errors.Is(why, nats.ErrPermissionViolation) {
		err = fmt.Errorf("nats does not allow what the plugin needs: %w", why)
	}
	stop = func(cancel func()) error {
		svc.Stop()
		p.handOver()
		p.announce() // so that others are asked, or that it is known that nobody is there
		defer func() {
			if cancels != nil {
				cancels.Unsubscribe()
			}
			p.flush()
		}()
		return p.finish(cancel)
	}
	if err != nil {
		return stop, fmt.Errorf("plugin: %w", err)
	}
	return stop, nil
}

// flushWithin bounds how long a stopping plugin waits for the server.
const flushWithin = 2 * time.Second

func (p *Plugin) flush() error { return p.conn.FlushTimeout(flushWithin) }

// handOver waits until the handlers were called with everything that the server had sent before.
func (p *Plugin) handOver() {
	if p.flush() != nil {
		return
	}
	done := make(chan struct{})
	if p.conn.Barrier(func() { close(done) }) == nil {
		within(done, flushWithin)
	}
}

// within waits for done, but not longer than limit, and reports whether it is closed.
func within(done <-chan struct{}, limit time.Duration) bool {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// lastWords is how long calls have to end once they were cancelled.
const lastWords = time.Second

// finish waits for the calls that were taken, and cancels those that take too long.
func (p *Plugin) finish(cancel func()) error {
	done := make(chan struct{})
	go func() {
		p.running.Wait()
		close(done)
	}()
	if within(done, p.cfg.Grace) {
		return nil
	}
	cancel()
	if within(done, lastWords) {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Errorf("plugin: %d calls did not end", len(p.calls))
}
