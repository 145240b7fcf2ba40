package planner

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/internal/core/control"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func choose(t *testing.T, raw string) config.ToolSearch {
	t.Helper()
	v, err := config.ParseToolSearch(json.RawMessage(raw))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestDecide(t *testing.T) {
	const tools, direct, code, directory = contracts.SurfaceTools, contracts.SurfaceDirect, contracts.SurfaceCode, contracts.SurfaceDirectory
	portable := []contracts.SurfaceMode{tools, direct}
	all := []contracts.SurfaceMode{code, directory, tools, direct}
	tests := []struct {
		name     string
		choice   string // JSON
		surfaces []contracts.SurfaceMode
		facts    facts
		want     contracts.SurfaceMode
		winner   string
		// effects are the conditions that have an effect, with a part of it.
		effects map[string]string
	}{
		{
			"unset defers", `null`, portable, facts{tools: 50, deferred: 100}, tools, conditionSurface,
			map[string]string{conditionToolSearch: "defer", conditionSurface: "tools takes its place", conditionNative: "portable", conditionWindow: "assumed"},
		},
		{
			"true defers", `true`, portable, facts{tools: 50, window: 1000}, tools, conditionSurface,
			map[string]string{conditionToolSearch: "defer", conditionSurface: "tools takes its place", conditionNative: "portable"},
		},
		{
			"false is direct", `false`, portable, facts{tools: 50, window: 1000, deferred: 999}, direct, conditionToolSearch,
			map[string]string{conditionToolSearch: "every tool is direct"},
		},
		{
			"tools", `"tools"`, portable, facts{tools: 50, window: 1000}, tools, conditionToolSearch,
			map[string]string{conditionToolSearch: "surface tools", conditionNative: "portable"},
		},
		{
			"direct", `"direct"`, portable, facts{tools: 50, window: 1000, deferred: 999}, direct, conditionToolSearch,
			map[string]string{conditionToolSearch: "every tool is direct"},
		},
		{
			"code where it is", `"code"`, all, facts{tools: 50, window: 1000}, code, conditionToolSearch,
			map[string]string{conditionToolSearch: "surface code", conditionNative: "portable"},
		},
		{
			"unset where code is", `null`, all, facts{tools: 50, window: 1000}, code, conditionToolSearch,
			map[string]string{conditionToolSearch: "surface code", conditionNative: "portable"},
		},
		{
			"no sandbox is up", `null`, all, facts{tools: 50, window: 1000, sandbox: "no sandbox answers"}, tools, conditionSurface,
			map[string]string{conditionToolSearch: "surface code", conditionSurface: "tools takes its place", conditionNative: "portable"},
		},
		{
			"no sandbox is up and tools is not offered", `null`, []contracts.SurfaceMode{code, direct}, facts{tools: 50, window: 1000, sandbox: "x"}, direct, conditionSurface,
			map[string]string{conditionToolSearch: "surface code", conditionSurface: "direct takes its place"},
		},
		{
			"code where it is not", `"code"`, portable, facts{tools: 50, window: 1000}, tools, conditionSurface,
			map[string]string{conditionToolSearch: "surface code", conditionSurface: "tools takes its place", conditionNative: "portable"},
		},
		{
			"directory where it is not", `"directory"`, portable, facts{tools: 50, window: 1000}, tools, conditionSurface,
			map[string]string{conditionToolSearch: "surface directory", conditionSurface: "tools takes its place", conditionNative: "portable"},
		},
		{
			"only direct is there", `"code"`, []contracts.SurfaceMode{direct}, facts{tools: 50, window: 1000}, direct, conditionSurface,
			map[string]string{conditionToolSearch: "surface code", conditionSurface: "direct takes its place"},
		},
		{
			"auto, one token below the threshold", `"auto"`, portable, facts{tools: 50, window: 1000, deferred: 99}, direct, conditionDefinitions,
			map[string]string{
				conditionToolSearch: "direct below 10 %", conditionSurface: "tools takes its place", conditionNative: "portable",
				conditionDefinitions: "less than 10 %",
			},
		},
		{
			"auto, exactly at the threshold", `"auto"`, portable, facts{tools: 50, window: 1000, deferred: 100}, tools, conditionDefinitions,
			map[string]string{
				conditionToolSearch: "direct below 10 %", conditionSurface: "tools takes its place", conditionNative: "portable",
				conditionDefinitions: "at least 10 %",
			},
		},
		{
			"auto in a window that is not known", `"auto"`, portable, facts{tools: 50, deferred: 19_999}, direct, conditionDefinitions,
			map[string]string{
				conditionToolSearch: "direct below 10 %", conditionSurface: "tools takes its place", conditionNative: "portable", conditionWindow: "assumed",
				conditionDefinitions: "less than 10 %",
			},
		},
		{
			"auto at the threshold of the assumed window", `"auto"`, portable, facts{tools: 50, deferred: 20_000}, tools, conditionDefinitions,
			map[string]string{
				conditionToolSearch: "direct below 10 %", conditionSurface: "tools takes its place", conditionNative: "portable", conditionWindow: "assumed",
				conditionDefinitions: "at least 10 %",
			},
		},
		{
			"a threshold that is no whole number of tokens", `"auto:7"`, portable, facts{tools: 50, window: 999, deferred: 69}, direct, conditionDefinitions,
			map[string]string{
				conditionToolSearch: "direct below 7 %", conditionSurface: "tools takes its place", conditionNative: "portable", conditionDefinitions: "less than 7 %",
			},
		},
		{
			"auto:0 always defers", `"auto:0"`, portable, facts{tools: 50, window: 1000}, tools, conditionDefinitions,
			map[string]string{
				conditionToolSearch: "direct below 0 %", conditionSurface: "tools takes its place", conditionNative: "portable", conditionDefinitions: "at least 0 %",
			},
		},
		{
			"auto:100 of a full window", `"auto:100"`, portable, facts{tools: 50, window: 1000, deferred: 1000}, tools, conditionDefinitions,
			map[string]string{
				conditionToolSearch: "direct below 100 %", conditionSurface: "tools takes its place", conditionNative: "portable", conditionDefinitions: "at least 100 %",
			},
		},
		{
			"settings of auto with a mode", `{"auto":50,"mode":"directory"}`, all, facts{tools: 50, window: 1000, deferred: 500}, directory, conditionDefinitions,
			map[string]string{conditionToolSearch: "else the surface directory", conditionNative: "portable", conditionDefinitions: "at least 50 %"},
		},
		{
			"the search tool is denied", `"tools"`, portable, facts{tools: 50, window: 1000, deferred: 999, denied: []string{control.Search}}, direct, conditionSearchTools,
			map[string]string{conditionToolSearch: "defer", conditionSearchTools: "there is no search, so every tool is direct"},
		},
		{
			"code is not there and tools is denied", `true`, portable, facts{tools: 50, window: 1000, deferred: 999, denied: []string{control.Search}}, direct, conditionSurface,
			map[string]string{conditionToolSearch: "defer", conditionSurface: "direct takes its place, for policy denies what tools needs"},
		},
		{
			"code needs none of the three", `true`, all, facts{tools: 50, window: 1000, denied: []string{control.Search, control.Describe, control.Call}}, code, conditionToolSearch,
			map[string]string{conditionToolSearch: "defer", conditionNative: "portable"},
		},
		{
			"code is denied", `"code"`, all, facts{tools: 50, window: 1000, denied: []string{control.Code}}, tools, conditionSearchTools,
			map[string]string{conditionToolSearch: "defer", conditionSearchTools: "tools takes the place of code", conditionNative: "portable"},
		},
		{
			"code and one of the three are denied", `"code"`, all, facts{tools: 50, window: 1000, denied: []string{control.Call, control.Code}}, direct, conditionSearchTools,
			map[string]string{conditionToolSearch: "defer", conditionSearchTools: "there is no search"},
		},
		{
			"code is denied where tools is wished", `"tools"`, all, facts{tools: 50, window: 1000, denied: []string{control.Code}}, tools, conditionToolSearch,
			map[string]string{conditionToolSearch: "defer", conditionNative: "portable"},
		},
		{
			"the search tool is denied and nobody wants it", `false`, portable, facts{tools: 50, window: 1000, denied: []string{control.Search}}, direct, conditionToolSearch,
			map[string]string{conditionToolSearch: "every tool is direct"},
		},
		{
			"denied search beats auto", `"auto"`, portable, facts{tools: 50, window: 1000, deferred: 100, denied: []string{control.Code, control.Call}}, direct, conditionSearchTools,
			map[string]string{conditionToolSearch: "direct below", conditionSearchTools: "every tool is direct"},
		},
		{
			"9 tools: a hint", `"tools"`, portable, facts{tools: 9, window: 1000}, tools, conditionToolSearch,
			map[string]string{conditionToolSearch: "surface tools", conditionNative: "portable", conditionTools: "direct may cost less"},
		},
		{
			"10 tools: no hint", `"tools"`, portable, facts{tools: 10, window: 1000}, tools, conditionToolSearch,
			map[string]string{conditionToolSearch: "surface tools", conditionNative: "portable"},
		},
		{
			"pending sources of a direct run", `"direct"`, portable, facts{tools: 10, window: 1000, pending: 2}, direct, conditionToolSearch,
			map[string]string{conditionToolSearch: "every tool is direct", conditionPending: "not among the direct ones"},
		},
		{
			"pending sources", `"tools"`, portable, facts{tools: 10, window: 1000, pending: 2}, tools, conditionToolSearch,
			map[string]string{conditionToolSearch: "surface tools", conditionNative: "portable", conditionPending: "once they are listed"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := tt.facts
			f.choice, f.level = effective([]level{{"run", choose(t, tt.choice)}})
			f.surfaces = tt.surfaces
			d := decide(f)
			if d.Surface != tt.want || d.Winner != tt.winner || d.Native {
				t.Errorf("decide() = %s because of %s (native %v), want %s because of %s", d.Surface, d.Winner, d.Native, tt.want, tt.winner)
			}
			var names []string
			for _, c := range d.Conditions {
				names = append(names, c.Name)
				part, want := tt.effects[c.Name]
				if want != (c.Effect != "") || !strings.Contains(c.Effect, part) {
					t.Errorf("condition %s = %v has the effect %q, want %q in it", c.Name, c.Value, c.Effect, part)
				}
			}
			if diff := cmp.Diff([]string{
				conditionToolSearch, conditionLevel, conditionSearchTools, conditionSurface, conditionNative,
				conditionWindow, conditionDefinitions, conditionTools, conditionPending,
			}, names); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecisionValues(t *testing.T) {
	f := facts{level: "run", window: 1000, tools: 3, deferred: 70, pending: 1, surfaces: []contracts.SurfaceMode{contracts.SurfaceTools, contracts.SurfaceDirect}}
	f.choice = choose(t, `"auto:5"`)
	f.choice.Mode = contracts.SurfaceTools
	want := map[string]any{
		conditionToolSearch: "auto:5", conditionLevel: "run", conditionSearchTools: "allowed", conditionSurface: "tools", conditionNative: false,
		conditionWindow: 1000, conditionDefinitions: 70, conditionTools: 3, conditionPending: 1,
	}
	got := map[string]any{}
	for _, c := range decide(f).Conditions {
		got[c.Name] = c.Value
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	for _, tt := range []struct {
		surfaces []contracts.SurfaceMode
		sandbox  string
		want     string
	}{
		{nil, "", "code: unavailable: not offered here"},
		{possible(), "", "code"},
		{possible(), "it burns", "code: unavailable: it burns"},
	} {
		d := decide(facts{choice: choose(t, `"code"`), surfaces: tt.surfaces, sandbox: tt.sandbox})
		if got := condition(d, conditionSurface).Value; got != tt.want {
			t.Errorf("surfaces %q, sandbox %q: %s = %v, want %s", tt.surfaces, tt.sandbox, conditionSurface, got, tt.want)
		}
	}
	for raw, want := range map[string]any{`null`: "unset", `true`: true, `false`: false, `"direct"`: "direct", `{"maxSearchLimit":5}`: "code"} {
		if got := choiceValue(choose(t, raw)); got != want {
			t.Errorf("choiceValue(%s) = %v, want %v", raw, got, want)
		}
	}
}

func TestLevels(t *testing.T) {
	word := func(s string) config.ToolSearch { return choose(t, s) }
	cfg := Config{ToolSearch: word(`"tools"`), Tenants: map[contracts.TenantID]Tenant{
		"plain":   {ToolSearch: word(`"direct"`), Profiles: map[string]config.ToolSearch{"coder": word(`"auto:3"`)}},
		"managed": {ToolSearch: word(`"directory"`), Managed: true, Profiles: map[string]config.ToolSearch{"coder": word(`"auto:3"`)}},
		"lax":     {Managed: true},
	}}
	env := cfg
	env.Environment = word(`"auto:4"`)
	for _, tt := range []struct {
		name    string
		cfg     Config
		tenant  contracts.TenantID
		run     string
		profile string
		value   any
		level   string
	}{
		{"nothing said", Config{}, "x", `null`, "", "unset", "default"},
		{"global", cfg, "x", `null`, "coder", "tools", "global"},
		{"tenant beats global", cfg, "plain", `null`, "", "direct", "tenant"},
		{"profile beats tenant", cfg, "plain", `null`, "coder", "auto:3", "profile"},
		{"environment beats profile", env, "plain", `null`, "coder", "auto:4", "environment"},
		{"run beats environment", env, "plain", `"auto:5"`, "coder", "auto:5", "run"},
		{"managed beats run", env, "managed", `"auto:5"`, "coder", "directory", "managed"},
		{"managed without a value", env, "lax", `"auto:5"`, "coder", "auto:5", "run"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			choice, level := effective(tt.cfg.levels(tt.tenant, word(tt.run), tt.profile))
			if got := choiceValue(choice); got != tt.value || level != tt.level {
				t.Errorf("effective() = %v by %s, want %v by %s", got, level, tt.value, tt.level)
			}
		})
	}
}
