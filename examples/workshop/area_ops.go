package workshop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type ops struct {
	server, counterFile string

	mu       sync.Mutex
	counters map[string]int
	backups  map[string]int // how many are running, done and cancelled
	last     int            // number of the newest backup
}

func newOps(server, counterFile string) area {
	o := &ops{server: server, counterFile: counterFile,
		counters: map[string]int{}, backups: map[string]int{"running": 0, "done": 0, "cancelled": 0}}
	return area{name: "ops", mu: &o.mu, about: "reports, backups, counters and the label printer.", tools: o.tools()}
}

func (o *ops) tools() []tool {
	const counterProp = `{"type":"string","pattern":"^[a-z0-9_-]{1,64}$","default":"default"}`
	return []tool{
		{name: "workshop_status", title: "Status of the workshop", hints: readOnly | idempotent, meta: mcp.Meta{"anthropic/alwaysLoad": true},
			about: "Tells which server this is, what time it shows and how many backups are running, done and cancelled.",
			in:    `{"type":"object"}`,
			out: `{"type":"object","properties":{"server":{"type":"string"},"time":{"type":"string","format":"date-time"},
				"backups":{"type":"object","properties":{"running":{"type":"integer"},"done":{"type":"integer"},"cancelled":{"type":"integer"}},"required":["running","done","cancelled"]}},
				"required":["server","time","backups"]}`,
			run: with(o.status)},
		{name: "export_report", title: "Export a report", hints: readOnly,
			about: "Exports the rows of a report as CSV text or as JSON. Large reports have many megabytes.",
			in: `{"type":"object","properties":{"report":{"type":"string","enum":["sales","timesheet","tickets"],"default":"sales"},
				"rows":{"type":"integer","minimum":0,"maximum":100000,"default":100},
				"format":{"type":"string","enum":["csv","json"],"default":"csv"}},"additionalProperties":false}`,
			out: `{"type":"object","properties":{"report":{"type":"string"},"rows":{"type":"integer"},"items":{"type":"array","items":{"type":"object","properties":{
				"row":{"type":"integer"},"day":{"type":"string"},"who":{"type":"string"},"amount":{"type":"number"}},"required":["row","day","who","amount"]}}},"required":["report","rows"]}`,
			run: with(exportReport)},
		{name: "run_backup", title: "Run a backup", hints: additive, unlocked: true,
			about: "Backs a target up. It takes the given number of seconds, tells its progress and can be cancelled.",
			in: `{"type":"object","properties":{"target":{"type":"string","enum":["files","mail","everything"],"default":"everything"},
				"seconds":{"type":"number","minimum":0,"maximum":600,"default":2}}}`,
			out: `{"type":"object","properties":{"backupId":{"type":"string"},"target":{"type":"string"},"steps":{"type":"integer"}},"required":["backupId","target"]}`,
			run: o.backup},
		{name: "print_label", title: "Print a label", hints: additive | openWorld,
			about: "Prints a label on the label printer of floor 2.",
			in:    `{"type":"object","properties":{"text":{"type":"string","minLength":1,"maxLength":120},"copies":{"type":"integer","minimum":1,"maximum":20,"default":1}},"required":["text"]}`,
			run:   with(printLabel)},
		{name: "increment_counter", title: "Increment a counter", unlocked: true, hints: additive,
			about: "Adds to a counter and returns its new value. Each execution counts, also one whose answer was lost.",
			in: `{"type":"object","properties":{"counter":` + counterProp + `,"by":{"type":"integer","minimum":1,"maximum":1000,"default":1},
				"note":{"type":"string","maxLength":200,"description":"Stands in the line of the counter file."},
				"hold_ms":{"type":"integer","minimum":0,"maximum":60000,"default":0,"description":"Milliseconds to wait after counting, before answering."}},"additionalProperties":false}`,
			out: `{"type":"object","properties":{"counter":{"type":"string"},"value":{"type":"integer"}},"required":["counter","value"]}`,
			run: o.increment},
		{name: "read_counter", title: "Read a counter", hints: readOnly | idempotent,
			about: "Returns the value of a counter; one that was never incremented is 0.",
			in:    `{"type":"object","properties":{"counter":` + counterProp + `}}`,
			out:   `{"type":"object","properties":{"counter":{"type":"string"},"value":{"type":"integer","minimum":0}},"required":["counter","value"]}`,
			run: with(func(a struct{ Counter string }) (any, error) {
				return obj{"counter": a.Counter, "value": o.counters[a.Counter]}, nil
			})},
	}
}

func (o *ops) status(struct{}) (any, error) {
	return obj{"server": o.server, "time": now, "backups": o.backups}, nil
}

func exportReport(a struct {
	Report string
	Rows   int
	Format string
}) (any, error) {
	who := people()
	start, err := parseDay("today", today)
	if err != nil {
		return nil, err
	}
	items := make([]obj, 0, a.Rows)
	var csv strings.Builder
	csv.WriteString("row,day,who,amount\n")
	for i := range a.Rows {
		day := start.AddDate(0, 0, -i%365).Format(time.DateOnly)
		p, amount := who[i%len(who)].handle, float64(i*7919%100_000)/100
		if a.Format == "json" {
			items = append(items, obj{"row": i + 1, "day": day, "who": p, "amount": amount})
		} else {
			fmt.Fprintf(&csv, "%d,%s,%s,%.2f\n", i+1, day, p, amount)
		}
	}
	summary := obj{"report": a.Report, "rows": a.Rows}
	if a.Format == "json" {
		summary["items"] = items
		return summary, nil
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: csv.String()}}, StructuredContent: summary}, nil
}

// backup waits in steps of at most a second, so that progress comes often
// and a cancelled backup ends at once.
func (o *ops) backup(ctx context.Context, c *call) (any, error) {
	a, err := decode[struct {
		Target  string
		Seconds float64
	}](c)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	o.last++
	id := fmt.Sprintf("backup-%d", o.last)
	o.backups["running"]++
	o.mu.Unlock()

	end := "cancelled"
	defer func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.backups["running"]--
		o.backups[end]++
	}()
	steps := max(10, int(a.Seconds+0.999))
	step := time.Duration(a.Seconds / float64(steps) * float64(time.Second))
	for i := range steps {
		if err := wait(ctx, step); err != nil {
			return nil, fmt.Errorf("%s stopped after %d of %d steps: %w", id, i, steps, err)
		}
		if err := c.progress(ctx, float64(i+1), float64(steps), fmt.Sprintf("%s: %s, step %d of %d", id, a.Target, i+1, steps)); err != nil {
			return nil, fmt.Errorf("%s: tell progress: %w", id, err)
		}
	}
	end = "done"
	return obj{"backupId": id, "target": a.Target, "steps": steps}, nil
}

// wait returns nil after d, or an error as soon as ctx is done.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

func printLabel(a struct {
	Text   string
	Copies int
}) (any, error) {
	return nil, errors.New("label printer P2 is out of paper (E-17): nothing was printed; somebody must refill it")
}

func (o *ops) increment(ctx context.Context, c *call) (any, error) {
	a, err := decode[struct {
		Counter, Note string
		By            int
		HoldMs        int64 `json:"hold_ms"`
	}](c)
	if err != nil {
		return nil, err
	}
	value, err := o.count(a.Counter, a.Note, a.By)
	if err != nil {
		return nil, err
	}
	if err := wait(ctx, time.Duration(a.HoldMs)*time.Millisecond); err != nil {
		return nil, fmt.Errorf("counter %s is %d; the answer was cancelled: %w", a.Counter, value, err)
	}
	return obj{"counter": a.Counter, "value": value}, nil
}

// count adds to a counter, and to the counter file first: what the file does
// not show did not happen.
func (o *ops) count(counter, note string, by int) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	value := o.counters[counter] + by
	if o.counterFile != "" {
		line, err := json.Marshal(obj{"counter": counter, "by": by, "value": value, "note": note, "pid": os.Getpid()})
		if err != nil {
			return 0, fmt.Errorf("encode counter line: %w", err)
		}
		if err := appendLine(o.counterFile, line); err != nil {
			return 0, fmt.Errorf("count %s: %w", counter, err)
		}
	}
	o.counters[counter] = value
	return value, nil
}

func appendLine(path string, line []byte) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open counter file: %w", err)
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}
