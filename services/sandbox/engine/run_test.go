package engine

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// cacheDir gives a directory of compiled code that all tests of the user share, since compiling takes seconds.
func cacheDir(t testing.TB) string {
	t.Helper()
	dir, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "toolcrib-test-engine")
}

// where is what of a Failure the tests of this package look at; what it says is the prelude's.
type where struct {
	Code         Code
	Name         string
	Line, Column int
}

func whereOf(f *Failure) where {
	if f == nil {
		return where{}
	}
	return where{f.Code, f.Name, f.Line, f.Column}
}

func TestEndings(t *testing.T) {
	e := openEngine(t, Config{})
	for _, tt := range []struct {
		name, code string
		value      string
		failure    where
	}{
		{name: "value", code: `return 1`, value: `1`},
		{name: "no value", code: ``},
		{name: "undefined", code: `return undefined`},
		{name: "a comment at the end", code: `return "x" // that is all`, value: `"x"`},
		{name: "await", code: `return await Promise.resolve([1, "two"])`, value: `[1,"two"]`},
		{name: "throw", code: "const x = 1;\n  throw new TypeError('no')", failure: where{CodeException, "TypeError", 2, 13}},
		{name: "throw in a function", code: "function f() {\n  null.x;\n}\n\nf()", failure: where{CodeException, "TypeError", 2, 3}},
		{name: "throw after an answer", code: "await tools.describe('x');\nthrow new RangeError('no')", failure: where{CodeException, "RangeError", 2, 11}},
		{name: "no such name", code: "\n  foo.bar()", failure: where{CodeException, "ReferenceError", 2, 3}},
		{name: "syntax", code: "return 1;\nconst = 2", failure: where{CodeSyntax, "SyntaxError", 2, 7}},
		{name: "too short", code: "if (true) {\n  return 1", failure: where{CodeSyntax, "SyntaxError", 2, 11}},
		{name: "a syntax error at run time", code: "JSON.parse('{')", failure: where{CodeException, "SyntaxError", 1, 6}},
		{name: "stalled", code: `await new Promise(() => {})`, failure: where{Code: CodeStalled}},
		{name: "stalled after an answer", code: `await tools.describe('x'); await new Promise(() => {})`, failure: where{Code: CodeStalled}},
		{name: "memory", code: "const all = [];\nfor (;;) all.push(new Array(1e5).fill(1))", failure: where{CodeMemory, "InternalError", 2, 34}},
		{name: "stack", code: "function f() { f() }\nf()", failure: where{CodeStack, "RangeError", 1, 16}},
		{name: "typescript", code: "type A = { n: number };\nconst a: A = { n: 1 };\nreturn a as unknown", value: `{"n":1}`},
		{name: "typescript that throws", code: "interface A {\n  n: number\n}\nconst a: A = { n: 1 };\nthrow new Error('x')", failure: where{CodeException, "Error", 5, 11}},
		{name: "typescript with an error", code: "const a: number = 1;\nconst b = ;\nreturn a", failure: where{CodeSyntax, "SyntaxError", 2, 11}},
		{name: "out of the function", code: "return 1 }); (async function () { return 2", failure: where{Code: CodeSyntax, Name: "SyntaxError"}},
		{name: "out of the function, asking", code: "}, tools.call('a'), console.log('b'), async function () {", failure: where{Code: CodeSyntax, Name: "SyntaxError"}},
		{name: "NUL", code: "return 'a\x00b'.length", value: `3`},
		{name: "bytes that are no text", code: "return 'a\xffb'", value: "\"a\uFFFDb\""},
		{name: "lines that only JavaScript knows", code: "return 'a\u2028b'.length", value: `3`},
		{name: "import", code: "await import('fs')", failure: where{Code: CodeException, Name: "ReferenceError"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ending, d := runCode(t, e, tt.code)
			got := whereOf(ending.Failure)
			if tt.failure.Line == 0 {
				got.Line, got.Column = 0, 0
			}
			if tt.name == "import" { // what it is called is the prelude's
				got.Name = tt.failure.Name
			}
			if diff := cmp.Diff(tt.failure, got); diff != "" {
				t.Errorf("failure (-want +got):\n%s%+v", diff, ending.Failure)
			}
			if string(ending.Value) != tt.value {
				t.Errorf("value = %s, want %s", ending.Value, tt.value)
			}
			if strings.HasPrefix(tt.name, "out of") && len(d.asks)+len(d.logs) > 0 {
				t.Errorf("text outside of the function asked %v and logged %v", d.asks, d.logs)
			}
		})
	}
}

func TestAsks(t *testing.T) {
	e := openEngine(t, Config{})
	d := newDoor(func(a Ask) *Answer {
		switch a.Op {
		case OpSearch:
			return &Answer{ID: a.ID, Value: json.RawMessage(`{"hits":[{"id":"a:b:c"}],"total":1}`)}
		case OpDescribe:
			return &Answer{ID: a.ID, Error: &Thrown{Name: "NotFound", Message: "there is none", Props: map[string]json.RawMessage{"status": json.RawMessage(`"unavailable"`)}}}
		case OpTimer:
			return &Answer{ID: a.ID, Now: 7000}
		}
		return &Answer{ID: a.ID, Value: a.Args}
	})
	ending := e.Run(context.Background(), Body{Now: 5000, Code: `
		const hits = await tools.search("a", {limit: 2});
		const calls = await Promise.all([1, 2].map((n) => tools.call("x", {n})));
		const before = Date.now();
		await new Promise((resolve) => setTimeout(resolve, 2000));
		try { await tools.describe("y"); } catch (e) { return [hits, calls, before, Date.now(), e.name, e.message, e.status]; }
	`}, d)
	if ending.Failure != nil {
		t.Fatal(ending.Failure)
	}
	var ops []Op
	for i, a := range d.asks {
		ops = append(ops, a.Op)
		if a.ID != i+1 {
			t.Errorf("ask %d has the id %d", i+1, a.ID)
		}
	}
	if diff := cmp.Diff([]Op{OpSearch, OpCall, OpCall, OpTimer, OpDescribe}, ops); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	if got, want := string(d.asks[1].Args), `["x",{"n":1}]`; got != want {
		t.Errorf("arguments of the call = %s, want %s", got, want)
	}
	if want := `5000,7000,"NotFound","there is none","unavailable"]`; !strings.HasSuffix(string(ending.Value), want) {
		t.Errorf("value = %s, want it to end with %s", ending.Value, want)
	}
}

func TestClockNeverGoesBack(t *testing.T) {
	e := openEngine(t, Config{})
	now := int64(2000)
	d := newDoor(func(a Ask) *Answer { now -= 500; return &Answer{ID: a.ID, Now: now} })
	ending := e.Run(context.Background(), Body{Now: 1800, Code: `const at = [Date.now()]; for (let i = 0; i < 2; i++) { await tools.describe("x"); at.push(Date.now()) } return at`}, d)
	if got, want := string(ending.Value), `[1800,1800,1800]`; got != want {
		t.Errorf("value = %s %v, want %s", got, ending.Failure, want)
	}
}

func TestAnswersNobodyWaitsFor(t *testing.T) {
	e := openEngine(t, Config{})
	d := newDoor(echo)
	for _, id := range []int{-1, 0, 2, 99} {
		d.answers <- Answer{ID: id, Value: json.RawMessage(`"no"`)}
	}
	ending := e.Run(context.Background(), Body{Code: `const a = await tools.describe("x"); const b = await tools.describe("y"); return [a.id, b.id]`}, d)
	if got, want := string(ending.Value), `[1,2]`; got != want {
		t.Errorf("value = %s %v, want %s", got, ending.Failure, want)
	}
}

func TestLimits(t *testing.T) {
	e := openEngine(t, Config{})
	big := `"` + strings.Repeat("x", 2000) + `"`
	for _, tt := range []struct {
		name, code string
		limits     Limits
		want       Code // "" for a value
	}{
		{"code", "return 1234567890", Limits{Code: 16}, CodeTooLarge},
		{"code that just fits", "return 123456789", Limits{Code: 16}, ""},
		{"calls", "for (let i = 0; i < 6; i++) await tools.describe('x')", Limits{Calls: 5}, CodeBridgeLimit},
		{"calls that just fit", "for (let i = 0; i < 5; i++) await tools.describe('x')", Limits{Calls: 5}, ""},
		{"calls at once", "await Promise.all(Array.from({length: 6}, () => tools.describe('x')))", Limits{Calls: 5}, CodeBridgeLimit},
		{"value", "return " + big, Limits{Value: 100}, CodeOutputLimit},
		{"value that just fits", "return " + big, Limits{Value: 200}, ""},
		{"timers", "for (let i = 0; i < 1e6; i++) setTimeout(() => {}, 1e9); await new Promise(() => {})", Limits{}, CodeBridgeLimit},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ending := e.Run(context.Background(), Body{Code: tt.code, Limits: tt.limits}, newDoor(func(a Ask) *Answer {
				if a.Op == OpTimer {
					return nil
				}
				return &Answer{ID: a.ID}
			}))
			if got := whereOf(ending.Failure).Code; got != tt.want {
				t.Errorf("code = %q, want %q (%+v)", got, tt.want, ending.Failure)
			}
		})
	}
}

func TestConcurrent(t *testing.T) {
	e := openEngine(t, Config{})
	var open, most int
	var waiting []Ask
	d := newDoor(nil)
	answer := func(a Ask) { open--; d.answers <- Answer{ID: a.ID} }
	d.answer = func(a Ask) *Answer {
		open++
		most = max(most, open)
		if waiting = append(waiting, a); open == 3 || a.ID == 10 {
			for _, w := range waiting {
				answer(w)
			}
			waiting = nil
		}
		return nil
	}
	ending := e.Run(context.Background(), Body{Code: `return (await Promise.all(Array.from({length: 10}, () => tools.describe('x')))).length`, Limits: Limits{Concurrent: 3}}, d)
	if string(ending.Value) != "10" || most != 3 {
		t.Errorf("value %s %v with at most %d open, want 10 with 3", ending.Value, ending.Failure, most)
	}
}

func TestConsole(t *testing.T) {
	e := openEngine(t, Config{})
	d := newDoor(echo)
	ending := e.Run(context.Background(), Body{Code: `
		for (const level of ["debug", "info", "log", "warn", "error"]) console[level]("0123456789");
		console.log("x".repeat(60)); console.log("y"); throw new Error("z")`, Limits: Limits{Console: 100}}, d)
	if ending.Failure == nil || ending.Failure.Code != CodeException || ending.Dropped != 2 || len(d.logs) != 5 {
		t.Errorf("ended %+v with %d lines dropped and %v, want an exception, 2 dropped, 5 kept", ending.Failure, ending.Dropped, d.logs)
	}
	var levels []string
	for _, l := range d.logs {
		levels = append(levels, l.Level)
	}
	if diff := cmp.Diff([]string{"debug", "info", "log", "warn", "error"}, levels); diff != "" {
		t.Errorf("levels (-want +got):\n%s", diff)
	}
}

func TestUnhandledRejection(t *testing.T) {
	e := openEngine(t, Config{})
	ending, d := runCode(t, e, `
		Promise.reject(new Error("lost"));
		const handled = Promise.reject(new Error("late")); await tools.describe("x"); handled.catch(() => {});
		try { await Promise.reject(new Error("caught")) } catch {}
		return 1`)
	if string(ending.Value) != "1" || len(d.logs) != 1 || d.logs[0].Level != "warn" || !strings.Contains(d.logs[0].Text, "lost") {
		t.Errorf("value %s %v, logs %v; want 1 and a warning about the lost one", ending.Value, ending.Failure, d.logs)
	}
}

func TestCPU(t *testing.T) {
	e := openEngine(t, Config{})
	start := time.Now()
	ending, _ := runCode(t, e, `let n = 0; for (let i = 0; i < 3e6; i++) n += i; return n`)
	if wall := time.Since(start); ending.CPU < 10*time.Millisecond || ending.CPU > wall {
		t.Errorf("a body that computes for %s used %s of CPU", wall, ending.CPU)
	}
	d := newDoor(nil)
	done := make(chan Ending)
	go func() { done <- e.Run(context.Background(), Body{Code: `await tools.describe("x")`}, d) }()
	eventually(t, "the ask", func() bool { return len(d.asked()) == 1 })
	untilPast(50 * time.Millisecond)
	d.answers <- Answer{ID: 1}
	if ending := <-done; ending.CPU > 25*time.Millisecond || ending.CPU <= 0 {
		t.Errorf("a body that waits for 50 ms used %s of CPU", ending.CPU)
	}
}

// A body whose types could not be stripped for want of time or memory is not said to be wrong.
func TestStrippingThatIsCutShort(t *testing.T) {
	code := strings.Repeat("type T = { a: number };\n{ const v: number = 1; }\n", 1000) + "return 1"
	e := openEngine(t, Config{})
	for timeout, want := range map[time.Duration]Code{time.Millisecond: CodeTimeout, time.Minute: ""} {
		ending := e.Run(t.Context(), Body{Code: code, Limits: Limits{Timeout: timeout}}, newDoor(reply))
		if got := whereOf(ending.Failure).Code; got != want {
			t.Errorf("with %v: ended with %q, want %q: %+v", timeout, got, want, ending.Failure)
		}
	}
	if ending := openEngine(t, Config{Budget: -1}).Run(t.Context(), Body{Code: code}, newDoor(reply)); whereOf(ending.Failure).Code != CodeMemory {
		t.Errorf("without memory: %+v, want %q", ending.Failure, CodeMemory)
	}
}
