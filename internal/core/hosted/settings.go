package hosted

import (
	"fmt"

	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// NATS returns what the file says of the server and of the plugins that connect to an embedded one, references looked up in environ, which is as [os.Environ] gives it. Where it names none, the URL is empty.
func NATS(c *config.Config, environ []string) (bus.Config, error) {
	refs := config.Environ(environ)
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
