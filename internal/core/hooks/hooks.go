// Package hooks asks a tenant's hooks before its calls of tools and tells them after these. A hook is a webhook or a responder on the
// bus; docs/hooks.md is the protocol for whoever writes one. Before a call it may let it pass, block it, rewrite its arguments or ask for an
// approval; one that fails, is late or makes no sense blocks the call, unless it is advisory: then it has no say at all.
//
// The package applies no policy, validates no arguments against a schema, asks nobody for approval and records nothing: it returns what the
// hooks decided, and which of them ran. Nothing is asked twice for one call, but by whoever calls [Set.Before] twice.
package hooks

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/internal/core/policy"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A Config says what hooks a tenant has.
type Config struct {
	Tenant contracts.TenantID
	// Hooks are in the order in which they are asked, as [config.Config.HooksOf] returns them.
	Hooks []config.HookSource
	// Refs looks up the references of webhooks. That is done when a hook is first asked, and again as long as it fails; meanwhile the hook fails.
	Refs config.Resolver
	// Conn is the bus, and stays the caller's; nil has the hooks that are on it fail.
	Conn *nats.Conn
	// Told is called with what became of telling a hook of the end of a call, from several goroutines at once; nil for nobody. It must return soon.
	Told func(contracts.RunID, contracts.CallID, contracts.HookRun)
}

// A Call is what a hook is told of a call of a tool. Its arguments are not changed, and must not be until the hooks were asked and told.
type Call struct {
	Run       contracts.RunID
	Labels    contracts.Labels // of the run
	ID        contracts.CallID
	Tool      contracts.HookTool
	Arguments json.RawMessage // an object; nil is one without properties
}

// A Set is the hooks of a tenant. Make one with [New], and close it. A nil Set has no hooks. Safe for concurrent use.
type Set struct {
	cfg           Config
	before, after []*hook // in the order of Config.Hooks

	base    context.Context // ends with the Set
	cancel  context.CancelFunc
	mu      sync.Mutex // guards closed, and running against it
	closed  bool
	running sync.WaitGroup
}

// A hook is one hook of a Set.
type hook struct {
	config.HookSource
	tools   *policy.Matcher
	timeout time.Duration
	via     transport
	breaker breaker
	queue   queue // of what it is told after calls
}

// A transport brings a request to a hook.
type transport interface {
	// exchange sends the body and returns that of the answer, which may be larger than is allowed by a byte. An error that is no *failure is one of ctx.
	exchange(ctx context.Context, body []byte) ([]byte, error)
	// most is how many bytes a body can have.
	most() int
	close()
}

// New returns the hooks of a tenant. The error names a hook whose globs are none, which validation of the configuration refuses: whoever gets one must not make calls.
func New(cfg Config) (*Set, error) {
	s := &Set{cfg: cfg}
	s.base, s.cancel = context.WithCancel(context.Background())
	for _, source := range cfg.Hooks {
		tools, err := policy.NewMatcher(source.Tools)
		if err != nil {
			return nil, fmt.Errorf("hook %s: tools: %w", source.Name, err)
		}
		h := &hook{HookSource: source, tools: tools, timeout: time.Duration(source.Timeout) * time.Millisecond, queue: newQueue()}
		if source.Bus != "" {
			h.via = &responder{conn: cfg.Conn, subject: contracts.PluginHookSubject(cfg.Tenant, contracts.PluginID(source.Bus))}
		} else {
			h.via = &webhook{source: source, refs: cfg.Refs}
		}
		if source.On(contracts.HookBefore) {
			s.before = append(s.before, h)
		}
		if source.On(contracts.HookAfter) {
			s.after = append(s.after, h)
		}
	}
	return s, nil
}

// closeWithin is how long what is under way has to end when a Set is closed.
const closeWithin = 2 * time.Second

// Close takes nothing more, gives what hooks are being asked and told 2 seconds to end, and then breaks that off. Nothing of the Set runs any more when it returns. It can be called again.
func (s *Set) Close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		s.running.Wait()
		close(ended)
	}()
	t := time.NewTimer(closeWithin)
	defer t.Stop()
	select {
	case <-ended:
	case <-t.C:
	}
	s.cancel()
	<-ended
	for _, h := range slices.Concat(s.before, s.after) {
		h.via.close()
	}
}

// begin counts n more things that run until [Set.end], or returns false where the Set is closed.
func (s *Set) begin(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.running.Add(n)
	}
	return !s.closed
}

func (s *Set) end() { s.running.Done() }

// within returns ctx so that it ends with the Set too.
func (s *Set) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.base, func() { cancel(errClosed()) })
	return ctx, func() { stop(); cancel(nil) }
}

func errClosed() error {
	return contracts.Errorf(contracts.CodeUnavailable, "the hooks of the tenant are being changed").After(time.Second)
}

// request returns what hooks are sent of c.
func (s *Set) request(event contracts.HookEvent, c *Call) contracts.HookRequest {
	q := contracts.HookRequest{
		Protocol: contracts.HookProtocol, Type: event, Tenant: s.cfg.Tenant, Run: c.Run, Labels: c.Labels, CallID: c.ID, Tool: c.Tool, Arguments: c.Arguments,
	}
	if len(q.Arguments) == 0 {
		q.Arguments = json.RawMessage("{}")
	}
	return q
}
