package embedded

// action is a set of the things that a tool does or that a query wants done.
type action uint8

const (
	actionRead action = 1 << iota
	actionCreate
	actionUpdate
	actionDelete
)

// actionsByStem are the words that name an action, by their stems.
var actionsByStem = actionWords(map[action]string{
	actionRead: `get list show find search retrieve fetch view read describe display lookup query check count browse
		inspect see what which who how where when many`,
	actionCreate: "create add new make insert generate deploy provision register build",
	actionUpdate: "update edit modify change set patch rename replace configure enable disable",
	actionDelete: "delete remove erase drop destroy clear purge uninstall revoke",
})

func actionWords(lists map[action]string) map[string]action {
	m := map[string]action{}
	for a, words := range lists {
		for w := range set(words) {
			m[stem(w)] |= a
		}
	}
	return m
}

// actionOfName returns what a tool does by the tokens of its name: by the
// first word, the last, or the first of the others that says it.
func actionOfName(name []token) action {
	var first, last, any action
	words := 0
	for _, t := range name {
		if t.kind != kindWord {
			continue
		}
		last = actionsByStem[stem(t.text)]
		if words == 0 {
			first = last
		}
		if any == 0 {
			any = last
		}
		words++
	}
	switch {
	case first != 0:
		return first
	case last != 0:
		return last
	}
	return any
}

// actionsOfQuery returns what a query wants done.
func actionsOfQuery(words []queryWord) action {
	var a action
	for i := range words {
		a |= actionsByStem[stem(words[i].text)]
	}
	return a
}
