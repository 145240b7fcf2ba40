// Package tokens counts tokens of o200k_base, the measure of everything a model
// is sent. It works offline. Other models' own counts differ by some percent; it is not for billing.
package tokens

import (
	"bytes"
	"encoding/json"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer"
)

const (
	// pieceBytes is about how much is counted at once.
	pieceBytes = 4 << 10
	// unbrokenBytes is how long a text without a good place to split may be.
	unbrokenBytes = 16 << 10
	// spaceBytes is how long a run of white space may be: the time to count one grows with its square.
	spaceBytes = 256
)

// codec loads the vocabulary, some 100 ms and 30 MB, at the first count.
var codec = sync.OnceValue(func() tokenizer.Codec {
	c, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		panic("tokens: the vocabulary is not built in: " + err.Error())
	}
	return c
})

// Count returns the number of tokens of s. Time grows with the length of s,
// about half a second for a megabyte, whatever s holds; the count of
// a run of white space over 256 bytes, or of a text over 16 KiB without any
// space, may be high by a token for each such length. Safe for concurrent use.
func Count(s string) int {
	total := 0
	for len(s) > 0 {
		n := split(s)
		total += count(s[:n])
		s = s[n:]
	}
	return total
}

func count(s string) int {
	n, err := codec().Count(s)
	if err != nil { // of the matching only, which has no time limit
		return len(s)
	}
	return n
}

// split returns where to end the first piece of s. No token spans a character
// that is no space and a space after it, so a split between these changes no count.
func split(s string) int {
	good, spaces := 0, 0
	for i, r := range s {
		switch {
		case !unicode.IsSpace(r):
			spaces = 0
		case r == ' ' && spaces == 0 && i > 0:
			good = i
			spaces = 1
		default:
			spaces += utf8.RuneLen(r)
		}
		switch {
		case i >= pieceBytes && good > 0:
			return good
		case spaces >= spaceBytes || i >= unbrokenBytes:
			return i + max(1, widthAt(s, i))
		}
	}
	return len(s)
}

func widthAt(s string, i int) int {
	_, n := utf8.DecodeRuneInString(s[i:])
	return n
}

// Definition measures a tool's definition as a model is sent it directly:
// {"name":…,"description":…,"inputSchema":…} as compact JSON. A schema that is
// no JSON is measured as the text that it is; an absent one as null.
func Definition(name, description string, schema json.RawMessage) (size, tokens int) {
	if len(schema) == 0 {
		schema = json.RawMessage("null")
	}
	var b bytes.Buffer
	b.WriteString(`{"name":`)
	appendJSON(&b, name)
	b.WriteString(`,"description":`)
	appendJSON(&b, description)
	b.WriteString(`,"inputSchema":`)
	before := b.Len()
	if err := json.Compact(&b, schema); err != nil {
		b.Truncate(before)
		b.Write(schema)
	}
	b.WriteByte('}')
	return b.Len(), Count(b.String())
}

// appendJSON writes s as a JSON string without escapes for HTML.
func appendJSON(b *bytes.Buffer, s string) {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s)         // a string always encodes
	b.Truncate(b.Len() - 1) // the newline
}
