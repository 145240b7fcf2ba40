package spans

import (
	"bytes"
	"unicode/utf8"
)

// Clean returns JSON in valid UTF-8 and without halves of surrogate pairs: U+FFFD takes their place. Where there is
// nothing to mend that is raw itself, and otherwise a copy.
func Clean(raw []byte) []byte {
	if !utf8.Valid(raw) {
		raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
	}
	out, copied := raw, false
	for i := 0; i < len(out); {
		n := bytes.IndexByte(out[i:], '\\')
		if n < 0 {
			break
		}
		i += n
		switch half := escapedRune(out[i:]); {
		case isHigh(half) && isLow(escapedRune(out[min(i+6, len(out)):])):
			i += 12
		case isHigh(half) || isLow(half):
			if !copied {
				out, copied = bytes.Clone(out), true
			}
			copy(out[i+2:], "fffd")
			i += 6
		default:
			i += 2
		}
	}
	return out
}

// escapedRune returns what \uXXXX at the beginning of b stands for, -1 for anything else.
func escapedRune(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	return hex(b[2])<<12 | hex(b[3])<<8 | hex(b[4])<<4 | hex(b[5])
}

// Deeper reports whether arrays and objects stand in each other more than n deep.
func Deeper(raw []byte, n int) bool {
	if bytes.Count(raw, []byte{'['})+bytes.Count(raw, []byte{'{'}) <= n {
		return false
	}
	open := 0
	for i := 0; i < len(raw); {
		switch raw[i] {
		case '"':
			i = quoted(raw, i)
			continue
		case '{', '[':
			if open++; open > n {
				return true
			}
		case '}', ']':
			open--
		}
		i++
	}
	return false
}

// quoted returns where the text in quotes ends that begins at i.
func quoted(raw []byte, i int) int {
	for i++; i < len(raw) && raw[i] != '"'; i++ {
		if raw[i] == '\\' {
			i++
		}
	}
	return min(i+1, len(raw))
}

// Compact appends JSON to dst without the space between its tokens, and says how deep its arrays and objects stand in each other.
func Compact(dst, raw []byte) (out []byte, depth int) {
	open := 0
	for i := 0; i < len(raw); {
		switch c := raw[i]; c {
		case ' ', '\t', '\n', '\r':
			i++
			continue
		case '"':
			end := quoted(raw, i)
			dst = append(dst, raw[i:end]...)
			i = end
			continue
		case '{', '[':
			open++
			depth = max(depth, open)
		case '}', ']':
			open--
		}
		dst = append(dst, raw[i])
		i++
	}
	return dst, depth
}
