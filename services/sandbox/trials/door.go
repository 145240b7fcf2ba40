package trials

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/toolcrib/toolcrib/services/sandbox/engine"
)

// A Door answers what one body asks at once, as a service would that needs no time, and counts. Close it when the body has ended.
type Door struct {
	silent  bool
	answers chan engine.Answer
	pauses  chan bool
	done    chan struct{}
	began   time.Time

	mu     sync.Mutex
	asks   int
	logs   []engine.Log
	timers map[int]*time.Timer
}

// room is for the answers that a body has not taken yet; more of them wait elsewhere, and come in any order.
const room = 64

// NewDoor makes a door. A silent one answers timers only.
func NewDoor(silent bool) *Door {
	return &Door{silent: silent, answers: make(chan engine.Answer, room), pauses: make(chan bool), done: make(chan struct{}), began: time.Now()}
}

// Fixed answers.
const (
	hits    = `{"hits":[{"id":"workshop:add","source":"workshop","name":"add","description":"Adds numbers","input":"{a: number; b: number}","score":1}],"total":1}`
	entry   = `{"id":"workshop:add","source":"workshop","name":"add","inputSchema":{"type":"object"}}`
	outcome = `{"status":"ok","tool":{"id":"workshop:add"},"result":"ok","callId":"call_1","durationMs":0}`
)

// Ask implements [engine.Door].
func (d *Door) Ask(a engine.Ask) {
	d.mu.Lock()
	d.asks++
	d.mu.Unlock()
	answer := engine.Answer{ID: a.ID, Now: startOfClock + time.Since(d.began).Milliseconds()}
	switch a.Op {
	case engine.OpTimer:
		d.timer(a)
		return
	case engine.OpSearch:
		answer.Value = json.RawMessage(hits)
	case engine.OpDescribe:
		answer.Value = json.RawMessage(entry)
	default:
		answer.Value = json.RawMessage(outcome)
	}
	if !d.silent {
		d.give(answer)
	}
}

func (d *Door) give(a engine.Answer) {
	select {
	case d.answers <- a:
	default:
		go func() {
			select {
			case d.answers <- a:
			case <-d.done:
			}
		}()
	}
}

// timer answers once the time of a is over.
func (d *Door) timer(a engine.Ask) {
	var args []float64
	if err := json.Unmarshal(a.Args, &args); err != nil || len(args) != 1 {
		args = []float64{0}
	}
	ms := min(max(args[0], 0), float64(time.Hour.Milliseconds()))
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timers == nil {
		d.timers = map[int]*time.Timer{}
	}
	d.timers[a.ID] = time.AfterFunc(time.Duration(ms)*time.Millisecond, func() {
		d.give(engine.Answer{ID: a.ID, Now: startOfClock + time.Since(d.began).Milliseconds()})
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.timers, a.ID)
	})
}

// Log implements [engine.Door].
func (d *Door) Log(l engine.Log) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.logs = append(d.logs, l)
}

// Answers implements [engine.Door].
func (d *Door) Answers() <-chan engine.Answer { return d.answers }

// Pauses implements [engine.Door].
func (d *Door) Pauses() <-chan bool { return d.pauses }

// Logs gives what the body has logged so far.
func (d *Door) Logs() []engine.Log {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]engine.Log(nil), d.logs...)
}

// Asks counts what the body has asked so far.
func (d *Door) Asks() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asks
}

// Close stops what has still to be answered.
func (d *Door) Close() {
	close(d.done)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range d.timers {
		t.Stop()
	}
}
