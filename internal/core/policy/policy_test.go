package policy

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func compile(t testing.TB, layers ...contracts.PolicyLayer) *Policy {
	t.Helper()
	p, err := Compile(layers)
	if err != nil {
		t.Fatalf("Compile: %v", err)
	}
	return p
}

func TestSee(t *testing.T) {
	layers := []contracts.PolicyLayer{
		{Level: "agent", Name: "planner", Allow: []string{"mcp:calendar:*", "mcp:mail:send_*"}},
		{Level: "global", Deny: []string{"*:shell:*", "mcp:*:delete_*"}},
		{Level: "tenant", Allow: []string{"mcp:*", "platform:core:now"}},
		{Level: "session", Name: "s1", Deny: []string{"mcp:calendar:create_event"}},
		{Level: "profile", Name: "strict", Allow: []string{"mcp:calendar:list_events"}},
		{Level: "sandbox", Name: "box", Allow: []string{"mcp:calendar:*_event"}},
	}
	p := compile(t, layers...)
	for _, tt := range []struct {
		labels contracts.Labels
		id     contracts.ToolID
		want   Decision
	}{
		{contracts.Labels{}, "mcp:calendar:create_event", Decision{Effect: contracts.PolicyAllow, Layer: "tenant", Rule: "mcp:*"}},
		{contracts.Labels{}, "platform:core:now", Decision{Effect: contracts.PolicyAllow, Layer: "tenant", Rule: "platform:core:now"}},
		{contracts.Labels{}, "platform:core:later", Decision{Effect: contracts.PolicyDeny, Layer: "tenant", Rule: ""}},
		{contracts.Labels{}, "MCP:calendar:create_event", Decision{Effect: contracts.PolicyDeny, Layer: "tenant", Rule: ""}},
		{contracts.Labels{}, "mcp:calendar:delete_event", Decision{Effect: contracts.PolicyDeny, Layer: "global", Rule: "mcp:*:delete_*"}},
		{contracts.Labels{}, "mcp:shell:run", Decision{Effect: contracts.PolicyDeny, Layer: "global", Rule: "*:shell:*"}},
		{contracts.Labels{Agent: "planner"}, "mcp:calendar:create_event", Decision{Effect: contracts.PolicyAllow, Layer: "agent planner", Rule: "mcp:calendar:*"}},
		{contracts.Labels{Agent: "planner"}, "mcp:mail:send_now", Decision{Effect: contracts.PolicyAllow, Layer: "agent planner", Rule: "mcp:mail:send_*"}},
		{contracts.Labels{Agent: "planner"}, "mcp:mail:list", Decision{Effect: contracts.PolicyDeny, Layer: "agent planner", Rule: ""}},
		{contracts.Labels{Agent: "planner"}, "platform:core:now", Decision{Effect: contracts.PolicyDeny, Layer: "agent planner", Rule: ""}},
		{contracts.Labels{Agent: "Planner"}, "mcp:mail:list", Decision{Effect: contracts.PolicyAllow, Layer: "tenant", Rule: "mcp:*"}},
		{contracts.Labels{Agent: "planner", Session: "s1"}, "mcp:calendar:create_event", Decision{Effect: contracts.PolicyDeny, Layer: "session s1", Rule: "mcp:calendar:create_event"}},
		{contracts.Labels{Session: "planner"}, "mcp:mail:list", Decision{Effect: contracts.PolicyAllow, Layer: "tenant", Rule: "mcp:*"}},
		{contracts.Labels{Profile: "strict"}, "mcp:calendar:list_events", Decision{Effect: contracts.PolicyAllow, Layer: "profile strict", Rule: "mcp:calendar:list_events"}},
		{contracts.Labels{Profile: "strict", Agent: "planner"}, "mcp:calendar:create_event", Decision{Effect: contracts.PolicyDeny, Layer: "profile strict", Rule: ""}},
		{contracts.Labels{Sandbox: "box"}, "mcp:calendar:list_events", Decision{Effect: contracts.PolicyDeny, Layer: "sandbox box", Rule: ""}},
		{contracts.Labels{Labels: map[string]string{"agent": "planner"}}, "mcp:mail:list", Decision{Effect: contracts.PolicyAllow, Layer: "tenant", Rule: "mcp:*"}},
		{contracts.Labels{}, "", Decision{Effect: contracts.PolicyDeny, Layer: "tenant", Rule: ""}},
	} {
		if diff := cmp.Diff(tt.want, p.For(tt.labels).See(Tool{ID: tt.id})); diff != "" {
			t.Errorf("For(%+v).See(%q) (-want +got):\n%s", tt.labels, tt.id, diff)
		}
	}
}

func TestNothingAllowsAll(t *testing.T) {
	var none *Policy
	for name, e := range map[string]*Effective{
		"nil effective": nil, "nil policy": none.For(contracts.Labels{Agent: "a"}),
		"no layers": compile(t).For(contracts.Labels{}), "both nil": Both(nil, nil),
		"no rules": compile(t, contracts.PolicyLayer{Level: "global"}).For(contracts.Labels{}),
	} {
		if got := e.See(Tool{ID: "mcp:a:b"}); got != (Decision{Effect: contracts.PolicyAllow}) {
			t.Errorf("%s: See = %+v, want allowed by nothing", name, got)
		}
	}
	if got := (*Effective)(nil).Layers(); got != nil {
		t.Errorf("Layers of nil = %v, want nil", got)
	}
}

func TestCompileErrors(t *testing.T) {
	long := strings.Repeat("x", longestGlob+1)
	for _, tt := range []struct {
		layer contracts.PolicyLayer
		want  []string // in the message
	}{
		{contracts.PolicyLayer{Level: "team"}, []string{"layer 2", `level "team"`, "global, tenant, profile"}},
		{contracts.PolicyLayer{}, []string{`level ""`}},
		{contracts.PolicyLayer{Level: "agent"}, []string{"agent", "name is empty"}},
		{contracts.PolicyLayer{Level: "tenant", Name: "acme"}, []string{`tenant "acme"`, "no name"}},
		{contracts.PolicyLayer{Level: "agent", Name: "a", Deny: []string{"ok", "mcp:[a"}}, []string{"agent a", "deny", `"mcp:[a"`, "no ']'"}},
		{contracts.PolicyLayer{Level: "global", Allow: []string{""}}, []string{"global", "allow", "empty"}},
		{contracts.PolicyLayer{Level: "global", Allow: []string{"a[]"}}, []string{"class [] is empty"}},
		{contracts.PolicyLayer{Level: "global", Allow: []string{"a[^]"}}, []string{"class [] is empty"}},
		{contracts.PolicyLayer{Level: "global", Allow: []string{"a[z-a]"}}, []string{"z-a", "reversed"}},
		{contracts.PolicyLayer{Level: "global", Allow: []string{`a[\`}}, []string{"no ']'"}},
		{contracts.PolicyLayer{Level: "global", Allow: []string{"[a-"}}, []string{"no ']'"}},
		{contracts.PolicyLayer{Level: "global", Allow: []string{`a\`}}, []string{`ends in '\'`}},
		{contracts.PolicyLayer{Level: "global", Allow: []string{long}}, []string{"1025 bytes", "at most 1024"}},
	} {
		p, err := Compile([]contracts.PolicyLayer{{Level: "global"}, tt.layer})
		if p != nil || contracts.CodeOf(err) != contracts.CodeInvalid {
			t.Errorf("Compile(%+v) = %v, %v, want an invalid error and no policy", tt.layer, p, err)
			continue
		}
		for _, w := range tt.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("Compile(%+v): %q does not say %q", tt.layer, err, w)
			}
		}
	}
}

func TestLayersAndBoth(t *testing.T) {
	p := compile(t,
		contracts.PolicyLayer{Level: "session", Name: "s", Deny: []string{"x"}},
		contracts.PolicyLayer{Level: "global", Allow: []string{"a*", "b*"}},
		contracts.PolicyLayer{Level: "agent", Name: "other", Deny: []string{"*"}},
	)
	labels := contracts.Labels{Session: "s"}
	e := p.For(labels)
	want := []contracts.PolicyLayer{{Level: "global", Allow: []string{"a*", "b*"}}, {Level: "session", Name: "s", Deny: []string{"x"}}}
	got := e.Layers()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Layers (-want +got):\n%s", diff)
	}
	got[0].Allow[0] = "*"
	if !e.See(Tool{ID: "c"}).Denied() || !compile(t, e.Layers()...).For(labels).See(Tool{ID: "c"}).Denied() {
		t.Error("changing what Layers returned changed the policy")
	}

	live := compile(t, contracts.PolicyLayer{Level: "global", Allow: []string{"a*", "b*"}}, contracts.PolicyLayer{Level: "tenant", Deny: []string{"ab"}}).For(labels)
	both := Both(e, live)
	if n := len(both.Layers()); n != 3 {
		t.Errorf("Both has %d layers, want 3: an equal one counts once", n)
	}
	for _, id := range []contracts.ToolID{"a", "ab", "b", "c", "x"} {
		tool := Tool{ID: id}
		want := e.See(tool).Denied() || live.See(tool).Denied()
		if got := both.See(tool).Denied(); got != want {
			t.Errorf("Both: %q denied = %v, want %v", id, got, want)
		}
		if Both(nil, live).See(tool) != live.See(tool) || Both(live, nil).See(tool) != live.See(tool) {
			t.Errorf("Both with nil decides %q differently", id)
		}
	}
}

// TestDenyWins checks on random policies that See is what the rules say one by one, in any order of layers.
func TestDenyWins(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	pieces := []string{"a", "b", "ab", ":", "*", "?", "[ab]", "[^a]", "é", `\*`}
	glob := func() string {
		var b strings.Builder
		for range 1 + rng.IntN(4) {
			b.WriteString(pieces[rng.IntN(len(pieces))])
		}
		return b.String()
	}
	list := func() (l []string) {
		for range rng.IntN(6) {
			l = append(l, glob())
		}
		return l
	}
	for range 3000 {
		var layers []contracts.PolicyLayer
		for range 1 + rng.IntN(3) {
			layers = append(layers, contracts.PolicyLayer{Level: []string{"global", "tenant"}[rng.IntN(2)], Allow: list(), Deny: list()})
		}
		e := compile(t, layers...).For(contracts.Labels{})
		for range 10 {
			id := strings.Map(func(r rune) rune { return []rune("ab:é*")[rng.IntN(5)] }, strings.Repeat("x", rng.IntN(6)))
			want := true
			for _, l := range layers {
				want = want && !anyMatch(l.Deny, id) && (len(l.Allow) == 0 || anyMatch(l.Allow, id))
			}
			if got := e.See(Tool{ID: contracts.ToolID(id)}); got.Denied() == want {
				t.Fatalf("%+v: See(%q) = %+v, want %v", layers, id, got, want)
			}
		}
	}
}

func anyMatch(globs []string, id string) bool {
	for _, g := range globs {
		if slowMatch([]rune(g), []rune(id)) {
			return true
		}
	}
	return false
}

// slowMatch is the plain recursive meaning of a valid glob.
func slowMatch(g, s []rune) bool {
	if len(g) == 0 {
		return len(s) == 0
	}
	switch g[0] {
	case '*':
		return slowMatch(g[1:], s) || len(s) > 0 && slowMatch(g, s[1:])
	case '?':
		return len(s) > 0 && slowMatch(g[1:], s[1:])
	case '[':
		end := 1
		for g[end] != ']' {
			end++
		}
		class := string(g[1:end])
		not := strings.HasPrefix(class, "^")
		return len(s) > 0 && strings.ContainsRune(strings.TrimPrefix(class, "^"), s[0]) != not && slowMatch(g[end+1:], s[1:])
	case '\\':
		g = g[1:]
	}
	return len(s) > 0 && g[0] == s[0] && slowMatch(g[1:], s[1:])
}

func TestGlob(t *testing.T) {
	for _, tt := range []struct {
		glob, s string
		want    bool
	}{
		{"mcp:calendar:create_event", "mcp:calendar:create_event", true},
		{"mcp:calendar:create_event", "mcp:calendar:create_events", false},
		{"*", "", true},
		{"*", "mcp:a:b:c", true},
		{"mcp:*", "mcp:a:b:c", true},
		{"mcp:*:delete_*", "mcp:a:x:delete_y", true},
		{"*delete*", "mcp:a:undeleted", true},
		{"*_event", "mcp:a:event", false},
		{"a?c", "abc", true},
		{"a?c", "aéc", true},
		{"a?c", "a\xffc", true},
		{"a?c", "ac", false},
		{"*?", "", false},
		{"*?x*?", "axxb", true},
		{"[a-c]x", "bx", true},
		{"[a-c]x", "dx", false},
		{"[!a-c]x", "dx", true},
		{"[^a-c]", "é", true},
		{"[a-]", "-", true},
		{`[\]]`, "]", true},
		{`[a\-c]`, "b", false},
		{"[à-ý]x", "éx", true},
		{`\[a\]\*`, "[a]*", true},
		{`\[a\]\*`, "[a]b", false},
		{"a*b*c", "a__b__b__c", true},
		{"a*b", "ab_", false},
		{"aa*aa", "aaa", false},
		{"A", "a", false},
		{"?*[0-9]", "tool7", true},
		{"a[bc]d*e?", "acd--ef", true},
	} {
		g, err := parseGlob(tt.glob)
		if err != nil {
			t.Errorf("parseGlob(%q): %v", tt.glob, err)
			continue
		}
		if got := g.match(tt.s); got != tt.want {
			t.Errorf("%q matches %q = %v, want %v", tt.glob, tt.s, got, tt.want)
		}
	}
}

func TestFirstRuleIsNamed(t *testing.T) {
	p := compile(t, contracts.PolicyLayer{Level: "global", Deny: []string{"z", "*b", "a*", "ab", "ab"}})
	if got := p.For(contracts.Labels{}).See(Tool{ID: "ab"}).Rule; got != "*b" {
		t.Errorf("Rule = %q, want the first that matches", got)
	}
}

func FuzzGlob(f *testing.F) {
	f.Add("mcp:*[a-z]?", "mcp:x:yz")
	f.Add(`\**`, "*")
	f.Fuzz(func(t *testing.T, rule, s string) {
		g, err := compileGlobs([]string{rule})
		if err != nil {
			return
		}
		var has signature
		has.add(s)
		got, ok := g.match(s, &has)
		if ok && got != rule || ok != g.list[0].match(s) {
			t.Fatalf("index and glob %q disagree over %q", rule, s)
		}
		if !strings.ContainsAny(rule, `*?[\`) && ok != (rule == s) {
			t.Fatalf("%q matches %q = %v", rule, s, ok)
		}
	})
}

func BenchmarkGlobs(b *testing.B) {
	rules := func(form string) []string {
		var r []string
		for i := range 1000 {
			r = append(r, fmt.Sprintf(form, i))
		}
		return r
	}
	for _, tt := range []struct{ name, form string }{
		{"exact", "mcp:server%d:some_tool"}, {"prefix", "mcp:server%d:*"}, {"middle", "mcp:*:some_%d_*"}, {"infix", "*some%d*"}, {"class", "*[a-f]x%d?"},
	} {
		p := compile(b, contracts.PolicyLayer{Level: "global", Deny: rules(tt.form)})
		e := p.For(contracts.Labels{})
		b.Run(tt.name, func(b *testing.B) {
			for b.Loop() {
				e.See(Tool{ID: "mcp:calendar-of-the-house:create_recurring_event"})
			}
		})
	}
}
