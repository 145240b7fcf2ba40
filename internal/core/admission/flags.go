package admission

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolcrib/toolcrib/internal/core/names"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// RuleHidden flags characters that show nothing, or private ones, of which a person who reads the text knows nothing.
const RuleHidden = "hidden-characters"

const (
	mostFlags = 20 // of one tool
	around    = 50 // bytes of an excerpt before and after what was found
)

// A rule flags texts that speak to the model in place of describing a tool.
type rule struct {
	name  string
	needs [][]string     // of each, a text that the rule is for holds one: that is looked for first, as it is cheap
	text  *regexp.Regexp // over text on one line, in lower case
}

func (r *rule) find(line string) []int {
	for _, any := range r.needs {
		if !slices.ContainsFunc(any, func(word string) bool { return strings.Contains(line, word) }) {
			return nil
		}
	}
	return r.text.FindStringIndex(line)
}

// rules returns the rules. They look for what an attack needs to say and a description does not: false alarms make people admit without looking.
func rules() []rule {
	of := func(name string, needs [][]string, parts ...string) rule {
		return rule{name, needs, regexp.MustCompile(strings.Join(parts, ""))}
	}
	const gap = `[^.!?]{0,40}?\b`
	return []rule{
		of("override", [][]string{{"ignore", "disregard", "forget", "override", "bypass"}, {"instruction", "prompt", "directive", "guideline", "safety", "guardrail"}},
			`\b(ignore|disregard|forget|override|bypass)\b`, gap, `(previous|prior|preceding|earlier|above|existing|other|all|any|your|system)\b`, gap,
			`(instructions?|prompts?|directives?|guidelines|safety (rules|checks)|guardrails)\b`),
		of("secrecy", [][]string{{"not ", "don't", "never", "without", "avoid"}, {"tell", "inform", "notify", "alert", "mention", "reveal", "disclos"}, {"user", "human", "operator"}},
			`\b(do not|don't|never|must not|should not|without|avoid) (ever |even |directly |explicitly )?`,
			`((tell|inform|notify|alert)(ing|ying)? (the |your |any )?|(mention|reveal|disclos)(e|ing)? [^.!?]{0,60}?\bto (the |your |any )?)(user|human|operator)s?\b`),
		of("pseudo-markup", [][]string{{"<", "["}}, `<\s*/?\s*(important|system|hidden|instructions?|im_start|im_end)\b[^<>]{0,40}>|<\|[a-z_]{2,20}\|>|\[/?inst\]`),
		of("secret-files", [][]string{{"~/.", "id_rsa", "id_ed25519", "/etc/", "mcp.json", ".git-credentials", ".aws/"}},
			`\b(read|open|cat|load|fetch|copy|include|send|attach|upload|access)\b[^!?]{0,60}?`,
			`(~/\.ssh(/(id_[a-z0-9]+|config|known_hosts|authorized_keys))?(\.?(\s|$)|[^.\w/])|~/\.(aws|gnupg|kube|netrc|cursor|claude|config/gcloud)\b|`,
			`\bid_(rsa|ed25519)(\.?(\s|$)|[^.\w])|/etc/(passwd|shadow)\b|\bmcp\.json\b|\.git-credentials\b|\.aws/credentials\b)`),
		of("exfiltration", [][]string{{"key", "password", "credential", "secret", "token", "environment", "prompt", "conversation", "chat", "message"}, {"parameter", "argument", "field", "input", "property"}},
			`\b(put|pass|include|send|insert|append|attach|copy|place|add|forward|provide|write)\b`, gap,
			`(api keys?|passwords?|private keys?|ssh keys?|credentials|secrets|access tokens?|environment variables|system prompt|(entire|full|whole|complete) (conversation|chat|message) ?(history|context|log|transcript)?)\b`,
			`[^.!?]{0,60}?\b(in|into|as|inside|within) (the|this|a|its|an) ['"`+"`"+`]?\w{1,40}['"`+"`"+`]? (parameter|argument|field|input|property)\b`),
		of("hijack", [][]string{{" tool"}, {"send", "forward", "upload", "post", "mail", "bcc", "exfiltrate"}, {"conversation", "chat", "history", "key", "secret", "credential", "password"}},
			`\b(before|prior to|when|whenever|every time|each time|after)\b`, gap, `(using|calling|invoking|use|call|run|running) (this|any|another|any other|all other|other) tools?\b[^!?]{0,80}?`,
			`\b(send|forward|upload|post|e-?mail|bcc|exfiltrate)\b[^!?]{0,60}?\b(conversation|chat|history|keys?|secrets?|credentials|passwords?)\b`),
	}
}

// A Scanner flags suspicious texts of tools. Safe for concurrent use.
type Scanner struct{ rules []rule }

// NewScanner returns a Scanner with all rules.
func NewScanner() *Scanner { return &Scanner{rules()} }

// Flags returns what is suspicious about the name, title, description and the texts of the schemas of t, up to 20 flags in that order.
func (s *Scanner) Flags(t *contracts.Tool) []contracts.Flag {
	var found []contracts.Flag
	look := func(text string, place func() string) {
		for _, f := range s.text(text) {
			f.Place = names.Escape(place())
			found = append(found, f)
		}
	}
	look(t.Name, func() string { return "/name" })
	look(t.Title, func() string { return "/title" })
	look(t.Description, func() string { return "/description" })
	for _, of := range []struct {
		member string
		schema json.RawMessage
	}{{"/inputSchema", t.InputSchema}, {"/outputSchema", t.OutputSchema}} {
		texts(of.schema, func(text string, pointer func() string) bool {
			look(text, func() string { return of.member + pointer() })
			return len(found) < mostFlags
		})
	}
	return found[:min(len(found), mostFlags)]
}

// texts calls f with every text in raw, names of members among them, and what tells where it is, until f returns false.
func texts(raw json.RawMessage, f func(text string, pointer func() string) bool) {
	d := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		t, err := d.ReadToken()
		if err != nil { // the end, or no JSON, which is in no listing
			return
		}
		if t.Kind() == '"' && !f(t.String(), func() string { return string(d.StackPointer()) }) {
			return
		}
	}
}

// text returns the flags of a text, without its place.
func (s *Scanner) text(text string) (found []contracts.Flag) {
	if i := hiddenIn(text); i >= 0 {
		found = append(found, contracts.Flag{Rule: RuleHidden, Excerpt: excerpt(text, i, i+1)})
	}
	if len(text) < shortest {
		return found
	}
	line := strings.ToLower(strings.Join(strings.Fields(names.Text(text)), " "))
	for _, r := range s.rules {
		if at := r.find(line); at != nil {
			found = append(found, contracts.Flag{Rule: r.name, Excerpt: excerpt(line, at[0], at[1])})
		}
	}
	return found
}

// shortest is the length of the shortest text that the rules can be about.
const shortest = 6

// excerpt returns the text from begin to end with some of what stands around it.
func excerpt(text string, begin, end int) string {
	from, to := max(0, begin-around), min(len(text), end+around)
	cut := strings.ToValidUTF8(text[from:to], "")
	if from > 0 {
		cut = "…" + cut
	}
	if to < len(text) {
		cut += "…"
	}
	return names.Cut(names.Escape(cut), 4*around)
}

// hiddenIn returns where the first character is that hides something; -1 where there is none. Joiners within emoji and words of scripts
// that need them, and the selectors that follow a symbol, are what they are for.
func hiddenIn(text string) int {
	var before rune
	for i, r := range text {
		switch {
		case r < 0x80 && (r >= ' ' && r != 0x7f || r == '\n' || r == '\t' || r == '\r'):
		case r == 0x200c || r == 0x200d || r == 0xfe0e || r == 0xfe0f:
			if !joins(before) {
				return i
			}
		case r == 0xad, r == 0xfeff && i == 0: // a soft hyphen, and the mark at the beginning of a file
		case names.Escape(string(r)) != string(r):
			return i
		}
		if r != 0xfe0f {
			before = r
		}
	}
	return -1
}

// joins reports whether a joiner or selector may follow r.
func joins(r rune) bool {
	return r >= 0x80 && !unicode.Is(unicode.Latin, r) && unicode.In(r, unicode.L, unicode.M, unicode.So, unicode.Sk, unicode.Sm, unicode.Po, unicode.No) ||
		r >= '0' && r <= '9' || r == '#' || r == '*' // of a keycap
}
