// Package policy says which tools a run may see and call, from allow and deny
// globs over tool ids in layers (global, tenant, profile, agent, sandbox,
// session). It knows no conditions, approvals or limits, and stores nothing.
package policy

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A Policy is a set of compiled layers. It never changes and is safe for
// concurrent use. A nil Policy has no layers.
type Policy struct {
	layers []*layer // by level, in the given order within one
}

// A layer is one compiled layer.
type layer struct {
	contracts.PolicyLayer
	title       string // for decisions: "tenant", "agent planner"
	allow, deny *globs
}

// levels are the levels of layers, farthest first, each with what a run says of it; nil at levels that hold for every run.
func levels() []level {
	return []level{
		{"global", nil},
		{"tenant", nil},
		{"profile", func(l contracts.Labels) string { return l.Profile }},
		{"agent", func(l contracts.Labels) string { return l.Agent }},
		{"sandbox", func(l contracts.Labels) string { return l.Sandbox }},
		{"session", func(l contracts.Labels) string { return l.Session }},
	}
}

type level struct {
	name  string
	label func(contracts.Labels) string
}

// Compile checks layers and prepares them for deciding; their order does not
// matter to what is allowed. The error is a [contracts.Error] with
// [contracts.CodeInvalid] that names the layer and the glob. Whoever gets an error must deny everything.
func Compile(layers []contracts.PolicyLayer) (*Policy, error) {
	p := &Policy{}
	for i, l := range layers {
		c, err := compileLayer(l)
		if err != nil {
			return nil, contracts.Errorf(contracts.CodeInvalid, "policy layer %d: %w", i+1, err)
		}
		p.layers = append(p.layers, c)
	}
	sortLayers(p.layers)
	return p, nil
}

func sortLayers(layers []*layer) {
	slices.SortStableFunc(layers, func(a, b *layer) int { return cmp.Compare(rank(a.Level), rank(b.Level)) })
}

func rank(name string) int {
	return slices.IndexFunc(levels(), func(l level) bool { return l.name == name })
}

func compileLayer(l contracts.PolicyLayer) (*layer, error) {
	r := rank(l.Level)
	if r < 0 {
		return nil, fmt.Errorf("level %q: want global, tenant, profile, agent, sandbox or session", l.Level)
	}
	named := levels()[r].label != nil
	switch {
	case named && l.Name == "":
		return nil, fmt.Errorf("%s: the name is empty; want the name of the %s that the layer is for", l.Level, l.Level)
	case !named && l.Name != "":
		return nil, fmt.Errorf("%s %q: want no name, the layer holds for every run", l.Level, l.Name)
	}
	c := &layer{PolicyLayer: l, title: l.Level}
	c.Allow, c.Deny = slices.Clone(l.Allow), slices.Clone(l.Deny)
	if named {
		c.title += " " + l.Name
	}
	var err error
	if c.allow, err = compileGlobs(c.Allow); err != nil {
		return nil, fmt.Errorf("%s, allow: %w", c.title, err)
	}
	if c.deny, err = compileGlobs(c.Deny); err != nil {
		return nil, fmt.Errorf("%s, deny: %w", c.title, err)
	}
	return c, nil
}

// For returns what holds for a run with these labels: the layers of the levels
// global and tenant, and those whose name is the run's label of their level. A
// nil Policy gives an Effective that allows everything.
func (p *Policy) For(labels contracts.Labels) *Effective {
	e := &Effective{}
	if p == nil {
		return e
	}
	all := levels()
	for _, l := range p.layers {
		if label := all[rank(l.Level)].label; label == nil || label(labels) == l.Name {
			e.layers = append(e.layers, l)
		}
	}
	return e
}

// An Effective is the policy of one run. It never changes and is safe for
// concurrent use. A nil Effective, or one without layers, allows everything.
type Effective struct {
	layers []*layer
}

// A Decision says whether a tool is allowed and what decided it. It is for
// operators: a run's caller may not learn of a tool that is hidden from it.
type Decision struct {
	Allowed bool
	// Layer is the layer that decided, "agent planner": the one that denied, or else the last
	// one with an allow list; "" where no layer says anything about the tool.
	Layer string
	// Rule is the glob that decided; "" where a layer's allow list matches nothing, or no layer decided.
	Rule string
}

// Decide says whether the tool id is allowed: no layer denies it, and every
// layer with an allow list lets it through.
func (e *Effective) Decide(id contracts.ToolID) Decision {
	d := Decision{Allowed: true}
	if e == nil || len(e.layers) == 0 {
		return d
	}
	var has signature
	has.add(string(id))
	for _, l := range e.layers {
		if rule, ok := l.deny.match(string(id), &has); ok {
			return Decision{Layer: l.title, Rule: rule}
		}
	}
	for _, l := range e.layers {
		if len(l.Allow) == 0 {
			continue
		}
		rule, ok := l.allow.match(string(id), &has)
		if !ok {
			return Decision{Layer: l.title}
		}
		d.Layer, d.Rule = l.title, rule
	}
	return d
}

// Layers returns a copy of the layers, farthest first; nil where there are none. Stored and
// given to [Compile] and [Policy.For] with the same labels, they make the same Effective again.
func (e *Effective) Layers() []contracts.PolicyLayer {
	if e == nil {
		return nil
	}
	var list []contracts.PolicyLayer
	for _, l := range e.layers {
		c := l.PolicyLayer
		c.Allow, c.Deny = slices.Clone(c.Allow), slices.Clone(c.Deny)
		list = append(list, c)
	}
	return list
}

// Both returns what a and b both allow. A nil one allows everything.
func Both(a, b *Effective) *Effective {
	both := &Effective{}
	for _, e := range []*Effective{a, b} {
		if e == nil {
			continue
		}
		for _, l := range e.layers {
			if !slices.ContainsFunc(both.layers, l.equal) {
				both.layers = append(both.layers, l)
			}
		}
	}
	sortLayers(both.layers)
	return both
}

func (l *layer) equal(o *layer) bool {
	return l == o || l.title == o.title && slices.Equal(l.Allow, o.Allow) && slices.Equal(l.Deny, o.Deny)
}
