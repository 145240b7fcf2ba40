package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// compare makes configurations comparable: by what the files say.
func compare() cmp.Options {
	return cmp.Options{
		cmp.Transformer("written", func(s Secret) string { return s.Written() }),
		cmpopts.IgnoreUnexported(Config{}),
	}
}

func secret(t *testing.T, text string) Secret {
	t.Helper()
	s, err := parseSecret(text, "testdata", false)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func parse(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse([]byte(text), "toolcrib.yaml")
	if err != nil {
		t.Fatalf("Parse(%s) = %v", text, err)
	}
	return c
}

// archive returns the files of testdata/name: each begins with a line -- file --.
func archive(t *testing.T, name string) map[string]string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, s := range strings.Split(string(b), "\n-- ")[1:] {
		file, body, ok := strings.Cut(s+"\n", " --\n")
		if !ok || files[file] != "" {
			t.Fatalf("%s: bad or double section %q", name, file)
		}
		files[file] = body
	}
	return files
}

func TestParseRefuses(t *testing.T) {
	files := archive(t, "bad.txt")
	for file, text := range files {
		base := strings.TrimSuffix(file, filepath.Ext(file))
		if file == base+".want" {
			continue
		}
		t.Run(file, func(t *testing.T) {
			c, err := Parse([]byte(text), file)
			if err == nil || c != nil {
				t.Fatalf("Parse = %+v, %v, want an error alone", c, err)
			}
			if diff := cmp.Diff(strings.TrimSpace(files[base+".want"]), err.Error()); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if ps, ok := errors.AsType[Problems](err); !ok || len(ps) == 0 || ps[0].File != file {
				t.Errorf("err = %#v, want Problems of %s", err, file)
			}
			for _, leak := range []string{"secret", "sk-"} {
				if strings.Contains(err.Error(), leak) {
					t.Errorf("%v shows %q", err, leak)
				}
			}
		})
	}
}

func TestLoadFull(t *testing.T) {
	got, err := Load("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	no := false
	calendar := MCPServer{
		Command:    secret(t, "npx"),
		Args:       []Secret{secret(t, "-y"), secret(t, "@example/calendar"), secret(t, "--key"), secret(t, "${env:CALENDAR_KEY}")},
		Env:        map[string]Secret{"MODE": secret(t, "prod $${x}"), "TOKEN": secret(t, "Bearer ${file:/run/secrets/calendar}")},
		Cwd:        secret(t, "/srv"),
		Timeout:    5000,
		AlwaysLoad: true,
		Expose:     "bare",
	}
	archive := calendar
	archive.Disabled = true
	want := &Config{
		Listen: "0.0.0.0:8000", PublicURL: "https://crib.example",
		Data:  "/var/lib/toolcrib",
		NATS:  NATS{secret(t, "nats://a:4222,nats://b:4222"), secret(t, "${env:CREDS_DIR}/toolcrib.creds"), 3, "strict", ""},
		Index: Index{"typesense", Typesense{secret(t, "https://search.example"), secret(t, "${file:typesense.key}")}},
		ToolSearch: ToolSearch{
			Choice: ToolSearchAuto, Mode: "tools", Percent: 25,
			SearchDefaultLimit: 5, MaxSearchLimit: 50, CodeTimeoutMs: 30000, CodeUnavailable: "refuse", Experimental: &no,
		},
		Policies: []PolicyLayer{{Deny: []string{"*:*:delete_*"}}, {Level: "agent", Name: "intern", Allow: []string{"mcp:calendar:*"}}},
		OTel:     OTel{"https://otel.example/v1"},
		Network:  Network{Private: true, Allow: []string{"169.254.10.0/24"}, Proxy: secret(t, "http://proxy.example:3128")},
		Tenants: map[contracts.TenantID]Tenant{"globex": {}, "acme": {
			Keys: []Key{{
				"backend", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", []string{"runs", "read"}, "2027-03-01", true,
			}},
			OIDC: &OIDC{
				Issuer: "https://login.example/realms/acme", Audiences: []string{"https://crib.example/mcp", "toolcrib"}, JWKSURL: "https://login.example/keys?v=1",
				Algorithms: []string{"RS256", "ES256"}, Skew: 60, PrincipalClaim: "email", ScopesClaim: "realm_access.roles",
				Scopes: map[string][]string{"agents": {"runs"}, "crib ops": {"approve", "admin", "read"}}, TenantClaim: "org", TenantValue: "org_1", Advertise: true,
			},
			ToolSearch:        ToolSearch{Choice: ToolSearchSurface, Mode: "directory"},
			ToolSearchManaged: true, Admission: "quarantine",
			Sources: map[string]MCPServer{
				"Team Calendar": calendar,
				"archive":       archive,
				"crm": {
					Type:             "streamable-http",
					URL:              secret(t, "https://crm.example/mcp?tenant=${env:CRM_TENANT}"),
					Headers:          map[string]Secret{"Authorization": secret(t, "${env:CRM_AUTH}")},
					TrustAnnotations: true,
					Connection:       "session",
					Loading:          "deferred",
				},
				"old": {Type: "sse", URL: secret(t, "http://old.example/sse")},
			},
			Plugins: Plugins{OpenAPI: map[string]OpenAPI{
				"Shop API": {
					URL:          secret(t, "https://shop.example/openapi.json"),
					Server:       secret(t, "https://${env:SHOP}.shop.example/v2"),
					Variables:    map[string]string{"region": "eu"},
					Headers:      map[string]Secret{"X-Client": secret(t, "toolcrib")},
					Auth:         map[string]Secret{"key": secret(t, "${file:/run/secrets/shop}"), "basic": secret(t, "ada:${env:PASSWORD}")},
					Include:      []string{"tag:orders", "GET /v1/*"},
					Exclude:      []string{"deleteOrder"},
					Rename:       map[string]string{"listOrders": "orders", "PUT /v1/x": "put_x"},
					Deprecated:   true,
					LooseOutputs: true,
					Network:      Network{Allow: []string{"10.1.2.3/16"}},
					Timeout:      5000, AlwaysLoad: true, TrustAnnotations: true, Expose: "bare",
				},
				"local": {File: "testdata/apis/local.yaml", Disabled: true, Loading: "auto"},
			}, Bus: map[string]BusPlugin{
				"Ledger": {
					Plugin: "ledger-eu", Include: []string{"account_*", "post_entry"}, Exclude: []string{"account_close"},
					AlwaysLoad: true, Timeout: 5000, TrustAnnotations: true,
				},
				"printer": {Disabled: true, Loading: "deferred"},
			}},
			Policies: []PolicyLayer{{Deny: []string{"mcp:crm:drop_*"}, Rules: []PolicyRule{
				{Name: "readers", Effect: "allow", When: "tool.annotations.readOnly"},
				{Name: "big", Effect: "approve", Tools: []string{"mcp:crm:merge_*"}, When: "args.ids.size() > 10", Approval: &ApprovalTerms{
					Title: "Merge many", Description: "More than ten at once", Severity: "critical", Deciders: []string{"ann", "bob"}, ExpiresIn: 3600}},
			}}},
			Hooks: map[string]Hook{
				"guard": {
					URL:        secret(t, "https://guard.example/hook?tenant=${env:CRM_TENANT}"),
					SigningKey: secret(t, "${file:guard.key} ${env:OLD_KEY}"),
					Headers:    map[string]Secret{"Authorization": secret(t, "${env:GUARD_AUTH}")},
					Events:     []string{"before_tool_call", "after_tool_call"},
					Tools:      []string{"mcp:crm:*"},
					Priority:   -5, Timeout: 500,
				},
				"audit": {Bus: "ledger", Events: []string{"after_tool_call"}, Advisory: true},
				"off":   {Bus: "ledger", Disabled: true},
			},
			Limits: Limits{50, 7, 1000},
			Profiles: map[string]Profile{
				"support": {ToolSearch: ToolSearch{Choice: ToolSearchAuto, Percent: 5}, Allow: []string{"mcp:crm:*"}},
				"plain":   {ToolSearch: ToolSearch{Choice: ToolSearchFalse, Mode: "direct"}},
			},
		}},
	}
	if diff := cmp.Diff(want, got, compare()); diff != "" {
		t.Errorf("Load (-want +got):\n%s", diff)
	}
	if ps := got.Check(); ps != nil {
		t.Errorf("Check = %v, want none", ps)
	}
}

func TestLoadMissing(t *testing.T) {
	if _, err := Load("testdata/none.yaml"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Load = %v, want not exist", err)
	}
}

func TestParseDefaults(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "---\n", "mcpServers:\npolicies:\ntoolSearch:\ntenants:\nnats:\n", "{}", "null\n"} {
		c := parse(t, text)
		want := &Config{Listen: DefaultListen, NATS: NATS{Replicas: 1}, Index: Index{Backend: "embedded"}}
		if diff := cmp.Diff(want, c, compare()); diff != "" {
			t.Errorf("Parse(%q) (-want +got):\n%s", text, diff)
		}
		if ps := c.Check(); ps != nil {
			t.Errorf("Parse(%q).Check() = %v, want none", text, ps)
		}
	}
}

// What JSON editors write is read too: comments, tabs, no indentation, a byte order mark.
func TestParseJSON(t *testing.T) {
	want := parse(t, `mcpServers: {a: {command: "C:\\x\ty // z", args: ["/* a */", "\""]}}`)
	for _, text := range []string{
		"{\"mcpServers\":{\"a\":{\"command\":\"C:\\\\x\\ty // z\",\"args\":[\"/* a */\",\"\\\"\"]}}}",
		"\ufeff// servers\r\n{\r\n\t\"mcpServers\": { // all\r\n\t\t\"a\": {\r\n\"command\": \"C:\\\\x\\ty // z\", /* two\n\tlines */ \"args\": [\"/* a */\", \"\\\"\",],\r\n},\r\n}\r\n}\r\n",
	} {
		if diff := cmp.Diff(want, parse(t, text), compare()); diff != "" {
			t.Errorf("Parse(%q) (-want +got):\n%s", text, diff)
		}
	}
	_, err := Parse([]byte("{ // one\n\t/* two\n*/ \"lisen\": 1}"), "x.json")
	if want := "x.json:3: lisen: unknown key; did you mean listen?"; err == nil || err.Error() != want {
		t.Errorf("Parse = %v, want %s", err, want)
	}
}

// A small file cannot become a large configuration, nor a deep one a deep stack.
func TestParseLimits(t *testing.T) {
	aliases := "mcpServers:\n  s: &s {command: a, args: [" + strings.Repeat("a,", 2000) + "a]}\n"
	for i := range 200 {
		aliases += fmt.Sprintf("  s%d: *s\n", i)
	}
	for text, want := range map[string]string{
		aliases:                         "more than 262144 values",
		strings.Repeat("#", maxBytes+1): "larger than",
		"a: " + strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1): "deeper than",
	} {
		if _, err := Parse([]byte(text), ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%.40s…) = %.200v, want %q", text, err, want)
		}
	}
}

// A configuration whose secrets are all references can be written and read again.
func TestRoundTrip(t *testing.T) {
	text := `{
		"listen": "127.0.0.1:1", "toolSearch": {"mode": "tools", "maxSearchLimit": 30},
		"nats": {"url": "${env:NATS}", "replicas": 3},
		"policies": [{"level": "session", "name": "s", "allow": ["mcp:*"]}],
		"mcpServers": {"a": {"command": "${env:A}${file:/b}", "args": ["${env:B}"], "loading": "auto", "timeout": 100},
			"b": {"url": "${env:URL}", "headers": {"A": "${file:/c}"}}},
		"limits": {"maxRuns": 3}, "profiles": {"p": {"toolSearch": "auto:7"}}}`
	first := parse(t, text)
	b, err := json.Marshal(first)
	if err != nil {
		t.Fatal(err)
	}
	second := parse(t, string(b))
	if diff := cmp.Diff(first, second, compare()); diff != "" {
		t.Errorf("second reading (-first +second):\n%s", diff)
	}
}

func TestCheck(t *testing.T) {
	keys := "tenants: {a: {keys: [{name: n, hash: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08, scopes: [runs]}]}, b: {}}\n"
	for _, tt := range []struct {
		text, listen string // listen replaces that of the text
		want         string // part of the only problem, "" for none
	}{
		{"", "", ""},
		{"", "localhost:0", ""},
		{"", "127.8.8.8:1", ""},
		{"", "[::1]:7420", ""},
		{"", "0.0.0.0:7420", "reached by others"},
		{"", ":7420", "reached by others"},
		{"", "[::]:7420", "reached by others"},
		{"", "crib.example:7420", "reached by others"},
		{"", "10.0.0.1:7420", "reached by others"},
		{"listen: 0.0.0.0:7420", "", "toolcrib.yaml:1: listen"},
		{"tenants: {a: {}}", "0.0.0.0:7420", "reached by others"},
		{"tenants: {a: {}}", "", "no tenant has keys or oidc"},
		{keys, "0.0.0.0:7420", ""},
		{keys, "", ""},
		{strings.Replace(keys, "scopes:", "disabled: true, scopes:", 1), "0.0.0.0:7420", "reached by others"},
		{"tenants: {a: {oidc: {issuer: 'http://127.0.0.1:5556/dex', audiences: [x]}}}", "", ""},
		{"tenants: {a: {oidc: {issuer: 'https://login.example', audiences: [x]}}}", "0.0.0.0:7420", "publicUrl"},
		{"{publicUrl: 'https://crib.example', network: {private: true}, tenants: {a: {oidc: {issuer: 'http://dex.internal', audiences: [x]}}}}", "0.0.0.0:7420", ""},
		{"", "nonsense", "host:port"},
	} {
		c := parse(t, tt.text)
		if tt.listen != "" {
			c.Listen = tt.listen
		}
		got := c.Check()
		ps, _ := errors.AsType[Problems](got)
		if tt.want == "" && got != nil || tt.want != "" && (len(ps) != 1 || !strings.Contains(ps.Error(), tt.want)) {
			t.Errorf("Check of %q at %q = %v, want %q", tt.text, tt.listen, got, tt.want)
		}
	}
}

func TestTenants(t *testing.T) {
	local := parse(t, "{mcpServers: {b: {command: x}, A B: {url: 'http://x', alwaysLoad: true}, off: {command: x, disabled: true}}, limits: {maxRuns: 3}, policies: [{deny: ['mcp:x']}, {level: tenant, deny: ['mcp:y']}], profiles: {p: {deny: ['mcp:z']}, q: {}}}")
	if diff := cmp.Diff([]contracts.TenantID{"local"}, local.TenantIDs()); diff != "" {
		t.Errorf("TenantIDs (-want +got):\n%s", diff)
	}
	tenant, ok := local.Tenant("local")
	if want := (Limits{20_000, 3, 60_000}); !ok || tenant.Limits != want {
		t.Errorf("Tenant(local) = %v, %v, want limits %v", tenant.Limits, ok, want)
	}
	wantSources := []Source{
		{contracts.SourceID{Kind: "mcp", Owner: "a-b"}, "A B", MCPServer{Type: "http", URL: secret(t, "http://x"), AlwaysLoad: true, Connection: "shared", Expose: "prefixed", Loading: "direct"}},
		{contracts.SourceID{Kind: "mcp", Owner: "b"}, "b", MCPServer{Type: "stdio", Command: secret(t, "x"), Connection: "session", Expose: "prefixed"}},
	}
	if diff := cmp.Diff(wantSources, local.Sources("local"), compare()); diff != "" {
		t.Errorf("Sources (-want +got):\n%s", diff)
	}
	wantLayers := []contracts.PolicyLayer{
		{Level: "global", Deny: []string{"mcp:x"}}, {Level: "tenant", Deny: []string{"mcp:y"}}, {Level: "profile", Name: "p", Deny: []string{"mcp:z"}},
	}
	if diff := cmp.Diff(wantLayers, local.Layers("local")); diff != "" {
		t.Errorf("Layers (-want +got):\n%s", diff)
	}

	full, err := Load("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]contracts.TenantID{"acme", "globex"}, full.TenantIDs()); diff != "" {
		t.Errorf("TenantIDs (-want +got):\n%s", diff)
	}
	var owners []string
	for _, s := range full.Sources("acme") {
		owners = append(owners, s.ID.String()+" "+s.Type)
	}
	if diff := cmp.Diff([]string{"mcp:crm http", "mcp:old sse", "mcp:team-calendar stdio"}, owners); diff != "" {
		t.Errorf("Sources(acme) (-want +got):\n%s", diff)
	}
	for _, other := range []contracts.TenantID{"globex", "local", "nobody"} {
		if s := full.Sources(other); s != nil {
			t.Errorf("Sources(%s) = %v, want none", other, s)
		}
		if l := full.Layers(other); len(l) != 2 {
			t.Errorf("Layers(%s) = %v, want the two global ones", other, l)
		}
	}
	if _, ok := full.Tenant("local"); ok {
		t.Error("Tenant(local) exists beside configured tenants")
	}
}

// A glob that no policy could be made of would have every run refused later.
func TestBadGlobIsFoundInTheFile(t *testing.T) {
	_, err := Parse([]byte(`{policies: [{deny: ["mcp:a:*", "[", "mcp:[z"]}]}`), "toolcrib.yaml")
	if err == nil || !strings.Contains(err.Error(), "policies[0].deny[1]") || !strings.Contains(err.Error(), "policies[0].deny[2]") || strings.Contains(err.Error(), "deny[0]") {
		t.Errorf("Parse = %v, want both bad globs and no other", err)
	}
}

// The layers of the file are those of the services, with every field of their rules.
func TestRulesOfTheFile(t *testing.T) {
	full, err := Load("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	layers := full.Layers("acme")
	want := []contracts.PolicyRule{
		{Name: "readers", Effect: "allow", When: "tool.annotations.readOnly"},
		{Name: "big", Effect: "approve", Tools: []string{"mcp:crm:merge_*"}, When: "args.ids.size() > 10", Approval: &contracts.ApprovalTerms{
			Title: "Merge many", Description: "More than ten at once", Severity: "critical", Deciders: []string{"ann", "bob"}, ExpiresIn: 3600}},
	}
	if diff := cmp.Diff(want, layers[2].Rules); diff != "" {
		t.Errorf("rules of the tenant's layer (-want +got):\n%s", diff)
	}
}

// What is too much is found over all layers of a tenant.
func TestTooManyRules(t *testing.T) {
	var b strings.Builder
	b.WriteString("policies:\n")
	for i := range 2 {
		b.WriteString("  - rules:\n")
		for j := range 1001 {
			fmt.Fprintf(&b, "    - {name: r%d-%d, effect: deny, tools: ['mcp:x']}\n", i, j)
		}
	}
	_, err := Parse([]byte(b.String()), "toolcrib.yaml")
	if err == nil || !strings.Contains(err.Error(), "policies: cannot be used: policy layer 2") || !strings.Contains(err.Error(), "at most 2000") {
		t.Errorf("Parse = %v, want the limit of rules", err)
	}
}
