package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAimsOfConditions(t *testing.T) {
	for when, want := range map[string][]string{
		`tool.source == "mcp:a"`:                               {"mcp:a:*"},
		`"send" == tool.name && args.n > 1`:                    {"*:send"},
		`args.n > 1 && (tool.trusted && tool.id == "mcp:a:b")`: {"mcp:a:b"},
		`tool.source == "mcp:a" || tool.name == "b*[c]?\\"`:    {"mcp:a:*", `*:b\*\[c]\?\\`},
		`tool.source in ["mcp:a", "mcp:b"]`:                    {"mcp:a:*", "mcp:b:*"},
		`tool.source in []`:                                    {},
		`tool.source == "mcp:a" || args.n > 1`:                 nil,
		`tool.source != "mcp:a"`:                               nil,
		`!(tool.source == "mcp:a")`:                            nil,
		`tool.source == run.agent`:                             nil,
		`args.exists(k, k == "x" && tool.source == "mcp:a")`:   nil,
		`run.agent == "mcp:a" && tool.hash == "mcp:a"`:         nil,
		`tool.source == "mcp:a" ? args.n > 1 : args.n > 2`:     nil,
		`tool.source in ["mcp:a", run.agent]`:                  nil,
		`args.tool == "x" && args["tool.source"] == "mcp:a"`:   nil,
	} {
		c, err := compileCondition(when)
		if err != nil {
			t.Errorf("%s: %v", when, err)
			continue
		}
		if diff := cmp.Diff(want, c.aims); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
}
