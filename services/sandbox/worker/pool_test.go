package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolcrib/toolcrib/services/sandbox/engine"
)

func TestRun(t *testing.T) {
	p := insidePool(t, Config{}, &inside{})
	for _, tt := range []struct {
		code string
		want string
		logs []string
		asks int
	}{
		{code: "value:17", want: "17"},
		{code: "", want: ""},
		{code: "value:null", want: "null"},
		{code: "log:a log:<b> value:1", want: "1", logs: []string{"a", "<b>"}},
		{code: "ask:<&> await:1", want: `["<&>"]`, asks: 1},
		{code: "ask:a ask:b nap:c await:3", want: `["c"]`, asks: 3},
		{code: "fail:3", want: "exception"},
		{code: "fail:1000000", want: "exception"},            // shortened
		{code: "big:1000000", want: "output_limit"},          // 16 times the limit
		{code: "args:3000000 await:1", want: "output_limit"}, // never leaves the worker
		{code: strings.Repeat(" ", 1001), want: "too_large"}, // neither does this enter one
		{code: strings.Repeat("ask:x ", 4) + "hang", want: "bridge_limit", asks: 3},
		{code: strings.Repeat("nap:x ", 1001) + "hang", want: "too_large"},
		{code: "logs:2000 value:1", want: "1"}, // dropped
		{code: "hang", want: "timeout"},
		{code: "stuck", want: "timeout"},
	} {
		t.Run(clip(tt.code, 20), func(t *testing.T) {
			d := newDoor(echo)
			if strings.HasSuffix(tt.code, "hang") {
				d.answer = nil
			}
			l := small
			l.Timeout, l.Value, l.Concurrent = 200*time.Millisecond, 1000, 3
			end := p.Run(t.Context(), "acme", engine.Body{Code: tt.code, Limits: l}, d)
			if got := told(end); got != tt.want {
				t.Errorf("Run(%.40s) = %.60s, want %s", tt.code, got, tt.want)
			}
			if diff := cmp.Diff(tt.logs, d.logged()); diff != "" || d.asked() != tt.asks {
				t.Errorf("Run(%.40s): %d asks, want %d; logs %s", tt.code, d.asked(), tt.asks, diff)
			}
		})
	}
}

func TestRunCountsDroppedLines(t *testing.T) {
	p := insidePool(t, Config{}, &inside{})
	end := p.Run(t.Context(), "acme", engine.Body{Code: "logs:5000 log:x value:1", Limits: small}, newDoor(echo))
	if end.Dropped != 1 {
		t.Errorf("Run() dropped %d lines, want 1", end.Dropped)
	}
}

// An answer that does not fit into a frame, or is no JSON, fails the ask and not the body's neighbours.
func TestRunAnswers(t *testing.T) {
	p := insidePool(t, Config{}, &inside{})
	for name, tt := range map[string]struct {
		value, want string
	}{
		"fits":     {`"` + strings.Repeat("<", maxAnswer-2) + `"`, `"<<<`},
		"too long": {`"` + strings.Repeat("<", maxAnswer-1) + `"`, "exception"},
		"no JSON":  {`{"a":`, "exception"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDoor(func(a engine.Ask) *engine.Answer { return &engine.Answer{ID: a.ID, Value: []byte(tt.value)} })
			end := p.Run(t.Context(), "acme", engine.Body{Code: "ask:x await:1"}, d)
			if got := told(end); !strings.HasPrefix(got, tt.want) {
				t.Errorf("Run() = %.60s, want %s", got, tt.want)
			}
		})
	}
}

// Answers that nobody waits for are dropped: unknown ones, and the second one of two.
func TestRunDropsAnswers(t *testing.T) {
	p := insidePool(t, Config{}, &inside{})
	d := newDoor(nil)
	d.answer = func(a engine.Ask) *engine.Answer {
		d.answers <- engine.Answer{ID: 99, Value: []byte("0")}
		d.answers <- engine.Answer{ID: a.ID, Value: []byte("1")}
		return &engine.Answer{ID: a.ID, Value: []byte("2")}
	}
	if got := told(p.Run(t.Context(), "acme", engine.Body{Code: "ask:x await:1 ask:y await:1"}, d)); got != "1" {
		t.Errorf("Run() = %s, want 1", got)
	}
}

func TestRunManyAnswers(t *testing.T) {
	p := insidePool(t, Config{}, &inside{})
	var asks strings.Builder
	for range 900 {
		asks.WriteString("nap:x ")
	}
	d := newDoor(nil)
	ended := make(chan engine.Ending)
	go func() {
		ended <- p.Run(t.Context(), "acme", engine.Body{Code: asks.String() + "ask:go await:901"}, d)
	}()
	eventually(t, "all asks", func() bool { return d.asked() == 901 })
	for id := 1; id <= 901; id++ { // all before the first one is awaited
		d.answers <- engine.Answer{ID: id, Value: fmt.Appendf(nil, "%d", id)}
	}
	if got := told(<-ended); got != "901" {
		t.Errorf("the last of 901 answers is %s", got)
	}
}

func TestRunLimits(t *testing.T) {
	p := insidePool(t, Config{Grace: 2 * time.Second}, &inside{})
	limits := engine.Limits{Timeout: 100 * time.Millisecond}
	t.Run("a stuck body costs the time of its limit, and its worker", func(t *testing.T) {
		d := newDoor(echo)
		start := time.Now()
		end := p.Run(t.Context(), "stuck", engine.Body{Code: "log:a stuck", Limits: limits}, d)
		d.close()
		if took := time.Since(start); told(end) != "timeout" || took < limits.Timeout || took > limits.Timeout+time.Second {
			t.Errorf("Run(stuck) = %s after %v", told(end), took)
		}
		if end.CPU < limits.Timeout {
			t.Errorf("Run(stuck) used %v, want at least the limit %v", end.CPU, limits.Timeout)
		}
		if diff := cmp.Diff([]string{"a"}, d.logged()); diff != "" {
			t.Errorf("logs of a stuck body: %s", diff)
		}
		eventually(t, "the worker is killed", func() bool { return p.Stats().Killed == 1 })
		if late := d.close(); late != 0 {
			t.Errorf("the door was used %d times after the body's end", late)
		}
	})
	t.Run("a cancelled body ends at once", func(t *testing.T) {
		for _, code := range []string{"log:up hang", "log:up stuck"} {
			ctx, cancel := context.WithCancel(t.Context())
			d := newDoor(echo)
			ended := make(chan engine.Ending)
			go func() { ended <- p.Run(ctx, "cancelled", engine.Body{Code: code}, d) }()
			eventually(t, "the body runs", func() bool { return len(d.logged()) == 1 })
			start := time.Now()
			cancel()
			end := <-ended
			if took := time.Since(start); told(end) != "cancelled" || took > time.Second {
				t.Errorf("Run(%s) = %s, %v after it was cancelled", code, told(end), took)
			}
		}
	})
	t.Run("the clock stands still in a pause", func(t *testing.T) {
		d := newDoor(echo)
		ended := make(chan engine.Ending)
		d.pauses <- true
		go func() {
			ended <- p.Run(t.Context(), "paused", engine.Body{Code: "pausing:2 value:1", Limits: engine.Limits{Timeout: time.Second}}, d)
		}()
		eventually(t, "the body knows", func() bool { return slices.Equal(d.logged(), []string{"still true"}) })
		d.pauses <- false
		if got := told(<-ended); got != "1" {
			t.Errorf("Run(pausing) = %s, want 1", got)
		}
	})
}

func TestStopwatch(t *testing.T) {
	var w stopwatch
	w.start(time.Hour)
	w.stop()
	ran := w.elapsed()
	if w.over() != nil || w.left != time.Hour-ran {
		t.Errorf("a watch of an hour that ran %v has %v left", ran, w.left)
	}
	w.stop()
	if w.elapsed() != ran {
		t.Errorf("a watch that stands went on from %v to %v", ran, w.elapsed())
	}
	w.start(time.Millisecond)
	<-w.over()
	if w.elapsed() < ran+time.Millisecond {
		t.Errorf("a watch ran %v, want at least %v", w.elapsed(), ran+time.Millisecond)
	}
}

// A body whose worker dies is run again if nothing went through its door, and fails otherwise.
func TestWorkerDies(t *testing.T) {
	for _, tt := range []struct {
		code string
		want string
		logs []string
		runs uint64 // workers that died
	}{
		{"die", "unavailable", nil, 2},
		{"log:a die", "unavailable", []string{"a"}, 1},
		{"ask:a die", "unavailable", nil, 1},
	} {
		t.Run(tt.code, func(t *testing.T) {
			p := insidePool(t, Config{}, &inside{})
			d := newDoor(nil)
			end := p.Run(t.Context(), "acme", engine.Body{Code: tt.code}, d)
			if got := told(end); got != tt.want || !strings.Contains(end.Failure.Message, "worker") {
				t.Errorf("Run(%s) = %+v, want %s", tt.code, end.Failure, tt.want)
			}
			if diff := cmp.Diff(tt.logs, d.logged()); diff != "" {
				t.Errorf("logs: %s", diff)
			}
			eventually(t, "the dead are counted", func() bool { return p.Stats().Died == tt.runs })
			if got := told(p.Run(t.Context(), "acme", engine.Body{Code: "value:1"}, newDoor(nil))); got != "1" {
				t.Errorf("the next body ends with %s, want 1", got)
			}
		})
	}
}

func TestNeighboursOfTheDead(t *testing.T) {
	p := insidePool(t, Config{}, &inside{})
	run := func(tenant, code string, d *testDoor) chan string {
		got := make(chan string, 1)
		go func() { got <- told(p.Run(t.Context(), tenant, engine.Body{Code: code}, d)) }()
		return got
	}
	quiet, busy, other := newDoor(nil), newDoor(nil), newDoor(nil)
	first := run("acme", "hang", quiet)
	second := run("acme", "log:up hang", busy)
	third := run("other", "log:up ask:x await:1", other)
	eventually(t, "all run", func() bool { return p.Stats().Bodies == 3 && len(busy.logged()) == 1 && other.asked() == 1 })
	if got := <-run("acme", "log:x die", newDoor(nil)); got != "unavailable" {
		t.Errorf("the culprit ends with %s", got)
	}
	if got := <-second; got != "unavailable" {
		t.Errorf("the neighbour that had logged ends with %s, want unavailable", got)
	}
	other.answers <- engine.Answer{ID: 1, Value: []byte("2")}
	if got := <-third; got != "2" {
		t.Errorf("the other tenant's body ends with %s, want 2", got)
	}
	eventually(t, "the quiet neighbour runs again", func() bool { return p.Stats().Bodies == 1 })
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if got := <-first; got != "unavailable" {
		t.Errorf("the quiet neighbour ends with %s when the pool is closed, want unavailable", got)
	}
}

// A worker never sees two tenants.
func TestTenantsAreSeparate(t *testing.T) {
	var mu sync.Mutex
	seen := map[net.Conn][]string{}
	l := &inside{}
	l.worker = func(conn net.Conn) {
		honest(spy{conn, func(code string) {
			mu.Lock()
			defer mu.Unlock()
			if !slices.Contains(seen[conn], code) {
				seen[conn] = append(seen[conn], code)
			}
		}}, nil)
	}
	p := insidePool(t, Config{Workers: 3, PerTenant: 2, Recycle: 7}, l)
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			tenant := fmt.Sprint("t", i%7)
			end := p.Run(t.Context(), tenant, engine.Body{Code: `value:"` + tenant + `"`}, newDoor(nil))
			if got := told(end); got != `"`+tenant+`"` {
				t.Errorf("Run(%s) = %s", tenant, got)
			}
		})
	}
	wg.Wait()
	mu.Lock()
	defer mu.Unlock()
	for _, codes := range seen {
		if len(codes) > 1 {
			t.Errorf("one worker ran bodies of %v", codes)
		}
	}
	if len(seen) < 7 {
		t.Errorf("7 tenants had %d workers", len(seen))
	}
}

// A spy reads along what goes to a worker.
type spy struct {
	net.Conn
	code func(string)
}

func (s spy) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	for _, part := range strings.Split(string(b[:n]), `"Code":`)[1:] {
		s.code(strings.SplitN(part, ",", 2)[0])
	}
	return n, err
}

func TestRecycle(t *testing.T) {
	for name, cfg := range map[string]Config{"number": {Recycle: 1}, "age": {RecycleAge: 1}} {
		t.Run(name, func(t *testing.T) {
			p := insidePool(t, cfg, &inside{})
			for range 5 {
				if got := told(p.Run(t.Context(), "acme", engine.Body{Code: "value:1"}, newDoor(nil))); got != "1" {
					t.Fatalf("Run() = %s, want 1", got)
				}
			}
			eventually(t, "5 workers are replaced", func() bool {
				s := p.Stats()
				return s.Recycled == 5 && s.Workers == 1 && s.Spare == 1
			})
			if s := p.Stats(); s.Killed+s.Died+s.Failed != 0 || s.Started < 6 {
				t.Errorf("Stats() = %+v", s)
			}
		})
	}
}

func TestPoolWaits(t *testing.T) {
	p := insidePool(t, Config{Workers: 1, MaxBodies: 2}, &inside{})
	holder := newDoor(nil)
	ctx, cancel := context.WithCancel(t.Context())
	held := make(chan engine.Ending)
	go func() { held <- p.Run(t.Context(), "holder", engine.Body{Code: "ask:x await:1"}, holder) }()
	eventually(t, "the only worker is taken", func() bool { return p.Stats().Bodies == 1 })
	waits := make(chan engine.Ending)
	go func() { waits <- p.Run(ctx, "other", engine.Body{Code: "value:1"}, newDoor(nil)) }()
	eventually(t, "one waits", func() bool { return p.Stats().Waiting == 1 })
	cancel()
	if got := told(<-waits); got != "cancelled" {
		t.Errorf("a body that waited and was cancelled ends with %s", got)
	}
	go func() { waits <- p.Run(t.Context(), "other", engine.Body{Code: "value:2"}, newDoor(nil)) }()
	eventually(t, "one waits", func() bool { return p.Stats().Waiting == 1 })
	holder.answers <- engine.Answer{ID: 1, Value: []byte("1")}
	if got := told(<-held); got != "1" {
		t.Errorf("the holder's body ends with %s, want 1", got)
	}
	if got := told(<-waits); got != "2" {
		t.Errorf("a body that waited ends with %s, want 2", got)
	}
}

// A tenant whose bodies never stop coming gives its worker up after its turn.
func TestBusyTenantMakesRoom(t *testing.T) {
	p := insidePool(t, Config{Workers: 1}, &inside{})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				p.Run(ctx, "busy", engine.Body{Code: "ask:x await:1"}, newDoor(echo))
			}
		})
	}
	eventually(t, "the busy tenant has the only worker", func() bool { return p.Stats().Bodies > 0 })
	for range 2 {
		if got := told(p.Run(t.Context(), "other", engine.Body{Code: "value:1"}, newDoor(nil))); got != "1" {
			t.Errorf("Run() = %s, want 1", got)
		}
	}
	cancel()
	wg.Wait()
}

func TestIdleWorkerMakesRoomForASpare(t *testing.T) {
	p := insidePool(t, Config{Workers: 2, Idle: 100 * time.Millisecond}, &inside{})
	for _, tenant := range []string{"a", "b"} {
		p.Run(t.Context(), tenant, engine.Body{Code: "value:1"}, newDoor(nil))
	}
	eventually(t, "a spare worker is there", func() bool { s := p.Stats(); return s.Workers == 2 && s.Spare == 1 && s.Idle == 1 })
}

func TestWorkersCannotBeStarted(t *testing.T) {
	l := &inside{}
	p := insidePool(t, Config{Workers: 1, Recycle: 1}, l)
	l.set(errors.New("no memory"))
	p.Run(t.Context(), "acme", engine.Body{Code: "value:1"}, newDoor(nil))
	end := p.Run(t.Context(), "acme", engine.Body{Code: "value:1"}, newDoor(nil))
	if told(end) != "unavailable" || !strings.Contains(end.Failure.Message, "no memory") {
		t.Errorf("Run() = %+v, want unavailable because of no memory", end)
	}
	l.set(nil)
	eventually(t, "the next try succeeds", func() bool { return p.Stats().Spare == 1 })
	if got := told(p.Run(t.Context(), "acme", engine.Body{Code: "value:1"}, newDoor(nil))); got != "1" {
		t.Errorf("Run() = %s, want 1", got)
	}
}

func TestOpenFails(t *testing.T) {
	answer := func(out []byte) func(net.Conn) {
		return func(conn net.Conn) {
			_, _ = readFrame(conn)
			_, _ = conn.Write(out)
			_, _ = io.Copy(io.Discard, conn)
		}
	}
	other, _ := encode(kindReady, 0, ready{Protocol: protocol + 1})
	bare, _ := encode(kindReady, 0, ready{Protocol: protocol, Layers: []string{layerProcess}})
	for name, tt := range map[string]struct {
		l    *inside
		want error
	}{
		"does not start": {&inside{refuse: io.ErrNoProgress}, io.ErrNoProgress},
		"says nothing":   {&inside{worker: func(conn net.Conn) { _, _ = readFrame(conn) }}, io.EOF},
		"other version":  {&inside{worker: answer(other)}, errVersion},
		"not locked":     {&inside{worker: answer(bare)}, errUnlocked},
		"garbage":        {&inside{worker: answer([]byte("HTTP/1.1 400 Bad Request"))}, errFrame},
		"too early":      {&inside{worker: answer(header(kindAsk, 0, 0))}, errFrame},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := Config{}.withDefaults()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := open(t.Context(), cfg, logger(nil), tt.l); !errors.Is(err, tt.want) {
				t.Errorf("open() = %v, want %v", err, tt.want)
			}
			if tt.l.gone != tt.l.started || !tt.l.closed {
				t.Errorf("open() left %d of %d workers", tt.l.started-tt.l.gone, tt.l.started)
			}
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cfg, _ := Config{}.withDefaults()
		l := &inside{worker: func(conn net.Conn) { cancel(); _, _ = io.Copy(io.Discard, conn) }}
		if _, err := open(ctx, cfg, logger(nil), l); !errors.Is(err, context.Canceled) {
			t.Errorf("open() = %v, want %v", err, context.Canceled)
		}
	})
}

func TestClose(t *testing.T) {
	l := &inside{}
	p := insidePool(t, Config{Workers: 1}, l)
	ended := make(chan engine.Ending)
	for i, tenant := range []string{"a", "a", "b"} {
		go func() { ended <- p.Run(t.Context(), tenant, engine.Body{Code: "stuck"}, newDoor(nil)) }()
		eventually(t, "two run and the third waits", func() bool { s := p.Stats(); return s.Bodies == min(i+1, 2) && s.Waiting == max(i-1, 0) })
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	for range 3 {
		if got := told(<-ended); got != "unavailable" {
			t.Errorf("a body of a closed pool ends with %s, want unavailable", got)
		}
	}
	if l.gone != l.started || !l.closed {
		t.Errorf("Close() left %d of %d workers", l.started-l.gone, l.started)
	}
	if got := told(p.Run(t.Context(), "a", engine.Body{}, newDoor(nil))); got != "unavailable" {
		t.Errorf("Run() after Close() = %s, want unavailable", got)
	}
	if err := p.Close(); err != nil {
		t.Errorf("Close() again = %v", err)
	}
}

func TestConfig(t *testing.T) {
	for _, tt := range []struct {
		cfg  Config
		want string // in the error
	}{
		{Config{}, ""},
		{Config{Require: []string{"seccomp", "empty_root"}}, ""},
		{Config{Require: []string{"selinux"}}, `"selinux"`},
		{Config{Workers: -1}, "Workers"},
		{Config{Budget: -1}, "Budget"},
		{Config{Grace: -1}, "Grace"},
	} {
		got, err := tt.cfg.withDefaults()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("withDefaults(%+v) = %v, want %q in it", tt.cfg, err, tt.want)
		}
		if err == nil && (got.Workers < 4 || got.PerTenant < 1 || got.Spare != 1 || got.MaxBodies != 100 || got.Recycle != 10_000 || got.RecycleAge != 15*time.Minute || got.Grace != 3*time.Second || len(got.Require) < 2) {
			t.Errorf("withDefaults(%+v) = %+v", tt.cfg, got)
		}
	}
}

// Small words are passed on at once, large ones by another goroutine: a body's words stay in their order all the same.
func TestWordsStayInOrder(t *testing.T) {
	p, err := processPool(t, Config{Workers: 1}, "0", "stub")
	if err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("x", maxNow)
	var code []string
	var want []string
	for i := range 60 {
		text := fmt.Sprint(i)
		if i%3 == 1 {
			text += large
		}
		code, want = append(code, "log:"+text), append(want, text)
	}
	for range 50 {
		d := newDoor(echo)
		limits := engine.Limits{Timeout: time.Minute, Console: 1 << 20, Code: 1 << 20}
		if end := p.Run(t.Context(), "acme", engine.Body{Code: strings.Join(append(code, "value:1"), " "), Limits: limits}, d); told(end) != "1" {
			t.Fatalf("Run() = %s", told(end))
		}
		if got := d.logged(); !slices.Equal(got, want) {
			t.Fatalf("%d lines came, not in order or not all", len(got))
		}
	}
}
