package embedded

import (
	"strings"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"
)

// stem returns the form under which a folded word is indexed: its Porter2 stem
// if it is written in a-z, itself if not.
func stem(word string) string {
	if len(word) < 3 || !isPlain(word) {
		return word
	}
	if s, ok := acronymSingular(word); ok {
		return s
	}
	env := snowballstem.NewEnv(word)
	english.Stem(env)
	return env.Current()
}

// acronymSingular takes the plural s off an acronym ("vms", "pdfs", "gpus"),
// which Porter2 leaves on words whose vowels don't look like a syllable. What
// is no plural ("dns") loses its s too, in queries as in the index.
func acronymSingular(word string) (string, bool) {
	body, ok := strings.CutSuffix(word, "s")
	if !ok || strings.HasSuffix(body, "s") {
		return "", false
	}
	consonants := strings.TrimSuffix(body, "u")
	if len(consonants) < 2 || strings.ContainsAny(consonants, "aeiouy") {
		return "", false
	}
	return body, true
}

// isPlain reports whether word has no letters but a-z.
func isPlain(word string) bool {
	for i := range len(word) {
		if word[i] < 'a' || word[i] > 'z' {
			return false
		}
	}
	return true
}
