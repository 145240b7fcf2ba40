package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/pkg/plugin"
)

// Variables that make a test binary a plugin: where the bus is, and the file that gets a line for each call.
const (
	pluginURL     = "TOOLCRIB_TEST_PLUGIN"
	pluginCounter = "TOOLCRIB_TEST_COUNTER"
)

// pluginMain is an instance of the plugin shop in a process of its own, which can be killed. Its tools never answer, unless another call was counted before.
func pluginMain(url, counter string) {
	err := func() error {
		conn, err := nats.Connect(url)
		if err != nil {
			return err
		}
		yes := true
		p := plugin.New(conn, plugin.Config{Name: "shop", Working: 200 * time.Millisecond})
		for name, annotations := range map[string]*contracts.Annotations{"hang": nil, "hang_once": {IdempotentHint: &yes}} {
			p.Tool(plugin.Tool{Name: name, Annotations: annotations}, func(ctx context.Context, _ json.RawMessage) (*contracts.Result, error) {
				before, _ := os.ReadFile(counter)
				f, err := os.OpenFile(counter, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
				if err != nil {
					return nil, err
				}
				fmt.Fprintf(f, "%s %d %s\n", name, os.Getpid(), plugin.CallOf(ctx).ID)
				f.Close()
				if name == "hang" || !strings.Contains(string(before), name+" ") {
					<-ctx.Done()
				}
				return contracts.TextResult("second", nil), nil
			})
		}
		return p.Run(context.Background())
	}()
	fmt.Fprintln(os.Stderr, "plugin:", err)
	os.Exit(1)
}

// plugins has an executor know these plugins on the bus.
func plugins(bus map[string]any) func(*Config) {
	data := must(json.Marshal(map[string]any{"plugins": map[string]any{"bus": bus}}))
	parsed := FromConfig(must(config.Parse(data, "test.json")), nil)
	return func(c *Config) { c.BusPlugins = parsed.BusPlugins }
}

// serve runs an instance of a plugin until the test ends or stop is called.
func (w *world) serve(name string, tools map[string]plugin.Handler) (_ *plugin.Plugin, stop func()) {
	w.Helper()
	p := plugin.New(w.bus.Conn, plugin.Config{Name: name, Title: "A shop"})
	for tool, h := range tools {
		if err := p.Tool(plugin.Tool{Name: tool, InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)}, h); err != nil {
			w.Fatal(err)
		}
	}
	return p, w.background(p.Run)
}

func echo(_ context.Context, args json.RawMessage) (*contracts.Result, error) {
	return contracts.TextResult("got "+string(args), args), nil
}

func TestBusPlugin(t *testing.T) {
	w := newWorld(t)
	w.executor(servers{}, plugins(map[string]any{"The Shop": map[string]any{"plugin": "shop", "exclude": []string{"secret*"}}}))
	has := func(what string, ok func(*contracts.SourceRecord) bool) {
		t.Helper()
		natstest.Eventually(t, what, func() bool { return ok(w.source("plugin:the-shop")) })
	}
	nobody := func(r *contracts.SourceRecord) bool { return strings.Contains(r.Reason, "no instance") }
	has("the plugin failed because nobody is there", func(r *contracts.SourceRecord) bool { return r.State == contracts.SourceStateFailed && nobody(r) })

	p, stop := w.serve("shop", map[string]plugin.Handler{"echo": echo, "secret": echo})
	w.serve("stranger", map[string]plugin.Handler{"echo": echo})
	has("the plugin is ready with its tool", func(r *contracts.SourceRecord) bool {
		return r.State == contracts.SourceStateReady && r.Reason == "" && r.Tools == 1
	})
	run := w.open(contracts.RunRequest{})
	rec := w.call(run, callOf("plugin:the-shop:echo", `{"n":1}`))
	if o := rec.Outcome; o.Status != contracts.StatusOK || string(o.Result.StructuredContent) != `{"n":1}` || o.Tool.Source != contracts.SourcePlugin {
		t.Errorf("outcome %+v %+v", o, o.Error)
	}
	for tool, code := range map[string]contracts.Code{
		"plugin:the-shop:secret": contracts.CodeUnknownTool, "plugin:stranger:echo": contracts.CodeUnknownTool, "plugin:the-shop:more": contracts.CodeUnknownTool,
	} {
		if o := w.call(run, callOf(tool, `{}`)).Outcome; contracts.CodeOf(o.Error) != code {
			t.Errorf("%s: outcome %+v %v, want %s", tool, o, o.Error, code)
		}
	}
	if o := w.call(run, callOf("echo", `{"n":"x"}`)).Outcome; o.Status != contracts.StatusInvalidArgs {
		t.Errorf("wrong arguments: outcome %+v", o)
	}

	p.Tool(plugin.Tool{Name: "more"}, echo)
	has("the new tool is listed", func(r *contracts.SourceRecord) bool { return r.Tools == 2 })
	if o := w.call(run, callOf("plugin:the-shop:more", `{}`)).Outcome; o.Status != contracts.StatusOK {
		t.Errorf("the new tool: outcome %+v %v", o, o.Error)
	}

	stop()
	has("it is known that nobody is there, and what there was stays", func(r *contracts.SourceRecord) bool { return nobody(r) && r.Tools == 2 })
	if o := w.call(run, callOf("echo", `{}`)).Outcome; o.Status != contracts.StatusUnavailable || o.SideEffects != contracts.SideEffectsNone {
		t.Errorf("a call of nobody: outcome %+v %v", o, o.Error)
	}
	w.serve("shop", map[string]plugin.Handler{"echo": echo})
	has("the plugin is back", func(r *contracts.SourceRecord) bool { return r.Reason == "" && r.Tools == 1 })
	if o := w.call(run, callOf("echo", `{}`)).Outcome; o.Status != contracts.StatusOK {
		t.Errorf("a call of the plugin that is back: outcome %+v %v", o, o.Error)
	}
}

// instance starts an instance of the plugin shop in a process of its own.
func (w *world) instance(url string) {
	w.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), pluginURL+"="+url, pluginCounter+"="+w.counter)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
}

// TestPluginKilledInMidCall has the end of a call be unknown whose instance is killed, unless its tool may be called twice and another instance is there.
func TestPluginKilledInMidCall(t *testing.T) {
	w, url := openWorld(t)
	w.executor(servers{}, plugins(map[string]any{"shop": map[string]any{"trustAnnotations": true}}))
	w.instance(url)
	w.instance(url)
	w.ready("plugin:shop")
	run := w.open(contracts.RunRequest{})
	for _, tt := range []struct {
		tool   string
		status contracts.Status
		calls  int
	}{{"hang_once", contracts.StatusOK, 2}, {"hang", contracts.StatusError, 1}} {
		pending := w.start(run, callOf("plugin:shop:"+tt.tool, `{}`))
		natstest.Eventually(t, "the call of "+tt.tool+" began", func() bool { return w.counted(tt.tool+" ") == 1 })
		lines := must(os.ReadFile(w.counter))
		last := strings.Fields(string(lines)[strings.LastIndex(string(lines), tt.tool+" "):])
		if process, err := os.FindProcess(must(strconv.Atoi(last[1]))); err != nil || process.Kill() != nil || last[2] != string(pending.ID) {
			t.Fatalf("the instance of %q was not killed: %v", last, err)
		}
		o := w.await(pending).Outcome
		if o.Status != tt.status || w.counted(tt.tool+" ") != tt.calls {
			t.Errorf("%s: outcome %+v %v after %d calls, want %s after %d", tt.tool, o, o.Error, w.counted(tt.tool+" "), tt.status, tt.calls)
		}
		if tt.status == contracts.StatusError && (o.SideEffects != contracts.SideEffectsUnknown || o.Error.Code != contracts.CodeOutcomeUnknown) {
			t.Errorf("%s: outcome %+v %v, want an unknown one", tt.tool, o, o.Error)
		}
	}
}

// TestACallWaitsForAPluginThatComesBack has a call come while nobody is there, and an instance as soon as that is known.
func TestACallWaitsForAPluginThatComesBack(t *testing.T) {
	w := newWorld(t)
	svc, _ := w.executor(servers{}, plugins(map[string]any{"shop": map[string]any{}}))
	retry := svc.configured[contracts.SourceKey(tenant, sourceID("plugin:shop"))].retry
	_, stop := w.serve("shop", map[string]plugin.Handler{"echo": echo})
	w.ready("plugin:shop")
	run := w.open(contracts.RunRequest{})
	for range 5 {
		stop()
		pending := w.start(run, callOf("plugin:shop:echo", `{"n":1}`))
		natstest.Eventually(t, "nobody is found", func() bool {
			retry.mu.Lock()
			defer retry.mu.Unlock()
			return !retry.since.IsZero()
		})
		_, stop = w.serve("shop", map[string]plugin.Handler{"echo": echo})
		if o := w.await(pending).Outcome; o.Status != contracts.StatusOK {
			t.Errorf("outcome %+v %v", o, o.Error)
		}
	}
}

// TestAnnouncementsEndAPause has a plugin that says that it is there be tried at once, but not without end.
func TestAnnouncementsEndAPause(t *testing.T) {
	src := busSource(tenant, config.BusSource{ID: sourceID("plugin:shop"), BusPlugin: config.BusPlugin{Plugin: "shop"}}, nil)
	src.retry, src.refresh = newRetry(), newRefresh()
	fail := func() {
		for wait := time.Duration(0); wait < time.Second; wait, _ = src.retry.wait() {
			src.retry.failed(errors.New("no"))
		}
	}
	news := announced(src)
	for _, want := range []bool{true, false} {
		fail()
		news()
		if wait, _ := src.retry.wait(); (wait == 0) != want {
			t.Errorf("after the news the pause is %v, want it ended: %v", wait, want)
		}
		if !src.refresh.hasChanged() {
			t.Error("the plugin is not listed again")
		}
		src.refresh.begin()
	}
}
