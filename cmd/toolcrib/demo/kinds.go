package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// kindsBody finds, describes and calls a tool of every kind of source.
const kindsBody = `const jobs = [
  { ask: "put a lunch into the calendar", id: "mcp:office:create-event",
    args: { title: "Lunch with Ingrid", start: "2026-03-03T12:00:00Z", end: "2026-03-03T13:00:00Z" } },
  { ask: "what does the post charge for a parcel", id: "plugin:depot:shippingQuote", args: { carrier: "post", grams: 2000 } },
  { ask: "list the accounts of the ledger", id: "plugin:ledger:list_accounts", args: {} },
  { ask: "what time is it now", id: "platform:core:now", args: { timezone: "Europe/Berlin" } },
  { ask: "show a message to the user", id: "client:client:notify_user", args: { message: "The parcel is quoted." } },
];
const { results } = await tools.search({ queries: jobs.map(job => job.ask), limit: 5 });
return await Promise.all(jobs.map(async (job, i) => {
  const found = results[i].some(hit => hit.id === job.id);
  const { inputSchema } = await tools.describe(job.id);
  const { result } = await tools.call(job.id, job.args);
  return { id: job.id, found, described: inputSchema.type === "object", said: JSON.stringify(result) };
}));
`

// everyKind does in one body what the tasks did one by one: it reaches a tool of each kind of source. One of them is the client's own.
func (p *play) everyKind() error {
	if slices.ContainsFunc(IDs([]string{"office"}, true), func(s contracts.SourceID) bool { return !p.has(s) }) {
		return nil
	}
	p.title("One body, every kind of source")
	r, err := p.Client.OpenRun(p.ctx, client.RunOptions{Agent: "demo", Mode: "code", WaitForSources: 60_000, ClientTools: clientTools()})
	if err != nil {
		return fmt.Errorf("open a run: %w", err)
	}
	args, err := json.Marshal(map[string]string{"code": kindsBody})
	if err != nil {
		return err
	}
	o, err := p.Client.Call(p.ctx, r.ID, client.CallRequest{Name: "tool_search_code", Arguments: args})
	for err == nil && o.Status == contracts.StatusRequiresAction {
		if len(o.ClientCalls) == 0 {
			return errors.New("the client is to act for a body, and is not told how")
		}
		for _, c := range o.ClientCalls {
			if _, err := p.act(r.ID, c.CallID, c); err != nil {
				return err
			}
		}
		o, err = p.Client.Await(p.ctx, r.ID, o.CallID)
	}
	if err == nil {
		err = want(o, contracts.StatusOK)
	}
	if err != nil {
		return err
	}
	var res contracts.BodyResult
	if err := json.Unmarshal(o.Result.StructuredContent, &res); err != nil {
		return fmt.Errorf("the body's result: %w", err)
	}
	if err := p.checkKinds(res.Value); err != nil {
		return err
	}
	return p.Client.CloseRun(p.ctx, r.ID)
}

// checkKinds returns an error unless each kind of source was really reached.
func (p *play) checkKinds(value json.RawMessage) error {
	var jobs []struct {
		ID               contracts.ToolID
		Found, Described bool
		Said             string
	}
	if err := json.Unmarshal(value, &jobs); err != nil {
		return fmt.Errorf("the body's value: %w", err)
	}
	said := []string{"Lunch with Ingrid", "cents", "accounts", "Europe/Berlin", "seen: The parcel is quoted."}
	if len(jobs) != len(said) {
		return fmt.Errorf("the body did %d jobs, want %d", len(jobs), len(said))
	}
	for i, j := range jobs {
		if !j.Found || !j.Described || !strings.Contains(j.Said, said[i]) {
			return fmt.Errorf("%s: found %t, described %t, and it said %s, want %q", j.ID, j.Found, j.Described, oneLine(j.Said, 300), said[i])
		}
		p.say("call      %s: %s\n", j.ID, oneLine(j.Said, 90))
	}
	return nil
}
