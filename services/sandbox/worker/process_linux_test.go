//go:build amd64 || arm64

package worker

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolcrib/toolcrib/services/sandbox/engine"
)

// The test's own program is also a worker, with a stub for the engine, and some things that only look like one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch args := os.Args[2:]; os.Args[1] {
		case "stub", "sandbox-worker":
			os.Exit(mainWith(args, openStub))
		case "old":
			os.Exit(impostor(ready{Protocol: protocol - 1}))
		case "naked":
			os.Exit(impostor(ready{Protocol: protocol, Layers: []string{layerProcess}}))
		case "deaf":
			os.Exit(impostor(ready{Protocol: protocol, Layers: layers}))
		case "noisy":
			for {
				fmt.Fprintln(os.Stderr, strings.Repeat("noise ", 1000))
			}
		case "supervisor":
			os.Exit(supervise())
		}
	}
	os.Exit(run(m))
}

// scratch is a folder for all tests.
var scratch string

func run(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "toolcrib-test-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(scratch)
	return m.Run()
}

func openStub(string, int64) (runner, error) {
	parent := uintptr(os.Getppid())
	return stub{die: func() { os.Exit(9) }, attack: func(name string) string {
		name = strings.ReplaceAll(name, "_", " ")
		return attacks(parent)[name].do()
	}}, nil
}

// impostor gets ready as r says, takes the first body, and then neither reads nor ends.
func impostor(r ready) int {
	conn := os.NewFile(fdConn, "service")
	_, _ = readFrame(conn)
	out, _ := encode(kindReady, 0, r)
	_, _ = conn.Write(out)
	_, _ = readFrame(conn)
	for {
		<-time.After(time.Hour) // the runtime ends a program in which nobody waits for anything
	}
}

// builds are the programs of this package's tests, without the race detector: with and without the C library.
var builds = map[string]func() (string, error){
	"0": sync.OnceValues(func() (string, error) { return build("0", "worker.test", "test", "-c", ".") }),
	"1": sync.OnceValues(func() (string, error) { return build("1", "worker.test", "test", "-c", ".") }),
}

// build runs the go command to make a program.
func build(cgo, name, verb string, args ...string) (string, error) {
	out := filepath.Join(scratch, name+cgo)
	cmd := exec.Command("go", append([]string{verb, "-o", out}, args...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%v: %w: %s", cmd, err, text)
	}
	return out, nil
}

// testProgram gives the file of such a program.
func testProgram(t testing.TB, cgo string) string {
	t.Helper()
	out, err := builds[cgo]()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// processPool opens a pool whose workers are the test's program with the given argument.
func processPool(t testing.TB, cfg Config, cgo, arg string) (*Pool, error) {
	t.Helper()
	cfg.Command = []string{testProgram(t, cgo), arg}
	return openPool(t, cfg, t.Output())
}

func openPool(t testing.TB, cfg Config, log io.Writer) (*Pool, error) {
	t.Helper()
	p, err := openStubs(t, cfg, newStubForker(t, cfg), log)
	if p != nil {
		t.Cleanup(func() {
			if err := p.Close(); err != nil {
				t.Errorf("Close() = %v", err)
			}
		})
	}
	return p, err
}

// lines keeps a log.
type lines struct {
	mu   sync.Mutex
	text []byte
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b...)
	return len(b), nil
}

func (l *lines) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Count(l.text, []byte(what))
}

func newStubForker(t testing.TB, cfg Config) *forker {
	t.Helper()
	cfg.CacheDir = filepath.Join(t.TempDir(), "compiled")
	l, err := newForker(cfg, sealedImage(), sealedImage())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func openStubs(t testing.TB, cfg Config, l launcher, log io.Writer) (*Pool, error) {
	t.Helper()
	cfg, err := cfg.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return open(t.Context(), cfg, slog.New(slog.NewTextHandler(log, nil)), l)
}

// sealedImage is a memory file that cannot be changed, as the snapshots are.
func sealedImage() *os.File {
	fd, err := unix.MemfdCreate("image", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		panic(err)
	}
	f := os.NewFile(uintptr(fd), "image")
	if err := f.Truncate(1 << 16); err != nil {
		panic(err)
	}
	if _, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW); err != nil {
		panic(err)
	}
	return f
}

// pids are the processes of a pool's workers.
func pids(p *Pool) []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []int
	for m := range p.roster.members {
		all = append(all, m.child.proc.(*osProcess).cmd.Process.Pid)
	}
	slices.Sort(all)
	return all
}

// alive reports whether a process is there and no zombie.
func alive(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(text), ") ")
	return !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

// Whoever runs his own machine code in a worker gets nowhere, and harms nobody but his own tenant.
func TestAttacks(t *testing.T) {
	var log lines
	p, err := openPool(t, Config{Workers: 3, Command: []string{testProgram(t, "0"), "stub"}}, &log)
	if err != nil {
		t.Fatal(err)
	}
	neighbour := newDoor(nil)
	ended := make(chan engine.Ending)
	go func() { ended <- p.Run(t.Context(), "neighbour", engine.Body{Code: "ask:x await:1"}, neighbour) }()
	eventually(t, "the neighbour's body runs", func() bool { return neighbour.asked() == 1 })
	for _, name := range slices.Sorted(maps.Keys(attacks(0))) {
		t.Run(name, func(t *testing.T) {
			want := attacks(0)[name].want
			before := log.count("bad system call")
			d := newDoor(nil)
			end := p.Run(t.Context(), "attacker", engine.Body{Code: "log:up attack:" + strings.ReplaceAll(name, " ", "_")}, d)
			got := killed
			if told(end) != "unavailable" {
				got, _ = strconv.Unquote(told(end))
			}
			if got != want || len(d.logged()) != 1 {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
			if want == killed {
				eventually(t, "its death is noticed", func() bool { return log.count("bad system call") > before })
			}
		})
	}
	neighbour.answers <- engine.Answer{ID: 1, Value: []byte("7")}
	if got := told(<-ended); got != "7" {
		t.Errorf("the neighbour's body ends with %s, want 7", got)
	}
}

// The filter must not keep a worker from its work, with the C library or without.
func TestLockedWorkersWork(t *testing.T) {
	for cgo := range builds {
		t.Run("CGO_ENABLED="+cgo, func(t *testing.T) {
			p, err := processPool(t, Config{Workers: 2, Require: []string{layerSeccomp, layerNoNewPrivs, layerRlimits, layerUndumpable, layerParentDeath}}, cgo, "stub")
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for range 60 {
				wg.Go(func() { // threads, timers, large frames, garbage to collect
					for _, code := range []string{"log:a big:200000", "args:50000 nap:x await:2", "busy:1 value:1"} {
						end := p.Run(t.Context(), "acme", engine.Body{Code: code, Limits: engine.Limits{Timeout: time.Minute}}, newDoor(echo))
						if end.Failure != nil {
							t.Errorf("Run(%s) = %s", code, told(end))
						}
					}
				})
			}
			wg.Wait()
			if s := p.Stats(); s.Died+s.Killed != 0 {
				t.Errorf("Stats() = %+v, want no dead", s)
			}
		})
	}
}

// status reads a line of all threads' status.
func status(t *testing.T, pid int, key string) []string {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(files) == 0 {
		t.Fatalf("process %d has no threads: %v", pid, err)
	}
	var all []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread ended
		}
		_, rest, _ := strings.Cut(string(text), "\n"+key+":")
		value, _, _ := strings.Cut(rest, "\n")
		if value = strings.Join(strings.Fields(value), " "); !slices.Contains(all, value) {
			all = append(all, value)
		}
	}
	return all
}

// What the layers say is so, seen from outside.
func TestLayers(t *testing.T) {
	for cgo := range builds {
		t.Run("CGO_ENABLED="+cgo, func(t *testing.T) {
			p, err := processPool(t, Config{}, cgo, "stub")
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("layers: %s", strings.Join(p.Layers(), ", "))
			has := func(layer string) bool { return slices.Contains(p.Layers(), layer) }
			pid := pids(p)[0]
			for _, tt := range []struct {
				layer, key, want string
			}{
				{layerSeccomp, "Seccomp", "2"},
				{layerNoNewPrivs, "NoNewPrivs", "1"},
				{layerNobody, "Uid", "65534 65534 65534 65534"},
				{layerNobody, "Gid", "65534 65534 65534 65534"},
				{layerNobody, "Groups", ""},
				{layerNobody, "CapEff", "0000000000000000"},
				{layerNobody, "CapPrm", "0000000000000000"},
				{layerNobody, "CapAmb", "0000000000000000"},
			} {
				if got := status(t, pid, tt.key); has(tt.layer) && !slices.Equal(got, []string{tt.want}) {
					t.Errorf("%s: %s of the threads is %q, want %q", tt.layer, tt.key, got, tt.want)
				}
			}
			for layer, ns := range map[string]string{layerUserNS: "user", layerNetNS: "net", layerPidNS: "pid", layerMountNS: "mnt", layerIpcNS: "ipc", layerUtsNS: "uts"} {
				theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, ns))
				ours, _ := os.Readlink("/proc/self/ns/" + ns)
				if has(layer) && (err != nil || theirs == ours) {
					t.Errorf("%s: %s, ours %s, %v", layer, theirs, ours, err)
				}
			}
			root, err := os.ReadDir(fmt.Sprintf("/proc/%d/root", pid))
			if has(layerEmptyRoot) && (err != nil || len(root) > 0) {
				t.Errorf("%s: %v, %v", layerEmptyRoot, root, err)
			}
			environ(t, pid)
			if group, err := unix.Getpgid(pid); err != nil || group != pid {
				t.Errorf("process group %d, %v, want %d", group, err, pid)
			}
			if nice, err := unix.Getpriority(unix.PRIO_PROCESS, pid); has(layerNice) && (err != nil || 20-nice != niceness) {
				t.Errorf("niceness %d, %v, want %d", 20-nice, err, niceness)
			}
			descriptors(t, pid)
		})
	}
}

// hidden reports whether err is right for somebody who is not root and looks into a worker.
func hidden(err error) bool { return os.Geteuid() != 0 && errors.Is(err, os.ErrPermission) }

func environ(t *testing.T, pid int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if got := strings.Trim(string(text), "\x00"); !hidden(err) && (err != nil || got != strings.Join(environment, "\x00")) {
		t.Errorf("a worker's environment is %q, %v", got, err)
	}
}

// descriptors checks what a worker has open.
func descriptors(t *testing.T, pid int) {
	t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if hidden(err) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		link, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, f.Name()))
		kind, _, _ := strings.Cut(link, ":")
		if strings.HasPrefix(kind, "/proc/") {
			kind = path.Base(kind)
		}
		got = append(got, kind)
	}
	slices.Sort(got)
	want := []string{"/dev/null", "/dev/null", "/memfd", "/memfd", "anon_inode", "anon_inode", "pagemap", "pipe", "socket"}
	if !slices.Equal(got, want) {
		t.Errorf("a worker has open %v, want %v", got, want)
	}
}

func TestWrongWorkers(t *testing.T) {
	for arg, want := range map[string]string{
		"old":     "both must be of one build",
		"naked":   "seccomp",
		"noisy":   "noise",
		"-test.x": "flag",
	} {
		t.Run(arg, func(t *testing.T) {
			if _, err := processPool(t, Config{}, "0", arg); err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 3*keptStderr {
				t.Errorf("open() = %v, want %q in it", err, want)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		if _, err := openStubs(t, Config{}, newStubForker(t, Config{Command: []string{"/nowhere/worker"}}), t.Output()); err == nil || !strings.Contains(err.Error(), "/nowhere/worker") {
			t.Errorf("open() = %v", err)
		}
	})
}

// A worker that lacks a layer which it must have does not run bodies.
func TestWorkerFailsClosed(t *testing.T) {
	l := newStubForker(t, Config{Command: []string{testProgram(t, "0"), "stub"}})
	l.level.Store(int32(len(confinements(os.Geteuid() == 0)) - 1)) // as where there are no namespaces
	_, err := openStubs(t, Config{Require: []string{layerSeccomp, layerMountNS}}, l, t.Output())
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), layerMountNS) {
		t.Errorf("start of a worker that lacks a layer = %v, want exit status 3", err)
	}
}

// Where namespaces cannot be had, the other layers are there all the same.
func TestWithoutNamespaces(t *testing.T) {
	all := confinements(os.Geteuid() == 0)
	for level := range all {
		l := newStubForker(t, Config{Command: []string{testProgram(t, "0"), "stub"}})
		l.level.Store(int32(level))
		p, err := openStubs(t, Config{}, l, t.Output())
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d: %s", level, strings.Join(p.Layers(), ", "))
		if gone := missing(append([]string{layerProcess, layerSeccomp, layerNoNewPrivs, layerRlimits, layerUndumpable, layerParentDeath}, all[level].layers...), p.Layers()); len(gone) > 0 {
			t.Errorf("level %d lacks %v", level, gone)
		}
		if got := told(p.Run(t.Context(), "acme", engine.Body{Code: "value:1"}, newDoor(nil))); got != "1" {
			t.Errorf("level %d: Run() = %s, want 1", level, got)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestCacheDirIsTrusted(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := newForker(Config{CacheDir: dir}); err == nil || !strings.Contains(err.Error(), "0777") {
		t.Errorf("newForker(a folder for all) = %v", err)
	}
}

func TestMainByHand(t *testing.T) {
	for _, args := range [][]string{nil, {"serve"}, {"help"}, {"warm", "x"}} {
		cmd := exec.Command(testProgram(t, "0"), append([]string{"stub"}, args...)...)
		text, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != exitUsage || !strings.Contains(string(text), "by hand") {
			t.Errorf("worker %v = %v, %s", args, err, text)
		}
	}
}
