package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A task is what the scripted model does when it is asked something.
type task struct {
	ask      string           // in the user's plain words
	tool     contracts.ToolID // what must be found
	describe bool             // whether it looks at the whole definition first
	args     map[string]any
	check    func(*client.CallAnswer) error // what must really have come of it
}

// owner returns the MCP server that the task needs, "" for none.
func (t task) owner() string {
	s, _, err := t.tool.Split()
	if err != nil || s.Kind != contracts.SourceMCP {
		return ""
	}
	return s.Owner
}

func tasks(folder string) []task {
	const note = "Lunch with Ingrid on Tuesday at noon."
	file := filepath.Join(folder, "note.txt")
	return []task{
		{
			ask: "put a lunch with Ingrid into the calendar", tool: "mcp:office:create-event", describe: true,
			args:  map[string]any{"title": "Lunch with Ingrid", "start": "2026-03-03T12:00:00Z", "end": "2026-03-03T13:00:00Z"},
			check: says("Lunch with Ingrid"),
		},
		{
			ask: "look up somebody's phone number", tool: "mcp:office:find_contact",
			args: map[string]any{"name": "Ingrid"}, check: says("Ingrid"),
		},
		{
			ask: "convert 12 euros into US dollars", tool: "mcp:desk:convert_currency", describe: true,
			args: map[string]any{"amount": 12, "from": "EUR", "to": "USD"}, check: says("USD"),
		},
		{
			ask: "file a bug report about the printer", tool: "mcp:desk:createTicket",
			args: map[string]any{"title": "The printer prints upside down"}, check: says("upside down"),
		},
		{
			ask: "save some text as a file on disk", tool: "mcp:filesystem:write_file", describe: true,
			args:  map[string]any{"path": file, "content": note},
			check: func(*client.CallAnswer) error { return checkFile(folder, "note.txt", note) },
		},
		{
			ask: "read the text of a file from the file system", tool: "mcp:filesystem:read_text_file",
			args: map[string]any{"path": file}, check: says(note),
		},
		{
			ask: "remember a new entity in the knowledge graph", tool: "mcp:memory:create_entities", describe: true,
			args: map[string]any{"entities": []any{map[string]any{
				"name": "Ingrid", "entityType": "person", "observations": []any{"eats lunch at noon"},
			}}},
			check: says("eats lunch at noon"),
		},
		{
			ask: "what do we know in the knowledge graph", tool: "mcp:memory:read_graph", check: says("eats lunch at noon"),
		},
		{
			ask: "work out the sum of two numbers", tool: "mcp:everything:get-sum",
			args: map[string]any{"a": 19, "b": 23}, check: says("42"),
		},
		{
			ask: "what time is it now", tool: "platform:core:now",
			args: map[string]any{"timezone": "Europe/Berlin"}, check: says("Europe/Berlin"),
		},
		{
			ask: "show a message to the user", tool: "client:client:notify_user",
			args: map[string]any{"message": "Lunch is set."}, check: says("seen: Lunch is set."),
		},
	}
}

// says returns a check that the result holds the text.
func says(part string) func(*client.CallAnswer) error {
	return func(o *client.CallAnswer) error {
		data, err := json.Marshal(o.Result)
		if err != nil {
			return err
		}
		if !strings.Contains(string(data), part) {
			return fmt.Errorf("the result does not say %q: %s", part, oneLine(string(data), 300))
		}
		return nil
	}
}

func (p *play) search(query string) (*contracts.SearchAnswer, error) {
	o, err := p.call("tool_search", map[string]any{"query": query})
	if err == nil {
		err = want(o, contracts.StatusOK)
	}
	if err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	var a contracts.SearchAnswer
	return &a, json.Unmarshal(o.Result.StructuredContent, &a)
}

// callTool makes a real call, and runs the client tool where it is one.
func (p *play) callTool(id contracts.ToolID, args map[string]any) (*client.CallAnswer, error) {
	if args == nil {
		args = map[string]any{}
	}
	p.calls++
	o, err := p.call("tool_call", map[string]any{"id": id, "args": args})
	if err != nil || o.Status != contracts.StatusRequiresAction {
		return o, err
	}
	if o.ClientCall == nil || o.ClientCall.Tool != "notify_user" {
		return nil, errors.New("the client is to act, and is not told how")
	}
	var shown struct{ Message string }
	if err := json.Unmarshal(o.ClientCall.Args, &shown); err != nil {
		return nil, fmt.Errorf("arguments of the client tool: %w", err)
	}
	p.say("client    runs its own tool %s\n", o.ClientCall.Tool)
	answer := contracts.TextResult("seen: "+shown.Message, nil)
	return p.Client.Result(p.ctx, p.run.ID, o.CallID, client.ClientResult{Content: answer.Content})
}

func (p *play) call(name string, args map[string]any) (*client.CallAnswer, error) {
	raw, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	return p.Client.Call(p.ctx, p.run.ID, client.CallRequest{Name: name, Arguments: raw})
}

func want(o *client.CallAnswer, s contracts.Status) error {
	switch {
	case o.Status == s:
		return nil
	case o.Error != nil:
		return fmt.Errorf("status %s, want %s: %w", o.Status, s, o.Error)
	}
	return fmt.Errorf("status %s, want %s: %s", o.Status, s, oneLine(text(o), 300))
}

// text returns the first text of a result, or its structured content.
func text(o *client.CallAnswer) string {
	if o.Result == nil {
		return ""
	}
	for _, block := range o.Result.Content {
		var b struct{ Type, Text string }
		if json.Unmarshal(block, &b) == nil && b.Type == "text" {
			return b.Text
		}
	}
	return string(o.Result.StructuredContent)
}

func ids(hits []contracts.Hit) []contracts.ToolID {
	out := make([]contracts.ToolID, 0, len(hits))
	for _, h := range hits {
		out = append(out, h.ID)
	}
	return out
}

func oneLine(s string, most int) string {
	r := []rune(strings.Join(strings.Fields(s), " "))
	if len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return string(r)
}
