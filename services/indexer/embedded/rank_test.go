package embedded

import (
	"math"
	"testing"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// TestRanking has catalogues of tools that are alike but for what is tested;
// what is wanted first comes last by its id.
func TestRanking(t *testing.T) {
	for _, tt := range []struct {
		name, query, want string
		view              *View
	}{
		{"what is asked for is done", "revoke the key", "key_keeper_delete", view(listing("a",
			tool("key_maker_create", "Works on the revoke flag of a key"),
			tool("key_keeper_delete", "Works on the revoke flag of a key")))},
		{"the whole name is asked for", "rotate keys", "rotate_keys", view(listing("a",
			tool("keys_of_old_days_rotate", "Does that"),
			tool("rotate_keys", "Does that")))},
		{"more of the query is held", "alpha beta gamma delta", "xxxx", view(listing("a",
			tool("aaaa", "alpha alpha alpha alpha alpha alpha"),
			tool("bbbb", "beta beta beta beta beta beta"),
			tool("xxxx", "alpha beta gamma delta")))},
		{"a synonym where the word is unknown", "picture of the moon", "moon_image", view(listing("a",
			tool("moon_essay", "Of the moon"),
			tool("moon_image", "Of the moon")))},
		{"a synonym weighs less than the word", "show a ticket", "show_ticket", view(listing("a",
			tool("show_issue", "Something to look at"),
			tool("show_ticket", "Something to look at")))},
		{"a name weighs more than a description", "tides", "tides", view(listing("a",
			tool("aaaa", "The tides of tides"),
			tool("tides", "Water")))},
		{"a rare word weighs more than a common one", "common rare", "zzzz", view(listing("a",
			tool("aaaa", "common"), tool("bbbb", "common"), tool("cccc", "common"), tool("zzzz", "rare")))},
	} {
		hits := tt.view.Search(tt.query, 5).Hits
		if len(hits) == 0 || hits[0].Tool.Name != tt.want {
			t.Errorf("%s: Search(%q) finds %v, want %s first", tt.name, tt.query, names(tt.view, tt.query), tt.want)
		}
	}
}

func TestRankingOfEqualNames(t *testing.T) {
	for _, tt := range []struct {
		name, query string
		view        *View
	}{
		{"the source is named", "tides by zulu", view(
			listing("mike", tool("tides", "Heights told for harbours around islands along coasts, zulu time")),
			listing("zulu", tool("tides", "By the hour")))},
		{"siblings come before strangers", "phase of the moon", view(
			listing("mike", tool("moon", "A moon of some kind")),
			listing("zulu", tool("moon", "A moon of some kind"), tool("moon_phase", "Any phase")))},
	} {
		seen := ""
		for _, h := range tt.view.Search(tt.query, 5).Hits {
			if h.Tool.Name == "moon" || h.Tool.Name == "tides" {
				seen = h.Source.Owner
				break
			}
		}
		if seen != "zulu" {
			t.Errorf("%s: Search(%q) has the tool of %q first, want that of zulu", tt.name, tt.query, seen)
		}
	}
}

func TestAdjusted(t *testing.T) {
	v := view(listing("a", tool("get_tea_now", ""), tool("tea", "")))
	for _, tt := range []struct {
		name    string
		doc     uint32
		slot    slot
		owned   bool
		acts    action
		percent float64 // of the score
	}{
		{"nothing of it", 0, slot{cover: 2}, false, 0, 100},
		{"a third of the name", 0, slot{cover: 2, named: 1}, false, 0, 100 + 100*nameBonus/3},
		{"the whole name", 0, slot{cover: 2, named: 3}, false, 0, 100 + 100*nameBonus},
		{"more than the name", 1, slot{cover: 2, named: 3}, false, 0, 100 + 100*nameBonus},
		{"half of the query", 0, slot{cover: 1}, false, 0, 100 - 100*coverageShare/2},
		{"its source", 0, slot{cover: 2}, true, 0, 100 + 100*ownerBonus},
		{"the same action", 0, slot{cover: 2}, false, actionRead | actionDelete, 100 + 100*actionBonus},
		{"another action", 0, slot{cover: 2}, false, actionDelete, 100 - 100*actionMalus},
		{"no action of its own", 1, slot{cover: 2}, false, actionDelete, 100},
	} {
		r := &ranking{View: v, scratch: &scratch{owned: []bool{tt.owned}}, acts: tt.acts, cover: 2}
		tt.slot.score = 100
		got := float64(r.adjusted(place{0, tt.doc}, &tt.slot))
		if math.Abs(got-tt.percent) > 0.001 {
			t.Errorf("%s: score 100 becomes %g, want %g", tt.name, got, tt.percent)
		}
		if got > 100*mostBonus {
			t.Errorf("%s: %g is more than the most, %g", tt.name, got, 100*mostBonus)
		}
	}
}

func TestCommonSynonymsAreLeftOut(t *testing.T) {
	common := []contracts.Tool{tool("aaaa", "list"), tool("bbbb", "list"), tool("cccc", "list"), tool("dddd", "list")}
	v := view(listing("a", append(common, tool("browse_it", ""))...))
	if r := v.Search("browse", 5); r.Total != 1 {
		t.Errorf("browse matches %d tools, want the one that has it", r.Total)
	}
	v = view(listing("a", common...))
	if r := v.Search("browse", 5); r.Total != 4 {
		t.Errorf("browse matches %d tools where none has it, want the 4 with a synonym", r.Total)
	}
}

func TestSynonymFindsAlone(t *testing.T) {
	var tools = []string{"image_viewer", "clock", "alarm", "radio", "lamp", "door", "window", "chair", "table"}
	l := listing("a")
	for _, name := range tools {
		l.Tools = append(l.Tools, tool(name, "One of the things in a room"))
		l.Tools[len(l.Tools)-1].ID = "mcp:a:" + l.Tools[len(l.Tools)-1].ID
	}
	if got := first(view(l), "pictures"); got != "image_viewer" {
		t.Errorf("pictures finds %q, want image_viewer", got)
	}
}
