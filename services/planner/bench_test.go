package planner

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// many returns n tools in sources of a hundred each.
func (c *crib) many(t contracts.TenantID, n int) {
	c.t.Helper()
	for s := range n / 100 {
		source := fmt.Sprintf("mcp:server%03d", s)
		var list []contracts.Tool
		for i := range 100 {
			x := contracts.Tool{
				ID: contracts.ToolID(fmt.Sprintf("%s:do_thing_%03d", source, i)), Name: fmt.Sprintf("do_thing_%03d", i),
				Description: fmt.Sprintf("Does thing %d of server %d, and says in a sentence or two what it is good for and when not to use it.", i, s),
				InputSchema: json.RawMessage(`{"type":"object","properties":{"what":{"type":"string","description":"What to do it to"},"how":{"enum":["well","badly"]},"count":{"type":"integer","minimum":1}},"required":["what"]}`),
				Bytes:       420, Tokens: 100,
			}
			x.Hash = x.ContentHash()
			list = append(list, x)
		}
		c.list(t, source, list...)
	}
}

// A run of 10,000 tools is planned in a moment, with client tools that are compared to all of them.
func TestPlanTenThousand(t *testing.T) {
	c := startCrib(t, Config{})
	c.many(acme, 10_000)
	c.policy(acme, deny("*:do_thing_013", "mcp:server0[0-4]7:*"))
	q := contracts.RunRequest{ClientTools: c.clientTools(acme, tools("client:client", "open_file", "save_file")...)}
	r := c.open(acme, q)
	if want := 95*99 + 2; r.Plan.Catalogue.Size != want {
		t.Errorf("the run has %d tools, want %d", r.Plan.Catalogue.Size, want)
	}
	if took := r.Planned.Sub(r.Created); took > 10*time.Second {
		t.Errorf("planning took %v", took)
	}
	if s := c.surface(acme, r); len(s.Tools) != 3 {
		t.Errorf("%d tools are shown, want 3", len(s.Tools))
	}
}

// BenchmarkPlan plans a run over 10,000 tools: cold, as the first of its policy, and warm, as every other.
func BenchmarkPlan(b *testing.B) {
	for _, mode := range []string{`"tools"`, `"direct"`} {
		c := startCrib(b, Config{})
		c.many(acme, 10_000)
		c.policy(acme, deny("*:do_thing_013", "mcp:server0[0-4]7:*"))
		own := c.clientTools(acme, tools("client:client", "open_file")...)
		plan := func(b *testing.B) {
			r := &contracts.Run{ID: contracts.NewRunID(), Created: time.Now(), Request: contracts.RunRequest{ToolSearch: json.RawMessage(mode), ClientTools: own}}
			p, err := c.s.draft(b.Context(), acme, r, nil)
			if err != nil || p.Catalogue.Size < 9000 {
				b.Fatal(p, err)
			}
		}
		plan(b) // has the listings read
		b.Run(mode+"/cold", func(b *testing.B) {
			for b.Loop() {
				c.s.views.Purge()
				plan(b)
			}
		})
		b.Run(mode+"/warm", func(b *testing.B) {
			for b.Loop() {
				plan(b)
			}
		})
		c.check(c.stop())
		runtime.GC()
	}
}
