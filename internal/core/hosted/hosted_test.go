package hosted

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A fake is a service whose readiness and end a test decides.
type fake struct {
	mu      sync.Mutex
	unready error
	end     chan error    // what Run returns, if anything
	drain   chan struct{} // closed when the service may stop
	bus     *bus.Bus
}

func newFake() *fake { return &fake{end: make(chan error, 1), drain: make(chan struct{})} }

func (f *fake) Name() string     { return "fake" }
func (f *fake) Layers() []string { return []string{"wall"} }

func (f *fake) Ready(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unready
}

func (f *fake) become(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unready = err
}

func (f *fake) Run(ctx context.Context) error {
	select {
	case err := <-f.end:
		return err
	case <-ctx.Done():
	}
	<-f.drain
	return nil
}

// A process is a program that runs in this one.
type process struct {
	t      *testing.T
	health string
	stderr *lines
	code   chan int
}

// lines is a buffer that may be read while it is written.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func configFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "toolcrib.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func start(t *testing.T, f *fake, url string) *process {
	t.Helper()
	p := &process{t: t, health: freeAddress(t), stderr: &lines{}, code: make(chan int, 1)}
	program := Program{Name: "fake", Open: func(_ context.Context, s Setting) (Service, error) {
		f.bus = s.Bus
		return f, nil
	}}
	args := []string{"--config", configFile(t, `{"nats":{"url":"${env:NATS}"}}`), "--health", p.health}
	go func() { p.code <- program.Main(args, []string{"NATS=" + url}, p.stderr) }()
	return p
}

// probe returns the status and the text of a probe.
func (p *process) probe(path string) (int, string) {
	res, err := http.Get("http://" + p.health + path)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusOK && res.Header.Get("Content-Type") != "application/problem+json" {
		p.t.Errorf("%s answers %s with %s", path, res.Status, res.Header.Get("Content-Type"))
	}
	return res.StatusCode, string(b)
}

func (p *process) eventually(status int, says string) {
	p.t.Helper()
	natstest.Eventually(p.t, "/readyz says "+says, func() bool {
		got, text := p.probe("/readyz")
		return got == status && strings.Contains(text, says)
	})
}

func (p *process) signal() { syscall.Kill(os.Getpid(), syscall.SIGTERM) }

// The life of a process: it starts before its server, is ready when the service is, tells when either is not, and stops when told to.
func TestReadinessTellsTheTruth(t *testing.T) {
	s := natstest.Listen(t, server.Options{})
	s.Stop()
	f := newFake()
	p := start(t, f, s.URL)
	p.eventually(http.StatusServiceUnavailable, "waits for nats")
	if status, _ := p.probe("/healthz"); status != http.StatusOK {
		t.Errorf("/healthz = %d while it waits", status)
	}
	if !strings.Contains(p.stderr.String(), "waits for nats") {
		t.Errorf("the log does not say what it waits for: %s", p.stderr)
	}
	if n := strings.Count(p.stderr.String(), "waits for nats"); n != 1 {
		t.Errorf("the log says %d times what it waits for", n)
	}
	s.Start(t)
	p.eventually(http.StatusOK, `"layers":["wall"]`)
	if got := f.bus.Conn.Opts.Name; got != "fake" || !strings.HasPrefix(f.bus.Conn.NewInbox(), "_INBOX.fake.") {
		t.Errorf("the connection is called %q, its inboxes %q", got, f.bus.Conn.NewInbox())
	}
	if code := checkHealth(p.health, io.Discard); code != 0 {
		t.Errorf("--check-health = %d", code)
	}
	f.become(contracts.Errorf(contracts.CodeUnavailable, "no state yet"))
	p.eventually(http.StatusServiceUnavailable, "no state yet")
	if code := checkHealth(p.health, io.Discard); code != 1 {
		t.Errorf("--check-health = %d", code)
	}
	f.become(nil)
	s.Stop()
	p.eventually(http.StatusServiceUnavailable, "nats is lost")
	s.Start(t)
	p.eventually(http.StatusOK, "ok")

	p.signal()
	p.eventually(http.StatusServiceUnavailable, "stopping")
	close(f.drain)
	if code := <-p.code; code != 0 {
		t.Errorf("exit code %d, want 0: %s", code, p.stderr)
	}
}

func TestASecondSignalEndsAtOnce(t *testing.T) {
	s := natstest.Listen(t, server.Options{})
	f := newFake()
	p := start(t, f, s.URL)
	p.eventually(http.StatusOK, "ok")
	p.signal()
	p.eventually(http.StatusServiceUnavailable, "stopping")
	p.signal()
	if code := <-p.code; code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	close(f.drain)
}

func TestAStopWhileItWaitsIsClean(t *testing.T) {
	p := start(t, newFake(), "nats://"+freeAddress(t))
	p.eventually(http.StatusServiceUnavailable, "waits for nats")
	p.signal()
	if code := <-p.code; code != 0 {
		t.Errorf("exit code %d, want 0: %s", code, p.stderr)
	}
}

func TestAFailureIsToldOnce(t *testing.T) {
	s := natstest.Listen(t, server.Options{})
	f := newFake()
	f.end <- errors.New("broke")
	p := start(t, f, s.URL)
	if code := <-p.code; code != 1 || strings.Count(p.stderr.String(), "broke") != 1 {
		t.Errorf("exit code %d, said %s", code, p.stderr)
	}
}

func TestWhatCannotBeUsed(t *testing.T) {
	program := Program{Name: "fake", Open: func(context.Context, Setting) (Service, error) {
		return nil, contracts.Errorf(contracts.CodeInvalid, "bad setting")
	}}
	for _, tt := range []struct {
		name string
		args []string
		says string
	}{
		{"an unknown flag", []string{"--nonsense"}, "nonsense"},
		{"an argument", []string{"nonsense"}, "nonsense"},
		{"no file", nil, "--config"},
		{"a missing file", []string{"--config", filepath.Join(t.TempDir(), "missing.yaml")}, "missing.yaml"},
		{"a wrong file", []string{"--config", configFile(t, `{"nonsense":1}`)}, "nonsense"},
		{"no server", []string{"--config", configFile(t, `{}`)}, "nats.url"},
		{"no variable", []string{"--config", configFile(t, `{"nats":{"url":"${env:MISSING}"}}`)}, "MISSING"},
		{"no credentials", []string{"--config", configFile(t, `{"nats":{"url":"nats://127.0.0.1:1","creds":"/does/not/exist"}}`)}, "/does/not/exist"},
		{"a wrong level", []string{"--log-level", "loud"}, "loud"},
		{"what no service honours", []string{"--config", configFile(t, `{"nats":{"url":"nats://127.0.0.1:1"},"limits":{"maxRuns":1}}`)}, "maxRuns"},
	} {
		out := &lines{}
		if code := program.Main(append(tt.args, "--health", ""), nil, out); code != 2 || !strings.Contains(out.String(), tt.says) {
			t.Errorf("%s: exit code %d, want 2; said %s", tt.name, code, out)
		}
	}
	if code := program.Main([]string{"--help"}, nil, io.Discard); code != 0 {
		t.Errorf("--help: exit code %d", code)
	}
	if code := checkHealth("nonsense", io.Discard); code != 2 {
		t.Errorf("--check-health of no address: exit code %d", code)
	}
}

func TestProblemDocuments(t *testing.T) {
	h := newHealth("fake")
	stop, err := h.listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop()
	stop, err = h.listen(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	stop()
	addr := freeAddress(t)
	if stop, err = h.listen(t.Context(), addr); err != nil {
		t.Fatal(err)
	}
	defer stop()
	res, err := http.Get("http://" + addr + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var problem struct {
		Type, Title, Detail string
		Status              int
		Code                contracts.Code
	}
	if err := json.NewDecoder(res.Body).Decode(&problem); err != nil || problem.Status != 503 || problem.Code != contracts.CodeUnavailable || problem.Detail == "" {
		t.Errorf("problem %+v, %v", problem, err)
	}
}
