package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/toolcrib/toolcrib/internal/core/calls"
	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// Variables that make a test binary an executor: where the bus is, and its configuration file.
const (
	executorURL    = "TOOLCRIB_TEST_EXECUTOR"
	executorConfig = "TOOLCRIB_TEST_CONFIG"
	shortLease     = 1500 * time.Millisecond
)

// executorMain is the executor of a process of its own, which can be killed.
func executorMain(url, path string) {
	err := func() error {
		ctx := context.Background()
		b, err := bus.Open(ctx, bus.Config{URL: url, Lost: shortLease}, nil)
		if err != nil {
			return err
		}
		file, err := config.Load(path)
		if err != nil {
			return err
		}
		cfg := FromConfig(file, os.Environ())
		cfg.Lease = shortLease
		s, err := New(ctx, b, cfg, nil)
		if err != nil {
			return err
		}
		return s.Run(ctx)
	}()
	fmt.Fprintln(os.Stderr, "executor:", err)
	os.Exit(1)
}

// openWorld is a world whose bus other processes can reach.
func openWorld(t testing.TB) (*world, string) {
	t.Helper()
	s, err := server.NewServer(&server.Options{JetStream: true, StoreDir: t.TempDir(), Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("nats-server is not ready")
	}
	b, err := bus.Open(t.Context(), bus.Config{URL: s.ClientURL(), Lost: shortLease}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return worldOn(t, b), s.ClientURL()
}

// process starts an executor in a process of its own. kill kills it, as a lost machine would.
func (w *world) process(url string, s servers) (kill func()) {
	w.Helper()
	file := w.TempDir() + "/config.json"
	if err := os.WriteFile(file, must(json.Marshal(map[string]any{"mcpServers": s})), 0o600); err != nil {
		w.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), executorURL+"="+url, executorConfig+"="+file)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	kill = func() {
		cmd.Process.Kill()
		cmd.Wait()
	}
	w.Cleanup(kill)
	return kill
}

func TestAKilledExecutorLeavesTheOutcomeUnknown(t *testing.T) {
	w, url := openWorld(t)
	s := servers{"odd": w.server()}
	kill := w.process(url, s)
	w.ready("mcp:odd")
	run := w.open(contracts.RunRequest{})
	p := w.start(run, callOf("mcp:odd:hang", `{}`))
	natstest.Eventually(t, "the tool runs", func() bool { return w.counted("call hang ") == 1 })
	w.executor(s, func(c *Config) { c.Lease = shortLease })
	kill()
	rec := w.await(p)
	if o := rec.Outcome; o.Status != contracts.StatusError || o.Error.Code != contracts.CodeOutcomeUnknown || o.SideEffects != contracts.SideEffectsUnknown {
		t.Errorf("outcome %+v, want %s", o, contracts.CodeOutcomeUnknown)
	}
	if n := w.counted("call hang "); n != 1 {
		t.Errorf("the tool was called %d times, want 1", n)
	}
	if o := w.call(run, callOf("mcp:odd:echo", `{"text":"x"}`)).Outcome; o.Status != contracts.StatusOK {
		t.Errorf("the other executor answers %+v", o)
	}
}

func TestAKilledExecutorsCallIsRepeatedWhereThatIsAllowed(t *testing.T) {
	w, url := openWorld(t)
	file := t.TempDir() + "/tools.json"
	w.tools(file, tool("sleep", `"annotations":{"readOnlyHint":true}`), tool("echo"))
	s := servers{"odd": with(w.server("-tools", file), "trustAnnotations", true)}
	kill := w.process(url, s)
	w.ready("mcp:odd")
	run := w.open(contracts.RunRequest{})
	p := w.start(run, callOf("mcp:odd:sleep", `{"ms":1000}`))
	natstest.Eventually(t, "the tool runs", func() bool { return w.counted("call sleep ") == 1 })
	kill()
	w.executor(s, func(c *Config) { c.Lease = shortLease })
	rec := w.await(p)
	if rec.Outcome.Status != contracts.StatusOK || rec.Attempt != 2 || w.counted("call sleep ") != 2 {
		t.Errorf("outcome %+v %+v after %d attempts and %d calls, want ok after 2", rec.Outcome, rec.Outcome.Error, rec.Attempt, w.counted("call sleep "))
	}
}

func TestALostAnswerIsRepeatedForTrustedSourcesOnly(t *testing.T) {
	w := newWorld(t)
	trusted, not := w.server(), w.server()
	other := w.counter + "2"
	not["args"] = []string{"-counter", other}
	w.executor(servers{"trusted": with(trusted, "trustAnnotations", true), "not": not})
	w.ready("mcp:trusted", "mcp:not")
	run := w.open(contracts.RunRequest{})
	rec := w.call(run, callOf("mcp:trusted:crash_once", `{}`))
	if n := w.counted("call crash_once "); rec.Outcome.Status != contracts.StatusOK || rec.Attempt != 2 || n != 2 {
		t.Errorf("outcome %+v %+v after %d attempts and %d calls, want ok after 2", rec.Outcome, rec.Outcome.Error, rec.Attempt, n)
	}
	told, _ := os.ReadFile(w.counter)
	if n := strings.Count(string(told), fmt.Sprintf("%q:%q", contracts.MetaCallID, rec.ID)); n != 2 {
		t.Errorf("%d of 2 attempts tell the tool that they are %s:\n%s", n, rec.ID, told)
	}
	if rec = w.call(run, callOf("mcp:not:crash_once", `{}`)); rec.Outcome.Error == nil || rec.Outcome.Error.Code != contracts.CodeOutcomeUnknown || rec.Attempt != 1 {
		t.Errorf("outcome %+v after %d attempts, want %s after 1", rec.Outcome, rec.Attempt, contracts.CodeOutcomeUnknown)
	}
	b, _ := os.ReadFile(other)
	if n := strings.Count(string(b), "call crash_once "); n != 1 {
		t.Errorf("the tool was called %d times, want 1", n)
	}
}

func TestWakeUpsThatComeAgainExecuteNothingTwice(t *testing.T) {
	w := newWorld(t)
	w.executor(servers{"odd": w.server()})
	w.ready("mcp:odd")
	run := w.open(contracts.RunRequest{})
	p := w.start(run, callOf("mcp:odd:sleep", `{"ms":300}`))
	key := contracts.CallKey(tenant, run, p.ID)
	again := func() {
		for range 20 {
			if err := w.bus.Wake(t.Context(), key, ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	again()
	if o := w.await(p).Outcome; o.Status != contracts.StatusOK {
		t.Errorf("outcome %+v", o)
	}
	again()
	w.call(run, callOf("mcp:odd:echo", `{"text":"behind them"}`))
	if n := w.counted("call sleep "); n != 1 {
		t.Errorf("the tool was called %d times, want 1", n)
	}
	if got := w.events(contracts.CallStates(tenant, run, p.ID)); len(got) != 3 {
		t.Errorf("events %q, want 3", got)
	}
}

// Executors share the calls of a run, where its source has no connection of the run's own: those are at one of them.
func TestExecutorsShareTheWork(t *testing.T) {
	w := newWorld(t)
	shared := w.server()
	shared["connection"] = "shared"
	s := servers{"odd": shared}
	w.executor(s, func(c *Config) { c.Workers = 2 })
	w.executor(s, func(c *Config) { c.Workers = 2 })
	w.ready("mcp:odd")
	run := w.open(contracts.RunRequest{})
	owners := map[string]int{}
	const n = 30
	var pending []*calls.Pending
	for range n {
		pending = append(pending, w.start(run, callOf("mcp:odd:sleep", `{"ms":20}`)))
	}
	for _, p := range pending {
		rec := w.await(p)
		owners[rec.Owner]++
		if rec.Outcome.Status != contracts.StatusOK {
			t.Errorf("outcome %+v %+v", rec.Outcome, rec.Outcome.Error)
		}
	}
	if got := w.counted("call sleep "); got != n || len(owners) != 2 {
		t.Errorf("%d calls were made %d times by %v, want each once, by two executors", n, got, owners)
	}
}

func TestTheSweepFindsACallThatNobodyWasWokenFor(t *testing.T) {
	w := newWorld(t)
	w.executor(servers{"odd": w.server()})
	w.ready("mcp:odd")
	run := w.open(contracts.RunRequest{})
	id := contracts.NewCallID()
	rec := &contracts.Call{
		ID: id, Run: run, Tool: "mcp:odd:echo", Args: json.RawMessage(`{"text":"x"}`), State: contracts.CallStateRequested,
		Requested: time.Now().UTC(), Deadline: time.Now().Add(30 * time.Second).UTC(),
	}
	if err := w.calls.Create(t.Context(), contracts.CallKey(tenant, run, id), rec); err != nil {
		t.Fatal(err)
	}
	p := must(w.caller.Join(tenant, run, id))
	defer p.Close()
	if o := w.await(p).Outcome; o.Status != contracts.StatusOK {
		t.Errorf("outcome %+v", o)
	}
}

func TestAStoppedExecutorEndsItsCalls(t *testing.T) {
	w := newWorld(t)
	_, stop := w.executor(servers{"odd": w.server()})
	w.ready("mcp:odd")
	run := w.open(contracts.RunRequest{})
	long := w.start(run, callOf("mcp:odd:hang", `{}`))
	short := w.start(run, callOf("mcp:odd:sleep", `{"ms":500}`))
	natstest.Eventually(t, "both run", func() bool { return w.counted("call ") == 2 })
	begin := time.Now()
	stop()
	if took := time.Since(begin); took > stopGrace+5*time.Second {
		t.Errorf("stopping took %v", took)
	}
	if o := w.await(short).Outcome; o.Status != contracts.StatusOK {
		t.Errorf("outcome of a call that could end: %+v", o)
	}
	if o := w.await(long).Outcome; o.Error == nil || o.Error.Code != contracts.CodeOutcomeUnknown {
		t.Errorf("outcome of a call that could not: %+v, want %s", o, contracts.CodeOutcomeUnknown)
	}
}
