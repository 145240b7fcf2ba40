package gateway

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// The scopes of a credential.
const (
	scopeRuns    = "runs"    // open runs, call, look at them
	scopeApprove = "approve" // decide on approvals
	scopeAdmin   = "admin"   // sources and policies
	scopeRead    = "read"    // look at everything
)

// scopes returns all scopes.
func scopes() []string { return []string{scopeRuns, scopeApprove, scopeAdmin, scopeRead} }

// A principal is who makes a request. Its tenant comes from the credential and from nothing else.
type principal struct {
	tenant contracts.TenantID
	name   string // unique in the tenant
	scopes []string
	until  time.Time // from when on the credential no longer holds; zero for never
}

// same reports whether both are the same principal, by whatever credential.
func (p principal) same(o principal) bool { return p.tenant == o.tenant && p.name == o.name }

// during returns a context of ctx that ends when the credential does, for what lasts longer than a request should.
func (p principal) during(ctx context.Context) (context.Context, context.CancelFunc) {
	if p.until.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, p.until)
}

// may reports whether the principal has one of the scopes.
func (p principal) may(scopes []string) bool {
	return slices.ContainsFunc(scopes, func(s string) bool { return slices.Contains(p.scopes, s) })
}

type principalKey struct{}

func withPrincipal(ctx context.Context, p principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// principalOf returns who makes the request of ctx. A context without one is a mistake of ours, and
// panics: nothing is done for nobody.
func principalOf(ctx context.Context) principal {
	return ctx.Value(principalKey{}).(principal)
}

// A keyring knows all credentials. It is not changed once made.
type keyring struct {
	keys []credential
	// open is who a request without a credential comes from; nil where each needs one.
	open *principal
	// issuers are those whose tokens are credentials too; nil for none.
	issuers *issuers
}

type credential struct {
	sum [sha256.Size]byte
	who principal
}

func newKeyring(cfg Config, log *slog.Logger) (*keyring, error) {
	if len(cfg.Tenants) == 0 {
		k := &keyring{open: &principal{tenant: contracts.LocalTenant, name: "local", scopes: []string{scopeRuns}}}
		if cfg.AdminToken != "" {
			who := principal{tenant: contracts.LocalTenant, name: "admin", scopes: scopes()}
			k.keys = []credential{{sha256.Sum256([]byte(cfg.AdminToken)), who}}
		}
		return k, nil
	}
	trusted, err := newIssuers(cfg, log)
	if err != nil {
		return nil, err
	}
	k := &keyring{issuers: trusted}
	owners := map[contracts.Hash]contracts.TenantID{}
	for t, tenant := range cfg.Tenants {
		if _, err := contracts.ParseTenantID(string(t)); err != nil {
			return nil, err
		}
		for _, key := range tenant.Keys {
			if err := key.check(t); err != nil {
				return nil, err
			}
			hash := contracts.Hash(strings.ToLower(string(key.Hash)))
			if other, ok := owners[hash]; ok {
				return nil, contracts.Errorf(contracts.CodeInvalid, "key %q of tenant %s is a key of tenant %s already", key.Name, t, other)
			}
			owners[hash] = t
			c := credential{who: principal{t, key.Name, key.Scopes, key.Until}}
			hex.Decode(c.sum[:], []byte(hash))
			k.keys = append(k.keys, c)
		}
	}
	return k, nil
}

// authenticate returns who makes the request and checks that they have one of the scopes.
func (k *keyring) authenticate(r *http.Request, scopes []string) (principal, error) {
	who, err := k.identify(r)
	if err != nil {
		return principal{}, err
	}
	if who.may(scopes) {
		return who, nil
	}
	if k.open != nil && who.name == k.open.name {
		return principal{}, contracts.Errorf(contracts.CodeUnauthenticated, "this needs a credential: send the admin token as a bearer token")
	}
	return principal{}, contracts.Errorf(contracts.CodeForbidden, "the credential does not allow this: it needs the scope %s", strings.Join(scopes, " or "))
}

func (k *keyring) identify(r *http.Request) (principal, error) {
	headers := r.Header.Values("Authorization")
	if len(headers) == 0 && k.open != nil {
		return *k.open, nil
	}
	if len(headers) != 1 {
		return principal{}, contracts.Errorf(contracts.CodeUnauthenticated, "Authorization: want one header with a bearer token")
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "Bearer") || token == "" {
		return principal{}, contracts.Errorf(contracts.CodeUnauthenticated, "Authorization: want a bearer token")
	}
	sum := sha256.Sum256([]byte(token))
	var found *credential
	for i := range k.keys { // all of them, so that the time tells nothing
		if subtle.ConstantTimeCompare(sum[:], k.keys[i].sum[:]) == 1 {
			found = &k.keys[i]
		}
	}
	if found == nil {
		if k.issuers != nil && strings.Count(token, ".") == 2 {
			return k.issuers.identify(r.Context(), token)
		}
		return principal{}, contracts.Errorf(contracts.CodeUnauthenticated, "the credential is not known")
	}
	if until := found.who.until; !until.IsZero() && !time.Now().Before(until) {
		return principal{}, contracts.Errorf(contracts.CodeUnauthenticated, "the key expired at %s", until.UTC().Format(time.RFC3339))
	}
	return found.who, nil
}

// checkLocal refuses what a web page could make a browser send to a service of this machine that asks for no
// credential: a Host that is a name of somebody else's, pointed at this machine, or an Origin that is not of this machine.
func checkLocal(r *http.Request, port int) error {
	if host, p := splitHost(r.Host, "80"); !loopback(host) || p != strconv.Itoa(port) {
		return contracts.Errorf(contracts.CodeForbidden, "Host %q: want localhost, 127.0.0.1 or [::1], with port %d", clip(r.Host), port)
	}
	for _, origin := range r.Header.Values("Origin") {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || !loopback(u.Hostname()) {
			return contracts.Errorf(contracts.CodeForbidden, "Origin %q: want none, or one of this machine", clip(origin))
		}
	}
	return nil
}

// splitHost returns host and port of a Host header.
func splitHost(s, defaultPort string) (host, port string) {
	if h, p, err := net.SplitHostPort(s); err == nil {
		return h, p
	}
	return strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"), defaultPort
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// clip shortens untrusted text for a message.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
