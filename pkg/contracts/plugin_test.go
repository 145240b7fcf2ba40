package contracts_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const plugin contracts.PluginID = "ledger"

func TestPluginSubjects(t *testing.T) {
	list, call := contracts.PluginListSubject(tenant, plugin), contracts.PluginCallSubject(tenant, plugin)
	changed, cancel := contracts.PluginChangedSubject(tenant, plugin), contracts.PluginCancelSubject(tenant, plugin, "x1")
	checkTokens(t, "list", list, 4)
	checkTokens(t, "call", call, 4)
	hook := contracts.PluginHookSubject(tenant, plugin)
	checkTokens(t, "hook", hook, 4)
	checkTokens(t, "changed", changed, 4)
	checkTokens(t, "cancel", cancel, 5)
	for _, s := range []string{list, call, hook, changed, cancel} {
		if got := matches(contracts.PluginCancels(tenant, plugin), s); got != (s == cancel) {
			t.Errorf("PluginCancels passes %s = %v", s, got)
		}
		publish, subscribe := contracts.PluginPermissions(tenant, plugin)
		var mayPublish, maySubscribe bool
		for _, f := range publish {
			mayPublish = mayPublish || matches(f, s)
		}
		for _, f := range subscribe {
			maySubscribe = maySubscribe || matches(f, s)
		}
		if mayPublish != (s == changed) || maySubscribe == (s == changed) {
			t.Errorf("%s: the permissions allow publishing %v and subscribing %v", s, mayPublish, maySubscribe)
		}
		for _, f := range append(publish, subscribe...) {
			for _, other := range []string{strings.Replace(s, ".ledger.", ".other.", 1), strings.Replace(s, "."+string(tenant)+".", ".other.", 1)} {
				if matches(f, other) {
					t.Errorf("the permission %s covers %s of another", f, other)
				}
			}
		}
	}
}

// TestPluginServices has no two plugins be one service of NATS, whose names are in permissions.
func TestPluginServices(t *testing.T) {
	seen := map[string]string{}
	for _, tt := range []struct {
		tenant contracts.TenantID
		plugin contracts.PluginID
	}{{"a", "b-c"}, {"a-b", "c"}, {"a", "b_c"}, {"a", "b"}, {"a-b", "_c"}} {
		name, whose := contracts.PluginService(tt.tenant, tt.plugin), string(tt.tenant)+" "+string(tt.plugin)
		if other := seen[name]; other != "" {
			t.Errorf("PluginService is %s for %s and for %s", name, other, whose)
		}
		seen[name] = whose
	}
}

func TestParsePluginID(t *testing.T) {
	for in, want := range map[string]contracts.Code{
		"ledger": "", "a_b-1": "", strings.Repeat("x", 64): "",
		"": contracts.CodeInvalid, "a.b": contracts.CodeInvalid, "*": contracts.CodeInvalid, "Ledger": contracts.CodeInvalid,
		strings.Repeat("x", 65): contracts.CodeInvalid,
	} {
		got, err := contracts.ParsePluginID(in)
		if contracts.CodeOf(err) != want || want == "" && string(got) != in {
			t.Errorf("ParsePluginID(%q) = %q, %v, want code %q", in, got, err, want)
		}
	}
}

func TestPluginAnswerForm(t *testing.T) {
	for want, a := range map[string]contracts.PluginAnswer{
		`{"content":[{"type":"text","text":"x"}],"structuredContent":{"n":1}}`: {Result: contracts.TextResult("x", json.RawMessage(`{"n":1}`))},
		`{"error":{"code":"rate_limited","message":"later","retryAfter":5}}`:   {Error: &contracts.Error{Code: contracts.CodeRateLimited, Message: "later", RetryAfter: 5}},
	} {
		if got, err := json.Marshal(a); string(got) != want || err != nil {
			t.Errorf("answer = %s, %v, want %s", got, err, want)
		}
	}
}
