package engine

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"
)

// openEngine opens an engine for t and closes it at t's end.
func openEngine(t testing.TB, cfg Config) *Engine {
	t.Helper()
	if cfg.Cache == "" {
		cfg.Cache = cacheDir(t)
	}
	e, err := Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	})
	return e
}

// A testDoor keeps what a body asks and logs, and answers with what answer gives, or not at all without one.
type testDoor struct {
	answer  func(Ask) *Answer
	answers chan Answer
	pauses  chan bool

	mu   sync.Mutex
	asks []Ask
	logs []Log
}

func newDoor(answer func(Ask) *Answer) *testDoor {
	return &testDoor{answer: answer, answers: make(chan Answer, 2000), pauses: make(chan bool, 100)}
}

// echo answers each ask with what it asked.
func echo(a Ask) *Answer {
	if a.Op == OpTimer {
		return &Answer{ID: a.ID}
	}
	value, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	return &Answer{ID: a.ID, Value: value}
}

func (d *testDoor) Ask(a Ask) {
	d.mu.Lock()
	d.asks = append(d.asks, a)
	d.mu.Unlock()
	if d.answer != nil {
		if answer := d.answer(a); answer != nil {
			d.answers <- *answer
		}
	}
}

func (d *testDoor) Log(l Log) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.logs = append(d.logs, l)
}

func (d *testDoor) Answers() <-chan Answer { return d.answers }
func (d *testDoor) Pauses() <-chan bool    { return d.pauses }

func (d *testDoor) asked() []Ask {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]Ask(nil), d.asks...)
}

// runCode runs code with an echoing door and a limit of 10 s.
func runCode(t testing.TB, e *Engine, code string) (Ending, *testDoor) {
	t.Helper()
	d := newDoor(echo)
	return e.Run(context.Background(), Body{Code: code, Seed: 1, Now: 1_700_000_000_000}, d), d
}

// eventually waits until ok, for 5 s at most.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 5 s: %s", what)
		}
	}
}

// untilPast waits until a duration is over, where its passing is what is tested.
func untilPast(d time.Duration) { <-time.After(d) }
