package gateway_test

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/toolcrib/toolcrib/internal/core/issuer/issuertest"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/gateway"
)

// routes are all routes that need a credential, each with the scopes that open it. docs/access.md has the same table.
func routes() map[string][]string {
	runs, read, operate, admin := []string{"runs"}, []string{"runs", "read"}, []string{"read", "admin"}, []string{"admin"}
	approve, look := []string{"approve"}, []string{"approve", "read"}
	return map[string][]string{
		"POST /v1/runs":                           runs,
		"GET /v1/runs":                            read,
		"GET /v1/runs/{run}":                      read,
		"DELETE /v1/runs/{run}":                   runs,
		"POST /v1/runs/{run}/calls":               runs,
		"GET /v1/runs/{run}/calls/{call}":         read,
		"POST /v1/runs/{run}/calls/{call}/result": runs,
		"DELETE /v1/runs/{run}/calls/{call}":      runs,
		"POST /v1/runs/{run}/ruling":              operate,
		"GET /v1/runs/{run}/events":               read,
		"GET /v1/runs/{run}/report":               read,
		"GET /v1/runs/{run}/log":                  read,
		"GET /v1/runs/{run}/discovered":           read,
		"GET /v1/sources":                         operate,
		"POST /v1/sources/{source}/refresh":       admin,
		"GET /v1/policies":                        admin,
		"PUT /v1/policies":                        admin,
		"DELETE /v1/policies":                     admin,
		"GET /v1/tools":                           operate,
		"GET /v1/tools/{tool}":                    operate,
		"PUT /v1/tools":                           admin,
		"GET /v1/approvals":                       look,
		"GET /v1/approvals/{approval}":            look,
		"POST /v1/approvals/{approval}":           approve,
		"GET /v1/grants":                          look,
		"DELETE /v1/grants/{grant}":               approve,
		"/mcp":                                    runs,
		"/mcp/{profile}":                          runs,
	}
}

// openRoutes are those for everybody.
func openRoutes() []string {
	return []string{
		"GET /healthz", "GET /readyz", "GET /openapi.yaml", // and where tokens are taken:
		"GET /.well-known/oauth-protected-resource", "GET /.well-known/oauth-protected-resource/mcp", "GET /.well-known/oauth-protected-resource/mcp/{profile}",
	}
}

// TestEveryRouteIsListed fails for a route that nobody has thought about here, in the table of the documentation, or in the one that the other tests go by.
func TestEveryRouteIsListed(t *testing.T) {
	want := routes()
	for _, r := range openRoutes() {
		want[r] = nil
	}
	w := open(t, gateway.Config{Tenants: map[contracts.TenantID]gateway.Tenant{"acme": {OIDC: trustIn(issuertest.Start(t))}}})
	if d := cmp.Diff(want, w.routes); d != "" {
		t.Errorf("routes and who may use them (-want +got):\n%s", d)
	}
	doc, err := os.ReadFile("../../docs/access.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string][]string{}
	_, table, _ := strings.Cut(string(doc), "\n## Routes\n")
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 2 || !strings.HasPrefix(cells[0], " `") {
			continue
		}
		for route := range strings.SplitSeq(cells[0], ", ") {
			route = strings.Trim(route, " `")
			listed[route] = nil
			if scopes := strings.TrimSpace(cells[1]); scopes != "everybody" {
				listed[route] = strings.Split(strings.ReplaceAll(scopes, "`", ""), " or ")
			}
		}
	}
	if d := cmp.Diff(w.routes, listed); d != "" {
		t.Errorf("the table of docs/access.md (-code +docs):\n%s", d)
	}
}

// try sends a request of the route that is wrong in all but its credential.
func (w *world) try(t *testing.T, route string, headers ...string) answer {
	t.Helper()
	method, path, ok := strings.Cut(route, " ")
	if !ok { // for every method
		method, path = "POST", route
	}
	path = strings.NewReplacer("{profile}", "some", "{run}", string(contracts.NewRunID()), "{call}", string(contracts.NewCallID()), "{source}", "mcp:none", "{approval}", "appr_x", "{grant}", "grant_x", "{tool}", "mcp:none:x").Replace(path)
	body := ""
	if method == "POST" || method == "PUT" {
		body = "["
	}
	return w.do(t, method, path, body, headers...)
}

func keys(scopes ...string) (tenant gateway.Tenant) {
	for _, s := range scopes {
		tenant.Keys = append(tenant.Keys, gateway.Key{Name: s, Hash: contracts.HashOf([]byte("key-" + s)), Scopes: []string{s}})
	}
	return tenant
}

func TestAccessWithKeys(t *testing.T) {
	scopes := []string{"runs", "approve", "admin", "read"}
	acme := keys(scopes...)
	acme.Keys = append(acme.Keys, gateway.Key{Name: "old", Hash: contracts.HashOf([]byte("key-old")), Scopes: scopes, Until: time.Now().Add(-time.Second)})
	w := open(t, gateway.Config{Tenants: map[contracts.TenantID]gateway.Tenant{"acme": acme}, AdminToken: adminToken})
	for route, may := range routes() {
		for _, header := range [][]string{
			nil,
			{"Authorization", "Bearer nonsense"},
			{"Authorization", "Bearer a.b.c"},
			{"Authorization", "Bearer key-old"},
			{"Authorization", "Bearer key-runs key-runs"},
			{"Authorization", "Bearer key-runs,key-admin"},
			{"Authorization", "Bearer\tkey-runs"},
			{"X-Api-Key", "key-runs"},
			{"Authorization", "Bearer "},
			{"Authorization", "Bearer " + adminToken},
			{"Authorization", "Basic a2V5LXJ1bnM="},
			{"Authorization", "key-runs"},
			{"Authorization", "Bearer " + string(contracts.HashOf([]byte("key-runs")))},
			{"Authorization", "Bearer key-runs", "Authorization", "Bearer key-admin"},
		} {
			a := w.try(t, route, header...)
			if p := a.problem(t); a.status != 401 || p.Code != contracts.CodeUnauthenticated || a.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s with %q = %d %s, want 401 with WWW-Authenticate", route, header, a.status, a.body)
			}
		}
		for _, s := range scopes {
			a := w.try(t, route, "Authorization", "bearer key-"+s)
			if slices.Contains(may, s) {
				if a.status == 401 || a.status == 403 {
					t.Errorf("%s with scope %s = %d %s, want it let in", route, s, a.status, a.body)
				}
				continue
			}
			if p := a.problem(t); a.status != 403 || p.Code != contracts.CodeForbidden || !strings.Contains(a.header.Get("WWW-Authenticate"), "insufficient_scope") {
				t.Errorf("%s with scope %s = %d %s, want 403", route, s, a.status, a.body)
			}
		}
	}
	// A wrong Host is no matter where each request needs a key: the server may stand behind another.
	if a := w.do(t, "GET", "/v1/runs", "", "Host", "crib.example.com", "Authorization", "Bearer key-runs"); a.status != 200 {
		t.Errorf("GET /v1/runs with a foreign Host and a key = %d %s, want 200", a.status, a.body)
	}
}

func TestAccessWithoutKeys(t *testing.T) {
	w := open(t, gateway.Config{})
	for route, may := range routes() {
		a := w.try(t, route)
		if open := slices.Contains(may, "runs"); open == (a.status == 401) {
			t.Errorf("%s without a token = %d %s", route, a.status, a.body)
		}
		if a := w.try(t, route, "Authorization", "Bearer nonsense"); a.status != 401 {
			t.Errorf("%s with a wrong token = %d, want 401", route, a.status)
		}
		if a := w.try(t, route, "Authorization", "Bearer "+adminToken); a.status == 401 || a.status == 403 {
			t.Errorf("%s with the admin token = %d %s, want it let in", route, a.status, a.body)
		}
	}
}

func TestOpenToAll(t *testing.T) {
	for _, cfg := range []gateway.Config{{}, {Tenants: map[contracts.TenantID]gateway.Tenant{"acme": keys("runs")}}} {
		w := open(t, cfg)
		for _, path := range []string{"/healthz", "/readyz", "/openapi.yaml"} {
			a := w.do(t, "GET", path, "")
			if a.status != 200 || strings.Contains(string(a.body), "acme") {
				t.Errorf("GET %s = %d %.200s, want 200 that names no tenant", path, a.status, a.body)
			}
		}
	}
}

func TestReadyTellsTheLayersAroundBodies(t *testing.T) {
	w := open(t, gateway.Config{})
	await(t, "the sandbox is heard of", func() bool {
		return strings.Contains(string(w.do(t, "GET", "/readyz", "").body), `"sandbox":{"ready":true,"layers":["seccomp"]}`)
	})
}

// TestReadyTellsAbsence uses an outside server, which can be stopped while the service runs.
func TestReadyTellsAbsence(t *testing.T) {
	nats, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	nats.Start()
	t.Cleanup(func() { nats.Shutdown(); nats.WaitForShutdown() })
	if !nats.ReadyForConnections(10 * time.Second) {
		t.Fatal("the NATS server is not ready")
	}
	b, err := bus.Open(t.Context(), bus.Config{URL: nats.ClientURL()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	w := openOn(t, b, nil, gateway.Config{})
	await(t, "the service is ready", func() bool {
		a := w.do(t, "GET", "/readyz", "")
		return a.status == 200 && strings.Contains(string(a.body), "no sandbox answers")
	})
	nats.Shutdown()
	nats.WaitForShutdown()
	a := w.do(t, "GET", "/readyz", "")
	if p := a.problem(t); a.status != 503 || p.Code != contracts.CodeUnavailable {
		t.Errorf("GET /readyz without a bus = %d %s, want 503", a.status, a.body)
	}
	if a := w.do(t, "GET", "/healthz", ""); a.status != 200 {
		t.Errorf("GET /healthz without a bus = %d, want 200", a.status)
	}
}

func TestRebinding(t *testing.T) {
	w := open(t, gateway.Config{})
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(w.base, "http://"))
	for _, tt := range []struct {
		host, origin string
		ok           bool
	}{
		{"127.0.0.1:" + port, "", true},
		{"localhost:" + port, "", true},
		{"LOCALHOST:" + port, "http://localhost:3000", true},
		{"[::1]:" + port, "https://127.0.0.1", true},
		{"127.8.8.8:" + port, "http://[::1]:5173", true},
		{"evil.example:" + port, "", false},
		{"localhost.evil.example:" + port, "", false},
		{"evil.localhost:" + port, "", false},
		{"localhost", "", false},
		{"localhost:1", "", false},
		{"10.0.0.1:" + port, "", false},
		{"0.0.0.0:" + port, "", false},
		{"localhost:" + port, "http://evil.example", false},
		{"localhost:" + port, "http://localhost.evil.example", false},
		{"localhost:" + port, "null", false},
		{"localhost:" + port, "file://localhost", false},
		{"localhost:" + port, "http://evil.example@localhost.evil.example", false},
	} {
		for _, path := range []string{"/v1/runs", "/healthz", "/mcp", "/nowhere"} {
			headers := []string{"Host", tt.host}
			if tt.origin != "" {
				headers = append(headers, "Origin", tt.origin)
			}
			a := w.do(t, "GET", path, "", headers...)
			if (a.status != 403) != tt.ok {
				t.Errorf("GET %s with Host %q and Origin %q = %d %s, want it let in: %v", path, tt.host, tt.origin, a.status, a.body, tt.ok)
			}
		}
	}
}

func TestNewRefuses(t *testing.T) {
	b := natstest.Open(t)
	everywhere, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer everywhere.Close()
	hash := contracts.HashOf([]byte("k"))
	one := func(k ...gateway.Key) map[contracts.TenantID]gateway.Tenant {
		return map[contracts.TenantID]gateway.Tenant{"acme": {Keys: k}}
	}
	for name, cfg := range map[string]gateway.Config{
		"all addresses":       {Listen: ":0"},
		"all addresses, v4":   {Listen: "0.0.0.0:0"},
		"an outside address":  {Listen: "192.0.2.1:0"},
		"a listener":          {Listener: everywhere},
		"no port":             {Listen: "127.0.0.1"},
		"a hash":              {Listen: "127.0.0.1:0", Tenants: one(gateway.Key{Name: "k", Hash: "xyz", Scopes: []string{"runs"}})},
		"a scope":             {Listen: "127.0.0.1:0", Tenants: one(gateway.Key{Name: "k", Hash: hash, Scopes: []string{"root"}})},
		"a key of two":        {Listen: "127.0.0.1:0", Tenants: map[contracts.TenantID]gateway.Tenant{"acme": {Keys: []gateway.Key{{Hash: hash}}}, "bell": {Keys: []gateway.Key{{Hash: hash}}}}},
		"a tenant of no name": {Listen: "127.0.0.1:0", Tenants: map[contracts.TenantID]gateway.Tenant{"A.b": {}}},
	} {
		if _, err := gateway.New(t.Context(), b, cfg, nil); contracts.CodeOf(err) != contracts.CodeInvalid {
			t.Errorf("New(%s) = %v, want it refused as invalid", name, err)
		}
	}
	g, err := gateway.New(t.Context(), b, gateway.Config{Listen: "0.0.0.0:0", Tenants: one(gateway.Key{Name: "k", Hash: hash, Scopes: []string{"runs"}})}, nil)
	if err != nil {
		t.Fatalf("New() on all addresses with keys = %v", err)
	}
	stop(t, g)
}

func TestProblemOfRoutes(t *testing.T) {
	w := open(t, gateway.Config{})
	a := w.do(t, "GET", "/v2/runs", "")
	if p := a.problem(t); a.status != 404 || p.Code != contracts.CodeNotFound {
		t.Errorf("GET /v2/runs = %d %s, want 404", a.status, a.body)
	}
	a = w.do(t, "PATCH", "/v1/runs", "")
	if p := a.problem(t); a.status != 405 || p.Code != contracts.CodeInvalid || a.header.Get("Allow") != "GET, POST" {
		t.Errorf("PATCH /v1/runs = %d %s Allow %q, want 405 with GET, POST", a.status, a.body, a.header.Get("Allow"))
	}
	a = w.do(t, "POST", "/v1/runs", "agent=x", "Content-Type", "text/plain")
	if a.problem(t); a.status != 415 && a.status != 400 {
		t.Errorf("POST /v1/runs with text = %d %s", a.status, a.body)
	}
}

func TestOpenAPI(t *testing.T) {
	w := open(t, gateway.Config{Version: "1.2.3"})
	a := w.do(t, "GET", "/openapi.yaml", "")
	var doc struct {
		OpenAPI string
		Info    struct{ Title, Version string }
		Paths   map[string]map[string]struct {
			OperationID string `yaml:"operationId"`
			Responses   map[string]any
			Security    []map[string][]string
			Parameters  []struct{ Name, In string }
		}
		Components struct{ Schemas map[string]any }
	}
	if err := yaml.Unmarshal(a.body, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.OpenAPI != "3.1.0" || doc.Info.Title != "Toolcrib" || doc.Info.Version != "1.2.3" {
		t.Errorf("the document is of %q, %+v", doc.OpenAPI, doc.Info)
	}
	ids := map[string]bool{}
	for route := range routes() {
		method, path, ok := strings.Cut(route, " ")
		if !ok { // MCP
			continue
		}
		op, ok := doc.Paths[path][strings.ToLower(method)]
		if !ok || op.OperationID == "" || ids[op.OperationID] || len(op.Security) == 0 {
			t.Errorf("%s is described as %+v, want it with an id of its own and security", route, op)
		}
		ids[op.OperationID] = true
		if !strings.Contains(fmt.Sprint(op.Responses["default"]), "#/components/schemas/Problem") {
			t.Errorf("%s: the error is described as %v, want a Problem", route, op.Responses["default"])
		}
		declared := 0
		for _, p := range op.Parameters {
			if p.In != "path" {
				continue
			}
			if declared++; !strings.Contains(path, "{"+p.Name+"}") {
				t.Errorf("%s has a parameter %s that its path has not", route, p.Name)
			}
		}
		if want := strings.Count(path, "{"); declared != want {
			t.Errorf("%s describes %d parameters of its path, want %d", route, declared, want)
		}
	}
	n := 0
	for _, ops := range doc.Paths {
		n += len(ops)
	}
	if n != len(ids) {
		t.Errorf("the document has %d operations, want %d", n, len(ids))
	}
	for _, ref := range references(string(a.body)) {
		if _, ok := doc.Components.Schemas[ref]; !ok {
			t.Errorf("the document refers to a schema %s that it has not", ref)
		}
	}
	for _, want := range []string{"202", "200"} {
		if doc.Paths["/v1/runs/{run}/calls"]["post"].Responses[want] == nil {
			t.Errorf("a call's answer %s is not described", want)
		}
	}
}

// references returns the schemas that a document refers to.
func references(text string) (names []string) {
	for part := range strings.SplitSeq(text, "#/components/schemas/") {
		if i := strings.IndexAny(part, "\"'\n"); i > 0 {
			names = append(names, part[:i])
		}
	}
	return names[1:]
}
