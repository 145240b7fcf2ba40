package trials

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Neighbours tells how long the small bodies of a well-behaved tenant take, alone and beside a hostile one.
type Neighbours struct {
	Alone   Figures `json:"alone"`
	Beside  Figures `json:"beside"`
	Attacks int     `json:"attacks"` // hostile bodies that ended meanwhile
}

// Good reports whether the neighbour notices little: p99 is at most twice what it is alone, or at most 20 ms more.
func (n Neighbours) Good() bool {
	return n.Beside.P99 <= max(2*n.Alone.P99, n.Alone.P99+20*time.Millisecond)
}

// attackers are what a hostile tenant keeps running: endless loops, and memory bombs.
func attackers() []string {
	loops := []string{
		"for (;;);", "for (;;) await null", "const f = () => queueMicrotask(f); f(); await new Promise(() => {})",
		"/(a+)+$/.test('a'.repeat(40) + '!')", "try { for (;;); } finally { for (;;); }",
		"new Array(2 ** 32 - 1).join('')", "for (;;) eval('1')", "[2, 1].sort(() => { for (;;); })",
		"for (;;) JSON.parse('[1,2,3]')", "for await (const x of (async function* () { for (;;) yield 1 })());",
	}
	bombs := []string{
		"const a = []; for (;;) a.push(new Array(1e5).fill(1))", "const a = []; for (;;) a.push(new Uint8Array(1e6).fill(1))",
		"const m = new Map(); for (let i = 0; ; i++) m.set(i, 'v' + i)", "let l = null; for (;;) l = { l }",
	}
	return append(loops, bombs...)
}

// Beside measures the bodies of the tenant "good", n alone and n while the tenant "hostile" keeps its bodies running. The limit is that of
// hostile bodies.
func Beside(ctx context.Context, r Runner, n int, limit time.Duration) (Neighbours, error) {
	var out Neighbours
	if _, err := small(ctx, r, 20); err != nil { // workers and isolates get warm
		return out, err
	}
	alone, err := small(ctx, r, n)
	if err != nil {
		return out, err
	}
	attacked, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var begun sync.WaitGroup
	for _, code := range attackers() {
		begun.Add(1)
		wg.Go(func() {
			first := sync.OnceFunc(begun.Done)
			defer first()
			for attacked.Err() == nil {
				Time(attacked, r, "hostile", Trial{Code: code}.Body(limit), false)
				first()
				mu.Lock()
				out.Attacks++
				mu.Unlock()
			}
		})
	}
	begun.Wait() // each has been running, and has been ended, once
	beside, err := small(ctx, r, n)
	stop()
	wg.Wait()
	out.Alone, out.Beside = FiguresOf(alone), FiguresOf(beside)
	return out, err
}

// small runs n small bodies one after the other and tells how long each took.
func small(ctx context.Context, r Runner, n int) ([]time.Duration, error) {
	all := make([]time.Duration, n)
	body := Trial{Code: "const hits = await tools.search('add numbers'); return (await tools.call(hits[0], { a: 1, b: 2 })).result"}.Body(10 * time.Second)
	for i := range all {
		end, took := Time(ctx, r, "good", body, false)
		if string(end.Value) != `"ok"` {
			return nil, fmt.Errorf("a well-behaved body ended with %s", describe(end))
		}
		all[i] = took
	}
	return all, nil
}
