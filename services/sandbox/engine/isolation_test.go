package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolcrib/toolcrib/services/sandbox/engine/guest"
)

// spoil changes all that a body can change.
const spoil = `
	globalThis.left = 1; var alsoLeft = 2; globalThis.Date = 3;
	Array.prototype.map = () => "patched"; Object.prototype.polluted = true; JSON.parse = () => "patched"; Promise.prototype.then = null;
	Math.random = () => 4; String.prototype.trim = null; globalThis.tools = null; globalThis.console = null; globalThis.setTimeout = null;
	Symbol.for("left"); delete globalThis.Map; Object.freeze(globalThis.Set.prototype);
	globalThis.onlyHere = new Array(10000).fill("a secret of somebody else");`

// look finds what spoil left.
const look = `
	const found = Object.getOwnPropertyNames(globalThis).filter((n) => /left|only/i.test(n));
	return [found, [1].map((x) => x + 1), {}.polluted === undefined, JSON.parse("[1]"), typeof Date, Math.random() < 1, " a ".trim(), typeof tools.call,
		typeof console.log, typeof setTimeout, typeof Map, Object.isFrozen(Set.prototype)];`

const clean = `[[],[2],true,[1],"function",true,"a","function","function","function","function",false]`

func TestNothingIsLeft(t *testing.T) {
	e := openEngine(t, Config{Idle: 1})
	for i := range 20 {
		if ending, _ := runCode(t, e, spoil+"return 1"); i > 0 && ending.Failure != nil && ending.Failure.Code == CodeUnavailable {
			t.Fatal(ending.Failure)
		}
		if ending, _ := runCode(t, e, look); string(ending.Value) != clean {
			t.Fatalf("after run %d: %s %v, want %s", i, ending.Value, ending.Failure, clean)
		}
	}
}

func TestNothingIsLeftAfterFailures(t *testing.T) {
	e := openEngine(t, Config{Idle: 1})
	for _, end := range []string{"throw 1", "await new Promise(() => {})", "for (;;) globalThis.left++", "const f = () => f(); f()", "return (", "const x: number = 1; throw x"} {
		d := newDoor(echo)
		e.Run(context.Background(), Body{Code: spoil + end, Limits: Limits{Timeout: 1e8}}, d)
		if ending, _ := runCode(t, e, look); string(ending.Value) != clean {
			t.Errorf("after %q: %s %v, want %s", end, ending.Value, ending.Failure, clean)
		}
	}
}

func TestTogether(t *testing.T) {
	e := openEngine(t, Config{})
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			code := fmt.Sprintf(`globalThis.mine = %d; await tools.describe("x"); await tools.describe("y"); return [globalThis.mine, Object.keys(globalThis).length]`, i)
			if i%5 == 0 {
				code = spoil + code
			}
			ending, _ := runCode(t, e, code)
			if i%5 == 0 {
				return
			}
			var got []int
			if err := json.Unmarshal(ending.Value, &got); err != nil || got[0] != i {
				t.Errorf("body %d: %s %v", i, ending.Value, ending.Failure)
			}
		})
	}
	wg.Wait()
}

// TestReset compares all of an isolate's memory with its snapshot.
func TestReset(t *testing.T) {
	e := openEngine(t, Config{Idle: 1})
	pristine := func() []byte {
		iso, err := e.bodies.get()
		if err != nil {
			t.Fatal(err)
		}
		b := iso.Memory()
		e.bodies.idle = append(e.bodies.idle, iso)
		return b
	}
	want := make([]byte, len(pristine()))
	if _, err := e.images.Body.ReadAt(want, 0); err != nil {
		t.Fatal(err)
	}
	for _, code := range []string{"return 1", spoil + "return 1", "const a = new Uint8Array(1e6).fill(255); return a.length", "throw 1", look} {
		before := e.bodies.idle[0]
		runCode(t, e, code)
		if len(e.bodies.idle) == 0 || e.bodies.idle[0] != before {
			t.Fatalf("after %.40q the isolate was not used again: the test tests nothing", code)
		}
		got := pristine()
		for at := 0; at < len(want); at += 4096 {
			if !bytes.Equal(want[at:at+4096], got[at:at+4096]) {
				t.Fatalf("after %.40q the page at %d differs from the snapshot", code, at)
			}
		}
	}
}

// TestIsolatesThatAreThrownAway says which isolates are not used again.
func TestIsolatesThatAreThrownAway(t *testing.T) {
	e := openEngine(t, Config{Idle: 1})
	for _, tt := range []struct {
		name, code string
		again      bool
	}{
		{"clean", "return 1", true},
		{"failed", "throw 1", true},
		{"grown", "const a = []; for (let i = 0; i < 100; i++) a.push(new Uint8Array(1e5)); return a.length", false},
		{"stopped", "for (;;) {}", false},
		{"deep", "const f = (n) => n && 1 + f(n - 1); return f(500)", false},
	} {
		before := e.bodies.idle[0]
		e.Run(context.Background(), Body{Code: tt.code, Limits: Limits{Timeout: 2e8}}, newDoor(nil))
		if len(e.bodies.idle) == 0 {
			runCode(t, e, "return 1")
		}
		if again := e.bodies.idle[0] == before; again != tt.again {
			t.Errorf("%s: used again = %v, want %v", tt.name, again, tt.again)
		}
	}
	e.bodies.idle[0].runs = maxRuns - 1
	old := e.bodies.idle[0]
	runCode(t, e, "return 1")
	runCode(t, e, "return 1")
	if e.bodies.idle[0] == old {
		t.Errorf("an isolate was used again after %d runs", maxRuns)
	}
}

// record runs a body and gives all that it did, as bytes.
func record(t *testing.T, e *Engine, body Body, answer func(Ask) *Answer) string {
	t.Helper()
	d := newDoor(answer)
	ending := e.Run(context.Background(), body, d)
	ending.CPU = 0
	b, err := json.MarshalIndent(map[string]any{"asks": d.asks, "logs": d.logs, "ending": ending}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// manyThings are bodies that use what could differ from run to run.
func manyThings() []string {
	return []string{
		`const out = []; for (let i = 0; i < 50; i++) out.push(Math.random()); return out`,
		`return [Date.now(), new Date().toString(), performance.now(), new Date(0).getTimezoneOffset(), Date()]`,
		`const hits = await Promise.all([1, 2, 3].map((i) => tools.call("t" + i, {i, r: Math.random(), at: Date.now()}))); console.log(hits); return [hits, Date.now()]`,
		`const first = await Promise.race([tools.describe("a"), tools.describe("b"), new Promise((r) => setTimeout(() => r("late"), 5))]); return first`,
		`const m = new Map(); for (let i = 0; i < 500; i++) m.set({}, i); let n = 0; const r = new FinalizationRegistry(() => n++); for (let i = 0; i < 500; i++) r.register({i}, i); await tools.describe("x"); return [n, [...m.values()].length]`,
		`const o = {}; for (let i = 0; i < 100; i++) o[Math.random().toString(36)] = i; return Object.keys(o)`,
		`let deep = 0; const f = () => { deep++; f() }; try { f() } catch {} return deep`,
		`const a = Array.from({length: 200}, () => Math.random()); return a.sort().slice(0, 5)`,
		`setTimeout(() => console.log("a", Date.now()), 10); setTimeout(() => console.log("b", Date.now()), 5); await new Promise((r) => setTimeout(r, 20)); throw new Error("x" + Math.random())`,
		`const s: string = "typescript"; enum E { A = 1, B }; return [s, E.B, Math.random()]`,
		`return [1e21, 0.1 + 0.2, -0, 123456789012345680000, 5e-324, (25).toString(7), Math.hypot(3, 4), Math.sin(1), 2 ** 0.5]`,
		`return "straße".toUpperCase() + "ﬃ".normalize("NFKD") + [..."👩‍👩‍👧é"].length + /\p{L}+/u.exec("héllo wörld")[0]`,
		`return (`,
	}
}

func answerer() func(Ask) *Answer {
	now := int64(1_700_000_000_000)
	return func(a Ask) *Answer {
		now += 7
		answer := echo(a)
		answer.Now = now
		return answer
	}
}

func TestDeterministic(t *testing.T) {
	e := openEngine(t, Config{Idle: 2})
	fresh := openEngine(t, Config{Idle: 2})
	for _, code := range manyThings() {
		body := Body{Code: code, Seed: 42, Now: 1_700_000_000_000}
		want := record(t, e, body, answerer())
		runCode(t, e, spoil)
		if diff := cmp.Diff(want, record(t, e, body, answerer())); diff != "" {
			t.Errorf("%.60q differs in the same engine (-first +second):\n%s", code, diff)
		}
		if diff := cmp.Diff(want, record(t, fresh, body, answerer())); diff != "" {
			t.Errorf("%.60q differs in another engine (-first +second):\n%s", code, diff)
		}
	}
	other := Body{Code: manyThings()[0], Seed: 43}
	if a, b := record(t, e, Body{Code: other.Code, Seed: 42}, nil), record(t, e, other, nil); a == b {
		t.Error("two seeds give the same random numbers")
	}
}

// TestCompilerAgainstInterpreter compares the two ways of executing the module: a wrong translation would be a hole in the sandbox.
func TestCompilerAgainstInterpreter(t *testing.T) {
	compiled := openEngine(t, Config{})
	interpreted, err := open(context.Background(), Config{Images: compiled.images}, guest.Interpreted)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := interpreted.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, code := range append(manyThings(), computations()...) {
		body := Body{Code: code, Seed: 42, Now: 1_700_000_000_000, Limits: Limits{Timeout: 6e10}}
		if diff := cmp.Diff(record(t, interpreted, body, answerer()), record(t, compiled, body, answerer())); diff != "" {
			t.Errorf("%.60q differs (-interpreted +compiled):\n%s", code, diff)
		}
	}
}

// computations use much of the engine's arithmetic.
func computations() []string {
	return []string{
		`let h = 0; for (let i = 0; i < 3000; i++) h = (Math.imul(h, 31) + (i ^ (i << 3)) ^ (h >>> 5)) | 0; return h`,
		`let s = 0; for (let i = 1; i < 500; i++) s += Math.sqrt(i) * Math.sin(i) / Math.log(i + 1) - Math.atan2(i, 3) % 0.7; return s`,
		`let b = 1n; for (let i = 1n; i < 120n; i++) b = b * i + (b >> 3n) - (b % 7n); return [String(b), String(b / 12345678901234567890n), (-b).toString(16)]`,
		`const fib = (n) => n < 2 ? n : fib(n - 1) + fib(n - 2); return fib(12)`,
		`const t = "the quick brown fox ".repeat(40); return [t.replace(/(\w+) (\w+)/g, "$2 $1").slice(0, 99), t.split(/o(?=w)/).length, [...t.matchAll(/q(?<x>u)i/g)].length]`,
		`const v = new DataView(new ArrayBuffer(64)); v.setFloat64(0, Math.PI); v.setInt16(9, -2, true); v.setBigInt64(20, -5n); return [...new Uint8Array(v.buffer), v.getFloat32(1), v.getUint32(3, true)]`,
		`return [1/3, 1e300*1e10, 0x7fffffff + 1 | 0, (1.005).toFixed(2), (12345.678).toPrecision(6), (1e-7).toString(), parseFloat("1e-400"), Math.fround(5.05), Math.clz32(77), Math.cbrt(27), Math.expm1(1e-10)]`,
		`const big = JSON.stringify(Array.from({length: 60}, (_, i) => ({i, s: "é" + i, n: i / 7, a: [null, true, {d: [i]}]}))); return [big.length, JSON.parse(big)[59]]`,
		`return [0.1, 1e21, 123.456, 2**53, 1/7, 5e-324, 1.7976931348623157e308].map((x) => [x.toString(2).slice(0, 40), x.toString(36), x.toExponential(5)])`,
	}
}
