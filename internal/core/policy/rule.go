package policy

import (
	"fmt"
	"slices"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// What the rules of a layer are held to, and, in [Compile], those of all layers.
const (
	mostLayers     = 10_000
	mostRules      = 2_000
	mostConditions = 512 << 10 // bytes of all conditions
	mostRuleGlobs  = 20_000    // of all rules
)

// A rule is a compiled rule.
type rule struct {
	name   string
	effect contracts.PolicyEffect
	when   *condition // nil where it always holds
	terms  contracts.ApprovalTerms
}

// readsArgs reports whether the rule can be decided at a call only.
func (r *rule) readsArgs() bool { return r.when != nil && r.when.readsArgs }

// A ruleSet finds the rules that concern a tool.
type ruleSet struct {
	list  []*rule
	all   []int  // positions of rules for every tool, ascending
	aimed []int  // of rules for every tool that their conditions leave to few, found by globs of these
	globs *globs // of the others
	owner []int  // position of the rule of each glob
}

func newRuleSet(rules []contracts.PolicyRule, compiled []*rule, in func(contracts.PolicyEffect) bool) (*ruleSet, error) {
	s := &ruleSet{}
	var list []string
	for i := range rules {
		if !in(rules[i].Effect) {
			continue
		}
		at := len(s.list)
		s.list = append(s.list, compiled[i])
		tools := rules[i].Tools
		if len(tools) == 0 {
			// One that allows by the arguments shows every tool: what it lets through is told at the call.
			if when := compiled[i].when; when != nil && usable(when.aims) && !(rules[i].Effect == contracts.PolicyAllow && when.readsArgs) {
				s.aimed, tools = append(s.aimed, at), when.aims
			} else {
				s.all = append(s.all, at)
			}
		}
		for _, g := range tools {
			list, s.owner = append(list, g), append(s.owner, at)
		}
	}
	var err error
	s.globs, err = compileGlobs(list)
	return s, err
}

// each calls f with the rules that concern the tool id, whose signature is has, in their order, until f returns false.
func (s *ruleSet) each(id string, has *signature, f func(*rule) bool) {
	var room [32]int
	hits := append(room[:0], s.all...)
	n := len(hits)
	if _, _, err := contracts.ToolID(id).Split(); len(s.aimed) > 0 && (err != nil || len(id) > longestReadAll) {
		hits = append(hits, s.aimed...) // what such an id is of is not known, and conditions cannot be evaluated
	}
	if len(s.owner) > 0 {
		m := len(hits)
		hits = s.globs.all(hits, id, has)
		for i := range hits[m:] {
			hits[m+i] = s.owner[hits[m+i]]
		}
	}
	if len(hits) > n {
		slices.Sort(hits)
		hits = slices.Compact(hits)
	}
	for _, i := range hits {
		if !f(s.list[i]) {
			return
		}
	}
}

// A wrongField is an error with the field of the layer that it is about.
type wrongField struct {
	pointer string // JSON Pointer from the layer, "/rules/2/when"
	err     error
}

func (w *wrongField) Error() string { return w.err.Error() }
func (w *wrongField) Unwrap() error { return w.err }

func wrong(pointer, format string, args ...any) error {
	return &wrongField{pointer, fmt.Errorf(format, args...)}
}

// A ruleCompiler compiles the rules of all layers of a policy.
type ruleCompiler struct {
	conditions            map[string]*condition // by their text
	rules, globs, letters int
}

// compile compiles the rules of one layer.
func (c *ruleCompiler) compile(rules []contracts.PolicyRule) ([]*rule, error) {
	c.rules += len(rules)
	if c.rules > mostRules {
		return nil, wrong("/rules", "rules: there are %d or more; want at most %d in all layers together", c.rules, mostRules)
	}
	out := make([]*rule, len(rules))
	seen := map[string]int{}
	for i := range rules {
		r := &rules[i]
		title := fmt.Sprintf("rule %d", i+1)
		at := fmt.Sprintf("/rules/%d", i)
		if !isName(r.Name) {
			return nil, wrong(at+"/name", "%s: name %q; want 1 to 64 letters a-z and A-Z, digits, '_' and '-'", title, clip(r.Name))
		}
		title += " (" + r.Name + ")"
		if j, ok := seen[r.Name]; ok {
			return nil, wrong(at+"/name", "%s: rule %d of the layer has the same name; want names that differ", title, j+1)
		}
		seen[r.Name] = i
		var err error
		if out[i], err = c.rule(r, title, at); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (c *ruleCompiler) rule(r *contracts.PolicyRule, title, at string) (*rule, error) {
	out := &rule{name: r.Name, effect: r.Effect}
	switch r.Effect {
	case contracts.PolicyAllow, contracts.PolicyDeny:
		if r.Approval != nil {
			return nil, wrong(at+"/approval", "%s: approval stands beside the effect %s; want it with the effect approve only", title, r.Effect)
		}
	case contracts.PolicyApprove:
		if field, problem := problemOf(r.Approval); problem != "" {
			return nil, wrong(at+"/approval/"+field, "%s: %s", title, problem)
		}
		out.terms = CompleteTerms(r.Approval)
	default:
		return nil, wrong(at+"/effect", "%s: effect %q; want allow, deny or approve", title, clip(string(r.Effect)))
	}
	for i, g := range r.Tools {
		if _, err := parseGlob(g); err != nil {
			return nil, wrong(fmt.Sprintf("%s/tools/%d", at, i), "%s, tools: %w", title, err)
		}
	}
	if c.globs += len(r.Tools); c.globs > mostRuleGlobs {
		return nil, wrong(at+"/tools", "%s: the rules have more than %d globs together", title, mostRuleGlobs)
	}
	if r.When == "" {
		return out, nil
	}
	if c.letters += len(r.When); c.letters > mostConditions {
		return nil, wrong(at+"/when", "%s: the conditions have more than %d bytes together", title, mostConditions)
	}
	if out.when = c.conditions[r.When]; out.when == nil {
		var err error
		if out.when, err = compileCondition(r.When); err != nil {
			return nil, wrong(at+"/when", "%s, when %q: %w", title, clip(r.When), err)
		}
		c.conditions[r.When] = out.when
	}
	return out, nil
}

func isName(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return len(s) > 0 && len(s) <= 64
}
