package embedded

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// language makes words and catalogues by chance.
type language struct {
	*rand.Rand
	words []string
}

func newLanguage(seed uint64, words int) *language {
	l := &language{Rand: rand.New(rand.NewPCG(seed, 1))}
	syllables := strings.Fields("ba ke lo mi ru sta tor ven dal gri pon wex cha ny qui zor fle tum")
	for range words {
		var b strings.Builder
		for range 2 + l.IntN(3) {
			b.WriteString(syllables[l.IntN(len(syllables))])
		}
		l.words = append(l.words, b.String())
	}
	l.words = append(l.words, "list", "show", "get", "create", "add", "delete", "update", "search", "issue", "ticket", "email", "YouTube", "VMs", "oauth2")
	return l
}

// word returns a word, some far more often than others.
func (l *language) word() string {
	return l.words[min(l.IntN(len(l.words)), l.IntN(len(l.words)), l.IntN(len(l.words)))]
}

func (l *language) text(n int) string {
	var words []string
	for range n {
		words = append(words, l.word())
	}
	return strings.Join(words, " ")
}

func (l *language) tool() contracts.Tool {
	name := strings.Join(strings.Fields(l.text(1+l.IntN(3))), "_")
	var params []string
	for range l.IntN(5) {
		params = append(params, l.word()+":"+l.text(l.IntN(8)))
	}
	t := tool(name, l.text(l.IntN(25)), params...)
	if l.IntN(3) == 0 {
		t.Title = l.text(2)
	}
	return t
}

func (l *language) listing(owner string, tools int) *contracts.Listing {
	var list []contracts.Tool
	for i := range tools {
		t := l.tool()
		if slices.ContainsFunc(list, func(o contracts.Tool) bool { return o.Name == t.Name }) {
			t.Name = fmt.Sprintf("%s_%d", t.Name, i)
		}
		list = append(list, t)
	}
	out := listing(owner, list...)
	out.Title = l.text(1)
	out.Instructions = l.text(l.IntN(30))
	return out
}

// misspelt changes a letter of a word.
func (l *language) misspelt(word string) string {
	i := 1 + l.IntN(len(word)-1)
	return word[:i] + string(rune('a'+l.IntN(26))) + word[i:]
}

// query returns a query of one of many kinds.
func (l *language) query(listings []*contracts.Listing) string {
	from := listings[l.IntN(len(listings))]
	var t contracts.Tool
	if len(from.Tools) > 0 {
		t = from.Tools[l.IntN(len(from.Tools))]
	}
	switch l.IntN(10) {
	case 0:
		return t.Name
	case 1:
		return string(t.ID)
	case 2:
		return from.Source.Owner + "__" + t.Name
	case 3:
		return t.Name[:len(t.Name)/2]
	case 4:
		return "+" + l.word() + " " + l.text(2)
	case 5:
		return l.misspelt(l.word()) + " " + l.misspelt(l.word())
	case 6:
		return "nothing such as " + l.misspelt(l.misspelt(l.misspelt(l.word())))
	case 7:
		return t.Name + "x"
	}
	return l.text(1 + l.IntN(12))
}

func TestHiddenToolsDoNotExist(t *testing.T) {
	for seed := range uint64(25) {
		l := newLanguage(seed, 150)
		var whole, visible []Part
		var listings []*contracts.Listing
		for i := range 1 + l.IntN(6) {
			full := l.listing(fmt.Sprintf("srv%d", i), l.IntN(40))
			rest := *full
			rest.Tools = nil
			var hidden []int
			share := l.IntN(11)
			for j := range full.Tools {
				if l.IntN(10) < share {
					hidden = append(hidden, j)
				} else {
					rest.Tools = append(rest.Tools, full.Tools[j])
				}
			}
			whole = append(whole, Part{Build(full), hidden})
			visible = append(visible, Part{Segment: Build(&rest)})
			listings = append(listings, full)
		}
		masked, never := NewView(whole), NewView(visible)
		for range 150 {
			query := l.query(listings)
			got, want := answerOf(masked.Search(query, 20)), answerOf(never.Search(query, 20))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("seed %d, Search(%q): hidden tools make a difference (-without +hidden):\n%s", seed, query, diff)
			}
		}
	}
}

func TestPartsWithoutVisibleToolsDoNotExist(t *testing.T) {
	shown := listing("a", tool("count_zebra", "Counts"), tool("count_lions", "Counts"))
	gone := listing("b", tool("count_zebroid", "Counts"))
	gone.Title = "Zebras"
	masked, never := NewView([]Part{{Build(shown), nil}, {Build(gone), []int{0}}}), view(shown)
	for _, query := range []string{"zebras", "zebrs", "count zebro", "zebroid", "count_zebroid", "b__count_zebroid", "count", "xyz"} {
		if diff := cmp.Diff(answerOf(never.Search(query, 5)), answerOf(masked.Search(query, 5))); diff != "" {
			t.Errorf("Search(%q): a hidden part makes a difference (-without +hidden):\n%s", query, diff)
		}
	}
	if got := masked.correct("zebrass"); got != "" {
		t.Errorf("the name of a source without visible tools corrects zebrass to %q", got)
	}
}

func TestViewDoesNotDependOnTheOrderOfParts(t *testing.T) {
	l := newLanguage(3, 100)
	var parts []Part
	var listings []*contracts.Listing
	for i := range 8 {
		listings = append(listings, l.listing(fmt.Sprintf("srv%d", i), 20))
		parts = append(parts, Part{Build(listings[i]), []int{i, i + 3}})
	}
	a := NewView(parts)
	slices.Reverse(parts)
	b := NewView(parts)
	for range 300 {
		query := l.query(listings)
		if diff := cmp.Diff(answerOf(a.Search(query, 10)), answerOf(b.Search(query, 10))); diff != "" {
			t.Fatalf("Search(%q): the order of parts makes a difference:\n%s", query, diff)
		}
	}
}

func TestBuildIsDeterministic(t *testing.T) {
	l := newLanguage(4, 100)
	listings := []*contracts.Listing{l.listing("a", 60), l.listing("b", 60)}
	a, b := view(listings...), view(listings...)
	for range 300 {
		query := l.query(listings)
		if diff := cmp.Diff(answerOf(a.Search(query, 10)), answerOf(b.Search(query, 10))); diff != "" {
			t.Fatalf("Search(%q): two indexes of the same listings differ:\n%s", query, diff)
		}
	}
	if a, b := Build(listings[0]).Size(), Build(listings[0]).Size(); a != b {
		t.Errorf("two segments of the same listing have the sizes %d and %d", a, b)
	}
}

func TestViewIgnoresPositionsThatAreNone(t *testing.T) {
	seg := Build(listing("a", tool("one_tool", "does this"), tool("other_tool", "does that")))
	v := NewView([]Part{{seg, []int{-1, 1, 1, 2, 1000}}})
	if got := names(v, "tool"); !slices.Equal(got, []string{"one_tool"}) {
		t.Errorf("found %v, want one_tool only", got)
	}
}

func TestViewsShareSegments(t *testing.T) {
	l := newLanguage(5, 100)
	listings := []*contracts.Listing{l.listing("a", 80), l.listing("b", 80)}
	segments := []*Segment{Build(listings[0]), Build(listings[1])}
	shared := NewView([]Part{{segments[0], nil}, {segments[1], []int{1, 2, 3}}})
	var queries []string
	var want []answer
	for range 50 {
		queries = append(queries, l.query(listings))
		want = append(want, answerOf(NewView([]Part{{segments[0], nil}, {segments[1], []int{1, 2, 3}}}).Search(queries[len(queries)-1], 10)))
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			own := NewView([]Part{{segments[0], []int{0}}})
			for i, query := range queries {
				own.Search(query, 5)
				if diff := cmp.Diff(want[i], answerOf(shared.Search(query, 10))); diff != "" {
					t.Errorf("Search(%q) beside others differs:\n%s", query, diff)
				}
			}
		})
	}
	wg.Wait()
}

func TestOwnerAndInstructionsAreSearched(t *testing.T) {
	hub := listing("hub", tool("list_things", "Lists what there is"), tool("drop_thing", "Lets go of one"))
	hub.Title = "Acme Warehouse"
	hub.Instructions = "Use these tools for pallets and forklifts."
	v := view(hub, listing("other", tool("list_things", "Lists what there is")))
	for _, query := range []string{"acme things", "warehouse things", "things on pallets", "hub things"} {
		r := v.Search(query, 5)
		if len(r.Hits) == 0 || r.Hits[0].Source.Owner != "hub" {
			t.Errorf("Search(%q) finds %v first, want a tool of hub", query, answerOf(r).IDs)
		}
	}
	if got := names(v, "forklifts"); len(got) != 2 {
		t.Errorf("found %v, want the tools of hub", got)
	}
}

func TestSizeGrows(t *testing.T) {
	l := newLanguage(6, 500)
	last := Build(nil).Size()
	if last <= 0 {
		t.Errorf("an empty segment has size %d", last)
	}
	for _, n := range []int{10, 100, 1000} {
		size := Build(l.listing("a", n)).Size()
		if size <= last {
			t.Errorf("size %d with %d tools, %d with fewer", size, n, last)
		}
		last = size
	}
}
