package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/toolcrib/toolcrib/services/sandbox/engine/guest"
)

// maxFinish is how long telling what is left to tell may take.
const maxFinish = 100 * time.Millisecond

// A run is one body while it runs. It belongs to one goroutine.
type run struct {
	engine *Engine
	body   Body
	door   Door
	clock  *clock
	pauses <-chan bool
	iso    *isolate
	cpu    time.Duration
	now    int64

	source  string // what is compiled
	started bool   // the text was compiled, its function is called
	ended   bool   // value or failure hold
	value   json.RawMessage
	failure *Failure

	bridge
	console
}

// Run runs a body to its end, which comes soon after its time is over or ctx is done, whatever the body does. It calls door
// only before it returns. A Failure of the code unavailable says that the engine failed, or is closed.
func (e *Engine) Run(ctx context.Context, body Body, door Door) (ending Ending) {
	e.RunThen(ctx, body, door, func(end Ending) { ending = end })
	return ending
}

// RunThen is [Engine.Run] for those who have somebody wait for the ending: told gets it, once, before what the body leaves behind is
// tidied away, which RunThen does until it returns.
func (e *Engine) RunThen(ctx context.Context, body Body, door Door, told func(Ending)) {
	body.Limits = body.Limits.OrDefaults()
	switch {
	case len(body.Code) > body.Limits.Code:
		told(Ending{Failure: failure(CodeTooLarge, "the body has %d bytes, %d are allowed", len(body.Code), body.Limits.Code)})
		return
	case ctx.Err() != nil:
		told(Ending{Failure: stopFailure(cancelled, 0)})
		return
	case !e.enter():
		told(Ending{Failure: stopFailure(closed, 0)})
		return
	}
	defer e.running.Done()
	body.Code = strings.ToValidUTF8(body.Code, "\uFFFD")
	r := &run{engine: e, body: body, door: door, pauses: door.Pauses(), now: body.Now, clock: newClock(body.Timeout)}
	defer context.AfterFunc(ctx, func() { r.clock.stop(cancelled) })()
	defer context.AfterFunc(e.closing, func() { r.clock.stop(closed) })()
	told(r.whole())
	r.clock.end()
	if r.iso != nil {
		e.bodies.put(r.iso)
	}
}

// whole runs the body from its beginning to its end. What of its isolate can be used again is left in r.
func (r *run) whole() (ending Ending) {
	defer func() {
		if p := recover(); p != nil {
			r.dropIsolate()
			ending = Ending{Failure: failure(CodeUnavailable, "the sandbox failed: %v", p)}
		}
	}()
	r.compute(r.begin)
	for !r.ended {
		r.wait()
	}
	r.compute(r.finish)
	return Ending{Value: r.value, Failure: r.failure, Dropped: r.dropped, CPU: r.cpu}
}

// compute does what uses the isolate, on the clock and on one thread, whose CPU time is the isolate's.
func (r *run) compute(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := threadCPU()
	defer func() { r.cpu += threadCPU() - start }()
	r.clock.compute(true)
	defer r.clock.compute(false)
	f()
}

// end ends the body. What comes later does not count.
func (r *run) end(value json.RawMessage, f *Failure) {
	if !r.ended {
		r.ended, r.value, r.failure = true, value, f
	}
}

// newIsolate gives the run an isolate, in place of the one it has.
func (r *run) newIsolate() bool {
	if r.iso != nil {
		r.engine.bodies.put(r.iso)
		r.iso = nil
	}
	iso, err := r.engine.bodies.get()
	if err != nil {
		r.end(nil, failure(CodeUnavailable, "the sandbox has no isolate: %v", err))
		return false
	}
	r.iso = iso
	iso.SetHost(r)
	return true
}

func (r *run) dropIsolate() {
	if r.iso != nil {
		r.engine.bodies.drop(r.iso)
		r.iso = nil
	}
}

// begin compiles the body and starts it.
func (r *run) begin() {
	if !r.newIsolate() {
		return
	}
	fn := r.compile(r.body.Code)
	if r.ended && r.failure.Code == CodeSyntax {
		fn = r.compileTypeScript(r.failure)
	}
	if r.ended {
		return
	}
	r.started = true
	_, threw := r.iso.Call(r.iso.Function(guest.FuncStart), fn, r.iso.String(r.source), r.iso.String(r.config()))
	r.goOn(threw)
}

// compile compiles code. When it cannot, the body is ended.
func (r *run) compile(code string) guest.Value {
	r.source = wrapStart + code + wrapEnd
	fn, threw := r.iso.Eval("("+r.source+")", bodyFile)
	if threw {
		r.tell()
	}
	r.check()
	return fn
}

// config is what the prelude has to know of the body.
func (r *run) config() string {
	s := r.body.Seed
	next := func() uint32 { // splitmix64, of which the upper half
		s += 0x9e3779b97f4a7c15
		z := (s ^ s>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		return uint32((z ^ z>>31) >> 32)
	}
	l := r.body.Limits
	return fmt.Sprintf(`{"seed":[%d,%d,%d,%d],"now":%d,"calls":%d,"concurrent":%d,"console":%d,"value":%d}`,
		next(), next(), next(), next(), r.now, l.Calls, l.Concurrent, l.Console, l.Value)
}

// wait waits for what lets the body go on.
func (r *run) wait() {
	if len(r.open) == 0 {
		r.end(nil, failure(CodeStalled, "the body waits for something that can never happen: nothing is left that could settle the promise it awaits"))
		return
	}
	select {
	case <-r.clock.over:
		r.end(nil, stopFailure(r.clock.why(), r.body.Timeout))
	case paused, ok := <-r.pauses:
		r.clock.pause(paused)
		if !ok {
			r.pauses = nil
		}
	case a, ok := <-r.door.Answers():
		if !ok {
			r.end(nil, failure(CodeUnavailable, "the sandbox gets no more answers"))
			return
		}
		r.compute(func() { r.settle(a) })
	}
}

// settle gives the body an answer. One that it does not wait for is none.
func (r *run) settle(a Answer) {
	if !r.answered(a.ID) {
		return
	}
	r.now = max(r.now, a.Now)
	payload := string(a.Value)
	if a.Error != nil {
		b, err := json.Marshal(a.Error)
		if err != nil {
			r.end(nil, failure(CodeUnavailable, "the sandbox cannot pass on the answer to ask %d: %v", a.ID, err))
			return
		}
		payload = string(b)
	}
	g := r.iso
	_, threw := g.Call(g.Function(guest.FuncSettle), g.Number(float64(a.ID)), g.Bool(a.Error == nil), g.String(payload), g.Number(float64(r.now)))
	r.goOn(threw)
}

// goOn runs what the last call into the isolate left to do.
func (r *run) goOn(threw bool) {
	if !threw {
		threw = r.iso.Jobs(func() bool { return r.ended })
	}
	if threw && !r.ended {
		r.tell()
	}
	r.check()
}

// tell has the guest tell what was thrown, which ends the body.
func (r *run) tell() {
	_, threw := r.iso.Call(r.iso.Function(guest.FuncFail), r.iso.Exception(), r.iso.String(r.source))
	if r.ended || r.iso.Err() != nil {
		return
	}
	text := "an error that it could not tell"
	if threw {
		text = cut(r.iso.Text(r.iso.Exception()), maxMessage)
	}
	code := CodeException
	if r.iso.Full() || strings.HasSuffix(text, "out of memory") {
		code = CodeMemory
	}
	r.end(nil, failure(code, "the body threw %s", text))
}

// check ends the body if its isolate cannot go on.
func (r *run) check() {
	switch err := r.iso.Err(); {
	case err == nil || r.ended:
	case errors.Is(err, guest.ErrStopped):
		r.end(nil, stopFailure(r.clock.why(), r.body.Timeout))
	case errors.Is(err, guest.ErrMemory), r.iso.refused, r.iso.Full():
		r.end(nil, failure(CodeMemory, "the body ran out of memory"))
	case errors.Is(err, guest.ErrStack):
		r.end(nil, failure(CodeStack, "the body is nested too deep: it ran out of stack"))
	default:
		what, _, _ := strings.Cut(err.Error(), "\n") // the rest is of no use to whom this is told
		r.end(nil, failure(CodeUnavailable, "the sandbox failed: %s", what))
	}
}

// finish tells what is left to tell.
func (r *run) finish() {
	if r.iso == nil {
		return
	}
	r.clock.hurry(maxFinish) // the value or failure is there: nothing that comes now is worth waiting for
	r.tellRejections()
}

// Visit implements guest.Host.
func (r *run) Visit() bool { return r.clock.why() != running }

// Now implements guest.Host.
func (r *run) Now() int64 { return r.now }
