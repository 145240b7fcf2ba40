package contracts

import (
	"encoding/json"
	"strings"
	"time"
)

// ApprovalOf returns the id of the approval that the call waits for: a call asks once. [ApprovalID.Call] is its inverse.
func ApprovalOf(c CallID) ApprovalID {
	return ApprovalID("appr_" + strings.TrimPrefix(string(c), "call_"))
}

// Call returns the id of the call that waits for the approval.
func (a ApprovalID) Call() CallID { return CallID("call_" + strings.TrimPrefix(string(a), "appr_")) }

// ParseApprovalID returns s as an ApprovalID, or an [Error] with [CodeInvalid].
func ParseApprovalID(s string) (ApprovalID, error) {
	if err := checkID("appr", s); err != nil {
		return "", err
	}
	return ApprovalID(s), nil
}

// An ApprovalState is a state of an approval.
type ApprovalState string

// The states of an approval: waiting → decided, expired or void. None of the last three changes any more.
const (
	ApprovalStateWaiting ApprovalState = "waiting"
	ApprovalStateDecided ApprovalState = "decided"
	ApprovalStateExpired ApprovalState = "expired" // nobody decided in time
	ApprovalStateVoid    ApprovalState = "void"    // the call ended before anybody decided, or is not what was asked about any more
)

// An ApprovalDecision is what somebody answered to an approval.
type ApprovalDecision string

// The decisions.
const (
	DecisionAllowOnce   ApprovalDecision = "allow_once"   // this call
	DecisionAllowAlways ApprovalDecision = "allow_always" // this call and, by a [Grant], others like it
	DecisionDeny        ApprovalDecision = "deny"
)

// An Approval is the record of a question to people, in [BucketApprovals] under [ApprovalKey]: may this one call be made? What it is
// bound to (tool, arguments, policy) cannot change: a call that differs in any of it is not the one that was approved.
type Approval struct {
	Outbox
	ID     ApprovalID    `json:"id"`
	Run    RunID         `json:"run"`
	Call   CallID        `json:"call"`
	Body   BodyID        `json:"body,omitempty"`  // that made the call, "" for one that a model made itself
	Agent  string        `json:"agent,omitempty"` // the run's label, to which a grant is bound
	State  ApprovalState `json:"state"`
	Tool   ToolRef       `json:"tool"`   // with its hash
	Args   Hash          `json:"args"`   // of the arguments, in a canonical form
	Policy Hash          `json:"policy"` // version of what the run may do, when it was asked
	Terms  ApprovalTerms `json:"terms"`  // without defaults left to fill
	// AskedBy is what asked: the policy rule or the hook. It is for those who decide, not for the run.
	AskedBy   string    `json:"askedBy"`
	Requested time.Time `json:"requested"`
	Expires   time.Time `json:"expires"`
	Verdict   *Verdict  `json:"verdict,omitempty"` // once decided
	Consumed  time.Time `json:"consumed,omitzero"` // when the call was made by it, which happens once
	Reason    string    `json:"reason,omitempty"`  // why it is void
	Grant     *Grant    `json:"grant,omitempty"`   // that allow_always made; its own record counts
}

// A Verdict is a decision with who made it.
type Verdict struct {
	Decision ApprovalDecision `json:"decision"`
	By       string           `json:"by"` // the principal
	At       time.Time        `json:"at"`
	Note     string           `json:"note,omitempty"` // at most 512 characters; the model is told it where the call is denied
}

// A GrantID names a grant: grant_….
type GrantID string

// NewGrantID returns a fresh id. Safe for concurrent use.
func NewGrantID() GrantID { return GrantID("grant_" + uuid7()) }

// ParseGrantID returns s as a GrantID, or an [Error] with [CodeInvalid].
func ParseGrantID(s string) (GrantID, error) {
	if err := checkID("grant", s); err != nil {
		return "", err
	}
	return GrantID(s), nil
}

// A Grant is the record of an approval in advance, in [BucketGrants] under [GrantKey]. It allows calls that an approval would be asked for:
// of one tool as it was, by runs of one agent.
type Grant struct {
	Outbox
	ID    GrantID `json:"id"`
	Agent string  `json:"agent"` // the run's label; "" is for runs without one
	Tool  ToolID  `json:"tool"`
	Hash  Hash    `json:"hash"` // of the tool: a changed one is asked for again
	// Args are the arguments that must have exactly these values, by name; nil leaves all free.
	Args     map[string]json.RawMessage `json:"args,omitempty"`
	Approval ApprovalID                 `json:"approval"` // that it came from
	By       string                     `json:"by"`       // the principal who decided
	At       time.Time                  `json:"at"`
	Expires  time.Time                  `json:"expires,omitzero"` // zero: until it is revoked
	Revoked  time.Time                  `json:"revoked,omitzero"` // from then on it allows nothing
}

// ApprovalRequested says that a call waits for a decision. The call's arguments are in its record.
type ApprovalRequested struct {
	At       time.Time  `json:"at"`
	Run      RunID      `json:"run"`
	Approval ApprovalID `json:"approval"`
	Call     CallID     `json:"call"`
	Tool     ToolRef    `json:"tool"`
	Title    string     `json:"title"`
	Severity Severity   `json:"severity"`
	Expires  time.Time  `json:"expires"`
}

// ApprovalDecided says what somebody decided.
type ApprovalDecided struct {
	At       time.Time        `json:"at"`
	Run      RunID            `json:"run"`
	Approval ApprovalID       `json:"approval"`
	Call     CallID           `json:"call"`
	Decision ApprovalDecision `json:"decision"`
	By       string           `json:"by"`
}

// ApprovalEnded says that an approval ended without a decision.
type ApprovalEnded struct {
	At       time.Time     `json:"at"`
	Run      RunID         `json:"run"`
	Approval ApprovalID    `json:"approval"`
	Call     CallID        `json:"call"`
	State    ApprovalState `json:"state"` // expired or void
	Reason   string        `json:"reason,omitempty"`
}

func (e ApprovalRequested) Subject(t TenantID) string {
	return approvalSubject(t, e.Run, e.Approval, "requested")
}
func (e ApprovalDecided) Subject(t TenantID) string {
	return approvalSubject(t, e.Run, e.Approval, "decided")
}
func (e ApprovalEnded) Subject(t TenantID) string {
	return approvalSubject(t, e.Run, e.Approval, "ended")
}

func approvalSubject(t TenantID, r RunID, a ApprovalID, state string) string {
	return runSubject(t, r, "approval", string(a), state)
}
