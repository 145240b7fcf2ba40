package config_test

import (
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func TestSupported(t *testing.T) {
	for file, about := range map[string]string{
		"mcpServers: {a: {command: x}}": "",
		"index: {backend: typesense, typesense: {url: 'http://127.0.0.1:1', apiKey: x}}": "index.backend",
		"limits: {maxRuns: 3}":                                                  "limits.maxRuns",
		"mcpServers: {a: {command: x, expose: bare}}":                           "source a",
		"plugins: {openapi: {a: {url: 'http://127.0.0.1:1', expose: bare}}}":    "service a",
		"mcpServers: {a: {command: x, expose: bare, disabled: true}}":           "",
		"tenants: {acme: {sources: {a: {command: x, expose: bare}}, keys: []}}": "source a",
	} {
		c, err := config.Parse([]byte(file), "toolcrib.yaml")
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		err = config.Supported(c)
		if about == "" && err != nil || about != "" && (contracts.CodeOf(err) != contracts.CodeInvalid || !strings.Contains(err.Error(), about)) {
			t.Errorf("%s = %v, want an error about %q", file, err, about)
		}
	}
}

func TestEnvironToolSearch(t *testing.T) {
	for _, tt := range []struct {
		environ string
		want    config.ToolSearch
		wrong   bool
	}{
		{"OTHER=true", config.ToolSearch{}, false},
		{"TOOL_SEARCH=", config.ToolSearch{}, false},
		{"TOOL_SEARCH=false", config.ToolSearch{Choice: config.ToolSearchFalse, Mode: contracts.SurfaceDirect}, false},
		{"ENABLE_TOOL_SEARCH=auto:7 TOOL_SEARCH=", config.ToolSearch{Choice: config.ToolSearchAuto, Percent: 7}, false},
		{"ENABLE_TOOL_SEARCH=auto:7 TOOL_SEARCH=tools", config.ToolSearch{Choice: config.ToolSearchSurface, Mode: contracts.SurfaceTools}, false},
		{"TOOL_SEARCH=perhaps", config.ToolSearch{}, true},
	} {
		got, err := config.EnvironToolSearch(strings.Fields(tt.environ))
		if got != tt.want || (err != nil) != tt.wrong || tt.wrong && !strings.Contains(err.Error(), "TOOL_SEARCH") {
			t.Errorf("%s = %+v, %v; want %+v, wrong %v", tt.environ, got, err, tt.want, tt.wrong)
		}
	}
}
