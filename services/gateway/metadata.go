package gateway

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/toolcrib/toolcrib/internal/core/config"
)

// metadataPath is where a client that has no token finds who gives one (RFC 9728).
const metadataPath = "/.well-known/oauth-protected-resource"

// metadata tells clients where to get tokens. It is for everybody, so it names an issuer only where that tells nothing
// about tenants: where there is no other, or where it is to be advertised.
type metadata struct {
	url     string // where clients reach the service
	issuers []string
	words   map[string]string // what a client asks its issuer for to get each scope; empty where that is not the same for all
}

// newMetadata returns the metadata of a service that listens at addr, nil where it takes no tokens.
func newMetadata(cfg Config, addr net.Addr) *metadata {
	m := &metadata{url: strings.TrimSuffix(cfg.PublicURL, "/")}
	if m.url == "" {
		m.url = "http://" + addr.String()
	}
	all, advertised := map[string]bool{}, map[string]bool{}
	var asked []map[string]string
	for _, t := range cfg.Tenants {
		if o := t.OIDC; o != nil {
			all[o.Issuer] = true
			advertised[o.Issuer] = advertised[o.Issuer] || o.Advertise
			asked = append(asked, scopeWords(*o))
		}
	}
	if len(all) == 0 {
		return nil
	}
	for _, issuer := range slices.Sorted(maps.Keys(all)) {
		if len(all) == 1 || advertised[issuer] {
			m.issuers = append(m.issuers, issuer)
		}
	}
	if !slices.ContainsFunc(asked, func(w map[string]string) bool { return !reflect.DeepEqual(w, asked[0]) }) {
		m.words = asked[0]
	}
	return m
}

// scopeWords returns the OAuth scope that gets each scope of ours, none where these come from another claim.
func scopeWords(o config.OIDC) map[string]string {
	out := map[string]string{}
	if o.ScopesClaim != "" {
		return out
	}
	for _, s := range scopes() {
		if o.Scopes == nil {
			out[s] = s
		}
		for _, word := range slices.Sorted(maps.Keys(o.Scopes)) {
			if slices.Contains(o.Scopes[word], s) && out[s] == "" {
				out[s] = word
			}
		}
	}
	return out
}

// ServeHTTP answers with the metadata of the resource whose path follows that of the metadata.
func (m *metadata) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource:               m.url + strings.TrimPrefix(r.URL.EscapedPath(), metadataPath),
		AuthorizationServers:   m.issuers,
		ScopesSupported:        slices.Compact(slices.Sorted(maps.Values(m.words))),
		BearerMethodsSupported: []string{"header"},
		ResourceName:           "Toolcrib",
	}).ServeHTTP(w, r)
}

// challenge returns what is told of the resource that r is for: where its metadata is, and the scope that would do.
func (m *metadata) challenge(r *http.Request, needed []string) string {
	resource := ""
	if path := r.URL.EscapedPath(); path == "/mcp" || strings.HasPrefix(path, "/mcp/") {
		resource = path
	}
	text := fmt.Sprintf(`, resource_metadata=%q`, m.url+metadataPath+resource)
	if len(needed) > 0 && m.words[needed[0]] != "" {
		text += fmt.Sprintf(`, scope=%q`, m.words[needed[0]])
	}
	return text
}
