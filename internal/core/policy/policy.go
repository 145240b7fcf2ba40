// Package policy says which tools a run may see and what becomes of its calls, from layers
// (global, tenant, profile, agent, sandbox, session) of allow and deny globs over tool
// ids and of rules with conditions. It asks nobody for approval, holds no limits of rate, and stores nothing.
package policy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A Policy is a set of compiled layers. It never changes and is safe for
// concurrent use. A nil Policy has no layers.
type Policy struct {
	byPlace map[place][]*layer // in the order of their digests
}

// A place is where layers stand.
type place struct{ level, name string }

// A layer is one compiled layer.
type layer struct {
	contracts.PolicyLayer
	title       string // for decisions: "tenant", "agent planner"
	rank        int    // of its level
	digest      contracts.Hash
	allow, deny *globs
	narrowing   *ruleSet // that deny and ask for approval
	allowing    *ruleSet // that let through
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

// Compile checks layers and prepares them for deciding; neither their order nor that of the rules in them
// matters to what is decided. The error is a [contracts.Error] with [contracts.CodeInvalid] that names the layer and the
// glob or rule, the place in a condition, and what is allowed; the one of its Fields, where there is one, is a
// JSON Pointer into layers. Whoever gets an error must deny everything.
func Compile(layers []contracts.PolicyLayer) (*Policy, error) {
	if len(layers) > mostLayers {
		return nil, contracts.Errorf(contracts.CodeInvalid, "there are %d policy layers; want at most %d", len(layers), mostLayers)
	}
	p := &Policy{byPlace: map[place][]*layer{}}
	rules := &ruleCompiler{conditions: map[string]*condition{}}
	for i, l := range layers {
		c, err := compileLayer(l, rules)
		if err != nil {
			e := contracts.Errorf(contracts.CodeInvalid, "policy layer %d: %w", i+1, err)
			if w, ok := errors.AsType[*wrongField](err); ok {
				e.Fields = []contracts.FieldError{{Field: fmt.Sprintf("/%d%s", i, w.pointer), Message: w.Error()}}
			}
			return nil, e
		}
		at := place{l.Level, l.Name}
		p.byPlace[at] = append(p.byPlace[at], c)
	}
	for _, l := range p.byPlace {
		slices.SortStableFunc(l, func(a, b *layer) int { return cmp.Compare(a.digest, b.digest) })
	}
	return p, nil
}

func rank(name string) int {
	return slices.IndexFunc(levels(), func(l level) bool { return l.name == name })
}

func compileLayer(l contracts.PolicyLayer, rules *ruleCompiler) (*layer, error) {
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
	c := &layer{PolicyLayer: cloneLayer(l), title: l.Level, rank: r}
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
	compiled, err := rules.compile(c.Rules)
	if err != nil {
		return nil, fmt.Errorf("%s, %w", c.title, err)
	}
	allows := func(e contracts.PolicyEffect) bool { return e == contracts.PolicyAllow }
	if c.allowing, err = newRuleSet(c.Rules, compiled, allows); err != nil {
		return nil, err
	}
	if c.narrowing, err = newRuleSet(c.Rules, compiled, func(e contracts.PolicyEffect) bool { return !allows(e) }); err != nil {
		return nil, err
	}
	c.digest = digest(c.PolicyLayer)
	return c, nil
}

func cloneLayer(l contracts.PolicyLayer) contracts.PolicyLayer {
	l.Allow, l.Deny, l.Rules = slices.Clone(l.Allow), slices.Clone(l.Deny), slices.Clone(l.Rules)
	for i := range l.Rules {
		r := &l.Rules[i]
		r.Tools = slices.Clone(r.Tools)
		if r.Approval != nil {
			terms := *r.Approval
			terms.Deciders = slices.Clone(terms.Deciders)
			r.Approval = &terms
		}
	}
	return l
}

// digest returns a hash of what a layer means: not of the order of its globs and rules, nor of whether a default is written out.
func digest(l contracts.PolicyLayer) contracts.Hash {
	set := func(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }
	l = cloneLayer(l)
	l.Allow, l.Deny = set(l.Allow), set(l.Deny)
	slices.SortFunc(l.Rules, func(a, b contracts.PolicyRule) int { return strings.Compare(a.Name, b.Name) })
	for i := range l.Rules {
		r := &l.Rules[i]
		r.Tools = set(r.Tools)
		if r.Effect == contracts.PolicyApprove {
			terms := CompleteTerms(r.Approval)
			r.Approval = &terms
		}
	}
	b, err := json.Marshal(l)
	if err != nil {
		panic("policy: a layer cannot be encoded: " + err.Error()) // it is text and numbers
	}
	return contracts.HashOf(b)
}

// For returns what holds for a run with these labels: the layers of the levels
// global and tenant, and those whose name is the run's label of their level. Who
// opened the run is unknown until [Effective.As]. A nil Policy gives an Effective that allows everything.
func (p *Policy) For(labels contracts.Labels) *Effective {
	e := &Effective{}
	if p == nil {
		return e
	}
	of := &run{labels: labels}
	for _, level := range levels() {
		at := place{level: level.name}
		if level.label != nil {
			if at.name = level.label(labels); at.name == "" {
				continue
			}
		}
		for _, l := range p.byPlace[at] {
			e.layers = append(e.layers, applied{l, of})
		}
	}
	return e
}

// An Effective is the policy of one run. It never changes and is safe for
// concurrent use. A nil Effective, or one without layers, allows everything.
type Effective struct {
	layers []applied // by level, farthest first, and then by digest
}

// An applied layer is one with what its conditions read of the run.
type applied struct {
	*layer
	run *run
}

func (p applied) equal(o applied) bool {
	return p.title == o.title && p.digest == o.digest && (p.run == o.run || reflect.DeepEqual(p.run, o.run))
}

// As returns e for a run that principal opened. Conditions that read run.principal deny without it, and where it is "".
func (e *Effective) As(principal string) *Effective {
	if e == nil {
		return nil
	}
	out := &Effective{layers: slices.Clone(e.layers)}
	for i := range out.layers {
		if p := &out.layers[i]; i > 0 && p.run == e.layers[i-1].run {
			p.run = out.layers[i-1].run
		} else {
			p.run = &run{p.run.labels, principal}
		}
	}
	return out
}

// Layers returns a copy of the layers, farthest first; nil where there are none. Stored and
// given to [Compile] and [Policy.For] with the same labels, they make the same Effective again.
func (e *Effective) Layers() []contracts.PolicyLayer {
	if e == nil {
		return nil
	}
	var list []contracts.PolicyLayer
	for _, p := range e.layers {
		list = append(list, cloneLayer(p.PolicyLayer))
	}
	return list
}

// Version names what the layers say: two Effectives with the same version decide alike for the same run. The order
// of layers, globs and rules, layers that occur twice and layers that say nothing do not matter to it.
func (e *Effective) Version() contracts.Hash {
	var digests []string
	if e != nil {
		for _, p := range e.layers {
			if len(p.Allow)+len(p.Deny)+len(p.Rules) > 0 {
				digests = append(digests, string(p.digest))
			}
		}
	}
	slices.Sort(digests)
	return contracts.HashOf([]byte(strings.Join(slices.Compact(digests), "\n")))
}

// Sight names all that [Effective.See] reads besides the tool: where it is the same for two Effectives, they show the same tools. It is
// the Version, and what the run is where a condition asks for that.
func (e *Effective) Sight() contracts.Hash {
	seen := []any{e.Version()}
	if e != nil {
		for _, p := range e.layers {
			if p.readsRun() {
				seen = append(seen, p.digest, p.run.labels, p.run.principal)
			}
		}
	}
	b, err := json.Marshal(seen)
	if err != nil {
		panic("policy: labels cannot be encoded: " + err.Error()) // they are text
	}
	return contracts.HashOf(b)
}

// readsRun reports whether a rule of the layer asks what the run is.
func (l *layer) readsRun() bool {
	reads := func(r *rule) bool { return r.when != nil && r.when.readsRun }
	return slices.ContainsFunc(l.narrowing.list, reads) || slices.ContainsFunc(l.allowing.list, reads)
}

// Both returns the stricter of a and b in everything: it denies what one of them denies, and
// asks for approval where one does. A nil one allows everything.
func Both(a, b *Effective) *Effective {
	both := &Effective{}
	for _, e := range []*Effective{a, b} {
		if e != nil {
			both.layers = append(both.layers, e.layers...)
		}
	}
	slices.SortStableFunc(both.layers, func(a, b applied) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.Name, b.Name), cmp.Compare(a.digest, b.digest))
	})
	both.layers = slices.CompactFunc(both.layers, applied.equal)
	return both
}
