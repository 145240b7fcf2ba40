// Package engine runs JavaScript bodies, each in a fresh isolate: a copy-on-write clone of a snapshot of QuickJS-NG as WebAssembly
// on wazero. A body can reach nothing but its door. The package starts no process, locks nothing down
// and knows no tenant, tool or bus.
//
// A body is deterministic apart from its door: the same Body with the same answers in the same order gives the
// same asks, logs and ending. Time and randomness come from the Body and from the answers.
//
// # How it is made
//
// Package rewrite changes the module of QuickJS so that loops and bulk operations come past the host, which may stop them there, and
// so that its memory has a maximum. Package guest runs it: it boots it once with the scripts of package prelude, takes a snapshot, and
// clones that. The program in generate does both when Toolcrib is built (`make engine`), and puts the module, two snapshots (for
// bodies, and for stripping the types of TypeScript) and their licences into built, which is embedded; without it [Built] says
// what to do.
//
// # How a body runs
//
// An isolate is a guest: an instance of the module whose memory is a private mapping of the snapshot. [Engine.Run] compiles the text
// in one, as the inside of an async function, or, if it is no JavaScript, what is left of it without types. It starts the function and
// runs its jobs; then it waits for an answer, hands it over, runs the jobs, and so on until the body has ended or nothing is left that
// could go on. Answers come in only while the body waits. Time is up when a timer says so: the next loop of the guest, at most
// 10,000 iterations later, unwinds it, and no code of the body runs any more. An isolate that stayed small and sound is made
// byte for byte what the snapshot is and used again; any other is thrown away.
//
// A guest is not trusted: whatever it sends is checked, and whatever it does ends in a [Failure].
package engine

import (
	"encoding/json"
	"time"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A Body is a text to run and all that its run depends on, apart from the answers to what it asks.
type Body struct {
	Code string // the inside of an async function: JavaScript or TypeScript
	Seed uint64 // of Math.random
	Now  int64  // what the clock shows at the start, in milliseconds since 1970; an answer moves it
	Limits
}

// Limits bound one body. Zero means the default of the specification.
type Limits struct {
	Timeout    time.Duration // wall clock, standing still while the body is paused; 10 s
	Code       int           // bytes of Code; 64 KiB
	Calls      int           // asks of search, describe and call together; 100
	Concurrent int           // asks that are open at once, the rest wait inside; 16
	Console    int           // bytes of all log texts together; 64 KiB
	Value      int           // bytes of the value's JSON that a caller is meant to get; 256 KiB. A value up to 16 times as large still leaves the isolate, for the service to cut
}

// OrDefaults returns l with the default in the place of each limit that is not positive.
func (l Limits) OrDefaults() Limits {
	for _, d := range []struct {
		limit *int
		value int
	}{
		{&l.Code, contracts.LongestBody}, {&l.Calls, contracts.MostBodyCalls}, {&l.Concurrent, 16},
		{&l.Console, 64 << 10}, {&l.Value, contracts.LargestBodyValue},
	} {
		if *d.limit <= 0 {
			*d.limit = d.value
		}
	}
	if l.Timeout <= 0 {
		l.Timeout = 10 * time.Second
	}
	return l
}

// An Op is what a body asks of its door.
type Op string

// The ops.
const (
	OpSearch   Op = "search"   // [query, options]
	OpDescribe Op = "describe" // [id]
	OpCall     Op = "call"     // [id, args, options]
	OpTimer    Op = "timer"    // [milliseconds]; answered with nothing when the time is over. Counts for no limit of calls
)

// An Ask is one question of a body. It is answered once, or left unanswered when the body ends.
type Ask struct {
	ID   int             `json:"id"` // from 1, in the order of asking
	Op   Op              `json:"op"`
	Args json.RawMessage `json:"args"` // a JSON array
}

// An Answer settles an Ask. The order in which answers are given is part of the body's record.
type Answer struct {
	ID    int             `json:"id"`
	Value json.RawMessage `json:"value,omitempty"` // what the promise resolves to; nothing means undefined
	Error *Thrown         `json:"error,omitempty"` // what it rejects with, in place of Value
	Now   int64           `json:"now"`             // what the clock shows from here on, in milliseconds since 1970; never less than before
}

// A Thrown is the Error that a failed ask throws inside the body.
type Thrown struct {
	Name    string                     `json:"name,omitempty"` // "" means Error
	Message string                     `json:"message"`
	Props   map[string]json.RawMessage `json:"props,omitempty"` // further properties, such as status, callId and outcome
}

// A Log is one line that the body wrote to its console.
type Log struct {
	Level string `json:"level"` // debug, info, log, warn or error
	Text  string `json:"text"`
}

// A Code says why a body failed.
type Code string

// The codes, as the specification has them.
const (
	CodeSyntax           Code = "syntax"
	CodeException        Code = "exception"
	CodeTimeout          Code = "timeout"
	CodeMemory           Code = "memory"
	CodeStack            Code = "stack"
	CodeStalled          Code = "stalled" // nothing is left that could settle what the body awaits
	CodeBridgeLimit      Code = "bridge_limit"
	CodeOutputLimit      Code = "output_limit"
	CodeTooLarge         Code = "too_large" // the text itself
	CodeNondeterministic Code = "nondeterministic"
	CodeCancelled        Code = "cancelled"
	CodeUnavailable      Code = "unavailable" // the sandbox failed, not the body
)

// A Failure is why a body failed. Line and Column are from 1 in the body's own text, 0 where they are not known.
type Failure struct {
	Code    Code   `json:"code"`
	Name    string `json:"name,omitempty"`
	Message string `json:"message"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
}

// An Ending is how a body ended. What it logged and asked went through its door before.
type Ending struct {
	Value   json.RawMessage `json:"value,omitempty"` // nothing means undefined
	Failure *Failure        `json:"failure,omitempty"`
	Dropped int             `json:"dropped,omitempty"` // log lines beyond the limit
	CPU     time.Duration   `json:"cpu"`               // CPU time that the isolate used
}

// A Door is the only way out of a body, and into it. Ask and Log are called in the order of what the body does, from one goroutine, and must not block.
type Door interface {
	Ask(Ask)
	Log(Log)
	// Answers gives the answers; it is never closed before the body's end.
	Answers() <-chan Answer
	// Pauses says when the body's clock stands still (true) and goes on (false): while a call waits for somebody. Time in which the body itself computes counts all the same.
	Pauses() <-chan bool
}
