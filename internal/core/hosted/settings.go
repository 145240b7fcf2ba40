package hosted

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// Supported refuses settings that the file may have and that no service of this build honours, rather than passing over them.
func Supported(c *config.Config) error {
	refuse := func(path, value string) error {
		return contracts.Errorf(contracts.CodeInvalid, "%s: %s is not supported by this build; leave it out", path, value)
	}
	if c.Index.Backend == "typesense" {
		return refuse("index.backend", "typesense")
	}
	for _, id := range c.TenantIDs() {
		for _, s := range c.Sources(id) {
			if s.Expose == "bare" {
				return refuse("expose of source "+s.Name, "bare")
			}
		}
		for _, s := range c.OpenAPIs(id) {
			if s.Expose == "bare" {
				return refuse("expose of the service "+s.Name, "bare")
			}
		}
		if t := c.Tenants[id]; t.Limits.MaxRuns > 0 || c.Limits.MaxRuns > 0 {
			return refuse("limits.maxRuns", "a limit")
		}
	}
	return nil
}

// NATS returns what the file says of the server and of the plugins that connect to an embedded one, references looked up in environ, which is as [os.Environ] gives it. Where it names none, the URL is empty.
func NATS(c *config.Config, environ []string) (bus.Config, error) {
	refs := config.Resolver{ReadFile: os.ReadFile, Lookup: func(name string) (string, bool) { return lookup(environ, name) }}
	url, err := c.NATS.URL.Resolve(refs)
	if err != nil {
		return bus.Config{}, fmt.Errorf("nats.url: %w", err)
	}
	creds, err := c.NATS.Creds.Resolve(refs)
	if err != nil {
		return bus.Config{}, fmt.Errorf("nats.creds: %w", err)
	}
	out := bus.Config{URL: url, Creds: creds, Replicas: c.NATS.Replicas, Strict: c.NATS.Durability == "strict", Listen: c.NATS.Listen}
	guests, err := c.Guests(refs)
	if err != nil {
		return bus.Config{}, err
	}
	for _, g := range guests {
		publish, subscribe := contracts.PluginPermissions(g.Tenant, g.Plugin)
		out.Guests = append(out.Guests, bus.Guest{
			Name: string(g.Tenant) + "." + string(g.Plugin), Password: g.Password, Publish: publish, Subscribe: subscribe,
		})
	}
	return out, nil
}

// ToolSearch returns the mode that the environment wishes for in TOOL_SEARCH or ENABLE_TOOL_SEARCH, unset where it wishes for none.
func ToolSearch(environ []string) (config.ToolSearch, error) {
	for _, name := range []string{"TOOL_SEARCH", "ENABLE_TOOL_SEARCH"} {
		v, _ := lookup(environ, name)
		if v == "" {
			continue
		}
		raw, _ := json.Marshal(v)
		if v == "true" || v == "false" {
			raw = []byte(v)
		}
		t, err := config.ParseToolSearch(raw)
		if err != nil {
			return t, contracts.Errorf(contracts.CodeInvalid, "environment %s: %w", name, err)
		}
		return t, nil
	}
	return config.ToolSearch{}, nil
}

func lookup(environ []string, name string) (string, bool) {
	for _, kv := range environ {
		if k, v, _ := strings.Cut(kv, "="); k == name {
			return v, true
		}
	}
	return "", false
}
