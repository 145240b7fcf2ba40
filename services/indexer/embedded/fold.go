package embedded

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// compose brings text into the form that is split into words: characters in
// their composed compatibility form, invisible ones removed. Case is kept,
// because it tells where the words of an identifier begin.
func compose(text string) string {
	if isASCII(text) {
		return text
	}
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) { // zero-width, soft hyphen, direction marks
			return -1
		}
		return r
	}, norm.NFKC.String(text))
}

// fold brings one word into the form in which words are compared: lower case
// and without diacritics, so that "Đà Nẵng" and "da nang" are equal.
func fold(word string) string {
	if isASCII(word) {
		return strings.ToLower(word)
	}
	var b strings.Builder
	for _, r := range norm.NFKD.String(strings.ToLower(word)) {
		switch {
		case isDiacritic(r):
		case r < utf8.RuneSelf:
			b.WriteByte(byte(r))
		default:
			if s, ok := plainLetter(r); ok {
				b.WriteString(s)
			} else {
				b.WriteRune(r)
			}
		}
	}
	return norm.NFC.String(b.String()) // puts Hangul and kana together again
}

// isDiacritic reports whether r is a mark that readers of its script leave out
// freely. The vowel signs of Indic scripts and the marks of kana are none.
func isDiacritic(r rune) bool {
	switch {
	case r >= 0x0300 && r <= 0x036f: // Latin, Greek, Cyrillic
		return true
	case r >= 0x0591 && r <= 0x05c7: // Hebrew points
		return unicode.Is(unicode.Mn, r)
	case r >= 0x064b && r <= 0x065f, r == 0x0670, r == 0x0640: // Arabic vowels, tatweel
		return true
	}
	return false
}

// plainLetter returns the plain spelling of letters that have no decomposition.
func plainLetter(r rune) (string, bool) {
	switch r {
	case 'đ', 'ð':
		return "d", true
	case 'ø':
		return "o", true
	case 'ł':
		return "l", true
	case 'ħ':
		return "h", true
	case 'ı':
		return "i", true
	case 'ŧ':
		return "t", true
	case 'ß':
		return "ss", true
	case 'æ':
		return "ae", true
	case 'œ':
		return "oe", true
	case 'þ':
		return "th", true
	case 'ς':
		return "σ", true
	}
	return "", false
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
