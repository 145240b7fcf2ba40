package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func TestBusPlugins(t *testing.T) {
	c, err := Parse([]byte(`
nats: {listen: "127.0.0.1:4222"}
plugins:
  bus:
    The Ledger: {plugin: ledger, include: [list_*], exclude: ["*secret*"], password: "${env:LEDGER}", timeout: 500, trustAnnotations: true}
    printer: {alwaysLoad: true}
    old: {disabled: true}
`), "x.yaml")
	if err != nil {
		t.Fatal(err)
	}
	ledger := BusPlugin{
		Plugin: "ledger", Include: []string{"list_*"}, Exclude: []string{"*secret*"}, Password: secret(t, "${env:LEDGER}"), Timeout: 500, TrustAnnotations: true,
	}
	id := func(owner string) contracts.SourceID {
		return contracts.SourceID{Kind: contracts.SourcePlugin, Owner: owner}
	}
	want := []BusSource{
		{id("printer"), "printer", BusPlugin{Plugin: "printer", AlwaysLoad: true, Loading: contracts.LoadingDirect}},
		{id("the-ledger"), "The Ledger", ledger},
	}
	if diff := cmp.Diff(want, c.BusPlugins(contracts.LocalTenant), cmp.Comparer(func(a, b Secret) bool { return a.Written() == b.Written() })); diff != "" {
		t.Errorf("BusPlugins (-want +got):\n%s", diff)
	}
	if got := c.BusPlugins("other"); got != nil {
		t.Errorf("BusPlugins of another tenant = %v", got)
	}

	for value, want := range map[string]string{"0123456789abcdef": "", "0123456789": "fewer than 16", "": "LEDGER"} {
		got, err := c.Guests(Resolver{Lookup: func(string) (string, bool) { return value, value != "" }, ReadFile: func(string) ([]byte, error) { return nil, errors.New("none") }})
		if want == "" {
			if diff := cmp.Diff([]Guest{{contracts.LocalTenant, "ledger", value}}, got); diff != "" || err != nil {
				t.Errorf("Guests: %v (-want +got):\n%s", err, diff)
			}
		} else if err == nil || !strings.Contains(err.Error(), want) || value != "" && strings.Contains(err.Error(), value) {
			t.Errorf("Guests with the password %q: %v, want %q in it", value, err, want)
		}
	}
}
