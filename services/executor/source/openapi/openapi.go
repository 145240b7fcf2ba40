// Package openapi is a source whose tools are the operations of an HTTP service
// that an OpenAPI 3 document describes. It makes tools of a document, requests of calls, and results of answers.
//
// It keeps nothing between calls: how an operation is called stands in its tool. It renews
// no credentials, runs no callbacks or webhooks, and decides nothing about policy, retries or limits of a run.
package openapi

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/guard"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A Config says which document, which of its operations, and how the service is reached.
// Either URL or File is set.
type Config struct {
	File string // path of the document

	Variables map[string]string // values of variables in the servers of the document
	// Include and Exclude choose operations by globs over operation ids, "METHOD /path" or "tag:name"; an empty Include means all.
	Include, Exclude []string
	Rename           map[string]string // names of tools by operation id or "METHOD /path"
	Deprecated       bool              // take deprecated operations
	LooseOutputs     bool              // promise nothing about answers

	// Network says which addresses are allowed besides public ones. Those of URL and Server are, where OwnAddresses is set.
	Network      guard.Config
	OwnAddresses bool

	// Resolve returns what references of the configuration stand for. It is asked before each call and each listing. Its errors name no value.
	Resolve func() (Target, error)
}

// A Target is the part of a [Config] that may hold secrets.
type Target struct {
	URL     string            // of the document; "" with a File
	Server  string            // takes the place of all servers of the document; "" for those
	Headers map[string]string // of every request
	Auth    map[string]string // credentials by the name of their security scheme
	Secrets []string          // texts of these that are secrets; those of Auth are in any case
}

// A Conn reaches one service. Safe for concurrent use.
type Conn struct {
	cfg    Config
	filter *filter
	client *guard.Client
}

// fetchTimeout bounds loading a document where the context has no deadline.
const fetchTimeout = time.Minute

// Dial returns a connection; nothing is sent. The error is a [contracts.Error] with [contracts.CodeSourceUnavailable].
func Dial(cfg Config) (*Conn, error) {
	target, err := cfg.Resolve()
	if err != nil {
		return nil, unavailable("%w", err)
	}
	f, err := newFilter(cfg.Include, cfg.Exclude)
	if err != nil {
		return nil, unavailable("%w", err)
	}
	network := cfg.Network
	network.Timeout, network.MaxBody = -1, mostAnswer
	for key, s := range map[string]string{"url": target.URL, "server": target.Server} {
		if s == "" {
			continue
		}
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, unavailable("%s: not an http or https URL", key)
		}
		if cfg.OwnAddresses {
			network.Named = append(network.Named, u)
		}
	}
	return &Conn{cfg: cfg, filter: f, client: guard.New(network)}, nil
}

// Done returns nil: the connection can be used for ever.
func (c *Conn) Done() <-chan struct{} { return nil }

// Close ends the connections that are not in use.
func (c *Conn) Close() { c.client.CloseIdle() }

// List loads the document and returns its operations as tools, sorted by name, and the operations that cannot be tools. Ids,
// hashes and sizes are the caller's to fill in. The error is a [contracts.Error] with [contracts.CodeSourceUnavailable].
func (c *Conn) List(ctx context.Context) (*contracts.Listing, []contracts.SkippedTool, error) {
	target, err := c.cfg.Resolve()
	if err != nil {
		return nil, nil, unavailable("%w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	d, err := c.load(ctx, target)
	if err != nil {
		return nil, nil, unavailable("%s", target.redact(err.Error()))
	}
	l, skipped, err := c.tools(ctx, d, target)
	if err != nil {
		return nil, nil, unavailable("%s", target.redact(err.Error()))
	}
	return l, skipped, nil
}

func unavailable(format string, args ...any) error {
	return contracts.Errorf(contracts.CodeSourceUnavailable, format, args...)
}

// secrets returns what is never to be seen of the target, in the forms that it may have on the wire.
func (t Target) secrets() []string {
	var out []string
	add := func(s string) {
		for _, part := range append(strings.Fields(s), s) { // "Bearer …"
			out = append(out, part, url.QueryEscape(part), escapeAll(part), strings.Trim(string(encode(part)), `"`))
		}
	}
	for _, v := range t.Secrets {
		u, err := url.Parse(v)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" {
			add(v)
			continue
		}
		add(u.RawQuery) // the rest of a URL is no secret
		if password, ok := u.User.Password(); ok {
			add(password)
		}
	}
	for _, v := range t.Auth {
		add(v)
		if user, password, ok := strings.Cut(v, ":"); ok {
			add(password)
			add(basic(user, password))
		}
	}
	slices.SortFunc(out, func(a, b string) int { return len(b) - len(a) }) // one within another last
	return slices.Compact(out)
}

// redact takes secrets out of a message. What is very short is hardly a secret, and would make it unreadable.
func (t Target) redact(s string) string {
	const shortest = 6
	for _, secret := range t.secrets() {
		if len(secret) >= shortest {
			s = strings.ReplaceAll(s, secret, "***")
		}
	}
	return s
}
