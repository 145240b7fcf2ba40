package gateway

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/internal/core/guard"
	"github.com/toolcrib/toolcrib/internal/core/issuer"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// issuers are those whose tokens are credentials. Not changed once made; safe for concurrent use.
type issuers struct {
	byURL map[string]*trusted
}

// A trusted issuer serves some tenants.
type trusted struct {
	*issuer.Issuer
	tenants []trust
}

// A trust is what a tenant makes of the tokens of its issuer.
type trust struct {
	tenant contracts.TenantID
	config.OIDC
	keys []string // names of the tenant's keys: no token may claim to be one
}

// newIssuers returns the issuers of cfg, nil for none. None of them is asked for anything yet.
func newIssuers(cfg Config, log *slog.Logger) (*issuers, error) {
	out := &issuers{byURL: map[string]*trusted{}}
	for t, tenant := range cfg.Tenants {
		if tenant.OIDC == nil {
			continue
		}
		o := *tenant.OIDC
		from := out.byURL[o.Issuer]
		if from == nil {
			client, err := issuerClient(cfg, o)
			if err != nil {
				return nil, err
			}
			from = &trusted{Issuer: issuer.New(issuer.Config{
				URL: o.Issuer, KeysURL: o.JWKSURL, Algorithms: o.Algorithms, Skew: time.Duration(o.Skew) * time.Second, Client: client, Log: log,
			})}
			out.byURL[o.Issuer] = from
		}
		for _, other := range from.tenants {
			if o.TenantClaim == "" || o.TenantClaim != other.TenantClaim || o.ValueOf(t) == other.ValueOf(other.tenant) {
				return nil, contracts.Errorf(contracts.CodeInvalid, "tenants %s and %s: the tokens of issuer %q could be of both; want one tenantClaim with two values", other.tenant, t, o.Issuer)
			}
		}
		mine := trust{tenant: t, OIDC: o}
		for _, k := range tenant.Keys {
			mine.keys = append(mine.keys, k.Name)
		}
		from.tenants = append(from.tenants, mine)
	}
	if len(out.byURL) == 0 {
		return nil, nil
	}
	return out, nil
}

// issuerClient returns what an issuer is asked with: it may be anywhere that the operator named, and lead to public addresses.
func issuerClient(cfg Config, o config.OIDC) (*guard.Client, error) {
	to, err := cfg.Network.Guard(config.Environ(cfg.Environ))
	if err != nil {
		return nil, contracts.Errorf(contracts.CodeInvalid, "network.proxy: %w", err)
	}
	for _, text := range []string{o.Issuer, o.JWKSURL} {
		if u, err := url.Parse(text); err == nil && u.Host != "" {
			to.Named = append(to.Named, u)
		}
	}
	to.Timeout = issuerWithin
	return guard.New(to), nil
}

// issuerWithin bounds a request to an issuer.
const issuerWithin = 5 * time.Second

// identify returns who a token is of. What it says is believed once its issuer is known to have said so, and only about tenants of that issuer.
func (i *issuers) identify(ctx context.Context, text string) (principal, error) {
	token, err := issuer.Parse(text)
	if err != nil {
		return principal{}, err
	}
	from := i.byURL[token.Issuer]
	if from == nil {
		return principal{}, refuseToken("its issuer is not trusted here")
	}
	claims, err := from.Verify(ctx, token)
	if err != nil {
		return principal{}, err
	}
	at := slices.IndexFunc(from.tenants, func(t trust) bool {
		return t.TenantClaim == "" || claims.Text(t.TenantClaim) == t.ValueOf(t.tenant)
	})
	if at < 0 {
		return principal{}, refuseToken("it is of no tenant that its issuer serves here")
	}
	return from.tenants[at].principal(claims)
}

func refuseToken(format string, args ...any) error {
	return contracts.Errorf(contracts.CodeUnauthenticated, "the token is refused: %s", fmt.Sprintf(format, args...))
}

// principal returns who a token of the tenant's is of.
func (t trust) principal(c issuer.Claims) (principal, error) {
	if !slices.ContainsFunc(c.Audience, func(a string) bool { return slices.Contains(t.Audiences, a) }) {
		return principal{}, refuseToken("it is for another audience")
	}
	claim := cmp.Or(t.PrincipalClaim, "sub")
	name := c.Text(claim)
	if name == "" || len(name) > longestLabel || !printable(name) {
		return principal{}, refuseToken("its claim %s names no principal; want 1 to %d bytes of printable text", claim, longestLabel)
	}
	if slices.Contains(t.keys, name) {
		return principal{}, refuseToken("its claim %s is the name of a key", claim)
	}
	return principal{tenant: t.tenant, name: name, scopes: t.allowed(c), until: c.Expires}, nil
}

// allowed returns the scopes that a token has.
func (t trust) allowed(c issuer.Claims) (out []string) {
	for _, claim := range t.Claims() {
		for _, word := range c.Words(claim) {
			out = append(out, t.meaning(word)...)
		}
		if len(c.Words(claim)) > 0 {
			break
		}
	}
	return out
}

// meaning returns the scopes that a word stands for.
func (t trust) meaning(word string) []string {
	if t.Scopes != nil {
		return t.Scopes[word]
	}
	if slices.Contains(scopes(), word) {
		return []string{word}
	}
	return nil
}
