package gateway

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A Config says where the service listens and whom it lets in. The zero value serves the
// tenant local on 127.0.0.1:7420, with nobody who may administer it.
type Config struct {
	// Listen is a host:port; "" means 127.0.0.1:7420. Without Tenants it must be a loopback address.
	Listen string
	// Listener takes the place of Listen; it must be a TCP one. The service closes it.
	Listener net.Listener
	// PublicURL is where clients reach the service, without a path; "" means http and the address that it listens on.
	PublicURL string
	// Tenants are those of a hosted deployment, each with its keys and its issuer: every request needs a key or a token. Empty
	// means that there is one tenant, local, and that runs and calls need no credential.
	Tenants map[contracts.TenantID]Tenant
	// AdminToken is the credential for everything in tenant local, the text of DATA/admin.token. "" lets
	// nobody administer it. Not used with Tenants.
	AdminToken string
	// Network says which addresses, besides public ones and those that are configured, issuers may lead to.
	Network config.Network
	// Environ is the environment that references of Network are looked up in, as [os.Environ] gives it.
	Environ []string
	// CallTimeout is how long a call may take; 0 means 60 s.
	CallTimeout time.Duration
	// RunLifetime is when a run expires that says nothing about it; 0 means 24 h.
	RunLifetime time.Duration
	// SessionIdle is how long an MCP session may go without a request before it ends; 0 means 30 min.
	SessionIdle time.Duration
	// MaxSessions is how many MCP sessions there can be at once; 0 means 1000. One more ends the oldest idle
	// session of the tenant that has the most.
	MaxSessions int
	// Version is what the API and MCP say that the server is; "" means "dev".
	Version string
}

// A Tenant is what the service needs to know of one tenant.
type Tenant struct {
	Keys        []Key
	OIDC        *config.OIDC  // the issuer whose tokens it takes; nil for none
	CallTimeout time.Duration // 0 means that of [Config]
}

// A Key is a credential of a tenant.
type Key struct {
	Name   string         // for records and logs
	Hash   contracts.Hash // of the key, see [contracts.HashOf]; hex digits of either case
	Scopes []string       // what the key may do: runs, approve, admin, read
	Until  time.Time      // from when on it no longer works; zero for never
}

// FromConfig returns what the product's configuration file says, with the environment as [os.Environ] gives it. AdminToken, Listener and Version are left to the caller.
func FromConfig(c *config.Config, environ []string) Config {
	out := Config{Listen: c.Listen, PublicURL: c.PublicURL, Network: c.Network, Environ: environ}
	if len(c.Tenants) == 0 {
		local, _ := c.Tenant(contracts.LocalTenant)
		out.CallTimeout = time.Duration(local.Limits.CallTimeoutMs) * time.Millisecond
		return out
	}
	out.Tenants = map[contracts.TenantID]Tenant{}
	for _, id := range c.TenantIDs() {
		t, _ := c.Tenant(id)
		tenant := Tenant{OIDC: t.OIDC, CallTimeout: time.Duration(t.Limits.CallTimeoutMs) * time.Millisecond}
		for _, k := range t.Keys {
			if !k.Disabled {
				tenant.Keys = append(tenant.Keys, Key{Name: k.Name, Hash: contracts.Hash(k.Hash), Scopes: k.Scopes, Until: k.Until()})
			}
		}
		out.Tenants[id] = tenant
	}
	return out
}

func (c Config) withDefaults() Config {
	c.Listen = cmp.Or(c.Listen, config.DefaultListen)
	c.CallTimeout = cmp.Or(c.CallTimeout, time.Minute)
	c.RunLifetime = cmp.Or(c.RunLifetime, 24*time.Hour)
	c.SessionIdle = cmp.Or(c.SessionIdle, 30*time.Minute)
	c.MaxSessions = cmp.Or(c.MaxSessions, 1000)
	c.Version = cmp.Or(c.Version, "dev")
	return c
}

// callTimeout returns how long a call of tenant t may take.
func (c Config) callTimeout(t contracts.TenantID) time.Duration {
	return cmp.Or(c.Tenants[t].CallTimeout, c.CallTimeout)
}

// check returns an error for a key that could never let anybody in.
func (k Key) check(t contracts.TenantID) error {
	if b, err := hex.DecodeString(string(k.Hash)); err != nil || len(b) != 32 {
		return contracts.Errorf(contracts.CodeInvalid, "key %q of tenant %s: its hash is no SHA-256 of 64 hex digits", k.Name, t)
	}
	for _, s := range k.Scopes {
		if !slices.Contains(scopes(), s) {
			return contracts.Errorf(contracts.CodeInvalid, "key %q of tenant %s: scope %q; want runs, approve, admin or read", k.Name, t, s)
		}
	}
	return nil
}

// listen returns the listener of cfg, where cfg may listen there.
func listen(ctx context.Context, cfg Config) (net.Listener, error) {
	if cfg.Listener != nil {
		if err := mayListen(cfg, cfg.Listener.Addr()); err != nil {
			return nil, err
		}
		return cfg.Listener, nil
	}
	addr, err := net.ResolveTCPAddr("tcp", cfg.Listen)
	if err != nil {
		return nil, contracts.Errorf(contracts.CodeInvalid, "listen %q: %w", cfg.Listen, err)
	}
	if err := mayListen(cfg, addr); err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(ipText(addr), strconv.Itoa(addr.Port)))
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", cfg.Listen, err)
	}
	return l, nil
}

func ipText(a *net.TCPAddr) string {
	if a.IP == nil {
		return ""
	}
	return (&net.IPAddr{IP: a.IP, Zone: a.Zone}).String()
}

// mayListen refuses to serve without credentials where others than this machine can connect.
func mayListen(cfg Config, a net.Addr) error {
	addr, ok := a.(*net.TCPAddr)
	if !ok {
		return contracts.Errorf(contracts.CodeInvalid, "listen %q: want a TCP address", a)
	}
	if len(cfg.Tenants) == 0 && !addr.IP.IsLoopback() {
		return contracts.Errorf(contracts.CodeInvalid, "listen %q: others than this machine could connect, and no credentials are configured; want a loopback address such as %s, or tenants with keys or oidc", a, config.DefaultListen)
	}
	return nil
}
