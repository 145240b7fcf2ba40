package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// longestMessage bounds one message of a server, in bytes: more than is kept of any result.
	longestMessage = 72 << 20
	// mostNoise bounds what a server may write between two messages that mean something, in bytes.
	mostNoise = 96 << 20
	// mostAsked bounds the requests of a server that are under way.
	mostAsked = 1000
	// changeEvery is how often the session hears at most that the tools changed.
	changeEvery = 50 * time.Millisecond
	// stuckAfter is how long a server may leave its standard input unread while something is written to it.
	stuckAfter = 30 * time.Second
)

// A stdio is the transport of a process, one message a line. Unlike that of the SDK it passes
// over lines that are no messages, which many servers print, ends the whole group of
// the process, and never lets a server that does not read hold a caller beyond its context.
type stdio struct{ process *process }

func (t *stdio) Connect(context.Context) (sdk.Connection, error) {
	return &stdioConn{
		process: t.process, in: bufio.NewReaderSize(t.process.stdout, 64<<10),
		writing: make(chan struct{}, 1), captures: map[jsonrpc.ID]*capture{}, methods: map[jsonrpc.ID]string{},
	}, nil
}

type stdioConn struct {
	process *process
	in      *bufio.Reader
	queue   []jsonrpc.Message // of a batch
	noise   int
	writing chan struct{} // held by whoever writes

	changed time.Time // when the session last heard that the tools changed

	mu       sync.Mutex
	asked    int                     // requests of the server that are not answered yet
	captures map[jsonrpc.ID]*capture // of the requests under way
	methods  map[jsonrpc.ID]string
}

func (c *stdioConn) SessionID() string { return "" }

// Close begins the end of the process and of Read, and waits for neither.
func (c *stdioConn) Close() error {
	c.process.end()
	c.process.stdout.SetReadDeadline(time.Now())
	return nil
}

// Read returns the next message that the session has to know of.
func (c *stdioConn) Read(context.Context) (jsonrpc.Message, error) {
	for {
		if len(c.queue) > 0 {
			msg := c.queue[0]
			c.queue = c.queue[1:]
			if msg = c.receive(msg); msg != nil {
				c.noise = 0
				return msg, nil
			}
			continue
		}
		line, err := c.line()
		if err != nil {
			c.process.readAll()
			return nil, err
		}
		if c.noise += len(line); c.noise > mostNoise {
			c.process.end()
			return nil, fmt.Errorf("the server floods its output: %d MiB without a message", mostNoise>>20)
		}
		c.queue = messages(line)
	}
}

// line returns the next line, without its end.
func (c *stdioConn) line() ([]byte, error) {
	var line []byte
	for {
		part, err := c.in.ReadSlice('\n')
		if len(line)+len(part) > longestMessage {
			c.process.end()
			return nil, fmt.Errorf("the server sent a message of more than %d MiB", longestMessage>>20)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return bytes.TrimSpace(line), nil
		case errors.Is(err, io.EOF) && len(line) > 0:
			return bytes.TrimSpace(line), nil // the end comes again
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// messages returns the messages that a line holds: one, those of a batch, or none.
func messages(line []byte) []jsonrpc.Message {
	if len(line) == 0 || line[0] != '{' && line[0] != '[' {
		return nil
	}
	parts := []json.RawMessage{line}
	if line[0] == '[' {
		if json.Unmarshal(line, &parts) != nil {
			return nil
		}
	}
	var out []jsonrpc.Message
	for _, p := range parts {
		if msg, err := jsonrpc.DecodeMessage(p); err == nil {
			out = append(out, msg)
		}
	}
	return out
}

// receive returns what the session is to see of msg, nil for nothing.
func (c *stdioConn) receive(msg jsonrpc.Message) jsonrpc.Message {
	switch msg := msg.(type) {
	case *jsonrpc.Request:
		if !msg.IsCall() && !c.wants(msg.Method) || msg.IsCall() && !c.ask(1) {
			return nil
		}
	case *jsonrpc.Response:
		return c.respond(msg)
	}
	return msg
}

// wants reports whether a notification means something to the session; what does not could flood it.
func (c *stdioConn) wants(method string) bool {
	switch method {
	case "notifications/cancelled", "notifications/subscriptions/acknowledged":
		return true
	case "notifications/tools/list_changed":
		if time.Since(c.changed) < changeEvery {
			return false
		}
		c.changed = time.Now()
		return true
	}
	return false
}

// ask counts requests of the server, and ends a server that asks without waiting for answers.
func (c *stdioConn) ask(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked += n
	if c.asked > mostAsked {
		c.process.end()
		return false
	}
	return true
}

// respond notes a response where somebody wants its bytes, and then gives the session a small one in its place.
func (c *stdioConn) respond(r *jsonrpc.Response) jsonrpc.Message {
	c.mu.Lock()
	capture, method := c.captures[r.ID], c.methods[r.ID]
	delete(c.captures, r.ID)
	delete(c.methods, r.ID)
	c.mu.Unlock()
	if capture == nil {
		return r
	}
	capture.take(r)
	if r.Error != nil || asksForInput(r.Result) {
		return r
	}
	switch method {
	case "tools/call":
		return &jsonrpc.Response{ID: r.ID, Result: json.RawMessage(`{"content":[]}`)}
	case "tools/list":
		return &jsonrpc.Response{ID: r.ID, Result: json.RawMessage(`{"tools":[]}`)}
	}
	return r
}

// Write sends msg. Where ctx ends first it returns, and the message may still go out.
func (c *stdioConn) Write(ctx context.Context, msg jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	if _, answer := msg.(*jsonrpc.Response); answer {
		defer c.ask(-1)
	}
	select {
	case c.writing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-c.process.waited:
		return errEnded
	}
	capture := c.expect(ctx, msg)
	written := make(chan error, 1)
	go func() {
		defer func() { <-c.writing }()
		written <- c.write(append(data, '\n'), capture)
	}()
	select {
	case err := <-written:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

var errEnded = errors.New("the server has ended")

// expect remembers whose request msg is, if it is one whose bytes somebody wants.
func (c *stdioConn) expect(ctx context.Context, msg jsonrpc.Message) *capture {
	capture := captureOf(ctx)
	r, ok := msg.(*jsonrpc.Request)
	if capture == nil || !ok || !r.IsCall() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.captures[r.ID], c.methods[r.ID] = capture, r.Method
	context.AfterFunc(ctx, func() { // a call whose context ended gets no response any more
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.captures, r.ID)
		delete(c.methods, r.ID)
	})
	return capture
}

func (c *stdioConn) write(data []byte, capture *capture) error {
	select {
	case <-c.process.waited:
		return errEnded
	default:
	}
	if capture != nil {
		capture.markSent(true)
	}
	c.process.stdin.SetWriteDeadline(time.Now().Add(stuckAfter))
	n, err := c.process.stdin.Write(data)
	if err == nil {
		return nil
	}
	if n == 0 && capture != nil {
		capture.markSent(false)
	}
	c.process.end() // half a message may be in the pipe
	return fmt.Errorf("write to the server: %w", err)
}
