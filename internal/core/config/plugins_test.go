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

func TestOpenAPIs(t *testing.T) {
	full, err := Load("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := full.OpenAPIs("acme")
	if len(all) != 1 {
		t.Fatalf("OpenAPIs(acme) = %v, want the one that is not disabled", all)
	}
	got := all[0]
	if want := (contracts.SourceID{Kind: "plugin", Owner: "shop-api"}); got.ID != want || got.Name != "Shop API" || got.Loading != "direct" || got.Expose != "bare" {
		t.Errorf("OpenAPIs(acme) = %+v, want %v with its defaults", got, want)
	}
	var networks []string
	for _, p := range got.Network.Networks() {
		networks = append(networks, p.String())
	}
	if diff := cmp.Diff([]string{"169.254.10.0/24", "10.1.0.0/16"}, networks); diff != "" || !got.Network.Private || got.Network.Proxy.Written() != "http://proxy.example:3128" {
		t.Errorf("network = %+v, want that of all besides its own (-want +got):\n%s", got.Network, diff)
	}
	if other := full.OpenAPIs("globex"); other != nil {
		t.Errorf("OpenAPIs(globex) = %v, want none", other)
	}
	local := parse(t, "plugins: {openapi: {b: {file: b.yaml}, a: {url: 'http://a.example'}}}").OpenAPIs("local")
	if len(local) != 2 || local[0].ID.Owner != "a" || local[0].Expose != "prefixed" || local[1].File != "b.yaml" || local[1].Network.Private {
		t.Errorf("OpenAPIs(local) = %+v, want a and b with defaults", local)
	}
}

func TestResolveOpenAPI(t *testing.T) {
	c := parse(t, `plugins: {openapi: {a: {url: "http://${env:HOST}/x", server: "${env:SERVER}", headers: {H: "${env:H}"}, auth: {k: "Bearer ${file:/k}"}, network: {proxy: "${env:PROXY}"}}}}`)
	env := map[string]string{"HOST": "hunter2.example", "SERVER": "https://s.example", "H": "hunter2", "PROXY": "http://hunter2@p.example"}
	r := Resolver{
		Lookup:   func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		ReadFile: func(string) ([]byte, error) { return []byte("hunter2\n"), nil },
	}
	o := c.OpenAPIs("local")[0]
	got, err := o.Resolve(r)
	want := APITarget{
		"http://hunter2.example/x", "https://s.example", "http://hunter2@p.example", map[string]string{"H": "hunter2"}, map[string]string{"k": "Bearer hunter2"},
		[]string{"http://hunter2.example/x", "https://s.example", "http://hunter2@p.example", "hunter2", "Bearer hunter2"},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("Resolve: %v (-want +got):\n%s", err, diff)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if s := fmt.Sprintf(verb, got) + fmt.Sprintf(verb, o); strings.Contains(s, "hunter2") {
			t.Errorf("%s shows %s", verb, s)
		}
	}
	if b, _ := json.Marshal(got); string(b) != "{}" {
		t.Errorf("a target is %s, want nothing", b)
	}
	for change, reason := range map[string]string{
		"HOST=": "url: is not an http or https URL", "SERVER=hunter2": "server: is not an http or https URL", "H=": "headers.H: is empty", "PROXY=hunter2": "network.proxy: is not",
	} {
		name, v, _ := strings.Cut(change, "=")
		old := env[name]
		env[name] = v
		if _, err := o.Resolve(r); err == nil || !strings.Contains(err.Error(), reason) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q", change, err, reason)
		}
		env[name] = old
	}
	r.ReadFile = func(string) ([]byte, error) { return nil, errors.New("gone") }
	if _, err := o.Resolve(r); err == nil || !strings.Contains(err.Error(), "auth.k: read the file of a reference") {
		t.Errorf("Resolve without the file: %v", err)
	}
}
