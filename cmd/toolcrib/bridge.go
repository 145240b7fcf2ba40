package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// JSON-RPC error codes of the bridge's own answers.
const (
	rpcParse       = -32700
	rpcInvalid     = -32600
	rpcUnreachable = -32000
)

// Limits of the bridge.
const (
	longestMessage = 16 << 20
	// lastAnswers is how long answers to what was accepted are awaited once the client sends no more.
	lastAnswers = 70 * time.Second
	goodbye     = 5 * time.Second
)

// A bridge carries MCP messages between a client on standard input and output, one JSON text a line, and a
// server over Streamable HTTP, as they are: it reads no more of them than it must. A message that the
// server refuses harms nothing but itself.
type bridge struct {
	url, token string
	http       http.Client

	mu      sync.Mutex // of what follows
	out     io.Writer
	session string
	version string // of the protocol, once it is agreed
}

func newBridge(url, token string, out io.Writer) *bridge {
	return &bridge{url: url, token: token, out: out}
}

// An envelope is what the bridge reads of a message.
type envelope struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result struct {
		ProtocolVersion string `json:"protocolVersion"`
	} `json:"result"`
}

// run carries messages until the client ends its input and has its answers, or ctx is done.
func (b *bridge) run(ctx context.Context, in io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := make(chan []byte)
	ended := make(chan error, 1)
	go func() {
		s := bufio.NewScanner(in)
		s.Buffer(nil, longestMessage)
		for s.Scan() {
			select {
			case lines <- bytes.Clone(s.Bytes()):
			case <-ctx.Done():
				return
			}
		}
		ended <- s.Err()
	}()
	var waiting sync.WaitGroup
	var err error
	for open := true; open; {
		select {
		case line := <-lines:
			b.take(ctx, bytes.TrimSpace(line), &waiting)
		case err = <-ended:
			open = false
		case <-ctx.Done():
			open = false
		}
	}
	answered := make(chan struct{})
	go func() { waiting.Wait(); close(answered) }()
	select {
	case <-answered:
	case <-time.After(lastAnswers):
	case <-ctx.Done():
	}
	b.leave()
	if err != nil {
		return fmt.Errorf("read from the client: %w", err)
	}
	return nil
}

// take sends one message on. Only what opens the session is waited for: a call may
// last, and what comes behind it, such as its cancellation, must not.
func (b *bridge) take(ctx context.Context, line []byte, waiting *sync.WaitGroup) {
	if len(line) == 0 {
		return
	}
	var e envelope
	if err := json.Unmarshal(line, &e); err != nil && line[0] != '[' {
		code := rpcInvalid
		if _, syntax := errors.AsType[*json.SyntaxError](err); syntax {
			code = rpcParse
		}
		b.refuse(json.RawMessage("null"), code, "not a JSON-RPC message: "+err.Error())
		return
	}
	send := func() {
		if err := b.post(ctx, line, e.Method == "initialize"); err != nil && ctx.Err() == nil {
			b.failed(e, err)
		}
	}
	if e.Method == "initialize" || strings.HasPrefix(e.Method, "notifications/") {
		send()
	} else {
		waiting.Go(send)
	}
	if e.Method == "notifications/initialized" {
		go b.listen(ctx)
	}
}

// failed answers a request that was not taken. A notification has no answer.
func (b *bridge) failed(e envelope, err error) {
	if len(e.ID) == 0 || e.Method == "" {
		return
	}
	code := rpcUnreachable
	if _, ok := errors.AsType[refusedError](err); ok {
		code = rpcInvalid
	}
	b.refuse(e.ID, code, err.Error())
}

func (b *bridge) refuse(id json.RawMessage, code int, message string) {
	answer, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": message}})
	if err == nil {
		b.write(answer)
	}
}

// write gives the client a message.
func (b *bridge) write(message []byte) {
	var compact bytes.Buffer
	if json.Compact(&compact, message) != nil {
		return
	}
	compact.WriteByte('\n')
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out.Write(compact.Bytes())
}

// A refusedError is the server's refusal of a message.
type refusedError string

func (e refusedError) Error() string { return "toolcrib refused the message: " + string(e) }

// post sends a message and gives the client all that is answered to it.
func (b *bridge) post(ctx context.Context, message []byte, opening bool) error {
	res, err := b.do(ctx, http.MethodPost, message)
	if err != nil {
		return fmt.Errorf("toolcrib cannot be reached: %w", err)
	}
	defer res.Body.Close()
	if id := res.Header.Get("Mcp-Session-Id"); id != "" && res.StatusCode < 300 {
		b.mu.Lock()
		b.session = id
		b.mu.Unlock()
	}
	if res.StatusCode >= 300 {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 1000))
		if json.Valid(text) && bytes.Contains(text, []byte(`"jsonrpc"`)) {
			b.write(text)
			return nil
		}
		return refusedError(strings.TrimSpace(fmt.Sprintf("%s: %s", res.Status, text)))
	}
	return b.deliver(res, opening)
}

func (b *bridge) do(ctx context.Context, method string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, b.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if method == http.MethodGet {
		req.Header.Set("Accept", "text/event-stream")
	}
	if b.token != "" {
		req.Header.Set("Authorization", "Bearer "+b.token)
	}
	b.mu.Lock()
	for name, value := range map[string]string{"Mcp-Session-Id": b.session, "Mcp-Protocol-Version": b.version} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	b.mu.Unlock()
	return b.http.Do(req)
}

// deliver gives the client the messages of an answer: one JSON text, or the events of a stream.
func (b *bridge) deliver(res *http.Response, opening bool) error {
	give := func(message []byte) {
		if opening {
			b.learn(message)
		}
		b.write(message)
	}
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		message, err := io.ReadAll(io.LimitReader(res.Body, longestMessage))
		if err == nil && len(bytes.TrimSpace(message)) > 0 {
			give(message)
		}
		return err
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, longestMessage)
	var data []byte
	for lines.Scan() {
		if part, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:")); ok {
			data = append(data, part...)
		} else if len(lines.Bytes()) == 0 && len(data) > 0 {
			give(data)
			data = nil
		}
	}
	if len(data) > 0 {
		give(data)
	}
	return lines.Err()
}

// learn takes the protocol version from the answer to initialize.
func (b *bridge) learn(message []byte) {
	var e envelope
	if json.Unmarshal(message, &e) == nil && e.Result.ProtocolVersion != "" {
		b.mu.Lock()
		b.version = e.Result.ProtocolVersion
		b.mu.Unlock()
	}
}

// listen gives the client what the server sends of itself. It ends with the session; a server need not offer it.
func (b *bridge) listen(ctx context.Context) {
	res, err := b.do(ctx, http.MethodGet, nil)
	if err != nil {
		return
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusOK {
		b.deliver(res, false)
	}
}

// leave ends the session.
func (b *bridge) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), goodbye)
	defer cancel()
	b.mu.Lock()
	open := b.session != ""
	b.mu.Unlock()
	if !open {
		return
	}
	if res, err := b.do(ctx, http.MethodDelete, nil); err == nil {
		res.Body.Close()
	}
}
