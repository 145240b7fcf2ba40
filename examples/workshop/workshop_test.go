package workshop

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// patience is how long a test waits for a state before it fails.
const patience = 20 * time.Second

var client = &mcp.Implementation{Name: "workshop-test", Version: "1"}

// inMemory serves cfg inside the test.
func inMemory(t *testing.T, cfg Config) *mcp.ClientSession {
	t.Helper()
	return connect(t, serving(t, cfg), nil)
}

func serving(t *testing.T, cfg Config) mcp.Transport {
	t.Helper()
	srv, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return session(t, srv)
}

// session opens one more session of srv and returns the client's end.
func session(t *testing.T, srv *mcp.Server) mcp.Transport {
	t.Helper()
	here, there := mcp.NewInMemoryTransports()
	if _, err := srv.Connect(t.Context(), there, nil); err != nil {
		t.Fatal(err)
	}
	return here
}

func connect(t *testing.T, tr mcp.Transport, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	cs, err := mcp.NewClient(client, opts).Connect(t.Context(), tr, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cs.Close() })
	return cs
}

func listed(t *testing.T, cs *mcp.ClientSession) map[string]*mcp.Tool {
	t.Helper()
	tools := map[string]*mcp.Tool{}
	for tool, err := range cs.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if tools[tool.Name] != nil {
			t.Errorf("the name %s is listed twice", tool.Name)
		}
		tools[tool.Name] = tool
	}
	return tools
}

func called(t *testing.T, cs *mcp.ClientSession, name, args string) *mcp.CallToolResult {
	t.Helper()
	res, err := try(t.Context(), cs, name, args)
	if err != nil {
		t.Fatalf("call %s(%s): %v", name, args, err)
	}
	return res
}

func try(ctx context.Context, cs *mcp.ClientSession, name, args string) (*mcp.CallToolResult, error) {
	p := &mcp.CallToolParams{Name: name}
	if args != "" {
		p.Arguments = json.RawMessage(args)
	}
	return cs.CallTool(ctx, p)
}

// text is all the text of a result.
func text(res *mcp.CallToolResult) string {
	var b strings.Builder
	for _, c := range res.Content {
		if tc, ok := c.(*mcp.TextContent); ok {
			b.WriteString(tc.Text)
		}
	}
	return b.String()
}

// eventually waits until ok, asking again and again.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// buildDir is a folder that is removed after all tests.
var buildDir = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "workshop-test") })

// binary builds the command once for all tests.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := buildDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "workshop")
	out, err := exec.Command("go", "build", "-o", path, "../cmd/workshop").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := buildDir(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return exec.Command(path, args...)
}

// overHTTP starts the command with HTTP and returns it and its URL.
func overHTTP(t *testing.T, args ...string) (*exec.Cmd, string) {
	t.Helper()
	cmd := command(t, append(args, "--http", "127.0.0.1:0")...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	line, err := bufio.NewReader(stderr).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "workshop ready http=")
	if err != nil || !ok {
		t.Fatalf("the first line is %q (%v), want workshop ready http=...", line, err)
	}
	return cmd, url
}

// transports gives each way to reach a server of its own.
func transports() map[string]func(*testing.T) mcp.Transport {
	return map[string]func(*testing.T) mcp.Transport{
		"memory": func(t *testing.T) mcp.Transport { return serving(t, Config{}) },
		"stdio":  func(t *testing.T) mcp.Transport { return &mcp.CommandTransport{Command: command(t)} },
		"http": func(t *testing.T) mcp.Transport {
			_, url := overHTTP(t)
			return &mcp.StreamableClientTransport{Endpoint: url}
		},
	}
}

func TestTransports(t *testing.T) {
	want := len(exposed())
	for name, transport := range transports() {
		t.Run(name, func(t *testing.T) {
			cs := connect(t, transport(t), nil)
			if got := len(listed(t, cs)); got != want {
				t.Errorf("%d tools are listed, want %d", got, want)
			}
			if got := text(called(t, cs, "dat_ve_xe", `{"diem_di":"Hà Nội","diem_den":"Huế","ngay":"2026-03-08","ho_ten":"An"}`)); !strings.Contains(got, "Hà Nội → Huế") {
				t.Errorf("dat_ve_xe = %s", got)
			}
			if _, err := try(t.Context(), cs, "no_such_tool", ""); err == nil {
				t.Error("a tool that does not exist can be called")
			}
			if n := len(text(called(t, cs, "export_report", `{"rows":50000}`))); n < 1_000_000 {
				t.Errorf("50,000 rows are %d bytes", n)
			}
		})
	}
}

func TestBackupProgress(t *testing.T) {
	for name, transport := range transports() {
		t.Run(name, func(t *testing.T) {
			steps := make(chan float64, 100)
			cs := connect(t, transport(t), &mcp.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
					steps <- r.Params.Progress / r.Params.Total
				},
			})
			p := &mcp.CallToolParams{Name: "run_backup", Arguments: json.RawMessage(`{"seconds":0.5}`)}
			p.SetProgressToken("backup")
			if res, err := cs.CallTool(t.Context(), p); err != nil || res.IsError {
				t.Fatalf("run_backup: %+v, %v", res, err)
			}
			for last := 0.0; last < 1; {
				select {
				case s := <-steps:
					if s <= last {
						t.Fatalf("progress goes from %v to %v", last, s)
					}
					last = s
				case <-time.After(patience):
					t.Fatalf("the last progress is %v, want 1", last)
				}
			}
		})
	}
}

func TestBackupCancel(t *testing.T) {
	for name, transport := range transports() {
		t.Run(name, func(t *testing.T) {
			cs := connect(t, transport(t), nil)
			state := func(want string) func() bool {
				return func() bool { return strings.Contains(text(called(t, cs, "workshop_status", "")), want) }
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := try(ctx, cs, "run_backup", `{"seconds":60}`)
				ended <- err
			}()
			eventually(t, "the backup runs", state(`"running":1`))
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the cancelled call ends with %v", err)
			}
			eventually(t, "the server stops the backup", state(`"backups":{"cancelled":1,"done":0,"running":0}`))
		})
	}
}

// TestConcurrent runs all samples at once in several sessions of one server.
func TestConcurrent(t *testing.T) {
	srv, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	const sessions, workers = 2, 4
	names := exposed()
	var wg sync.WaitGroup
	for range sessions {
		cs := connect(t, session(t, srv), nil)
		for range workers {
			wg.Go(func() {
				for _, s := range samples() {
					if _, err := try(t.Context(), cs, names[s.area+"/"+s.tool], s.args); err != nil {
						t.Errorf("call %s: %v", s.tool, err)
					}
				}
			})
		}
	}
	wg.Wait()
	cs := connect(t, session(t, srv), nil)
	if got, want := text(called(t, cs, "read_counter", `{"counter":"a"}`)), fmt.Sprintf(`"value":%d`, 2*sessions*workers); !strings.Contains(got, want) {
		t.Errorf("the counter is %s, want %s", got, want)
	}
}

// TestCounterFile kills the server in the middle of a call: the file still
// shows that the call was executed, and once only.
func TestCounterFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "count.jsonl")
	lines := func() []string {
		b, _ := os.ReadFile(file)
		return strings.SplitAfter(string(b), "\n")
	}
	cmd := command(t, "--areas", "ops", "--counter-file", file)
	cs := connect(t, &mcp.CommandTransport{Command: cmd}, nil)
	called(t, cs, "increment_counter", `{"note":"first"}`)
	ended := make(chan error, 1)
	go func() {
		_, err := try(t.Context(), cs, "increment_counter", `{"by":4,"note":"second","hold_ms":60000}`)
		ended <- err
	}()
	eventually(t, "the second line is written", func() bool { return len(lines()) == 3 })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("the call of a killed server ends without an error")
	}

	again := connect(t, &mcp.CommandTransport{Command: command(t, "--areas", "ops", "--counter-file", file)}, nil)
	if got := text(called(t, again, "increment_counter", `{"note":"third"}`)); !strings.Contains(got, `"value":1`) {
		t.Errorf("a new process counts %s, want 1", got)
	}
	got := lines()
	if len(got) != 4 || !strings.Contains(got[1], `"note":"second"`) || !strings.Contains(got[1], `"value":5`) || !strings.Contains(got[2], `"third"`) {
		t.Errorf("the counter file has the lines %q, want first, second and third", got)
	}
}

func TestCommandEnds(t *testing.T) {
	stdio := command(t)
	cs := connect(t, &mcp.CommandTransport{Command: stdio}, nil)
	if err := cs.Close(); err != nil || stdio.ProcessState.ExitCode() != 0 {
		t.Errorf("closing stdin ends the command with %v (%v), want exit code 0", stdio.ProcessState, err)
	}

	cmd, url := overHTTP(t, "--name", "desk")
	web := connect(t, &mcp.StreamableClientTransport{Endpoint: url}, nil)
	if got := web.InitializeResult().ServerInfo.Name; got != "desk" {
		t.Errorf("serverInfo.name = %q, want desk", got)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("SIGTERM ends the command with %v, want exit code 0", err)
	}

	for _, args := range [][]string{{"--areas", "garage"}, {"stray"}} {
		out, err := command(t, args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), args[len(args)-1]) {
			t.Errorf("workshop %q says %s (%v), want an error that names the argument", args, out, err)
		}
	}
}
