package worker

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A floor is a roster with names for its members, at a time that the test moves.
type floor struct {
	*roster
	now   time.Time
	names map[*member]string
}

func newFloor(t *testing.T, cfg Config) *floor {
	cfg, err := cfg.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return &floor{roster: newRoster(cfg), now: time.Unix(1e9, 0), names: map[*member]string{}}
}

// add takes in spare workers.
func (f *floor) add(names ...string) {
	for _, name := range names {
		m := &member{}
		f.members[m], f.names[m] = struct{}{}, name
	}
}

func (f *floor) named(name string) *member {
	for m, n := range f.names {
		if n == name {
			return m
		}
	}
	return nil
}

// bind gives a worker to a tenant some time ago, with so many bodies.
func (f *floor) bind(name, tenant string, bodies int, ago time.Duration) *member {
	m := f.named(name)
	m.tenant, m.bodies, m.bound, m.idle = tenant, bodies, f.now.Add(-ago), f.now.Add(-ago)
	return m
}

// came tells, in the order of the waiters, who was served: the worker's name, or - for one that waits.
func (f *floor) came(waiters ...*waiter) string {
	f.share(f.now)
	var got []string
	for _, w := range waiters {
		select {
		case g := <-w.got:
			got = append(got, f.names[g.m])
		default:
			got = append(got, "-")
		}
	}
	return strings.Join(got, " ")
}

func TestSharePrefersTheTenantsOwn(t *testing.T) {
	f := newFloor(t, Config{Workers: 4, PerTenant: 2, MaxBodies: 3})
	f.add("a1", "spare")
	f.bind("a1", "a", 0, 0)
	if got := f.came(f.wait("a"), f.wait("a")); got != "a1 a1" {
		t.Errorf("two bodies went to %s, want both to the tenant's own worker", got)
	}
	if got := f.came(f.wait("a")); got != "spare" {
		t.Errorf("the third body went to %s, want a second worker", got)
	}
	if got := f.came(f.wait("a"), f.wait("a"), f.wait("a"), f.wait("a")); !strings.HasSuffix(got, " -") || strings.Count(got, "-") != 1 {
		t.Errorf("four bodies more went to %s, want the last one to wait", got)
	}
	f.add("new")
	if got := f.came(f.wait("a")); got != "-" {
		t.Errorf("a body beyond both workers went to %s, want it to wait", got)
	}
}

func TestShareIsRoundRobin(t *testing.T) {
	f := newFloor(t, Config{PerTenant: 1, MaxBodies: 1})
	waiters := []*waiter{f.wait("a"), f.wait("a"), f.wait("b"), f.wait("c")}
	f.add("w1")
	if got := f.came(waiters...); got != "w1 - - -" {
		t.Errorf("one worker went to %s", got)
	}
	f.add("w2")
	if got := f.came(waiters...); got != "- - w2 -" {
		t.Errorf("the second worker went to %s, want the next tenant", got)
	}
	f.put(f.named("w1"), f.now)
	f.add("w3")
	if got := f.came(waiters...); got != "- w1 - w3" {
		t.Errorf("two workers went to %s, want each its own tenant", got)
	}
}

// What an event costs does not grow with the number of those who wait.
func BenchmarkShareAmongMany(b *testing.B) {
	cfg, _ := Config{Workers: 8}.withDefaults()
	f := &floor{roster: newRoster(cfg), now: time.Unix(1e9, 0), names: map[*member]string{}}
	for i := range 8 {
		name := strings.Repeat("w", i+1)
		f.add(name)
		f.bind(name, name, 1, 0)
	}
	for i := range 10_000 {
		f.wait(strconv.Itoa(i))
	}
	for b.Loop() {
		f.share(f.now)
		f.plan(f.now)
	}
}

// A tenant with a worker does not take another one from those without.
func TestShareFeedsTheStarved(t *testing.T) {
	f := newFloor(t, Config{PerTenant: 2})
	f.add("a1", "spare")
	f.bind("a1", "a", spread, 0)
	if got := f.came(f.wait("a"), f.wait("b")); got != "a1 spare" {
		t.Errorf("served %s, want the spare worker for the tenant without", got)
	}
}

func TestLeave(t *testing.T) {
	f := newFloor(t, Config{})
	first, second := f.wait("a"), f.wait("a")
	if !f.leave("a", first) || f.leave("a", first) {
		t.Error("leave() must hold once")
	}
	f.add("w")
	if got := f.came(second); got != "w" {
		t.Errorf("the one behind got %s", got)
	}
	if f.leave("a", second) || f.ring.Len() != 0 || f.waiting != 0 {
		t.Error("one who was served still waits")
	}
}

func TestPlan(t *testing.T) {
	for _, tt := range []struct {
		name  string
		cfg   Config
		setup func(*floor)
		start int
		end   []string // ended at once
		leave []string // told to leave
		again bool
	}{
		{name: "a spare for nobody", cfg: Config{Workers: 2}, start: 1},
		{name: "two spares", cfg: Config{Workers: 4, Spare: 2}, setup: func(f *floor) { f.add("w1") }, start: 1},
		{name: "those that start count", cfg: Config{Workers: 4}, setup: func(f *floor) { f.starting = 1 }},
		{name: "one for each that waits", cfg: Config{Workers: 9}, setup: func(f *floor) { f.wait("a"); f.wait("a"); f.wait("b") }, start: 3},
		{name: "no more than may be", cfg: Config{Workers: 2}, setup: func(f *floor) { f.starting = 1; f.wait("a"); f.wait("b") }, start: 1, again: true},
		{name: "the longest idle makes room", cfg: Config{Workers: 3}, setup: func(f *floor) {
			f.add("a1", "b1", "c1")
			f.bind("a1", "a", 0, time.Millisecond)
			f.bind("b1", "b", 0, time.Second)
			f.bind("c1", "c", 1, time.Hour)
			f.wait("d")
		}, end: []string{"b1"}, leave: []string{"b1", "c1"}}, // c1 is too old
		{name: "the busy one that had its turn is told to leave", cfg: Config{Workers: 2}, setup: func(f *floor) {
			f.add("a1", "b1")
			f.bind("a1", "a", 3, 2*turn)
			f.bind("b1", "b", 1, 3*turn)
			f.wait("c")
		}, leave: []string{"b1"}, again: true},
		{name: "nobody had a turn", cfg: Config{Workers: 1}, setup: func(f *floor) {
			f.add("a1")
			f.bind("a1", "a", 3, turn/2)
			f.wait("c")
		}, again: true},
		{name: "one that leaves is enough for one that waits", cfg: Config{Workers: 2}, setup: func(f *floor) {
			f.add("a1", "b1")
			f.bind("a1", "a", 1, 2*turn).leaving = true
			f.bind("b1", "b", 1, 3*turn)
			f.wait("c")
		}, leave: []string{"a1"}, again: true},
		{name: "a busy one does not leave for a spare", cfg: Config{Workers: 1}, setup: func(f *floor) {
			f.add("a1")
			f.bind("a1", "a", 1, 2*turn)
		}, again: true},
		{name: "nor for a tenant that has one", cfg: Config{Workers: 2, PerTenant: 2, MaxBodies: 1}, setup: func(f *floor) {
			f.add("a1", "b1")
			f.bind("a1", "a", 1, 2*turn)
			f.bind("b1", "b", 1, 3*turn)
			f.wait("a")
		}, again: true},
		{name: "an idle one leaves for a spare after a while", cfg: Config{Workers: 1}, setup: func(f *floor) {
			f.add("a1")
			f.bind("a1", "a", 0, 5*time.Second)
		}, end: []string{"a1"}, leave: []string{"a1"}},
		{name: "not before", cfg: Config{Workers: 1}, setup: func(f *floor) {
			f.add("a1")
			f.bind("a1", "a", 0, 4*time.Second)
		}, again: true},
		{name: "an old one leaves", cfg: Config{Workers: 1}, setup: func(f *floor) {
			f.add("a1")
			f.bind("a1", "a", 1, 15*time.Minute)
		}, leave: []string{"a1"}},
		{name: "one that was told to end is not told again", cfg: Config{Workers: 1}, setup: func(f *floor) {
			f.add("a1")
			m := f.bind("a1", "a", 0, time.Hour)
			m.leaving, m.ending = true, true
		}, leave: []string{"a1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFloor(t, tt.cfg)
			if tt.setup != nil {
				tt.setup(f)
			}
			f.share(f.now)
			n := f.plan(f.now)
			var end, leave []string
			for _, m := range n.end {
				end = append(end, f.names[m])
			}
			for m := range f.members {
				if m.leaving {
					leave = append(leave, f.names[m])
				}
			}
			slices.Sort(leave)
			if n.start != tt.start || !slices.Equal(end, tt.end) || !slices.Equal(leave, tt.leave) || (n.again == look) != tt.again {
				t.Errorf("plan() = start %d, end %v, leave %v, again %v; want %d, %v, %v, %v", n.start, end, leave, n.again, tt.start, tt.end, tt.leave, tt.again)
			}
		})
	}
}

func TestPlanLooksAgainWhenAnIdleOneIsOld(t *testing.T) {
	f := newFloor(t, Config{Workers: 4})
	f.add("a1", "spare")
	f.bind("a1", "a", 0, 10*time.Minute)
	if n := f.plan(f.now); n.again != 5*time.Minute {
		t.Errorf("plan() looks again after %v, want 5m", n.again)
	}
}

func TestRecycleByNumber(t *testing.T) {
	f := newFloor(t, Config{Recycle: 2, MaxBodies: 5})
	f.add("w1", "w2")
	if got := f.came(f.wait("a"), f.wait("a"), f.wait("a")); got != "w1 w1 w2" && got != "w2 w2 w1" {
		t.Errorf("three bodies went to %s, want two to one and the third to another", got)
	}
}
