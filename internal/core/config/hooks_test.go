package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func TestHooksOf(t *testing.T) {
	c := parse(t, `
network: {proxy: "http://proxy.example"}
hooks:
  b: {bus: guard}
  a: {bus: guard, events: [after_tool_call], timeout: 9000}
  z: {url: "http://127.0.0.1:1", signingKey: "${env:K}", priority: -1}
  off: {bus: guard, disabled: true}
`)
	var got []string
	for _, h := range c.HooksOf(contracts.LocalTenant) {
		got = append(got, fmt.Sprint(h.Name, " ", h.On(contracts.HookBefore), h.On(contracts.HookAfter), h.Timeout, h.Proxy.Written()))
	}
	want := []string{"z true false 2000http://proxy.example", "a false true 9000http://proxy.example", "b true false 2000http://proxy.example"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("HooksOf (-want +got):\n%s", diff)
	}
	if got := c.HooksOf("other"); got != nil {
		t.Errorf("HooksOf of another tenant = %v", got)
	}
	full, err := Load("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if got := full.HooksOf("acme"); len(got) != 2 || got[0].Name != "guard" || got[1].Name != "audit" {
		t.Errorf("HooksOf(acme) = %+v, want guard and audit", got)
	}
	if got := full.HooksOf("globex"); got != nil {
		t.Errorf("HooksOf(globex) = %+v, want none", got)
	}
}

func TestTooManyHooks(t *testing.T) {
	var b strings.Builder
	b.WriteString("hooks:\n  off: {bus: guard, disabled: true}\n")
	for i := range mostHooks {
		fmt.Fprintf(&b, "  h%d: {bus: guard}\n", i)
	}
	parse(t, b.String())
	_, err := Parse([]byte(b.String()+"  more: {bus: guard}\n"), "x.yaml")
	if want := "x.yaml:1: hooks: has 33 hooks; want at most 32"; err == nil || err.Error() != want {
		t.Errorf("Parse = %v, want %s", err, want)
	}
}

func TestResolveHook(t *testing.T) {
	c := parse(t, `hooks: {a: {url: "http://${env:HOST}/x", signingKey: "${env:NEW} ${file:/old}", headers: {H: "${env:H}"}}, b: {bus: guard}}`)
	const key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	env := map[string]string{"HOST": "hunter2.example", "NEW": key, "H": "hunter2"}
	file := key + "\n"
	r := Resolver{
		Lookup:   func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		ReadFile: func(string) ([]byte, error) { return []byte(file), nil },
	}
	hooks := c.HooksOf("local")
	got, err := hooks[0].Resolve(r)
	if err != nil || got.URL != "http://hunter2.example/x" || len(got.Keys) != 2 || got.Headers["H"] != "hunter2" || got.Proxy != "" {
		t.Errorf("Resolve = %q %d %v, %v", got.URL, len(got.Keys), got.Headers, err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if s := fmt.Sprintf(verb, got) + fmt.Sprintf(verb, hooks[0]); strings.Contains(s, "hunter2") || strings.Contains(s, key[6:]) {
			t.Errorf("%s shows %s", verb, s)
		}
	}
	if b, _ := json.Marshal(got); string(b) != "{}" {
		t.Errorf("a target is %s, want nothing", b)
	}
	if got, err := hooks[1].Resolve(r); err != nil || got.URL != "" {
		t.Errorf("Resolve of a hook on the bus = %q, %v", got.URL, err)
	}
	for change, reason := range map[string]string{
		"HOST=": "url: is not an http or https URL", "NEW=hunter2": "signingKey: is no key of a webhook", "H=!": "environment variable H is not set",
	} {
		name, v, _ := strings.Cut(change, "=")
		old := env[name]
		env[name] = v
		if v == "!" {
			delete(env, name)
		}
		if _, err := hooks[0].Resolve(r); err == nil || !strings.Contains(err.Error(), reason) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q", change, err, reason)
		}
		env[name] = old
	}
	env["NEW"], file = "", "\n"
	if _, err := hooks[0].Resolve(r); err == nil || !strings.Contains(err.Error(), "signingKey: is empty") {
		t.Errorf("Resolve with empty keys: %v", err)
	}
	r.ReadFile = func(string) ([]byte, error) { return nil, errors.New("gone") }
	if _, err := hooks[0].Resolve(r); err == nil || !strings.Contains(err.Error(), "signingKey: read the file of a reference") {
		t.Errorf("Resolve without the file: %v", err)
	}
}

func TestHookGuests(t *testing.T) {
	c := parse(t, `
nats: {listen: "127.0.0.1:4222"}
hooks: {a: {bus: guard, password: "${env:A}"}, b: {bus: ledger}}
plugins: {bus: {ledger: {password: "${env:B}"}}}
`)
	env := map[string]string{"A": "0123456789abcdef", "B": "fedcba9876543210"}
	r := Resolver{Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok }}
	got, err := c.Guests(r)
	want := []Guest{{"local", "ledger", env["B"]}, {"local", "guard", env["A"]}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("Guests: %v (-want +got):\n%s", err, diff)
	}
	env["A"] = "short"
	if _, err := c.Guests(r); err == nil || err.Error() != "password of the hook a: has fewer than 16 characters" {
		t.Errorf("Guests with a short password: %v", err)
	}
}
