package names

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// longest is how many characters of a name, from its end, are compared.
	longest = 64
	// near is the least likeness of a suggestion, from 0 to 1.
	near = 0.6
)

// Suggest returns the at most n names of known that are nearest to want, best
// first and by bytes where equally near; none where nothing is near. It ignores
// case, compares an id's last part too, and knows swapped letters and swapped
// words ("calendar_create" finds "mcp:calendar:create_event").
// Time grows with the number of names: about ten milliseconds for ten thousand.
func Suggest(want string, known []string, n int) []string {
	if n <= 0 || want == "" {
		return nil
	}
	type scored struct {
		name  string
		score float64
	}
	w := newWanted(want)
	var found []scored
	for _, k := range known {
		if s := w.likeness(k); s >= near {
			found = append(found, scored{k, s})
		}
	}
	slices.SortFunc(found, func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.name, b.name))
	})
	var names []string
	for _, f := range found {
		if len(names) == n {
			break
		}
		if !slices.Contains(names, f.name) {
			names = append(names, f.name)
		}
	}
	return names
}

// A wanted is a name prepared for comparing.
type wanted struct {
	text        string
	whole, last *pattern
	words       []string
}

func newWanted(s string) *wanted {
	w := &wanted{text: s}
	s = tail(s)
	lower := strings.ToLower(s)
	w.whole, w.last = newPattern(lower), newPattern(lastPart(lower))
	words(s, func(word string) {
		if !slices.Contains(w.words, word) {
			w.words = append(w.words, word)
		}
	})
	return w
}

// likeness returns how near the wanted name is to s, from 0 to 1.
func (w *wanted) likeness(s string) float64 {
	if s == w.text {
		return 1
	}
	s = tail(s)
	lower := strings.ToLower(s)
	// Each way is worth a hair less than the one before, so that equal names come first.
	return max(
		0.99*w.whole.similarity(lower),
		0.98*w.last.similarity(lastPart(lower)),
		0.95*w.overlap(s),
	)
}

// tail returns the last [longest] characters of s.
func tail(s string) string {
	if len(s) <= longest {
		return s
	}
	at := len(s)
	for range longest {
		_, n := utf8.DecodeLastRuneInString(s[:at])
		at -= n
	}
	return s[at:]
}

// lastPart returns what follows the last ':', '.', '/' or "__".
func lastPart(s string) string {
	if i := strings.LastIndexAny(s, ":./"); i >= 0 && i+1 < len(s) {
		s = s[i+1:]
	}
	if i := strings.LastIndex(s, "__"); i >= 0 && i+2 < len(s) {
		s = s[i+2:]
	}
	return s
}

// overlap returns the share of words that the wanted name and s have in common.
func (w *wanted) overlap(s string) float64 {
	if len(w.words) == 0 {
		return 0
	}
	common, all := 0, 0
	words(s, func(word string) {
		all++
		for _, have := range w.words {
			if len(have) == len(word) && have == strings.ToLower(word) {
				common++
				return
			}
		}
	})
	return 2 * float64(min(common, len(w.words))) / float64(len(w.words)+all)
}

// words calls yield with each word of s, its kind of source left out: s is
// split at everything but letters and digits, and before a capital that follows a small letter.
func words(s string, yield func(string)) {
	if kind, rest, ok := strings.Cut(s, ":"); ok && slices.Contains([]string{"platform", "plugin", "mcp", "client"}, kind) {
		s = rest
	}
	start, lower := -1, false
	for i, r := range s {
		inWord := unicode.IsLetter(r) || unicode.IsDigit(r)
		if start >= 0 && (!inWord || lower && unicode.IsUpper(r)) {
			yield(s[start:i])
			start = -1
		}
		if inWord && start < 0 {
			start = i
		}
		lower = unicode.IsLower(r)
	}
	if start >= 0 {
		yield(s[start:])
	}
}

// A pattern is a text of at most [longest] characters, prepared for computing its
// Damerau-Levenshtein distance (optimal string alignment) to other texts, by
// Hyyrö's bit-parallel algorithm: bit i of a mask stands for character i.
type pattern struct {
	text   string
	length int
	ascii  [128]uint64
	others map[rune]uint64
}

func newPattern(s string) *pattern {
	p := &pattern{text: s}
	for _, r := range s {
		if p.length == longest { // changing case can make a text longer
			break
		}
		bit := uint64(1) << p.length
		p.length++
		if r < 128 {
			p.ascii[r] |= bit
			continue
		}
		if p.others == nil {
			p.others = map[rune]uint64{}
		}
		p.others[r] |= bit
	}
	return p
}

// similarity returns 1 for an equal text, down to 0.
func (p *pattern) similarity(s string) float64 {
	if s == p.text {
		return 1
	}
	n := len(s)
	if p.others != nil || !ascii(s) {
		n = utf8.RuneCountInString(s)
	}
	long := max(n, p.length)
	if p.length == 0 || n == 0 || 1-float64(long-min(n, p.length))/float64(long) < near {
		return 0
	}
	return max(0, 1-float64(p.distance(s))/float64(long))
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func (p *pattern) distance(s string) int {
	var (
		dist               = p.length
		last               = uint64(1) << (p.length - 1)
		vp, vn, d0, before = ^uint64(0), uint64(0), uint64(0), uint64(0)
	)
	for _, r := range s {
		var match uint64
		if r < 128 {
			match = p.ascii[r]
		} else {
			match = p.others[r]
		}
		swap := ((^d0 & match) << 1) & before
		d0 = (((match & vp) + vp) ^ vp) | match | vn | swap
		hp, hn := vn|^(d0|vp), d0&vp
		if hp&last != 0 {
			dist++
		}
		if hn&last != 0 {
			dist--
		}
		hp, hn = hp<<1|1, hn<<1
		vp, vn = hn|^(d0|hp), hp&d0
		before = match
	}
	return dist
}
