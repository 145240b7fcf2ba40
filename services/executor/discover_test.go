package executor

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func jetstreamOrdered(filter string) jetstream.OrderedConsumerConfig {
	return jetstream.OrderedConsumerConfig{FilterSubjects: []string{filter}}
}

func with(server map[string]any, key string, value any) map[string]any {
	server[key] = value
	return server
}

func TestGoodSourcesDoNotWaitForBadOnes(t *testing.T) {
	w := newWorld(t)
	s := servers{
		"dead":  w.server("-die", "no token"),
		"wrong": {"command": "/nonexistent/server"},
		"late":  {"command": "npx", "env": map[string]string{"TOKEN": "${env:NOT_SET_ANYWHERE}"}},
		"off":   with(w.server(), "disabled", true),
		"good":  with(w.server(), "alwaysLoad", true),
	}
	for i := range 2 * atOnce { // more than are discovered at once
		s[fmt.Sprintf("hanging%d", i)] = w.server("-hang", "initialize", "-keep-running")
	}
	s["zgood"] = w.server()
	begin := time.Now()
	w.executor(s)
	w.ready("mcp:good", "mcp:zgood")
	if took := time.Since(begin); took > 15*time.Second {
		t.Errorf("the good sources took %v", took)
	}
	for id, want := range map[string]string{"mcp:dead": "the server ended", "mcp:wrong": "no such file", "mcp:late": "environment variable NOT_SET_ANYWHERE is not set"} {
		natstest.Eventually(t, id+" has failed", func() bool { return w.source(id).State == contracts.SourceStateFailed })
		if got := w.source(id).Reason; !strings.Contains(got, want) {
			t.Errorf("%s: reason %q, want %q in it", id, got, want)
		}
	}
	if dead := w.source("mcp:dead"); dead.Detail != "no token" || strings.Contains(dead.Reason, "no token") {
		t.Errorf("reason %q, detail %q; want what the server said in the detail only", dead.Reason, dead.Detail)
	}
	if got := w.source("mcp:hanging0").State; got != contracts.SourceStatePending {
		t.Errorf("a hanging source is %q, want pending", got)
	}
	if got := w.source("mcp:off").State; got != "" {
		t.Errorf("a disabled source is %q, want no record", got)
	}
	good := w.source("mcp:good")
	l := must(w.library.Listing(t.Context(), tenant, good.Listing))
	if !good.AlwaysLoad || good.Tools != len(l.Tools) || l.Title != "The odd server" || l.Instructions == "" {
		t.Errorf("record %+v of listing %q with %d tools", good, l.Title, len(l.Tools))
	}
	for i, tool := range l.Tools {
		if i > 0 && tool.ID <= l.Tools[i-1].ID {
			t.Errorf("tool %s is not sorted", tool.ID)
		}
		if tool.Hash != tool.ContentHash() || tool.Bytes == 0 || tool.Tokens == 0 || tool.Loading != contracts.LoadingDirect {
			t.Errorf("tool %s: hash %s, %d bytes, %d tokens, loading %q", tool.ID, tool.Hash, tool.Bytes, tool.Tokens, tool.Loading)
		}
	}
	if got := w.events("tc.local.source.mcp-good.>"); !slices.Equal(got, []string{"source.listed"}) {
		t.Errorf("events of a good source: %q", got)
	}
}

// tools writes the tools of a server to a file.
func (w *world) tools(file string, tools ...string) {
	tmp := file + ".new"
	if err := os.WriteFile(tmp, []byte("["+strings.Join(tools, ",")+"]"), 0o600); err != nil {
		w.Fatal(err)
	}
	if err := os.Rename(tmp, file); err != nil {
		w.Fatal(err)
	}
}

func tool(name string, more ...string) string {
	return `{"name":"` + name + `","inputSchema":{"type":"object"}` + strings.Join(append([]string{""}, more...), ",") + `}`
}

func TestOneBadToolHarmsOnlyItself(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "tools.json")
	w.tools(file, tool("b"), tool("a", `"_meta":{"anthropic/alwaysLoad":true}`), tool("b"), tool(""), tool("hidden\\u200b"), tool("no.schema", `"outputSchema":{"type":"nonsense"}`),
		`{"name":"bad","inputSchema":{"type":12}}`, `{"name":"worse","annotations":{"readOnlyHint":"yes"}}`, `{"name":"none"}`,
		tool("long", `"description":"`+strings.Repeat("x", mostDescription+1)+`"`))
	w.executor(servers{"odd": w.server("-tools", file)})
	w.ready("mcp:odd")
	rec := w.source("mcp:odd")
	var names, skipped []string
	for _, tool := range must(w.library.Listing(t.Context(), tenant, rec.Listing)).Tools {
		names = append(names, tool.Name+" "+string(tool.Loading))
	}
	for _, s := range rec.Skipped {
		skipped = append(skipped, s.Name)
		if s.Reason == "" {
			t.Errorf("%q is skipped without a reason", s.Name)
		}
	}
	slices.Sort(skipped)
	if want := []string{"a direct", "b ", "none "}; !slices.Equal(names, want) {
		t.Errorf("tools %q, want %q", names, want)
	}
	if want := []string{"", "b", "bad", "hidden", "long", "no.schema", "worse"}; !slices.Equal(skipped, want) {
		t.Errorf("skipped %q, want %q", skipped, want)
	}
}

func (w *world) discover(q contracts.DiscoverRequest) map[string]contracts.SourceRecord {
	w.Helper()
	a, err := bus.Ask[contracts.DiscoverAnswer](w.Context(), w.bus, tenant, contracts.VerbDiscover, q)
	if err != nil {
		w.Fatal(err)
	}
	out := map[string]contracts.SourceRecord{}
	for _, s := range a.Sources {
		out[s.Source.String()] = s
	}
	return out
}

func TestAFailedRefreshKeepsTheListing(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "tools.json")
	w.tools(file, tool("a"))
	w.executor(servers{"odd": w.server("-tools", file)})
	w.ready("mcp:odd")
	before := w.source("mcp:odd")

	odd := []contracts.SourceID{sourceID("mcp:odd")}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second failure is no news
		got := w.discover(contracts.DiscoverRequest{Sources: odd, Force: true, Wait: 10_000})["mcp:odd"]
		if got.State != contracts.SourceStateReady || got.Listing != before.Listing || !strings.Contains(got.Reason, "no such file") || got.Settings != "" {
			t.Errorf("after a failed refresh: %+v, want the listing %s and a reason", got, before.Listing)
		}
	}
	w.tools(file, tool("a"), tool("b"))
	got := w.discover(contracts.DiscoverRequest{Sources: odd, Force: true, Wait: 10_000})["mcp:odd"]
	if got.State != contracts.SourceStateReady || got.Tools != 2 || got.Reason != "" {
		t.Errorf("after a good refresh: %+v, want 2 tools", got)
	}
	if got, want := w.events("tc.local.source.mcp-odd.>"), []string{"source.listed", "source.failed", "source.reviewed", "source.listed"}; !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
}

func TestAListingThatIsTooOldIsNotUsed(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "tools.json")
	w.tools(file, tool("a"))
	w.executor(servers{"odd": w.server("-tools", file)})
	w.ready("mcp:odd")
	os.Remove(file)
	if _, err := w.sources.Transition(t.Context(), contracts.SourceKey(tenant, sourceID("mcp:odd")), func(rec *contracts.SourceRecord) ([]contracts.Event, error) {
		rec.Discovered = time.Now().Add(-contracts.ListingUsable)
		return nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	got := w.discover(contracts.DiscoverRequest{Wait: 10_000, Force: true})["mcp:odd"]
	if got.State != contracts.SourceStateFailed || got.Reason == "" {
		t.Errorf("state %q, reason %q, want failed with a reason", got.State, got.Reason)
	}
}

func TestChangedToolsAreListedAgain(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "tools.json")
	w.tools(file, tool("change"))
	w.executor(servers{"odd": with(w.server("-tools", file), "connection", "shared")})
	w.ready("mcp:odd")
	run := w.open(contracts.RunRequest{})
	w.tools(file, tool("change"), tool("new"))
	w.call(run, callOf("mcp:odd:change", `{}`)) // says so a hundred times
	natstest.Eventually(t, "the new tool is listed", func() bool { return w.source("mcp:odd").Tools == 2 })
	if rec := w.call(run, callOf("new", `{}`)); rec.Outcome.Tool == nil || rec.Outcome.Tool.ID != "mcp:odd:new" {
		t.Errorf("the open run cannot resolve the new tool: %+v", rec.Outcome)
	}
}

func TestListingsAreRefreshedByTime(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "tools.json")
	w.tools(file, tool("a"))
	w.executor(servers{"odd": w.server("-tools", file)}, func(c *Config) { c.Fresh = 300 * time.Millisecond })
	w.ready("mcp:odd")
	w.tools(file, tool("a"), tool("b"))
	natstest.Eventually(t, "the listing is refreshed", func() bool { return w.source("mcp:odd").Tools == 2 })
}

func TestAFreshListingIsUsedAsItIs(t *testing.T) {
	w := newWorld(t)
	s := servers{"odd": w.server(), "gone": w.server()}
	_, stop := w.executor(s)
	w.ready("mcp:odd", "mcp:gone")
	stop()
	began := w.counted("pid ")

	delete(s, "gone")
	_, stop = w.executor(s)
	natstest.Eventually(t, "the source that is not configured is forgotten", func() bool { return w.source("mcp:gone").State == "" })
	if got := w.discover(contracts.DiscoverRequest{Wait: 10_000})["mcp:odd"]; got.State != contracts.SourceStateReady {
		t.Errorf("a fresh source is %q", got.State)
	}
	if n := w.counted("pid "); n != began {
		t.Errorf("%d servers were started for fresh listings, want none", n-began)
	}
	stop()

	s["odd"] = with(w.server(), "trustAnnotations", true) // another configuration
	w.executor(s)
	natstest.Eventually(t, "it is listed anew", func() bool {
		rec := w.source("mcp:odd")
		return rec.State == contracts.SourceStateReady && must(w.library.Listing(t.Context(), tenant, rec.Listing)).TrustAnnotations
	})
}

func TestDiscoverAnswersForKnownSourcesOnly(t *testing.T) {
	w := newWorld(t)
	w.executor(servers{})
	w.ready()
	if got := w.discover(contracts.DiscoverRequest{}); len(got) != 1 || got["platform:core"].Tools != 5 {
		t.Errorf("sources %+v, want the built-in one with 5 tools", got)
	}
	_, err := bus.Ask[contracts.DiscoverAnswer](t.Context(), w.bus, tenant, contracts.VerbDiscover, contracts.DiscoverRequest{Sources: []contracts.SourceID{sourceID("mcp:nope")}})
	if contracts.CodeOf(err) != contracts.CodeNotFound {
		t.Errorf("discovery of no source: %v, want %s", err, contracts.CodeNotFound)
	}
}

func TestSecretsStayOutOfRecordsAndEvents(t *testing.T) {
	w := newWorld(t)
	s := with(w.server("-die", "bad key hunter2hunter2 and sesame99"), "env", map[string]string{"TOOLCRIB_ODDSERVER": "1", "KEY": "hunter2hunter2"})
	s["args"] = append(s["args"].([]string), "-tools=${env:ARG}")
	w.executor(servers{"odd": s}, func(c *Config) { c.Environ = append(os.Environ(), "ARG=sesame99") })
	natstest.Eventually(t, "it has failed", func() bool { return w.source("mcp:odd").State == contracts.SourceStateFailed })
	b, _ := json.Marshal(w.source("mcp:odd"))
	if strings.Contains(string(b), "hunter2") || strings.Contains(string(b), "sesame") || !strings.Contains(string(b), "bad key ***") {
		t.Errorf("record %s, want the secrets hidden", b)
	}
}
