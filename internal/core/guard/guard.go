// Package guard is the HTTP client for every address that a tenant, a document or
// a remote server can choose. It connects to public addresses only, unless it is told otherwise: the
// address is checked when the connection is made, after the name was looked up, so that
// neither a name that changes its address nor a redirect gets around it. Redirects, sizes
// and times are bounded, and a proxy is used only where one is given.
//
// It speaks HTTP/1.1, knows no protocol above it, sends nothing twice, and is not for what the operator alone addresses, such as the bus.
package guard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A Config says where a [Client] may go and how much it takes. The zero Config is for public addresses only.
type Config struct {
	// Private allows this machine and private networks as well: 127.0.0.0/8, 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 100.64.0.0/10,
	// ::1 and fc00::/7. It does not allow link-local addresses and those where clouds serve their metadata.
	Private bool
	// Allow are networks that are allowed besides, whatever they are.
	Allow []netip.Prefix
	// Named are URLs that the operator wrote down. Private holds for their hosts and ports, and where
	// a host is an address, that address is allowed.
	Named []*url.URL
	// Proxy is asked for every request; nil means none, whatever the environment says. The proxy itself may have any address. Behind it
	// only addresses that stand in a URL can be checked, not what a name stands for.
	Proxy *url.URL
	// Timeout bounds an exchange, reading of the body included; 0 means a minute, less than 0 that the context alone does.
	Timeout time.Duration
	// MaxBody bounds a body after decompression, in bytes; 0 means 32 MiB, less than 0 that the reader has to.
	MaxBody int64
	// Resolver looks names up; nil means that of the system.
	Resolver *net.Resolver
}

const (
	dialTimeout      = 10 * time.Second
	handshakeTimeout = 10 * time.Second
	defaultTimeout   = time.Minute
	defaultBody      = 32 << 20
	mostHeader       = 256 << 10
	idleTimeout      = 90 * time.Second
	idlePerHost      = 16
)

// A Client sends requests to where it may. Safe for concurrent use.
type Client struct {
	cfg   Config
	named map[string]netip.Prefix // by host:port in lower case; the zero prefix for a host that is a name
	base  *http.Transport
	http  http.Client
}

// New returns a client.
func New(cfg Config) *Client {
	c := &Client{cfg: cfg, named: map[string]netip.Prefix{}}
	for _, u := range cfg.Named {
		c.named[hostPort(u)] = ownAddress(u)
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true) // with HTTP/2, what keeps a request from being sent again would be seen as a body
	c.base = &http.Transport{
		DialContext: c.dial, Protocols: &protocols, TLSHandshakeTimeout: handshakeTimeout,
		MaxResponseHeaderBytes: mostHeader, IdleConnTimeout: idleTimeout, MaxIdleConnsPerHost: idlePerHost,
	}
	if cfg.Proxy != nil {
		c.base.Proxy = http.ProxyURL(cfg.Proxy)
		c.named[hostPort(cfg.Proxy)] = ownAddress(cfg.Proxy)
	}
	if c.cfg.Timeout == 0 {
		c.cfg.Timeout = defaultTimeout
	}
	if c.cfg.MaxBody == 0 {
		c.cfg.MaxBody = defaultBody
	}
	c.http = http.Client{Transport: roundTripper{c}, CheckRedirect: CheckRedirect, Timeout: max(0, c.cfg.Timeout)}
	return c
}

// Do sends r, as [http.Client.Do] does. An address or a redirect that is not allowed is an
// error that holds a [Refusal]. Reading more of the body than is allowed gives [ErrTooLarge].
func (c *Client) Do(r *http.Request) (*http.Response, error) { return c.http.Do(r) }

// Transport returns what sends single requests of the client, redirects not followed and [Config.Timeout] not applied, for a library that wants
// a client of its own: give that [CheckRedirect].
func (c *Client) Transport() http.RoundTripper { return roundTripper{c} }

// CloseIdle ends the connections that are not in use.
func (c *Client) CloseIdle() { c.base.CloseIdleConnections() }

// A Refusal is an error about something that a [Client] does not do. Its text is fit for the person whose address it is.
type Refusal struct {
	// Status is that of the answer whose redirect was not followed; 0 where nothing was sent.
	Status int
	why    string
}

// Error says what was refused and why.
func (r *Refusal) Error() string { return r.why }

func refuse(format string, args ...any) error { return &Refusal{why: fmt.Sprintf(format, args...)} }

// dial connects to addr, host and port, if the address that it turns out to have is allowed.
func (c *Client) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	own, named := c.named[strings.ToLower(addr)]
	allowed := c.cfg.Allow
	if own.IsValid() {
		allowed = append([]netip.Prefix{own}, allowed...)
	}
	if c.cfg.Proxy != nil && strings.EqualFold(addr, hostPort(c.cfg.Proxy)) {
		allowed = everything()
	}
	d := net.Dialer{
		Timeout: dialTimeout, Resolver: c.cfg.Resolver,
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil {
				return refuse("%s is no address that can be checked", address)
			}
			return check(to.Addr(), c.cfg.Private || named, allowed)
		},
	}
	return d.DialContext(ctx, network, addr)
}

// roundTripper sends single requests.
type roundTripper struct{ *Client }

// RoundTrip is that of [http.RoundTripper].
func (t roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "http" && r.URL.Scheme != "https" || r.URL.Host == "" {
		return nil, refuse("%s is no http or https URL", plainURL(r.URL))
	}
	if t.cfg.Proxy != nil {
		if a, err := netip.ParseAddr(r.URL.Hostname()); err == nil {
			_, named := t.named[hostPort(r.URL)]
			if err := check(a, t.cfg.Private || named, t.cfg.Allow); err != nil {
				return nil, err
			}
		}
	}
	resp, err := t.base.RoundTrip(once(r))
	if err == nil && t.cfg.MaxBody > 0 && resp.StatusCode != http.StatusSwitchingProtocols {
		resp.Body = &bounded{ReadCloser: resp.Body, left: t.cfg.MaxBody}
	}
	return resp, err
}

// once returns r in a form in which the transport does not send it again by itself when a connection breaks before the answer: it does so
// for methods that should change nothing and for requests with an idempotency key, and nobody has promised either here.
func once(r *http.Request) *http.Request {
	safe := slices.Contains([]string{"", http.MethodGet, http.MethodHead, http.MethodOptions}, r.Method)
	if !safe && (r.GetBody == nil || r.Header.Get("Idempotency-Key")+r.Header.Get("X-Idempotency-Key") == "") {
		return r
	}
	out := *r
	out.GetBody = nil
	if safe && (r.Body == nil || r.Body == http.NoBody) {
		out.Body = io.NopCloser(strings.NewReader("")) // which is found to be empty, and not sent
	}
	return &out
}

// ErrTooLarge is what reading a body gives that is larger than [Config.MaxBody].
var ErrTooLarge = errors.New("the answer is too large")

// bounded is a body of which so many bytes may be read.
type bounded struct {
	io.ReadCloser
	left int64
}

// Read reads, and fails where the body turns out to be too large.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, ErrTooLarge
	}
	if int64(len(p)) > b.left+1 { // one more, to tell a body that just fits
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n - 1, ErrTooLarge
	}
	return n, err
}

// hostPort returns host and port of u in the form that a dialler gets.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "80"
		if u.Scheme == "https" {
			port = "443"
		}
	}
	return strings.ToLower(net.JoinHostPort(u.Hostname(), port))
}

// ownAddress returns the host of u as a network of one address, the zero prefix where it is a name.
func ownAddress(u *url.URL) netip.Prefix {
	a, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return netip.Prefix{}
	}
	a = a.Unmap().WithZone("")
	return netip.PrefixFrom(a, a.BitLen())
}

func everything() []netip.Prefix {
	return []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)}
}

// plainURL returns u without what may be secret in it.
func plainURL(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
