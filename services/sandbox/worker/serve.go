package worker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/toolcrib/toolcrib/services/sandbox/engine"
)

// A runner runs bodies, many at once: [engine.Engine], or a stand-in of a test.
type runner interface {
	RunThen(ctx context.Context, b engine.Body, d engine.Door, told func(engine.Ending))
}

// A server is the inside of a worker: it runs the bodies that the service sends.
type server struct {
	run runner
	max int // bodies at once

	work chan func()   // for goroutines that are idle
	done chan struct{} // closed when there is no more work

	wmu  sync.Mutex
	conn io.Writer

	mu     sync.Mutex
	last   uint64
	bodies map[uint64]*guest
}

func newServer(run runner, conn io.Writer, max int) *server {
	return &server{run: run, conn: conn, max: max, work: make(chan func()), done: make(chan struct{}), bodies: make(map[uint64]*guest)}
}

// serve handles frames until the service closes the connection, which gives nil, or sends what it must not send.
func (s *server) serve(r io.Reader) error {
	defer close(s.done)
	br := bufio.NewReaderSize(r, 64<<10)
	for {
		f, err := readFrame(br)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read from the service: %w", err)
		}
		if err := s.handle(f); err != nil {
			return err
		}
	}
}

// handle does what f asks for. A frame about a body that has ended meanwhile is no mistake: the two crossed.
func (s *server) handle(f frame) error {
	switch f.kind {
	case kindRun:
		return s.start(f)
	case kindAnswer, kindPause, kindResume, kindCancel:
	default:
		return fmt.Errorf("%w: kind %d in the middle", errFrame, f.kind)
	}
	s.mu.Lock()
	g, last := s.bodies[f.body], s.last
	s.mu.Unlock()
	switch {
	case f.body > last:
		return fmt.Errorf("%w: kind %d for body %d, which is still to come", errFrame, f.kind, f.body)
	case g == nil:
		return nil
	}
	switch f.kind {
	case kindAnswer:
		a, err := decode[engine.Answer](f)
		if err != nil {
			return err
		}
		if g.record.answered(a.ID) {
			g.answers.put(a)
		}
	case kindPause, kindResume:
		g.pause(f.kind == kindPause)
	case kindCancel:
		g.cancel()
	}
	return nil
}

func (s *server) start(f frame) error {
	b, err := decode[engine.Body](f)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	g := &guest{server: s, number: f.body, record: newRecord(b.Limits), answers: newMailbox[engine.Answer](), pauses: make(chan bool, 1), cancel: cancel}
	b.Limits = g.record.limits
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.body <= s.last || len(s.bodies) >= s.max {
		cancel()
		return fmt.Errorf("%w: body %d after body %d, %d of %d are running", errFrame, f.body, s.last, len(s.bodies), s.max)
	}
	s.last = f.body
	s.bodies[f.body] = g
	s.lend(func() { s.run.RunThen(ctx, b, g, g.end) })
	return nil
}

// lend has a goroutine do the work, one that has run bodies before where one is idle: its stack has grown already to what they need.
func (s *server) lend(work func()) {
	select {
	case s.work <- work:
		return
	default:
	}
	go func() {
		for {
			work()
			select {
			case work = <-s.work:
			case <-s.done:
				return
			}
		}
	}()
}

// send writes one frame. A worker that cannot write is of no use any more; it ends when its reading end finds that out.
func (s *server) send(b []byte) {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	_, _ = s.conn.Write(b)
}

// A guest is a body that a worker runs, and that body's door.
type guest struct {
	server  *server
	number  uint64
	record  *record
	answers *mailbox[engine.Answer]
	pauses  chan bool
	cancel  context.CancelFunc

	// Of the goroutine that runs the body.
	breach  *breach // what the body is ended for, by the worker
	dropped int     // lines beyond the limits
}

// end tells how the body ended.
func (g *guest) end(end engine.Ending) {
	g.cancel()
	g.answers.close()
	g.server.mu.Lock()
	delete(g.server.bodies, g.number)
	g.server.mu.Unlock()
	if out, err := encode(kindEnding, g.number, g.fit(end)); err == nil {
		g.server.send(out)
	} else {
		out, _ := encode(kindEnding, g.number, failed(engine.CodeUnavailable, "the body's ending cannot be told: "+err.Error()))
		g.server.send(out)
	}
}

// fit makes of end what the service accepts.
func (g *guest) fit(end engine.Ending) engine.Ending {
	end.Dropped += g.dropped
	if f := end.Failure; f != nil {
		f.Name = clip(f.Name, 1<<10)
		f.Message = clip(f.Message, maxText/2)
		end.Value = nil
	}
	broken := g.breach
	if broken == nil {
		errors.As(g.record.ending(end), &broken)
	}
	if broken != nil {
		end.Value, end.Failure = nil, &engine.Failure{Code: broken.code, Name: "Error", Message: broken.text}
	}
	return end
}

// Ask implements [engine.Door].
func (g *guest) Ask(a engine.Ask) {
	if g.breach != nil {
		return
	}
	err := g.record.ask(a)
	if err == nil {
		var out []byte
		if out, err = encode(kindAsk, g.number, a); err == nil {
			g.server.send(out)
			return
		}
		err = breachf(engine.CodeUnavailable, "an ask cannot be sent: %v", err)
	}
	errors.As(err, &g.breach)
	g.cancel()
}

// Log implements [engine.Door].
func (g *guest) Log(l engine.Log) {
	if g.breach != nil {
		return
	}
	if err := g.record.log(l); err != nil {
		g.dropped++
		return
	}
	out, err := encode(kindLog, g.number, l)
	if err != nil {
		g.dropped++
		return
	}
	g.server.send(out)
}

// Answers implements [engine.Door].
func (g *guest) Answers() <-chan engine.Answer { return g.answers.out }

// Pauses implements [engine.Door].
func (g *guest) Pauses() <-chan bool { return g.pauses }

// pause tells the body's clock to stand still or to go on; only the newest word counts. It is called from one goroutine.
func (g *guest) pause(still bool) {
	select {
	case <-g.pauses:
	default:
	}
	g.pauses <- still
}

// failed is the ending of a body that failed for a reason outside of it.
func failed(code engine.Code, message string) engine.Ending {
	return engine.Ending{Failure: &engine.Failure{Code: code, Name: "Error", Message: message}}
}

// A mailbox passes values on in order, without making the sender wait. Its sender is one goroutine, its receiver another.
type mailbox[T any] struct {
	out  chan T
	done chan struct{}

	mu      sync.Mutex
	more    []T // what did not fit into out, in the hands of pump
	pumping bool
}

func newMailbox[T any]() *mailbox[T] {
	return &mailbox[T]{out: make(chan T, 32), done: make(chan struct{})}
}

func (m *mailbox[T]) put(v T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.pumping {
		select {
		case m.out <- v:
			return
		default:
			m.pumping = true
			go m.pump()
		}
	}
	m.more = append(m.more, v)
}

// pump sends what did not fit until nothing is left.
func (m *mailbox[T]) pump() {
	for {
		m.mu.Lock()
		if len(m.more) == 0 {
			m.more, m.pumping = nil, false
			m.mu.Unlock()
			return
		}
		v := m.more[0]
		m.more = m.more[1:]
		m.mu.Unlock()
		select {
		case m.out <- v:
		case <-m.done:
			return
		}
	}
}

// close lets the pump end; what was not received is dropped.
func (m *mailbox[T]) close() { close(m.done) }
