package embedded

import "strings"

// isStopWord reports whether a folded word says nothing about which tool is
// meant. Stop words are neither indexed nor asked for; as parts of joined forms
// ("to do", "youtube") they count.
func isStopWord(word string) bool {
	_, ok := stopWords[word]
	return ok
}

// isFiller reports whether a folded word of a query says nothing about which
// tool is meant, though it may in the text of a tool.
func isFiller(word string) bool {
	_, ok := fillers[word]
	return ok
}

var stopWords = set(`
a an the this that these those there here
i me my mine myself we us our ours ourselves you your yours yourself he him his she her hers it its itself they them their theirs
im ive id ill youre youve weve were theyre thats whats heres lets dont doesnt didnt isnt arent wasnt cant couldnt wont wouldnt shouldnt havent hasnt
am is are was be been being do does did doing done have has had having will would shall should can could may might must
and or but nor so yet if then than because as while until unless although though whether
of at by for with about against between into through during before after above below to from in out on off over under within without upon onto per via
what which who whom whose when where why how
all any both each few more most other others some such no not only own same too very just also ever even still again already
please thanks thank ok okay hi hello hey yes
s t d ll m re ve
`)

var fillers = set(`
want wants wanted need needs needed like love wish hope interested looking look looks help helps
tell give gives gave let know knows
provide provides provided additionally furthermore moreover lastly finally
assist possible able currently using use
something anything someone anyone everything thing things stuff
really maybe perhaps kindly actually exactly especially preferably ideally currently
nobody everybody somebody anybody nothing somewhere anywhere
said says say saying rid lot lots
two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty fifty hundred thousand dozen
seventh eighth ninth tenth
today tonight tomorrow yesterday morning afternoon evening
tuesday wednesday thursday friday saturday sunday
im going gonna wanna gotta
de la el los las un una que en y por para con del al es su le les des du et est une pour dans sur avec
der das und ein eine mit auf fur von zu den dem ist ich il di che da em nao uma mi mis
`)

func set(words string) map[string]struct{} {
	m := map[string]struct{}{}
	for _, w := range strings.Fields(words) {
		m[w] = struct{}{}
	}
	return m
}
