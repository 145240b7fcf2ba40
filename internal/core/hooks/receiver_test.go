package hooks

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// The functions handler and decide are those of docs/hooks.md, to the letter.

func handler(key contracts.HookKey) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 3<<20))
		if err != nil || contracts.VerifyHook(key, r.Header, body, time.Now()) != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		json.NewEncoder(w).Encode(decide(body))
	})
}

func decide(body []byte) contracts.HookAnswer {
	var q contracts.HookRequest
	var args map[string]any // a struct would take "Path" for "path" too
	if json.Unmarshal(body, &q) == nil && json.Unmarshal(q.Arguments, &args) == nil {
		if file, ok := args["path"].(string); ok && strings.HasPrefix(path.Clean(file), "/srv/") {
			return contracts.HookAnswer{Decision: contracts.HookAllow}
		}
	}
	return contracts.HookAnswer{Decision: contracts.HookBlock, Reason: "Only files under /srv are written."}
}

// block returns the code of docs/hooks.md that begins with a text.
func block(t *testing.T, language, begin string) string {
	t.Helper()
	doc, err := os.ReadFile("../../../docs/hooks.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(doc), "```"+language+"\n"+begin)
	code, _, closed := strings.Cut(rest, "```\n")
	if !found || !closed {
		t.Fatalf("docs/hooks.md has no code of %s that begins with %q", language, begin)
	}
	return begin + code
}

// checkReceiver checks that a receiver decides as the documents say, and takes nothing that was not signed with its key.
func checkReceiver(t *testing.T, text, url string, change func(*Config)) {
	t.Helper()
	s := set(t, text, url, change)
	c := call()
	c.Arguments = json.RawMessage(`{"path":"/srv/a"}`)
	if v := before(t, s, c); v.Decision != contracts.HookAllow {
		t.Errorf("Before = %+v, want allow", v)
	}
	c.Arguments = json.RawMessage(`{"path":"/srv/../etc/passwd","Path":"/srv/a"}`)
	if v := before(t, s, c); v.Decision != contracts.HookBlock || v.Failed || v.Reason != "Only files under /srv are written." {
		t.Errorf("Before = %+v, want it blocked with the reason of the hook", v)
	}
	if url == "" {
		return
	}
	wrong := set(t, text, url, func(c *Config) {
		lookup := c.Refs.Lookup
		c.Refs.Lookup = func(k string) (string, bool) {
			if k == "KEY" {
				return "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", true
			}
			return lookup(k)
		}
	})
	if v := before(t, wrong, call()); !v.Failed || !strings.Contains(v.Runs[0].Problem, "401") {
		t.Errorf("Before with another key = %+v, want the status 401", v)
	}
}

func TestGoReceiver(t *testing.T) {
	source, err := os.ReadFile("receiver_test.go")
	if err != nil {
		t.Fatal(err)
	}
	if code := block(t, "go", "func handler("); !strings.Contains(string(source), code) {
		t.Errorf("the functions of this file are not those of docs/hooks.md:\n%s", code)
	}
	key, err := contracts.ParseHookKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(handler(key))
	t.Cleanup(srv.Close)
	checkReceiver(t, web("a", ""), srv.URL, nil)
}

func TestBusReceiver(t *testing.T) {
	b := natstest.Open(t)
	respond(t, b.Conn, "auditor", func(m *nats.Msg) string {
		answer, _ := json.Marshal(decide(m.Data))
		return string(answer)
	})
	checkReceiver(t, "      a: {bus: auditor}\n", "", func(c *Config) { c.Conn = b.Conn })
}

// TestNodeReceiver runs the receiver of docs/hooks.md that is written for Node.
func TestNodeReceiver(t *testing.T) {
	file := filepath.Join(t.TempDir(), "receiver.mjs")
	if err := os.WriteFile(file, []byte(block(t, "js", "import ")), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", file)
	cmd.Env = append(os.Environ(), "HOOK_KEY="+secret, "PORT=0")
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	port, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		t.Fatalf("the receiver said %q, %v", line, err)
	}
	url := "http://127.0.0.1:" + port
	checkReceiver(t, web("a", ", timeout: 10000"), url, nil)
	c := call()
	c.Arguments = json.RawMessage(`{"path":"/srv/a"}`)
	c.Tool.Name = "delete"
	if v := before(t, set(t, web("a", ", timeout: 10000"), url, nil), c); v.Decision != contracts.HookApprove || v.Approval.Severity != contracts.SeverityCritical {
		t.Errorf("Before = %+v, want an approval", v)
	}
}
