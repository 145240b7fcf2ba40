package config

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// TenantIDs returns the tenants, sorted: those of the file, or the tenant local alone where it has none.
func (c *Config) TenantIDs() []contracts.TenantID {
	if len(c.Tenants) == 0 {
		return []contracts.TenantID{contracts.LocalTenant}
	}
	return slices.Sorted(maps.Keys(c.Tenants))
}

// Tenant returns what holds for tenant t, with admission and every limit set, and whether there is such a tenant. Its maps and slices are those of c.
func (c *Config) Tenant(t contracts.TenantID) (Tenant, bool) {
	tenant, ok := c.Tenants[t]
	if len(c.Tenants) == 0 && t == contracts.LocalTenant {
		tenant, ok = Tenant{Sources: c.MCPServers, Plugins: c.Plugins, Hooks: c.Hooks, Admission: c.Admission, Limits: c.Limits, Profiles: c.Profiles}, true
	}
	if !ok {
		return Tenant{}, false
	}
	tenant.Admission = cmp.Or(tenant.Admission, string(contracts.AdmissionWarn))
	l := &tenant.Limits
	l.MaxTools = cmp.Or(l.MaxTools, 20_000)
	l.MaxRuns = cmp.Or(l.MaxRuns, 10_000)
	l.CallTimeoutMs = cmp.Or(l.CallTimeoutMs, 60_000)
	return tenant, true
}

// A Source is a configured source of a tenant.
type Source struct {
	ID        contracts.SourceID
	Name      string // as the file has it
	MCPServer        // with its defaults: Type is stdio, http or sse; Connection and Expose are set, and Loading with AlwaysLoad
}

// Sources returns the sources of tenant t that are not disabled, sorted by id; none for an unknown tenant.
func (c *Config) Sources(t contracts.TenantID) []Source {
	tenant, _ := c.Tenant(t)
	var out []Source
	for name, s := range tenant.Sources {
		if !s.Disabled {
			id := contracts.SourceID{Kind: contracts.SourceMCP, Owner: contracts.OwnerName(name)}
			out = append(out, Source{id, name, s.withDefaults()})
		}
	}
	slices.SortFunc(out, func(a, b Source) int { return strings.Compare(a.ID.Owner, b.ID.Owner) })
	return out
}

// Layers returns the policy layers that the file has for tenant t: those for all tenants, its own, and those of its profiles by name.
func (c *Config) Layers(t contracts.TenantID) []contracts.PolicyLayer {
	var out []contracts.PolicyLayer
	add := func(level string, layers []PolicyLayer) {
		for _, l := range layers {
			l.Level = cmp.Or(l.Level, level)
			out = append(out, l.contract())
		}
	}
	tenant, _ := c.Tenant(t)
	add("global", c.Policies)
	add("tenant", tenant.Policies)
	for _, name := range slices.Sorted(maps.Keys(tenant.Profiles)) {
		if p := tenant.Profiles[name]; len(p.Allow)+len(p.Deny) > 0 {
			add("profile", []PolicyLayer{{Name: name, Allow: p.Allow, Deny: p.Deny}})
		}
	}
	return out
}

// contract returns the layer as the services have it.
func (l PolicyLayer) contract() contracts.PolicyLayer {
	out := contracts.PolicyLayer{Level: l.Level, Name: l.Name, Allow: l.Allow, Deny: l.Deny}
	for _, r := range l.Rules {
		out.Rules = append(out.Rules, r.contract())
	}
	return out
}

func (r PolicyRule) contract() contracts.PolicyRule {
	out := contracts.PolicyRule{Name: r.Name, Effect: contracts.PolicyEffect(r.Effect), Tools: r.Tools, When: r.When}
	if a := r.Approval; a != nil {
		out.Approval = &contracts.ApprovalTerms{
			Title: a.Title, Description: a.Description, Severity: contracts.Severity(a.Severity), Deciders: a.Deciders, ExpiresIn: int64(a.ExpiresIn),
		}
	}
	return out
}
