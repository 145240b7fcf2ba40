// Package stage is what the demonstrations of a hosted Toolcrib share: tenants with sources and
// keys, and the play of the one-process demo against a gateway, wherever that is.
package stage

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/toolcrib/toolcrib/cmd/toolcrib/demo"
	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A Tenant is a tenant with sources and keys.
type Tenant struct {
	// Servers are its MCP servers, each in the form that desktop clients use.
	Servers map[string]any
	// Plugins are its plugins as [demo.Plugins] returns them, nil for none.
	Plugins map[string]any

	id          contracts.TenantID
	user, admin string
}

// NewTenant returns a tenant with fresh keys and no servers.
func NewTenant(id contracts.TenantID) *Tenant {
	return &Tenant{Servers: map[string]any{}, id: id, user: rand.Text(), admin: rand.Text()}
}

// Client returns a client that may open runs and call, at the gateway of that URL.
func (t *Tenant) Client(url string) *client.Client { return client.New(url, t.user) }

// File returns the configuration file of services that serve the tenants, but for where things are.
func File(tenants ...*Tenant) map[string]any {
	key := func(name, key string, scopes ...string) map[string]any {
		return map[string]any{"name": name, "hash": contracts.HashOf([]byte(key)), "scopes": scopes}
	}
	all := map[contracts.TenantID]any{}
	for _, t := range tenants {
		tenant := map[string]any{
			"keys":    []any{key("agent", t.user, "runs", "read"), key("operator", t.admin, "runs", "read", "approve", "admin")},
			"sources": t.Servers,
		}
		if t.Plugins != nil {
			tenant["plugins"] = t.Plugins
		}
		all[t.id] = tenant
	}
	return map[string]any{
		"policies": []any{map[string]any{"level": "global", "deny": []string{string(demo.HiddenTool)}}},
		"tenants":  all,
	}
}

// Play does with a tenant's sources, which are those of the one-process demo, what that does. folder is the one that the filesystem server may use, "" for none.
func Play(ctx context.Context, t *Tenant, url, folder string, out io.Writer) error {
	return demo.Play(ctx, demo.Stage{
		Client: t.Client(url), Admin: client.New(url, t.admin), Out: out, Folder: folder,
		Sources: demo.IDs(slices.Sorted(maps.Keys(t.Servers)), t.Plugins != nil), Report: report,
	})
}

// report prints the short form of a run's report.
func report(w io.Writer, r *contracts.Report) error {
	_, err := fmt.Fprintf(w, "run %s: %d tools, %d searches, %d describes, %d calls; the model saw %d tokens in place of %d\n",
		r.State, r.Catalogue.Size, len(r.Searches), len(r.Describes), len(r.Calls), r.Seen.Tokens, r.Direct.Tokens)
	return err
}
