package config

import "github.com/toolcrib/toolcrib/pkg/contracts"

// Supported refuses settings that the file may have and that no service of this build honours, rather than passing over them.
func Supported(c *Config) error {
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
