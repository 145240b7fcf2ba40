package hooks

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolcrib/toolcrib/internal/core/policy"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func TestDecode(t *testing.T) {
	for in, want := range map[string]contracts.HookAnswer{
		` {"decision" : "allow"} `: {Decision: "allow", Reason: noReason},
		`{"decision":"allow","reason":"fine","arguments":null,"approval":null}`: {Decision: "allow", Reason: "fine"},
		`{"decision":"block","reason":" no \n way "}`:                           {Decision: "block", Reason: "no way"},
		`{"decision":"rewrite","arguments":{ "a": 1.0e5, "b":[ ] }}`:            {Decision: "rewrite", Reason: noReason, Arguments: json.RawMessage(`{"a":1.0e5,"b":[]}`)},
		`{"decision":"approve"}`:                                                {Decision: "approve", Reason: noReason},
		`{"decision":"approve","arguments":{},"approval":{"title":"T","description":null,"severity":"info","deciders":["a"],"expiresIn":604800}}`: {
			Decision: "approve", Reason: noReason, Arguments: json.RawMessage(`{}`),
			Approval: &contracts.ApprovalTerms{Title: "T", Severity: "info", Deciders: []string{"a"}, ExpiresIn: 604800},
		},
	} {
		got, err := decode([]byte(in))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("decode(%s): %v (-want +got):\n%s", in, err, diff)
		}
	}
	for in, want := range map[string]string{
		``:                     "empty",
		`null`:                 "no JSON object",
		`[]`:                   "no JSON object",
		`"allow"`:              "no JSON object",
		`{}`:                   "decision is missing",
		`{"decision":null}`:    "decision is missing",
		`{"decision":"Allow"}`: `decision is "Allow"; want allow, block, rewrite or approve`,
		`{"decision":true}`:    "decision is no string",
		`{"Decision":"allow"}`: `no property "Decision"`,
		`{"decision":"block","decision":"allow"}`:                `"decision" twice`,
		`{"decision":"block","d\u0065cision":"allow"}`:           `"decision" twice`,
		`{"decision":"block","Decision":"allow"}`:                `no property "Decision"`,
		`{"decision":"allow"}{"decision":"block"}`:               "something follows",
		`{"decision":"allow"} x`:                                 "something follows",
		`{"decision":"allow",}`:                                  "no JSON",
		`{"decision":"allow"`:                                    "no JSON",
		`{"decision" "allow"}`:                                   "no JSON",
		`{[]:1}`:                                                 "no JSON",
		`{"decision":"allow","allow":true}`:                      `no property "allow"`,
		`{"decision":"allow","arguments":{}}`:                    "arguments cannot stand beside allow",
		`{"decision":"block","arguments":{}}`:                    "arguments cannot stand beside block",
		`{"decision":"rewrite"}`:                                 "arguments are missing",
		`{"decision":"rewrite","arguments":null}`:                "arguments are missing",
		`{"decision":"rewrite","arguments":[]}`:                  "arguments are no object",
		`{"decision":"rewrite","arguments":"{}"}`:                "arguments are no object",
		`{"decision":"rewrite","arguments":{"a":{"b":1,"b":2}}}`: `"b" twice`,
		`{"decision":"rewrite","arguments":{},"approval":{}}`:    "approval cannot stand beside rewrite",
		`{"decision":"allow","approval":{}}`:                     "approval cannot stand beside allow",
		`{"decision":"block","reason":5}`:                        "reason is no string",
		`{"decision":"approve","approval":true}`:                 "approval is no object",
		`{"decision":"approve","approval":{"decider":["a"]}}`:    `approval: there is no property "decider"`,
		`{"decision":"approve","approval":{"deciders":[]}}`:      "deciders are no list of principals",
		`{"decision":"approve","approval":{"deciders":"ada"}}`:   "deciders are no list of principals",
		`{"decision":"approve","approval":{"severity":"high"}}`:  `severity "high"`,
		`{"decision":"approve","approval":{"expiresIn":1.5}}`:    "expiresIn is no whole number",
		`{"decision":"approve","approval":{"expiresIn":604801}}`: "expiresIn 604801",
		"{\"decision\":\"allow\",\"reason\":\"\xff\"}":           "no UTF-8",
		`{"decision":"rewrite","arguments":` + strings.Repeat(`{"a":`, 200) + `1` + strings.Repeat(`}`, 200) + `}`: "deeper than 128",
		`{"decision":"rewrite","arguments":{"a":[` + strings.Repeat(`1,`, 100_000) + `1]}}`:                        "more than 100000 values",
		`{"decision":"allow","reason":"` + strings.Repeat("x", 1<<20) + `"}`:                                       "more than 1048576 bytes",
		strings.Repeat("[", 1<<19): "deeper than 128",
	} {
		got, err := decode([]byte(in))
		if err == nil || !strings.Contains(err.Error(), want) || got.Decision != "" {
			t.Errorf("decode(%.80s) = %+v, %v, want %q", in, got, err, want)
		}
	}
	long, err := decode([]byte(`{"decision":"block","reason":"` + strings.Repeat("ü", 5000) + `"}`))
	if n := len([]rune(long.Reason)); err != nil || n > longestReason {
		t.Errorf("a long reason has %d characters, %v, want at most %d", n, err, longestReason)
	}
}

// FuzzDecode has whatever a hook answers be refused, or be an answer that says one thing, in the bounds, and the same when it is read again.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"decision":"allow"}`, `{"decision":"block","reason":"x"}`, `{"decision":"rewrite","arguments":{"a":[1,{"b":null}]}}`,
		`{"decision":"approve","approval":{"title":"t","description":"d","severity":"critical","deciders":["a"],"expiresIn":5}}`,
		`{"decision":"allow","decision":"block"}`, `{"decision":"rewrite","arguments":{"\ud800":1,"\ud801":2}}`, `[[[`, `{"a":1 "b":2}`, "\xff",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := decode(data)
		if err != nil {
			if a.Decision != "" || len(asFailure(err).problem) > 5*longestProblem {
				t.Errorf("decode = %+v, %v", a, err)
			}
			return
		}
		var again map[string]json.RawMessage
		if json.Unmarshal(data, &again) != nil || len(data) > contracts.HookAnswerMost {
			t.Fatalf("decode takes what is no JSON object: %q", data)
		}
		if a.Arguments != nil && (!json.Valid(a.Arguments) || a.Arguments[0] != '{' || bytes.ContainsAny(a.Arguments, "\n\r\t")) {
			t.Errorf("arguments = %q, want a compact object", a.Arguments)
		}
		if (a.Decision == contracts.HookRewrite) && a.Arguments == nil || a.Arguments != nil && a.Decision != contracts.HookRewrite && a.Decision != contracts.HookApprove {
			t.Errorf("%s with the arguments %s", a.Decision, a.Arguments)
		}
		if err := policy.CheckTerms(a.Approval); err != nil || a.Approval != nil && a.Decision != contracts.HookApprove {
			t.Errorf("%s with the terms %+v: %v", a.Decision, a.Approval, err)
		}
		written, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := decode(written); err != nil || b.Decision != a.Decision || len(written) < contracts.HookAnswerMost && !same(a.Arguments, b.Arguments) {
			if len(written) <= contracts.HookAnswerMost {
				t.Errorf("read again: %+v, %v, want %+v", b, err, a)
			}
		}
	})
}

// same reports whether two JSON texts hold the same values; encoding escapes some characters.
func same(a, b json.RawMessage) bool {
	var x, y any
	if len(a)+len(b) == 0 {
		return true
	}
	return json.Unmarshal(a, &x) == nil == (json.Unmarshal(b, &y) == nil) && cmp.Equal(x, y)
}
