package policy

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const (
	allow   = contracts.PolicyAllow
	deny    = contracts.PolicyDeny
	approve = contracts.PolicyApprove
)

// rules returns a layer for every run with rules of the form "effect name [glob,glob]: condition".
func rules(t testing.TB, texts ...string) contracts.PolicyLayer {
	t.Helper()
	l := contracts.PolicyLayer{Level: "tenant"}
	for _, text := range texts {
		head, when, _ := strings.Cut(text, ": ")
		words := strings.Fields(head)
		r := contracts.PolicyRule{Effect: contracts.PolicyEffect(words[0]), Name: words[1], When: when}
		if len(words) > 2 {
			r.Tools = strings.Split(words[2], ",")
		}
		l.Rules = append(l.Rules, r)
	}
	return l
}

func annotated(id contracts.ToolID, trusted, readOnly bool) Tool {
	return Tool{ID: id, Hash: "h1", Trusted: trusted, Annotations: &contracts.Annotations{ReadOnlyHint: &readOnly}}
}

// said is what a test compares of a decision.
func said(d Decision) string {
	s := fmt.Sprintf("%s %s/%s", d.Effect, d.Layer, d.Rule)
	if d.Reason != "" {
		s += " !"
	}
	return s
}

func TestRules(t *testing.T) {
	mail := Tool{ID: "mcp:mail:send", Hash: "h1"}
	labels := contracts.Labels{Agent: "intern", Session: "s", Profile: "p", Sandbox: "b", Channel: "c", Runtime: "r", Labels: map[string]string{"team": "red"}}
	for _, tt := range []struct {
		name      string
		layers    []contracts.PolicyLayer
		tool      Tool
		args      string
		see, call string
	}{
		{"a rule without a condition denies what its globs match", []contracts.PolicyLayer{rules(t, "deny d mcp:mail:*")}, mail, `{}`, "deny tenant/d", "deny tenant/d"},
		{"and nothing else", []contracts.PolicyLayer{rules(t, "deny d mcp:x:*,mcp:y:*")}, mail, `{}`, "allow /", "allow /"},
		{"a rule without globs is for every tool", []contracts.PolicyLayer{rules(t, "deny d")}, mail, `{}`, "deny tenant/d", "deny tenant/d"},
		{"a condition over the tool hides", []contracts.PolicyLayer{rules(t, `deny d: tool.source == "mcp:mail" && tool.name == "send" && tool.id == "mcp:mail:send" && tool.hash == "h1" && !tool.trusted`)}, mail, `{}`, "deny tenant/d", "deny tenant/d"},
		{"one over arguments decides the call alone", []contracts.PolicyLayer{rules(t, `deny d mcp:mail:*: args.to == "x"`)}, mail, `{"to":"x"}`, "allow /", "deny tenant/d"},
		{"and lets other arguments pass", []contracts.PolicyLayer{rules(t, `deny d mcp:mail:*: args.to == "x"`)}, mail, `{"to":"y"}`, "allow /", "allow /"},
		{"a missing value denies", []contracts.PolicyLayer{rules(t, `deny d: args.to == "x"`)}, mail, `{}`, "allow /", "deny tenant/d !"},
		{"has asks for it", []contracts.PolicyLayer{rules(t, `deny d: has(args.to) && args.to == "x"`)}, mail, `{}`, "allow /", "allow /"},
		{"no arguments are an empty object", []contracts.PolicyLayer{rules(t, `deny d: size(args) > 0`)}, mail, ``, "allow /", "allow /"},
		{"a value of another type denies", []contracts.PolicyLayer{rules(t, `deny d: args.n > 3`)}, mail, `{"n":"5"}`, "allow /", "deny tenant/d !"},
		{"a condition that is no truth denies", []contracts.PolicyLayer{rules(t, `deny d: args.n`)}, mail, `{"n":"true"}`, "allow /", "deny tenant/d !"},
		{"a failing approve rule denies", []contracts.PolicyLayer{rules(t, `approve a: args.n > 3`)}, mail, `{}`, "allow /", "deny tenant/a !"},
		{"arguments that are no object deny", []contracts.PolicyLayer{rules(t, `deny d: args.n > 3`)}, mail, `[1]`, "allow /", "deny tenant/d !"},
		{"a property twice denies", []contracts.PolicyLayer{rules(t, `deny d: args.n > 3`)}, mail, `{"n":1,"n":2}`, "allow /", "deny tenant/d !"},
		{"numbers are values, not texts", []contracts.PolicyLayer{rules(t, `deny d: args.a == 1000 && args.b == 1000 && args.c == 1000 && args.d == 0.5 && args.e > 9e300 && args.f == 9007199254740993`)}, mail,
			`{"a":1000,"b":1e3,"c":1000.0,"d":5e-1,"e":1e301,"f":9007199254740993}`, "allow /", "deny tenant/d"},
		{"a number out of range denies", []contracts.PolicyLayer{rules(t, `deny d: args.n == 1`)}, mail, `{"n":1e350}`, "allow /", "deny tenant/d !"},
		{"labels of the run", []contracts.PolicyLayer{rules(t, `deny d: run.agent == "intern" && run.session == "s" && run.profile == "p" && run.sandbox == "b" && run.channel == "c" && run.runtime == "r" && run.labels.team == "red" && run.labels["team"] == "red"`)}, mail, `{}`, "deny tenant/d", "deny tenant/d"},
		{"a label that the run does not have denies", []contracts.PolicyLayer{rules(t, `deny d: run.labels.colour == "red"`)}, mail, `{}`, "deny tenant/d !", "deny tenant/d !"},
		{"who opened the run", []contracts.PolicyLayer{rules(t, `deny d: run.principal == "eve"`)}, mail, `{}`, "allow /", "allow /"},

		{"annotations of a trusted source", []contracts.PolicyLayer{rules(t, `deny d: !tool.annotations.readOnly`)}, annotated("a:b:c", true, true), `{}`, "allow /", "allow /"},
		{"annotations that deny", []contracts.PolicyLayer{rules(t, `deny d: !tool.annotations.readOnly`)}, annotated("a:b:c", true, false), `{}`, "deny tenant/d", "deny tenant/d"},
		{"annotations of another source are unknown: it denies", []contracts.PolicyLayer{rules(t, `deny d: !tool.annotations.readOnly`)}, annotated("a:b:c", false, true), `{}`, "deny tenant/d !", "deny tenant/d !"},
		{"whichever way the condition turns", []contracts.PolicyLayer{rules(t, `deny d: tool.annotations.readOnly`)}, annotated("a:b:c", false, false), `{}`, "deny tenant/d !", "deny tenant/d !"},
		{"trusted guards them", []contracts.PolicyLayer{rules(t, `approve a: !(tool.trusted && tool.annotations.readOnly)`)}, annotated("a:b:c", false, true), `{}`, "approve tenant/a", "approve tenant/a"},
		{"an unknown hash denies", []contracts.PolicyLayer{rules(t, `deny d: tool.hash != "h1"`)}, Tool{ID: "a:b:c"}, `{}`, "deny tenant/d !", "deny tenant/d !"},
		{"an id that is none has no source", []contracts.PolicyLayer{rules(t, `deny d: tool.source == "mcp:x"`)}, Tool{ID: "abc"}, `{}`, "deny tenant/d !", "deny tenant/d !"},
		{"control tools are read-only", []contracts.PolicyLayer{rules(t, `deny d: tool.annotations.destructive || !tool.annotations.readOnly || !tool.annotations.idempotent || tool.annotations.openWorld`)}, controlTool("platform:toolcrib:tool_search"), `{}`, "allow /", "allow /"},

		{"an allow rule is an allow list", []contracts.PolicyLayer{rules(t, `allow a mcp:files:*`)}, mail, `{}`, "deny tenant/", "deny tenant/"},
		{"which lets through", []contracts.PolicyLayer{rules(t, `allow a mcp:mail:*: tool.name == "send"`)}, mail, `{}`, "allow tenant/a", "allow tenant/a"},
		{"together with globs", []contracts.PolicyLayer{{Level: "tenant", Allow: []string{"mcp:mail:*"}, Rules: rules(t, `allow a: tool.annotations.readOnly`).Rules}}, mail, `{}`, "allow tenant/mcp:mail:*", "allow tenant/mcp:mail:*"},
		{"one that fails lets nothing through", []contracts.PolicyLayer{rules(t, `allow a: tool.annotations.readOnly`)}, mail, `{}`, "deny tenant/ !", "deny tenant/ !"},
		{"another can", []contracts.PolicyLayer{rules(t, `allow a: tool.annotations.readOnly`, "allow b mcp:mail:*")}, mail, `{}`, "allow tenant/b", "allow tenant/b"},
		{"one over arguments may let through, so it is seen", []contracts.PolicyLayer{rules(t, `allow a mcp:mail:*: args.to.endsWith("@here")`)}, mail, `{"to":"me@here"}`, "allow tenant/a", "allow tenant/a"},
		{"and the call is decided", []contracts.PolicyLayer{rules(t, `allow a mcp:mail:*: args.to.endsWith("@here")`)}, mail, `{"to":"me@there"}`, "allow tenant/a", "deny tenant/"},
		{"and fails closed", []contracts.PolicyLayer{rules(t, `allow a mcp:mail:*: args.to.endsWith("@here")`)}, mail, `{}`, "allow tenant/a", "deny tenant/ !"},
		{"every layer with an allow list has to let it through", []contracts.PolicyLayer{rules(t, "allow a mcp:mail:*"), {Level: "agent", Name: "intern", Allow: []string{"mcp:files:*"}}}, mail, `{}`, "deny agent intern/", "deny agent intern/"},

		{"approve", []contracts.PolicyLayer{rules(t, "approve a *:send")}, mail, `{}`, "approve tenant/a", "approve tenant/a"},
		{"approve by arguments", []contracts.PolicyLayer{rules(t, "approve a *:send: args.n > 3")}, mail, `{"n":4}`, "allow /", "approve tenant/a"},
		{"deny beats approve", []contracts.PolicyLayer{rules(t, "approve a *:send", "deny d *:send")}, mail, `{}`, "deny tenant/d", "deny tenant/d"},
		{"a deny glob does as well", []contracts.PolicyLayer{rules(t, "approve a *:send"), {Level: "session", Name: "s", Deny: []string{"*:send"}}}, mail, `{}`, "deny session s/*:send", "deny session s/*:send"},
		{"approve beats allow", []contracts.PolicyLayer{rules(t, "allow a *:send", "approve b *:send")}, mail, `{}`, "approve tenant/b", "approve tenant/b"},
		{"across layers", []contracts.PolicyLayer{{Level: "global", Rules: rules(t, "approve a").Rules}, {Level: "agent", Name: "intern", Allow: []string{"*"}}}, mail, `{}`, "approve global/a", "approve global/a"},
		{"approve does not let through", []contracts.PolicyLayer{{Level: "tenant", Allow: []string{"mcp:files:*"}, Rules: rules(t, "approve a *:send").Rules}}, mail, `{}`, "deny tenant/", "deny tenant/"},
		{"layers for others do not count", []contracts.PolicyLayer{{Level: "agent", Name: "boss", Rules: rules(t, "deny d").Rules}}, mail, `{}`, "allow /", "allow /"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := compile(t, tt.layers...).For(labels).As("ann")
			if got := said(e.See(tt.tool)); got != tt.see {
				t.Errorf("See = %q, want %q (%s)", got, tt.see, e.See(tt.tool).Reason)
			}
			got := e.Call(tt.tool, []byte(tt.args))
			if said(got) != tt.call {
				t.Errorf("Call(%s) = %q, want %q (%s)", tt.args, said(got), tt.call, got.Reason)
			}
			if (got.Approval != nil) != (got.Effect == approve) {
				t.Errorf("Call(%s) has the approval %v with the effect %s", tt.args, got.Approval, got.Effect)
			}
		})
	}
}

func TestPrincipal(t *testing.T) {
	p := compile(t, rules(t, `deny d: run.principal != "ann"`))
	for who, want := range map[string]bool{"ann": false, "eve": true, "": true} {
		e := p.For(contracts.Labels{}).As(who)
		if got := Both(e, e).See(Tool{ID: "a:b:c"}).Denied(); got != want {
			t.Errorf("denied for %q = %v, want %v", who, got, want)
		}
	}
	if !p.For(contracts.Labels{Labels: map[string]string{"principal": "ann"}}).See(Tool{ID: "a:b:c"}).Denied() {
		t.Error("allowed where nobody said who opened the run")
	}
	if (*Effective)(nil).As("ann") != nil {
		t.Error("As of nil is not nil")
	}
}

// What a decision says of a failing condition names the place in it and nothing of the arguments.
func TestReasons(t *testing.T) {
	for _, tt := range []struct{ when, args, want string }{
		{`args.a == 1 && args.recipient.endsWith("x")`, `{"a":1}`, `at 1:20: a value is missing or of another type`},
		{"args.a == 1 &&\n  int(args.b) > 5", `{"a":1,"b":"secret"}`, `at 2:6: a value`},
		{`args[args.b] == 1`, `{"b":"secret"}`, `at 1:`},
		{`args.b`, `{"b":"secret"}`, `neither true nor false`},
		{`args.b == 1`, `{"b":1,"b":"secret"}`, `same property twice`},
		{`args.b == 1`, `secret`, `arguments cannot be read`},
		{`args.l.all(x, args.l.all(y, x + y >= 0))`, `{"b":"secret","l":[` + strings.Repeat("1,", 999) + `1]}`, `takes too long`},
	} {
		got := compile(t, rules(t, "deny d: "+tt.when)).For(contracts.Labels{}).Call(Tool{ID: "a:b:c"}, []byte(tt.args))
		if !got.Denied() || !strings.Contains(got.Reason, tt.want) || strings.Contains(got.Reason, "secret") {
			t.Errorf("%s over %.40s: %+v, want a reason with %q and without arguments", tt.when, tt.args, got, tt.want)
		}
	}
}

func TestApprovalTerms(t *testing.T) {
	terms := func(name string, t *contracts.ApprovalTerms) contracts.PolicyRule {
		return contracts.PolicyRule{Name: name, Effect: approve, Approval: t}
	}
	a := terms("a", &contracts.ApprovalTerms{Title: "Send?", Severity: "critical", Deciders: []string{"eve", "ann", "bob", "ann"}, ExpiresIn: 3600})
	b := terms("b", &contracts.ApprovalTerms{Title: "Write?", Description: "d", Deciders: []string{"bob", "ann", "joe"}, ExpiresIn: 600})
	c := terms("c", &contracts.ApprovalTerms{Title: "Another", Severity: "warning"})
	none := terms("none", &contracts.ApprovalTerms{Deciders: []string{"zoe"}})
	for _, tt := range []struct {
		name  string
		rules []contracts.PolicyRule
		want  *contracts.ApprovalTerms // nil: denied
	}{
		{"defaults", []contracts.PolicyRule{terms("x", nil)}, &contracts.ApprovalTerms{Severity: "warning", ExpiresIn: 120}},
		{"as said", []contracts.PolicyRule{a}, &contracts.ApprovalTerms{Title: "Send?", Severity: "critical", Deciders: []string{"ann", "bob", "eve"}, ExpiresIn: 3600}},
		{"the stricter of each", []contracts.PolicyRule{b, a}, &contracts.ApprovalTerms{Title: "Send?", Severity: "critical", Deciders: []string{"ann", "bob"}, ExpiresIn: 600}},
		{"everybody and some", []contracts.PolicyRule{b, c}, &contracts.ApprovalTerms{Title: "Another", Severity: "warning", Deciders: []string{"ann", "bob", "joe"}, ExpiresIn: 120}},
		{"nobody is left", []contracts.PolicyRule{b, none}, nil},
	} {
		for _, split := range []bool{false, true} {
			layers := []contracts.PolicyLayer{{Level: "tenant", Rules: tt.rules}}
			if split {
				layers = nil
				for _, r := range tt.rules {
					layers = append(layers, contracts.PolicyLayer{Level: "global", Rules: []contracts.PolicyRule{r}})
				}
			}
			got := compile(t, layers...).For(contracts.Labels{}).Call(Tool{ID: "a:b:c"}, nil)
			if diff := cmp.Diff(tt.want, got.Approval); diff != "" || got.Denied() != (tt.want == nil) {
				t.Errorf("%s, split %v: %+v (-want +got):\n%s", tt.name, split, got, diff)
			}
		}
	}
}

func TestRuleErrors(t *testing.T) {
	ok := contracts.PolicyRule{Name: "ok", Effect: deny}
	with := func(f func(*contracts.PolicyRule)) contracts.PolicyRule {
		r := ok
		f(&r)
		return r
	}
	when := func(text string) contracts.PolicyRule { return with(func(r *contracts.PolicyRule) { r.When = text }) }
	terms := func(a contracts.ApprovalTerms) contracts.PolicyRule {
		return with(func(r *contracts.PolicyRule) { r.Effect, r.Approval = approve, &a })
	}
	for _, tt := range []struct {
		rules []contracts.PolicyRule
		field string
		want  []string
	}{
		{[]contracts.PolicyRule{{Effect: deny}}, "/rules/0/name", []string{`name ""`, "1 to 64 letters"}},
		{[]contracts.PolicyRule{ok, {Name: "a b", Effect: deny}}, "/rules/1/name", []string{"layer 2: agent x, rule 2", `name "a b"`}},
		{[]contracts.PolicyRule{ok, ok}, "/rules/1/name", []string{"rule 2 (ok)", "rule 1 of the layer has the same name"}},
		{[]contracts.PolicyRule{{Name: "a"}}, "/rules/0/effect", []string{"rule 1 (a)", `effect ""`, "allow, deny or approve"}},
		{[]contracts.PolicyRule{{Name: "a", Effect: "ask"}}, "/rules/0/effect", []string{`effect "ask"`}},
		{[]contracts.PolicyRule{with(func(r *contracts.PolicyRule) { r.Tools = []string{"*", "mcp:[a"} })}, "/rules/0/tools/1", []string{"rule 1 (ok), tools", `"mcp:[a"`}},
		{[]contracts.PolicyRule{with(func(r *contracts.PolicyRule) { r.Approval = &contracts.ApprovalTerms{} })}, "/rules/0/approval", []string{"effect deny", "approve only"}},
		{[]contracts.PolicyRule{terms(contracts.ApprovalTerms{Severity: "high"})}, "/rules/0/approval/severity", []string{`"high"`, "info, warning or critical"}},
		{[]contracts.PolicyRule{terms(contracts.ApprovalTerms{ExpiresIn: 604801})}, "/rules/0/approval/expiresIn", []string{"604801", "1 to 604800"}},
		{[]contracts.PolicyRule{terms(contracts.ApprovalTerms{ExpiresIn: -1})}, "/rules/0/approval/expiresIn", []string{"-1"}},
		{[]contracts.PolicyRule{terms(contracts.ApprovalTerms{Title: strings.Repeat("é", 81)})}, "/rules/0/approval/title", []string{"81 characters", "at most 80"}},
		{[]contracts.PolicyRule{terms(contracts.ApprovalTerms{Description: strings.Repeat("é", 513)})}, "/rules/0/approval/description", []string{"513"}},
		{[]contracts.PolicyRule{terms(contracts.ApprovalTerms{Deciders: []string{"ann", ""}})}, "/rules/0/approval/deciders/1", []string{`decider ""`}},
		{[]contracts.PolicyRule{when("args.a +")}, "/rules/0/when", []string{"rule 1 (ok), when", `"args.a +"`, "1:9"}},
		{[]contracts.PolicyRule{when("args.a == 1 &&\n tool.nam == 2")}, "/rules/0/when", []string{"2:6", "'tool.nam'", "known are tool.id", "tool.trusted", "run.labels and args"}},
		{[]contracts.PolicyRule{when("tools.id == 'x'")}, "/rules/0/when", []string{"1:6", "undeclared", "known are"}},
		{[]contracts.PolicyRule{when("tool.id == 1")}, "/rules/0/when", []string{"1:9", "no matching overload"}},
		{[]contracts.PolicyRule{when("tool.id")}, "/rules/0/when", []string{"of type string", "true or false"}},
		{[]contracts.PolicyRule{when("now() > 5")}, "/rules/0/when", []string{"1:4", "undeclared reference to 'now'"}},
		{[]contracts.PolicyRule{when("tool.id.matches('(')")}, "/rules/0/when", []string{"1:17", "invalid matches argument"}},
		{[]contracts.PolicyRule{when("tool.id.matches('a{1000}')")}, "/rules/0/when", []string{"1:17", "program size", "500"}},
		{[]contracts.PolicyRule{when("tool.id.matches(tool.name)")}, "/rules/0/when", []string{"1:16", "no literal"}},
		{[]contracts.PolicyRule{when("matches(args.x, args.y)")}, "/rules/0/when", []string{"no literal"}},
		{[]contracts.PolicyRule{when("args.x.replace('', args.x) == 'a'")}, "/rules/0/when", []string{"1:15", "no function replace", "lowerAscii"}},
		{[]contracts.PolicyRule{when("args.l.all(a, args.l.all(b, args.l.all(c, a + b + c > 0)))")}, "/rules/0/when", []string{"too long", "fewer loops"}},
		{[]contracts.PolicyRule{when(strings.Repeat("x", longestCondition+1))}, "/rules/0/when", []string{"2049 bytes", "at most 2048"}},
		{[]contracts.PolicyRule{when(strings.Repeat("(", 300) + "true" + strings.Repeat(")", 300))}, "/rules/0/when", []string{"recursion"}},
		{make([]contracts.PolicyRule, mostRules+1), "/rules", []string{"2001", "at most 2000"}},
	} {
		p, err := Compile([]contracts.PolicyLayer{{Level: "global"}, {Level: "agent", Name: "x", Rules: tt.rules}})
		if p != nil || contracts.CodeOf(err) != contracts.CodeInvalid {
			t.Errorf("Compile(%+v) = %v, %v, want an invalid error and no policy", tt.rules[:1], p, err)
			continue
		}
		for _, w := range tt.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q does not say %q", err, w)
			}
		}
		if f := contracts.AsError(err).Fields; len(f) != 1 || f[0].Field != "/1"+tt.field {
			t.Errorf("%q: fields %+v, want /1%s", err, f, tt.field)
		}
	}
}

// The limits over all layers together.
func TestLimits(t *testing.T) {
	many := func(n int, f func(*contracts.PolicyRule)) (l []contracts.PolicyLayer) {
		for i := range n {
			r := contracts.PolicyRule{Name: fmt.Sprint("r", i), Effect: deny}
			f(&r)
			l = append(l, contracts.PolicyLayer{Level: "global", Rules: []contracts.PolicyRule{r}})
		}
		return l
	}
	long := "tool.id == '" + strings.Repeat("x", longestCondition-20) + "'"
	globs := strings.Split(strings.Repeat("a:b:c ", 10_000)+"d", " ")
	for want, layers := range map[string][]contracts.PolicyLayer{
		"at most 2000 in all layers":        many(mostRules+1, func(*contracts.PolicyRule) {}),
		"conditions have more than 524288":  many(mostConditions/len(long)+1, func(r *contracts.PolicyRule) { r.When = long }),
		"rules have more than 20000 globs":  many(2, func(r *contracts.PolicyRule) { r.Tools = globs }),
		"10001 policy layers; want at most": make([]contracts.PolicyLayer, mostLayers+1),
	} {
		if _, err := Compile(layers); contracts.CodeOf(err) != contracts.CodeInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("Compile of too much = %v, want %q", err, want)
		}
	}
}

func TestVersion(t *testing.T) {
	base := func() []contracts.PolicyLayer {
		return []contracts.PolicyLayer{
			{Level: "tenant", Allow: []string{"b*", "a*"}, Deny: []string{"z", "y"}, Rules: []contracts.PolicyRule{
				{Name: "one", Effect: approve, Tools: []string{"q", "p"}, When: "args.n > 1"}, {Name: "two", Effect: deny, When: "args.n > 2"},
			}},
			{Level: "global", Deny: []string{"x"}},
		}
	}
	version := func(l []contracts.PolicyLayer) contracts.Hash {
		return compile(t, l...).For(contracts.Labels{}).Version()
	}
	want := version(base())
	for name, change := range map[string]func([]contracts.PolicyLayer) []contracts.PolicyLayer{
		"order of layers": func(l []contracts.PolicyLayer) []contracts.PolicyLayer { l[0], l[1] = l[1], l[0]; return l },
		"order of globs": func(l []contracts.PolicyLayer) []contracts.PolicyLayer {
			l[0].Allow = []string{"a*", "b*", "a*"}
			return l
		},
		"order of rules": func(l []contracts.PolicyLayer) []contracts.PolicyLayer {
			r := l[0].Rules
			r[0], r[1] = r[1], r[0]
			return l
		},
		"a default written out": func(l []contracts.PolicyLayer) []contracts.PolicyLayer {
			l[0].Rules[0].Approval = &contracts.ApprovalTerms{Severity: "warning", ExpiresIn: int64(contracts.ApprovalTimeout / time.Second), Deciders: nil}
			return l
		},
		"an empty layer": func(l []contracts.PolicyLayer) []contracts.PolicyLayer {
			return append(l, contracts.PolicyLayer{Level: "global"})
		},
		"a layer twice": func(l []contracts.PolicyLayer) []contracts.PolicyLayer { return append(l, l[1]) },
		"a layer of another run": func(l []contracts.PolicyLayer) []contracts.PolicyLayer {
			return append(l, contracts.PolicyLayer{Level: "agent", Name: "x", Deny: []string{"*"}})
		},
		"layers out and in again": func(l []contracts.PolicyLayer) []contracts.PolicyLayer {
			return compile(t, l...).For(contracts.Labels{}).Layers()
		},
	} {
		if got := version(change(base())); got != want {
			t.Errorf("%s changes the version", name)
		}
	}
	seen := map[contracts.Hash]string{want: "nothing", (*Effective)(nil).Version(): "no policy"}
	for name, change := range map[string]func(l []contracts.PolicyLayer){
		"allow": func(l []contracts.PolicyLayer) { l[0].Allow = l[0].Allow[:1] }, "deny": func(l []contracts.PolicyLayer) { l[1].Deny = append(l[1].Deny, "w") },
		"level": func(l []contracts.PolicyLayer) { l[1].Level = "tenant" }, "effect": func(l []contracts.PolicyLayer) { l[0].Rules[1].Effect = approve },
		"when": func(l []contracts.PolicyLayer) { l[0].Rules[1].When = "args.n > 3" }, "tools": func(l []contracts.PolicyLayer) { l[0].Rules[0].Tools = nil },
		"name": func(l []contracts.PolicyLayer) { l[0].Rules[0].Name = "three" }, "rules": func(l []contracts.PolicyLayer) { l[0].Rules = l[0].Rules[:1] },
		"deciders": func(l []contracts.PolicyLayer) {
			l[0].Rules[0].Approval = &contracts.ApprovalTerms{Deciders: []string{"ann"}}
		},
		"expires": func(l []contracts.PolicyLayer) { l[0].Rules[0].Approval = &contracts.ApprovalTerms{ExpiresIn: 60} },
	} {
		l := base()
		change(l)
		got := version(l)
		if other, taken := seen[got]; taken {
			t.Errorf("%s makes the version of %s", name, other)
		}
		seen[got] = name
	}
	e := compile(t, base()...).For(contracts.Labels{})
	if got := Both(e, e).Version(); got != want {
		t.Error("Both of the same has another version")
	}
	if (&Effective{}).Version() != (*Effective)(nil).Version() {
		t.Error("no layers and nil have different versions")
	}
}

// A number that cannot be compared exactly cannot pass a rule by being read as another one.
func TestNumbersAreNotRounded(t *testing.T) {
	p := compile(t, rules(t, `deny big mcp:*: args.id == 9007199254740993 || args.amount > 100.0`)).For(contracts.Labels{})
	for args, denied := range map[string]bool{
		`{"id": 9007199254740993, "amount": 1}`:                      true,
		`{"id": 9007199254740993.0, "amount": 1}`:                    true,
		`{"id": 9007199254740993e0, "amount": 1}`:                    true,
		`{"id": 90071992547409930e-1, "amount": 1}`:                  true,
		`{"id": 1, "amount": 100.0000000000000000001}`:               true,
		`{"id": 1, "amount": 1e-400000000000000000000}`:              true,
		`{"id": 1, "amount": 1e400}`:                                 true,
		`{"id": 9007199254740992.0, "amount": 100.0}`:                false,
		`{"id": 1, "amount": 0.1}`:                                   false,
		`{"id": -0.0, "amount": -1E+2}`:                              false,
		`{"id": 1e0, "amount": 0.0000}`:                              false,
		`{"id": 1.50, "amount": 0.000001234567890123}`:               false,
		`{"id": 123456789012345680000, "amount": 1.7976931348e-308}`: false,
	} {
		if d := p.Call(Tool{ID: "mcp:a:b"}, json.RawMessage(args)); d.Denied() != denied {
			t.Errorf("%s: %+v, want denied %v", args, d, denied)
		}
	}
}

func TestEmptyDecidersAreRefused(t *testing.T) {
	l := contracts.PolicyLayer{Level: "global", Rules: []contracts.PolicyRule{{Name: "r", Effect: approve, Approval: &contracts.ApprovalTerms{Deciders: []string{}}}}}
	if _, err := Compile([]contracts.PolicyLayer{l}); contracts.CodeOf(err) != contracts.CodeInvalid || !strings.Contains(err.Error(), "deciders is empty; leave it out") {
		t.Errorf("Compile = %v", err)
	}
}
