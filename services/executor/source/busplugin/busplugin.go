// Package busplugin reaches plugins on the bus: processes of others that tell of their tools and run them as pkg/contracts and
// docs/plugins.md say. It lists and calls one plugin, of however many instances. It decides nothing about tools, keeps nothing and
// believes nothing: what a plugin sends is text from outside, and bounded.
package busplugin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/toolcrib/toolcrib/internal/core/names"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// Config says which plugin to reach.
type Config struct {
	Conn   *nats.Conn
	Tenant contracts.TenantID
	Plugin contracts.PluginID
	// Include and Exclude choose tools by globs over their names: those that some glob of Include matches, all where it is empty, and none of Exclude.
	Include, Exclude []string
}

// A Conn reaches one plugin. There is nothing to connect: whoever of its instances is there takes the next request. Safe for concurrent use. Close it.
type Conn struct {
	cfg     Config
	changed func()
	ctx     context.Context // ends with Close; calls end with it
	cancel  context.CancelFunc
}

// New returns a Conn. changed is called, and must return at once, when a call finds that the plugin is not as it is listed: nobody is there, or a tool is gone.
func New(cfg Config, changed func()) *Conn {
	ctx, cancel := context.WithCancel(context.Background())
	return &Conn{cfg, changed, ctx, cancel}
}

// Done returns nil: a plugin that is not there now may be in a moment.
func (c *Conn) Done() <-chan struct{} { return nil }

// Close ends the calls that are under way, as far as this side is concerned.
func (c *Conn) Close() { c.cancel() }

// bound returns ctx that also ends when the connection is closed.
func (c *Conn) bound(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// ErrAbsent is the cause of errors that say that no instance of the plugin is there. What was asked was sent to nobody.
var ErrAbsent = errors.New("no instance of the plugin is connected")

func unavailable(format string, args ...any) *contracts.Error {
	return contracts.Errorf(contracts.CodeSourceUnavailable, format, args...)
}

// unsent returns the error for a request that did not leave because of err.
func unsent(err error) *contracts.Error {
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return unavailable("%w", ErrAbsent)
	case errors.Is(err, nats.ErrMaxPayload):
		return unavailable("the request is larger than the NATS server allows")
	}
	return unavailable("nats: %w", err)
}

// takes reports whether the configuration lets a tool of that name through.
func (c *Conn) takes(name string) bool {
	return (len(c.cfg.Include) == 0 || matches(c.cfg.Include, name)) && !matches(c.cfg.Exclude, name)
}

func matches(globs []string, name string) bool {
	for _, g := range globs {
		if wildcard(g, name) {
			return true
		}
	}
	return false
}

// wildcard reports whether a glob matches all of s; '*' is any run of characters.
func wildcard(glob, s string) bool {
	parts := strings.Split(glob, "*")
	last := len(parts) - 1
	if last == 0 {
		return glob == s
	}
	s, ok := strings.CutPrefix(s, parts[0])
	if !ok {
		return false
	}
	for _, p := range parts[1:last] {
		_, after, found := strings.Cut(s, p)
		if !found {
			return false
		}
		s = after
	}
	return strings.HasSuffix(s, parts[last])
}

// longestMessage is how much is told of what a plugin says of a failure, in characters.
const longestMessage = 2000

// said returns the error that a plugin answered with.
func said(code contracts.Code, e *contracts.Error) *contracts.Error {
	text := e.Message
	if text == "" {
		text = string(e.Code)
	}
	return contracts.Errorf(code, "the plugin answered: %s", names.Line(text, longestMessage))
}

// protocol returns an error where v is a version of the protocol that is not spoken here.
func protocol(v int) error {
	if v != contracts.PluginProtocol {
		return fmt.Errorf("the plugin speaks version %d of the protocol; want %d", v, contracts.PluginProtocol)
	}
	return nil
}
