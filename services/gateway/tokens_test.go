package gateway_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolcrib/toolcrib/internal/core/approvals"
	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/internal/core/issuer"
	"github.com/toolcrib/toolcrib/internal/core/issuer/issuertest"
	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/gateway"
)

const audience = "https://crib.example/mcp"

// trustIn returns what a tenant says to take the tokens of the provider.
func trustIn(d *issuertest.Double) *config.OIDC {
	return &config.OIDC{Issuer: d.URL, Audiences: []string{audience}}
}

// byTokens returns a configuration in which the tenants acme and bell each have a provider.
func byTokens(acme, bell *issuertest.Double) gateway.Config {
	return gateway.Config{PublicURL: "https://crib.example", Tenants: map[contracts.TenantID]gateway.Tenant{
		"acme": {OIDC: trustIn(acme), Keys: keys("runs").Keys}, "bell": {OIDC: trustIn(bell)},
	}}
}

func scope(words string) issuertest.Claims { return issuertest.Claims{"scope": words} }

func TestAccessWithTokens(t *testing.T) {
	acme, bell, stranger := issuertest.Start(t), issuertest.Start(t), issuertest.Start(t)
	w := open(t, byTokens(acme, bell))
	all := scope("runs approve admin read")
	with := func(name string, v any) issuertest.Claims {
		return issuertest.Claims{"scope": all["scope"], name: v}
	}
	good := acme.Token(t, "ann", audience, all)
	past := time.Now().Add(-time.Hour).Unix()
	bad := map[string]string{
		"wrong audience":       acme.Token(t, "ann", "https://other.example", all),
		"no audience":          acme.Token(t, "ann", audience, with("aud", nil)),
		"an issuer of nobody":  stranger.Token(t, "ann", audience, all),
		"a forged issuer":      stranger.Token(t, "ann", audience, with("iss", acme.URL)),
		"expired":              acme.Token(t, "ann", audience, with("exp", past)),
		"for ever":             acme.Token(t, "ann", audience, with("exp", nil)),
		"not yet":              acme.Token(t, "ann", audience, with("nbf", time.Now().Add(time.Hour).Unix())),
		"no subject":           acme.Token(t, "ann", audience, with("sub", nil)),
		"a subject of a list":  acme.Token(t, "ann", audience, with("sub", []string{"ann"})),
		"an invisible subject": acme.Token(t, "ann\u202e", audience, all),
		"a key's name":         acme.Token(t, "runs", audience, all),
		"cut":                  good[:len(good)-8],
	}
	scopes := []string{"runs", "approve", "admin", "read"}
	one := map[string]string{}
	for _, s := range scopes {
		one[s] = acme.Token(t, "ann", audience, scope("openid "+s))
	}
	none := acme.Token(t, "ann", audience, nil)
	for route, may := range routes() {
		for name, token := range bad {
			if a := w.try(t, route, "Authorization", "Bearer "+token); a.status != 401 || !strings.Contains(a.header.Get("WWW-Authenticate"), `error="invalid_token"`) {
				t.Errorf("%s with a token (%s) = %d %s, want 401", route, name, a.status, a.body)
			}
		}
		if a := w.try(t, route, "Authorization", "Bearer "+none); a.status != 403 {
			t.Errorf("%s with a token without scopes = %d %s, want 403", route, a.status, a.body)
		}
		for s, token := range one {
			a := w.try(t, route, "Authorization", "Bearer "+token)
			if in := a.status != 401 && a.status != 403; in != slices.Contains(may, s) {
				t.Errorf("%s with a token of scope %s = %d %s, want it let in: %v", route, s, a.status, a.body, !in)
			}
		}
	}
}

// A token opens the tenant that its issuer serves, whatever it says.
func TestTokensOfTenants(t *testing.T) {
	acme, shared := issuertest.Start(t), issuertest.Start(t)
	of := func(claim, value string) *config.OIDC {
		o := trustIn(shared)
		o.TenantClaim, o.TenantValue = claim, value
		return o
	}
	w := open(t, gateway.Config{Tenants: map[contracts.TenantID]gateway.Tenant{
		"acme": {OIDC: trustIn(acme)}, "bell": {OIDC: of("org", "")}, "cord": {OIDC: of("org", "org_7")},
	}})
	list := func(token string) (int, []client.RunSummary) {
		a := w.do(t, "GET", "/v1/runs", "", "Authorization", "Bearer "+token)
		return a.status, decode[client.RunList](t, a).Runs
	}
	org := func(v any) issuertest.Claims { return issuertest.Claims{"scope": "runs", "org": v} }
	tenants := map[string]string{
		"acme": acme.Token(t, "ann", audience, scope("runs")), "bell": shared.Token(t, "ann", audience, org("bell")), "cord": shared.Token(t, "ann", audience, org("org_7")),
	}
	for tenant, token := range tenants {
		v, err := client.New(w.base, token).OpenRun(t.Context(), client.RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		rec, err := w.runs.Get(t.Context(), contracts.RunKey(contracts.TenantID(tenant), v.ID))
		if err != nil || rec.Principal != "ann" {
			t.Errorf("the run of a token for %s = %+v, %v; want it there, with principal ann", tenant, rec, err)
		}
		if status, runs := list(token); status != 200 || len(runs) != 1 || runs[0].ID != v.ID {
			t.Errorf("the runs of %s = %d %+v, want its own alone", tenant, status, runs)
		}
	}
	for name, token := range map[string]string{
		"no tenant":                      shared.Token(t, "ann", audience, scope("runs")),
		"a tenant of another issuer":     shared.Token(t, "ann", audience, org("acme")),
		"the id where the claim differs": shared.Token(t, "ann", audience, org("cord")),
		"two tenants":                    shared.Token(t, "ann", audience, org([]string{"bell", "org_7"})),
		"an empty tenant":                shared.Token(t, "ann", audience, org("")),
	} {
		if status, _ := list(token); status != 401 {
			t.Errorf("a token with %s = %d, want 401", name, status)
		}
	}
	if status, runs := list(acme.Token(t, "eve", audience, org("bell"))); status != 200 || len(runs) != 1 {
		t.Errorf("a token of acme's issuer that says bell = %d with %d runs, want those of acme", status, len(runs))
	}
	other := of("", "")
	if _, err := gateway.New(t.Context(), w.bus, gateway.Config{Listen: "127.0.0.1:0", Tenants: map[contracts.TenantID]gateway.Tenant{"bell": {OIDC: other}, "cord": {OIDC: of("org", "")}}}, nil); contracts.CodeOf(err) != contracts.CodeInvalid {
		t.Errorf("New() with tokens that could be of two tenants = %v, want it refused", err)
	}
}

func TestClaimsBecomeScopes(t *testing.T) {
	d := issuertest.Start(t)
	o := trustIn(d)
	o.PrincipalClaim, o.ScopesClaim = "email", "realm_access.roles"
	o.Scopes = map[string][]string{"crib-agents": {"runs"}, "crib ops": {"read", "admin"}}
	w := open(t, gateway.Config{Tenants: map[contracts.TenantID]gateway.Tenant{"acme": {OIDC: o}}})
	for _, tt := range []struct {
		roles []string
		scope string
		want  [3]int // of opening a run, listing policies, deciding
	}{
		{[]string{"crib-agents"}, "", [3]int{201, 403, 403}},
		{[]string{"crib ops", "x"}, "", [3]int{403, 200, 403}},
		{[]string{"crib-agents", "crib ops"}, "", [3]int{201, 200, 403}},
		{[]string{"runs", "admin", "approve"}, "runs admin approve", [3]int{403, 403, 403}}, // not what was agreed
	} {
		token := d.Token(t, "u-1", audience, issuertest.Claims{"email": "ann@acme.example", "scope": tt.scope, "realm_access": map[string]any{"roles": tt.roles}})
		header := []string{"Authorization", "Bearer " + token}
		got := [3]int{
			w.do(t, "POST", "/v1/runs", "{}", header...).status, w.do(t, "GET", "/v1/policies", "", header...).status, w.do(t, "POST", "/v1/approvals/x", `{"decision":"deny"}`, header...).status,
		}
		if got != tt.want {
			t.Errorf("with roles %q = %v, want %v", tt.roles, got, tt.want)
		}
	}
}

// A token's principal decides where the terms name it, and stands in the record.
func TestTokenDecides(t *testing.T) {
	d := issuertest.Start(t)
	w := open(t, gateway.Config{Tenants: map[contracts.TenantID]gateway.Tenant{"acme": {OIDC: trustIn(d), Keys: keys("runs", "approve").Keys}}})
	desk, err := approvals.Open(t.Context(), w.bus)
	if err != nil {
		t.Fatal(err)
	}
	v, err := client.New(w.base, "key-runs").OpenRun(t.Context(), client.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a := w.ask(t, desk, "acme", "key-runs", v.ID, contracts.ApprovalTerms{Deciders: []string{"ann", "bob"}})
	decide := func(credential string) answer {
		return w.do(t, "POST", "/v1/approvals/"+string(a.ID), `{"decision":"allow_once"}`, "Authorization", "Bearer "+credential)
	}
	for name, credential := range map[string]string{
		"a key that is not named":       "key-approve",
		"a principal that is not named": d.Token(t, "eve", audience, scope("approve")),
		"one who may only look":         d.Token(t, "ann", audience, scope("read runs admin")),
		"one of the name in capitals":   d.Token(t, "Ann", audience, scope("approve")),
	} {
		if got := decide(credential); got.status != 403 {
			t.Errorf("%s decides = %d %s, want 403", name, got.status, got.body)
		}
	}
	if got := decide(d.Token(t, "ann", audience, scope("approve"))); got.status != 200 {
		t.Fatalf("ann decides = %d %s", got.status, got.body)
	}
	if a, err = desk.Get(t.Context(), "acme", a.ID); err != nil || a.Verdict == nil || a.Verdict.By != "ann" {
		t.Errorf("the approval = %+v, %v; want it decided by ann", a, err)
	}
	close(w.release)
}

func TestProviderThatIsAway(t *testing.T) {
	d := issuertest.Start(t)
	d.Away(true)
	w := open(t, gateway.Config{Tenants: map[contracts.TenantID]gateway.Tenant{"acme": {OIDC: trustIn(d), Keys: keys("runs").Keys}}})
	token := d.Token(t, "ann", audience, scope("runs"))
	get := func(credential string) answer {
		return w.do(t, "GET", "/v1/runs", "", "Authorization", "Bearer "+credential)
	}
	a := get(token)
	if p := a.problem(t); a.status != 503 || p.Code != contracts.CodeUnavailable || a.header.Get("Retry-After") == "" || a.header.Get("WWW-Authenticate") != "" {
		t.Errorf("a token that cannot be checked = %d %s, want 503 with a time to try again", a.status, a.body)
	}
	if a := get("key-runs"); a.status != 200 {
		t.Errorf("a key, while the provider is away = %d %s", a.status, a.body)
	}
	if a := get("a.b.c"); a.status != 401 {
		t.Errorf("no token, while the provider is away = %d %s", a.status, a.body)
	}
	d.Away(false)
	if a := get(token); a.status != 200 {
		t.Errorf("a token, once the provider is back = %d %s", a.status, a.body)
	}
	d.Away(true)
	if a := get(d.Token(t, "bob", audience, scope("runs"))); a.status != 200 {
		t.Errorf("another token of a known key, while the provider is away = %d %s", a.status, a.body)
	}
	d.Away(false)
	d.Rotate(t, jose.ES256)
	if a := get(d.Token(t, "bob", audience, scope("runs"))); a.status != 200 {
		t.Errorf("a token of a new key = %d %s", a.status, a.body)
	}
}

// soon returns when a token has to expire so that it still holds for a moment, the skew of clocks counted.
func soon() issuertest.Claims {
	return issuertest.Claims{"scope": "runs", "exp": time.Now().Add(2*time.Second - issuer.DefaultSkew).Unix()}
}

// Event streams and MCP's end with the credential that opened them.
func TestStreamsEndWithTheCredential(t *testing.T) {
	d := issuertest.Start(t)
	k := gateway.Key{Name: "short", Hash: contracts.HashOf([]byte("key-short")), Scopes: []string{"runs"}, Until: time.Now().Add(4 * time.Second)}
	w := open(t, gateway.Config{Tenants: map[contracts.TenantID]gateway.Tenant{"acme": {OIDC: trustIn(d), Keys: append(keys("runs").Keys, k)}}})
	v, err := client.New(w.base, "key-runs").OpenRun(t.Context(), client.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ann := d.Token(t, "ann", audience, scope("runs"))
	session := w.initialize(t, ann)
	follow := func(path, credential string) (ended <-chan error) {
		req, err := http.NewRequestWithContext(t.Context(), "GET", w.base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+credential)
		req.Header.Set("Accept", "text/event-stream")
		req.Header.Set("Mcp-Session-Id", session)
		res, err := http.DefaultClient.Do(req)
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("GET %s = %+v, %v", path, res, err)
		}
		done := make(chan error, 1)
		go func() {
			defer res.Body.Close()
			_, err := io.Copy(io.Discard, bufio.NewReader(res.Body))
			done <- err
		}()
		return done
	}
	events := "/v1/runs/" + string(v.ID) + "/events"
	lasting := follow(events, ann)
	for name, ended := range map[string]<-chan error{
		"a token's event stream": follow(events, d.Token(t, "ann", audience, soon())), "a key's event stream": follow(events, "key-short"), "MCP's stream": follow("/mcp", d.Token(t, "ann", audience, soon())),
	} {
		select {
		case <-ended:
		case <-time.After(15 * time.Second):
			t.Errorf("%s goes on after its credential has expired", name)
		}
	}
	select {
	case err := <-lasting:
		t.Errorf("the stream of a token that holds has ended: %v", err)
	default:
	}
	if a := w.do(t, "GET", "/v1/runs", "", "Authorization", "Bearer key-short"); a.status != 401 || !strings.Contains(string(a.body), "expired at 20") {
		t.Errorf("an expired key = %d %s, want 401 that says so", a.status, a.body)
	}
	if a := w.rpc(t, ann, session, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); a.status != 200 {
		t.Errorf("the session, after one of the tokens has expired = %d %s, want it to go on with the other", a.status, a.body)
	}
}

// A client without a token learns from the answer where to get one.
func TestMetadata(t *testing.T) {
	acme, bell := issuertest.Start(t), issuertest.Start(t)
	alone := gateway.Config{PublicURL: "https://crib.example", Tenants: map[contracts.TenantID]gateway.Tenant{"acme": {OIDC: trustIn(acme)}, "cord": keys("runs")}}
	advertised := byTokens(acme, bell)
	advertised.Tenants["bell"].OIDC.Advertise = true
	mapped := trustIn(acme)
	mapped.Scopes = map[string][]string{"crib.use": {"runs", "read"}, "crib.all": {"admin", "runs"}}
	for name, tt := range map[string]struct {
		cfg     gateway.Config
		issuers []string
		scope   string // that the challenge of /mcp names
	}{
		"one issuer":          {alone, []string{acme.URL}, `, scope="runs"`},
		"two issuers":         {byTokens(acme, bell), nil, `, scope="runs"`}, // that acme is a customer is nobody's business
		"two, one advertised": {advertised, []string{bell.URL}, `, scope="runs"`},
		"scopes of its own":   {gateway.Config{PublicURL: "https://crib.example", Tenants: map[contracts.TenantID]gateway.Tenant{"acme": {OIDC: mapped}}}, []string{acme.URL}, `, scope="crib.all"`},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t, tt.cfg)
			for path, resource := range map[string]string{"/mcp": "/mcp", "/mcp/a%20b?mode=code": "/mcp/a%20b", "/v1/runs": ""} {
				const place = "/.well-known/oauth-protected-resource"
				a := w.do(t, "GET", path, "")
				want := fmt.Sprintf(`Bearer realm="toolcrib", resource_metadata="https://crib.example%s%s"`, place, resource) + tt.scope
				if got := a.header.Get("WWW-Authenticate"); a.status != 401 || got != want {
					t.Errorf("GET %s = %d with %s\nwant %s", path, a.status, got, want)
				}
				m := decode[oauthex.ProtectedResourceMetadata](t, w.do(t, "GET", place+resource, ""))
				if m.Resource != "https://crib.example"+resource || !slices.Equal(m.AuthorizationServers, tt.issuers) || !slices.Equal(m.BearerMethodsSupported, []string{"header"}) {
					t.Errorf("the metadata of %q = %+v, want issuers %v", resource, m, tt.issuers)
				}
			}
		})
	}
	w := open(t, gateway.Config{Tenants: map[contracts.TenantID]gateway.Tenant{"acme": keys("runs")}})
	if a := w.do(t, "GET", "/.well-known/oauth-protected-resource/mcp", ""); a.status != 404 {
		t.Errorf("the metadata where no tokens are taken = %d %s, want 404", a.status, a.body)
	}
	if got := w.do(t, "GET", "/mcp", "").header.Get("WWW-Authenticate"); got != `Bearer realm="toolcrib"` {
		t.Errorf("the challenge where no tokens are taken = %s", got)
	}
}

// Credentials are told to nobody: not to the log, the records, the events, nor the caller.
func TestCredentialsStayOut(t *testing.T) {
	d := issuertest.Start(t)
	var log safeBuffer
	b := natstest.Open(t)
	w := openLogged(t, b, startStandIns(t, b), gateway.Config{Tenants: map[contracts.TenantID]gateway.Tenant{"acme": {OIDC: trustIn(d), Keys: keys("runs", "read").Keys}}},
		slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	good, expired := d.Token(t, "ann", audience, scope("runs read")), d.Token(t, "ann", audience, issuertest.Claims{"exp": 1})
	credentials := []string{good, expired, "key-runs", "key-read", "key-nobodys"}
	var told bytes.Buffer
	for _, c := range credentials {
		for _, route := range []string{"POST /v1/runs", "GET /v1/runs", "GET /v1/runs/{run}", "/mcp"} {
			a := w.try(t, route, "Authorization", "Bearer "+c)
			fmt.Fprintf(&told, "%s %v", a.body, a.header)
		}
		if v, err := client.New(w.base, c).OpenRun(t.Context(), client.RunOptions{}); err == nil {
			client.New(w.base, c).Call(t.Context(), v.ID, client.CallRequest{Name: "create_event"})
		}
	}
	d.Away(true)
	d.Rotate(t, jose.ES256)
	w.try(t, "GET /v1/runs", "Authorization", "Bearer "+d.Token(t, "ann", audience, scope("runs")))
	streams := 0
	for name := range b.JS.StreamNames(t.Context()).Name() {
		s, err := b.JS.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		info, err := s.Info(t.Context(), jetstream.WithSubjectFilter(">"))
		if err != nil {
			t.Fatal(err)
		}
		for n := info.State.FirstSeq; n <= info.State.LastSeq; n++ {
			if m, err := s.GetMsg(t.Context(), n); err == nil {
				streams++
				fmt.Fprintf(&told, "%s %v %s", m.Subject, m.Header, m.Data)
			}
		}
	}
	told.WriteString(log.String())
	if streams == 0 || !strings.Contains(log.String(), d.URL) {
		t.Errorf("%d messages were looked at, and the log says nothing of the provider: %s", streams, log.String())
	}
	for _, c := range credentials {
		parts := strings.Split(c, ".")
		if text := told.String(); strings.Contains(text, c) || strings.Contains(text, parts[len(parts)-1]) {
			t.Errorf("the credential %.20s… was told", c)
		}
	}
}

// A safeBuffer may be written to by several at once.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
