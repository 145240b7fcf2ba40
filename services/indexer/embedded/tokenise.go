package embedded

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// kind says how a token stands in its text.
type kind uint8

const (
	kindWord   kind = iota // as written: "create" and "issue" in "createIssue"
	kindPiece              // the letters or the digits of a word with both: "oauth" in "oauth2"
	kindJoined             // two neighbouring words of one identifier written as one: "youtube" in "YouTube"
)

// A token is one searchable unit of a text, folded.
type token struct {
	text  string
	kind  kind
	glued bool // belongs to the same identifier as the token before it
}

// Longer words are keys, hashes and encoded data; nobody searches for them.
const maxWord = 48

// tokenise appends the tokens of text to dst. Identifiers are taken apart
// (camelCase, snake_case, kebab-case, dots, digits, acronyms and their plurals)
// and their neighbouring words also joined; scripts without spaces become
// bigrams.
func tokenise(dst []token, text string) []token {
	t := tokeniser{out: dst}
	t.scan(compose(text))
	return t.out
}

type tokeniser struct {
	out   []token
	first int // index in out of the first word of the identifier being read
}

// scan splits text into identifiers and hands each run of letters and digits of them on.
func (t *tokeniser) scan(text string) {
	t.first = len(t.out)
	for i := 0; i < len(text); {
		r, n := decode(text[i:])
		switch {
		case isUnspaced(r):
			t.endIdentifier()
			i += t.unspaced(text[i:])
			t.first = len(t.out)
		case isWordRune(r):
			end := i + runLength(text[i:])
			t.run(text[i:end])
			i = end
			if !glues(text[i:]) {
				t.endIdentifier()
			}
		default:
			i += n
		}
	}
	t.endIdentifier()
}

// decode is utf8.DecodeRuneInString with a short way for ASCII.
func decode(s string) (rune, int) {
	if s[0] < utf8.RuneSelf {
		return rune(s[0]), 1
	}
	return utf8.DecodeRuneInString(s)
}

func isWordRune(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	}
	return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r)
}

// isUnspaced reports whether r belongs to a script that is written without
// spaces between words (Hangul has them, but bigrams serve its endings well).
func isUnspaced(r rune) bool {
	switch {
	case r < 0x0e00, r >= 0x1800 && r < 0x2e80: // most of what is not, symbols and punctuation among it
		return false
	}
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul,
		unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// runLength returns the length of the run of letters and digits that s begins
// with. An apostrophe between letters is inside the run.
func runLength(s string) int {
	for i := 0; i < len(s); {
		r, n := decode(s[i:])
		if r == '\'' || r == '’' {
			if next, _ := utf8.DecodeRuneInString(s[i+n:]); unicode.IsLetter(next) && !isUnspaced(next) {
				i += n
				continue
			}
		}
		if !isWordRune(r) || isUnspaced(r) {
			return i
		}
		i += n
	}
	return len(s)
}

// glues reports whether s goes on with a connector and more of the same identifier.
func glues(s string) bool {
	if len(s) < 2 || s[0] != '_' && s[0] != '-' && s[0] != '.' {
		return false
	}
	s = strings.TrimLeft(s, "_-")
	if s != "" && s[0] == '.' {
		s = s[1:]
	}
	if s == "" {
		return false
	}
	r, _ := decode(s)
	return isWordRune(r) && !isUnspaced(r)
}

// run takes one run of letters and digits apart at its changes of case.
func (t *tokeniser) run(s string) {
	if i := strings.IndexAny(s, "'’"); i >= 0 {
		if end := s[i:]; end == "'s" || end == "’s" || end == "'S" || end == "’S" {
			s = s[:i]
		} else {
			s = strings.NewReplacer("'", "", "’", "").Replace(s)
		}
	}
	for s != "" {
		n, plural := partLength(s)
		part := s[:n]
		if plural {
			part = s[:n-1]
		}
		t.word(part)
		s = s[n:]
	}
}

// partLength returns the length of the first word of a run, and whether it is
// an acronym with a plural s, like "VMs".
func partLength(s string) (n int, plural bool) {
	last := classNone // of the character before i
	upper := 0        // length of the run of capitals before i
	for i := 0; i < len(s); {
		r, size := decode(s[i:])
		c := classOf(r)
		next := classAt(s[i+size:])
		switch {
		case c == classUpper && last == classLower:
			return i, false
		case c == classUpper && last == classDigit && next == classLower:
			return i, false
		case c == classLower && r == 's' && upper >= 2 && next != classLower && next != classDigit:
			return i + size, true
		case c == classUpper && last == classUpper && next == classLower && !isPluralS(s[i+size:]):
			return i, false
		}
		if c == classUpper {
			upper++
		} else {
			upper = 0
		}
		last = c
		i += size
	}
	return len(s), false
}

// isPluralS reports whether s goes on with an s that ends a word.
func isPluralS(s string) bool {
	if s[0] != 's' {
		return false
	}
	next := classAt(s[1:])
	return next == classNone || next == classUpper
}

type class uint8

const (
	classNone class = iota
	classLower
	classUpper
	classDigit
)

func classAt(s string) class {
	if s == "" {
		return classNone
	}
	r, _ := decode(s)
	return classOf(r)
}

func classOf(r rune) class {
	switch {
	case r >= 'a' && r <= 'z':
		return classLower
	case r >= 'A' && r <= 'Z':
		return classUpper
	case r >= '0' && r <= '9':
		return classDigit
	case r < utf8.RuneSelf:
		return classNone
	case unicode.IsUpper(r) || unicode.IsTitle(r):
		return classUpper
	case unicode.IsDigit(r):
		return classDigit
	}
	return classLower
}

// word adds one word, and its letters and digits where it mixes them.
func (t *tokeniser) word(s string) {
	w := fold(s)
	if w == "" || len(w) > maxWord {
		return
	}
	t.out = append(t.out, token{w, kindWord, len(t.out) > t.first})
	if !strings.ContainsAny(w, "0123456789") {
		return
	}
	for i := 0; i < len(w); {
		digit := w[i] >= '0' && w[i] <= '9'
		end := i
		for end < len(w) && (w[end] >= '0' && w[end] <= '9') == digit {
			end++
		}
		if end-i >= 3 && end-i < len(w) {
			t.out = append(t.out, token{w[i:end], kindPiece, true})
		}
		i = end
	}
}

// endIdentifier adds the joined forms of the identifier that ends here.
func (t *tokeniser) endIdentifier() {
	words := t.out[t.first:]
	previous := ""
	for _, w := range words {
		if w.kind != kindWord {
			continue
		}
		if previous != "" && len(previous)+len(w.text) <= maxWord && !(isNumber(previous) && isNumber(w.text)) {
			t.out = append(t.out, token{previous + w.text, kindJoined, true})
		}
		previous = w.text
	}
	t.first = len(t.out)
}

func isNumber(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// unspaced adds the bigrams of the run of unspaced script that s begins with,
// and returns the run's length.
func (t *tokeniser) unspaced(s string) int {
	var previous string
	n, runes := 0, 0
	for n < len(s) {
		r, size := decode(s[n:])
		if !isUnspaced(r) && !unicode.IsMark(r) {
			break
		}
		c := s[n : n+size]
		if runes > 0 {
			t.out = append(t.out, token{fold(previous + c), kindWord, runes > 1})
		}
		previous = c
		runes++
		n += size
	}
	if runes == 1 {
		t.out = append(t.out, token{fold(previous), kindWord, false})
	}
	return n
}
