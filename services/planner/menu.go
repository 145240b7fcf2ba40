package planner

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/internal/core/control"
	"github.com/toolcrib/toolcrib/internal/core/policy"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// deniedControls returns the control tools that policy forbids.
func deniedControls(e *policy.Effective) []string {
	return slices.DeleteFunc(control.Names(), func(name string) bool {
		return !e.Forbids(control.ID(name))
	})
}

// menu returns the control tools of a surface that defers, with what a model must know to use them.
func menu(mode contracts.SurfaceMode, settings config.ToolSearch) []contracts.ModelTool {
	if mode == contracts.SurfaceCode {
		return codeMenu(settings)
	}
	return []contracts.ModelTool{
		{
			Name: control.Search,
			Description: `Find tools by what they do. Describe the job in plain words ("create calendar event"); +word must occur; select:id,id gets exactly those. ` +
				`Hits come best first, with an id such as mcp:calendar:create_event and the arguments as a TypeScript-like signature. No hits: nothing fits.`,
			InputSchema: json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{"query":{"type":"string"},`+
				`"limit":{"type":"integer","minimum":1,"description":"Most hits, default %d, at most %d"},`+
				`"queries":{"type":"array","items":{"type":"string"},"maxItems":%d,"description":"Several searches at once, in place of query"}}}`,
				settings.SearchDefaultLimit, settings.MaxSearchLimit, contracts.SearchMaxQueries)),
		},
		{
			Name:        control.Describe,
			Description: `Get a tool's full description and exact JSON schemas. Only needed where the signature of a hit is not enough, as when it ends in "; …".`,
			InputSchema: json.RawMessage(`{"type":"object","properties":{"id":{"type":"string","description":"Id of a hit"}},"required":["id"]}`),
		},
		{
			Name: control.Call,
			Description: `Run a tool by its id, with its arguments in args: {"id":"mcp:calendar:create_event","args":{"title":"Lunch"}}. ` +
				`Answers with a status: ok, or what went wrong.`,
			InputSchema: json.RawMessage(`{"type":"object","properties":{"id":{"type":"string","description":"Id of a hit"},` +
				`"args":{"type":"object","additionalProperties":true,"description":"As in the tool's signature"}},"required":["id"]}`),
		},
	}
}

// codeMenu returns the one control tool of the surface code. Its description is all that some models see of the API.
func codeMenu(settings config.ToolSearch) []contracts.ModelTool {
	return []contracts.ModelTool{{
		Name: control.Code,
		Description: fmt.Sprintf(`Find and run tools with JavaScript (or TypeScript). code is the inside of an async function: return gives its value as JSON; console.log lines come back too. In it:
await tools.search(query, {limit}) // hits, best first: [{id, name, description, input, score}]; input: the arguments as a TypeScript-like signature. []: nothing fits. limit: default %d, at most %d
await tools.describe(id) // {description, inputSchema, outputSchema}; only where input is not enough
await tools.call(id, args) // {status: "ok", result: {content, structuredContent}}; throws an Error with .status and .outcome where it is not ok
Example:
const [t] = await tools.search("create calendar event");
if (!t) return "no such tool";
const days = ["2026-05-04", "2026-05-05"];
const done = await Promise.all(days.map(date => tools.call(t.id, {title: "Lunch", date})));
return done.map(o => o.result.structuredContent ?? o.result.content);
Limits: %s, %d calls of tools.*, a value of %d KiB. There is no fetch, require, import, process or file: only tools. Nothing is kept from one body to the next.`,
			settings.SearchDefaultLimit, settings.MaxSearchLimit, seconds(settings.CodeTimeoutMs), contracts.MostBodyCalls, contracts.LargestBodyValue>>10),
		InputSchema: json.RawMessage(`{"type":"object","properties":{"code":{"type":"string"}},"required":["code"]}`),
	}}
}

func seconds(ms int) string {
	return strconv.FormatFloat(float64(ms)/1000, 'g', -1, 64) + " s"
}
