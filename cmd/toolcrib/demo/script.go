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

// source returns the source that the task needs.
func (t task) source() contracts.SourceID {
	s, _, _ := t.tool.Split()
	return s
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
			ask: "what does the post charge for a parcel", tool: "plugin:depot:shippingQuote", describe: true,
			args: map[string]any{"carrier": "post", "grams": 2000}, check: says(`"cents"`),
		},
		{
			ask: "order two hammers from the depot for a customer", tool: "plugin:depot:createOrder", describe: true,
			args: map[string]any{
				"customer": "Ingrid", "lines": []any{map[string]any{"sku": "HAM-300", "pieces": 2}},
				"address": map[string]any{"name": "Ingrid", "city": "Linz", "country": "AT"},
			},
			check: says(`"pieces":2`),
		},
		{
			ask: "book the rent from one account of the ledger to another", tool: "plugin:ledger:post_entry", describe: true,
			args: map[string]any{"from": "cash", "to": "rent", "amount": 70_000, "note": "March"}, check: says(`70000`),
		},
		{
			ask: "what is the balance of an account", tool: "plugin:ledger:account_balance",
			args: map[string]any{"account": "rent"}, check: says(`"account":"rent"`),
		},
		{
			ask: "what time is it now", tool: "platform:core:now", describe: true,
			args: map[string]any{"timezone": "Europe/Berlin"}, check: says("Europe/Berlin"),
		},
		{
			ask: "show a message to the user", tool: "client:client:notify_user", describe: true,
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
	if o.ClientCall == nil {
		return nil, errors.New("the client is to act, and is not told how")
	}
	return p.act(p.run.ID, o.CallID, *o.ClientCall)
}

// act runs a tool of the client, and tells what came of it.
func (p *play) act(run contracts.RunID, id contracts.CallID, c client.ClientCall) (*client.CallAnswer, error) {
	if c.Tool != "notify_user" {
		return nil, fmt.Errorf("the client is to run %q, which it does not have", c.Tool)
	}
	var shown struct{ Message string }
	if err := json.Unmarshal(c.Args, &shown); err != nil {
		return nil, fmt.Errorf("arguments of the client tool: %w", err)
	}
	p.say("client    runs its own tool %s\n", c.Tool)
	answer := contracts.TextResult("seen: "+shown.Message, nil)
	return p.Client.Result(p.ctx, run, id, client.ClientResult{Content: answer.Content})
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
