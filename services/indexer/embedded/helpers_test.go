package embedded

import (
	"encoding/json"
	"testing"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// tool returns a tool with a schema of string parameters, each "name: description".
func tool(name, description string, params ...string) contracts.Tool {
	properties := map[string]any{}
	for _, p := range params {
		name, text := p, ""
		for i := range p {
			if p[i] == ':' {
				name, text = p[:i], p[i+1:]
				break
			}
		}
		properties[name] = map[string]string{"type": "string", "description": text}
	}
	schema, err := json.Marshal(map[string]any{"type": "object", "properties": properties})
	if err != nil {
		panic(err)
	}
	return contracts.Tool{Name: name, Description: description, InputSchema: schema}
}

// listing returns the listing of an MCP server, sorted as listings are.
func listing(owner string, tools ...contracts.Tool) *contracts.Listing {
	l := &contracts.Listing{Source: contracts.SourceID{Kind: contracts.SourceMCP, Owner: owner}}
	for _, t := range tools {
		t.ID = contracts.NewToolID(l.Source, t.Name)
		l.Tools = append(l.Tools, t)
	}
	sortTools(l.Tools)
	return l
}

func view(listings ...*contracts.Listing) *View {
	var parts []Part
	for _, l := range listings {
		parts = append(parts, Part{Segment: Build(l)})
	}
	return NewView(parts)
}

// answer is a [Result] in a form that can be compared.
type answer struct {
	IDs     []contracts.ToolID
	Scores  []float64
	Sources []contracts.SourceID
	Total   int
	Nearest []contracts.ToolID
}

func answerOf(r Result) answer {
	a := answer{Total: r.Total, Nearest: r.Nearest}
	for _, h := range r.Hits {
		a.IDs = append(a.IDs, h.Tool.ID)
		a.Scores = append(a.Scores, h.Score)
		a.Sources = append(a.Sources, h.Source)
	}
	return a
}

// names returns the names of the tools that a view finds.
func names(v *View, query string) []string {
	var list []string
	for _, h := range v.Search(query, 10).Hits {
		list = append(list, h.Tool.Name)
	}
	return list
}

func first(v *View, query string) string {
	if list := names(v, query); len(list) > 0 {
		return list[0]
	}
	return ""
}

// office is a small catalogue of several servers.
func office(testing.TB) *View {
	return view(
		listing("github",
			tool("create_issue", "Create a new issue in a GitHub repository", "owner", "repo", "title: of the issue", "body"),
			tool("list_issues", "List issues in a repository with filters", "owner", "repo", "state: open or closed"),
			tool("create_pull_request", "Create a new pull request", "owner", "repo", "head", "base"),
			tool("search_repositories", "Search for repositories on GitHub", "query"),
			tool("fork_repository", "Fork a repository to your account", "owner", "repo"),
		),
		listing("gitlab",
			tool("create_issue", "Create a new issue in a project", "project_id", "title"),
			tool("retry_pipeline", "Retry a failed pipeline", "pipeline_id"),
			tool("cancel_pipeline", "Cancel a running pipeline", "pipeline_id"),
		),
		listing("calendar",
			tool("create_event", "Create an event in the calendar", "summary", "start: RFC 3339", "end: RFC 3339"),
			tool("delete_event", "Delete an event from the calendar", "event_id"),
			tool("list_events", "List the events of a day", "day"),
		),
		listing("media",
			tool("YouTube.getTranscript", "Returns what is said in a video", "video_id"),
			tool("searchMySQLTables", "Look for tables by name", "pattern"),
			tool("list_vms", "Shows all virtual machines with their state", "zone"),
			tool("to_do_add", "Puts something on the list of things that wait", "text"),
			tool("get_weather_forecast", "Weather forecast of a place for the next days", "place: name of a city"),
		),
	)
}
