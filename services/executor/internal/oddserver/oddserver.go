// Package oddserver is an MCP server over stdio for tests, with the faults that
// servers in the field have. A test binary becomes it where [Env] is set. It is written without the
// SDK, which would not let it be wrong.
package oddserver

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Env is the variable that has TestMain call [Main].
const Env = "TOOLCRIB_ODDSERVER"

// Main is the server; it does not return. Its flags are the arguments of the process.
func Main() {
	s := &server{out: bufio.NewWriter(os.Stdout), cancels: map[string]chan struct{}{}}
	if err := s.run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "oddserver:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

type server struct {
	out *bufio.Writer

	delay       time.Duration
	die         string // said on stderr before dying at the start
	hang        string // a method that is never answered
	refuse      string // a method that is answered with an error
	noise       bool
	ignoreTerm  bool
	keepRunning bool // also without standard input
	grandchild  bool
	tools       string // file with a JSON array of tools, read at each listing
	counter     string // file that gets a line for each call that begins, and each that is cancelled
	pageSize    int

	mu      sync.Mutex
	cancels map[string]chan struct{}
}

func (s *server) run(args []string) error {
	f := flag.NewFlagSet("oddserver", flag.ExitOnError)
	f.DurationVar(&s.delay, "delay", 0, "")
	f.StringVar(&s.die, "die", "", "")
	f.StringVar(&s.hang, "hang", "", "")
	f.StringVar(&s.refuse, "refuse", "", "")
	f.BoolVar(&s.noise, "noise", false, "")
	f.BoolVar(&s.ignoreTerm, "ignore-term", false, "")
	f.BoolVar(&s.keepRunning, "keep-running", false, "")
	f.BoolVar(&s.grandchild, "grandchild", false, "")
	f.StringVar(&s.tools, "tools", "", "")
	f.StringVar(&s.counter, "counter", "", "")
	f.IntVar(&s.pageSize, "page", 0, "")
	if err := f.Parse(args); err != nil {
		return err
	}
	if s.ignoreTerm {
		signal.Ignore(syscall.SIGTERM)
	}
	if s.grandchild {
		child := exec.Command(os.Args[0], "-ignore-term", "-keep-running")
		child.Env, child.Stdout, child.Stderr = []string{Env + "=1"}, os.Stdout, os.Stderr
		if err := child.Start(); err != nil {
			return err
		}
		s.count("grandchild " + strconv.Itoa(child.Process.Pid))
	}
	s.count("pid " + strconv.Itoa(os.Getpid()))
	time.Sleep(s.delay)
	if s.die != "" {
		fmt.Fprintln(os.Stderr, s.die)
		os.Exit(7)
	}
	if s.noise {
		fmt.Println("Server listening on stdio\n[INFO] ready\n{not json")
		fmt.Println(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"hello"}}`)
	}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			break
		}
		var m message
		if json.Unmarshal(line, &m) == nil {
			s.handle(m)
		}
	}
	if s.keepRunning {
		select {}
	}
	return nil
}

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name            string          `json:"name"`
		Arguments       json.RawMessage `json:"arguments"`
		Cursor          string          `json:"cursor"`
		RequestID       json.RawMessage `json:"requestId"`
		ProtocolVersion string          `json:"protocolVersion"`
		Meta            json.RawMessage `json:"_meta"`
	} `json:"params"`
}

func (s *server) handle(m message) {
	switch {
	case m.Method == s.hang:
	case m.Method == s.refuse:
		s.fail(m.ID, -32603, "not today")
	case m.Method == "initialize":
		s.reply(m.ID, `{"protocolVersion":"`+m.Params.ProtocolVersion+`","capabilities":{"tools":{"listChanged":true}},`+
			`"serverInfo":{"name":"odd","title":"The odd server","version":"1"},"instructions":"Use with care."}`)
	case m.Method == "tools/list":
		s.list(m)
	case m.Method == "tools/call":
		stop := make(chan struct{})
		s.mu.Lock()
		s.cancels[string(m.ID)] = stop
		s.mu.Unlock()
		go s.call(m, stop)
	case m.Method == "notifications/cancelled":
		s.mu.Lock()
		if c := s.cancels[string(m.Params.RequestID)]; c != nil {
			close(c)
			delete(s.cancels, string(m.Params.RequestID))
		}
		s.mu.Unlock()
	case len(m.ID) > 0:
		s.fail(m.ID, -32601, "method not found")
	}
}

// Tools is the listing of a server without the flag tools.
const Tools = `[
{"name":"echo","description":"Says it again.","inputSchema":{"type":"object","properties":{"text":{"type":"string"},"n":{"type":"integer"}},"required":["text"]},"annotations":{"readOnlyHint":true,"title":"Echo"}},
{"name":"fail","description":"Always fails.","inputSchema":{"type":"object"}},
{"name":"rpcerror","description":"Answers with an error.","inputSchema":{"type":"object"}},
{"name":"crash","description":"Ends the server.","inputSchema":{"type":"object"}},
{"name":"crash_once","description":"Ends the server the first time.","inputSchema":{"type":"object"},"annotations":{"idempotentHint":true}},
{"name":"hang","description":"Waits until it is cancelled.","inputSchema":{"type":"object"}},
{"name":"sleep","description":"Waits.","inputSchema":{"type":"object","properties":{"ms":{"type":"integer"}}}},
{"name":"big","description":"Answers a lot.","inputSchema":{"type":"object","properties":{"bytes":{"type":"integer"}}}},
{"name":"precise","description":"Answers numbers.","inputSchema":{"type":"object"}},
{"name":"holo","description":"Answers a new kind of content.","inputSchema":{"type":"object"}},
{"name":"meta","description":"Answers the request's _meta.","inputSchema":{"type":"object"}},
{"name":"env","description":"Answers the environment.","inputSchema":{"type":"object"}},
{"name":"wrong","description":"Breaks its promise.","inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}},
{"name":"flood","description":"Writes noise.","inputSchema":{"type":"object"}},
{"name":"change","description":"Says that the tools changed.","inputSchema":{"type":"object"}}
]`

func (s *server) list(m message) {
	text := []byte(Tools)
	if s.tools != "" {
		b, err := os.ReadFile(s.tools)
		if err != nil {
			s.fail(m.ID, -32603, err.Error())
			return
		}
		text = b
	}
	var all []json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		s.reply(m.ID, string(text)) // the whole answer, as a test wants it
		return
	}
	from, _ := strconv.Atoi(m.Params.Cursor)
	to, next := len(all), ""
	if s.pageSize > 0 && from+s.pageSize < len(all) {
		to = from + s.pageSize
		next = `,"nextCursor":"` + strconv.Itoa(to) + `"`
	}
	b, _ := json.Marshal(all[from:to])
	s.reply(m.ID, `{"tools":`+string(b)+next+`}`)
}

func (s *server) call(m message, stop <-chan struct{}) {
	s.count("call " + m.Params.Name + " " + string(m.Params.Arguments) + " " + string(m.Params.Meta))
	var args struct {
		Text  string `json:"text"`
		Ms    int    `json:"ms"`
		Bytes int    `json:"bytes"`
	}
	json.Unmarshal(m.Params.Arguments, &args)
	switch m.Params.Name {
	case "echo":
		s.text(m.ID, args.Text)
	case "once", "often", "asks": // listed by who wants it
		s.text(m.ID, "done")
	case "fail":
		s.reply(m.ID, `{"content":[{"type":"text","text":"it did not work"}],"isError":true}`)
	case "rpcerror":
		s.fail(m.ID, -32602, "bad parameters")
	case "crash":
		os.Exit(3)
	case "crash_once":
		if s.calls("crash_once") == 1 {
			os.Exit(3)
		}
		s.text(m.ID, "survived")
	case "hang":
		<-stop
		s.count("cancelled hang")
	case "sleep":
		select {
		case <-time.After(time.Duration(args.Ms) * time.Millisecond):
			s.text(m.ID, "slept")
		case <-stop:
		}
	case "big":
		s.text(m.ID, strings.Repeat("x", args.Bytes))
	case "items": // listed by who wants it
		list := strings.TrimSuffix(strings.Repeat(`{"id":12345678901234567890,"ok":true},`, args.Bytes), ",")
		s.reply(m.ID, `{"content":[],"structuredContent":{"items":[`+list+`]}}`)
	case "picture":
		s.reply(m.ID, `{"content":[{"type":"image","mimeType":"image/png","data":"`+strings.Repeat("QUJD", args.Bytes/3)+`"}]}`)
	case "precise":
		s.reply(m.ID, `{"content":[],"structuredContent":{"z":12345678901234567890,"a":1.10}}`)
	case "holo":
		s.reply(m.ID, `{"content":[{"type":"hologram","beam":1}]}`)
	case "meta":
		s.reply(m.ID, `{"content":[],"structuredContent":`+string(m.Params.Meta)+`}`)
	case "env":
		b, _ := json.Marshal(map[string][]string{"env": os.Environ()})
		s.reply(m.ID, `{"content":[],"structuredContent":`+string(b)+`}`)
	case "wrong":
		s.reply(m.ID, `{"content":[],"structuredContent":{"n":"one"}}`)
	case "flood":
		for range 20_000 {
			s.send(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"noise"}}`)
		}
		s.text(m.ID, "done")
	case "change":
		for range 100 {
			s.send(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		}
		s.text(m.ID, "changed")
	default:
		s.fail(m.ID, -32602, "no such tool")
	}
}

func (s *server) text(id json.RawMessage, text string) {
	b, _ := json.Marshal(text)
	s.reply(id, `{"content":[{"type":"text","text":`+string(b)+`}]}`)
}

func (s *server) reply(id json.RawMessage, result string) {
	result = strings.ReplaceAll(result, "\n", " ")
	s.send(`{"jsonrpc":"2.0","id":` + string(id) + `,"result":` + result + `}`)
}

func (s *server) fail(id json.RawMessage, code int, text string) {
	b, _ := json.Marshal(text)
	s.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, id, code, b))
}

func (s *server) send(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.WriteString(line + "\n")
	s.out.Flush()
}

func (s *server) count(line string) {
	if s.counter == "" {
		return
	}
	f, err := os.OpenFile(s.counter, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		f.WriteString(line + "\n")
		f.Close()
	}
}

// calls returns how many calls of a tool the counter file has.
func (s *server) calls(name string) int {
	b, _ := os.ReadFile(s.counter)
	return strings.Count(string(b), "call "+name+" ")
}
