package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// The tests here run the real binary, as users do. TestMain builds it.
var binary string

// replayEnv has the test binary be an MCP server that replays a stored listing.
const replayEnv = "TOOLCRIB_TEST_REPLAY"

func TestMain(m *testing.M) {
	if file := os.Getenv(replayEnv); file != "" {
		if err := replay(context.Background(), file); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(build(m))
}

func build(m *testing.M) int {
	dir, err := os.MkdirTemp("", "toolcrib-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "toolcrib")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// npmDir is where make npm puts the public MCP servers and clients.
const npmDir = "../../examples/npm"

// npm returns the path of a program of the npm packages, which it installs where they are missing.
func npm(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(npmDir, "node_modules", ".bin", name))
	if err != nil {
		t.Fatal(err)
	}
	installNPM(t)
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	return path
}

var installOnce sync.Once

func installNPM(t *testing.T) {
	t.Helper()
	installOnce.Do(func() {
		if _, err := os.Stat(filepath.Join(npmDir, "node_modules", ".package-lock.json")); err == nil {
			return
		}
		cmd := exec.Command("npm", "ci", "--no-audit", "--no-fund")
		cmd.Dir = npmDir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("npm ci: %v\n%s", err, out)
		}
	})
}

// A server is a toolcrib up in a process of its own.
type server struct {
	url  string
	data string
	cmd  *exec.Cmd
	done chan error

	mu    sync.Mutex
	wrote strings.Builder // to its log
}

// log returns what the server wrote to its log.
func (s *server) log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wrote.String()
}

// Write takes what the server writes to its log.
func (s *server) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wrote.Write(b)
}

// up starts the binary with a configuration of the MCP servers and waits until it serves. It ends with t.
func up(t *testing.T, data string, servers map[string]any, more ...string) *server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mcp.json")
	write(t, file, string(asJSON(t, map[string]any{"mcpServers": servers})))
	return start(t, data, append([]string{"--mcp-config", file}, more...)...)
}

// start starts the binary with the flags and waits until it serves. It ends with t.
func start(t *testing.T, data string, flags ...string) *server {
	t.Helper()
	s := &server{data: data, cmd: exec.Command(binary, append([]string{"up", "--listen", "127.0.0.1:0", "--data", data}, flags...)...), done: make(chan error, 1)}
	s.cmd.Stderr = io.MultiWriter(testWriter{t}, s)
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for s.url == "" && lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "toolcrib ready http="); ok {
			s.url, _, _ = strings.Cut(rest, " ")
		}
	}
	go func() {
		io.Copy(io.Discard, out)
		s.done <- s.cmd.Wait()
	}()
	if s.url == "" {
		t.Fatalf("up ended before it was ready: %v", <-s.done)
	}
	t.Cleanup(func() { s.stop(t) })
	return s
}

// stop ends the server as an operator would and checks that it ends well.
func (s *server) stop(t *testing.T) {
	t.Helper()
	if s.done == nil {
		return
	}
	s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-s.done:
		if err != nil {
			t.Errorf("up ended with %v", err)
		}
	case <-time.After(time.Minute):
		s.cmd.Process.Kill()
		t.Error("up did not end in a minute")
	}
	s.done = nil
}

// kill ends the server as a crash would.
func (s *server) kill(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-s.done
	s.done = nil
}

func (s *server) client() *client.Client { return client.New(s.url, "") }

// admin returns a client that may administer.
func (s *server) admin(t *testing.T) *client.Client {
	t.Helper()
	return client.New(s.url, adminToken(t, s))
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Logf("%s", strings.TrimRight(string(b), "\n"))
	return len(b), nil
}

// exampleServer returns the configuration of a workshop with the areas.
func exampleServer(areas string, more ...string) map[string]any {
	return map[string]any{"command": binary, "args": append([]string{"workshop", "--areas", areas}, more...)}
}

func openRun(t *testing.T, c *client.Client, o client.RunOptions) *client.RunView {
	t.Helper()
	o.WaitForSources = 60_000
	r, err := c.OpenRun(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Pending)+len(r.Failed) > 0 {
		t.Fatalf("pending %v, failed %v; want every source ready", r.Pending, r.Failed)
	}
	return r
}

func call(t *testing.T, c *client.Client, run contracts.RunID, tool, args string) *client.CallAnswer {
	t.Helper()
	o, err := c.Call(t.Context(), run, client.CallRequest{Name: tool, Arguments: json.RawMessage(args)})
	if err != nil {
		t.Fatalf("call %s: %v", tool, err)
	}
	return o
}

// eventually polls until ok, for a state that another process brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(90 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not seen in time: %s", what)
		}
	}
}

func asJSON(t *testing.T, v any) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
