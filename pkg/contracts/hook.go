package contracts

import "encoding/json"

// What Toolcrib and a hook say to each other. docs/hooks.md is the whole protocol.

// HookProtocol is the version of the protocol. A change that an older side could not pass over gets the next one.
const HookProtocol = 1

// Bounds of what hooks are sent and send, in bytes. On the bus [PluginMessageMost] bounds the body of a request besides.
const (
	HookArgumentsMost = 1 << 20 // the arguments of a call
	HookAnswerMost    = 1 << 20 // a [HookAnswer]
)

// The headers of a request to a hook. Those of a webhook are the three of Standard Webhooks; a responder on the bus gets the id alone.
const (
	HookIDHeader        = "Webhook-Id"          // names the request: no other has it
	HookTimeHeader      = "Webhook-Timestamp"   // when it was sent, in seconds since 1970
	HookSignatureHeader = "Webhook-Signature"   // as [HookKey.Sign] returns it; one for each key, separated by spaces
	HookTimeoutHeader   = "Toolcrib-Timeout-Ms" // after how many milliseconds nobody waits for the answer any more
)

// A HookEvent is when a hook is asked or told.
type HookEvent string

// The values of HookEvent.
const (
	HookBefore HookEvent = "before_tool_call" // it is asked whether the call may be made
	HookAfter  HookEvent = "after_tool_call"  // it is told how the call ended
)

// A HookDecision is what a hook makes of a call.
type HookDecision string

// The values of HookDecision that a hook can answer.
const (
	HookAllow   HookDecision = "allow"
	HookBlock   HookDecision = "block"   // the call is not made
	HookRewrite HookDecision = "rewrite" // it goes on with other arguments
	HookApprove HookDecision = "approve" // it is made once somebody approved of it
)

// What a [HookRun] has in place of an answer.
const (
	HookFailed  HookDecision = "failed"  // no answer, or none that makes sense
	HookSkipped HookDecision = "skipped" // not asked, because it gave no answer a moment ago
	HookTold    HookDecision = "told"    // it took what happened
)

// A HookRequest is what a hook is asked or told: the body of the request.
type HookRequest struct {
	Protocol int       `json:"protocol"`
	Type     HookEvent `json:"type"`
	Tenant   TenantID  `json:"tenant"`
	Run      RunID     `json:"run"`
	Labels   Labels    `json:"labels"` // of the run
	CallID   CallID    `json:"callId"`
	Tool     HookTool  `json:"tool"`
	// Arguments is a JSON object; nil where it was left out, which Omitted says.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// Outcome is how the call ended; nil before it.
	Outcome *Outcome `json:"outcome,omitempty"`
	// Omitted names what was left out after a call because it is too large: arguments, outcome.result.
	Omitted []string `json:"omitted,omitempty"`
}

// A HookTool is the tool of a call as a hook sees it.
type HookTool struct {
	ID     ToolID     `json:"id"`
	Name   string     `json:"name"` // as its source calls it
	Source SourceKind `json:"source"`
	Hash   Hash       `json:"hash,omitempty"`
	// Annotations are what the source says of the tool; nil where it says nothing.
	Annotations *Annotations `json:"annotations,omitempty"`
	// TrustAnnotations is the operator's word that they hold.
	TrustAnnotations bool `json:"trustAnnotations,omitempty"`
}

// A HookAnswer is what a hook answers before a call. After one, an answer is not read.
type HookAnswer struct {
	Decision HookDecision `json:"decision"`
	// Reason is why the call is blocked, for a model; only with block.
	Reason string `json:"reason,omitempty"`
	// Arguments is the JSON object that takes the place of the arguments. Needed with rewrite, possible with approve.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// Approval says what is asked of whom; only with approve, where nil means its defaults.
	Approval *ApprovalTerms `json:"approval,omitempty"`
}

// A HookRun is the record of one hook that was asked or told about a call. It holds nothing of arguments and answers but what they came to.
type HookRun struct {
	Hook     string       `json:"hook"` // its name in the configuration
	Event    HookEvent    `json:"event"`
	Decision HookDecision `json:"decision"`
	Advisory bool         `json:"advisory,omitempty"` // then Decision had no consequence
	Micros   int64        `json:"micros"`
	Problem  string       `json:"problem,omitempty"` // why it failed, for the operator
}
