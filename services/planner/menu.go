package planner

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/internal/core/policy"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// The control tools.
const (
	toolSearch     = "tool_search"
	toolDescribe   = "tool_describe"
	toolCall       = "tool_call"
	toolSearchCode = "tool_search_code"
)

// controlNames returns the names that no client tool can have, whatever the surface.
func controlNames() []string {
	return []string{toolSearch, toolDescribe, toolCall, toolSearchCode}
}

// controlID returns the id by which policy knows a control tool.
func controlID(name string) contracts.ToolID {
	return contracts.NewToolID(contracts.SourceID{Kind: contracts.SourcePlatform, Owner: "toolcrib"}, name)
}

// deniedControls returns the tools of the menu that policy denies by name or glob. An
// allow list that does not mention them is about other tools and denies none.
func deniedControls(e *policy.Effective) []string {
	return slices.DeleteFunc([]string{toolSearch, toolDescribe, toolCall}, func(name string) bool {
		d := e.Decide(controlID(name))
		return d.Allowed || d.Rule == ""
	})
}

// menu returns the control tools of the surface tools, with what a model must know to use them.
func menu(settings config.ToolSearch) []contracts.ModelTool {
	return []contracts.ModelTool{
		{
			Name: toolSearch,
			Description: `Find tools by what they do. Describe the job in plain words ("create calendar event"); +word must occur; select:id,id gets exactly those. ` +
				`Hits come best first, with an id such as mcp:calendar:create_event and the arguments as a TypeScript-like signature. No hits: nothing fits.`,
			InputSchema: json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{"query":{"type":"string"},`+
				`"limit":{"type":"integer","minimum":1,"description":"Most hits, default %d, at most %d"},`+
				`"queries":{"type":"array","items":{"type":"string"},"maxItems":%d,"description":"Several searches at once, in place of query"}}}`,
				settings.SearchDefaultLimit, settings.MaxSearchLimit, contracts.SearchMaxQueries)),
		},
		{
			Name:        toolDescribe,
			Description: `Get a tool's full description and exact JSON schemas. Only needed where the signature of a hit is not enough, as when it ends in "; …".`,
			InputSchema: json.RawMessage(`{"type":"object","properties":{"id":{"type":"string","description":"Id of a hit"}},"required":["id"]}`),
		},
		{
			Name: toolCall,
			Description: `Run a tool by its id, with its arguments in args: {"id":"mcp:calendar:create_event","args":{"title":"Lunch"}}. ` +
				`Answers with a status: ok, or what went wrong.`,
			InputSchema: json.RawMessage(`{"type":"object","properties":{"id":{"type":"string","description":"Id of a hit"},` +
				`"args":{"type":"object","additionalProperties":true,"description":"As in the tool's signature"}},"required":["id"]}`),
		},
	}
}
