package worker

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/services/sandbox/engine"
)

var small = engine.Limits{Timeout: time.Second, Code: 1000, Calls: 3, Concurrent: 2, Console: 100, Value: 10}

// code is that of the breach in err, "" for none.
func code(err error) engine.Code {
	var b *breach
	if errors.As(err, &b) {
		return b.code
	}
	return ""
}

func TestRecordAsks(t *testing.T) {
	args := []byte("[]")
	for _, tt := range []struct {
		name string
		asks []engine.Ask
		want engine.Code // of the last one
	}{
		{"one", []engine.Ask{{ID: 1, Op: engine.OpCall, Args: args}}, ""},
		{"in any order", []engine.Ask{{ID: 2, Op: engine.OpCall, Args: args}, {ID: 1, Op: engine.OpSearch, Args: args}}, ""},
		{"twice", []engine.Ask{{ID: 2, Op: engine.OpCall, Args: args}, {ID: 2, Op: engine.OpTimer, Args: args}}, engine.CodeUnavailable},
		{"number 0", []engine.Ask{{Op: engine.OpCall, Args: args}}, engine.CodeUnavailable},
		{"unknown op", []engine.Ask{{ID: 1, Op: "shell", Args: args}}, engine.CodeUnavailable},
		{"no arguments", []engine.Ask{{ID: 1, Op: engine.OpCall}}, engine.CodeUnavailable},
		{"arguments are no array", []engine.Ask{{ID: 1, Op: engine.OpCall, Args: []byte("{}")}}, engine.CodeUnavailable},
		{"large arguments", []engine.Ask{{ID: 1, Op: engine.OpCall, Args: []byte("[" + strings.Repeat(" ", maxArgs) + "]")}}, engine.CodeOutputLimit},
		{"too many at once", []engine.Ask{{ID: 1, Op: engine.OpCall, Args: args}, {ID: 2, Op: engine.OpSearch, Args: args}, {ID: 3, Op: engine.OpDescribe, Args: args}}, engine.CodeBridgeLimit},
		{"timers do not count", []engine.Ask{{ID: 1, Op: engine.OpCall, Args: args}, {ID: 2, Op: engine.OpSearch, Args: args}, {ID: 3, Op: engine.OpTimer, Args: args}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRecord(small)
			var err error
			for i, a := range tt.asks {
				if err = r.ask(a); err != nil && i < len(tt.asks)-1 {
					t.Fatal(err)
				}
			}
			if got := code(err); got != tt.want {
				t.Errorf("ask() = %v, want code %q", err, tt.want)
			}
		})
	}
}

func TestRecordCounts(t *testing.T) {
	r := newRecord(small)
	ask := func(id int, op engine.Op) error { return r.ask(engine.Ask{ID: id, Op: op, Args: []byte("[]")}) }
	for id := 1; id <= small.Calls; id++ {
		if err := ask(id, engine.OpCall); err != nil {
			t.Fatal(err)
		}
		if !r.answered(id) || r.answered(id) {
			t.Fatalf("answered(%d) must hold once", id)
		}
	}
	if got := code(ask(small.Calls+1, engine.OpCall)); got != engine.CodeBridgeLimit {
		t.Errorf("call %d has code %q, want %q", small.Calls+1, got, engine.CodeBridgeLimit)
	}
	id := 100
	for range maxNaps {
		id++
		if err := ask(id, engine.OpTimer); err != nil {
			t.Fatal(err)
		}
	}
	if got := code(ask(id+1, engine.OpTimer)); got != engine.CodeBridgeLimit {
		t.Errorf("timer %d at once has code %q, want %q", maxNaps+1, got, engine.CodeBridgeLimit)
	}
	r.answered(id)
	for range maxTimers - maxNaps {
		id++
		if err := ask(id, engine.OpTimer); err != nil {
			t.Fatal(err)
		}
		r.answered(id)
	}
	if got := code(ask(id+1, engine.OpTimer)); got != engine.CodeBridgeLimit {
		t.Errorf("timer %d has code %q, want %q", maxTimers+1, got, engine.CodeBridgeLimit)
	}
	if r.answered(1 << 20) {
		t.Error("answered(an ask that was never made) = true")
	}
}

func TestRecordLogs(t *testing.T) {
	r := newRecord(small)
	if got := code(r.log(engine.Log{Level: "shout"})); got != engine.CodeUnavailable {
		t.Errorf("log(unknown level) has code %q, want %q", got, engine.CodeUnavailable)
	}
	lines := 0
	for r.log(engine.Log{Level: "warn"}) == nil {
		if lines++; lines > small.Console+maxLogs {
			t.Fatal("empty lines have no end")
		}
	}
	if got := code(newRecord(small).log(engine.Log{Level: "log", Text: strings.Repeat("x", small.Console+maxLogs)})); got != engine.CodeOutputLimit {
		t.Errorf("log(long line) has code %q, want %q", got, engine.CodeOutputLimit)
	}
}

func TestRecordEnding(t *testing.T) {
	fail := func(f engine.Failure) engine.Ending { return engine.Ending{Failure: &f} }
	for _, tt := range []struct {
		name string
		in   engine.Ending
		want engine.Code
	}{
		{"nothing", engine.Ending{}, ""},
		{"null", engine.Ending{Value: []byte("null")}, ""},
		{"the longest value", engine.Ending{Value: []byte(strings.Repeat("1", 16*small.Value))}, ""},
		{"a longer value", engine.Ending{Value: []byte(strings.Repeat("1", 16*small.Value+1))}, engine.CodeOutputLimit},
		{"failure", fail(engine.Failure{Code: engine.CodeMemory, Message: "out of memory"}), ""},
		{"unknown code", fail(engine.Failure{Code: "denied"}), engine.CodeUnavailable},
		{"no code", fail(engine.Failure{}), engine.CodeUnavailable},
		{"long message", fail(engine.Failure{Code: engine.CodeException, Message: strings.Repeat("x", maxText+1)}), engine.CodeOutputLimit},
		{"negative line", fail(engine.Failure{Code: engine.CodeException, Line: -1}), engine.CodeUnavailable},
		{"negative CPU time", engine.Ending{CPU: -1}, engine.CodeUnavailable},
		{"negative count", engine.Ending{Dropped: -1}, engine.CodeUnavailable},
		{"value and failure", engine.Ending{Value: []byte("1"), Failure: &engine.Failure{Code: engine.CodeException}}, engine.CodeUnavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := newRecord(small).ending(tt.in); code(err) != tt.want || (err == nil) != (tt.want == "") {
				t.Errorf("ending() = %v, want code %q", err, tt.want)
			}
		})
	}
}

func TestClip(t *testing.T) {
	for _, tt := range []struct {
		in   string
		n    int
		want string
	}{{"abc", 3, "abc"}, {"abcd", 3, "abc…"}, {"aéb", 2, "a…"}, {"\x80\x80\x80", 2, "…"}} {
		if got := clip(tt.in, tt.n); got != tt.want {
			t.Errorf("clip(%q, %d) = %q, want %q", tt.in, tt.n, got, tt.want)
		}
	}
}
