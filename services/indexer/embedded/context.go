package embedded

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// queryContext follows sentences and quotation marks through a query, whose
// parts between spaces it is given one by one.
type queryContext struct {
	begins  bool // the next part begins a sentence
	framing bool // the part weighed last is in a sentence about the asker
	quote   rune // the quotation mark that is open, 0 for none
}

// weigh returns what the words of a part count.
func (c *queryContext) weigh(part string) float64 {
	if c.begins {
		c.framing = beginsFraming(part)
	}
	c.begins = strings.HasSuffix(part, ".") || strings.HasSuffix(part, "!") || strings.HasSuffix(part, "?")
	quoted := c.quoted(part)
	switch {
	case isLiteral(part):
		return literalWeight
	case quoted:
		return quotedWeight
	}
	return 1
}

// beginsFraming reports whether a sentence that begins with word tells about
// the asker ("I'm planning a party") rather than what is asked for.
func beginsFraming(word string) bool {
	switch fold(strings.NewReplacer("'", "", "’", "", ",", "").Replace(word)) {
	case "i", "im", "ive", "my", "we", "were", "our", "as":
		return true
	}
	return false
}

// quoted reports whether a part is in quotation marks.
func (c *queryContext) quoted(part string) bool {
	s := strings.TrimLeft(part, "(<[")
	if c.quote == 0 {
		first, n := utf8.DecodeRuneInString(s)
		switch first {
		case '\'', '"', '`', '‘', '“':
			c.quote = first
			s = s[n:]
		default:
			return false
		}
	}
	switch last, _ := utf8.DecodeLastRuneInString(strings.TrimRight(s, ".,;:!?)>]")); {
	case last == c.quote, c.quote == '‘' && last == '’', c.quote == '“' && last == '”':
		c.quote = 0
	}
	return true
}

// isLiteral reports whether a part of a query is most likely an argument for
// the tool rather than a word about it: a path, an address, a selector.
func isLiteral(part string) bool {
	part = strings.Trim(part, ".,;:!?()'\"`")
	switch {
	case strings.Contains(part, "://"):
		return true
	case strings.LastIndexByte(part, '@') > 0:
		return true
	case strings.HasPrefix(part, "/"), strings.HasPrefix(part, "~/"), strings.HasPrefix(part, "#"):
		return true
	}
	slashes := strings.Count(part, "/")
	return slashes >= 2 || slashes == 1 && strings.ContainsAny(part, "._")
}

func startsUpper(part string) bool {
	r, _ := utf8.DecodeRuneInString(part)
	return unicode.IsUpper(r)
}
