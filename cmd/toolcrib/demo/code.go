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

// body is what the scripted model writes: it searches, describes and calls tools of three sources at once.
const body = `// TypeScript is welcome, too.
interface Money { amount: number; currency: string }

const { results } = await tools.search({ queries: [
  "put a lunch into the calendar", "convert euros into US dollars", "what time is it now",
], limit: 5 });
const [calendar, money, clock] = [/event/i, /convert_currency/, /now$/]
  .map((name, i) => results[i].find(hit => name.test(hit.id)));
const schema = (await tools.describe(money.id)).inputSchema;
console.log("convert_currency wants", Object.keys(schema.properties).join(", "));

const [event, dollars, now] = await Promise.all([
  tools.call(calendar.id, { title: "Lunch with Ingrid", start: "2026-03-03T12:00:00Z", end: "2026-03-03T13:00:00Z" }),
  tools.call(money.id, { amount: 12, from: "EUR", to: "USD" }),
  tools.call(clock.id, { timezone: "Europe/Berlin" }),
]);
const said = (outcome): string => outcome.result.content.map(c => c.text).join("\n");
return {
  event: said(event), dollars: said(dollars), now: said(now),
  sources: [event, dollars, now].map(o => o.tool.id.split(":").slice(0, 2).join(":")),
};
`

// loop is what a model should not write, and does.
const loop = `console.log("this stays");
while (true) {}`

// code does a whole task in one body.
func (p *play) code() error {
	p.title("The surface \"code\": one body in place of many calls")
	r, err := p.Client.OpenRun(p.ctx, client.RunOptions{Agent: "demo", Mode: "code", WaitForSources: 60_000})
	if err != nil {
		return fmt.Errorf("open a run: %w", err)
	}
	if r.Surface != contracts.SurfaceCode {
		return fmt.Errorf("surface %q, want code: %v", r.Surface, r.Decision.Conditions)
	}
	p.say("%s holds %d tools; the model sees %d: %s\n", r.ID, r.Catalogue.Size, len(r.Tools), r.Tools[0].Name)
	for _, line := range strings.Split(strings.TrimSpace(body), "\n") {
		p.say("  | %s\n", line)
	}
	o, res, err := p.exec(r, body)
	if err == nil {
		err = want(o, contracts.StatusOK)
	}
	if err != nil {
		return err
	}
	for _, l := range res.Logs {
		p.say("%-9s %s\n", l.Level, l.Text)
	}
	for _, c := range res.Calls {
		p.say("call      %s: %s in %d ms\n", c.ID, c.Status, c.Ms)
	}
	p.say("value     %s\n", oneLine(string(res.Value), 200))
	p.say("body      %s in %d ms: %d search, %d describe, %d calls\n", o.Status, o.DurationMs, res.Telemetry.Searches, res.Telemetry.Describes, res.Telemetry.Calls)
	if err := checkBody(res); err != nil {
		return err
	}
	return p.Client.CloseRun(p.ctx, r.ID)
}

// endless shows what becomes of a body that never ends.
func (p *play) endless() error {
	p.title("A body that never ends")
	r, err := p.Client.OpenRun(p.ctx, client.RunOptions{Agent: "demo", ToolSearch: json.RawMessage(`{"mode":"code","codeTimeoutMs":1000}`)})
	if err != nil {
		return fmt.Errorf("open a run: %w", err)
	}
	o, res, err := p.exec(r, loop)
	if err != nil {
		return err
	}
	if res.OK || res.Error == nil || res.Error.Code != contracts.BodyTimeout || len(res.Logs) != 1 {
		return fmt.Errorf("an endless loop gave %s, want %s and its log line", o.Status, contracts.BodyTimeout)
	}
	p.say("body      %s after %d ms: %s: %s; its log is kept: %q\n", o.Status, o.DurationMs, res.Error.Code, res.Error.Message, res.Logs[0].Text)
	return p.Client.CloseRun(p.ctx, r.ID)
}

// exec has a body run.
func (p *play) exec(r *client.RunView, code string) (*client.CallAnswer, *contracts.BodyResult, error) {
	args, err := json.Marshal(map[string]string{"code": code})
	if err != nil {
		return nil, nil, err
	}
	o, err := p.Client.Call(p.ctx, r.ID, client.CallRequest{Name: "tool_search_code", Arguments: args})
	if err != nil {
		return nil, nil, err
	}
	if o.Result == nil {
		return nil, nil, fmt.Errorf("the body gave no result: %s: %w", o.Status, o.Error)
	}
	var res contracts.BodyResult
	return o, &res, json.Unmarshal(o.Result.StructuredContent, &res)
}

// checkBody returns an error unless the body really did what it says.
func checkBody(res *contracts.BodyResult) error {
	var v struct {
		Event, Dollars, Now string
		Sources             []string
	}
	if err := json.Unmarshal(res.Value, &v); err != nil {
		return fmt.Errorf("the body's value: %w", err)
	}
	slices.Sort(v.Sources)
	switch {
	case !strings.Contains(v.Event, "Lunch with Ingrid"), !strings.Contains(v.Dollars, "USD"), !strings.Contains(v.Now, "Europe/Berlin"):
		return fmt.Errorf("the body's tools answered otherwise: %+v", v)
	case len(slices.Compact(v.Sources)) != 3:
		return fmt.Errorf("the body called tools of %v, want three sources", v.Sources)
	case len(res.Calls) != 3 || len(res.Logs) != 1 || res.Telemetry.Searches != 1 || res.Telemetry.Describes != 1:
		return errors.New("the body's result does not tell its calls, logs, searches and describes")
	}
	return nil
}
