package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A BusPlugin is one plugin on the NATS server.
type BusPlugin struct {
	Plugin   string   `json:"plugin,omitempty" hint:"name,service" doc:"Name of the plugin on the NATS server, 1 to 64 characters of a-z, 0-9, _ and -. Default: the name here, in small letters."`
	Include  []string `json:"include,omitempty" hint:"allow,tools" doc:"Which of its tools to take: globs over their names. Default: all."`
	Exclude  []string `json:"exclude,omitempty" hint:"deny" doc:"Which of these to leave out, by such globs."`
	Password Secret   `json:"password,omitzero" hint:"token,secret" doc:"Password of at least 16 characters with which the plugin connects at nats.listen, as the user TENANT.PLUGIN. Default: it cannot; on a server of nats.url its user is that server's business."`

	AlwaysLoad       bool              `json:"alwaysLoad,omitempty" doc:"Whether its tools are always shown to the model, and planning waits for it. Default false."`
	Disabled         bool              `json:"disabled,omitempty" hint:"enabled" doc:"Whether the plugin is left out. Default false."`
	Timeout          int               `json:"timeout,omitempty" min:"100" max:"3600000" doc:"Time limit of a call, in milliseconds. Default: callTimeoutMs of the limits."`
	TrustAnnotations bool              `json:"trustAnnotations,omitempty" hint:"trust" doc:"Whether what the plugin says of its tools is believed, for retries and policy. Default false."`
	Loading          contracts.Loading `json:"loading,omitempty" enum:"direct,auto,deferred" doc:"Whether its tools are shown to the model at once. Default: what a farther level says; direct with alwaysLoad."`
}

// A BusSource is a configured plugin of a tenant on the bus.
type BusSource struct {
	ID        contracts.SourceID
	Name      string // as the file has it
	BusPlugin        // with its defaults: Plugin is set, and Loading with AlwaysLoad
}

// BusPlugins returns the plugins on the bus of tenant t that are not disabled, sorted by id; none for an unknown tenant.
func (c *Config) BusPlugins(t contracts.TenantID) []BusSource {
	tenant, _ := c.Tenant(t)
	var out []BusSource
	for name, p := range tenant.Plugins.Bus {
		if p.Disabled {
			continue
		}
		id := contracts.SourceID{Kind: contracts.SourcePlugin, Owner: contracts.OwnerName(name)}
		p.Plugin = cmp.Or(p.Plugin, id.Owner)
		if p.AlwaysLoad {
			p.Loading = cmp.Or(p.Loading, contracts.LoadingDirect)
		}
		out = append(out, BusSource{id, name, p})
	}
	slices.SortFunc(out, func(a, b BusSource) int { return strings.Compare(a.ID.Owner, b.ID.Owner) })
	return out
}

// A Guest is a plugin that may connect to the embedded server.
type Guest struct {
	Tenant   contracts.TenantID
	Plugin   contracts.PluginID
	Password string
}

// leastPassword is how many characters a guest's password has at least.
const leastPassword = 16

// A pass is a password of the file for a plugin, and what of the file has it.
type pass struct {
	tenant   contracts.TenantID
	plugin   string
	password Secret
	of       string // "the plugin ledger"
	path     string // "plugins.bus"
}

// passes returns the passwords of plugins and of hooks on the bus.
func (c *Config) passes() []pass {
	var out []pass
	for _, t := range c.TenantIDs() {
		for _, p := range c.BusPlugins(t) {
			if !p.Password.IsZero() {
				out = append(out, pass{t, p.Plugin, p.Password, "the plugin " + p.Name, "plugins.bus"})
			}
		}
		for _, h := range c.HooksOf(t) {
			if !h.Password.IsZero() {
				out = append(out, pass{t, h.Bus, h.Password, "the hook " + h.Name, "hooks"})
			}
		}
	}
	return out
}

// Guests returns the plugins, those that are hooks among them, that may connect at NATS.Listen, none where that is not set. The error names each password that cannot be had.
func (c *Config) Guests(r Resolver) ([]Guest, error) {
	if c.NATS.Listen == "" {
		return nil, nil
	}
	var out []Guest
	var errs []error
	for _, p := range c.passes() {
		password, err := p.password.Resolve(r)
		if err == nil && len(password) < leastPassword {
			err = fmt.Errorf("has fewer than %d characters", leastPassword)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("password of %s: %w", p.of, err))
		}
		out = append(out, Guest{p.tenant, contracts.PluginID(p.plugin), password})
	}
	return out, errors.Join(errs...)
}

// validateGuests checks where the embedded server listens, and whether that and the passwords of plugins go together.
func (c *Config) validateGuests(r *report) {
	const listen = "nats.listen"
	host, port, err := net.SplitHostPort(c.NATS.Listen)
	users := map[string]pass{}
	for _, p := range c.passes() {
		user := string(p.tenant) + "." + p.plugin
		if other, taken := users[user]; taken {
			r.add(p.path, "%s and %s both have a password for the plugin %s of tenant %s; leave one out", clip(other.of), clip(p.of), clip(p.plugin), p.tenant)
		}
		users[user] = p
	}
	passwords := len(users)
	switch {
	case c.NATS.Listen == "" && passwords > 0:
		r.add(c.passes()[0].path, "has a password, which needs nats.listen: otherwise the embedded server opens no port")
	case c.NATS.Listen == "":
	case !c.NATS.URL.IsZero():
		r.add(listen, "cannot stand beside nats.url: there is no embedded server then")
	case err != nil || !isAddress(c.NATS.Listen) || port == "0" || host == "localhost" || !isLoopback(host):
		r.add(listen, "is %q; want an address of this machine alone, such as 127.0.0.1:4222", clip(c.NATS.Listen))
	case passwords == 0:
		r.add(listen, "would let nobody in: no plugin under plugins.bus and no hook has a password")
	}
}

// validateBus checks the plugins on the bus, which share the owners of tools with the services of OpenAPI.
func (p Plugins) validateBus(r *report, path string) {
	at := join(path, "bus")
	all := slices.Sorted(maps.Keys(p.Bus))
	validateOwners(r, at, "plugin", all)
	services := map[string]string{}
	for name := range p.OpenAPI {
		services[contracts.OwnerName(name)] = name
	}
	for _, name := range all {
		owner := contracts.OwnerName(name)
		if other, taken := services[owner]; taken && owner != "" {
			r.add(join(at, name), "openapi has %q, which would be called %s too; rename one", clip(other), owner)
		}
		p.Bus[name].validate(r, join(at, name))
	}
}

func (p BusPlugin) validate(r *report, path string) {
	if _, err := contracts.ParsePluginID(p.Plugin); p.Plugin != "" && err != nil {
		r.add(join(path, "plugin"), "is %q; want 1 to 64 characters of a-z, 0-9, '_' and '-'", clip(p.Plugin))
	}
	if p.AlwaysLoad && p.Loading != "" && p.Loading != contracts.LoadingDirect {
		r.add(join(path, "loading"), "is %s, but alwaysLoad means direct", p.Loading)
	}
	for _, list := range []struct {
		key   string
		globs []string
	}{{"include", p.Include}, {"exclude", p.Exclude}} {
		if list.key == "include" && list.globs != nil && len(list.globs) == 0 {
			r.add(join(path, list.key), "is empty; leave it out to take all tools")
		}
		for i, g := range list.globs {
			if strings.TrimSpace(g) == "" {
				r.add(index(join(path, list.key), i), "is empty; want a glob such as list_*")
			}
		}
	}
}
