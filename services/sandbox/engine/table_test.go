package engine

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
)

// A table is the world that the bodies of testdata/language meet: tools with fixed answers, and a clock that jumps to
// what happens next.
type table struct {
	Now    int64                `json:"now"`
	Seed   uint64               `json:"seed"`
	Search map[string][]string  `json:"search"`
	Tools  map[string]tableTool `json:"tools"`
}

type tableTool struct {
	Description string                     `json:"description"`
	Echo        bool                       `json:"echo"`     // the result is the arguments
	Result      json.RawMessage            `json:"result"`   // or always this
	ByArgs      map[string]json.RawMessage `json:"byArgs"`   // or what stands under the arguments
	Failures    int                        `json:"failures"` // of the first calls
	Delay       int64                      `json:"delay"`    // milliseconds that a call takes
	DelayArg    string                     `json:"delayArg"` // the argument that says so
}

func readTable(file string) (*table, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	t := &table{}
	return t, json.Unmarshal(text, t)
}

// A tableDoor is the door of one body to a table.
type tableDoor struct {
	*table
	asks    chan Ask
	answers chan Answer
	stop    chan struct{}
	calls   map[string]int

	mu   sync.Mutex
	logs []Log
}

func (t *table) door() *tableDoor {
	d := &tableDoor{table: t, asks: make(chan Ask), answers: make(chan Answer), stop: make(chan struct{}), calls: map[string]int{}}
	go d.run()
	return d
}

// run answers what is due first, as soon as the body waits. An ask that comes meanwhile takes part in that: Ask returns only
// when run knows of it, and the body does not take an answer before.
func (d *tableDoor) run() {
	now := d.Now
	var due []Answer
	for {
		var answers chan Answer
		var next Answer
		if len(due) > 0 {
			next, answers = due[0], d.answers
			next.Now = max(now, next.Now)
		}
		select {
		case a := <-d.asks:
			answer, after := d.answer(a)
			answer.ID, answer.Now = a.ID, now+after
			due = append(due, answer)
			slices.SortStableFunc(due, func(a, b Answer) int { return cmp.Compare(a.Now, b.Now) })
		case answers <- next:
			now, due = next.Now, due[1:]
		case <-d.stop:
			return
		}
	}
}

func (d *tableDoor) Ask(a Ask)              { d.asks <- a }
func (d *tableDoor) Answers() <-chan Answer { return d.answers }
func (d *tableDoor) Pauses() <-chan bool    { return nil }
func (d *tableDoor) close()                 { close(d.stop) }
func (d *tableDoor) Log(l Log) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.logs = append(d.logs, l)
}

// answer gives the answer to an ask, and after how many milliseconds it comes.
func (d *tableDoor) answer(a Ask) (Answer, int64) {
	var args []json.RawMessage
	if err := json.Unmarshal(a.Args, &args); err != nil {
		panic(err)
	}
	switch a.Op {
	case OpTimer:
		var ms int64
		_ = json.Unmarshal(args[0], &ms)
		return Answer{}, ms
	case OpSearch:
		return Answer{Value: d.search(args)}, 0
	case OpDescribe:
		id := text(args[0])
		tool, ok := d.Tools[id]
		if !ok {
			return Answer{Error: &Thrown{Message: fmt.Sprintf("there is no tool %q", id)}}, 0
		}
		return Answer{Value: object("id", id, "description", tool.Description, "inputSchema", object("type", "object"))}, 0
	default:
		return d.call(a.ID, args)
	}
}

// search answers a search, or several.
func (d *tableDoor) search(args []json.RawMessage) json.RawMessage {
	options := struct {
		Limit int `json:"limit"`
	}{8}
	if len(args) > 1 {
		_ = json.Unmarshal(args[1], &options)
	}
	var queries []string
	if json.Unmarshal(args[0], &queries) != nil {
		return d.hits(text(args[0]), options.Limit)
	}
	results := []json.RawMessage{}
	for _, q := range queries {
		results = append(results, d.hits(q, options.Limit))
	}
	return object("results", results)
}

func (d *tableDoor) hits(query string, limit int) json.RawMessage {
	hits := []json.RawMessage{}
	found := d.Search[query]
	for _, id := range found[:min(limit, len(found))] {
		hits = append(hits, object("id", id, "name", id[len("mcp:"):], "description", d.Tools[id].Description))
	}
	nearest := []string{}
	if len(hits) == 0 {
		nearest = append(nearest, "mcp:net:echo")
	}
	return object("hits", hits, "total", len(found), "limit", limit, "nearest", nearest, "query", query)
}

func (d *tableDoor) call(ask int, args []json.RawMessage) (Answer, int64) {
	id, input := text(args[0]), args[1]
	var options struct {
		Outcome bool `json:"outcome"`
	}
	if len(args) > 2 {
		_ = json.Unmarshal(args[2], &options)
	}
	tool, ok := d.Tools[id]
	call := fmt.Sprintf("call_%d", ask)
	d.calls[id]++
	var problem string
	switch {
	case !ok:
		problem = fmt.Sprintf("there is no tool %q", id)
	case d.calls[id] <= tool.Failures:
		problem = "the network is down"
	}
	if problem != "" {
		outcome := object("status", "unavailable", "error", object("code", "unavailable", "message", problem), "callId", call)
		if options.Outcome {
			return Answer{Value: outcome}, tool.Delay
		}
		props := map[string]json.RawMessage{"status": encode("unavailable"), "callId": encode(call), "outcome": outcome}
		return Answer{Error: &Thrown{Message: fmt.Sprintf("%s: %s", id, problem), Props: props}}, tool.Delay
	}
	result, delay := tool.result(input)
	content := []json.RawMessage{object("type", "text", "text", string(result))}
	return Answer{Value: object("status", "ok", "tool", object("id", id), "result", object("content", content, "structuredContent", result), "callId", call)}, delay
}

func (t tableTool) result(input json.RawMessage) (json.RawMessage, int64) {
	delay := t.Delay
	if t.DelayArg != "" {
		var args map[string]json.RawMessage
		_ = json.Unmarshal(input, &args)
		_ = json.Unmarshal(args[t.DelayArg], &delay)
	}
	switch {
	case t.Echo:
		return input, delay
	case t.ByArgs != nil:
		if r, ok := t.ByArgs[string(input)]; ok {
			return r, delay
		}
		return json.RawMessage("null"), delay
	}
	return t.Result, delay
}

// object makes a JSON object of names and values, in their order.
func object(pairs ...any) json.RawMessage {
	var b bytes.Buffer
	for i := 0; i < len(pairs); i += 2 {
		b.WriteString(map[bool]string{true: "{", false: ","}[i == 0])
		b.Write(encode(pairs[i]))
		b.WriteByte(':')
		b.Write(encode(pairs[i+1]))
	}
	b.WriteByte('}')
	return b.Bytes()
}

func encode(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func text(v json.RawMessage) string {
	var s string
	_ = json.Unmarshal(v, &s)
	return s
}
