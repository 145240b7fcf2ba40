package policy

import (
	"encoding/json"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A Tool is what policy reads of a tool. Of one whose id alone is known, the rest counts as unknown.
type Tool struct {
	ID   contracts.ToolID
	Hash contracts.Hash // "" where it is not known
	// Trusted says whether the tool's source has trustAnnotations. Those of another source are never read.
	Trusted     bool
	Annotations *contracts.Annotations // nil where the source says none
}

// ToolOf returns what policy reads of t; trusted says whether its source has trustAnnotations.
func ToolOf(t *contracts.Tool, trusted bool) Tool {
	return Tool{ID: t.ID, Hash: t.Hash, Trusted: trusted, Annotations: t.Annotations}
}

// controlTool returns a control tool. It counts as read-only in a closed world: what is called through it is decided by itself.
func controlTool(id contracts.ToolID) Tool {
	yes, no := true, false
	return Tool{ID: id, Trusted: true, Annotations: &contracts.Annotations{ReadOnlyHint: &yes, OpenWorldHint: &no}}
}

// A Decision is what policy says and what decided it. It is for operators: a run's caller
// may not learn of a tool that is hidden from it, nor which rule stopped a call. The zero Decision denies.
type Decision struct {
	Effect contracts.PolicyEffect
	// Layer is the layer that decided, "agent planner": the one that denied, or the first one that asks for approval, or
	// else the last one with an allow list; "" where no layer says anything about the tool.
	Layer string
	// Rule is the glob or the name of the rule that decided; "" where a layer's allow list lets nothing through, or no layer decided.
	Rule string
	// Reason says what could not be evaluated where that decided, "" elsewhere. It holds nothing of the arguments.
	Reason string
	// Approval is what has to be asked, with the effect approve only: its terms are complete, and where several
	// rules ask, the strictest of each. It must not be changed.
	Approval *contracts.ApprovalTerms
}

// Denied reports whether the decision is neither allow nor approve.
func (d Decision) Denied() bool {
	return d.Effect != contracts.PolicyAllow && d.Effect != contracts.PolicyApprove
}

// See says whether a run may know of the tool, by all that does not read arguments. A tool that is
// denied does not exist for it. What See denies, [Effective.Call] denies with any arguments.
func (e *Effective) See(t Tool) Decision {
	return e.decide(t, nil)
}

// Forbids reports whether a run may not use a tool that is part of every run, such as a control tool: one that policy denies by its name or
// a rule. An allow list that does not mention it is about other tools.
func (e *Effective) Forbids(id contracts.ToolID) bool {
	d := e.See(controlTool(id))
	return d.Denied() && d.Rule != ""
}

// Call says whether the tool may be called with the arguments, a JSON object; nil is one without properties.
func (e *Effective) Call(t Tool, args json.RawMessage) Decision {
	if args == nil {
		args = json.RawMessage{}
	}
	return e.decide(t, args)
}

// decide is See where args is nil, and else Call. All that denies comes first, allow lists last,
// so that a tool that is denied by name is known from one that no list mentions.
func (e *Effective) decide(t Tool, args json.RawMessage) Decision {
	d := Decision{Effect: contracts.PolicyAllow}
	if e == nil || len(e.layers) == 0 {
		return d
	}
	id := string(t.ID)
	var has signature
	has.add(id)
	for _, p := range e.layers {
		if glob, ok := p.deny.match(id, &has); ok {
			return Decision{Effect: contracts.PolicyDeny, Layer: p.title, Rule: glob}
		}
	}
	v := &evaluation{tool: t, args: args}
	for _, p := range e.layers {
		if !v.narrow(p, &has, &d) {
			return d
		}
	}
	for _, p := range e.layers {
		if !v.admit(p, &has, &d) {
			return d
		}
	}
	return d
}

// narrow applies the rules of p that deny and ask for approval. It returns false where d is a denial.
func (v *evaluation) narrow(p applied, has *signature, d *Decision) bool {
	if len(p.narrowing.list) == 0 {
		return true
	}
	v.run = p.run
	p.narrowing.each(string(v.tool.ID), has, func(r *rule) bool {
		if v.args == nil && r.readsArgs() {
			return true
		}
		holds, problem := v.holds(r.when)
		switch {
		case problem != "":
			*d = Decision{Effect: contracts.PolicyDeny, Layer: p.title, Rule: r.name, Reason: problem}
		case !holds:
		case r.effect == contracts.PolicyDeny:
			*d = Decision{Effect: contracts.PolicyDeny, Layer: p.title, Rule: r.name}
		case d.Approval == nil:
			*d = Decision{Effect: contracts.PolicyApprove, Layer: p.title, Rule: r.name, Approval: &r.terms}
		default:
			both, ok := StricterTerms(*d.Approval, r.terms)
			if !ok {
				*d = Decision{Effect: contracts.PolicyDeny, Layer: p.title, Rule: r.name, Reason: "nobody may decide by all rules that ask for approval"}
				break
			}
			d.Approval = &both
		}
		return !d.Denied()
	})
	return !d.Denied()
}

// admit applies the allow list of p. It returns false where d is a denial.
func (v *evaluation) admit(p applied, has *signature, d *Decision) bool {
	if len(p.Allow) == 0 && len(p.allowing.list) == 0 {
		return true
	}
	by, ok := p.allow.match(string(v.tool.ID), has)
	var reason string
	if !ok {
		v.run = p.run
		p.allowing.each(string(v.tool.ID), has, func(r *rule) bool {
			if v.args == nil && r.readsArgs() { // it may
				by, ok = r.name, true
				return false
			}
			holds, problem := v.holds(r.when)
			if problem != "" && reason == "" {
				reason = "rule " + r.name + ": " + problem
			}
			by, ok = r.name, holds
			return !ok
		})
	}
	switch {
	case !ok:
		*d = Decision{Effect: contracts.PolicyDeny, Layer: p.title, Reason: reason}
	case d.Approval == nil:
		d.Layer, d.Rule = p.title, by
	}
	return ok
}
