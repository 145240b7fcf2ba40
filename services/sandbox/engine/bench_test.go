package engine

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"
)

// benchmark runs a body again and again, and reports the CPU time that it used. before is called before each.
func benchmark(b *testing.B, e *Engine, body Body, answer func(Ask) *Answer, before func()) {
	b.Helper()
	b.ReportAllocs()
	d := newDoor(answer)
	body.Timeout = time.Minute
	var cpu time.Duration
	n := 0
	for b.Loop() {
		before()
		d.asks = d.asks[:0]
		ending := e.Run(context.Background(), body, d)
		if ending.Failure != nil {
			b.Fatal(ending.Failure)
		}
		cpu += ending.CPU
		n++
	}
	b.ReportMetric(float64(cpu.Microseconds())/float64(n), "cpu-µs/op")
}

// reply answers with as little as the prelude accepts.
func reply(a Ask) *Answer {
	answer := &Answer{ID: a.ID}
	switch a.Op {
	case OpSearch:
		answer.Value = []byte(`{"hits":[{"id":"mcp:a:b","name":"b","input":"(x: number)"}],"total":1,"limit":8,"pending":[],"failed":[]}`)
	case OpDescribe, OpCall:
		answer.Value = []byte(`{"status":"ok","result":{"content":[{"type":"text","text":"ok"}]},"callId":"c"}`)
	}
	return answer
}

func BenchmarkRun(b *testing.B) {
	e := openEngine(b, Config{})
	nothing := func() { e.bodies.most = defaultIdle }
	cold := func() {
		e.bodies.most = 0
		for i := e.bodies.take(); i != nil; i = e.bodies.take() {
			e.bodies.drop(i)
		}
	}
	for _, bench := range []struct {
		name, code string
		before     func()
	}{
		{"return1/warm", "return 1", nothing},
		{"return1/cold", "return 1", cold},
		{"3asks/warm", `const hits = await tools.search("x"); const tool = await tools.describe(hits[0]); return (await tools.call(hits[0], {x: 1})).status`, nothing},
		{"100asks/warm", `return (await Promise.all(Array.from({length: 100}, (_, i) => tools.call("mcp:a:b", {i})))).length`, nothing},
		{"typescript/warm", `const x: number = 1; return x`, nothing},
		{"fib27", `const fib = (n) => n < 2 ? n : fib(n - 1) + fib(n - 2); return fib(27)`, nothing},
		{"sort100k", `const a = []; let s = 1; for (let i = 0; i < 1e5; i++) a.push(s = s * 16807 % 2147483647); return a.sort((x, y) => x - y)[0]`, nothing},
		{"json1MB", `const t = JSON.stringify(Array.from({length: 10000}, (_, i) => ({id: i, name: "item number " + i, tags: ["a", "b"], price: i / 3, more: {x: null, y: true}}))); const v = JSON.parse(t); return [t.length, v.length]`, nothing},
	} {
		b.Run(bench.name, func(b *testing.B) { benchmark(b, e, Body{Code: bench.code}, reply, bench.before) })
	}
}

// BenchmarkTogether runs small bodies side by side.
func BenchmarkTogether(b *testing.B) {
	for _, code := range []string{"return 1", `for (let i = 0; i < 3; i++) await tools.call("mcp:a:b", {i}); return 1`} {
		b.Run(fmt.Sprintf("%.20s", code), func(b *testing.B) {
			e := openEngine(b, Config{Idle: 64})
			b.SetParallelism(32 / runtime.GOMAXPROCS(0))
			b.RunParallel(func(pb *testing.PB) {
				d := newDoor(reply)
				for pb.Next() {
					d.asks = d.asks[:0]
					if ending := e.Run(context.Background(), Body{Code: code}, d); ending.Failure != nil {
						b.Error(ending.Failure)
					}
				}
			})
		})
	}
}

// BenchmarkOpen opens an engine whose code was compiled before.
func BenchmarkOpen(b *testing.B) {
	images, err := NewImages()
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = images.Close() }()
	for b.Loop() {
		e, err := Open(b.Context(), Config{Cache: cacheDir(b), Images: images})
		if err != nil {
			b.Fatal(err)
		}
		if err := e.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
