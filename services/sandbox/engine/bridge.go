package engine

import (
	"encoding/json"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/toolcrib/toolcrib/services/sandbox/engine/guest"
)

// What a body may ask for beyond its limits. The prelude keeps to them; these hold if it should not.
const (
	maxOpenTimers = 1000
	maxTimers     = 10_000
	maxArgs       = 4 << 20 // bytes of one ask's arguments
	valueFactor   = 16      // by which a value may be larger than its limit and still leave the isolate
	maxRejections = 16      // that are told
)

// A bridge counts what a body asks.
type bridge struct {
	open   map[int]Op   // asks without an answer
	used   map[int]bool // ids of all asks
	calls  int          // all asks but timers
	timers int
	busy   int // open ones of calls
	naps   int // open ones of timers
}

// A console counts what a body logs.
type console struct {
	logged  int // bytes
	dropped int // lines
}

// Send implements guest.Host.
func (r *run) Send(op string, id float64, payload string) (stop bool) {
	if !r.started && op != "fail" || r.ended && op != "log" { // text that got out of its function gets nowhere
		return false
	}
	switch op {
	case "log":
		r.log(payload)
	case "fail":
		r.end(nil, readFailure(payload, r.body.Code, !r.started))
		return r.failure.Code == CodeBridgeLimit // the body may go on asking, in a loop
	case "done":
		r.done(payload)
	default:
		return r.ask(Op(op), id, payload)
	}
	return false
}

// done ends the body with a value.
func (r *run) done(payload string) {
	most := valueFactor * r.body.Value
	switch {
	case payload == "":
		r.end(nil, nil)
	case len(payload) > most:
		r.end(nil, failure(CodeOutputLimit, "the value has %d bytes of JSON, %d are allowed", len(payload), most))
	case !json.Valid([]byte(payload)):
		r.end(nil, failure(CodeUnavailable, "the sandbox failed: the value is no JSON"))
	default:
		r.end(json.RawMessage(strings.ToValidUTF8(payload, "\uFFFD")), nil)
	}
}

// ask passes an ask on. It ends the body, and says that it must stop, if the ask is not allowed.
func (r *run) ask(op Op, id float64, payload string) (stop bool) {
	f := r.refuseAsk(op, id, payload)
	if f != nil {
		r.end(nil, f)
		return true
	}
	if r.open == nil {
		r.open, r.used = map[int]Op{}, map[int]bool{}
	}
	n := int(id)
	r.open[n], r.used[n] = op, true
	if op == OpTimer {
		r.timers++
		r.naps++
	} else {
		r.calls++
		r.busy++
	}
	r.door.Ask(Ask{ID: n, Op: op, Args: json.RawMessage(payload)})
	return false
}

// refuseAsk says what is wrong with an ask.
func (r *run) refuseAsk(op Op, id float64, payload string) *Failure {
	switch op {
	case OpTimer:
		if r.naps >= maxOpenTimers || r.timers >= maxTimers {
			return failure(CodeBridgeLimit, "the body set too many timers: %d at once and %d in all are allowed", maxOpenTimers, maxTimers)
		}
	case OpSearch, OpDescribe, OpCall:
		if r.calls >= r.body.Calls || r.busy >= r.body.Concurrent {
			return failure(CodeBridgeLimit, "the body asked too much: %d asks at once and %d in all are allowed", r.body.Concurrent, r.body.Calls)
		}
	default:
		return failure(CodeUnavailable, "the sandbox failed: the body asked for something that does not exist")
	}
	switch {
	case id != math.Trunc(id) || id < 1 || id > math.MaxInt32 || r.used[int(id)]:
		return failure(CodeUnavailable, "the sandbox failed: an ask has the number %v", id)
	case len(payload) > maxArgs:
		return failure(CodeOutputLimit, "the arguments of one %s have %d bytes of JSON, %d are allowed", op, len(payload), maxArgs)
	case !strings.HasPrefix(payload, "[") || !json.Valid([]byte(payload)) || !utf8.ValidString(payload):
		return failure(CodeUnavailable, "the sandbox failed: the arguments of an ask are no JSON array")
	}
	return nil
}

// answered notes that an ask has its answer, and says whether it waited for one.
func (r *run) answered(id int) bool {
	op, ok := r.open[id]
	if !ok {
		return false
	}
	delete(r.open, id)
	if op == OpTimer {
		r.naps--
	} else {
		r.busy--
	}
	return true
}

// log passes a line on while there is room. From the first line on that does not fit all are dropped.
func (r *run) log(payload string) {
	var l Log
	if r.dropped > 0 || len(payload) > 6*r.body.Console+1024 || json.Unmarshal([]byte(payload), &l) != nil {
		r.dropped++
		return
	}
	r.write(l)
}

func (r *run) write(l Log) {
	size := len(l.Text) + 1 // an empty line is something, too
	if r.dropped > 0 || r.logged+size > r.body.Console+1 {
		r.dropped++
		return
	}
	r.logged += size
	switch l.Level {
	case "debug", "info", "log", "warn", "error":
	default:
		l.Level = "log"
	}
	r.door.Log(l)
}

// tellRejections has the guest tell of promises whose rejection nobody handled.
func (r *run) tellRejections() {
	for i, reason := range r.iso.Unhandled() {
		if i == maxRejections || r.iso.Err() != nil {
			return
		}
		r.iso.Call(r.iso.Function(guest.FuncRejected), reason)
	}
}
