package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/executor/internal/oddserver"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(oddserver.Env) != "":
		oddserver.Main()
	case os.Getenv(modern) != "":
		modernMain()
	}
	os.Exit(m.Run())
}

// odd is an odd server that writes to the returned file what happens to it.
func odd(t *testing.T, args ...string) (Config, string) {
	t.Helper()
	counter := filepath.Join(t.TempDir(), "counter")
	return Config{
		Command: os.Args[0], Args: append(args, "-counter", counter),
		Env: map[string]string{oddserver.Env: "1"}, Environ: os.Environ(), Grace: 200 * time.Millisecond,
	}, counter
}

func dial(t *testing.T, cfg Config) *Conn {
	t.Helper()
	c, err := Dial(t.Context(), cfg, func() {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// eventually waits for a state.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10s: %s", what)
		}
	}
}

func lines(file string) []string {
	b, _ := os.ReadFile(file)
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// pids returns the processes that the server told of.
func pids(file string) (out []int) {
	for _, l := range lines(file) {
		if _, n, ok := strings.Cut(l, " "); ok {
			if pid, err := strconv.Atoi(n); err == nil {
				out = append(out, pid)
			}
		}
	}
	return out
}

// running reports whether a process does anything: one that nobody waited for does not.
func running(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

func TestListKeepsWhatTheServerSays(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tools.json")
	os.WriteFile(file, []byte(`[
		{"name":"a","title":"A","description":"d","inputSchema":{"type":"object","properties":{"z":{"maximum":9007199254740993},"a":{"type":"string"}}},
		 "outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"title":"ignored"},"_meta":{"anthropic/alwaysLoad":true}},
		{"name":"b","inputSchema":null,"annotations":{"title":"B of old"}},
		{"name":"c","annotations":{"readOnlyHint":"yes"}},
		{"name":7},
		"nonsense",
		{"name":"d","description":{"text":"no"}}]`), 0o600)
	cfg, _ := odd(t, "-tools", file, "-page", "2")
	l, skipped, err := dial(t, cfg).List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	want := &contracts.Listing{
		Title: "The odd server", Instructions: "Use with care.",
		Tools: []contracts.Tool{
			{
				Name: "a", Title: "A", Description: "d",
				InputSchema:  json.RawMessage(`{"type":"object","properties":{"z":{"maximum":9007199254740993},"a":{"type":"string"}}}`),
				OutputSchema: json.RawMessage(`{"type":"object"}`), Annotations: &contracts.Annotations{ReadOnlyHint: &yes},
				Meta: json.RawMessage(`{"anthropic/alwaysLoad":true}`),
			},
			{Name: "b", Title: "B of old"},
		},
	}
	if diff := cmp.Diff(want, l); diff != "" {
		t.Errorf("listing (-want +got):\n%s", diff)
	}
	var names []string
	for _, s := range skipped {
		names = append(names, s.Name)
		if s.Reason == "" {
			t.Errorf("tool %q is skipped without a reason", s.Name)
		}
	}
	if want := []string{"c", "", "", "d"}; !slices.Equal(names, want) {
		t.Errorf("skipped %q, want %q", names, want)
	}
}

func TestListRefusesEndlessPages(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tools.json")
	os.WriteFile(file, []byte(`{"tools":[],"nextCursor":"again"}`), 0o600)
	cfg, _ := odd(t, "-tools", file)
	if _, _, err := dial(t, cfg).List(t.Context()); contracts.CodeOf(err) != contracts.CodeSourceUnavailable {
		t.Errorf("List of endless pages: %v, want %s", err, contracts.CodeSourceUnavailable)
	}
}

func TestCall(t *testing.T) {
	cfg, _ := odd(t, "-noise")
	c := dial(t, cfg)
	for _, tt := range []struct {
		tool, args string
		want       string // the result as JSON
		code       contracts.Code
	}{
		{"echo", `{"text":"hé"}`, `{"content":[{"type":"text","text":"hé"}]}`, ""},
		{"fail", `{}`, `{"content":[{"type":"text","text":"it did not work"}],"isError":true}`, ""},
		{"precise", `{}`, `{"content":[],"structuredContent":{"z":12345678901234567890,"a":1.10}}`, ""},
		{"holo", `{}`, `{"content":[{"type":"hologram","beam":1}]}`, ""},
		{"meta", `{}`, `{"content":[],"structuredContent":{"toolcrib/callId":"call_x"}}`, ""},
		{"rpcerror", `{}`, "", contracts.CodeToolError},
		{"missing", `{}`, "", contracts.CodeToolError},
		{"flood", `{}`, `{"content":[{"type":"text","text":"done"}]}`, ""},
	} {
		r, err := c.Call(t.Context(), tt.tool, json.RawMessage(tt.args), map[string]string{"toolcrib/callId": "call_x"})
		if got := contracts.CodeOf(err); got != tt.code {
			t.Errorf("Call(%s) error = %v, want code %q", tt.tool, err, tt.code)
		}
		if err == nil {
			if got, _ := json.Marshal(r); string(got) != tt.want {
				t.Errorf("Call(%s) = %s, want %s", tt.tool, got, tt.want)
			}
		}
	}
}

func TestCrashInMidCall(t *testing.T) {
	cfg, counter := odd(t)
	c := dial(t, cfg)
	_, err := c.Call(t.Context(), "crash", json.RawMessage(`{}`), nil)
	if contracts.CodeOf(err) != contracts.CodeOutcomeUnknown || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("Call of a crashing tool: %v, want %s with the exit status", err, contracts.CodeOutcomeUnknown)
	}
	<-c.Done()
	if _, err = c.Call(t.Context(), "echo", json.RawMessage(`{"text":"x"}`), nil); contracts.CodeOf(err) != contracts.CodeSourceUnavailable {
		t.Errorf("Call on a dead connection: %v, want %s", err, contracts.CodeSourceUnavailable)
	}
	if got := lines(counter)[1:]; !slices.Equal(got, []string{"call crash {}"}) {
		t.Errorf("the server saw %q, want one call of crash", got)
	}
}

func TestCancelReachesTheTool(t *testing.T) {
	cfg, counter := odd(t)
	c := dial(t, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		eventually(t, "the call begins", func() bool { return slices.Contains(lines(counter), "call hang {}") })
		cancel()
	}()
	if _, err := c.Call(ctx, "hang", json.RawMessage(`{}`), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Call with a cancelled context: %v, want %v", err, context.Canceled)
	}
	eventually(t, "the tool hears of it", func() bool { return slices.Contains(lines(counter), "cancelled hang") })
}

func TestDialFails(t *testing.T) {
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	for name, tt := range map[string]struct {
		ctx  context.Context
		args []string
		cmd  string
		want string
	}{
		"no program":      {t.Context(), nil, "/nonexistent/server", "no such file"},
		"dies":            {t.Context(), []string{"-die", "no token hunter2hunter2"}, "", "the server ended (exit status 7)"},
		"hangs":           {short, []string{"-hang", "initialize", "-keep-running", "-ignore-term"}, "", "did not answer in time"},
		"still starting":  {short, []string{"-delay", "1h", "-ignore-term", "-grandchild"}, "", "did not answer in time"},
		"refuses":         {t.Context(), []string{"-refuse", "initialize"}, "", "the server answered: not today"},
		"greets and ends": {t.Context(), []string{"-tools", "/nonexistent", "-hang", "initialize", "-die", "x"}, "", "exit status 7"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, counter := odd(t, tt.args...)
			cfg.Env["TOKEN"] = "hunter2hunter2"
			if tt.cmd != "" {
				cfg.Command = tt.cmd
			}
			_, err := Dial(tt.ctx, cfg, func() {})
			if contracts.CodeOf(err) != contracts.CodeSourceUnavailable || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Dial: %v, want %s with %q", err, contracts.CodeSourceUnavailable, tt.want)
			}
			if said, _ := errors.AsType[Said](err); name == "dies" && said != "no token ***" || strings.Contains(err.Error(), "no token") {
				t.Errorf("Dial: %v, caused by %q; want the server's words in the cause only, without the secret", err, said)
			}
			for _, pid := range pids(counter) {
				if running(pid) {
					t.Errorf("process %d is left", pid)
				}
			}
		})
	}
}

func TestCloseLeavesNoProcess(t *testing.T) {
	for name, args := range map[string][]string{
		"obedient":                 nil,
		"stubborn":                 {"-ignore-term", "-keep-running"},
		"with stubborn grandchild": {"-grandchild"},
		"both stubborn":            {"-grandchild", "-ignore-term", "-keep-running"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, counter := odd(t, args...)
			c := dial(t, cfg)
			if slices.Contains(args, "-grandchild") && len(pids(counter)) != 2 {
				t.Fatalf("the server told of processes %v, want 2", pids(counter))
			}
			begin := time.Now()
			c.Close()
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("Close took %v", took)
			}
			for _, pid := range pids(counter) {
				if running(pid) {
					t.Errorf("process %d is left", pid)
				}
			}
		})
	}
}

func TestCrashTakesTheGrandchildAlong(t *testing.T) {
	cfg, counter := odd(t, "-grandchild")
	c := dial(t, cfg)
	if _, err := c.Call(t.Context(), "crash", json.RawMessage(`{}`), nil); contracts.CodeOf(err) != contracts.CodeOutcomeUnknown {
		t.Errorf("Call of a crashing tool: %v, want %s", err, contracts.CodeOutcomeUnknown)
	}
	eventually(t, "all processes are gone", func() bool { return !slices.ContainsFunc(pids(counter), running) })
}

func TestEnvironment(t *testing.T) {
	cfg, _ := odd(t)
	cfg.Environ = []string{"PATH=/bin", "HOME=/nowhere", "AWS_SECRET_ACCESS_KEY=x", "LD_PRELOAD=y"}
	cfg.Env["PATH"] = "/opt"
	r, err := dial(t, cfg).Call(t.Context(), "env", json.RawMessage(`{}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"env":["HOME=/nowhere","PATH=/opt","TOOLCRIB_ODDSERVER=1"]}`
	if string(r.StructuredContent) != want {
		t.Errorf("environment = %s, want %s", r.StructuredContent, want)
	}
}

func TestChangedIsHeard(t *testing.T) {
	cfg, _ := odd(t)
	heard := make(chan struct{}, 1000)
	c, err := Dial(t.Context(), cfg, func() { heard <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Call(t.Context(), "change", json.RawMessage(`{}`), nil); err != nil {
		t.Fatal(err)
	}
	<-heard
	if n := len(heard); n > 20 {
		t.Errorf("100 notifications at once were heard %d times, want a few", n+1)
	}
}

func TestAServerThatDoesNotReadHoldsNobody(t *testing.T) {
	cfg, _ := odd(t)
	c := dial(t, cfg)
	// Stop the server: it reads no more, and its pipe fills.
	stopProcess(t, c.process.cmd.Process.Pid)
	args, _ := json.Marshal(map[string]string{"text": strings.Repeat("x", 1<<20)})
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		begin := time.Now()
		_, err := c.Call(ctx, "echo", args, nil)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > 2*time.Second {
			t.Errorf("Call of a server that does not read: %v after %v, want its deadline", err, time.Since(begin))
		}
	}
}

// modern makes a test binary a server of the SDK that is for nothing but the newest version of the protocol.
const modern = "TOOLCRIB_TEST_MODERN"

func modernMain() {
	srv := sdk.NewServer(&sdk.Implementation{Name: "modern", Version: "1"}, &sdk.ServerOptions{SupportedProtocolVersions: []string{"2026-07-28"}})
	schema := json.RawMessage(`{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"string"}}}`)
	srv.AddTool(&sdk.Tool{Name: "more", InputSchema: schema}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		srv.AddTool(&sdk.Tool{Name: "new", InputSchema: schema}, nil)
		return &sdk.CallToolResult{StructuredContent: json.RawMessage(`{"n":12345678901234567890}`)}, nil
	})
	if err := srv.Run(context.Background(), &sdk.StdioTransport{}); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

func TestVersionsOfTheProtocol(t *testing.T) {
	for offered, want := range map[string]string{versionOfProcesses: versionOfProcesses, "": "2026-07-28"} {
		heard := make(chan struct{}, 10)
		cfg := Config{Command: os.Args[0], Env: map[string]string{modern: "1"}}
		c, _, err := dialProcess(t.Context(), cfg, func() { heard <- struct{}{} }, offered)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if got := c.session.InitializeResult().ProtocolVersion; got != want {
			t.Errorf("offered %q: version %s, want %s", offered, got, want)
		}
		for tools := 1; tools <= 2; tools++ {
			for range 2 { // what the session may keep is the same
				l, _, err := c.List(t.Context())
				if err != nil || len(l.Tools) != tools || !strings.Contains(string(l.Tools[0].InputSchema), `"properties":{"z":`) {
					t.Fatalf("List = %+v, %v, want %d tools", l, err, tools)
				}
			}
			r, err := c.Call(t.Context(), "more", json.RawMessage(`{}`), nil)
			if err != nil || string(r.StructuredContent) != `{"n":12345678901234567890}` {
				t.Errorf("Call = %+v, %v, want the exact number", r, err)
			}
		}
		<-heard
	}
}
