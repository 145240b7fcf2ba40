package config

import (
	"cmp"
	"encoding/hex"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A Key is an API key of a tenant.
type Key struct {
	Name     string   `json:"name" doc:"Names the key in records and logs, and its bearer as principal; unique in the tenant."`
	Hash     string   `json:"hash" doc:"SHA-256 of the key, 64 hex digits. The key itself stands nowhere."`
	Scopes   []string `json:"scopes" enum:"runs,approve,admin,read" doc:"What the key may do, at least one."`
	Expires  string   `json:"expires,omitempty" doc:"From when on the key no longer works: a date such as 2027-03-01, at 0 h UTC, or a time such as 2027-03-01T12:00:00Z. Default: it works until it is removed."`
	Disabled bool     `json:"disabled,omitempty" doc:"Revokes the key and keeps its name. Default false."`
}

// Until returns from when on the key no longer works; zero for never.
func (k Key) Until() time.Time {
	t, _ := parseTime(k.Expires)
	return t
}

// parseTime reads a date or a time with its zone.
func parseTime(s string) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// An OIDC says whose tokens a tenant takes, and what they mean.
type OIDC struct {
	Issuer         string              `json:"issuer" doc:"The issuer as its tokens name it (iss), an https URL. http is for this machine, or with network.private."`
	Audiences      []string            `json:"audiences" doc:"A token must be for one of these (aud): for MCP clients, the URL of the MCP endpoint as they have it."`
	JWKSURL        string              `json:"jwksUrl,omitempty" doc:"Where the issuer's keys are. Default: what its discovery document says, at ISSUER/.well-known/openid-configuration."`
	Algorithms     []string            `json:"algorithms,omitempty" enum:"RS256,RS384,RS512,PS256,PS384,PS512,ES256,ES384,ES512,EdDSA" doc:"Algorithms that its tokens may be signed with. Default: all of these."`
	Skew           int                 `json:"skew,omitempty" min:"1" max:"300" doc:"Seconds that its clock may differ. Default 30."`
	PrincipalClaim string              `json:"principalClaim,omitempty" doc:"The claim that names the principal. It must be one that people cannot choose. Default sub."`
	ScopesClaim    string              `json:"scopesClaim,omitempty" doc:"The claim that says what the bearer may do: a list, or words in one text. Dots lead into objects, as in realm_access.roles. Default: scope, or scp."`
	Scopes         map[string][]string `json:"scopes,omitempty" enum:"runs,approve,admin,read" doc:"What each value of that claim allows. Default: runs, approve, admin and read allow what they are."`
	TenantClaim    string              `json:"tenantClaim,omitempty" doc:"The claim that names the tenant. Needed where the issuer serves several tenants. Default: all of its tokens are of this tenant."`
	TenantValue    string              `json:"tenantValue,omitempty" doc:"What tenantClaim says of this tenant. Default: the tenant's id."`
	Advertise      bool                `json:"advertise,omitempty" doc:"Whether everybody may learn of this issuer where the deployment has others too, so that MCP clients find it. Default false."`
}

// Claims returns the claims that say what the bearer may do; the first that a token has counts.
func (o OIDC) Claims() []string {
	if o.ScopesClaim != "" {
		return []string{o.ScopesClaim}
	}
	return []string{"scope", "scp"}
}

// usable reports whether anybody could use the tenant.
func (t Tenant) usable() bool {
	return t.OIDC != nil || slices.ContainsFunc(t.Keys, func(k Key) bool { return !k.Disabled })
}

func (k Key) validate(r *report, path string, hashes map[string]string) {
	if k.Name == "" {
		r.add(path+".name", "is empty")
	}
	if len(k.Scopes) == 0 {
		r.add(path+".scopes", "is empty; want some of runs, approve, admin, read")
	}
	if _, ok := parseTime(k.Expires); !ok && k.Expires != "" {
		r.add(path+".expires", "is %q; want a date such as 2027-03-01, or a time such as 2027-03-01T12:00:00Z", clip(k.Expires))
	}
	if b, err := hex.DecodeString(k.Hash); err != nil || len(b) != 32 || hex.EncodeToString(b) != k.Hash { // the value may be a key by mistake
		r.add(path+".hash", "is not the SHA-256 of a key: want 64 digits 0-9 and a-f")
		return
	}
	if other, taken := hashes[k.Hash]; taken {
		r.add(path+".hash", "is also that of %s: a key belongs to one tenant", other)
	}
	hashes[k.Hash] = path
}

// validate reports what is wrong with o by itself; plain says whether http is good enough.
func (o OIDC) validate(r *report, path string, plain bool) {
	validateIssuerURL(r, join(path, "issuer"), o.Issuer, false, plain)
	if o.JWKSURL != "" {
		validateIssuerURL(r, join(path, "jwksUrl"), o.JWKSURL, true, plain)
	}
	if len(o.Audiences) == 0 || slices.Contains(o.Audiences, "") {
		r.add(join(path, "audiences"), "has none, or an empty one; a token must be for somebody, such as the URL of the MCP endpoint")
	}
	if o.TenantValue != "" && o.TenantClaim == "" {
		r.add(join(path, "tenantValue"), "needs tenantClaim")
	}
	for _, word := range slices.Sorted(maps.Keys(o.Scopes)) {
		if word == "" || len(o.Scopes[word]) == 0 {
			r.add(join(join(path, "scopes"), word), "allows nothing; want some of runs, approve, admin, read")
		}
	}
}

func validateIssuerURL(r *report, path, text string, query, plain bool) {
	u, err := url.Parse(text)
	switch {
	case err != nil || !isHTTP(text) || u.User != nil || u.RawQuery != "" && !query || u.Fragment != "":
		r.add(path, "is no https URL, or has a user, query or fragment in it") // it may hold a password
	case u.Scheme == "http" && !plain && !isLoopback(u.Hostname()):
		r.add(path, "is %q; want https: with http anybody between could make tokens (http is for this machine, or with network.private)", clip(text))
	}
}

// validateIssuers reports tenants whose tokens could be taken for each other's, and settings of one issuer that contradict each other.
func (c *Config) validateIssuers(r *report) {
	type claimant struct {
		at string
		o  OIDC
	}
	first := map[string]claimant{}
	values := map[[2]string]string{}
	for _, id := range c.TenantIDs() {
		o := c.Tenants[id].OIDC
		if o == nil || o.Issuer == "" {
			continue
		}
		at := join(join("tenants", string(id)), "oidc")
		other, shared := first[o.Issuer]
		value := [2]string{o.Issuer, o.ValueOf(id)}
		switch {
		case !shared:
			first[o.Issuer] = claimant{at, *o}
		case o.TenantClaim == "" || o.TenantClaim != other.o.TenantClaim:
			r.add(at+".tenantClaim", "must be set, and the same for all tenants of issuer %q, which is that of %s too: their tokens could not be told apart", clip(o.Issuer), other.at)
		case values[value] != "":
			r.add(at+".tenantValue", "is %q, as that of %s", clip(value[1]), values[value])
		case o.JWKSURL != other.o.JWKSURL || o.Skew != other.o.Skew || !slices.Equal(o.Algorithms, other.o.Algorithms):
			r.add(at, "has another jwksUrl, skew or algorithms than %s, whose issuer is the same", other.at)
		}
		values[value] = at
	}
	if len(first) > 0 && c.PublicURL == "" && !isLoopbackAddress(c.Listen) {
		r.add("publicUrl", "is missing; with oidc, clients are told where they are: want the URL by which they reach listen, such as https://crib.example")
	}
}

// ValueOf returns what tenantClaim says of tenant id.
func (o OIDC) ValueOf(id contracts.TenantID) string { return cmp.Or(o.TenantValue, string(id)) }

func isLoopbackAddress(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	return err == nil && isLoopback(host)
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

// validatePublicURL checks where clients are told that they are.
func validatePublicURL(r *report, text string) {
	u, err := url.Parse(text)
	if text != "" && (err != nil || !isHTTP(text) || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "") {
		r.add("publicUrl", "is %q; want scheme and host alone, such as https://crib.example", clip(text))
	}
}
