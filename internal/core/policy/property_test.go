package policy

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

var policies = flag.Int("policies", 60, "random policies of the property tests")

// A truth is a condition with what it says, in Go: unknown where it cannot be evaluated.
type truth struct {
	text      string
	readsArgs bool
	says      func(t Tool, l contracts.Labels, args map[string]any) (holds, known bool)
}

func truths() []truth {
	is := func(b bool) (bool, bool) { return b, true }
	return []truth{
		{"", false, func(Tool, contracts.Labels, map[string]any) (bool, bool) { return true, true }},
		{`tool.name.startsWith("a")`, false, func(t Tool, _ contracts.Labels, _ map[string]any) (bool, bool) {
			return is(strings.HasPrefix(strings.SplitN(string(t.ID), ":", 3)[2], "a"))
		}},
		{`tool.source in ["mcp:a", "mcp:b"]`, false, func(t Tool, _ contracts.Labels, _ map[string]any) (bool, bool) {
			return is(strings.HasPrefix(string(t.ID), "mcp:a:") || strings.HasPrefix(string(t.ID), "mcp:b:"))
		}},
		{`tool.annotations.readOnly`, false, func(t Tool, _ contracts.Labels, _ map[string]any) (bool, bool) {
			return t.Annotations != nil && t.Annotations.ReadOnlyHint != nil && *t.Annotations.ReadOnlyHint, t.Trusted
		}},
		{`!tool.trusted || !tool.annotations.destructive`, false, func(t Tool, _ contracts.Labels, _ map[string]any) (bool, bool) {
			return is(!t.Trusted || t.Annotations != nil && t.Annotations.ReadOnlyHint != nil && *t.Annotations.ReadOnlyHint)
		}},
		{`run.agent == "x"`, false, func(_ Tool, l contracts.Labels, _ map[string]any) (bool, bool) { return is(l.Agent == "x") }},
		{`tool.hash == "h" && run.profile != ""`, false, func(t Tool, l contracts.Labels, _ map[string]any) (bool, bool) {
			return t.Hash == "h" && l.Profile != "", t.Hash != "" || l.Profile == ""
		}},
		{`tool.name == "ab" || tool.id == "mcp:b:a"`, false, func(t Tool, _ contracts.Labels, _ map[string]any) (bool, bool) {
			return is(strings.HasSuffix(string(t.ID), ":ab") && strings.Count(string(t.ID), ":") == 2 || t.ID == "mcp:b:a")
		}},
		{`tool.trusted && "mcp:c" == tool.source && !tool.annotations.readOnly`, false, func(t Tool, _ contracts.Labels, _ map[string]any) (bool, bool) {
			return is(t.Trusted && strings.HasPrefix(string(t.ID), "mcp:c:") && !(t.Annotations != nil && t.Annotations.ReadOnlyHint != nil && *t.Annotations.ReadOnlyHint))
		}},
		{`tool.source in ["mcp:a", "mcp:c"] && args.n > 3`, true, func(t Tool, _ contracts.Labels, a map[string]any) (bool, bool) {
			n, ok := a["n"].(float64)
			if !strings.HasPrefix(string(t.ID), "mcp:a:") && !strings.HasPrefix(string(t.ID), "mcp:c:") {
				return false, true
			}
			return n > 3, ok
		}},
		{`args.n > 3`, true, func(_ Tool, _ contracts.Labels, a map[string]any) (bool, bool) {
			n, ok := a["n"].(float64)
			return n > 3, ok
		}},
		{`has(args.n) && tool.name.contains("b")`, true, func(t Tool, _ contracts.Labels, a map[string]any) (bool, bool) {
			_, ok := a["n"]
			return is(ok && strings.Contains(strings.SplitN(string(t.ID), ":", 3)[2], "b"))
		}},
		{`args.exists(k, k == "m")`, true, func(_ Tool, _ contracts.Labels, a map[string]any) (bool, bool) {
			_, ok := a["m"]
			return is(ok)
		}},
	}
}

// effectOf is what the guide for operators says a policy means, the slow way.
func effectOf(layers []contracts.PolicyLayer, l contracts.Labels, t Tool, args map[string]any, call bool) contracts.PolicyEffect {
	all := truths()
	of := map[string]string{"profile": l.Profile, "agent": l.Agent, "sandbox": l.Sandbox, "session": l.Session}
	effect := allow
	for _, layer := range layers {
		if label, named := of[layer.Level]; named && label != layer.Name {
			continue
		}
		listed, admitted := len(layer.Allow) > 0, anyMatch(layer.Allow, string(t.ID))
		if anyMatch(layer.Deny, string(t.ID)) {
			return deny
		}
		for _, r := range layer.Rules {
			listed = listed || r.Effect == allow
			if len(r.Tools) > 0 && !anyMatch(r.Tools, string(t.ID)) {
				continue
			}
			c := all[slices.IndexFunc(all, func(c truth) bool { return c.text == r.When })]
			holds, known := true, true
			switch {
			case call || !c.readsArgs:
				holds, known = c.says(t, l, args)
			case r.Effect != allow: // it can be decided at the call only
				continue
			}
			switch {
			case r.Effect == allow:
				admitted = admitted || holds && known
			case !known || holds && r.Effect == deny:
				return deny
			case holds:
				effect = approve
			}
		}
		if listed && !admitted {
			return deny
		}
	}
	return effect
}

// A world is something random to decide on.
type world struct{ *rand.Rand }

func (w world) pick(list ...string) string { return list[w.IntN(len(list))] }

func (w world) globs(most int) (list []string) {
	for range w.IntN(most + 1) {
		list = append(list, w.pick("*", "mcp:*", "mcp:a:*", "mcp:b:*", "plugin:*", "*:a*", "*b", "mcp:a:ab", "mcp:?:a", "*:[ab]", "mcp:c:x"))
	}
	return list
}

func (w world) layers(most int) (layers []contracts.PolicyLayer) {
	for range w.IntN(most + 1) {
		l := contracts.PolicyLayer{Level: w.pick("global", "tenant", "agent", "profile")}
		if l.Level == "agent" || l.Level == "profile" {
			l.Name = w.pick("x", "y")
		}
		if w.IntN(3) == 0 {
			l.Allow = w.globs(3)
		}
		if w.IntN(3) == 0 {
			l.Deny = w.globs(1)
		}
		for i := range w.IntN(4) {
			r := contracts.PolicyRule{Name: fmt.Sprint("r", i), Tools: w.globs(2), When: truths()[w.IntN(len(truths()))].text}
			r.Effect = contracts.PolicyEffect(w.pick("allow", "deny", "approve", "approve"))
			if r.Effect == approve && w.IntN(2) == 0 {
				r.Approval = &contracts.ApprovalTerms{Severity: contracts.Severity(w.pick("", "info", "critical")), Title: w.pick("", "t", "u"), ExpiresIn: int64(w.IntN(3)) * 60}
				for range w.IntN(4) {
					r.Approval.Deciders = append(r.Approval.Deciders, w.pick("ann", "bob", "eve"))
				}
				if w.IntN(2) == 0 { // mostly somebody is left who may decide
					r.Approval.Deciders = nil
				}
			}
			l.Rules = append(l.Rules, r)
		}
		layers = append(layers, l)
	}
	return layers
}

func (w world) labels() contracts.Labels {
	return contracts.Labels{Agent: w.pick("", "x", "y"), Profile: w.pick("", "x", "y")}
}

func tools() (list []Tool) {
	yes, no := true, false
	for i, source := range []string{"mcp:a:", "mcp:b:", "mcp:c:", "plugin:a:"} {
		for j, name := range []string{"a", "b", "ab", "x"} {
			t := Tool{ID: contracts.ToolID(source + name), Hash: []contracts.Hash{"h", "g", ""}[(i+j)%3], Trusted: i%2 == 0}
			t.Annotations = []*contracts.Annotations{nil, {ReadOnlyHint: &yes}, {ReadOnlyHint: &no}}[j%3]
			list = append(list, t)
		}
	}
	return list
}

var someArgs = []string{`{}`, `{"n":2}`, `{"n":4}`, `{"n":"4"}`, `{"m":null}`, `{"n":10,"m":1}`}

// undecidable reports whether approvals that exclude each other's deciders deny: the slow evaluator knows nothing of these.
func undecidable(d Decision) bool { return strings.HasPrefix(d.Reason, "nobody may decide") }

func TestPolicyMeansWhatTheGuideSays(t *testing.T) {
	seen := map[contracts.PolicyEffect]int{}
	for seed := range *policies {
		w := world{rand.New(rand.NewPCG(1, uint64(seed)))}
		layers, labels := w.layers(4), w.labels()
		e := compile(t, layers...).For(labels)
		for _, tool := range tools() {
			see := e.See(tool)
			if want := effectOf(layers, labels, tool, nil, false); see.Effect != want && !undecidable(see) {
				t.Fatalf("seed %d: See(%+v) = %+v, want %s\n%+v\n%+v", seed, tool, see, want, labels, layers)
			}
			for _, raw := range someArgs {
				var args map[string]any
				if err := json.Unmarshal([]byte(raw), &args); err != nil {
					t.Fatal(err)
				}
				call := e.Call(tool, []byte(raw))
				if want := effectOf(layers, labels, tool, args, true); call.Effect != want && !undecidable(call) {
					t.Fatalf("seed %d: Call(%+v, %s) = %+v, want %s\n%+v\n%+v", seed, tool, raw, call, want, labels, layers)
				}
				if see.Denied() && !call.Denied() {
					t.Fatalf("seed %d: Call(%+v, %s) is let through and See is not\n%+v", seed, tool, raw, layers)
				}
				seen[call.Effect]++
			}
		}
	}
	for _, effect := range []contracts.PolicyEffect{allow, deny, approve} {
		if seen[effect] == 0 {
			t.Errorf("no random policy gave %s: %v", effect, seen)
		}
	}
}

// strict orders effects.
func strict(e contracts.PolicyEffect) int {
	return slices.Index([]contracts.PolicyEffect{allow, approve, deny}, e)
}

// A stricter policy, more rules that narrow, another order: what each does to decisions.
func TestBothIsTheStricter(t *testing.T) {
	for seed := range *policies {
		w := world{rand.New(rand.NewPCG(2, uint64(seed)))}
		labels := w.labels()
		var list [3]*Effective
		for i := range list {
			list[i] = compile(t, w.layers(2)...).For(labels)
		}
		a, b, c := list[0], list[1], list[2]
		ab := Both(a, b)
		same := map[string]*Effective{
			"b with a": Both(b, a), "(a a) b": Both(Both(a, a), b), "a (b a)": Both(a, Both(b, a)),
			"out and in again": compile(t, ab.Layers()...).For(labels),
		}
		left, right := Both(ab, c), Both(a, Both(b, c))
		if ab.Version() != same["b with a"].Version() || left.Version() != right.Version() {
			t.Fatalf("seed %d: the version depends on the order", seed)
		}
		for _, tool := range tools() {
			for _, raw := range append([]string{""}, someArgs...) {
				decide := func(e *Effective) Decision {
					if raw == "" {
						return e.See(tool)
					}
					return e.Call(tool, []byte(raw))
				}
				got, da, db := decide(ab), decide(a), decide(b)
				if want := cmp.Compare(max(strict(da.Effect), strict(db.Effect)), strict(got.Effect)); want != 0 && !undecidable(got) {
					t.Fatalf("seed %d: Both of %+v and %+v is %+v\n%+v\n%+v", seed, da, db, got, a.Layers(), b.Layers())
				}
				for name, e := range same {
					if diff := gocmp.Diff(got, decide(e)); diff != "" {
						t.Fatalf("seed %d: %s decides otherwise than a with b on %s over %s:\n%s", seed, name, tool.ID, raw, diff)
					}
				}
				if diff := gocmp.Diff(decide(left), decide(right)); diff != "" {
					t.Fatalf("seed %d: (a b) c and a (b c) on %s over %s:\n%s", seed, tool.ID, raw, diff)
				}
			}
		}
	}
}

// Adding a rule that denies or asks never makes anything possible that was not.
func TestNarrowingRulesNarrow(t *testing.T) {
	for seed := range *policies {
		w := world{rand.New(rand.NewPCG(3, uint64(seed)))}
		layers, labels := append(w.layers(3), contracts.PolicyLayer{Level: "tenant"}), w.labels()
		before := compile(t, layers...).For(labels)
		l := &layers[w.IntN(len(layers))]
		l.Rules = append(l.Rules, contracts.PolicyRule{Name: "more", Effect: contracts.PolicyEffect(w.pick("deny", "approve")), Tools: w.globs(2), When: truths()[w.IntN(len(truths()))].text})
		after := compile(t, layers...).For(labels)
		for _, tool := range tools() {
			for _, raw := range someArgs {
				if was, is := before.Call(tool, []byte(raw)), after.Call(tool, []byte(raw)); strict(is.Effect) < strict(was.Effect) {
					t.Fatalf("seed %d: %s over %s was %+v and is %+v with one more rule\n%+v", seed, tool.ID, raw, was, is, layers)
				}
			}
		}
	}
}
