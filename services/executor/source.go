package executor

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolcrib/toolcrib/pkg/contracts"
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
	admission  contracts.AdmissionMode // "" where its tools are not compared
	announces  string                  // subject on which it says that it is there or changed; "" where it does that on its connection

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
			if s.id != platform.ID() {
				s.admission = cmp.Or(cfg.Admission[t], contracts.AdmissionWarn)
			}
			out[s.key] = s
		}
	}
	return out
}

func builtIn() *source {
	tools, _, _ := builtins{}.List(context.Background()) // which cannot fail
	b, _ := json.Marshal(tools)
	return &source{
		id: platform.ID(), trusted: true, connectTime: connectTimeout, settings: contracts.HashOf(b),
		dial: func(context.Context, func()) (connection, error) { return byName{builtins{}}, nil },
	}
}
