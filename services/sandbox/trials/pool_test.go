package trials

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/services/sandbox/worker"
)

// binary is the worker that all tests start.
var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "toolcrib-trials-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	temp := filepath.Join(dir, "tmp") // for this process alone, so that all that is left there is its own
	if err := errors.Join(os.Mkdir(temp, 0o700), os.Setenv("TMPDIR", temp)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	binary = filepath.Join(dir, "sandbox-worker")
	cmd := exec.Command("go", "build", "-o", binary, "github.com/toolcrib/toolcrib/services/sandbox/cmd/sandbox-worker")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the worker: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// openPool opens a pool for t. When t ends, the pool is closed, and nothing may be left of it.
func openPool(t testing.TB, cfg worker.Config) *worker.Pool {
	t.Helper()
	before := leftovers(t)
	if cfg.Command == nil {
		cfg.Command = []string{binary}
	}
	if cfg.CacheDir == "" {
		cfg.CacheDir = cacheDir(t)
	}
	p, err := worker.Open(context.Background(), cfg, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
		eventually(t, func() string {
			after := leftovers(t)
			if after.goroutines <= before.goroutines && after.descriptors <= before.descriptors && slices.Equal(after.files, before.files) && after.processes <= before.processes {
				return ""
			}
			return fmt.Sprintf("left over: %+v, before it was %+v\n%s", after, before, stacks())
		})
	})
	return p
}

// cacheDir gives a folder of compiled code that all tests of the user share, since compiling takes seconds.
func cacheDir(t testing.TB) string {
	t.Helper()
	dir, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "toolcrib-test-engine")
}

// leftover is what could be left over.
type leftover struct {
	goroutines, descriptors, processes int
	files                              []string
}

func leftovers(t testing.TB) leftover {
	t.Helper()
	pids, err := Descendants()
	if err != nil {
		t.Fatal(err)
	}
	descriptors, err := Descriptors()
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(os.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "Test") { // the tests' own
			files = append(files, e.Name())
		}
	}
	return leftover{goroutines: runtime.NumGoroutine(), descriptors: descriptors, processes: len(pids), files: files}
}

func stacks() string {
	buf := make([]byte, 64<<10)
	return string(buf[:runtime.Stack(buf, true)])
}

// eventually waits until wrong finds nothing wrong any more, for 10 s at most.
func eventually(t testing.TB, wrong func() string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		text := wrong()
		if text == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not within 10 s: %s", text)
		}
	}
}
