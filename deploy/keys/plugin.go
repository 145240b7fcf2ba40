package keys

import (
	"fmt"
	"strings"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A Plugin is a plugin on the bus, which has a key of its own.
type Plugin struct {
	Tenant contracts.TenantID
	ID     contracts.PluginID
}

// ParsePlugin reads TENANT.NAME.
func ParsePlugin(s string) (Plugin, error) {
	tenant, name, _ := strings.Cut(s, ".")
	t, err := contracts.ParseTenantID(tenant)
	if err != nil {
		return Plugin{}, fmt.Errorf("plugin %q: want TENANT.NAME: %w", s, err)
	}
	id, err := contracts.ParsePluginID(name)
	if err != nil {
		return Plugin{}, fmt.Errorf("plugin %q: want TENANT.NAME: %w", s, err)
	}
	return Plugin{t, id}, nil
}

// File returns the path of the plugin's key in a directory.
func (p Plugin) File(dir string) string { return File(dir, string(p.Tenant)+"."+string(p.ID)) }

// User makes the plugin's key, where it is missing, in a directory that [Make] made, and returns the plugin's user as the
// server's configuration has it. It holds no secret.
func (p Plugin) User(dir string) (string, error) {
	public, err := key(p.File(dir))
	if err != nil {
		return "", fmt.Errorf("the key of the plugin %s.%s: %w", p.Tenant, p.ID, err)
	}
	publish, subscribe := contracts.PluginPermissions(p.Tenant, p.ID)
	quoted := func(subjects []string) string { return `"` + strings.Join(subjects, `", "`) + `"` }
	return fmt.Sprintf(`      # The plugin %s of tenant %s.
      {
        nkey: %s
        permissions: {
          publish: { allow: [%s] }
          subscribe: { allow: [%s] }
          allow_responses: { max: 10000, expires: "2h" }
        }
      }
`, p.ID, p.Tenant, public, quoted(publish), quoted(subscribe)), nil
}

// pluginsHere begins the line of the server's configuration behind which users of plugins belong.
const pluginsHere = "# Plugins on the bus:"

// WithUsers returns the server's configuration with more users, each as [Plugin.User] returns it.
func WithUsers(conf string, users ...string) (string, error) {
	before, rest, here := strings.Cut(conf, pluginsHere)
	line, after, ok := strings.Cut(rest, "\n")
	if !here || !ok {
		return "", fmt.Errorf("the server's configuration has no line %q", pluginsHere)
	}
	return before + pluginsHere + line + "\n" + strings.Join(users, "\n") + after, nil
}
