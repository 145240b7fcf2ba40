package openapi

import (
	"crypto/sha256"
	"strings"
)

// longestName is the most bytes of a tool's name, of an argument and of a definition.
const longestName = 64

// word makes a word of letters, digits, '_', '-' and '.' of a text: runs of anything else become one '_'. It is "" where nothing is left.
func word(s string, longest int) string {
	var b strings.Builder
	gap := false
	for _, r := range s {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' || r == '.' {
			if gap && b.Len() > 0 {
				b.WriteByte('_')
			}
			gap = false
			b.WriteRune(r)
			continue
		}
		gap = true
	}
	out := b.String()
	return out[:min(len(out), longest)]
}

// hashAlphabet has no vowels, so that a hash is no word.
const hashAlphabet = "0123456789bcdfghjklmnpqrstvwxyz"

// hash returns a short word that depends on nothing but s.
func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	b := make([]byte, 6)
	for i := range b {
		b[i] = hashAlphabet[int(sum[i])%len(hashAlphabet)]
	}
	return string(b)
}

// hashed returns a name with a hash of what it stands for.
func hashed(name, of string) string {
	h := hash(of)
	return name[:min(len(name), longestName-1-len(h))] + "_" + h
}

// baseName is what an operation is known by: its id or, where it has none, a name made of method and path.
func baseName(id, method, path string) string {
	if id != "" {
		return id
	}
	return strings.TrimSuffix(strings.ToLower(method)+"_"+word(path, 1<<10), "_")
}

// stem returns the word that the operation's name begins with, of at most so many bytes.
func (o *operation) stem(longest int) string {
	if w := word(o.base, longest); w != "" {
		return w
	}
	return word(baseName("", o.method, o.path), longest)
}

// nameAll gives each operation the name of its tool. Those whose names would be the same or are too long get a hash of method and path;
// a name that the configuration gives is left as it is.
func nameAll(all []*operation, renames map[string]string) {
	given := map[string]int{}
	for _, o := range all {
		if o.name = renames[o.id]; o.id == "" || o.name == "" {
			o.name = renames[o.method+" "+o.path]
		}
		if o.name != "" {
			given[o.name]++
		}
	}
	natural := map[string]int{}
	for _, o := range all {
		if o.name == "" {
			natural[strings.ToLower(o.stem(longestName))]++
		}
	}
	for _, o := range all {
		if o.name != "" {
			continue
		}
		name := o.stem(longestName)
		if len(o.stem(longestName+1)) > longestName || natural[strings.ToLower(name)] > 1 || given[name] > 0 {
			name = hashed(name, o.method+" "+o.path)
		}
		o.name = name
	}
}
