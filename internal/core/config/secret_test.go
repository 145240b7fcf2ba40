package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestSecretShowsNothing(t *testing.T) {
	c := parse(t, `
nats: {url: "nats://user:hunter2@host"}
mcpServers:
  a: {command: hunter2, args: [hunter2, "x=${env:KEY} hunter2"], env: {A: hunter2}, cwd: hunter2}
  b: {url: "https://hunter2.example/${file:/f}", headers: {A: hunter2}}
`)
	hidden := struct{ c, s any }{c, c.MCPServers["a"]} // fmt calls no methods in unexported fields
	inner := struct{ s Secret }{c.MCPServers["a"].Cwd}
	var log bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		slog.New(h).Info("x", "config", c, "server", c.MCPServers["a"], "secret", c.NATS.URL, "args", c.MCPServers["a"].Args)
	}
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	log.Write(b)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&log, verb+"\n", c)
		fmt.Fprintf(&log, verb+"\n", *c)
		fmt.Fprintf(&log, verb+"\n", c.NATS.URL)
		fmt.Fprintf(&log, verb+"\n", hidden)
		fmt.Fprintf(&log, verb+"\n", inner)
	}
	for _, leak := range []string{"hunter2", fmt.Sprintf("%x", "hunter2")} {
		if strings.Contains(log.String(), leak) {
			t.Errorf("%s is shown in %s", leak, log.String())
		}
	}
	if got, want := c.MCPServers["a"].Args[1].String(), "***${env:KEY}***"; got != want {
		t.Errorf("String = %s, want %s", got, want)
	}
	if got := c.MCPServers["a"].Command.Written(); got != "hunter2" {
		t.Errorf("Written = %s, want the text of the file", got)
	}
}
