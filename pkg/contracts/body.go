package contracts

import (
	"encoding/json"
	"strings"
	"time"
)

// Limits of bodies, by the specification.
const (
	LongestBody      = 64 << 10  // bytes of its text
	MostBodyCalls    = 100       // searches, describes and calls together
	LargestBodyValue = 256 << 10 // bytes of the JSON of its value that a caller gets
)

// BodyOf returns the id of the body that the call of the control tool brought; [BodyID.Call] is its inverse.
func BodyOf(c CallID) BodyID { return BodyID("body_" + strings.TrimPrefix(string(c), "call_")) }

// Call returns the id of the call of the control tool that brought the body.
func (b BodyID) Call() CallID { return CallID("call_" + strings.TrimPrefix(string(b), "body_")) }

// A BodyState is a state of a body.
type BodyState string

// The states of a body: requested → running → finished, with waits between.
const (
	BodyStateRequested BodyState = "requested"
	BodyStateRunning   BodyState = "running"
	BodyStateWaiting   BodyState = "waiting" // some of its calls wait for somebody; its clock stands still
	BodyStateFinished  BodyState = "finished"
)

// A Body is the record of a text that a model passed to tool_search_code, in
// [BucketBodies] under [BodyKey]. All that its run depends on, apart from the answers that it gets, stands here.
type Body struct {
	Outbox
	ID        BodyID    `json:"id"`
	Run       RunID     `json:"run"`
	Code      string    `json:"code"` // the inside of an async function, at most [LongestBody] bytes
	Seed      uint64    `json:"seed"` // of Math.random
	Requested time.Time `json:"requested"`
	TimeoutMs int64     `json:"timeoutMs"` // wall clock, standing still while the body waits for somebody
	State     BodyState `json:"state"`
	Repaired  []string  `json:"repaired,omitempty"` // what was mended in the arguments
	// Owner is the sandbox that has the body and Lease until when it may be thought alive.
	Owner string    `json:"owner,omitempty"`
	Lease time.Time `json:"lease,omitzero"`
	// Waits are the calls of the body that wait for the caller's own tools.
	Waits     []CallID `json:"waits,omitempty"`
	Cancelled bool     `json:"cancelled,omitempty"` // the caller no longer wants it
	// Ended, once finished, is how it ended; nil where EndedBlob names it in [StorePayloads].
	Ended     *BodyEnd  `json:"ended,omitempty"`
	EndedBlob Hash      `json:"endedBlob,omitempty"`
	Finished  time.Time `json:"finished,omitzero"`
}

// A BodyEnd is how a body ended: it ran and has a Result, or it was not run and has an Error.
type BodyEnd struct {
	Result *BodyResult `json:"result,omitempty"`
	Error  *Error      `json:"error,omitempty"` // such as [CodeRateLimited] and [CodeUnavailable]
	// Content are the content blocks, such as images, that the value refers to.
	Content []json.RawMessage `json:"content,omitempty"`
}

// A BodyResult is what comes of a body, on success and on failure alike.
type BodyResult struct {
	OK    bool            `json:"ok"`
	Value json.RawMessage `json:"value,omitempty"` // null where the body returned nothing; absent where it failed
	Error *BodyError      `json:"error,omitempty"`
	Logs  []BodyLog       `json:"logs"`
	// Calls are the tool calls of the body in the order of asking.
	Calls     []BodyCall    `json:"calls"`
	Telemetry BodyTelemetry `json:"telemetry"`
	// Truncated says what was cut away because of the limits of value and console, "" for nothing.
	Truncated string `json:"truncated,omitempty"`
	// More says where the whole of a cut value is; nil where it was not cut, and where it is not kept.
	More *More `json:"more,omitempty"`
}

// A BodyError is why a body failed. Line and Column count from 1 in the body's own text; 0 where they are not known.
type BodyError struct {
	Name    string   `json:"name,omitempty"` // of the JavaScript error
	Message string   `json:"message"`
	Line    int      `json:"line,omitempty"`
	Column  int      `json:"column,omitempty"`
	Code    BodyCode `json:"code"`
}

// A BodyCode says what kind of failure ended a body.
type BodyCode string

// The codes of failed bodies.
const (
	BodySyntax           BodyCode = "syntax"           // the text is neither JavaScript nor TypeScript
	BodyException        BodyCode = "exception"        // an error that the body did not catch
	BodyTimeout          BodyCode = "timeout"          // longer than its wall clock limit
	BodyMemory           BodyCode = "memory"           // more than its memory
	BodyStack            BodyCode = "stack"            // deeper than its stack
	BodyStalled          BodyCode = "stalled"          // nothing is left that could settle what it awaits
	BodyBridgeLimit      BodyCode = "bridge_limit"     // more searches, describes and calls than it may make
	BodyOutputLimit      BodyCode = "output_limit"     // a value far beyond what can be returned
	BodyTooLarge         BodyCode = "too_large"        // the text is over [LongestBody]
	BodyNondeterministic BodyCode = "nondeterministic" // run again with the same answers, it did something else
	BodyCancelled        BodyCode = "cancelled"
	BodyUnavailable      BodyCode = "unavailable" // the sandbox failed, not the body
)

// A BodyLog is one line that a body wrote to its console.
type BodyLog struct {
	Level string `json:"level"` // debug, info, log, warn or error
	Text  string `json:"text"`
}

// A BodyCall is one tool call of a body.
type BodyCall struct {
	ID     string `json:"id"` // of the tool, as the body named it where it could not be resolved
	CallID CallID `json:"callId"`
	Status Status `json:"status"` // cancelled where the body ended before it
	Ms     int64  `json:"ms"`
}

// BodyTelemetry counts what a body did, and says out of what.
type BodyTelemetry struct {
	CatalogSize int                `json:"catalogSize"` // tools of the run
	Sources     map[SourceKind]int `json:"sources"`     // number of tools by kind
	Searches    int                `json:"searches"`
	Describes   int                `json:"describes"`
	Calls       int                `json:"calls"`
}

// A BodyRequest asks a sandbox to run the body whose record is there already.
type BodyRequest struct {
	Run  RunID  `json:"run"`
	Body BodyID `json:"body"`
}

// A BodyAnswer says that a sandbox has taken the body; how it ends is in its record and told by [BodyFinished]. A
// sandbox that has no room answers with an [Error] with [CodeRateLimited], one that cannot run bodies with [CodeUnavailable].
type BodyAnswer struct {
	Owner string `json:"owner"`
}

// A SandboxRequest asks whether bodies can be run.
type SandboxRequest struct{}

// A SandboxAnswer says whether bodies can be run, and what stands around them.
type SandboxAnswer struct {
	Ready  bool     `json:"ready"`
	Reason string   `json:"reason,omitempty"` // why not
	Layers []string `json:"layers,omitempty"` // of protection that are active, such as seccomp
}

// BodyRequested says that a body was accepted.
type BodyRequested struct {
	At    time.Time `json:"at"`
	Run   RunID     `json:"run"`
	Body  BodyID    `json:"body"`
	Bytes int       `json:"bytes"` // of its text, which is in the record
}

// BodyWaiting says that a body cannot go on before somebody acts: its caller, for client tools.
type BodyWaiting struct {
	At    time.Time `json:"at"`
	Run   RunID     `json:"run"`
	Body  BodyID    `json:"body"`
	Calls []CallID  `json:"calls"` // that wait
}

// BodyFinished says how a body ended. Its value and logs are not in events: the record has them.
type BodyFinished struct {
	At         time.Time `json:"at"`
	Run        RunID     `json:"run"`
	Body       BodyID    `json:"body"`
	OK         bool      `json:"ok"`
	Code       BodyCode  `json:"code,omitempty"`
	Refused    Code      `json:"refused,omitempty"` // why it was not run
	Searches   int       `json:"searches"`
	Describes  int       `json:"describes"`
	Calls      int       `json:"calls"`
	ValueBytes int       `json:"valueBytes"`
	DurationMs int64     `json:"durationMs"`
	CPUMicros  int64     `json:"cpuMicros"` // CPU time of its isolate
}

func (e BodyRequested) Subject(t TenantID) string {
	return runSubject(t, e.Run, "body", string(e.Body), "requested")
}
func (e BodyWaiting) Subject(t TenantID) string {
	return runSubject(t, e.Run, "body", string(e.Body), "waiting")
}
func (e BodyFinished) Subject(t TenantID) string {
	return runSubject(t, e.Run, "body", string(e.Body), "finished")
}
