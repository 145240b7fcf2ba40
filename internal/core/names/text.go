package names

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns s without control characters (newline and tab stay), format
// characters such as bidirectional and zero-width ones and tags, line and
// paragraph separators, variation selectors and fillers. Invalid UTF-8 becomes
// U+FFFD. Text that is clean already is returned as it is.
func Text(s string) string {
	if clean(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for _, r := range s { // an invalid byte reads as U+FFFD
		if !hidden(r) {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func clean(s string) bool {
	for i, r := range s {
		if hidden(r) {
			return false
		}
		if r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD") {
			return false
		}
	}
	return true
}

// Escape returns s with the characters that [Text] removes, those of private use and bytes that are no UTF-8 written out, as in \u{200b}. Newlines and tabs stay.
func Escape(s string) string {
	if clean(s) && !strings.ContainsFunc(s, private) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case hidden(r) || private(r):
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func private(r rune) bool { return unicode.Is(unicode.Co, r) }

// hidden reports whether r shows nothing of its own and so could hide text or reorder it.
func hidden(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < 0x7f:
		return r < ' '
	case r < 0xa0:
		return true
	}
	return unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// Line returns what somebody outside said as one line of at most limit characters, see [Text] and [Cut].
func Line(s string, limit int) string {
	return Cut(strings.Join(strings.Fields(Text(s)), " "), limit)
}

// Cut returns s where it has at most limit characters. Else it returns the
// beginning of s and a mark that says how many characters are missing, together
// at most limit characters; where not even the mark has room, it is only "…" or,
// for a limit below 1, nothing. It never cuts within a character, nor between
// a letter and its combining marks.
func Cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	total := utf8.RuneCountInString(s)
	if total <= limit {
		return s
	}
	if limit < 1 {
		return ""
	}
	keep := limit
	for keep > 0 && keep+markLength(total-keep) > limit {
		keep--
	}
	if keep == 0 {
		return "…"
	}
	head, kept := first(s, keep)
	back := func() {
		_, n := utf8.DecodeLastRuneInString(head)
		head, kept = head[:len(head)-n], kept-1
	}
	for i := 0; i < mostMarks && kept > 1 && joins(s[len(head):]); i++ {
		back()
	}
	for kept > 0 && kept+markLength(total-kept) > limit { // stepping back can give the number one more digit
		back()
	}
	return head + mark(total-kept)
}

// mostMarks is how far Cut steps back to the beginning of a letter with its marks.
const mostMarks = 16

func mark(missing int) string {
	return " … [cut, " + strconv.Itoa(missing) + " characters more]"
}

func markLength(missing int) int { return utf8.RuneCountInString(mark(missing)) }

// joins reports whether s begins with a mark that belongs to the character before it.
func joins(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.Is(unicode.M, r)
}

// first returns the first n characters of s, and how many these are.
func first(s string, n int) (string, int) {
	count := 0
	for i := range s {
		if count == n {
			return s[:i], count
		}
		count++
	}
	return s, count
}
