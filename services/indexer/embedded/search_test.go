package embedded

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func TestSearchFinds(t *testing.T) {
	v := office(t)
	for _, tt := range []struct{ query, want string }{
		{"add an event to my calendar", "create_event"},
		{"please show me the events of today", "list_events"},
		{"remove an event", "delete_event"},
		{"retrying pipelines", "retry_pipeline"},
		{"open a pull request", "create_pull_request"},
		{"virtual machines", "list_vms"},
		{"Show me all VMs", "list_vms"},
		{"vm", "list_vms"},
		{"youtube transcript", "YouTube.getTranscript"},
		{"transcript of a You Tube video", "YouTube.getTranscript"},
		{"mysql tables", "searchMySQLTables"},
		{"tables in My SQL", "searchMySQLTables"},
		{"To Do", "to_do_add"},
		{"todo", "to_do_add"},
		{"to-do", "to_do_add"},
		{"wéather forecást", "get_weather_forecast"},
		{"weather", "get_weather_forecast"},
		{"wether forcast", "get_weather_forecast"},
		{"retry pipelnie", "retry_pipeline"},
		{"repo of my own, copied: fork", "fork_repository"},
		{"name of a city", "get_weather_forecast"},
		{"cancel", "cancel_pipeline"},
		{"gitlab issue", "create_issue"},
	} {
		if got := first(v, tt.query); got != tt.want {
			t.Errorf("Search(%q) finds %q first, want %q", tt.query, got, tt.want)
		}
	}
}

func TestSearchPrefersTheSourceThatIsNamed(t *testing.T) {
	v := office(t)
	for _, owner := range []string{"github", "gitlab"} {
		r := v.Search("create an issue on "+owner, 5)
		if len(r.Hits) == 0 || r.Hits[0].Source.Owner != owner || r.Hits[0].Tool.Name != "create_issue" {
			t.Errorf("Search for %s finds %v", owner, answerOf(r).IDs)
		}
	}
}

func TestSearchFindsNamesFirst(t *testing.T) {
	v := view(
		listing("files", tool("read", "Reads"), tool("read_file", "Reads a file"), tool("read_file_lines", "Reads lines of a file"), tool("Read_File", "Reads a file"),
			tool("find", "read_file read_file read_file read file")),
		listing("fs.old", tool("x", "")),
		listing("my__disk", tool("read_file", "Reads a file of the disk"), tool("store.read_file", "Reads a file"), tool("repos/list", "Repositories"), tool("say", "Says")),
		listing("who", tool("whoami", "The user"), tool("whoareyou", "The server")),
	)
	for _, tt := range []struct {
		query string
		want  []contracts.ToolID // the first ones, in this order
		tier  float64            // least score of the last of them
	}{
		{"read_file", []contracts.ToolID{"mcp:files:read_file", "mcp:my__disk:read_file", "mcp:files:Read_File", "mcp:my__disk:store.read_file"}, 0.92},
		{"READ_FILE", []contracts.ToolID{"mcp:files:Read_File", "mcp:files:read_file", "mcp:my__disk:read_file", "mcp:my__disk:store.read_file"}, 0.92},
		{"mcp:files:read_file", []contracts.ToolID{"mcp:files:read_file", "mcp:files:Read_File"}, 0.96},
		{"MCP:Files:READ_FILE_LINES", []contracts.ToolID{"mcp:files:read_file_lines"}, 0.96},
		{"files.read_file", []contracts.ToolID{"mcp:files:read_file", "mcp:files:Read_File"}, 0.96},
		{"files__read_file", []contracts.ToolID{"mcp:files:read_file", "mcp:files:Read_File"}, 0.96},
		{"mcp__files__read_file", []contracts.ToolID{"mcp:files:read_file", "mcp:files:Read_File"}, 0.96},
		{"mcp__my__disk__read_file", []contracts.ToolID{"mcp:my__disk:read_file"}, 0.98},
		{"my__disk__say", []contracts.ToolID{"mcp:my__disk:say"}, 0.98},
		{"my__disk.store.read_file", []contracts.ToolID{"mcp:my__disk:store.read_file"}, 0.98},
		{"`read_file`", []contracts.ToolID{"mcp:files:read_file", "mcp:my__disk:read_file"}, 0.98},
		{"read file", []contracts.ToolID{"mcp:files:Read_File"}, 0.92},
		{"readFile", []contracts.ToolID{"mcp:files:Read_File"}, 0.92},
		{"list", []contracts.ToolID{"mcp:my__disk:repos/list"}, 0.92},
		{"who am I", []contracts.ToolID{"mcp:who:whoami"}, 0.92},
		{"please use mcp:my__disk:read_file on notes", []contracts.ToolID{"mcp:my__disk:read_file"}, 0.98},
		{"call read_file_lines, then find", []contracts.ToolID{"mcp:files:read_file_lines"}, 0.98},
		{"read_file_l", []contracts.ToolID{"mcp:files:read_file_lines"}, 0.9},
		{"files.read_file_", []contracts.ToolID{"mcp:files:read_file_lines"}, 0.9},
		{"mcp__files__read_file_li", []contracts.ToolID{"mcp:files:read_file_lines"}, 0.9},
		{"whoa", []contracts.ToolID{"mcp:who:whoami", "mcp:who:whoareyou"}, 0.9},
	} {
		got := answerOf(v.Search(tt.query, 10))
		n := min(len(tt.want), len(got.IDs))
		if diff := cmp.Diff(tt.want, got.IDs[:n]); diff != "" {
			t.Errorf("Search(%q): first hits differ (-want +got):\n%s", tt.query, diff)
			continue
		}
		if got.Scores[n-1] < tt.tier {
			t.Errorf("Search(%q): %s scores %.3f, want at least %.2f", tt.query, got.IDs[n-1], got.Scores[n-1], tt.tier)
		}
		if got.Total < len(got.IDs) {
			t.Errorf("Search(%q): %d hits of a total of %d", tt.query, len(got.IDs), got.Total)
		}
	}
}

func TestSearchScores(t *testing.T) {
	v := office(t)
	for _, query := range []string{"create an issue", "create_issue", "create_iss", "events", "calendar event create issue repository", "github.create_issue"} {
		r := v.Search(query, 20)
		last := 1.0
		for _, h := range r.Hits {
			if h.Score > last || h.Score <= 0 {
				t.Errorf("Search(%q): %s scores %g after %g", query, h.Tool.ID, h.Score, last)
			}
			last = h.Score
		}
		if r.Total != len(r.Hits) {
			t.Errorf("Search(%q): total %d with all %d hits", query, r.Total, len(r.Hits))
		}
	}
}

func TestSearchLimit(t *testing.T) {
	v := office(t)
	all := answerOf(v.Search("create an issue in a repository", 100))
	for _, limit := range []int{-1, 0, 1, 3} {
		got := answerOf(v.Search("create an issue in a repository", limit))
		if want := max(0, limit); len(got.IDs) != want || got.Total != all.Total || !slices.Equal(got.IDs, all.IDs[:want]) {
			t.Errorf("limit %d: %d hits of %d, want %d of %d", limit, len(got.IDs), got.Total, want, all.Total)
		}
	}
}

func TestSearchDemandedWords(t *testing.T) {
	v := office(t)
	for _, tt := range []struct {
		query string
		want  []string
	}{
		{"+pipelines cancel", []string{"cancel_pipeline", "retry_pipeline"}},
		{"create +event", []string{"create_event", "delete_event", "list_events"}},
		{"create +event +calendar +summary", []string{"create_event"}},
		{"issue +gitlab", []string{"create_issue", "cancel_pipeline", "retry_pipeline"}},
		{"+delete_event", []string{"delete_event"}},
		{"create issue +nosuchword", nil},
		{"+pipelin", []string{"cancel_pipeline", "retry_pipeline"}}, // the stem itself
		{"+pipelyne", nil}, // what is demanded is not corrected
		{"+remove event", nil},
		{"event +event", []string{"create_event", "delete_event", "list_events"}},
		{"appointment +event", []string{"create_event", "delete_event", "list_events"}},
		{"+YouTube video", []string{"YouTube.getTranscript"}},
		{"+youtube", []string{"YouTube.getTranscript"}},
		{"+mysql +tables", []string{"searchMySQLTables"}},
		{"+MySQL", []string{"searchMySQLTables"}},
		{"the +the forecast", []string{"get_weather_forecast"}}, // a stop word demands nothing
		{"+", nil},
	} {
		got := names(v, tt.query)
		slices.Sort(got)
		want := slices.Sorted(slices.Values(tt.want))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Search(%q) differs (-want +got):\n%s", tt.query, diff)
		}
	}
	v = view(listing("a", tool("fix_event", "Sets one"), tool("book_appointment", "Makes one"), tool("dump", "Saves mysql"), tool("run", "Starts SQL")))
	if got := names(v, "event +event"); !slices.Equal(got, []string{"fix_event"}) {
		t.Errorf("a synonym is taken for the demanded word: %v", got)
	}
	if got := names(v, "+MySQL"); len(got) != 2 || !slices.Contains(got, "run") || !slices.Contains(got, "dump") {
		t.Errorf("+MySQL finds %v, want the tools with mysql or sql", got)
	}
	v = office(t)
	if got := v.Search("video +nosuchword", 5).Nearest; !slices.Equal(got, []contracts.ToolID{"mcp:media:YouTube.getTranscript"}) {
		t.Errorf("nothing holds the demanded word; nearest without it is %v", got)
	}
	if got := first(v, "raise an event by +4915112345678"); got == "" {
		t.Error("a telephone number is taken for a demanded word")
	}
}

func TestSearchEmpty(t *testing.T) {
	v := office(t)
	for _, query := range []string{"", " ", "\t\n", "the", "what is this?", "...", "\u200b", "+"} {
		if diff := cmp.Diff(Result{}, v.Search(query, 5)); diff != "" {
			t.Errorf("Search(%q) is not empty:\n%s", query, diff)
		}
	}
	for name, v := range map[string]*View{"no parts": NewView(nil), "no segment": NewView([]Part{{}}), "nil listing": view(nil), "no tools": view(listing("a"))} {
		if diff := cmp.Diff(Result{}, v.Search("create an issue", 5)); diff != "" {
			t.Errorf("%s: the answer is not empty:\n%s", name, diff)
		}
	}
}

func TestSearchKnowsWhenNothingFits(t *testing.T) {
	v := office(t)
	for _, tt := range []struct {
		query   string
		nearest bool
	}{
		{"order a large pepperoni pizza to my flat", false},
		{"brew espresso", false},
		{"qwxz", false},
		{"the thermostat of my city", true},
		{"kalender_kreatevent", true},
	} {
		r := v.Search(tt.query, 5)
		if len(r.Hits) != 0 || r.Total != 0 {
			t.Errorf("Search(%q) = %v of %d, want nothing", tt.query, answerOf(r).IDs, r.Total)
		}
		if len(r.Nearest) > 3 || tt.nearest && len(r.Nearest) == 0 {
			t.Errorf("Search(%q): nearest %v", tt.query, r.Nearest)
		}
	}
	if got := v.Search("kreatevent", 5).Nearest; !slices.Equal(got, []contracts.ToolID{"mcp:calendar:create_event", "mcp:calendar:list_events", "mcp:calendar:delete_event"}) {
		t.Errorf("nearest to a wrong name: %v", got)
	}
}

func TestSearchFillersCountWhereNothingElseDoes(t *testing.T) {
	v := view(listing("a", tool("ask", "Get help from a person"), tool("sum", "Adds")))
	if got := first(v, "I need help"); got != "ask" {
		t.Errorf("found %q, want ask", got)
	}
}

func TestSearchDiscountsLiterals(t *testing.T) {
	v := view(listing("a",
		tool("read_text", "Reads a file"),
		tool("run_test_project", "Builds a project and runs its tests"),
		tool("draw", "Paints docs"),
	))
	if got := first(v, "read the file ./test_project/docs/run.txt"); got != "read_text" {
		t.Errorf("found %q, want read_text", got)
	}
}

func TestSearchTiesByID(t *testing.T) {
	var listings []*contracts.Listing
	for _, owner := range []string{"srv-c", "srv-a", "srv-b"} {
		l := listing(owner, tool("make_tea", "Makes tea"))
		listings = append(listings, l)
	}
	got := answerOf(view(listings...).Search("make some tea", 5)).IDs
	want := []contracts.ToolID{"mcp:srv-a:make_tea", "mcp:srv-b:make_tea", "mcp:srv-c:make_tea"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order of equals differs (-want +got):\n%s", diff)
	}
}

func TestSearchReadsBoundedQueries(t *testing.T) {
	v := office(t)
	for _, query := range []string{
		strings.Repeat("x", 1<<20), strings.Repeat("issue ", 1<<17), strings.Repeat("a_b.c-D", 1<<17), strings.Repeat("使", 1<<18),
		"create issue " + strings.Repeat("\xff", 1<<20),
	} {
		v.Search(query, 5)
	}
	var many strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&many, "w%dx ", i)
	}
	if n := len(v.plan(splitQuery(many.String()))); n > maxClauses {
		t.Errorf("%d clauses, want at most %d", n, maxClauses)
	}
}

func FuzzSearch(f *testing.F) {
	v := office(f)
	for _, s := range []string{"create issue", "+event x", "mcp:github:create_issue", "mcp__a__b", "a.b:c", "'quoted \"text", "githb isue", "To Do", "使用", "\xff", "____", "::", "read ./a/b.txt"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, query string) {
		r := v.Search(query, 5)
		if diff := cmp.Diff(answerOf(r), answerOf(v.Search(query, 5))); diff != "" {
			t.Errorf("Search(%q) differs from time to time:\n%s", query, diff)
		}
		if len(r.Hits) > 5 || r.Total < len(r.Hits) || len(r.Nearest) > 3 || len(r.Hits) > 0 && r.Nearest != nil {
			t.Errorf("Search(%q) = %v", query, answerOf(r))
		}
		last := 1.0
		for _, h := range r.Hits {
			if !(h.Score > 0 && h.Score <= last) {
				t.Errorf("Search(%q): score %g after %g", query, h.Score, last)
			}
			last = h.Score
		}
	})
}
