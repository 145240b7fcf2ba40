package engine

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/services/sandbox/engine/guest"
	"github.com/toolcrib/toolcrib/services/sandbox/engine/rewrite"
)

// oddEngine opens an engine whose bodies run behind another prelude, as if the real one had been taken over.
func oddEngine(t *testing.T, prelude string) *Engine {
	t.Helper()
	wasm, err := os.ReadFile("npm/node_modules/quickjs-wasi/quickjs.wasm")
	if err != nil {
		t.Fatalf("%v: run `make engine`", err)
	}
	full, _, err := rewrite.Module(wasm, rewrite.Options{MinPages: 18, MaxPages: guest.MaxPages, Fuel: 10_000, Bulk: 64 << 10, Hook: "host_interrupt"})
	if err != nil {
		t.Fatal(err)
	}
	rt, err := guest.NewRuntime(t.Context(), full, cacheDir(t), nil, guest.Compiled)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rt.Close(context.Background()) }()
	s, memory, err := rt.Boot(prelude, guest.FuncStart, guest.FuncSettle, guest.FuncFail, guest.FuncRejected)
	if err != nil {
		t.Fatal(err)
	}
	f, err := guest.NewFile("odd", s, memory)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	e := openEngine(t, Config{})
	if err := e.bodies.close(); err != nil {
		t.Fatal(err)
	}
	if err := e.bodies.open(e, *s, f, 1); err != nil {
		t.Fatal(err)
	}
	return e
}

// TestOddGuest runs guests that keep to nothing that the prelude keeps to.
func TestOddGuest(t *testing.T) {
	const prelude = `
		const send = globalThis.__send; delete globalThis.__send;
		globalThis.__start = (fn, source, config) => { globalThis.send = send; fn(); };
		globalThis.__settle = (...args) => { globalThis.settled(...args) };
		globalThis.__fail = (e) => { globalThis.failed ? globalThis.failed(e) : send("fail", 0, JSON.stringify({name: e.name, message: e.message})) };
		globalThis.__rejected = () => { for (;;) {} };`
	e := oddEngine(t, prelude)
	for _, tt := range []struct {
		code string
		want Code // "" for a value
	}{
		{`send("done", 0, "1")`, ""},
		{`send("done", 0, "")`, ""},
		{`send("done", 0, "{")`, CodeUnavailable},
		{`send("done", 0, "1 2")`, CodeUnavailable},
		{`send("done", 0, "9".repeat(5e6))`, CodeOutputLimit},
		{`send("fail", 0, "{")`, CodeUnavailable},
		{`send("fail", 0, "[1]")`, CodeUnavailable},
		{`send("fail", 0, '{"code":"cancelled"}')`, CodeException},
		{`send("fail", 0, '{"code":"bridge_limit"}')`, CodeBridgeLimit},
		{`send("fail", 0, JSON.stringify({message: "x".repeat(2e6)}))`, CodeException},
		{`send("fail", 0, '{"message":"out of memory","name":"InternalError"}')`, CodeMemory},
		{`send("nothing", 1, "[]")`, CodeUnavailable},
		{`send("", 1, "[]")`, CodeUnavailable},
		{`send("call", 0, "[]")`, CodeUnavailable},
		{`send("call", -1, "[]")`, CodeUnavailable},
		{`send("call", 1.5, "[]")`, CodeUnavailable},
		{`send("call", NaN, "[]")`, CodeUnavailable},
		{`send("call", 1e300, "[]")`, CodeUnavailable},
		{`send("call", 1, "{}")`, CodeUnavailable},
		{`send("call", 1, "[")`, CodeUnavailable},
		{`send("call", 1, "")`, CodeUnavailable},
		{`send("call", 1, "[" + "1,".repeat(3e6) + "1]")`, CodeOutputLimit},
		{`send("call", 1, "[]"); send("call", 1, "[]")`, CodeUnavailable},
		{`globalThis.settled = () => send("call", 1, "[]"); send("call", 1, "[]")`, CodeUnavailable},
		{`globalThis.settled = () => { throw new Error("x") }; send("call", 1, "[]")`, CodeException},
		{`globalThis.settled = () => {}; send("call", 1, "[]")`, CodeStalled},
		{`for (let i = 1; ; i++) send("call", i, "[]")`, CodeBridgeLimit},
		{`for (let i = 1; ; i++) send("timer", i, "[0]")`, CodeBridgeLimit},
		{`send()`, CodeUnavailable},
		{`send("done")`, CodeUnavailable},
		{`send({toString() { send("done", 0, "1") }}, 0, "1")`, CodeUnavailable},
		{`send({toString() { for (;;) {} }}, 0, "1")`, CodeTimeout},
		{`send(Symbol("done"), 0, "1")`, CodeUnavailable},
		{`send("log", 0, "{"); send("log", 0, '{"level":"loud","text":"x"}'); send("log", 0, "x".repeat(1e6)); send("done", 0, "1")`, ""},
		{`globalThis.failed = () => { throw 1 }; queueMicrotask(() => { throw 2 })`, CodeException},
		{`globalThis.failed = () => {}; queueMicrotask(() => { throw 2 })`, CodeException},
		{`globalThis.failed = () => { for (;;) {} }; queueMicrotask(() => { throw 2 })`, CodeTimeout},
		{`send("done", 0, "1"); for (;;) {}`, ""},
		{`send("done", 0, "1"); throw 1`, ""},
		{`Promise.reject(1); send("done", 0, "1")`, ""},
		{`send("done", 0, "1"); send("fail", 0, "{}"); send("call", 1, "[]")`, ""},
	} {
		t.Run(fmt.Sprintf("%.60s", tt.code), func(t *testing.T) {
			limit := 10 * time.Second
			if tt.want == CodeTimeout || strings.Contains(tt.code, "for (;;) {}") {
				limit = 200 * time.Millisecond
			}
			start := time.Now()
			ending := e.Run(t.Context(), Body{Code: tt.code, Limits: Limits{Timeout: limit}}, newDoor(echo))
			if took := time.Since(start); took > limit+slack || strings.HasPrefix(tt.code, "Promise.reject") && took > maxFinish+slack {
				t.Errorf("took %s", took)
			}
			if got := whereOf(ending.Failure).Code; got != tt.want {
				t.Errorf("ended with %q, want %q: %+v %.50s", got, tt.want, ending.Failure, ending.Value)
			}
			if next := e.Run(t.Context(), Body{Code: `send("done", 0, "[]")`}, newDoor(echo)); string(next.Value) != "[]" {
				t.Errorf("the next body ended with %s %+v", next.Value, next.Failure)
			}
		})
	}
}
