package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// try runs a body of the kind that models write, to see whether the engine works, and has the pools learn from it.
func (e *Engine) try(ctx context.Context) error {
	const code = `type Hit = { id: string };
const hits: Hit[] = await tools.search("a word", { limit: 3 });
const outcomes = await Promise.all(["a", "b"].map((id) => tools.call(id, { n: 1, text: "x".repeat(100) })));
console.log("found", hits);
try { await tools.describe("c"); } catch (e) { console.warn(e.message); }
return { n: outcomes.length, at: new Date().toISOString() };`
	const want = `{"n":2,"at":"1970-01-01T00:00:01.000Z"}`
	e.bodies.learn, e.strippers.learn = true, true
	d := trialDoor(make(chan Answer, 4))
	ending := e.Run(ctx, Body{Code: code, Now: 1000, Limits: Limits{Timeout: time.Minute}}, d)
	e.bodies.learn, e.strippers.learn = false, false
	if ending.Failure != nil {
		return fmt.Errorf("try the engine: %s: %s", ending.Failure.Code, ending.Failure.Message)
	}
	if string(ending.Value) != want {
		return fmt.Errorf("try the engine: it gave %s, not %s", ending.Value, want)
	}
	return nil
}

// A trialDoor answers each ask at once.
type trialDoor chan Answer

func (d trialDoor) Log(Log)                {}
func (d trialDoor) Answers() <-chan Answer { return d }
func (d trialDoor) Pauses() <-chan bool    { return nil }

func (d trialDoor) Ask(a Ask) {
	answer := Answer{ID: a.ID}
	switch a.Op {
	case OpSearch:
		answer.Value = json.RawMessage(`{"hits":[{"id":"x"}],"total":1}`)
	case OpCall:
		answer.Value = json.RawMessage(`{"status":"ok","result":{"content":[{"type":"text","text":"y"}]}}`)
	case OpDescribe:
		answer.Error = &Thrown{Message: "there is none"}
	}
	d <- answer
}
