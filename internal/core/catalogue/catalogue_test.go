package catalogue_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/internal/core/catalogue"
	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const tenant contracts.TenantID = "acme"

func listing(source string, names ...string) *contracts.Listing {
	s, err := contracts.ParseSourceID(source)
	if err != nil {
		panic(err)
	}
	l := &contracts.Listing{Source: s}
	for _, n := range names {
		t := contracts.Tool{ID: contracts.NewToolID(s, n), Name: n, InputSchema: json.RawMessage(`{"type":"object"}`)}
		t.Hash = t.ContentHash()
		l.Tools = append(l.Tools, t)
	}
	slices.SortFunc(l.Tools, func(a, b contracts.Tool) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return l
}

// load stores the listings as a catalogue of acme, in which hidden cannot be seen, and loads it.
func load(t *testing.T, lib *catalogue.Library, hidden contracts.ToolID, listings ...*contracts.Listing) *catalogue.Catalogue {
	t.Helper()
	var c contracts.Catalogue
	for _, l := range listings {
		h, err := lib.PutListing(t.Context(), tenant, l)
		if err != nil {
			t.Fatal(err)
		}
		cl := contracts.CatalogueListing{Source: l.Source, Listing: h, Visible: len(l.Tools)}
		for i, tool := range l.Tools {
			if tool.ID == hidden {
				cl.Hidden, cl.Visible = []int{i}, cl.Visible-1
			}
		}
		c.Listings = append(c.Listings, cl)
	}
	h, err := lib.PutCatalogue(t.Context(), tenant, &c)
	if err != nil {
		t.Fatal(err)
	}
	got, err := lib.Catalogue(t.Context(), tenant, h)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func open(t *testing.T) *catalogue.Library {
	t.Helper()
	lib, err := catalogue.Open(t.Context(), natstest.Open(t))
	if err != nil {
		t.Fatal(err)
	}
	return lib
}

func TestResolve(t *testing.T) {
	c := load(t, open(t), "mcp:git:delete_branch",
		listing("mcp:calendar", "create_event", "List-Events", "search"),
		listing("mcp:git", "create_branch", "delete_branch", "search", "odd:name.with/all"),
		listing("platform:core", "now"))
	if n := c.Size(); n != 7 {
		t.Errorf("Size = %d, want 7", n)
	}
	for in, want := range map[string]contracts.ToolID{
		"mcp:calendar:create_event":   "mcp:calendar:create_event",
		" mcp:calendar:create_event ": "mcp:calendar:create_event",
		"MCP:Calendar:CREATE_EVENT":   "mcp:calendar:create_event",
		"mcp:calendar:list-events":    "mcp:calendar:List-Events",
		"calendar.create_event":       "mcp:calendar:create_event",
		"calendar__create_event":      "mcp:calendar:create_event",
		"mcp__calendar__create_event": "mcp:calendar:create_event",
		"create_event":                "mcp:calendar:create_event",
		"Create_Event":                "mcp:calendar:create_event",
		"calendar.search":             "mcp:calendar:search",
		"mcp:git:odd:name.with/all":   "mcp:git:odd:name.with/all",
		"core__now":                   "platform:core:now",
		"now":                         "platform:core:now",
	} {
		e, err := c.Resolve(in)
		if err != nil || e.ID != want {
			t.Errorf("Resolve(%q) = %s, %v; want %s", in, idOf(e), err, want)
		}
	}
	for in, want := range map[string]contracts.Code{
		"":                      contracts.CodeInvalid,
		"search":                contracts.CodeAmbiguousTool,
		"mcp:git:delete_branch": contracts.CodeUnknownTool, // hidden
		"delete_branch":         contracts.CodeUnknownTool,
		"git__delete_branch":    contracts.CodeUnknownTool,
		"mcp:nowhere:search":    contracts.CodeUnknownTool,
		"creat_event":           contracts.CodeUnknownTool,
	} {
		_, err := c.Resolve(in)
		if contracts.CodeOf(err) != want {
			t.Errorf("Resolve(%q) = %v, want %s", in, err, want)
		}
		if err != nil && in != "mcp:git:delete_branch" && strings.Contains(err.Error(), "mcp:git:delete_branch") {
			t.Errorf("Resolve(%q) tells of a hidden tool: %v", in, err)
		}
	}
	if _, err := c.Resolve("creat_event"); err == nil || !strings.Contains(err.Error(), "mcp:calendar:create_event") {
		t.Errorf("Resolve(creat_event) = %v, want it to suggest create_event", err)
	}
}

func TestMayCome(t *testing.T) {
	git := contracts.SourceID{Kind: contracts.SourceMCP, Owner: "git"}
	pending := []contracts.SourceStatus{{Source: git}}
	for name, want := range map[string]int{"mcp:git:push": 1, "MCP:Git:push": 1, "mcp:other:push": 0, "push": 1, "git.push": 1} {
		if got := catalogue.MayCome(name, pending); len(got) != want {
			t.Errorf("MayCome(%q) = %v, want %d", name, got, want)
		}
	}
	unknown := contracts.Errorf(contracts.CodeUnknownTool, "no")
	if err := catalogue.StillPending(unknown, []contracts.SourceID{git}); !strings.Contains(err.Error(), "mcp:git") || contracts.CodeOf(err) != contracts.CodeUnknownTool {
		t.Errorf("StillPending = %v, want it to name the source", err)
	}
	if err := catalogue.StillPending(unknown, nil); err != error(unknown) {
		t.Errorf("StillPending without sources = %v, want the error as it is", err)
	}
}

func idOf(e catalogue.Entry) contracts.ToolID {
	if e.Tool == nil {
		return ""
	}
	return e.ID
}

func TestAllIsSortedAndLeavesOutHidden(t *testing.T) {
	c := load(t, open(t), "mcp:b:y", listing("mcp:a", "z", "a"), listing("mcp:b", "x", "y"))
	var got []contracts.ToolID
	for e := range c.All() {
		got = append(got, e.ID)
	}
	if want := []contracts.ToolID{"mcp:a:a", "mcp:a:z", "mcp:b:x"}; !slices.Equal(got, want) {
		t.Errorf("All = %v, want %v", got, want)
	}
}

func TestAnotherTenantsCatalogueIsNotThere(t *testing.T) {
	lib := open(t)
	c := load(t, lib, "", listing("mcp:a", "x"))
	if _, err := lib.Catalogue(t.Context(), "other", c.Hash); contracts.CodeOf(err) != contracts.CodeNotFound {
		t.Errorf("Catalogue of another tenant = %v, want not_found", err)
	}
	if _, err := lib.Listing(t.Context(), "other", c.Parts[0].Hash); contracts.CodeOf(err) != contracts.CodeNotFound {
		t.Errorf("Listing of another tenant = %v, want not_found", err)
	}
}
