// Package mcp reaches MCP servers: processes that speak over their standard input and
// output, and addresses that speak Streamable HTTP or the older SSE. It starts and ends the
// processes, lists their tools and calls them, with the official SDK for the protocol. It
// decides nothing about tools, keeps nothing, and reconnects nothing.
//
// What a server says is kept byte for byte: the SDK's own decoding would lose the order of
// keys, the precision of numbers, whole listings for one malformed tool, and results whose kind of content it does not know.
package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolcrib/toolcrib/internal/core/guard"
	"github.com/toolcrib/toolcrib/internal/core/names"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// Config says how to reach one server: with Command, a process to start, or with URL, an address. It holds secrets.
type Config struct {
	Command string
	Args    []string
	// Env is added to the few harmless variables of Environ that a server inherits: PATH, HOME, …
	Env     map[string]string
	Environ []string // of this process, as "KEY=value"; nil means that nothing is inherited
	Dir     string   // to start the process in; "" means that of this process
	// Grace is how long a process that was asked to end (SIGTERM) has before it is killed; 0 means 2 s.
	Grace time.Duration

	URL     string
	SSE     bool              // the older SSE transport in place of Streamable HTTP
	Headers map[string]string // of every request to the host of URL
	// Network says which addresses, besides public ones, may be connected to where the server leads elsewhere. That of URL may be.
	Network guard.Config

	// Secrets are texts to be kept out of errors; those of Env and Headers are in any case.
	Secrets []string
}

const defaultGrace = 2 * time.Second

// The versions of the protocol that a process is offered first. A process may end at a first message
// that it does not know, so that the newest one's greeting is tried only on a server which refuses this.
const versionOfProcesses = "2025-11-25"

// A Conn is a connection to a server, with an initialized session. Safe for concurrent use. Close it.
type Conn struct {
	cfg     Config
	session *sdk.ClientSession
	process *process        // nil for an address
	web     *guard.Client   // nil for a process
	hangUp  func()          // ends the streams of an address; nil for a process
	ctx     context.Context // ends with Close; calls end with it
	cancel  context.CancelFunc
	done    chan struct{}

	mu    sync.Mutex
	pages map[string][]byte // the newest pages of the listing, by cursor
}

// Dial connects to a server and initializes a session, within ctx; after that ctx does not matter.
// changed is called, and must return at once, when the server says that its tools changed; of
// several such news within 50 ms only the first counts. The error
// is a [contracts.Error] with [contracts.CodeSourceUnavailable] whose message holds no secret of cfg.
func Dial(ctx context.Context, cfg Config, changed func()) (*Conn, error) {
	if cfg.URL != "" {
		return dialWeb(ctx, cfg, changed)
	}
	c, refused, err := dialProcess(ctx, cfg, changed, versionOfProcesses)
	if err != nil && refused && ctx.Err() == nil {
		c, _, err = dialProcess(ctx, cfg, changed, "")
	}
	return c, err
}

// dialProcess starts a server. refused says that the server answered the greeting with an error.
func dialProcess(ctx context.Context, cfg Config, changed func(), version string) (_ *Conn, refused bool, _ error) {
	p, err := start(cfg)
	if err != nil {
		return nil, false, cfg.unavailable(err.Error())
	}
	c := &Conn{cfg: cfg, process: p}
	answer := &capture{}
	c.session, err = client(changed).Connect(withCapture(ctx, answer), &stdio{process: p}, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		p.end()
		within(p.waited, drainTime) // to say how it ended, where that was the cause
		err = c.lost(ctx, "", answer.or(err))
		<-p.gone
		return nil, answer.failure() != nil, err
	}
	c.watch()
	return c, false, nil
}

func dialWeb(ctx context.Context, cfg Config, changed func()) (*Conn, error) {
	web, err := newWeb(cfg)
	if err != nil {
		return nil, cfg.unavailable(err.Error())
	}
	c := &Conn{cfg: cfg, web: web.base}
	var t sdk.Transport = &sdk.StreamableClientTransport{Endpoint: cfg.URL, HTTPClient: web.client(), MaxEventSize: -1} // what a web reads is bounded
	if cfg.SSE {
		t = &sdk.SSEClientTransport{Endpoint: cfg.URL, HTTPClient: web.client(), MaxEventSize: -1}
	}
	// The stream of the older SSE lives as long as the context that it was opened with.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end)
	c.session, err = client(changed).Connect(life, t, nil)
	if !stop() && err == nil {
		c.session.Close()
		err = ctx.Err()
	}
	if err != nil {
		end()
		web.base.CloseIdle()
		return nil, c.lost(ctx, "", err)
	}
	c.hangUp = end
	c.watch()
	return c, nil
}

func client(changed func()) *sdk.Client {
	return sdk.NewClient(&sdk.Implementation{Name: "toolcrib", Title: "Toolcrib", Version: "1"}, &sdk.ClientOptions{
		Capabilities:           &sdk.ClientCapabilities{},
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { changed() },
	})
}

func (c *Conn) watch() {
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.done = make(chan struct{})
	c.pages = map[string][]byte{}
	go func() {
		c.session.Wait()
		close(c.done)
	}()
}

// Done returns a channel that is closed once the connection cannot be used any more.
func (c *Conn) Done() <-chan struct{} { return c.done }

// closeLimit bounds how long Close waits for the farewell to an address.
const closeLimit = 6 * time.Second

// Close ends the connection, the calls on it and, where it is one, the process with its group. It waits for their end.
func (c *Conn) Close() {
	c.cancel()
	if c.process != nil {
		c.process.end()
	}
	closed := make(chan struct{})
	go func() {
		c.session.Close()
		close(closed)
	}()
	if c.process != nil {
		<-c.process.gone
		return
	}
	within(closed, closeLimit)
	c.hangUp()
	c.web.CloseIdle()
}

// unavailable returns the error for a server that cannot be reached, with why.
func (cfg Config) unavailable(why string) error {
	return contracts.Errorf(contracts.CodeSourceUnavailable, "%s", why)
}

const longestReason = 300

// Said is the cause of an error of a server that wrote something to standard error before it failed: its last
// words, bounded and without the secrets of its configuration. They are text from outside, for the operator and for no model.
type Said string

// Error returns the words.
func (s Said) Error() string { return string(s) }

// lost returns the error for a server that cannot be reached because of err; what it said last is its cause.
func (c *Conn) lost(ctx context.Context, doing string, err error) error {
	e := contracts.Errorf(contracts.CodeSourceUnavailable, "%s%s", doing, c.why(ctx, err))
	if c.process != nil {
		if said := c.process.stderr.last(); said != "" {
			e.Cause = Said(names.Line(c.cfg.redact(said), longestReason))
		}
	}
	return e
}

// why puts into words, without secrets, why err came up.
func (c *Conn) why(ctx context.Context, err error) string {
	var b strings.Builder
	how := ""
	if c.process != nil {
		how = c.process.how()
	}
	switch refusal, refused := errors.AsType[*refusal](err); {
	case refused:
		b.WriteString(refusal.Error())
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		b.WriteString("the server did not answer in time")
	case how != "":
		fmt.Fprintf(&b, "the server ended (%s)", how)
	default:
		b.WriteString(plain(err))
	}
	return names.Line(c.cfg.redact(b.String()), longestReason)
}

// redact takes what may be a secret out of a text.
func (cfg Config) redact(s string) string {
	const shortest = 6 // what is shorter is hardly a secret, and would make the text unreadable
	hide := func(v string) {
		if len(v) >= shortest {
			s = strings.ReplaceAll(s, v, "***")
		}
	}
	for _, v := range append([]string{cfg.URL}, cfg.Secrets...) {
		hide(v)
	}
	for _, values := range []map[string]string{cfg.Env, cfg.Headers} {
		for _, v := range values {
			hide(v)
			for _, part := range strings.Fields(v) { // "Bearer …"
				hide(part)
			}
		}
	}
	return s
}
