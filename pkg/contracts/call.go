package contracts

import (
	"encoding/json"
	"time"
)

// MetaCallID is where a request to a tool carries the id of its call, in MCP's _meta: the idempotency key, the same in every attempt.
const MetaCallID = "toolcrib/callId"

// A CallState is a state of a call.
type CallState string

// The states of a call: requested → (admitted → (waiting)) → running → finished.
// A call that nothing holds up goes from requested to running at once.
const (
	CallStateRequested CallState = "requested"
	CallStateAdmitted  CallState = "admitted" // hooks let it pass, or it has the approval that it waited for
	CallStateWaiting   CallState = "waiting"  // for an approval or a client's result
	CallStateRunning   CallState = "running"  // from here on the tool may have been reached
	CallStateFinished  CallState = "finished"
)

// A Call is the record of one real tool call, in [BucketCalls] under [CallKey].
// Every change is a compare-and-set.
type Call struct {
	Outbox
	ID        CallID          `json:"id"`
	Run       RunID           `json:"run"`
	Tool      string          `json:"tool"`           // as the caller named it: an id or a name
	Body      BodyID          `json:"body,omitempty"` // that made the call, "" for one that a model made itself
	Args      json.RawMessage `json:"args,omitempty"`
	ArgsBlob  Hash            `json:"argsBlob,omitempty"` // in [StorePayloads], in place of large Args
	State     CallState       `json:"state"`
	Requested time.Time       `json:"requested"`
	Deadline  time.Time       `json:"deadline"`
	Waits     WaitsFor        `json:"waits,omitempty"`     // whom a waiting call waits for
	Passage   *Passage        `json:"admission,omitempty"` // what hooks made of the call; nil where none was asked
	Approval  ApprovalID      `json:"approval,omitempty"`  // that was asked for the call, "" for none
	Repaired  []string        `json:"repaired,omitempty"`  // what was mended in the arguments
	Grant     GrantID         `json:"grant,omitempty"`     // by which it is made without asking, "" for none
	Resolved  *ToolRef        `json:"resolved,omitempty"`  // nil until an executor resolved Tool
	// Attempt counts executions begun; Owner is the executor that began the last one and Lease until when it may be thought alive.
	Attempt int       `json:"attempt,omitempty"`
	Owner   string    `json:"owner,omitempty"`
	Lease   time.Time `json:"lease,omitzero"`
	Started time.Time `json:"started,omitzero"` // of the last attempt
	// Cancelled is set when the caller no longer wants the call; the executor ends it.
	Cancelled bool     `json:"cancelled,omitempty"`
	Outcome   *Outcome `json:"outcome,omitempty"` // once finished
	// ResultBlob names a large Outcome.Result in [StorePayloads]; Outcome.Result is then nil.
	ResultBlob Hash `json:"resultBlob,omitempty"`
}

// A Passage is what hooks made of a call, before it was made.
type Passage struct {
	At    time.Time `json:"at"`
	Hooks []HookRun `json:"hooks"` // that were asked
	// Args take the place of the call's own where hooks rewrote these; ArgsBlob names them in [StorePayloads] where they are large.
	Args     json.RawMessage `json:"args,omitempty"`
	ArgsBlob Hash            `json:"argsBlob,omitempty"`
	Rewrote  []string        `json:"rewrote,omitempty"` // the hooks that did
	Terms    *ApprovalTerms  `json:"terms,omitempty"`   // of the approval that hooks ask for; nil for none
	AskedBy  string          `json:"askedBy,omitempty"`
}

// WaitsFor says whom a waiting call waits for.
type WaitsFor string

// Whom a call can wait for.
const (
	WaitsForClient   WaitsFor = "client"   // its caller, who runs the tool and posts the result
	WaitsForApproval WaitsFor = "approval" // whoever may decide
)

// A ToolRef names a tool in an outcome.
type ToolRef struct {
	ID     ToolID     `json:"id"`
	Name   string     `json:"name"`
	Source SourceKind `json:"source"`
	Hash   Hash       `json:"hash,omitempty"`
}

// A Status is how a call ended.
type Status string

// The final statuses of a call, and the two in which a caller may meet it before.
const (
	StatusOK              Status = "ok"
	StatusError           Status = "error"
	StatusInvalidArgs     Status = "invalid_args"
	StatusBlocked         Status = "blocked" // by policy or a hook
	StatusDenied          Status = "denied"  // by whoever was asked to approve
	StatusApprovalTimeout Status = "approval_timeout"
	StatusRateLimited     Status = "rate_limited"
	StatusUnavailable     Status = "unavailable"
	StatusTimeout         Status = "timeout"
	StatusCancelled       Status = "cancelled"

	StatusWaiting        Status = "waiting"
	StatusRequiresAction Status = "requires_action"
)

// SideEffects says whether a call that is not ok may have changed something.
type SideEffects string

// The values of SideEffects.
const (
	SideEffectsNone    SideEffects = "none"    // the tool was not reached
	SideEffectsDone    SideEffects = "done"    // the tool answered
	SideEffectsUnknown SideEffects = "unknown" // it may or may not have happened
)

// An Outcome is the one end of a call, the same in every surface.
type Outcome struct {
	Status      Status      `json:"status"`
	Tool        *ToolRef    `json:"tool,omitempty"` // nil where the name could not be resolved
	Result      *Result     `json:"result,omitempty"`
	Error       *Error      `json:"error,omitempty"`
	SideEffects SideEffects `json:"sideEffects,omitempty"`
	Repaired    []string    `json:"repaired,omitempty"`
	RetryAfter  int64       `json:"retryAfter,omitempty"` // milliseconds
	CallID      CallID      `json:"callId"`
	DurationMs  int64       `json:"durationMs"`
}

// A Result is what a tool answered, in MCP's form.
type Result struct {
	Content           []json.RawMessage `json:"content"` // content blocks; never nil once made by [TextResult] or the executor
	StructuredContent json.RawMessage   `json:"structuredContent,omitempty"`
	IsError           bool              `json:"isError,omitempty"`
	// Truncated says what was cut away because of the output limit, "" for nothing.
	Truncated string `json:"truncated,omitempty"`
	// More says where what was cut away is; nil where nothing was, and where it is not kept.
	More *More `json:"more,omitempty"`
}

// A More says where the whole of a cut result is: a tool of the run, platform:core:read_result, gives it in pages.
type More struct {
	Handle string    `json:"handle"`           // of the whole result, within its run
	Bytes  int64     `json:"bytes"`            // of the whole result as JSON
	Parts  []CutPart `json:"parts"`            // what was cut, the first of them where there are many
	Others int       `json:"others,omitempty"` // number of cuts that are not among Parts
}

// A CutPart is a place in a result of which a part, or all, was cut away.
type CutPart struct {
	Path  string  `json:"path"` // JSON Pointer into the whole result
	Unit  CutUnit `json:"unit"` // of Shown and Total
	Shown int64   `json:"shown"`
	Total int64   `json:"total"`
	// Type, MimeType and URI are those of a content block that was left out; "" for other parts, and where the block has none.
	Type     string `json:"type,omitempty"`
	MimeType string `json:"mimeType,omitempty"`
	URI      string `json:"uri,omitempty"`
}

// A CutUnit says what a [CutPart] counts.
type CutUnit string

// The units of cuts.
const (
	CutCharacters CutUnit = "characters" // of a text
	CutItems      CutUnit = "items"      // of an array
	CutMembers    CutUnit = "members"    // of an object
	CutBytes      CutUnit = "bytes"      // of anything else, as JSON
)

// TextResult returns a result of one text block and, where it is not nil, structured content.
func TextResult(text string, structured json.RawMessage) *Result {
	block, _ := json.Marshal(struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{"text", text})
	return &Result{Content: []json.RawMessage{block}, StructuredContent: structured}
}
