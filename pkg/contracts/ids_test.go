package contracts_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const (
	tenant = contracts.TenantID("acme")
	run    = contracts.RunID("run_agpdm2v7a5z3vgmnq6xw4hcqzi")
	call   = contracts.CallID("call_agpdm2wk3d2y7e5cbt4fnsj6iq")
	body   = contracts.BodyID("body_agpdm2wq4e7z3k5dctu6gptk7m")
)

func TestParseTenantID(t *testing.T) {
	check(t, contracts.ParseTenantID, []string{
		"local", "acme", "a", "7", "a-b", "acme-", "0-0", strings.Repeat("a", 63),
	}, []string{
		"", "-", "-a", "A", "Acme", "a_b", "a.b", "*", ">", "a*", "a.>", "a b", "a\tb", "a\n", "a\x00", "ä", "а", "\xff", "a:b", "a/b", "$SYS",
		strings.Repeat("a", 64),
	})
}

func TestParseRunID(t *testing.T) {
	check(t, contracts.ParseRunID, []string{string(run), string(contracts.NewRunID())}, badIDs("run"))
}

func TestParseCallID(t *testing.T) {
	check(t, contracts.ParseCallID, []string{
		string(call), string(contracts.NewCallID()), string(contracts.KeyedCallID(run, "local", "key")), string(contracts.KeyedCallID("", "local", "")),
	}, badIDs("call"))
}

func TestParseBodyID(t *testing.T) {
	check(t, contracts.ParseBodyID, []string{
		string(body), string(contracts.BodyOf(contracts.NewCallID())), string(contracts.BodyOf(contracts.KeyedCallID(run, "local", "key"))),
	}, badIDs("body"))
}

// A body and the call that brought it name each other.
func TestBodyOf(t *testing.T) {
	for _, id := range []contracts.CallID{call, contracts.NewCallID(), contracts.KeyedCallID(run, "local", "key")} {
		b := contracts.BodyOf(id)
		if _, err := contracts.ParseBodyID(string(b)); err != nil || b.Call() != id {
			t.Errorf("BodyOf(%s) = %s, of the call %s; want a body's id, and the call back (%v)", id, b, b.Call(), err)
		}
	}
	if got := body.Call(); contracts.BodyOf(got) != body {
		t.Errorf("BodyOf(%s) = %s, want %s", got, contracts.BodyOf(got), body)
	}
}

// A body that is run again asks for the same calls, and no two of its calls, or of two bodies or runs, are one.
func TestBodyCallID(t *testing.T) {
	first := contracts.BodyCallID(run, body, 1)
	if again := contracts.BodyCallID(run, body, 1); again != first {
		t.Errorf("BodyCallID(%s, %s, 1) = %s and %s, want the same twice", run, body, first, again)
	}
	if _, err := contracts.ParseCallID(string(first)); err != nil {
		t.Error(err)
	}
	for _, other := range []contracts.CallID{
		contracts.BodyCallID(run, body, 2), contracts.BodyCallID(run, body, 11), contracts.BodyCallID(contracts.NewRunID(), body, 1),
		contracts.BodyCallID(run, contracts.BodyOf(contracts.NewCallID()), 1), contracts.KeyedCallID(run, "local", string(body)+"1"), body.Call(),
	} {
		if other == first {
			t.Errorf("two calls have the one id %s", other)
		}
	}
}

// badIDs returns what no parser of ids with prefix accepts.
func badIDs(prefix string) []string {
	rest := strings.Repeat("a", 26)
	return []string{
		"", prefix, prefix + "_", rest, "_" + rest, "x_" + rest, strings.ToUpper(prefix) + "_" + rest, prefix + "-" + rest,
		prefix + "_" + rest[1:], prefix + "_" + rest + "a", prefix + "_" + rest[1:] + "A", prefix + "_" + rest[1:] + "_",
		prefix + "_" + rest[1:] + ".", prefix + "_" + rest[1:] + "*", prefix + "_" + rest[1:] + ">", prefix + "_" + rest[1:] + " ",
		prefix + "_" + rest[2:] + "é", " " + prefix + "_" + rest, prefix + "_*", prefix + "_>",
	}
}

func TestParseSourceID(t *testing.T) {
	check(t, func(s string) (string, error) {
		id, err := contracts.ParseSourceID(s)
		if err != nil && id != (contracts.SourceID{}) {
			t.Errorf("ParseSourceID(%q) = %v with an error, want nothing", s, id)
		}
		return id.String(), err
	}, []string{
		"mcp:calendar", "platform:core", "plugin:crm", "client:client", "mcp:a", "mcp:-", "mcp:_x-9", "mcp:" + strings.Repeat("a", 64),
	}, []string{
		"", ":", "mcp", "mcp:", ":calendar", "other:calendar", "MCP:calendar", "mcp:Calendar", "mcp:a:b", "mcp:a.b", "mcp:*", "mcp:>",
		"mcp:a b", "mcp:é", " mcp:a", "mcp:a\n", "mcp:" + strings.Repeat("a", 65),
	})
}

// check has parse accept and return every string of good, and refuse every one of bad.
func check[T ~string](t *testing.T, parse func(string) (T, error), good, bad []string) {
	t.Helper()
	for _, s := range good {
		if got, err := parse(s); err != nil || string(got) != s {
			t.Errorf("parse(%q) = %q, %v, want it accepted as it is", s, got, err)
		}
	}
	for _, s := range bad {
		if got, err := parse(s); contracts.CodeOf(err) != contracts.CodeInvalid {
			t.Errorf("parse(%q) = %q, %v, want %s", s, got, err, contracts.CodeInvalid)
		}
	}
}

func TestErrorsOfIDsAreBounded(t *testing.T) {
	_, err := contracts.ParseTenantID(strings.Repeat("é", 1<<20))
	if n := len(err.Error()); n > 400 {
		t.Errorf("the message about a very long tenant has %d bytes, want at most 400", n)
	}
}

func TestNewIDsDiffer(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		for _, id := range []string{string(contracts.NewRunID()), string(contracts.NewCallID()), string(contracts.NewSearchID())} {
			if seen[id] {
				t.Fatalf("%s was made twice", id)
			}
			seen[id] = true
		}
	}
}

func TestKeyedCallID(t *testing.T) {
	first := contracts.KeyedCallID(run, "local", "a")
	if again := contracts.KeyedCallID(run, "local", "a"); again != first {
		t.Errorf("KeyedCallID(%s, a) = %s and %s, want the same twice", run, first, again)
	}
	for _, other := range []contracts.CallID{
		contracts.KeyedCallID(run, "local", "b"), contracts.KeyedCallID(run, "other", "a"), contracts.KeyedCallID(run, "local", ""), contracts.KeyedCallID(contracts.NewRunID(), "local", "a"),
	} {
		if other == first {
			t.Errorf("two runs or keys have the one call %s", other)
		}
	}
}

func TestOwnerName(t *testing.T) {
	for in, want := range map[string]string{
		"calendar":                     "calendar",
		"My Calendar":                  "my-calendar",
		"  a  ":                        "a",
		"a..b//c":                      "a-b-c",
		"GitHub_v2":                    "github_v2",
		"--a--b--":                     "a-b",
		"日本":                           "",
		"日本 tools":                     "tools",
		"":                             "",
		"***":                          "",
		strings.Repeat("x", 100):       strings.Repeat("x", 64),
		strings.Repeat("x", 63) + "-y": strings.Repeat("x", 63),
		"\xffa\xff":                    "a",
	} {
		if got := contracts.OwnerName(in); got != want {
			t.Errorf("OwnerName(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestToolIDSplit(t *testing.T) {
	for _, tt := range []struct {
		id           contracts.ToolID
		source, name string // "" means refused
	}{
		{"mcp:calendar:create_event", "mcp:calendar", "create_event"},
		{"platform:core:now", "platform:core", "now"},
		{"mcp:files:a:b", "mcp:files", "a:b"},
		{"mcp:files::", "mcp:files", ":"},
		{"mcp:files: *.>", "mcp:files", " *.>"},
		{"mcp:files:日本", "mcp:files", "日本"},
		{"", "", ""},
		{"mcp", "", ""},
		{"mcp:calendar", "", ""},
		{"mcp:calendar:", "", ""},
		{":calendar:x", "", ""},
		{"mcp::x", "", ""},
		{"mcp:Cal:x", "", ""},
		{"other:calendar:x", "", ""},
	} {
		s, name, err := tt.id.Split()
		if tt.source == "" {
			if contracts.CodeOf(err) != contracts.CodeInvalid {
				t.Errorf("Split(%q) = %v, %q, %v, want %s", tt.id, s, name, err, contracts.CodeInvalid)
			}
			continue
		}
		if err != nil || s.String() != tt.source || name != tt.name {
			t.Errorf("Split(%q) = %v, %q, %v, want %s and %q", tt.id, s, name, err, tt.source, tt.name)
		}
		if back := contracts.NewToolID(s, name); back != tt.id {
			t.Errorf("NewToolID(Split(%q)) = %q", tt.id, back)
		}
	}
}

// cleanToken is what may stand between the dots of a subject or a key.
var cleanToken = regexp.MustCompile(`^[a-z0-9_-]+$`)

// checkTokens reports a subject or key that has not n clean tokens.
func checkTokens(t *testing.T, what, subject string, n int) {
	t.Helper()
	tokens := strings.Split(subject, ".")
	if len(tokens) != n {
		t.Errorf("%s %q has %d tokens, want %d", what, subject, len(tokens), n)
	}
	for _, tok := range tokens {
		if !cleanToken.MatchString(tok) {
			t.Errorf("%s %q has the token %q, want only a-z, 0-9, '_' and '-'", what, subject, tok)
		}
	}
}

// FuzzIDs: nothing that a parser accepts adds a token or a wildcard to a subject or a key.
func FuzzIDs(f *testing.F) {
	for _, s := range []string{"acme", "a.b", "*", ">", string(run), string(call), "mcp:calendar", "mcp:a.b", "mcp:calendar:x y", "My Calendar"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if id, err := contracts.ParseTenantID(s); err == nil {
			checkTokens(t, "subject", contracts.RunClosed{Run: run}.Subject(id), 5)
			checkTokens(t, "subject", contracts.DispatchSubject(id), 3)
			checkTokens(t, "subject", contracts.AskSubject(id, contracts.VerbSearch), 3)
			checkTokens(t, "key", string(contracts.RunKey(id, run)), 2)
		}
		if id, err := contracts.ParseRunID(s); err == nil {
			checkTokens(t, "subject", contracts.RunClosed{Run: id}.Subject(tenant), 5)
			checkTokens(t, "key", string(contracts.CallKey(tenant, id, call)), 3)
		}
		if id, err := contracts.ParseCallID(s); err == nil {
			checkTokens(t, "subject", contracts.CallFinished{Run: run, Call: id}.Subject(tenant), 7)
			checkTokens(t, "subject", contracts.CancelSubject(tenant, id), 4)
			checkTokens(t, "key", string(contracts.CallKey(tenant, run, id)), 3)
		}
		if id, err := contracts.ParseSourceID(s); err == nil {
			checkTokens(t, "subject", contracts.SourceListed{Source: id}.Subject(tenant), 5)
			checkTokens(t, "key", string(contracts.SourceKey(tenant, id)), 2)
		}
		if id, _, err := contracts.ToolID(s).Split(); err == nil {
			checkTokens(t, "subject", contracts.SourceFailed{Source: id}.Subject(tenant), 5)
		}
		if owner := contracts.OwnerName(s); owner != "" {
			if _, err := contracts.ParseSourceID("mcp:" + owner); err != nil {
				t.Errorf("OwnerName(%q) = %q: %v", s, owner, err)
			}
		}
		checkTokens(t, "subject", contracts.CallFinished{Run: run, Call: contracts.KeyedCallID(run, "local", s)}.Subject(tenant), 7)
	})
}
