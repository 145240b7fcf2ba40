package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// The two tenants. Everything that one of them says, names or answers holds its mark.
var both = [2]string{"north", "south"}

func markOf(tenant string) string { return "MARK-" + tenant }

func other(tenant string) string {
	if tenant == both[0] {
		return both[1]
	}
	return both[0]
}

// A border watches whether anything of one tenant is seen where the other is.
type border struct {
	*testing.T
	url string
	mu  sync.Mutex
	ids map[string][]string // of what each tenant has: paths that another may try
}

// check tells where something holds the mark of another tenant than what it belongs to; "" is what belongs to none, and may be of one of them.
func (b *border) check(tenant, where string, data []byte) {
	for _, t := range both {
		if i := bytes.Index(data, []byte(markOf(other(t)))); i >= 0 && (tenant == t || tenant == "" && bytes.Contains(data, []byte(markOf(t)))) {
			b.Errorf("%s, which is of %s, holds what is of %s: …%.300s…", where, tenant, other(t), data[max(0, i-150):])
		}
	}
}

// tenantIn returns the tenant that a subject names, "" for none.
func tenantIn(subject string) string {
	for token := range strings.SplitSeq(subject, ".") {
		for _, t := range both {
			if token == t {
				return t
			}
		}
	}
	return ""
}

// mail is the server of the tenant in the path. Both have one of that name, with tools of the same names.
func mail(r *http.Request) *mcp.Server {
	mark := markOf(strings.Split(r.URL.Path, "/")[1])
	s := mcp.NewServer(&mcp.Implementation{Name: "mail", Title: "Mail of " + mark, Version: "1"}, &mcp.ServerOptions{Instructions: "Be kind to " + mark})
	for name, size := range map[string]int{"send": 0, "big": 5000, "fail": -1, "ask": 0} {
		s.AddTool(&mcp.Tool{Name: name, Description: name + " a letter of " + mark, InputSchema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`)},
			func(_ context.Context, q *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				text := strings.Repeat(mark+" writes a long letter, and so on. ", max(1, size))
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text + string(q.Params.Arguments)}}, IsError: size < 0}, nil
			})
	}
	return s
}

// An actor does things as a tenant.
type actor struct {
	*border
	tenant string
	*rand.Rand
	runs []string
}

func (a *actor) mark() string { return markOf(a.tenant) }

// ask makes a request with a credential of the tenant, checks what comes back, and returns it.
func (a *actor) ask(method, path string, body any, headers ...string) (int, []byte) {
	a.Helper()
	var in io.Reader
	if body != nil {
		in = bytes.NewReader(asJSON(a.T, body))
	}
	req, err := http.NewRequestWithContext(a.Context(), method, a.url+path, in)
	if err != nil {
		a.Error(err)
		return 0, nil
	}
	req.Header.Set("Authorization", "Bearer key-"+a.tenant)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		a.Error(err)
		return 0, nil
	}
	defer res.Body.Close()
	out, err := io.ReadAll(res.Body)
	if err != nil {
		a.Error(err)
	}
	a.check(a.tenant, "the answer to "+method+" "+path, out)
	if res.StatusCode >= 500 && res.StatusCode != 503 {
		a.Errorf("%s %s: %d %.300s", method, path, res.StatusCode, out)
	}
	return res.StatusCode, out
}

// has notes what belongs to the tenant, for the other one to try.
func (a *actor) has(path string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ids[a.tenant] = append(a.ids[a.tenant], path)
}

func (a *actor) open() {
	_, out := a.ask("POST", "/v1/runs", map[string]any{
		"agent": "agent", "session": "session", "labels": map[string]string{"team": a.mark()}, "hint": "for " + a.mark(), "mode": []string{"tools", "code", "direct"}[a.IntN(3)],
		"waitForSources": 60000, "clientTools": []any{map[string]any{"name": "screen", "description": "Screen of " + a.mark(), "inputSchema": map[string]any{"type": "object"}}},
	})
	var r client.RunView
	if json.Unmarshal(out, &r) != nil || r.ID == "" {
		a.Errorf("no run: %.300s", out)
		return
	}
	a.runs = append(a.runs, "/v1/runs/"+string(r.ID))
	for _, part := range []string{"", "/log", "/report", "/discovered", "/events"} {
		a.has("/v1/runs/" + string(r.ID) + part)
	}
}

func (a *actor) call(run, name string, args any, headers ...string) client.CallAnswer {
	a.Helper()
	_, out := a.ask("POST", run+"/calls", map[string]any{"id": a.mark(), "name": name, "arguments": args}, append(headers, "Prefer", "wait=20")...)
	var o client.CallAnswer
	if json.Unmarshal(out, &o) != nil {
		a.Errorf("call %s: %.300s", name, out)
	}
	if o.CallID != "" {
		a.has(run + "/calls/" + string(o.CallID))
	}
	return o
}

// text returns the text of a result.
func text(r *contracts.Result) string {
	if r == nil {
		return ""
	}
	return string(bytes.Join(func() (all [][]byte) {
		for _, c := range r.Content {
			all = append(all, c)
		}
		return all
	}(), nil))
}

// act does one thing in the run.
func (a *actor) act(run string) {
	own := map[string]any{"text": "for " + a.mark()}
	switch a.IntN(13) {
	case 0:
		a.call(run, "tool_search", map[string]any{"queries": []string{"send a letter", "screen", "MARK", a.mark(), markOf("nobody")}})
	case 1:
		a.call(run, "tool_describe", map[string]any{"id": []string{"mail.send", "client:client:screen", "mail.sned", "mcp:" + a.mark() + ":x"}[a.IntN(4)]})
	case 2:
		if o := a.call(run, "mcp:mail:send", own); o.Status != contracts.StatusOK || !strings.Contains(text(o.Result), a.mark()) {
			a.Errorf("call of the own tool: %s %+v", o.Status, o.Error)
		}
	case 3: // the key is the same for both, and for all who act for one of them
		a.call(run, "mcp:mail:send", own, "Idempotency-Key", "the-same")
	case 4:
		code := `console.log("` + a.mark() + `"); const hits = await tools.search("letter"); const o = await tools.call("mcp:mail:fail", {text: "` + a.mark() + `"}, {outcome: true}); return [hits, o, await tools.call("mail.send", {})]`
		a.call(run, "tool_search_code", map[string]any{"code": code})
	case 5:
		o := a.call(run, "mcp:mail:big", own)
		if o.Result == nil || o.Result.More == nil {
			a.Errorf("a large result has no rest: %s %+v", o.Status, o.Error)
			return
		}
		a.call(run, "platform:core:read_result", map[string]any{"handle": o.Result.More.Handle})
		if run, handle := a.foreign("handle:"); run != "" {
			if o := a.call(a.runs[0], "platform:core:read_result", map[string]any{"handle": handle}); o.Status == contracts.StatusOK {
				a.Errorf("the result of another tenant was read by its handle")
			}
		}
		a.has("handle:" + o.Result.More.Handle)
	case 6:
		_, out := a.ask("POST", run+"/calls", map[string]any{"name": "screen", "arguments": own}, "Prefer", "wait=20")
		var o client.CallAnswer
		if json.Unmarshal(out, &o); o.Status == contracts.StatusRequiresAction {
			a.has(run + "/calls/" + string(o.CallID))
			a.ask("POST", run+"/calls/"+string(o.CallID)+"/result", map[string]any{"content": []any{map[string]any{"type": "text", "text": "Screen of " + a.mark()}}})
		}
	case 7:
		for _, list := range []string{"/v1/runs", "/v1/sources", "/v1/approvals", "/v1/grants", "/v1/policies"} {
			a.ask("GET", list, nil)
		}
	case 8:
		a.call(run, "mcp:mail:send", map[string]any{"text": strings.Repeat(a.mark()+" ", 20_000)}) // arguments that are stored as content
	case 9:
		a.call(run, a.mark()+".nothing", own)
		a.call(run, "mcp:mail:send", map[string]any{"text": 5, a.mark(): 1})
	case 10:
		for _, part := range []string{"", "/log", "/report", "/discovered"} {
			a.ask("GET", run+part, nil)
		}
	case 11:
		a.approve(run)
	case 12:
		a.trespass()
	}
}

// approve has a call ask, and decides.
func (a *actor) approve(run string) {
	_, out := a.ask("POST", run+"/calls", map[string]any{"name": "mcp:mail:ask", "arguments": map[string]any{"text": fmt.Sprint(a.mark(), a.Uint64())}}, "Prefer", "wait=1")
	var o client.CallAnswer
	if json.Unmarshal(out, &o) != nil || o.Approval == nil {
		return // a grant lets it through, or nobody was quick enough
	}
	id := "/v1/approvals/" + string(o.Approval.ID)
	a.has(id)
	a.ask("GET", id, nil)
	a.ask("POST", id, map[string]any{"decision": []string{"allow_once", "allow_once", "deny", "deny", "allow_always"}[a.IntN(5)], "note": "says " + a.mark()})
	a.ask("GET", run+"/calls/"+string(o.CallID), nil)
}

// foreign returns something of the other tenant that begins with kind, and what comes after that.
func (a *actor) foreign(kind string) (whole, rest string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := a.ids[other(a.tenant)]
	for range 20 {
		if len(list) == 0 {
			break
		}
		if rest, ok := strings.CutPrefix(list[a.IntN(len(list))], kind); ok {
			return kind + rest, rest
		}
	}
	return "", ""
}

// trespass tries what belongs to the other tenant, which must look as what is not there.
func (a *actor) trespass() {
	path, _ := a.foreign("/v1/")
	if path == "" {
		return
	}
	type try struct {
		method, path string
		body         any
	}
	tries := []try{{"GET", path, nil}}
	switch {
	case strings.HasPrefix(path, "/v1/approvals/"):
		tries = append(tries, try{"POST", path, map[string]any{"decision": "allow_once"}})
	case strings.Contains(path, "/calls/"):
		tries = append(tries, try{"DELETE", path, nil}, try{"POST", path + "/result", map[string]any{"content": []any{}}})
	case strings.Count(path, "/") == 3:
		tries = append(tries, try{"DELETE", path, nil}, try{"POST", path + "/calls", map[string]any{"name": "mcp:mail:send"}})
	}
	for _, q := range tries {
		code, out := a.ask(q.method, q.path, q.body)
		nowhere := ids.ReplaceAllStringFunc(q.path, func(id string) string { return id[:len(id)-6] + "aaaaaa" })
		want, none := a.ask(q.method, nowhere, q.body)
		if got, missing := ids.ReplaceAllString(string(out), "ID"), ids.ReplaceAllString(string(none), "ID"); code != 404 || want != 404 || got != missing {
			a.Errorf("%s %s of another tenant: %d %s; want what is said of what is not there: %d %s", q.method, q.path, code, got, want, missing)
		}
	}
}

// Two tenants of one deployment do everything at once, under equal names, and nothing of one is seen where the other is: not in an answer,
// not in a message between services, a record or a stored object, and not in the log.
func TestNothingCrossesBetweenTenants(t *testing.T) {
	bus := natstest.Listen(t, natsserver.Options{})
	b := &border{T: t, ids: map[string][]string{}}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if tenant, what, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/"); what == "hook" {
			body, _ := io.ReadAll(r.Body)
			b.check(tenant, "what a hook is asked", body)
			io.WriteString(w, `{"decision":"allow"}`)
			return
		}
		mcp.NewStreamableHTTPHandler(mail, &mcp.StreamableHTTPOptions{Stateless: true}).ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	key := filepath.Join(t.TempDir(), "hook.key")
	write(t, key, "whsec_"+strings.Repeat("YWJj", 10))
	tenants := map[string]any{}
	for _, tenant := range both {
		tenants[tenant] = map[string]any{
			"keys":    []any{keyOf("key-"+tenant, "key", "runs", "approve", "admin", "read")},
			"sources": map[string]any{"mail": map[string]any{"url": web.URL + "/" + tenant + "/mail"}, "gone": map[string]any{"url": web.URL + "/" + tenant + "/hook?" + markOf(tenant)}},
			"hooks":   map[string]any{"guard": map[string]any{"url": web.URL + "/" + tenant + "/hook", "signingKey": "${file:" + key + "}", "events": []string{"before_tool_call", "after_tool_call"}}},
			"policies": []any{map[string]any{"rules": []any{map[string]any{
				"name": markOf(tenant), "effect": "approve", "tools": []string{"mcp:mail:ask"}, "approval": map[string]any{"title": "May it, " + markOf(tenant) + "?"},
			}}}},
		}
	}
	file := filepath.Join(t.TempDir(), "toolcrib.json")
	write(t, file, string(asJSON(t, map[string]any{"nats": map[string]any{"url": bus.URL}, "tenants": tenants})))
	spy, err := nats.Connect(bus.URL)
	if err != nil {
		t.Fatal(err)
	}
	var messages atomic.Int64
	_, err = spy.Subscribe(">", func(m *nats.Msg) {
		messages.Add(1)
		b.check(tenantIn(m.Subject), "the message on "+m.Subject, m.Data)
	})
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, t.TempDir(), "--config", file, "-v")
	b.url = s.url
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			a := &actor{border: b, tenant: both[i%2], Rand: rand.New(rand.NewPCG(*seed, uint64(i)))}
			a.open()
			for range 40 {
				if len(a.runs) == 0 || a.IntN(10) == 0 {
					a.open()
				}
				if len(a.runs) > 0 {
					a.act(a.runs[a.IntN(len(a.runs))])
				}
			}
			for _, run := range a.runs[len(a.runs)/2:] {
				a.ask("DELETE", run, nil)
			}
		})
	}
	group.Wait()
	s.stop(t)
	if err := spy.Drain(); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "all messages are looked at", spy.IsClosed)
	if stored := b.searchStored(bus.URL); messages.Load() < 1000 || stored < 500 {
		t.Errorf("%d messages and %d stored ones were looked at: too few to believe it", messages.Load(), stored)
	}
	for line := range strings.Lines(s.log()) {
		tenant := ""
		for _, name := range both {
			if strings.Contains(line, "tenant="+name) {
				tenant = name
			}
		}
		b.check(tenant, "a line of the log", []byte(line))
	}
}

// searchStored looks at all that is kept, and returns how many messages and objects that was.
func (b *border) searchStored(url string) (n int) {
	b.Helper()
	conn, err := nats.Connect(url)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		b.Fatal(err)
	}
	var all []*jetstream.StreamInfo
	streams := js.ListStreams(b.Context())
	for info := range streams.Info() {
		if info.State.Msgs > 0 {
			all = append(all, info)
		}
	}
	if err := streams.Err(); err != nil {
		b.Fatal(err)
	}
	for _, info := range all {
		c, err := js.OrderedConsumer(b.Context(), info.Config.Name, jetstream.OrderedConsumerConfig{})
		if err != nil {
			b.Fatal(err)
		}
		for left := uint64(1); left > 0; n++ {
			m, err := c.Next()
			if err != nil {
				b.Fatalf("read stream %s: %v", info.Config.Name, err)
			}
			meta, err := m.Metadata()
			if err != nil {
				b.Fatal(err)
			}
			left = meta.NumPending
			b.check(tenantIn(m.Subject()), "what is stored under "+m.Subject(), m.Data())
		}
		if bucket, ok := strings.CutPrefix(info.Config.Name, "OBJ_"); ok {
			n += b.searchObjects(js, bucket)
		}
	}
	return n
}

func (b *border) searchObjects(js jetstream.JetStream, bucket string) int {
	b.Helper()
	store, err := js.ObjectStore(b.Context(), bucket)
	if err != nil {
		b.Fatal(err)
	}
	list, err := store.List(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	for _, o := range list {
		tenant, _, _ := strings.Cut(o.Name, "/")
		data, err := store.GetBytes(b.Context(), o.Name)
		if err != nil {
			b.Fatal(err)
		}
		if tenant != both[0] && tenant != both[1] {
			b.Errorf("the object %s of %s is of no tenant", o.Name, bucket)
		}
		b.check(tenant, "the object "+o.Name, data)
	}
	return len(list)
}
