package planner

import (
	"slices"

	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// defaultMaxTools is the limit of a run's tools where no other is configured.
const defaultMaxTools = 20_000

// A Config says what a Service plans by. The zero value serves tenants that have no
// policy of a file, no settings and the default limit. It must not change after [New].
type Config struct {
	// ToolSearch holds where neither the run nor the environment nor the run's profile or tenant chooses. Unset means: defer.
	ToolSearch config.ToolSearch
	// Environment is the operator's choice for this process; it stands between the run and its profile. Unset means none.
	Environment config.ToolSearch
	// Tenants is what is configured for single tenants. A tenant that is not in it is
	// served all the same, and has no policy layers of origin [contracts.PolicyFile].
	Tenants map[contracts.TenantID]Tenant
	// Surfaces are the surfaces that this deployment can give; nil means code, tools and direct. A run that wishes another gets
	// tools, and so does one that wishes code while no sandbox is up. direct is always among them. directory is refused by [New]:
	// this planner cannot build it.
	Surfaces []contracts.SurfaceMode
}

// A Tenant is what is configured for one tenant.
type Tenant struct {
	// Layers are the policy layers of origin [contracts.PolicyFile].
	Layers     []contracts.PolicyLayer
	ToolSearch config.ToolSearch
	// Managed has the tenant's ToolSearch beat those of runs, environment and profiles.
	Managed bool
	// Profiles holds the ToolSearch of each profile that has one.
	Profiles map[string]config.ToolSearch
	// MaxTools is the most tools that a run can hold; 0 means 20,000.
	MaxTools int
}

// FromConfig returns the planner's part of a configuration file. What c holds is shared, not copied.
func FromConfig(c *config.Config) Config {
	out := Config{ToolSearch: c.ToolSearch, Tenants: map[contracts.TenantID]Tenant{}}
	for _, id := range c.TenantIDs() {
		of, _ := c.Tenant(id)
		t := Tenant{
			Layers: c.Layers(id), ToolSearch: of.ToolSearch, Managed: of.ToolSearchManaged,
			MaxTools: of.Limits.MaxTools, Profiles: map[string]config.ToolSearch{},
		}
		for name, p := range of.Profiles {
			t.Profiles[name] = p.ToolSearch
		}
		out.Tenants[id] = t
	}
	return out
}

// check reports what New cannot serve.
func (c *Config) check() error {
	for _, m := range c.Surfaces {
		if !slices.Contains(possible(), m) {
			return contracts.Errorf(contracts.CodeInvalid, "surfaces: %q; want only some of %q", string(m), possible())
		}
	}
	for id, t := range c.Tenants {
		if _, err := contracts.ParseTenantID(string(id)); err != nil {
			return err
		}
		if t.MaxTools < 0 {
			return contracts.Errorf(contracts.CodeInvalid, "tenants.%s.maxTools: %d; want a positive number, or 0 for the default", id, t.MaxTools)
		}
	}
	return nil
}

// possible returns the surfaces that a planner can build.
func possible() []contracts.SurfaceMode {
	return []contracts.SurfaceMode{contracts.SurfaceCode, contracts.SurfaceTools, contracts.SurfaceDirect}
}

func (c *Config) surfaces() []contracts.SurfaceMode {
	if c.Surfaces == nil {
		return possible()
	}
	return append(slices.Clone(c.Surfaces), contracts.SurfaceDirect)
}

func (c *Config) offers(m contracts.SurfaceMode) bool { return slices.Contains(c.surfaces(), m) }

func (c *Config) maxTools(t contracts.TenantID) int {
	if n := c.Tenants[t].MaxTools; n > 0 {
		return n
	}
	return defaultMaxTools
}

// A level is a place where toolSearch can be set.
type level struct {
	name  string
	value config.ToolSearch
}

// levels returns the places where a run's toolSearch can be set, the one that beats all others first.
func (c *Config) levels(t contracts.TenantID, run config.ToolSearch, profile string) []level {
	tenant := c.Tenants[t]
	all := []level{
		{"run", run},
		{"environment", c.Environment},
		{"profile", tenant.Profiles[profile]},
		{"tenant", tenant.ToolSearch},
		{"global", c.ToolSearch},
	}
	if tenant.Managed {
		all = slices.Insert(all, 0, level{"managed", tenant.ToolSearch})
	}
	return all
}

// effective returns the toolSearch that holds and the level that chose it, "default" where none did.
func effective(levels []level) (config.ToolSearch, string) {
	values := make([]config.ToolSearch, len(levels))
	chosen := "default"
	for i, l := range slices.Backward(levels) {
		values[i] = l.value
		if l.value.Choice != config.ToolSearchUnset {
			chosen = l.name
		}
	}
	return config.EffectiveToolSearch(values...), chosen
}
