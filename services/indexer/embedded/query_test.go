package embedded

import (
	"slices"
	"testing"
)

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b       string
		most, want int
	}{
		{"", "", 2, 0}, {"issue", "issue", 1, 0}, {"isue", "issue", 1, 1}, {"issuee", "issue", 1, 1}, {"histroy", "history", 1, 1},
		{"mesage", "message", 2, 1}, {"chnage", "change", 2, 1}, {"abcd", "badc", 2, 2}, {"repository", "reopsitroy", 2, 2},
		{"abc", "xyz", 2, 3}, {"abc", "abcdef", 2, 3}, {"ab", "ba", 1, 1}, {"kitten", "sitting", 2, 3}, {"kitten", "sitting", 3, 3},
	} {
		if got := distance(tt.a, tt.b, tt.most); got != tt.want {
			t.Errorf("distance(%q, %q, %d) = %d, want %d", tt.a, tt.b, tt.most, got, tt.want)
		}
		if got := distance(tt.b, tt.a, tt.most); got != tt.want {
			t.Errorf("distance(%q, %q, %d) = %d, want %d", tt.b, tt.a, tt.most, got, tt.want)
		}
	}
}

func TestCorrect(t *testing.T) {
	v := view(listing("a",
		tool("issue_tracker", "Keeps an issue of the repository", "payload:secretword"),
		tool("tissue_box", "A box of tissues"),
		tool("isle_map", "An isle, an isle"),
		tool("repo_search", "repository repository"),
	))
	for _, tt := range []struct{ word, want string }{
		{"isssue", "issue"},
		{"reopsitory", "repository"},
		{"repositroyy", "repository"},
		{"sissue", ""},   // another first letter
		{"reop", "repo"}, // a swap
		{"isl", ""},      // too short
		{"payloda", "payload"},
		{"secretwrod", ""}, // stands in the text of a parameter only
		{"x1234", ""},
		{"größe", ""},
		{"trackerrr", "tracker"},
		{"trakcrer", "tracker"}, // two mistakes in a long word
		{"trkr", ""},
	} {
		if got := v.correct(tt.word); got != tt.want {
			t.Errorf("correct(%q) = %q, want %q", tt.word, got, tt.want)
		}
	}
}

func TestSplitQueryWeighs(t *testing.T) {
	type words map[string]float64
	for _, tt := range []struct {
		query string
		want  words
	}{
		{"read the file", words{"read": 1, "the": 1, "file": 1}},
		{"read ./notes/today.txt now", words{"read": 1, "notes": literalWeight, "today": literalWeight, "txt": literalWeight, "now": 1}},
		{"open https://example.com/x", words{"open": 1, "https": literalWeight, "example": literalWeight}},
		{"write to ann@example.com", words{"write": 1, "ann": literalWeight}},
		{"click #submit here", words{"click": 1, "submit": literalWeight, "here": 1}},
		{"and/or input/output", words{"and": 1, "or": 1, "input": 1, "output": 1}},
		{"set 'room height' to \"four\" feet", words{"set": 1, "room": quotedWeight, "height": quotedWeight, "to": 1, "four": quotedWeight, "feet": 1}},
		{"don't stop users' runs", words{"dont": 1, "stop": 1, "users": 1, "runs": 1}},
		{"I'm planning a party. Find songs", words{"im": framingWeight, "planning": framingWeight, "party": framingWeight, "find": 1, "songs": 1}},
		{"I need two songs", words{"i": 1, "need": 1, "two": 1, "songs": 1}}, // no other sentence
		{"My “best friend” left. Call", words{"my": framingWeight, "best": framingWeight * quotedWeight, "friend": framingWeight * quotedWeight, "left": framingWeight, "call": 1}},
	} {
		got := splitQuery(tt.query)
		for word, want := range tt.want {
			i := slices.IndexFunc(got, func(w queryWord) bool { return w.text == word })
			if i < 0 || got[i].weight != want {
				t.Errorf("splitQuery(%q): %q is not there with weight %g: %v", tt.query, word, want, got)
			}
		}
	}
}

func TestSplitQueryDemands(t *testing.T) {
	for _, tt := range []struct {
		query string
		want  []string
	}{
		{"+event create", []string{"event"}},
		{"create +create_event", []string{"create", "event"}},
		{"1 + 2 GMT+2 c++ +49123 + event", nil},
	} {
		var got []string
		for _, w := range splitQuery(tt.query) {
			if w.demanded {
				got = append(got, w.text)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("splitQuery(%q) demands %v, want %v", tt.query, got, tt.want)
		}
	}
}

func TestActions(t *testing.T) {
	for _, tt := range []struct {
		name string
		want action
	}{
		{"create_issue", actionCreate}, {"issue_delete", actionDelete}, {"getUser", actionRead}, {"acme_update_user", actionUpdate},
		{"registry-list", actionRead}, {"fork", 0}, {"", 0}, {"list_delete", actionRead},
	} {
		if got := actionOfName(tokenise(nil, tt.name)); got != tt.want {
			t.Errorf("actionOfName(%q) = %b, want %b", tt.name, got, tt.want)
		}
	}
	if got, want := actionsOfQuery(splitQuery("What is there? Then remove it.")), actionRead|actionDelete; got != want {
		t.Errorf("actionsOfQuery = %b, want %b", got, want)
	}
}

func TestSynonymsAreStemsOfOtherWords(t *testing.T) {
	for s, others := range synonymsByStem {
		if slices.Contains(others, s) {
			t.Errorf("%q is a synonym of itself", s)
		}
	}
	if !slices.Contains(synonymsByStem[stem("messages")], stem("emails")) {
		t.Error("an email is no message")
	}
}
