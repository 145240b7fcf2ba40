package embedded

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
)

// form is a word as a segment's tools write it: a candidate for corrections.
// Words that stand only in the texts of parameters are none: those are seldom
// what a tool is asked for by.
type form struct {
	text string
	term uint32
	all  bool     // every tool of the segment has it
	docs []uint32 // the tools that hold it; nil where they are all of the term's
}

const (
	minForm = 4
	maxForm = 24
	// distantCorrectionAt is the length from which a word may have two mistakes.
	distantCorrectionAt = 8
)

func correctable(word string) bool {
	return len(word) >= minForm && len(word) <= maxForm && isPlain(word)
}

// forms returns the words of the listing that can be meant by a misspelt one.
func (b *builder) forms() []form {
	var list []form
	for _, w := range b.words {
		if w.stop || !correctable(w.text) || !w.all && len(w.docs) == 0 {
			continue
		}
		f := form{text: w.text, term: w.term, all: w.all}
		if len(w.docs) < int(b.counts[w.term]) {
			f.docs = w.docs
		}
		list = append(list, f)
	}
	return list
}

// seen reports whether a visible tool holds the form.
func (p *part) seen(f *form) bool {
	switch {
	case p.hidden == nil || f.all:
		return true
	case f.docs == nil:
		return p.holding(p.postings[p.starts[f.term]:p.starts[f.term+1]]) > 0
	}
	return slices.ContainsFunc(f.docs, func(d uint32) bool { return !p.hidden.has(d) })
}

// A wordList holds the words that the visible tools of a view are written
// with, by first letter and length.
type wordList [26][maxForm + 1][]listedWord

type listedWord struct {
	text    string
	letters uint32 // the set of its letters, a bit each
}

func mergeWords(parts []part) *wordList {
	var l wordList
	known := map[string]struct{}{}
	for i := range parts {
		p := &parts[i]
		for j := range p.forms {
			f := &p.forms[j]
			if _, ok := known[f.text]; ok || !p.seen(f) {
				continue
			}
			known[f.text] = struct{}{}
			at := &l[f.text[0]-'a'][len(f.text)]
			*at = append(*at, listedWord{f.text, lettersOf(f.text)})
		}
	}
	return &l
}

func lettersOf(word string) uint32 {
	var set uint32
	for i := range len(word) {
		set |= 1 << (word[i] - 'a')
	}
	return set
}

// correct returns the word of the catalogue that is most likely meant by word,
// which no tool holds: the nearest with the same first letter, the most
// frequent of those. "" where none is near.
func (v *View) correct(word string) string {
	if !correctable(word) {
		return ""
	}
	most := 1
	if len(word) >= distantCorrectionAt {
		most = 2
	}
	letters := lettersOf(word)
	best, bestDistance, bestDF := "", most+1, int32(0)
	words := &v.words()[word[0]-'a']
	for n := max(minForm, len(word)-most); n <= min(maxForm, len(word)+most); n++ {
		for _, w := range words[n] {
			// An edit takes away at most one letter of the set and adds one.
			if bits.OnesCount32(letters&^w.letters) > most || bits.OnesCount32(w.letters&^letters) > most {
				continue
			}
			d := distance(word, w.text, bestDistance)
			if d > most || d > bestDistance {
				continue
			}
			df := v.resolve(stem(w.text)).df
			if c := cmp.Or(cmp.Compare(d, bestDistance), cmp.Compare(bestDF, df), strings.Compare(w.text, best)); c < 0 {
				best, bestDistance, bestDF = w.text, d, df
			}
		}
	}
	return best
}

// distance returns the Damerau distance of a and b (insertions, deletions,
// substitutions and swaps of neighbours), or most+1 where it is larger than
// most. Neither may be longer than maxForm.
func distance(a, b string, most int) int {
	if d := len(a) - len(b); d > most || -d > most {
		return most + 1
	}
	var rows [3][maxForm + 1]int
	before, last, row := &rows[0], &rows[1], &rows[2]
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		least := i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, before[j-2]+1)
			}
			row[j] = d
			least = min(least, d)
		}
		if least > most {
			return most + 1
		}
		before, last, row = last, row, before
	}
	return min(last[len(b)], most+1)
}
