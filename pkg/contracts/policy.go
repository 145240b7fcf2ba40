package contracts

import (
	"slices"
	"time"
)

// A PolicyRule is one rule of a [PolicyLayer]. It concerns a tool where one of Tools matches
// its id, and fires where When holds as well.
type PolicyRule struct {
	// Name names the rule in its layer: 1 to 64 letters, digits, '_' and '-'. Operators read it in decisions.
	Name string `json:"name"`
	// Effect is what the rule does where it fires.
	Effect PolicyEffect `json:"effect"`
	// Tools are globs over tool ids; none means every tool.
	Tools []string `json:"tools,omitempty"`
	// When is a condition in CEL over tool, run and args; "" always holds.
	When string `json:"when,omitempty"`
	// Approval says what is asked of whom; only with the effect approve, where nil means its defaults.
	Approval *ApprovalTerms `json:"approval,omitempty"`
}

// Equal reports whether r and o say the same.
func (r PolicyRule) Equal(o PolicyRule) bool {
	a, b := r.Approval, o.Approval
	return r.Name == o.Name && r.Effect == o.Effect && slices.Equal(r.Tools, o.Tools) && r.When == o.When &&
		(a == nil) == (b == nil) && (a == nil || a.Equal(*b))
}

// A PolicyEffect is what policy makes of a call.
type PolicyEffect string

// The values of PolicyEffect.
const (
	PolicyAllow   PolicyEffect = "allow"   // it may be made
	PolicyDeny    PolicyEffect = "deny"    // it may not be made
	PolicyApprove PolicyEffect = "approve" // it may be made once somebody approved of it
)

// A Ruling is what of a policy decided. It is for operators: a run's caller may not learn it.
type Ruling struct {
	// Layer is the level and the name of the layer, such as "agent planner".
	Layer string `json:"layer"`
	// Rule is the glob or the name of the rule, "" where the layer's allow list lets nothing through.
	Rule string `json:"rule,omitempty"`
	// Reason says what could not be evaluated where that decided. It holds nothing of the arguments.
	Reason string `json:"reason,omitempty"`
}

// ApprovalTerms say what somebody is asked before a call is made.
type ApprovalTerms struct {
	Title       string `json:"title,omitempty"`       // one line, at most 80 characters; "" for one that names the tool
	Description string `json:"description,omitempty"` // at most 512 characters
	// Severity is how much is at stake; "" means warning.
	Severity Severity `json:"severity,omitempty"`
	// Deciders are the principals who may decide; none means everybody with the scope approve.
	Deciders []string `json:"deciders,omitempty"`
	// ExpiresIn is the time limit in seconds, up to 7 days; 0 means 120.
	ExpiresIn int64 `json:"expiresIn,omitempty"`
}

// Limits of approvals.
const (
	ApprovalTimeout    = 120 * time.Second // where the terms set none
	ApprovalTimeoutMax = 7 * 24 * time.Hour
)

// Equal reports whether t and o say the same.
func (t ApprovalTerms) Equal(o ApprovalTerms) bool {
	return t.Title == o.Title && t.Description == o.Description && t.Severity == o.Severity &&
		slices.Equal(t.Deciders, o.Deciders) && t.ExpiresIn == o.ExpiresIn
}

// A Severity is how much is at stake with an approval.
type Severity string

// The values of Severity, rising.
const (
	SeverityInfo     Severity = "info"
	SeverityWarning  Severity = "warning"
	SeverityCritical Severity = "critical"
)
