package gateway

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// The scopes of a credential.
const (
	scopeRuns    = "runs"    // open runs, call, look at them
	scopeApprove = "approve" // decide on approvals
	scopeAdmin   = "admin"   // sources and policies
	scopeRead    = "read"    // look at everything
)

// A principal is who makes a request. Its tenant comes from the credential and from nothing else.
type principal struct {
	tenant contracts.TenantID
	name   string
	scopes []string
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
}

type credential struct {
	sum [sha256.Size]byte
	who principal
}

func newKeyring(cfg Config) (*keyring, error) {
	if len(cfg.Tenants) == 0 {
		k := &keyring{open: &principal{contracts.LocalTenant, "local", []string{scopeRuns}}}
		if cfg.AdminToken != "" {
			all := []string{scopeRuns, scopeApprove, scopeAdmin, scopeRead}
			k.keys = []credential{{sha256.Sum256([]byte(cfg.AdminToken)), principal{contracts.LocalTenant, "admin", all}}}
		}
		return k, nil
	}
	k := &keyring{}
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
			c := credential{who: principal{t, key.Name, key.Scopes}}
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
		return principal{}, contracts.Errorf(contracts.CodeUnauthenticated, "the credential is not known")
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
