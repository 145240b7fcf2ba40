package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// everythingOver starts the public server "everything" with a transport of HTTP and returns where it listens. It ends with t.
func everythingOver(t *testing.T, transport string) string {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	free.Close()
	cmd := exec.Command(npm(t, "mcp-server-everything"), transport)
	cmd.Env = append(os.Environ(), "PORT="+addr[strings.LastIndexByte(addr, ':')+1:])
	cmd.Stderr = testWriter{t}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	natstest.Eventually(t, "the server listens", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return "http://" + addr
}

// TestServersOverHTTP reaches a public server by Streamable HTTP and by the transport of two streams that came before it.
func TestServersOverHTTP(t *testing.T) {
	c := up(t, t.TempDir(), map[string]any{
		"old": map[string]any{"type": "sse", "url": everythingOver(t, "sse") + "/sse"},
		"new": map[string]any{"type": "http", "url": everythingOver(t, "streamableHttp") + "/mcp"},
	}).client()
	run := openRun(t, c, client.RunOptions{Mode: "tools"}).ID
	for _, source := range []string{"old", "new"} {
		id := "mcp:" + source + ":get-sum"
		for query, want := range map[string]string{
			`tool_search {"query":"add two numbers"}`:                       id,
			fmt.Sprintf(`tool_describe {"id":%q}`, id):                      `"inputSchema"`,
			fmt.Sprintf(`tool_call {"id":%q,"args":{"a":40,"b":2}}`, id):    "42",
			fmt.Sprintf(`tool_call {"id":%q,"args":{"a":"1","b":"x"}}`, id): "",
		} {
			name, args, _ := strings.Cut(query, " ")
			o := call(t, c, run, name, args)
			if want == "" {
				if o.Status != contracts.StatusInvalidArgs {
					t.Errorf("%s: %s %+v, want invalid arguments", query, o.Status, o.Error)
				}
				continue
			}
			if o.Status != contracts.StatusOK || !strings.Contains(fmt.Sprintf("%s %s", o.Result.Content, o.Result.StructuredContent), want) {
				t.Errorf("%s: %s %+v %+v, want %q", query, o.Status, o.Error, o.Result, want)
			}
		}
	}
}
