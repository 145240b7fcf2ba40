package executor

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A checker is a webhook that answers as the arguments' text says.
type checker struct {
	*httptest.Server
	mu    sync.Mutex
	asked []contracts.HookRequest
}

func newChecker(t *testing.T) *checker {
	c := &checker{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var q contracts.HookRequest
		if err := json.Unmarshal(body, &q); err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		c.asked = append(c.asked, q)
		c.mu.Unlock()
		answer := `{"decision":"allow"}`
		for word, a := range map[string]string{
			"secret":  `{"decision":"block","reason":"no secrets"}`,
			"mend":    `{"decision":"rewrite","arguments":{"text":"mended"}}`,
			"spoil":   `{"decision":"rewrite","arguments":{"text":7}}`,
			"ask":     `{"decision":"approve","approval":{"title":"Really?"}}`,
			"rubbish": `<html>`,
		} {
			if strings.Contains(string(q.Arguments), word) {
				answer = a
			}
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, answer)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *checker) requests(e contracts.HookEvent) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range c.asked {
		if q.Type == e {
			n++
		}
	}
	return n
}

func TestHooks(t *testing.T) {
	w := newApproving(t, contracts.ApprovalTerms{})
	w.rules()
	hook := newChecker(t)
	file := fmt.Sprintf(`{"hooks":{"guard":{"url":%q,"signingKey":"${env:HOOK_KEY}","tools":["mcp:odd:*"],"events":["before_tool_call","after_tool_call"],"timeout":10000}}}`, hook.URL)
	cfg := must(config.Parse([]byte(file), "hooks.json"))
	w.executor(servers{"odd": w.server()}, func(c *Config) {
		c.Hooks = FromConfig(cfg, nil).Hooks
		c.Environ = append(c.Environ, "HOOK_KEY=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	})
	w.ready("mcp:odd")
	run := w.open(contracts.RunRequest{})

	p := w.start(run, callOf("mcp:odd:echo", `{"text":"fine"}`))
	w.ended(p, contracts.StatusOK, "", "")
	if rec := w.await(p); rec.Passage == nil || len(rec.Passage.Hooks) != 1 || rec.Passage.Hooks[0].Decision != contracts.HookAllow {
		t.Errorf("the record says %+v of hooks, want the one that was asked", rec.Passage)
	}
	natstest.Eventually(t, "the hook is told of the end", func() bool { return hook.requests(contracts.HookAfter) == 1 })

	w.ended(w.start(run, callOf("mcp:odd:echo", `{"text":"secret"}`)), contracts.StatusBlocked, contracts.CodeHookBlocked, contracts.SideEffectsNone)
	w.ended(w.start(run, callOf("mcp:odd:echo", `{"text":"rubbish"}`)), contracts.StatusBlocked, contracts.CodeHookBlocked, contracts.SideEffectsNone)
	w.ended(w.start(run, callOf("mcp:odd:echo", `{"text":"spoil"}`)), contracts.StatusInvalidArgs, contracts.CodeInvalidArgs, contracts.SideEffectsNone)
	o := w.ended(w.start(run, callOf("mcp:odd:echo", `{"text":"mend"}`)), contracts.StatusOK, "", "")
	if got, _ := json.Marshal(o.Result); !strings.Contains(string(got), "mended") {
		t.Errorf("the tool answered %s, want that it was called with what the hook made of it", got)
	}

	p = w.start(run, callOf("mcp:odd:echo", `{"text":"ask"}`))
	a := w.asked(p)
	if a.Terms.Title != "Really?" || a.AskedBy != "hook guard" {
		t.Errorf("asked %+v, want what the hook says", a)
	}
	w.decide(a, allow)
	w.ended(p, contracts.StatusOK, "", "")
	if n, want := hook.requests(contracts.HookBefore), 6; n != want {
		t.Errorf("the hook was asked %d times, want %d: once for each call", n, want)
	}

	// A rewritten call is held to policy as it then is.
	w.rules(contracts.PolicyRule{Name: "no", Effect: contracts.PolicyDeny, Tools: []string{"mcp:odd:echo"}, When: "args.text == 'mended'"})
	w.ended(w.start(run, callOf("mcp:odd:echo", `{"text":"mend"}`)), contracts.StatusBlocked, contracts.CodePolicyDenied, contracts.SideEffectsNone)

	// No hook is for this tool.
	before := hook.requests(contracts.HookBefore)
	if rec := w.call(run, callOf("platform:core:now", `{}`)); rec.Outcome.Status != contracts.StatusOK || rec.Passage != nil || hook.requests(contracts.HookBefore) != before {
		t.Errorf("platform:core:now ended with %s after %+v, want it made without asking", rec.Outcome.Status, rec.Passage)
	}
}
