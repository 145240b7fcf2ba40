// The tests here hold the configuration of the NATS server against a real server: all that the services do works with it,
// each service as its own user, and what none of them does is refused.
package nats_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/toolcrib/toolcrib/deploy/keys"
	"github.com/toolcrib/toolcrib/examples/workshop"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/sandbox"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case sandbox.WorkerCommand: // of the sandbox in these tests
			os.Exit(sandbox.Worker(os.Args[2:]))
		case "workshop": // the MCP server of the demo
			if err := workshop.Main(contextOfMain(), os.Args[2:]); err != nil {
				os.Exit(1)
			}
			return
		}
	}
	os.Exit(m.Run())
}

// A guarded is a server with the configuration, and the keys of its users.
type guarded struct {
	*natstest.Server
	keys string // directory
}

// listen starts a server that lets in the services and the plugins.
func listen(t *testing.T, plugins ...keys.Plugin) guarded {
	t.Helper()
	h := guarded{keys: t.TempDir()}
	environ, err := keys.Make(h.keys)
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range append(environ, "TOOLCRIB_NATS_STORE="+t.TempDir()) {
		name, value, _ := strings.Cut(kv, "=")
		t.Setenv(name, value)
	}
	var users []string
	for _, p := range plugins {
		user, err := p.User(h.keys)
		if err != nil {
			t.Fatal(err)
		}
		users = append(users, user)
	}
	conf, err := os.ReadFile("nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	text, err := keys.WithUsers(string(conf), users...)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	opts, err := server.ProcessConfigFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h.Server = natstest.Listen(t, *opts)
	return h
}

// connect returns a connection as a service.
func (h guarded) connect(t *testing.T, service string) *nats.Conn {
	t.Helper()
	key, err := nats.NkeyOptionFromSeed(keys.File(h.keys, service))
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(h.URL, key, nats.CustomInboxPrefix(bus.InboxPrefix(service)), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// refused reports whether the server refuses what do does with the connection.
func refused(t *testing.T, nc *nats.Conn, do func() error) bool {
	t.Helper()
	before := nc.LastError()
	if err := do(); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	after := nc.LastError()
	return after != before && errors.Is(after, nats.ErrPermissionViolation)
}

// mayPublish and maySubscribe report what the server lets a connection do. It has no streams here that would take anything.
func mayPublish(t *testing.T, nc *nats.Conn, subject string) bool {
	t.Helper()
	return !refused(t, nc, func() error { return nc.Publish(subject, nil) })
}

func maySubscribe(t *testing.T, nc *nats.Conn, subject, queue string) bool {
	t.Helper()
	return !refused(t, nc, func() error {
		sub, err := nc.QueueSubscribeSync(subject, queue)
		if err == nil {
			err = sub.AutoUnsubscribe(1)
		}
		return err
	})
}

// A may is something that can be done on the bus, and the services that may.
type may struct {
	what     string
	services []string
}

// TestPermissions holds what each service may publish and subscribe to against who the contracts say does.
func TestPermissions(t *testing.T) {
	h := listen(t)
	run, call := "run_x", "call_x"
	all := keys.Services()
	publish := []may{
		// Who changes a record publishes its events, also those that another left in it.
		{"tc.acme.run.r.requested", []string{"gateway", "planner"}},
		{"tc.acme.run.r.planned", []string{"gateway", "planner"}},
		{"tc.acme.run.r.revised", []string{"gateway", "planner"}},
		{"tc.acme.run.r.failed", []string{"gateway", "planner"}},
		{"tc.acme.run.r.closed", []string{"gateway", "planner"}},
		{"tc.acme.run.r.ready", []string{"indexer"}},
		{"tc.acme.run.r.search.s", []string{"indexer"}},
		{"tc.acme.run.r.describe.s", []string{"indexer"}},
		{"tc.acme.run.r.call.c.requested", []string{"gateway", "sandbox", "executor"}},
		{"tc.acme.run.r.call.c.running", []string{"gateway", "sandbox", "executor"}},
		{"tc.acme.run.r.call.c.waiting", []string{"gateway", "sandbox", "executor"}},
		{"tc.acme.run.r.call.c.finished", []string{"gateway", "sandbox", "executor"}},
		{"tc.acme.run.r.body.b.requested", []string{"gateway", "sandbox"}},
		{"tc.acme.run.r.body.b.waiting", []string{"gateway", "sandbox"}},
		{"tc.acme.run.r.body.b.finished", []string{"gateway", "sandbox"}},
		{"tc.acme.run.r.approval.a.requested", []string{"gateway", "executor"}},
		{"tc.acme.run.r.approval.a.decided", []string{"gateway", "executor"}},
		{"tc.acme.run.r.approval.a.ended", []string{"gateway", "executor"}},
		{"tc.acme.source.mcp-x.listed", []string{"executor"}},
		{"tc.acme.source.mcp-x.failed", []string{"executor"}},
		{"tc.acme.source.mcp-x.reviewed", []string{"executor"}},
		{"tc.acme.source.mcp-x.decided", []string{"executor"}},
		{"tc.acme.anything.else", nil},
		{"tc.acme", nil},

		{contracts.AskSubject("acme", contracts.VerbSearch), []string{"gateway", "sandbox"}},
		{contracts.AskSubject("acme", contracts.VerbDescribe), []string{"gateway", "sandbox"}},
		{contracts.AskSubject("acme", contracts.VerbRevise), []string{"gateway", "sandbox", "executor", "indexer"}},
		{contracts.AskSubject("acme", contracts.VerbDiscover), []string{"gateway", "planner"}},
		{contracts.AskSubject("acme", contracts.VerbAdmit), []string{"gateway"}},
		{contracts.AskSubject("acme", contracts.VerbReport), []string{"gateway"}},
		{contracts.AskSubject("acme", contracts.VerbLog), []string{"gateway"}},
		{contracts.AskSubject("acme", contracts.VerbBody), []string{"gateway"}},
		{contracts.AskSubject("acme", contracts.VerbSandbox), []string{"gateway", "planner"}},
		{contracts.AskSubject("acme", "anything"), nil},

		{contracts.DispatchSubject("acme"), []string{"gateway", "sandbox", "executor"}},
		{contracts.CancelSubject("acme", contracts.CallID(call)), []string{"gateway", "executor"}},
		{contracts.BodyCancelSubject("acme", "body_x"), []string{"gateway", "sandbox"}},
		{contracts.HandOverSubject("acme", "exec_x"), []string{"executor"}},
		{"timer.run.acme." + run, []string{"planner"}},
		{"due.run.acme." + run, nil},
		{"plugin.acme.shop.call", []string{"executor"}},
		{"plugin.acme.shop.hook", []string{"executor"}},
		{"plugin.acme.shop.changed", nil},
		{"dead.tc.acme.run.r.requested", []string{"planner"}},
		{"dead.dispatch.1.acme", []string{"executor"}},
		{"dead.anything", nil},

		{"$KV.runs.acme.x", []string{"gateway", "planner"}},
		{"$KV.calls.acme.x", []string{"gateway", "sandbox", "executor"}},
		{"$KV.bodies.acme.x", []string{"gateway", "sandbox"}},
		{"$KV.sources.acme.x", []string{"executor"}},
		{"$KV.seats.acme.x", []string{"executor"}},
		{"$KV.approvals.acme.x", []string{"gateway", "executor"}},
		{"$KV.grants.acme.x", []string{"gateway", "executor"}},
		{"$KV.policies.acme.api", []string{"gateway", "planner"}},
		{"$KV.policies.acme.file", []string{"planner"}},
		{"$KV.anything.acme.x", nil},
		{"$O.listings.C.x", []string{"gateway", "executor"}},
		{"$O.catalogues.C.x", []string{"planner"}},
		{"$O.payloads.C.x", []string{"gateway", "sandbox", "executor"}},
		{"$O.reports.C.x", []string{"telemetry"}},

		{"$JS.API.STREAM.LIST", nil},
		{"$JS.API.STREAM.NAMES", nil},
		{"$JS.API.STREAM.CREATE.OTHER", nil},
		{"$JS.API.STREAM.PURGE.EVENTS", nil},
		{"$JS.API.STREAM.PURGE.DISPATCH", nil},
		{"$JS.API.STREAM.PURGE.TIMERS", []string{"gateway"}},
		{"$JS.API.STREAM.PURGE.KV_policies", nil},
		{"$JS.API.STREAM.PURGE.OBJ_reports", []string{"telemetry"}},
		{"$JS.API.STREAM.MSG.GET.EVENTS", []string{"gateway"}},
		{"$JS.API.STREAM.MSG.GET.KV_policies", nil},
		{"$JS.API.STREAM.MSG.DELETE.TIMERS", []string{"planner"}},
		{"$JS.API.STREAM.MSG.DELETE.EVENTS", nil},
		{"$JS.API.STREAM.SNAPSHOT.EVENTS", nil},
		{"$JS.API.STREAM.RESTORE.EVENTS", nil},
		{"$JS.API.CONSUMER.CREATE.EVENTS.planner.tc.*.run.*.requested", []string{"planner"}},
		{"$JS.API.CONSUMER.CREATE.EVENTS.planner.tc.*.run.*.>", nil},
		{"$JS.API.CONSUMER.CREATE.EVENTS.own.tc.*.run.*.>", []string{"gateway", "telemetry"}},
		{"$JS.API.CONSUMER.CREATE.EVENTS.own.>", nil},
		{"$JS.API.CONSUMER.DURABLE.CREATE.EVENTS.planner", nil},
		{"$JS.API.CONSUMER.DELETE.EVENTS.planner", nil},
		{"$JS.API.CONSUMER.DELETE.EVENTS.indexer", nil},
		{"$JS.API.CONSUMER.DELETE.EVENTS.telemetry", []string{"telemetry"}},
		{"$JS.API.CONSUMER.DELETE.KV_calls.executor-sweep", []string{"executor"}},
		{"$JS.API.CONSUMER.DELETE.EVENTS.sandbox-closed", nil},
		{"$JS.API.CONSUMER.DELETE.EVENTS.executor-decisions", nil},
		{"$JS.API.CONSUMER.MSG.NEXT.EVENTS.sandbox-closed", []string{"sandbox"}},
		{"$JS.API.CONSUMER.MSG.NEXT.EVENTS.executor-decisions", []string{"executor"}},
		{"$JS.API.CONSUMER.DELETE.DISPATCH.executor", nil},
		{"$JS.API.CONSUMER.MSG.NEXT.DISPATCH.executor", []string{"executor"}},
		{"$JS.API.CONSUMER.MSG.NEXT.EVENTS.planner", []string{"planner"}},
		{"$JS.API.CONSUMER.MSG.NEXT.EVENTS.indexer", []string{"indexer"}},
		{"$JS.API.CONSUMER.MSG.NEXT.EVENTS.telemetry", []string{"telemetry"}},
		{"$JS.API.CONSUMER.CREATE.KV_calls.own.$KV.calls.>", []string{"executor"}},
		{"$JS.API.CONSUMER.CREATE.KV_bodies.own.$KV.bodies.>", []string{"sandbox"}},
		{"$JS.API.DIRECT.GET.KV_policies.$KV.policies.acme.file", []string{"gateway", "sandbox", "executor", "indexer", "planner"}},
		{"$JS.API.DIRECT.GET.KV_calls.$KV.calls.acme.x", []string{"gateway", "sandbox", "executor"}},
		{"$JS.API.DIRECT.GET.OBJ_payloads.$O.payloads.M.x", []string{"gateway", "sandbox", "executor"}},
		{"$JS.API.DIRECT.GET.OBJ_reports.$O.reports.M.x", []string{"telemetry"}},
		{"$JS.ACK.DISPATCH.executor.1.1.1.1.0", []string{"executor"}},
		{"$JS.ACK.EVENTS.planner.1.1.1.1.0", []string{"planner"}},
		{"$SRV.PING", nil},
		{"$SYS.REQ.SERVER.PING", nil},
		{"_INBOX.gateway.x", nil},
		{"_INBOX.planner.x", nil},
		{"anything", nil},
	}
	for _, s := range streams() {
		publish = append(publish, may{"$JS.API.STREAM.DELETE." + s.name, nil}, may{"$JS.API.STREAM.UPDATE." + s.name, []string{s.keeper}})
	}
	subscribe := []may{
		{"ask.*.search q", []string{"indexer"}},
		{"ask.*.describe q", []string{"indexer"}},
		{"ask.*.revise q", []string{"planner"}},
		{"ask.*.discover q", []string{"executor"}},
		{"ask.*.admit q", []string{"executor"}},
		{"ask.*.report q", []string{"telemetry"}},
		{"ask.*.log q", []string{"telemetry"}},
		{"ask.*.body q", []string{"sandbox"}},
		{"ask.*.sandbox q", []string{"sandbox"}},
		{"ask.*.search", nil}, // one of those who answer takes a question; nobody listens beside them
		{"ask.*.search other", nil},
		{"ask.>", nil},
		{"ctl.*.cancel.*", []string{"executor"}},
		{"ctl.*.exec.*", []string{"executor"}},
		{"ctl.*.body.*", []string{"sandbox"}},
		{"plugin.*.*.changed", []string{"executor"}},
		{"plugin.*.*.call", nil},
		{"plugin.*.*.hook", nil},
		{"tc.*.run.*.closed", []string{"gateway", "executor"}},
		{"tc.acme.run.r.*", []string{"gateway"}},
		{"tc.acme.run.r.call.c.*", []string{"gateway", "sandbox"}},
		{"tc.acme.run.r.body.b.*", []string{"gateway"}},
		{"tc.acme.run.r.approval.a.*", []string{"gateway"}},
		{"tc.>", nil},
		{"dispatch.>", nil},
		{"$KV.policies.>", nil},
		{"$KV.>", nil},
		{"$O.>", nil},
		{"$JS.>", nil},
		{"$SYS.>", nil},
		{"_INBOX.>", nil},
		{">", nil},
	}
	for _, s := range all {
		subscribe = append(subscribe, may{"_INBOX." + s + ".>", []string{s}})
	}
	for _, service := range all {
		nc := h.connect(t, service)
		for _, m := range publish {
			if got, want := mayPublish(t, nc, m.what), slices.Contains(m.services, service); got != want {
				t.Errorf("%s may publish %s: %v, want %v", service, m.what, got, want)
			}
		}
		for _, m := range subscribe {
			subject, queue, _ := strings.Cut(m.what, " ")
			if got, want := maySubscribe(t, nc, subject, queue), slices.Contains(m.services, service); got != want {
				t.Errorf("%s may subscribe to %s: %v, want %v", service, m.what, got, want)
			}
		}
	}
	covered(t, publish, subscribe)
}

// TestAPluginIsOnlyItself holds what the user of a plugin may do: what its protocol needs, for its own subjects.
func TestAPluginIsOnlyItself(t *testing.T) {
	p := keys.Plugin{Tenant: "acme", ID: "ledger"}
	h := listen(t, p)
	nc := h.connect(t, "acme.ledger")
	publish, subscribe := contracts.PluginPermissions(p.Tenant, p.ID)
	for _, s := range publish {
		if !mayPublish(t, nc, s) {
			t.Errorf("may not publish to %s", s)
		}
	}
	for _, s := range subscribe {
		if !maySubscribe(t, nc, s, "") {
			t.Errorf("may not subscribe to %s", s)
		}
	}
	for _, s := range []string{
		"plugin.acme.other.changed", "plugin.globex.ledger.changed", "plugin.acme.ledger.call", "tc.acme.run.r.requested", "dispatch.acme.r",
		"$JS.API.STREAM.INFO.EVENTS", "$KV.calls.acme", "_INBOX.gateway.x", "ctl.acme.cancel.r",
	} {
		if mayPublish(t, nc, s) {
			t.Errorf("may publish to %s", s)
		}
	}
	for _, s := range []string{"plugin.acme.other.call", "plugin.globex.ledger.call", "plugin.*.*.call", "tc.>", "_INBOX.>", "ask.acme.search", "ctl.acme.exec.x", "$SRV.PING.executor"} {
		if maySubscribe(t, nc, s, "") {
			t.Errorf("may subscribe to %s", s)
		}
	}
}

type stream struct{ name, keeper string }

// streams returns every stream, that of each bucket and store too, and the service whose settings they are.
func streams() []stream {
	return []stream{
		{contracts.StreamEvents, "telemetry"}, {contracts.StreamDispatch, "executor"}, {contracts.StreamTimers, "planner"}, {contracts.StreamDead, "telemetry"},
		{"KV_" + contracts.BucketRuns, "planner"}, {"KV_" + contracts.BucketCalls, "executor"}, {"KV_" + contracts.BucketBodies, "sandbox"},
		{"KV_" + contracts.BucketSources, "executor"}, {"KV_" + contracts.BucketPolicies, "planner"}, {"KV_" + contracts.BucketSeats, "executor"},
		{"KV_" + contracts.BucketApprovals, "executor"}, {"KV_" + contracts.BucketGrants, "executor"},
		{"OBJ_" + contracts.StoreListings, "executor"}, {"OBJ_" + contracts.StoreCatalogues, "planner"},
		{"OBJ_" + contracts.StorePayloads, "executor"}, {"OBJ_" + contracts.StoreReports, "telemetry"},
	}
}

// covered fails where the contracts know an event or a question that the tables do not.
func covered(t *testing.T, publish, subscribe []may) {
	t.Helper()
	for _, e := range contracts.EventTypes() {
		ends := e.Pattern[strings.LastIndexByte(e.Pattern, '.')+1:]
		if strings.HasPrefix(ends, "{") {
			ends = "s"
		}
		sender, _, _ := strings.Cut(e.Sender, ",")
		if !slices.ContainsFunc(publish, func(m may) bool {
			parts := strings.Split(m.what, ".")
			return parts[0] == "tc" && typeOf(parts) == e.Type && parts[len(parts)-1] == ends && slices.Contains(m.services, sender)
		}) {
			t.Errorf("no service may publish %s, which %s does", e.Type, e.Sender)
		}
	}
	for _, v := range []contracts.Verb{
		contracts.VerbSearch, contracts.VerbDescribe, contracts.VerbRevise, contracts.VerbDiscover,
		contracts.VerbReport, contracts.VerbBody, contracts.VerbSandbox, contracts.VerbLog,
	} {
		if !slices.ContainsFunc(subscribe, func(m may) bool { return m.what == contracts.AllAsks(v)+" q" && len(m.services) == 1 }) {
			t.Errorf("nobody may answer %s", v)
		}
	}
}

// typeOf returns the type of the event with a subject of these parts, as the contracts name it.
func typeOf(parts []string) string {
	switch {
	case len(parts) < 5:
		return ""
	case parts[2] == "source":
		return "source." + parts[4]
	case len(parts) == 5:
		return "run." + parts[4]
	case len(parts) == 6:
		return parts[4]
	case len(parts) == 7:
		return parts[4] + "." + parts[6]
	}
	return ""
}

func TestNobodyIsAnonymous(t *testing.T) {
	h := listen(t)
	other, err := keys.Make(t.TempDir())
	if err != nil || len(other) == 0 {
		t.Fatal(err)
	}
	strangers := t.TempDir()
	if _, err := keys.Make(strangers); err != nil {
		t.Fatal(err)
	}
	stranger, err := nats.NkeyOptionFromSeed(keys.File(strangers, "gateway"))
	if err != nil {
		t.Fatal(err)
	}
	for name, opt := range map[string]nats.Option{
		"nobody": nats.Name("x"), "a user": nats.UserInfo("gateway", "gateway"), "a token": nats.Token("x"), "a key of others": stranger,
	} {
		nc, err := nats.Connect(h.URL, opt)
		if err == nil {
			nc.Close()
		}
		if !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("%s: %v, want %v", name, err, nats.ErrAuthorization)
		}
	}
}

// An answer goes to the inbox of whoever asked; to answer again, or unasked, is refused.
func TestAnswersReachTheAskerOnce(t *testing.T) {
	h := listen(t)
	asker, answerer := h.connect(t, "gateway"), h.connect(t, "indexer")
	sub, err := answerer.QueueSubscribeSync(contracts.AllAsks(contracts.VerbSearch), "q")
	if err != nil {
		t.Fatal(err)
	}
	if err := answerer.Flush(); err != nil {
		t.Fatal(err)
	}
	inbox := asker.NewInbox()
	replies, err := asker.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	if err := asker.PublishRequest(contracts.AskSubject("acme", contracts.VerbSearch), inbox, nil); err != nil {
		t.Fatal(err)
	}
	q, err := sub.NextMsgWithContext(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if refused(t, answerer, func() error { return q.Respond([]byte("answer")) }) {
		t.Error("the answer is refused")
	}
	if m, err := replies.NextMsgWithContext(t.Context()); err != nil || string(m.Data) != "answer" {
		t.Errorf("reply %v, %v", m, err)
	}
	if !refused(t, answerer, func() error { return q.Respond([]byte("again")) }) {
		t.Error("a second answer is not refused")
	}
}

func TestKeys(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	first, err := keys.Make(dir)
	if err != nil {
		t.Fatal(err)
	}
	again, err := keys.Make(dir)
	if err != nil || !slices.Equal(first, again) {
		t.Errorf("made again: %v, %v; want the same keys", again, err)
	}
	for _, s := range keys.Services() {
		info, err := os.Stat(keys.File(dir, s))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the key of %s: %v, %v", s, info, err)
		}
		seed, _ := os.ReadFile(keys.File(dir, s))
		if env, _ := os.ReadFile(keys.EnvFile(dir)); strings.Contains(string(env), strings.TrimSpace(string(seed))) {
			t.Error("the file for the server holds a secret")
		}
	}
	if err := keys.ForContainers(dir); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, keys.File(dir, "gateway"): 0o644} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s for containers: %v, %v, want %v", path, info, err, want)
		}
	}
	if err := os.WriteFile(keys.File(dir, "gateway"), []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := keys.Make(dir); err == nil {
		t.Error("a key that is none is no error")
	} else if strings.Contains(fmt.Sprint(err), "rubbish") {
		t.Errorf("the error shows the key: %v", err)
	}
}
