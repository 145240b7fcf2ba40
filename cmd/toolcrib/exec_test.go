package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// executed returns the answer of the API to a body that ran.
func executed(status contracts.Status, r contracts.BodyResult, more ...string) client.CallAnswer {
	data, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	a := client.CallAnswer{Outcome: contracts.Outcome{Status: status, CallID: "call_1", Result: contracts.TextResult(string(data), data)}}
	for _, block := range more {
		a.Result.Content = append(a.Result.Content, json.RawMessage(block))
	}
	if e := r.Error; e != nil {
		a.Error = contracts.Errorf(contracts.CodeBodyFailed, "%s: %s (line %d, column %d)", e.Code, e.Message, e.Line, e.Column)
	}
	return a
}

// What exec prints of each answer of the API, which a server of the test gives.
func TestExecPrints(t *testing.T) {
	logs := []contracts.BodyLog{{Level: "log", Text: "begins"}, {Level: "warn", Text: "a\x1b[31mb"}}
	const body = "const a = 1;\n\treturn b();\n"
	for _, tt := range []struct {
		name   string
		answer client.CallAnswer
		args   []string
		code   int
		out    string   // all of standard output
		errs   []string // parts of standard error
	}{
		{
			name: "a value", answer: executed(contracts.StatusOK, contracts.BodyResult{OK: true, Value: json.RawMessage(`{"a":[1,"x"]}`), Logs: logs, Truncated: "logs: 3 lines left out"}),
			out: "{\n  \"a\": [\n    1,\n    \"x\"\n  ]\n}\n", errs: []string{"log: begins\n", "warn: a[31mb\n", "truncated: logs: 3 lines left out\n"},
		},
		{
			name: "no value and an image", answer: executed(contracts.StatusOK, contracts.BodyResult{OK: true, Value: json.RawMessage(`null`)}, `{"type":"image"}`),
			out: "null\n", errs: []string{"1 content block beside the value"},
		},
		{
			name: "an error", code: 1,
			answer: executed(contracts.StatusError, contracts.BodyResult{Logs: logs, Error: &contracts.BodyError{Message: "b is not defined", Line: 2, Column: 9, Code: contracts.BodyException}}),
			errs:   []string{"log: begins\n", "error: exception: b is not defined (line 2, column 9)\n    2 | \treturn b();\n      | \t       ^\n"},
		},
		{
			name: "an error beyond the text", code: 1, errs: []string{"error: exception: x"},
			answer: executed(contracts.StatusError, contracts.BodyResult{Error: &contracts.BodyError{Message: "x", Line: 9, Column: 9, Code: contracts.BodyException}}),
		},
		{
			name: "no room", code: 1, errs: []string{"rate_limited: too many bodies\ntry again in 2s\n"},
			answer: client.CallAnswer{Outcome: contracts.Outcome{Status: contracts.StatusRateLimited, Error: contracts.Errorf(contracts.CodeRateLimited, "too many bodies"), RetryAfter: 2000}},
		},
		{
			name: "client tools", code: 1, errs: []string{"the body waits for 2 tools of yours", `open {"n":1}`, "/calls/call_2/result", "/calls/call_3/result", "/calls/call_1\n"},
			answer: client.CallAnswer{Outcome: contracts.Outcome{Status: contracts.StatusRequiresAction, CallID: "call_1"}, Href: "/x", ClientCalls: []client.ClientCall{
				{CallID: "call_2", Tool: "open", Args: json.RawMessage(`{"n":1}`)}, {CallID: "call_3", Tool: "close", Args: json.RawMessage(`{}`)},
			}},
		},
		{
			name: "as JSON", args: []string{"--json"}, out: "*",
			answer: executed(contracts.StatusOK, contracts.BodyResult{OK: true, Value: json.RawMessage(`1`), Logs: logs}),
		},
		{
			name: "an error as JSON", args: []string{"--json"}, out: "*", code: 1,
			answer: executed(contracts.StatusError, contracts.BodyResult{Error: &contracts.BodyError{Message: "x", Code: contracts.BodyTimeout}}),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got client.CallRequest
			var key string
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				json.NewDecoder(r.Body).Decode(&got)
				key = r.Header.Get("Idempotency-Key")
				json.NewEncoder(w).Encode(tt.answer)
			}))
			defer s.Close()
			args := append([]string{"exec", string(contracts.NewRunID()), "-", "--key", "k", "--url", s.URL}, tt.args...)
			code, out, errs := cli(t, body, args...)
			if code != tt.code || tt.out != "*" && out != tt.out {
				t.Errorf("exec = %d %q, want %d %q\n%s", code, out, tt.code, tt.out, errs)
			}
			for _, part := range tt.errs {
				if !strings.Contains(errs, part) {
					t.Errorf("%q is not in:\n%s", part, errs)
				}
			}
			if tt.out == "*" {
				var a client.CallAnswer
				if err := json.Unmarshal([]byte(out), &a); err != nil || a.Status != tt.answer.Status || a.Result == nil || errs != "" {
					t.Errorf("exec --json prints %s and %q (%v), want the outcome", out, errs, err)
				}
			}
			var sent struct{ Code string }
			if json.Unmarshal(got.Arguments, &sent); got.Name != "tool_search_code" || sent.Code != body || key != "k" {
				t.Errorf("exec asks for %s %s with the key %q", got.Name, got.Arguments, key)
			}
		})
	}
}

func TestExecUsage(t *testing.T) {
	run := string(contracts.NewRunID())
	for _, args := range [][]string{{"exec"}, {"exec", run}, {"exec", "nonsense", "-"}, {"exec", run, filepath.Join(t.TempDir(), "none.js")}, {"exec", run, "-", "more"}} {
		if code, _, errs := cli(t, "return 1", args...); code != 2 || errs == "" {
			t.Errorf("%v = %d %q, want 2 and why", args, code, errs)
		}
	}
}

// Who interrupts a command ends its call, unless it has a key by which it can be asked for again.
func TestInterruptedCallsEnd(t *testing.T) {
	s := up(t, t.TempDir(), nil)
	run := openRun(t, s.client(), client.RunOptions{Mode: "tools"}).ID
	body := filepath.Join(t.TempDir(), "body.js")
	write(t, body, `await tools.call("platform:core:wait", {seconds: 9})`)
	ended := func() (list []contracts.Status) {
		r, err := s.client().Report(t.Context(), run)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range r.Calls {
			list = append(list, c.Status)
		}
		return list
	}
	for i, args := range [][]string{{"call", string(run), "platform:core:wait", `{"seconds": 9}`}, {"exec", string(run), body}, {"call", string(run), "platform:core:wait", `{"seconds": 3}`, "--key", "k"}} {
		var said strings.Builder
		cmd := exec.Command(binary, append(args, "--url", s.url)...)
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the tool runs", func() bool {
			running := 0
			for l, err := range s.client().Log(t.Context(), run) {
				if err != nil {
					t.Fatal(err)
				}
				if l.Type == "call.running" {
					running++
				}
			}
			return running == i+1
		})
		cmd.Process.Signal(os.Interrupt)
		if cmd.Wait() == nil {
			t.Errorf("%v ended well", args)
		}
		if keyed := len(args) > 4; keyed && !strings.Contains(said.String(), "the call goes on") || !keyed && !strings.Contains(said.String(), "cancelled call_") {
			t.Errorf("%v said %s", args, said.String())
		}
	}
	want := []contracts.Status{contracts.StatusCancelled, contracts.StatusCancelled, contracts.StatusOK}
	eventually(t, "the calls end", func() bool { return !slices.Contains(ended(), "") })
	if d := cmp.Diff(want, ended()); d != "" {
		t.Errorf("calls (-want +got):\n%s", d)
	}
}
