package trials

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolcrib/toolcrib/services/sandbox/engine"
	"github.com/toolcrib/toolcrib/services/sandbox/worker"
)

// Bounds that must hold on a loaded machine too; how much is used of them is measured by the bench.
const (
	mostOver   = 5 * time.Second
	mostMemory = 1 << 30
)

// TestHostile runs all hostile bodies, ten at a time, all of one tenant: the hardest case, since they share a worker.
func TestHostile(t *testing.T) {
	p := openPool(t, worker.Config{Grace: 30 * time.Second}) // a machine may be so busy that workers starve
	trials, err := Hostile()
	if err != nil {
		t.Fatal(err)
	}
	memory := WatchMemory()
	results := Attack{Runner: p, Tenants: []string{"hostile"}, Limit: time.Second, AtOnce: 10}.Run(context.Background(), trials)
	var over []time.Duration
	for _, r := range results {
		if r.Err != nil {
			t.Error(r.Err)
		}
		if r.Over > mostOver {
			t.Errorf("%s took %v with a limit of 1 s", r.Name, r.Took)
		}
		if codeOf(r.Ending) == engine.CodeTimeout {
			over = append(over, r.Over)
		}
	}
	most, err := memory()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bodies, of those that ran out of time, beyond the limit: %+v; memory at most %d MiB; %+v", len(results), FiguresOf(over), most>>20, p.Stats())
	if most > mostMemory {
		t.Errorf("this process and its workers had %d MiB, at most %d are allowed", most>>20, mostMemory>>20)
	}
}

// TestNeighbour: what a hostile tenant does may slow down others a little. How little is measured by the bench.
func TestNeighbour(t *testing.T) {
	p := openPool(t, worker.Config{})
	n, err := Beside(context.Background(), p, 300, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("alone %+v, beside %d attacks %+v, as good as aimed at: %v; %+v", n.Alone, n.Attacks, n.Beside, n.Good(), p.Stats())
	if n.Beside.Median > n.Alone.Median+500*time.Millisecond {
		t.Errorf("beside a hostile tenant a small body takes %v, alone %v", n.Beside.Median, n.Alone.Median)
	}
}

func TestParse(t *testing.T) {
	got, err := parse("g", "=== a | timeout memory\nfor (;;);\n\nreturn 1\n=== b | value {\"a\":1} | silent\nreturn {a: 1}\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []Trial{
		{Name: "g/a", Code: "for (;;);\n\nreturn 1", Ends: []engine.Code{engine.CodeTimeout, engine.CodeMemory}},
		{Name: "g/b", Code: "return {a: 1}", Ends: []engine.Code{""}, Value: `{"a":1}`, Silent: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("parse() (-want +got):\n%s", diff)
	}
	for _, head := range []string{"a", "a | nothing", "a | timeout 1", "a | value {", "a | value 1 2", "a | timeout | loud"} {
		if got, err := parse("g", "=== "+head+"\nreturn 1\n"); err == nil {
			t.Errorf("parse(%q) = %v, want an error", head, got)
		}
	}
}

func TestCheck(t *testing.T) {
	trial := Trial{Name: "t", Ends: []engine.Code{"", engine.CodeMemory}, Value: "1"}
	for _, tt := range []struct {
		end  engine.Ending
		want string // part of what is wrong
	}{
		{engine.Ending{Value: []byte(" 1")}, ""},
		{engine.Ending{Failure: &engine.Failure{Code: engine.CodeMemory}}, ""},
		{engine.Ending{Value: []byte("2")}, "gave 2, want 1"},
		{engine.Ending{}, "want 1"},
		{engine.Ending{Failure: &engine.Failure{Code: engine.CodeUnavailable, Message: "m"}}, "want value or memory"},
	} {
		err := trial.Check(tt.end)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Check(%s) = %v, want %q", describe(tt.end), err, tt.want)
		}
	}
}
