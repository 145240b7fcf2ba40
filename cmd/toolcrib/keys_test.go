package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// What keys new prints lets the key in, and no other.
func TestNewKey(t *testing.T) {
	code, out, errs := cli(t, "", "keys", "new", "--tenant", "acme", "--name", "agents: all", "--scopes", "runs,read", "--expires", "90d")
	if code != 0 {
		t.Fatalf("keys new = %d %s", code, errs)
	}
	_, rest, _ := strings.Cut(out, "\n\n")
	key, lines, _ := strings.Cut(rest, "\n\nIts place in toolcrib.yaml:\n\n")
	if !strings.HasPrefix(key, "toolcrib_") || len(key) < 30 || strings.Contains(lines, key) {
		t.Fatalf("keys new prints\n%s", out)
	}
	c, err := config.Parse([]byte(lines), "toolcrib.yaml")
	if err != nil {
		t.Fatalf("%v in\n%s", err, lines)
	}
	k := c.Tenants["acme"].Keys[0]
	if in := time.Until(k.Until()); k.Name != "agents: all" || k.Hash != string(contracts.HashOf([]byte(key))) || in < 89*24*time.Hour || in > 91*24*time.Hour {
		t.Errorf("the configuration has %+v", k)
	}
	file := filepath.Join(t.TempDir(), "toolcrib.yaml")
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, t.TempDir(), "--config", file)
	if _, err := client.New(s.url, key).OpenRun(t.Context(), client.RunOptions{}); err != nil {
		t.Errorf("OpenRun() with the key = %v", err)
	}
	if _, err := client.New(s.url, "").OpenRun(t.Context(), client.RunOptions{}); contracts.CodeOf(err) != contracts.CodeUnauthenticated {
		t.Errorf("OpenRun() without a key = %v, want it refused", err)
	}
	_, out, _ = cli(t, "", "keys", "new", "--tenant", "acme", "--name", "x", "--scopes", "runs", "--json")
	var other newKey
	if err := json.Unmarshal([]byte(out), &other); err != nil || other.Key == key || other.Expires != "" || other.Hash != contracts.HashOf([]byte(other.Key)) {
		t.Errorf("keys new --json = %s, %v", out, err)
	}
}

func TestNewKeyRefuses(t *testing.T) {
	good := map[string]string{"tenant": "acme", "name": "x", "scopes": "runs", "expires": "1d"}
	for flag, values := range map[string]map[string]string{
		"tenant":  {"": "--tenant", "Acme": "--tenant"},
		"name":    {"": "name: is empty"},
		"scopes":  {"": "scopes", "root": "want one of runs, approve, admin, read"},
		"expires": {"90": "--expires", "0d": "--expires", "-1d": "--expires", "1w": "--expires", "2020-01-01": "--expires", "d": "--expires", "99999999d": "--expires", "1dh": "--expires"},
	} {
		for value, want := range values {
			args := []string{"keys", "new"}
			for f, v := range good {
				if f == flag {
					v = value
				}
				args = append(args, "--"+f+"="+v)
			}
			if code, out, errs := cli(t, "", args...); code != 2 || out != "" || !strings.Contains(errs, want) {
				t.Errorf("%v = %d %s%s, want it refused with %q", args, code, out, errs, want)
			}
		}
	}
}
