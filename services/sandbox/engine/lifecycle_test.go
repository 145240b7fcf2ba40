package engine

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// held counts what a process holds; of its mappings, those of snapshots and of compiled code.
type held struct{ goroutines, files, mappings int }

func holding(t *testing.T) held {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range bytes.Lines(maps) {
		code := bytes.Contains(line, []byte(" r-xp 00000000 00:00 0")) && !bytes.Contains(line, []byte("["))
		if code || bytes.Contains(line, []byte("memfd:")) {
			n++
		}
	}
	return held{runtime.NumGoroutine(), len(fds), n}
}

func TestCloseLeavesNothing(t *testing.T) {
	once := func() {
		e, err := Open(t.Context(), Config{Cache: cacheDir(t)})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for _, code := range []string{"return 1", "throw 1", "for (;;) {}", "await tools.describe('x')", "const x: number = 1; return x", "const a = []; for (;;) a.push(new Array(1e5))", "setTimeout(() => {}, 1e9); await tools.describe('x')"} {
			wg.Go(func() {
				e.Run(t.Context(), Body{Code: code, Limits: Limits{Timeout: 200 * time.Millisecond}}, newDoor(nil))
			})
		}
		wg.Wait()
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		if err := e.Close(); err != nil {
			t.Fatalf("Close again: %v", err)
		}
	}
	once() // what the runtime and libraries make once stays
	before := holding(t)
	for range 3 {
		once()
	}
	var after held
	eventually(t, "all is freed", func() bool {
		runtime.GC() // compiled code is freed with its owner
		after = holding(t)
		return after.goroutines <= before.goroutines && after.files <= before.files && after.mappings <= before.mappings
	})
}

func TestCloseEndsBodies(t *testing.T) {
	e := openEngine(t, Config{})
	ends := make(chan Ending)
	waiting, computing := newDoor(nil), newDoor(nil)
	for code, d := range map[string]*testDoor{"await tools.describe('x')": waiting, "tools.describe('x'); for (;;) {}": computing} {
		go func() { ends <- e.Run(context.Background(), Body{Code: code}, d) }()
	}
	eventually(t, "both ask", func() bool { return len(waiting.asked()) == 1 && len(computing.asked()) == 1 })
	start := time.Now()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > slack {
		t.Errorf("Close took %s", took)
	}
	for range 2 {
		if ending := <-ends; whereOf(ending.Failure).Code != CodeUnavailable {
			t.Errorf("a body ended with %+v, want unavailable", ending.Failure)
		}
	}
	if ending := e.Run(context.Background(), Body{Code: "return 1"}, newDoor(nil)); whereOf(ending.Failure).Code != CodeUnavailable {
		t.Errorf("a closed engine gave %s %+v, want unavailable", ending.Value, ending.Failure)
	}
}

func TestCancel(t *testing.T) {
	e := openEngine(t, Config{})
	for _, code := range []string{"await tools.describe('x')", "tools.describe('x'); for (;;) {}", "tools.describe('x'); for (;;) await null"} {
		ctx, cancel := context.WithCancel(context.Background())
		d := newDoor(nil)
		end := make(chan Ending)
		go func() { end <- e.Run(ctx, Body{Code: code}, d) }()
		eventually(t, "it asks", func() bool { return len(d.asked()) == 1 })
		start := time.Now()
		cancel()
		if ending := <-end; whereOf(ending.Failure).Code != CodeCancelled {
			t.Errorf("%q ended with %+v, want cancelled", code, ending.Failure)
		}
		if took := time.Since(start); took > slack {
			t.Errorf("%q ended %s after it was cancelled", code, took)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if ending := e.Run(ctx, Body{Code: "return 1"}, newDoor(nil)); whereOf(ending.Failure).Code != CodeCancelled {
		t.Errorf("a body that was cancelled before gave %s %+v", ending.Value, ending.Failure)
	}
}

// settleAfter runs a body that asks once, and has f do what it wants before the answer.
func settleAfter(t *testing.T, e *Engine, limit time.Duration, code string, f func(*testDoor)) Ending {
	t.Helper()
	d := newDoor(nil)
	end := make(chan Ending)
	go func() { end <- e.Run(context.Background(), Body{Code: code, Limits: Limits{Timeout: limit}}, d) }()
	eventually(t, "it asks", func() bool { return len(d.asked()) == 1 })
	f(d)
	return <-end
}

func TestPause(t *testing.T) {
	e := openEngine(t, Config{})
	const limit = 100 * time.Millisecond
	ending := settleAfter(t, e, limit, "await tools.describe('x'); return 1", func(d *testDoor) {
		d.pauses <- true
		untilPast(3 * limit)
		d.answers <- Answer{ID: 1}
	})
	if string(ending.Value) != "1" {
		t.Errorf("a paused body ended with %s %+v, want 1", ending.Value, ending.Failure)
	}
	start := time.Now()
	ending = settleAfter(t, e, limit, "await tools.describe('x'); for (;;) {}", func(d *testDoor) {
		d.pauses <- true
		d.answers <- Answer{ID: 1}
	})
	if took := time.Since(start); whereOf(ending.Failure).Code != CodeTimeout || took > limit+slack {
		t.Errorf("a body that computes while it is paused ended after %s with %+v, want a timeout after %s", took, ending.Failure, limit)
	}
	start = time.Now()
	ending = settleAfter(t, e, limit, "await tools.describe('x')", func(d *testDoor) {
		d.pauses <- true
		untilPast(3 * limit)
		d.pauses <- false
	})
	if took := time.Since(start); whereOf(ending.Failure).Code != CodeTimeout || took < 3*limit || took > 4*limit+slack {
		t.Errorf("a body that went on after a pause of %s ended after %s with %+v, want a timeout after about %s", 3*limit, took, ending.Failure, 4*limit)
	}
}

func TestDoorThatIsClosed(t *testing.T) {
	e := openEngine(t, Config{})
	ending := settleAfter(t, e, time.Second, "await tools.describe('x')", func(d *testDoor) {
		close(d.pauses)
		close(d.answers)
	})
	if whereOf(ending.Failure).Code != CodeUnavailable {
		t.Errorf("ended with %+v, want unavailable", ending.Failure)
	}
}

func TestPausesThatAreClosed(t *testing.T) {
	closed := make(chan bool)
	close(closed)
	r := &run{door: newDoor(nil), pauses: closed, clock: newClock(time.Minute), bridge: bridge{open: map[int]Op{1: OpCall}}}
	defer r.clock.end()
	r.clock.pause(true)
	r.wait()
	if r.pauses != nil || r.clock.paused || r.ended {
		t.Errorf("a closed channel of pauses leaves pauses %v, paused %v, ended %v; want none of it, or waiting never sleeps", r.pauses, r.clock.paused, r.ended)
	}
}

// panicDoor panics when it is asked.
type panicDoor struct{ *testDoor }

func (panicDoor) Ask(Ask) { panic("the door is broken") }

func TestDoorThatPanics(t *testing.T) {
	e := openEngine(t, Config{})
	ending := e.Run(context.Background(), Body{Code: "await tools.describe('x')"}, panicDoor{newDoor(nil)})
	if whereOf(ending.Failure).Code != CodeUnavailable {
		t.Errorf("ended with %+v, want unavailable", ending.Failure)
	}
	if ending, _ := runCode(t, e, "return 1"); string(ending.Value) != "1" {
		t.Errorf("the next body ended with %+v", ending.Failure)
	}
}

func TestBudget(t *testing.T) {
	const budget = 16 << 20
	e := openEngine(t, Config{Budget: budget})
	const large = "const a = new Uint8Array(12e6).fill(1); await tools.describe('x'); return a.length"
	ending, _ := runCode(t, e, "const a = new Uint8Array(30e6).fill(1); return a.length")
	if whereOf(ending.Failure).Code != CodeMemory {
		t.Errorf("a body of 30 MB with a budget of 16 MiB ended with %s %+v, want memory", ending.Value, ending.Failure)
	}
	d := newDoor(nil)
	end := make(chan Ending)
	go func() { end <- e.Run(context.Background(), Body{Code: large}, d) }()
	eventually(t, "it asks", func() bool { return len(d.asked()) == 1 })
	if ending, _ := runCode(t, e, large); whereOf(ending.Failure).Code != CodeMemory {
		t.Errorf("a second body of 12 MB with a budget of 16 MiB ended with %s %+v, want memory", ending.Value, ending.Failure)
	}
	if ending, _ := runCode(t, e, "return 1"); string(ending.Value) != "1" {
		t.Errorf("a small body beside it ended with %+v", ending.Failure)
	}
	d.answers <- Answer{ID: 1}
	if ending := <-end; string(ending.Value) != "12000000" {
		t.Errorf("the first body ended with %s %+v", ending.Value, ending.Failure)
	}
	if used := e.used.Load(); used != 0 {
		t.Errorf("%d bytes of the budget are still taken", used)
	}
	if ending, _ := runCode(t, e, large); ending.Failure != nil {
		t.Errorf("a body of 12 MB alone ended with %+v", ending.Failure)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	e := openEngine(t, Config{})
	ending, _ := runCode(t, e, "const a = []; try { for (;;) a.push(new Uint8Array(1e6)) } catch {} return a.length")
	if ending.Failure == nil && (len(ending.Value) < 2 || len(ending.Value) > 2) { // 40 to 63 of them
		t.Errorf("a body could have %s MB", ending.Value)
	}
	if used := e.used.Load(); used != 0 {
		t.Errorf("%d bytes of the budget are still taken", used)
	}
}

// TestShared opens two engines on the same images and the same compiled code, as processes do.
func TestShared(t *testing.T) {
	images, err := NewImages()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := images.Close(); err != nil {
			t.Error(err)
		}
	})
	a, b := openEngine(t, Config{Images: images}), openEngine(t, Config{Images: images})
	for _, e := range []*Engine{a, b} {
		if ending, _ := runCode(t, e, spoil+"return 1"); string(ending.Value) != "1" && ending.Failure.Code == CodeUnavailable {
			t.Error(ending.Failure)
		}
		if ending, _ := runCode(t, e, look); string(ending.Value) != clean {
			t.Errorf("%s %v, want %s", ending.Value, ending.Failure, clean)
		}
	}
	if _, err := images.Body.WriteAt([]byte("x"), 0); err == nil {
		t.Error("the image could be written to")
	}
	if err := images.Body.Truncate(0); err == nil {
		t.Error("the image could be cut")
	}
}

func TestOpenRefusesAnotherImage(t *testing.T) {
	images, err := NewImages()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = images.Close() }()
	if e, err := Open(t.Context(), Config{Images: &Images{Body: images.TypeScript, TypeScript: images.Body}, Cache: cacheDir(t)}); err == nil {
		_ = e.Close()
		t.Error("an image was taken for another")
	}
}

func TestBuilt(t *testing.T) {
	if err := Built(); err != nil {
		t.Fatal(err)
	}
	m, err := readManifest()
	if err != nil {
		t.Fatal(err)
	}
	if m.Counts.Loops != 1278 || m.Counts.Bulk != 143 {
		t.Errorf("the module has %+v, want 1,278 loops and 143 bulk operations", m.Counts)
	}
	licences, err := readBuilt(m, "LICENCES.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"== QuickJS-NG ==", "== quickjs-wasi ==", "== sucrase =="} {
		if !strings.Contains(string(licences), name) {
			t.Errorf("the licences lack %s", name)
		}
	}
	m.Files["engine.wasm"] = "0"
	if _, err := readBuilt(m, "engine.wasm"); !errors.Is(err, errNotBuilt) {
		t.Errorf("a file that is not the manifest's: %v, want %v", err, errNotBuilt)
	}
}
