package executor

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A tap stands between one executor's process and the NATS server, and knows what each message means. Armed, it
// kills the process at one message: before the other side has it, or when it has.
type tap struct {
	url    string // for the process
	server string
	kill   func() // set before the process connects

	mu     sync.Mutex
	taking bool // the process has asked for wake-ups
	armed  bool
	at     place
	after  bool // it is passed on first
	steps  []step
	seen   []place // one for each of steps
	killed *step   // nil while the process lives
	quiet  bool    // it was killed, and the server has all that it sent
}

// A place is where an executor can be killed: at the nth step of that name, counted from 1.
type place struct {
	name string
	nth  int
}

// A step is a message by which an executor changes the world, or is asked to.
type step struct {
	name   string
	call   contracts.CallState // that a call's record gets by it, "" where it is none
	passed bool
}

func newTap(t testing.TB, server string) *tap {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	p := &tap{url: "nats://" + l.Addr().String(), server: strings.TrimPrefix(server, "nats://")}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	return p
}

// arm has the process killed there from now on, and steps counted; nowhere at the zero place.
func (p *tap) arm(at place, after bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed, p.at, p.after = true, at, after
}

// ready reports whether the process takes calls.
func (p *tap) ready() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taking
}

// death returns the step at which the process was killed, once the server has all that came before; nil while it lives.
func (p *tap) death() *step {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.quiet {
		return nil
	}
	return p.killed
}

// places returns where the process could have been killed until now.
func (p *tap) places() []place {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.seen)
}

// reached reports whether a call's record got the state through the tap.
func (p *tap) reached(s contracts.CallState) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, st := range p.steps {
		if st.call == s && st.passed {
			return true
		}
	}
	return false
}

func (p *tap) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	var both sync.WaitGroup
	both.Go(func() {
		p.relay(client, server)
		server.(*net.TCPConn).CloseWrite() // the server reads all of it and then hangs up
	})
	both.Go(func() {
		p.relay(server, client)
		client.Close()
	})
	both.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.quiet = p.killed != nil
}

// relay passes frames on until one side is gone. What comes after the kill is dropped.
func (p *tap) relay(from, to net.Conn) {
	in := bufio.NewReaderSize(from, 64<<10)
	for {
		f, err := readFrame(in)
		if err != nil {
			return
		}
		if !p.pass(f, to) {
			io.Copy(io.Discard, from)
			return
		}
	}
}

// pass passes a frame on, unless the process is dead by then.
func (p *tap) pass(f frame, to net.Conn) bool {
	st := f.step()
	p.mu.Lock()
	defer p.mu.Unlock()
	if strings.HasPrefix(f.subject, "$JS.API.CONSUMER.MSG.NEXT."+contracts.StreamDispatch+".") {
		p.taking = true
	}
	if p.killed != nil {
		return false
	}
	hit := false
	if p.armed && st.name != "" {
		here := place{st.name, 1}
		for slices.Contains(p.seen, here) {
			here.nth++
		}
		hit = here == p.at
		st.passed = !hit || p.after
		p.steps, p.seen = append(p.steps, st), append(p.seen, here)
	}
	if !hit || p.after {
		if _, err := to.Write(f.raw); err != nil {
			return false
		}
	}
	if hit {
		p.killed = &st
		p.kill()
	}
	return !hit
}

// A frame is one message of the NATS client protocol.
type frame struct {
	raw            []byte
	op             string
	subject, reply string // of messages
	data           []byte
}

func readFrame(in *bufio.Reader) (frame, error) {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return frame{}, err
	}
	f := frame{raw: line}
	w := strings.Fields(string(line))
	if len(w) == 0 {
		return f, nil
	}
	sizes := 1 // behind subject, for a message with headers their size and that of all
	switch f.op = strings.ToUpper(w[0]); f.op {
	case "PUB", "MSG":
	case "HPUB", "HMSG":
		sizes = 2
	default:
		return f, nil
	}
	f.subject = w[1]
	named := w[2 : len(w)-sizes]
	if strings.HasSuffix(f.op, "MSG") {
		named = named[1:] // the subscription
	}
	if len(named) > 0 {
		f.reply = named[0]
	}
	size, err := strconv.Atoi(w[len(w)-1])
	if err != nil {
		return f, fmt.Errorf("frame %q: %w", line, err)
	}
	body := make([]byte, size+2)
	if _, err := io.ReadFull(in, body); err != nil {
		return f, err
	}
	f.raw = append(line, body...)
	f.data = body[:size]
	if sizes == 2 {
		headers, err := strconv.Atoi(w[len(w)-2])
		if err != nil || headers > size {
			return f, fmt.Errorf("frame %q: bad size of headers", line)
		}
		f.data = f.data[headers:]
	}
	return f, nil
}

// step returns what the frame does; one without a name for what changes nothing.
func (f *frame) step() step {
	switch {
	case strings.HasSuffix(f.op, "MSG"):
		if stream := ackedStream(f.reply); watched(stream) {
			return step{name: "take from " + stream}
		}
	case strings.HasPrefix(f.subject, "$JS.ACK."):
		if stream := ackedStream(f.subject); watched(stream) && !bytes.HasPrefix(f.data, []byte("+WPI")) {
			return step{name: "settle in " + stream}
		}
	case strings.HasPrefix(f.subject, "$KV."):
		return f.record(strings.Split(f.subject, ".")[1])
	case strings.HasPrefix(f.subject, "tc."):
		if s, err := contracts.ParseSubject(f.subject); err == nil && !strings.HasPrefix(s.Type, "source.") {
			return step{name: "event " + s.Type}
		}
	case strings.HasPrefix(f.subject, "dispatch."):
		return step{name: "wake-up"}
	case strings.HasPrefix(f.subject, "$O."):
		return step{name: "content in " + strings.Split(f.subject, ".")[1]}
	}
	return step{}
}

// record is the step that changes a record.
func (f *frame) record(bucket string) step {
	var rec struct {
		State    string            `json:"state"`
		Unsent   []json.RawMessage `json:"unsent"`
		Consumed string            `json:"consumed"`
	}
	if bucket != contracts.BucketCalls && bucket != contracts.BucketApprovals || json.Unmarshal(f.data, &rec) != nil {
		return step{}
	}
	if rec.Consumed != "" {
		rec.State = "consumed"
	}
	name := strings.TrimSuffix(bucket, "s") + " " + rec.State
	if len(rec.Unsent) == 0 {
		name += ", nothing unsent"
	}
	st := step{name: name}
	if bucket == contracts.BucketCalls {
		st.call = contracts.CallState(rec.State)
	}
	return st
}

// watched reports whether a stream's messages are about calls.
func watched(stream string) bool {
	switch stream {
	case contracts.StreamDispatch, contracts.StreamEvents, "KV_" + contracts.BucketCalls, "KV_" + contracts.BucketApprovals:
		return true
	}
	return false
}

// ackedStream returns the stream of a message's reply subject, in its old or new form; "" where it is none.
func ackedStream(reply string) string {
	p := strings.Split(reply, ".")
	if len(p) < 9 || p[0] != "$JS" || p[1] != "ACK" {
		return ""
	}
	if len(p) == 9 {
		return p[2]
	}
	return p[4]
}
