package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/services/sandbox/engine"
)

// A stub is a runner whose bodies are lists of words: it does what an engine does to its door, and what a broken one might.
type stub struct {
	attack func(name string) string
	die    func()
}

func (s stub) RunThen(ctx context.Context, b engine.Body, d engine.Door, told func(engine.Ending)) {
	ctx, cancel := context.WithTimeout(ctx, b.Timeout)
	defer cancel()
	r := stubRun{stub: s, ctx: ctx, door: d, end: engine.Ending{CPU: time.Microsecond}}
	for _, word := range strings.Fields(b.Code) {
		verb, rest, _ := strings.Cut(word, ":")
		if r.do(verb, rest) {
			break
		}
	}
	told(r.end)
}

type stubRun struct {
	stub
	ctx  context.Context
	door engine.Door
	asks int
	end  engine.Ending
}

// do does one word, and reports that it was the last.
func (r *stubRun) do(verb, rest string) bool {
	n, _ := strconv.Atoi(rest)
	switch verb {
	case "value":
		r.end.Value = json.RawMessage(rest)
		return true
	case "big": // a value of n bytes
		r.end.Value = json.RawMessage(`"` + strings.Repeat("x", n) + `"`)
		return true
	case "fail":
		r.end.Failure = &engine.Failure{Code: engine.CodeException, Name: "Error", Message: strings.Repeat("x", n)}
		return true
	case "log":
		r.door.Log(engine.Log{Level: "log", Text: rest})
	case "logs": // n bytes of log
		r.door.Log(engine.Log{Level: "log", Text: strings.Repeat("x", n)})
	case "ask", "nap", "args": // and wait for no answer
		r.ask(verb, rest, n)
	case "await": // n answers
		return r.await(n)
	case "pausing":
		return r.pausing(n)
	case "busy":
		busy(n)
	case "hang":
		<-r.ctx.Done()
		r.stopped()
		return true
	case "stuck":
		select {}
	case "die":
		r.die()
		select {}
	case "attack":
		text, _ := json.Marshal(r.attack(rest))
		r.end.Value = text
		return true
	}
	return false
}

// busy makes n threads, each of which makes garbage and waits a little.
func busy(n int) {
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			runtime.LockOSThread() // the thread ends with the goroutine
			for i := range 20 {
				_ = make([]byte, 1<<(i%18))
				<-time.After(time.Microsecond)
			}
		})
	}
	runtime.GC()
	wg.Wait()
}

func (r *stubRun) ask(verb, rest string, n int) {
	r.asks++
	a := engine.Ask{ID: r.asks, Op: engine.OpCall, Args: json.RawMessage(fmt.Sprintf("[%q]", rest))}
	switch verb {
	case "nap":
		a.Op = engine.OpTimer
	case "args":
		a.Args = json.RawMessage(`["` + strings.Repeat("x", n) + `"]`)
	}
	r.door.Ask(a)
}

// await collects answers; the last one is the value.
func (r *stubRun) await(n int) bool {
	for range n {
		select {
		case a := <-r.door.Answers():
			r.end.Value = a.Value
			if a.Error != nil {
				r.end.Failure = &engine.Failure{Code: engine.CodeException, Message: a.Error.Message}
				return true
			}
		case <-r.ctx.Done():
			r.stopped()
			return true
		}
	}
	return false
}

// pausing waits for n words about the clock and asks each time, so that others know.
func (r *stubRun) pausing(n int) bool {
	for range n {
		select {
		case still := <-r.door.Pauses():
			r.door.Log(engine.Log{Level: "log", Text: fmt.Sprint("still ", still)})
		case <-r.ctx.Done():
			r.stopped()
			return true
		}
	}
	return false
}

func (r *stubRun) stopped() {
	code := engine.CodeCancelled
	if r.ctx.Err() == context.DeadlineExceeded {
		code = engine.CodeTimeout
	}
	r.end.Value, r.end.Failure = nil, &engine.Failure{Code: code, Message: "told by the worker"}
}

// A testDoor keeps what a body asks and logs; what it is asked it gives to answer, if that is set.
type testDoor struct {
	answer  func(engine.Ask) *engine.Answer
	answers chan engine.Answer
	pauses  chan bool

	mu   sync.Mutex
	asks []engine.Ask
	logs []string
	over bool // the body ended
	late int  // words after that
}

func newDoor(answer func(engine.Ask) *engine.Answer) *testDoor {
	return &testDoor{answer: answer, answers: make(chan engine.Answer, 64), pauses: make(chan bool, 10)}
}

// echo answers with what was asked.
func echo(a engine.Ask) *engine.Answer { return &engine.Answer{ID: a.ID, Value: a.Args} }

func (d *testDoor) Ask(a engine.Ask) {
	d.mu.Lock()
	d.asks = append(d.asks, a)
	d.count()
	d.mu.Unlock()
	if d.answer != nil {
		if answer := d.answer(a); answer != nil {
			d.answers <- *answer
		}
	}
}

func (d *testDoor) Log(l engine.Log) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.logs = append(d.logs, l.Text)
	d.count()
}

func (d *testDoor) count() {
	if d.over {
		d.late++
	}
}

func (d *testDoor) Answers() <-chan engine.Answer { return d.answers }
func (d *testDoor) Pauses() <-chan bool           { return d.pauses }

func (d *testDoor) asked() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.asks)
}

func (d *testDoor) logged() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.logs...)
}

// close notes that the body ended, and returns how much came after that when it was called before.
func (d *testDoor) close() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	return d.late
}

// told is what an ending says in one line.
func told(e engine.Ending) string {
	if e.Failure != nil {
		return string(e.Failure.Code)
	}
	return string(e.Value)
}

// eventually waits until cond holds.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}

// inside is a launcher of workers that are goroutines of the test.
type inside struct {
	worker func(conn net.Conn) // what a worker is; nil means a server with a stub
	layers []string

	mu      sync.Mutex
	refuse  error // of launch
	started int
	gone    int
	closed  bool
}

func (l *inside) launch() (launched, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse != nil {
		return launched{}, l.refuse
	}
	l.started++
	ours, theirs := net.Pipe()
	p := &insideProcess{conn: theirs, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		defer theirs.Close()
		if l.worker != nil {
			l.worker(theirs)
		} else {
			honest(theirs, p.kill)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.gone++
	}()
	return launched{proc: p, conn: pipe{ours}, layers: l.layers}, nil
}

func (l *inside) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

func (l *inside) set(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuse = err
}

// honest is a worker as it should be, but for what its bodies do.
func honest(conn net.Conn, die func()) {
	f, err := readFrame(conn)
	if err != nil {
		return
	}
	h, err := decode[hello](f)
	if err != nil {
		return
	}
	s := newServer(stub{die: die}, conn, h.Bodies)
	out, _ := encode(kindReady, 0, ready{Protocol: protocol, Layers: h.Layers})
	s.send(out)
	_ = s.serve(conn)
}

type insideProcess struct {
	conn net.Conn
	done chan struct{}
}

func (p *insideProcess) kill() { _ = p.conn.Close() }
func (p *insideProcess) wait() string {
	<-p.done
	return "ended"
}

// A pipe is a stream that takes nothing without waiting.
type pipe struct{ net.Conn }

func (pipe) tryWrite([]byte) (int, error) { return 0, nil }

// insidePool opens a pool of such workers.
func insidePool(t testing.TB, cfg Config, l *inside) *Pool {
	t.Helper()
	if cfg.Require == nil {
		cfg.Require = []string{}
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	p, err := open(t.Context(), cfg, logger(nil), l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	})
	return p
}

// untilTrue waits for a state, in processes that have no test to fail.
func untilTrue(ok func() bool) {
	for !ok() {
		time.Sleep(time.Millisecond)
	}
}
