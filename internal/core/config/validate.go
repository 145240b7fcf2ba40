package config

import (
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/toolcrib/toolcrib/internal/core/policy"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// Check returns everything that stands against serving c as it is now, as [Problems], or nil.
// Beyond what [Parse] refuses, this is what command-line flags can change: an address that
// others can reach needs a tenant with keys or oidc.
func (c *Config) Check() error {
	r := c.origin
	c.validate(&r)
	usable := false
	for _, t := range c.Tenants {
		usable = usable || t.usable()
	}
	switch {
	case !isAddress(c.Listen) || usable:
	case !isLoopbackAddress(c.Listen):
		r.add("listen", "%s can be reached by others: it needs tenants with keys or oidc, or an address such as %s", c.Listen, DefaultListen)
	case len(c.Tenants) > 0:
		r.add("tenants", "no tenant has keys or oidc, so nobody could use one; without tenants, no key is needed on loopback")
	}
	return r.err()
}

// validate reports values that are wrong by themselves or contradict each other.
func (c *Config) validate(r *report) {
	if !isAddress(c.Listen) {
		r.add("listen", "is %q; want host:port with a port from 0 to 65535", clip(c.Listen))
	}
	validatePublicURL(r, c.PublicURL)
	if c.OTel.Endpoint != "" && !isHTTP(c.OTel.Endpoint) {
		r.add("otel.endpoint", "is not an http or https URL")
	}
	c.NATS.validate(r)
	c.validateGuests(r)
	c.Index.validate(r)
	validateLayers(r, "policies", c.Policies)
	c.Network.validate(r, "network")
	validateServers(r, "mcpServers", c.MCPServers)
	c.Plugins.validate(r, "plugins")
	validateHooks(r, "hooks", c.Hooks)
	validateProfiles(r, "profiles", c.Profiles)
	c.validateTenants(r)
	if len(r.problems) == 0 {
		c.validatePolicies(r)
	}
}

func (c *Config) validateTenants(r *report) {
	if len(c.Tenants) == 0 {
		return
	}
	local := func(key string, given bool, place string) {
		if given {
			r.add(key, "belongs to tenant local and cannot stand beside tenants; move it to tenants.local.%s", place)
		}
	}
	local("mcpServers", c.MCPServers != nil, "sources")
	local("plugins", c.Plugins.OpenAPI != nil || c.Plugins.Bus != nil, "plugins")
	local("hooks", c.Hooks != nil, "hooks")
	local("admission", c.Admission != "", "admission")
	local("limits", c.Limits != Limits{}, "limits")
	local("profiles", c.Profiles != nil, "profiles")
	hashes := map[string]string{}
	for _, id := range slices.Sorted(maps.Keys(c.Tenants)) {
		at := join("tenants", string(id))
		if _, err := contracts.ParseTenantID(string(id)); err != nil {
			r.add(at, "is no name of a tenant; want 1 to 63 characters of a-z, 0-9 and '-', not beginning with '-'")
		}
		c.Tenants[id].validate(r, at, hashes)
		if o := c.Tenants[id].OIDC; o != nil {
			o.validate(r, join(at, "oidc"), c.Network.Private)
		}
	}
	c.validateIssuers(r)
}

func isAddress(s string) bool {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

func (n NATS) validate(r *report) {
	if !n.URL.IsZero() {
		return
	}
	if !n.Creds.IsZero() {
		r.add("nats.creds", "needs nats.url: the embedded server has no credentials")
	}
	if n.Replicas > 1 {
		r.add("nats.replicas", "is %d; the embedded server keeps 1: set nats.url for more", n.Replicas)
	}
}

func (i Index) validate(r *report) {
	if i.Backend != "typesense" {
		if !i.Typesense.URL.IsZero() || !i.Typesense.APIKey.IsZero() {
			r.add("index.typesense", "needs index.backend: typesense")
		}
		return
	}
	if i.Typesense.URL.IsZero() {
		r.add("index.typesense.url", "is missing; backend typesense needs it")
	}
	if i.Typesense.APIKey.IsZero() {
		r.add("index.typesense.apiKey", "is missing; backend typesense needs it")
	}
	if u, ok := i.Typesense.URL.literal(); ok && u != "" && !isHTTP(u) {
		r.add("index.typesense.url", "is not an http or https URL")
	}
}

func (t Tenant) validate(r *report, path string, hashes map[string]string) {
	names := map[string]bool{}
	for i, k := range t.Keys {
		at := index(join(path, "keys"), i)
		if names[k.Name] {
			r.add(at+".name", "is %q, as that of another key of the tenant", clip(k.Name))
		}
		names[k.Name] = true
		k.validate(r, at, hashes)
	}
	if t.ToolSearchManaged && t.ToolSearch.Choice == ToolSearchUnset {
		r.add(join(path, "toolSearchManaged"), "needs a toolSearch of the tenant")
	}
	validateServers(r, join(path, "sources"), t.Sources)
	t.Plugins.validate(r, join(path, "plugins"))
	validateHooks(r, join(path, "hooks"), t.Hooks)
	validateLayers(r, join(path, "policies"), t.Policies)
	for i, l := range t.Policies {
		if l.Level == "global" {
			r.add(index(join(path, "policies"), i)+".level", "is global, which holds for all tenants; move the layer to policies at the top")
		}
	}
	validateProfiles(r, join(path, "profiles"), t.Profiles)
}

func validateLayers(r *report, path string, layers []PolicyLayer) {
	for i, l := range layers {
		at := index(path, i)
		named := l.Level != "" && l.Level != "global" && l.Level != "tenant"
		switch {
		case named && l.Name == "":
			r.add(at+".name", "is missing; a layer of level %s needs the name of its %[1]s", l.Level)
		case !named && l.Name != "":
			r.add(at+".name", "needs a level of profile, agent, sandbox or session")
		}
		validateGlobs(r, at, l.Allow, l.Deny)
		validateRules(r, join(at, "rules"), l.Rules)
	}
}

// validateRules reports what is wrong with single rules, and names that are taken.
func validateRules(r *report, path string, rules []PolicyRule) {
	names := map[string]int{}
	for i, rule := range rules {
		at := index(path, i)
		if rule.Tools != nil && len(rule.Tools) == 0 { // it would concern everything, which nobody means by it
			r.add(at+".tools", "is empty; leave it out for every tool")
		}
		if _, err := policy.Compile([]contracts.PolicyLayer{{Level: "global", Rules: []contracts.PolicyRule{rule.contract()}}}); err != nil {
			e := contracts.AsError(err)
			for _, f := range e.Fields {
				r.add(at+pathOf(strings.TrimPrefix(f.Field, "/0/rules/0")), "%s", ofRule(f.Message, rule.Name))
			}
			if e.Fields == nil {
				r.add(at, "%s", e.Message)
			}
		} else if err := policy.CheckAim([]contracts.PolicyLayer{{Rules: []contracts.PolicyRule{rule.contract()}}}); err != nil {
			for _, f := range contracts.AsError(err).Fields {
				r.add(at+pathOf(strings.TrimPrefix(f.Field, "/0/rules/0")), "%s", f.Message)
			}
		} else if j, taken := names[rule.Name]; taken {
			r.add(at+".name", "is %q, as that of %s", clip(rule.Name), index("rules", j))
		}
		names[rule.Name] = i
	}
}

// ofRule returns the message of a rule's error without the words for the rule, which the path names.
func ofRule(message, name string) string {
	message = strings.TrimPrefix(strings.TrimPrefix(message, "rule 1"), " ("+name+")")
	return strings.TrimLeft(message, ":, ")
}

// pathOf returns a JSON Pointer as the end of a path.
func pathOf(pointer string) string {
	var b strings.Builder
	for _, token := range strings.Split(pointer, "/")[1:] {
		if n, err := strconv.Atoi(token); err == nil {
			b.WriteString(index("", n))
			continue
		}
		b.WriteString("." + token)
	}
	return b.String()
}

// validatePolicies reports what is too much in all layers of a tenant together. It is for layers in which nothing else is wrong.
func (c *Config) validatePolicies(r *report) {
	for _, t := range c.TenantIDs() {
		at := "policies"
		if len(c.Tenants) > 0 {
			at = join(join("tenants", string(t)), at)
		}
		if _, err := policy.Compile(c.Layers(t)); err != nil {
			r.add(at, "cannot be used: %s", contracts.AsError(err).Message)
		}
	}
}

func validateProfiles(r *report, path string, profiles map[string]Profile) {
	for _, name := range slices.Sorted(maps.Keys(profiles)) {
		at := join(path, name)
		if !isWord(name) || len(name) > 64 {
			r.add(at, "is no name of a profile; want 1 to 64 letters, digits, '_' and '-'")
		}
		validateGlobs(r, at, profiles[name].Allow, profiles[name].Deny)
	}
}

func validateGlobs(r *report, path string, allow, deny []string) {
	if allow != nil && len(allow) == 0 { // it would allow everything, which nobody means by it
		r.add(path+".allow", `is empty; leave it out to allow everything, or deny "*" to allow nothing`)
	}
	for key, globs := range map[string][]string{"allow": allow, "deny": deny} {
		for i, g := range globs {
			if g == "" {
				r.add(index(join(path, key), i), "is empty; want a glob over tool ids such as mcp:github:*")
			} else if err := policy.CheckGlob(g); err != nil {
				r.add(index(join(path, key), i), "is no glob over tool ids: %v", err)
			}
		}
	}
}
