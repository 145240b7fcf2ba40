package worker

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/toolcrib/toolcrib/services/sandbox/engine"
)

// What one body may send beyond the limits that come with it. The worker ends a body, or drops its lines, before it gets
// there; a worker that sends more is no longer what was started, and is killed.
const (
	maxArgs   = 2 << 20   // bytes of one ask's arguments
	maxAnswer = 4 << 20   // bytes of one answer's value
	maxNaps   = 1000      // timers that are open at once
	maxTimers = 10_000    // timers in all
	maxLogs   = 1 << 10   // bytes of log lines beyond the limit, for what the engine itself has to say
	maxText   = 256 << 10 // bytes of a failure's name and message together
	overValue = 16        // a value may be this many times as long as its limit, for the service to cut
)

// A breach is what a body must not do. In the mouth of a worker it is proof that the worker is broken.
type breach struct {
	code engine.Code // of the body's failure
	text string
}

func (b *breach) Error() string { return b.text }

func breachf(code engine.Code, format string, args ...any) error {
	return &breach{code: code, text: fmt.Sprintf(format, args...)}
}

// A record is what a body has done so far, checked against what it may do. The worker keeps one for each body to end the body
// in time, the service one to find out a worker that lies. It is safe for concurrent use.
type record struct {
	limits engine.Limits // without zeros

	mu     sync.Mutex
	used   map[int]bool      // ids of all asks
	open   map[int]engine.Op // asks without an answer
	calls  int
	busy   int // open asks that are no timers
	logged int // bytes, with one for the end of each line
}

func newRecord(l engine.Limits) *record {
	return &record{limits: l.OrDefaults(), used: make(map[int]bool), open: make(map[int]engine.Op)}
}

// ask notes a, or tells which limit forbids it.
func (r *record) ask(a engine.Ask) error {
	if err := checkAsk(a); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	timer := a.Op == engine.OpTimer
	switch {
	case r.used[a.ID]:
		return breachf(engine.CodeUnavailable, "ask %d came twice", a.ID)
	case timer && (len(r.open)-r.busy >= maxNaps || len(r.used)-r.calls >= maxTimers):
		return breachf(engine.CodeBridgeLimit, "more than %d timers at once or %d in all", maxNaps, maxTimers)
	case !timer && (r.busy >= r.limits.Concurrent || r.calls >= r.limits.Calls):
		return breachf(engine.CodeBridgeLimit, "more than %d asks at once or %d in all", r.limits.Concurrent, r.limits.Calls)
	}
	r.used[a.ID], r.open[a.ID] = true, a.Op
	if !timer {
		r.calls++
		r.busy++
	}
	return nil
}

// checkAsk checks what can be seen of one ask alone.
func checkAsk(a engine.Ask) error {
	switch a.Op {
	case engine.OpSearch, engine.OpDescribe, engine.OpCall, engine.OpTimer:
	default:
		return breachf(engine.CodeUnavailable, "unknown op %q", clip(string(a.Op), 40))
	}
	switch {
	case a.ID < 1:
		return breachf(engine.CodeUnavailable, "an ask with the number %d", a.ID)
	case len(a.Args) > maxArgs:
		return breachf(engine.CodeOutputLimit, "the arguments of tools.%s have %d bytes, at most %d are allowed", a.Op, len(a.Args), maxArgs)
	case len(a.Args) == 0 || a.Args[0] != '[':
		return breachf(engine.CodeUnavailable, "the arguments of tools.%s are no array", a.Op)
	}
	return nil
}

// answered notes that the ask has its answer, and reports whether it was waiting for one.
func (r *record) answered(id int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	op, ok := r.open[id]
	if !ok {
		return false
	}
	delete(r.open, id)
	if op != engine.OpTimer {
		r.busy--
	}
	return true
}

// log notes l, or tells which limit forbids it.
func (r *record) log(l engine.Log) error {
	switch l.Level {
	case "debug", "info", "log", "warn", "error":
	default:
		return breachf(engine.CodeUnavailable, "unknown log level %q", clip(l.Level, 40))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	size := len(l.Text) + 1
	if r.logged+size > r.limits.Console+maxLogs {
		return breachf(engine.CodeOutputLimit, "more than %d bytes in the log", r.limits.Console)
	}
	r.logged += size
	return nil
}

// ending checks how a body is told to have ended.
func (r *record) ending(e engine.Ending) error {
	if e.CPU < 0 || e.Dropped < 0 {
		return breachf(engine.CodeUnavailable, "an ending with %v of CPU time and %d dropped lines", e.CPU, e.Dropped)
	}
	f := e.Failure
	if f == nil {
		if limit := overValue * r.limits.Value; len(e.Value) > limit {
			return breachf(engine.CodeOutputLimit, "the value has %d bytes, at most %d are allowed", len(e.Value), limit)
		}
		return nil
	}
	switch f.Code {
	case engine.CodeSyntax, engine.CodeException, engine.CodeTimeout, engine.CodeMemory, engine.CodeStack, engine.CodeStalled, engine.CodeBridgeLimit,
		engine.CodeOutputLimit, engine.CodeTooLarge, engine.CodeNondeterministic, engine.CodeCancelled, engine.CodeUnavailable:
	default:
		return breachf(engine.CodeUnavailable, "unknown failure code %q", clip(string(f.Code), 40))
	}
	switch {
	case e.Value != nil:
		return breachf(engine.CodeUnavailable, "an ending with a value and a failure")
	case len(f.Name)+len(f.Message) > maxText:
		return breachf(engine.CodeOutputLimit, "the failure has %d bytes, at most %d are allowed", len(f.Name)+len(f.Message), maxText)
	case f.Line < 0 || f.Column < 0:
		return breachf(engine.CodeUnavailable, "a failure at %d:%d", f.Line, f.Column)
	}
	return nil
}

// decode reads the payload of a frame.
func decode[T any](f frame) (T, error) {
	var v T
	if err := json.Unmarshal(f.payload, &v); err != nil {
		return v, fmt.Errorf("%w: kind %d: %w", errFrame, f.kind, err)
	}
	return v, nil
}

// clip cuts s to at most n bytes, on a character boundary where it has any.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}
