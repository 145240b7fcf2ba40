package worker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/services/sandbox/engine"
)

// payload makes a frame for body 1 without regard to what is allowed.
func payload(k kind, text string) []byte {
	return append(header(k, 0, uint32(len(text))), text...)
}

// hostile is a worker that gets ready as it should and answers the first body with out.
func hostile(out []byte) func(net.Conn) {
	return func(conn net.Conn) {
		_, _ = readFrame(conn)
		hi, _ := encode(kindReady, 0, ready{Protocol: protocol})
		_, _ = conn.Write(hi)
		_, _ = readFrame(conn)
		_, _ = conn.Write(out)
		_, _ = io.Copy(io.Discard, conn)
	}
}

// Whatever a worker says that it must not say ends it, and its body with it.
func TestHostileWorker(t *testing.T) {
	ask := func(id string) string { return `{"id":` + id + `,"op":"call","args":[]}` }
	ending := string(payload(kindEnding, `{"cpu":1}`))
	for name, out := range map[string]string{
		"garbage":                strings.Repeat("\xff", 100),
		"oversized frame":        string(header(kindAsk, 0, 1<<31)),
		"frame for the worker":   string(payload(kindRun, `{"Code":""}`)),
		"ready again":            string(payload(kindReady, `{}`)),
		"unknown body":           string(bare(kindAsk, 2)),
		"broken JSON":            string(payload(kindAsk, `{"id":`)),
		"other JSON":             string(payload(kindLog, `[1]`)),
		"number too large":       string(payload(kindAsk, ask("1e30"))),
		"ask twice":              string(payload(kindAsk, ask("1"))) + string(payload(kindAsk, ask("1"))),
		"too many asks":          string(payload(kindAsk, ask("1"))) + string(payload(kindAsk, ask("2"))) + string(payload(kindAsk, ask("3"))),
		"unknown op":             string(payload(kindAsk, `{"id":1,"op":"exec","args":[]}`)),
		"arguments are no array": string(payload(kindAsk, `{"id":1,"op":"call","args":"x"}`)),
		"large arguments":        string(payload(kindAsk, `{"id":1,"op":"call","args":["`+strings.Repeat("x", maxArgs)+`"]}`)),
		"unknown level":          string(payload(kindLog, `{"level":"fatal","text":"x"}`)),
		"too much log":           strings.Repeat(string(payload(kindLog, `{"level":"log","text":"`+strings.Repeat("x", 600)+`"}`)), 2),
		"unknown code":           string(payload(kindEnding, `{"failure":{"code":"root","message":""},"cpu":1}`)),
		"large value":            string(payload(kindEnding, `{"value":"`+strings.Repeat("x", 16*small.Value)+`","cpu":1}`)),
		"negative CPU time":      string(payload(kindEnding, `{"cpu":-1}`)),
	} {
		t.Run(name, func(t *testing.T) {
			p := insidePool(t, Config{}, &inside{worker: hostile([]byte(out))})
			d := newDoor(nil)
			l := small
			l.Timeout = 20 * time.Second
			end := p.Run(t.Context(), "acme", engine.Body{Limits: l}, d)
			if got := told(end); got != "unavailable" {
				t.Errorf("Run() = %s, want unavailable", got)
			}
			eventually(t, "the worker is killed", func() bool { return p.Stats().Killed > 0 })
			if d.asked() > small.Concurrent || len(d.logged()) > 1 {
				t.Errorf("the door heard %d asks and %d lines", d.asked(), len(d.logged()))
			}
		})
	}
	t.Run("two endings", func(t *testing.T) {
		p := insidePool(t, Config{}, &inside{worker: hostile([]byte(ending + ending))})
		if got := told(p.Run(t.Context(), "acme", engine.Body{}, newDoor(nil))); got != "" {
			t.Errorf("Run() = %s, want the first ending", got)
		}
		eventually(t, "the worker is killed", func() bool { return p.Stats().Killed == 1 })
	})
	t.Run("more CPU time than time", func(t *testing.T) {
		p := insidePool(t, Config{}, &inside{worker: hostile(payload(kindEnding, `{"cpu":9000000000000000000}`))})
		if end := p.Run(t.Context(), "acme", engine.Body{}, newDoor(nil)); end.CPU > time.Minute {
			t.Errorf("Run() used %v", end.CPU)
		}
	})
}

// A worker that reads nothing is killed; nobody waits for it meanwhile.
func TestWorkerThatReadsNothing(t *testing.T) {
	stop := make(chan struct{})
	p := insidePool(t, Config{}, &inside{worker: func(conn net.Conn) {
		_, _ = readFrame(conn)
		hi, _ := encode(kindReady, 0, ready{Protocol: protocol})
		_, _ = conn.Write(hi)
		_, _ = conn.Read(make([]byte, 1)) // the first byte of a body, and nothing more
		<-stop
	}})
	defer close(stop)
	d := newDoor(nil)
	start := time.Now()
	end := p.Run(t.Context(), "acme", engine.Body{Code: "value:1", Limits: engine.Limits{Timeout: 100 * time.Millisecond}}, d)
	if took := time.Since(start); told(end) != "timeout" || took > 3*time.Second {
		t.Errorf("Run() = %s after %v", told(end), took)
	}
}

func TestOutboxBounds(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	broken := make(chan error, 1)
	o := &outbox{conn: pipe{ours}, broken: func(err error) { broken <- err }}
	for range maxQueue/maxPayload + 1 {
		o.send(make([]byte, maxPayload))
	}
	select {
	case err := <-broken:
		if !errors.Is(err, errStuck) {
			t.Errorf("broken(%v), want %v", err, errStuck)
		}
	case <-time.After(maxStall):
		t.Error("the queue has no bound")
	}
	_ = ours.Close()
	o.close()
	o.send([]byte("x")) // is dropped
}

func TestOutboxKeepsTheOrder(t *testing.T) {
	ours, theirs := net.Pipe()
	o := &outbox{conn: pipe{ours}, broken: func(err error) { t.Error(err) }}
	var want []byte
	for i := range 200 {
		b := bytes.Repeat([]byte{byte(i)}, i*31)
		want = append(want, b...)
		o.send(b)
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(theirs, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("what was sent in order came otherwise: %v", err)
	}
	_ = ours.Close()
	o.close()
}

// A deadline is for the bytes that it was set for: what is sent after it goes as well.
func TestOutboxLeavesNoDeadline(t *testing.T) {
	ours, theirs := net.Pipe()
	c := &deadlines{pipe: pipe{ours}}
	o := &outbox{conn: c, broken: func(err error) { t.Error(err) }}
	o.send([]byte("some bytes"))
	if _, err := io.ReadFull(theirs, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	o.wg.Wait() // until all is flushed
	if last := c.last.Load(); last == nil || !last.IsZero() {
		t.Errorf("after all was written, the deadline is %v", last)
	}
	_ = ours.Close()
	o.close()
}

// deadlines notes the deadline that was set last.
type deadlines struct {
	pipe
	last atomic.Pointer[time.Time]
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.last.Store(&t)
	return d.pipe.SetWriteDeadline(t)
}

// No bytes from a worker crash the service, or get past what the body's limits allow.
func FuzzFromWorker(f *testing.F) {
	f.Add(payload(kindAsk, `{"id":1,"op":"call","args":["x",{}]}`))
	f.Add(payload(kindLog, `{"level":"warn","text":"a"}`))
	f.Add(payload(kindEnding, `{"value":{"a":1},"cpu":5}`))
	f.Add(payload(kindEnding, `{"failure":{"code":"exception","message":"x","line":1},"dropped":2,"cpu":5}`))
	f.Add(append(payload(kindAsk, `{"id":1,"op":"timer","args":[5]}`), payload(kindEnding, `{"cpu":1}`)...))
	f.Add(payload(kindReady, `{"protocol":1}`))
	f.Add(header(kindLog, 0, maxPayload))
	f.Fuzz(func(t *testing.T, in []byte) {
		ours, theirs := net.Pipe()
		p := &insideProcess{conn: theirs, done: make(chan struct{})}
		go func() {
			defer close(p.done)
			_, _ = readFrame(theirs)
			_, _ = theirs.Write(in)
			_ = theirs.Close()
		}()
		c := newChild(p, pipe{ours})
		j := c.open(small, bare(kindRun, 0))
		ended := 0
		_, _ = c.serve(func() { ended++ })
		d := newDoor(nil)
		talk := &talk{child: c, job: j, door: d}
		talk.clock.start(time.Hour)
		end, _, over := talk.hear()
		logged := 0
		for _, text := range d.logged() {
			logged += len(text)
		}
		timers := len(j.record.used) - j.record.calls
		if asks := d.asked(); asks > small.Calls+timers || asks-timers > small.Concurrent || logged > small.Console+maxLogs || ended > 1 {
			t.Errorf("%d asks, %d timers, %d bytes of log, %d endings", asks, timers, logged, ended)
		}
		if !over || len(end.Value) > 16*small.Value || end.CPU < 0 || end.CPU > time.Minute {
			t.Errorf("over %v, ending %+v", over, end)
		}
	})
}

// No bytes from the service crash a worker, whose bodies all end.
func FuzzFramesFromService(f *testing.F) {
	f.Add(payload(kindRun, `{"Code":"value:1"}`))
	f.Add(append(payload(kindRun, `{"Code":"ask:x await:1","Timeout":1000000}`), payload(kindAnswer, `{"id":1,"value":{"a":2},"now":3}`)...))
	f.Add(append(append(payload(kindRun, `{"Code":"pausing:2 hang","Timeout":1000000}`), bare(kindPause, 1)...), bare(kindResume, 1)...))
	f.Add(append(payload(kindRun, `{"Code":"hang"}`), bare(kindCancel, 1)...))
	f.Add(append(bare(kindCancel, 0), bare(kindCancel, 9)...))
	f.Add(payload(kindHello, `{"protocol":1}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		var out bytes.Buffer
		s := newServer(limited{}, &out, 3)
		_ = s.serve(bytes.NewReader(in))
		s.mu.Lock()
		for _, g := range s.bodies {
			g.cancel()
		}
		s.mu.Unlock()
		for left := 1; left > 0; time.Sleep(time.Microsecond) {
			s.mu.Lock()
			left = len(s.bodies)
			s.mu.Unlock()
		}
		s.wmu.Lock()
		defer s.wmu.Unlock()
		for out.Len() > 0 {
			fr, err := readFrame(&out)
			if err != nil || fr.kind < kindReady || fr.body == 0 || fr.body > s.last {
				t.Fatalf("the worker sent %v, %v", fr, err)
			}
		}
	})
}

// limited is a stub without the words that never end, and without large numbers.
type limited struct{}

func (limited) RunThen(ctx context.Context, b engine.Body, d engine.Door, told func(engine.Ending)) {
	for _, word := range []string{"stuck", "die", "attack", "big", "logs", "args", "fail"} {
		if strings.Contains(b.Code, word) {
			told(engine.Ending{})
			return
		}
	}
	b.Timeout = min(b.Timeout, 10*time.Millisecond)
	stub{}.RunThen(ctx, b, d, told)
}
