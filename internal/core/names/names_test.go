package names

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func TestExposed(t *testing.T) {
	long := strings.Repeat("x", 64)
	for _, tt := range []struct {
		id   contracts.ToolID
		bare bool
		want string // "#" at the end stands for a hash
	}{
		{"mcp:calendar:create_event", false, "calendar__create_event"},
		{"mcp:calendar:create_event", true, "create_event"},
		{"mcp:my-server:get-Thing", false, "my-server__get-Thing"},
		{"plugin:crm:find_customer", false, "plugin__crm__find_customer"},
		{"plugin:crm:find_customer", true, "find_customer"},
		{"platform:core:now", false, "platform__core__now"},
		{"client:client:open_file", false, "open_file"},
		{"client:client:open_file", true, "open_file"},
		{"mcp:a:b__c", false, "a__b__c"},
		{"mcp:calendar:get_calendar", false, "calendar__get_calendar"}, // eight letters are no hash
		{"mcp:a:report_20240101", false, "a__report_20240101#"},        // eight digits could be one
		{"mcp:a:__x", false, "a____x"},
		{"mcp:a__b:c", false, "a__b__c#"},
		{"mcp:a_:b", false, "a___b#"},
		{"mcp:plugin:crm__find", false, "plugin__crm__find#"},
		{"mcp:platform:now", false, "platform__now#"},
		{"plugin:a__b:c", false, "plugin__a__b__c#"},
		{"client:client:calendar__create_event", false, "calendar__create_event#"},
		{"client:other:open_file", false, "open_file#"},
		{"mcp:a:calendar__create_event", true, "calendar__create_event#"},
		{"mcp:a:say hello!", false, "a__say_hello#"},
		{"mcp:a:files.read:all", false, "a__files_read_all#"},
		{"mcp:a:日本", false, "a#"},
		{"client:client:日本", false, "tool#"},
		{"mcp:a:" + contracts.ToolID(long), true, long},
		{"mcp:a:" + contracts.ToolID(long), false, "a__" + long[:52] + "#"},
		{"mcp:" + contracts.ToolID(long) + ":delete_it", false, long[:20] + "__delete_it#"},
		{"no id", false, "no_id#"},
		{"", false, "tool#"},
	} {
		got, want := Exposed(tt.id, tt.bare), tt.want
		if stem, ok := strings.CutSuffix(want, "#"); ok {
			want = stem + "_" + hash(tt.id)
		}
		if got != want {
			t.Errorf("Exposed(%q, %v) = %q, want %q", tt.id, tt.bare, got, want)
		}
	}
}

// A name is kept in transcripts, so it may never change from one release to the next.
func TestExposedIsStable(t *testing.T) {
	if got, want := Exposed("mcp:a:say hello!", false), "a__say_hello_4npnn12y"; got != want {
		t.Errorf("Exposed = %q, want %q", got, want)
	}
}

var provider = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func TestExposedNeverShared(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	pick := func(parts []string, most int) string {
		var b strings.Builder
		for range 1 + rng.IntN(most) {
			b.WriteString(parts[rng.IntN(len(parts))])
		}
		return b.String()
	}
	kinds := []contracts.SourceKind{contracts.SourceMCP, contracts.SourcePlugin, contracts.SourcePlatform, contracts.SourceClient}
	owners := []string{"a", "b", "_", "__", "-", "plugin", "platform", "mcp", "client", "0"}
	texts := []string{"a", "b", "_", "__", "-", ":", "::", " ", ".", "é", "\xff", "plugin", "platform", "client", "_12345678", strings.Repeat("n", 30)}
	seen := map[string]contracts.ToolID{}
	for i := range 60_000 {
		owner := pick(owners, 4)
		name := pick(texts, 5)
		if i%4 == 0 && len(seen) > 0 { // a name made like an exposed one, hash included
			name = Exposed(contracts.NewToolID(contracts.SourceID{Kind: contracts.SourceMCP, Owner: owner}, name), i%8 == 0)
		}
		id := contracts.NewToolID(contracts.SourceID{Kind: kinds[rng.IntN(len(kinds))], Owner: owner[:min(len(owner), 64)]}, name)
		got := Exposed(id, false)
		if !provider.MatchString(got) {
			t.Fatalf("Exposed(%q) = %q is not safe", id, got)
		}
		if other, ok := seen[got]; ok && other != id {
			t.Fatalf("%q and %q share the name %q", id, other, got)
		}
		seen[got] = id
		if got := Exposed(id, true); !provider.MatchString(got) {
			t.Fatalf("Exposed(%q, bare) = %q is not safe", id, got)
		}
	}
}

func FuzzExposed(f *testing.F) {
	f.Add("mcp:a:b", "plugin:a:b")
	f.Add("mcp:plugin:a__b", "plugin:a:b")
	f.Add("client:client:a__b", "mcp:a:b")
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := Exposed(contracts.ToolID(a), false), Exposed(contracts.ToolID(b), false)
		if a != b && x == y {
			t.Fatalf("%q and %q share the name %q", a, b, x)
		}
		for _, s := range []string{x, y, Exposed(contracts.ToolID(a), true)} {
			if !provider.MatchString(s) {
				t.Fatalf("%q is not safe", s)
			}
		}
	})
}

func BenchmarkExposed(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		Exposed("mcp:calendar:create_event", false)
	}
}
