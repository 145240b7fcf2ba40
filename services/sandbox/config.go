package sandbox

import (
	"cmp"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A Config says how bodies are run. The zero value has the defaults and runs workers of this very executable.
type Config struct {
	// Worker is the command line of a worker process, which must call [Worker]; nil means this executable with the argument [WorkerCommand].
	Worker []string
	// CacheDir keeps the compiled engine between starts. What stands in it is trusted, so nobody else may write
	// there. "" means a temporary directory, at the price of some seconds at each start.
	CacheDir string
	// Workers is the most worker processes; 0 means twice the number of CPUs, at least 4. A worker holds bodies of one tenant.
	Workers int
	// Require names the layers of protection without which no worker may run, see [contracts.SandboxAnswer]; nil means seccomp, rlimits and no_new_privs.
	Require []string
	// Bodies is the most bodies that run or wait at once; 0 means 256. TenantBodies is the same for one tenant; 0 means a quarter of Bodies.
	Bodies, TenantBodies int
	// Queue is the most bodies of a tenant that stand in line for room; 0 means 256. One more is refused as rate limited.
	Queue int
	// QueueWait is how long a body may stand in line before it is refused; 0 means 20 s.
	QueueWait time.Duration
	// CallTimeout is how long a call of a body may take; 0 means 60 s. CallTimeouts has that of tenants with another.
	CallTimeout  time.Duration
	CallTimeouts map[contracts.TenantID]time.Duration
}

// FromConfig returns what the configuration file says for this service.
func FromConfig(c *config.Config) Config {
	out := Config{CallTimeouts: map[contracts.TenantID]time.Duration{}}
	for _, id := range c.TenantIDs() {
		t, _ := c.Tenant(id)
		out.CallTimeouts[id] = time.Duration(t.Limits.CallTimeoutMs) * time.Millisecond
	}
	return out
}

func (c Config) withDefaults() Config {
	c.Bodies = cmp.Or(c.Bodies, 256)
	c.TenantBodies = cmp.Or(c.TenantBodies, max(1, c.Bodies/4))
	c.Queue = cmp.Or(c.Queue, 256)
	c.QueueWait = cmp.Or(c.QueueWait, 20*time.Second)
	c.CallTimeout = cmp.Or(c.CallTimeout, time.Minute)
	return c
}

func (c *Config) callTimeout(t contracts.TenantID) time.Duration {
	return cmp.Or(c.CallTimeouts[t], c.CallTimeout)
}
