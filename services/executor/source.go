package executor

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"

	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/executor/source/mcp"
	"github.com/toolcrib/toolcrib/services/executor/source/platform"
)

// A connection reaches one source. Safe for concurrent use.
type connection interface {
	// List returns all tools, in any order, without ids, hashes and sizes, and
	// those that make no sense. Its error is a [contracts.Error] with [contracts.CodeSourceUnavailable].
	List(ctx context.Context) (*contracts.Listing, []contracts.SkippedTool, error)
	// Call calls the tool. Its error is that of ctx where that ended first, or a [contracts.Error] with
	// CodeToolError (the source answered with an error), CodeRateLimited or CodeUnavailable (it answered that it
	// does not do it now), CodeInvalidArgs (the arguments cannot be sent), CodeSourceUnavailable (it was not
	// reached) or CodeOutcomeUnknown (it may have been, and gave no answer). An answer may come with the error that it tells of.
	Call(ctx context.Context, tool *contracts.Tool, args json.RawMessage, meta map[string]string) (*contracts.Result, error)
	// Done is closed once the connection cannot be used any more; nil means never.
	Done() <-chan struct{}
	// Close ends it and waits for the end.
	Close()
}

// byName makes a connection of one that needs nothing of a tool but its name.
type byName struct{ named }

type named interface {
	List(ctx context.Context) (*contracts.Listing, []contracts.SkippedTool, error)
	Call(ctx context.Context, name string, args json.RawMessage, meta map[string]string) (*contracts.Result, error)
	Done() <-chan struct{}
	Close()
}

// Call calls the tool by its name.
func (b byName) Call(ctx context.Context, tool *contracts.Tool, args json.RawMessage, meta map[string]string) (*contracts.Result, error) {
	return b.named.Call(ctx, tool.Name, args, meta)
}

// connectTimeout is how long connecting to a source may take unless its configuration says otherwise.
const connectTimeout = 60 * time.Second

// A source is one configured source of a tenant.
type source struct {
	tenant     contracts.TenantID
	id         contracts.SourceID
	key        contracts.Key
	settings   contracts.Hash // of the configuration
	alwaysLoad bool
	trusted    bool // its annotations hold
	bare       bool // its tools are shown without its name
	perSession bool // each session has a connection of its own
	loading    contracts.Loading
	announces  string // subject on which it says that it is there or changed; "" where it does that on its connection

	connectTime time.Duration
	callTime    time.Duration // limit of a call; 0 means none of its own
	dial        func(ctx context.Context, changed func()) (connection, error)

	retry   *retry
	refresh *refresh
}

// configure returns the sources of cfg; conn reaches those on the bus.
func configure(cfg Config, conn *nats.Conn) map[contracts.Key]*source {
	out := map[contracts.Key]*source{}
	for _, t := range cfg.tenants() {
		all := []*source{builtIn()}
		for _, c := range cfg.Sources[t] {
			all = append(all, mcpSource(c, cfg))
		}
		for _, c := range cfg.OpenAPIs[t] {
			all = append(all, openAPISource(c, cfg))
		}
		for _, c := range cfg.BusPlugins[t] {
			all = append(all, busSource(t, c, conn))
		}
		for _, s := range all {
			s.tenant, s.key = t, contracts.SourceKey(t, s.id)
			s.retry, s.refresh = newRetry(), newRefresh()
			out[s.key] = s
		}
	}
	return out
}

func builtIn() *source {
	tools, _, _ := core{}.List(context.Background()) // which cannot fail
	b, _ := json.Marshal(tools)
	return &source{
		id: platform.ID(), trusted: true, connectTime: connectTimeout, settings: contracts.HashOf(b),
		dial: func(context.Context, func()) (connection, error) { return byName{core{}}, nil },
	}
}

func mcpSource(c config.Source, cfg Config) *source {
	s := &source{
		id: c.ID, settings: settingsOf(c), alwaysLoad: c.AlwaysLoad, trusted: c.TrustAnnotations,
		bare: c.Expose == "bare", perSession: c.Connection == "session", loading: c.Loading, connectTime: connectTimeout,
	}
	if c.Timeout > 0 {
		s.callTime = time.Duration(c.Timeout) * time.Millisecond
		s.connectTime = s.callTime
	}
	if s.alwaysLoad && s.loading == "" {
		s.loading = contracts.LoadingDirect
	}
	resolver := cfg.resolver()
	s.dial = func(ctx context.Context, changed func()) (connection, error) {
		target, err := c.Resolve(resolver)
		if err != nil {
			return nil, contracts.Errorf(contracts.CodeSourceUnavailable, "%w", err)
		}
		network, err := networkOf(cfg.Network, resolver)
		if err != nil {
			return nil, contracts.Errorf(contracts.CodeSourceUnavailable, "network.proxy: %w", err)
		}
		conn, err := mcp.Dial(ctx, mcp.Config{
			Command: target.Command, Args: target.Args, Env: target.Env, Environ: cfg.Environ, Dir: target.Cwd,
			URL: target.URL, SSE: c.Type == "sse", Headers: target.Headers, Secrets: secretsOf(c, target), Network: network,
		}, changed)
		if err != nil {
			return nil, err
		}
		return byName{conn}, nil
	}
	return s
}

// secretsOf returns the texts of the target that come from references outside of its environment and headers.
func secretsOf(c config.Source, t config.Target) []string {
	var out []string
	add := func(s config.Secret, value string) {
		if strings.Contains(s.String(), "${") {
			out = append(out, value)
			if _, v, ok := strings.Cut(value, "="); ok { // --token=…
				out = append(out, v)
			}
		}
	}
	for i, a := range c.Args {
		if i < len(t.Args) {
			add(a, t.Args[i])
		}
	}
	add(c.Command, t.Command)
	return out
}

// settingsOf returns the fingerprint of what decides which tools a source has and how they are listed.
// References count as they are written, not with what they stand for.
func settingsOf(c config.Source) contracts.Hash {
	written := []string{c.ID.String(), c.Type, c.Command.Written(), c.Cwd.Written(), c.URL.Written(), c.Expose, string(c.Loading)}
	if c.TrustAnnotations {
		written = append(written, "trust")
	}
	if c.AlwaysLoad {
		written = append(written, "always")
	}
	for _, a := range c.Args {
		written = append(written, "arg", a.Written())
	}
	for _, k := range slices.Sorted(maps.Keys(c.Env)) {
		written = append(written, "env", k, c.Env[k].Written())
	}
	for _, k := range slices.Sorted(maps.Keys(c.Headers)) {
		written = append(written, "header", k, c.Headers[k].Written())
	}
	b, _ := json.Marshal(written)
	return contracts.HashOf(b)
}

// A retry says when a source that failed may be tried again: after pauses that grow
// from a second to five minutes, each of a random length up to that. Safe for concurrent use.
type retry struct {
	mu    sync.Mutex
	pause *backoff.ExponentialBackOff
	until time.Time
	why   string
	shaky bool // it was lost, and has answered nothing since
}

func newRetry() *retry {
	// The pause is drawn from 0 to twice the interval.
	return &retry{pause: backoff.NewExponentialBackOff(backoff.WithInitialInterval(500*time.Millisecond), backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(1), backoff.WithMaxInterval(150*time.Second), backoff.WithMaxElapsedTime(0))}
}

func (r *retry) failed(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until = time.Now().Add(r.pause.NextBackOff())
	r.why = why
}

// lost tells that the connection broke before the source answered anything on it. Once is no reason for a pause.
func (r *retry) lost(why string) {
	r.mu.Lock()
	first := !r.shaky
	r.shaky = true
	r.mu.Unlock()
	if !first {
		r.failed(why)
	}
}

// worked ends the pause, and the growing of pauses.
func (r *retry) worked() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pause.Reset()
	r.until, r.shaky = time.Time{}, false
}

// wait returns how long the source is still to be left alone, and why.
func (r *retry) wait() (time.Duration, string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(0, time.Until(r.until)), r.why
}
