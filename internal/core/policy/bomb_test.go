package policy

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// cpu returns the processor time that the process has used: other work on the machine hardly counts in it.
func cpu(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Conditions that would take long with large arguments end in time, and deny.
func TestBombs(t *testing.T) {
	numbers := make([]int, 90_000)
	for i := range numbers {
		numbers[i] = i
	}
	texts := make([]string, 40_000)
	for i := range texts {
		texts[i] = strings.Repeat("a", 20)
	}
	long := strings.Repeat("a", 8<<20)
	for _, tt := range []struct {
		name, when string
		args       any
	}{
		{"loops", `args.l.all(x, args.l.all(y, x + y >= 0))`, map[string]any{"l": numbers}},
		{"a list of lists", `args.l.map(x, args.l.map(y, [x, y])).size() < 3`, map[string]any{"l": numbers}},
		{"filters", `args.l.filter(x, args.l.exists(y, y == -x - 1)).size() == 1`, map[string]any{"l": numbers}},
		{"a loop over an object", `args.all(k, args.all(j, args[k] == args[j]))`, func() any {
			m := map[string]int{}
			for i := range 50_000 {
				m[fmt.Sprint(i)] = 1
			}
			return m
		}()},
		{"concatenation", strings.Repeat("args.s + ", 40) + `args.s == "a"`, map[string]any{"s": long}},
		{"lists put together", `(` + strings.Repeat("args.l + ", 40) + `args.l).size() == 1`, map[string]any{"l": numbers}},
		{"texts in a loop", `args.l.exists(x, args.l.exists(y, x == y + "b"))`, map[string]any{"l": texts}},
		{"a pattern", `args.s.matches("(a{20}b?){20}c")`, map[string]any{"s": long}},
		{"a pattern as a function", `matches(args.s, "(a?){20}a{20}b")`, map[string]any{"s": long}},
		{"a pattern in a loop", `args.l.exists(x, x.matches("(a?){20}a{20}b"))`, map[string]any{"l": texts}},
		{"a search in a loop", `args.l.all(x, x in args.l)`, map[string]any{"l": numbers}},
		{"a search in depth", `args.k.all(x, !(args.l in [args.m, args.m]))`, map[string]any{"k": numbers[:20_000], "l": [][]int{numbers[:20_000]}, "m": [][]int{append(numbers[:19_999:19_999], 0)}}},
		{"equality in depth", `args.l.all(x, args.m == args.n)`, map[string]any{"l": make([]int, 20_000), "m": []any{map[string]any{"a": numbers[:30_000]}}, "n": []any{map[string]any{"a": numbers[:30_000]}}}},
		{"sizes in a loop", `args.l.all(x, args.s.size() > 0)`, map[string]any{"l": numbers, "s": long}},
		{"conversions in a loop", `args.l.all(x, bytes(args.s).size() > 0)`, map[string]any{"l": numbers, "s": long}},
		{"comparisons in a loop", `args.l.all(x, args.s <= args.t)`, map[string]any{"l": numbers, "s": long[:4<<20], "t": long[:4<<20]}},
		{"split and loop", `args.s.split("").exists(x, x == "b")`, map[string]any{"s": long}},
		{"changes of case", strings.Repeat("args.s.lowerAscii() == args.s.upperAscii() || ", 40) + "false", map[string]any{"s": long}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := compile(t, rules(t, "deny d: "+tt.when)).For(contracts.Labels{})
			args := marshal(t, tt.args)
			began := cpu(t)
			got := e.Call(Tool{ID: "a:b:c"}, args)
			// Without a limit it would be minutes at least. A tenth of this is usual with the race detector, and a hundredth without.
			if used := cpu(t) - began; used > 20*time.Second {
				t.Errorf("it used %v of processor time", used)
			}
			if got.Reason == "" || !got.Denied() {
				t.Errorf("Call = %+v, want a denial because it cannot be evaluated", got)
			}
		})
	}
}

// Many rules that each stay below their limit do not add up.
func TestBombOfMany(t *testing.T) {
	var texts []string
	for i := range 200 {
		texts = append(texts, fmt.Sprintf("deny d%d: args.l.exists(x, x == %d)", i, -i-1))
	}
	numbers := make([]int, 5000)
	e := compile(t, rules(t, texts...)).For(contracts.Labels{})
	if got := e.Call(Tool{ID: "a:b:c"}, marshal(t, map[string]any{"l": numbers[:10]})); got.Denied() {
		t.Errorf("Call with little = %+v, want it allowed", got)
	}
	if got := e.Call(Tool{ID: "a:b:c"}, marshal(t, map[string]any{"l": numbers})); !got.Denied() || !strings.Contains(got.Reason, "too long together") {
		t.Errorf("Call with much = %+v, want a denial because of all together", got)
	}
}

// Which property comes first does not depend on chance.
func TestObjectsAreOrdered(t *testing.T) {
	e := compile(t, rules(t, `deny d: args.o.map(k, k)[0] != "a" || args.filter(k, true)[0] != "b" || run.labels.map(k, k)[0] != "c"`)).
		For(contracts.Labels{Labels: map[string]string{"e": "", "d": "", "c": "", "f": ""}})
	for range 50 {
		if got := e.Call(Tool{ID: "a:b:c"}, []byte(`{"o":{"c":1,"b":2,"a":3,"d":4},"z":1,"b":2,"y":3}`)); got.Denied() {
			t.Fatalf("Call = %+v", got)
		}
	}
}

func TestConcurrent(t *testing.T) {
	e := compile(t, rules(t, `deny d: args.a.b.c == 1 || args.s.matches("^x+$")`, `approve a: run.labels.team == "red"`, `deny m: args.n > "a"`)).
		For(contracts.Labels{Labels: map[string]string{"team": "red"}})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 100 {
				raw := []string{`{"a":{"b":{"c":1}},"s":"y","n":"b"}`, `{"a":{"b":{"c":2}},"s":"y","n":"a"}`, `{"a":1}`, `{"a":{"b":{"c":2}},"s":7,"n":1}`}[(i+j)%4]
				want := []contracts.PolicyEffect{deny, approve, deny, deny}[(i+j)%4]
				if got := e.Call(Tool{ID: "a:b:c"}, []byte(raw)); got.Effect != want {
					t.Errorf("Call(%s) = %+v, want %s", raw, got, want)
				}
			}
		})
	}
	wg.Wait()
}

// FuzzRule: whatever the condition, the globs and the arguments, Compile and the decisions end without a panic, a
// condition that fails denies, and what See denies Call denies.
func FuzzRule(f *testing.F) {
	for _, when := range []string{"", `args.a == 1`, `tool.annotations.readOnly`, `args.l.all(x, x.matches("a+"))`, `run.labels["a"] in args.l`, `has(args.a.b) ? args.c : tool.trusted`,
		`timestamp(args.t) < timestamp("2026-01-01T00:00:00Z")`, `args.map(k, args[k]).exists(v, type(v) == string && v.size() > 3)`, `args.a.split(",")[0] == "x"`, `int(args.a) / int(args.b) > 0`} {
		f.Add(when, "*", "mcp:a:b", `{"a":1,"l":["x"],"c":true}`)
	}
	f.Add("true", "mcp:[a-", "x", `[`)
	f.Fuzz(func(t *testing.T, when, glob, id, args string) {
		var decided [3]Decision
		for i, effect := range []contracts.PolicyEffect{deny, approve, allow} {
			p, err := Compile([]contracts.PolicyLayer{{Level: "global", Rules: []contracts.PolicyRule{{Name: "r", Effect: effect, Tools: []string{glob}, When: when}}}})
			if err != nil {
				if contracts.CodeOf(err) != contracts.CodeInvalid || p != nil {
					t.Fatalf("Compile = %v, %v", p, err)
				}
				return
			}
			e := p.For(contracts.Labels{Agent: "x", Labels: map[string]string{"a": "x"}})
			tool := Tool{ID: contracts.ToolID(id), Hash: "h"}
			d := e.Call(tool, []byte(args))
			if d.Reason != "" && !d.Denied() {
				t.Fatalf("%s %q over %s: %+v is let through on an error", effect, when, args, d)
			}
			if e.See(tool).Denied() && !d.Denied() {
				t.Fatalf("%s %q over %s: hidden, and called", effect, when, args)
			}
			if again := e.Call(tool, []byte(args)); again.Effect != d.Effect || again.Reason != d.Reason {
				t.Fatalf("%s %q over %s: first %+v, then %+v", effect, when, args, d, again)
			}
			decided[i] = d
		}
		matched := anyMatchSafe(t, glob, id)
		failed := decided[0].Reason != ""
		if failed && (decided[1].Reason == "" || !decided[2].Denied()) || matched && !failed && decided[0].Denied() == decided[2].Denied() {
			t.Fatalf("%q over %s: as deny %+v, as approve %+v, as allow %+v", when, args, decided[0], decided[1], decided[2])
		}
	})
}

func anyMatchSafe(t *testing.T, glob, id string) bool {
	g, err := parseGlob(glob)
	if err != nil {
		t.Fatal(err)
	}
	return g.match(id)
}

func BenchmarkCall(b *testing.B) {
	args := marshal(b, map[string]any{"to": "ann@example.org", "subject": "Lunch", "amount": 120, "body": strings.Repeat("text ", 200)})
	tool := Tool{ID: "mcp:calendar-of-the-house:create_recurring_event", Hash: "h", Trusted: true}
	labels := contracts.Labels{Agent: "planner", Profile: "office", Labels: map[string]string{"team": "red"}}
	for _, tt := range []struct{ name, form string }{
		{"servers", "deny r%d mcp:server%[1]d:*: args.amount > 100"},                        // one of a thousand servers
		{"ids", "approve r%d mcp:server%[1]d:tool: args.amount > 100"},                      // no glob matches
		{"middle", "deny r%d mcp:*:delete_%[1]d_*: args.amount > 100"},                      // the signature decides
		{"classes", "deny r%d *[0-9]x%[1]d?: args.amount > 100"},                            // every glob is tried
		{"everyTool", `deny r%d: tool.source == "mcp:server%[1]d"`},                         // every condition is evaluated
		{"everyCall", `deny r%d: tool.source == "mcp:server%[1]d" && args.amount > 100`},    // every condition is evaluated, with its cost counted
		{"everyCallReads", `deny r%d: args.amount > %[1]d1000 && args.to.endsWith("evil")`}, // and the arguments are read
	} {
		var texts []string
		for i := range 1000 {
			texts = append(texts, fmt.Sprintf(tt.form, i))
		}
		// Beside them, three that concern the call.
		texts = append(texts, `deny evil mcp:calendar*: args.to.endsWith("@evil.com")`, `approve much *_event: args.amount > 1000`, `deny others mcp:calendar-of-the-house:*: run.agent != "planner"`)
		p := compile(b, rules(b, texts...))
		live := compile(b, rules(b, texts...))
		b.Run(tt.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if d := Both(p.For(labels), live.For(labels)).Call(tool, args); d.Denied() {
					b.Fatal(d)
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	var texts []string
	for i := range 1000 {
		texts = append(texts, fmt.Sprintf(`deny r%d mcp:server%[1]d:*: args.amount > %[1]d && tool.name.startsWith("send")`, i))
	}
	l := rules(b, texts...)
	for b.Loop() {
		compile(b, l)
	}
}

func BenchmarkSee(b *testing.B) {
	w := world{rand.New(rand.NewPCG(9, 9))}
	e := compile(b, w.layers(4)...).For(contracts.Labels{})
	tool := tools()[0]
	for b.Loop() {
		e.See(tool)
	}
}
