package embedded

import "strings"

// synonymGroups are words that may stand for one another in requests to tools,
// a group a line. Kept to tools and what people do with them: every word here
// brings in tools that do not hold the word that was asked for.
const synonymGroups = `
create add new make insert generate
create build compose produce
create deploy provision
delete remove erase drop destroy
delete clear purge trash discard
update edit modify change set patch
update adjust alter revise
list show get find search retrieve fetch view read display browse lookup query
send post deliver
send submit publish share
run execute invoke trigger start launch
stop cancel abort terminate kill halt
rerun retry restart repeat redo
reboot restart reset cycle
pause suspend mute silence snooze
resume continue unpause
copy duplicate clone replicate fork
move transfer migrate relocate
upload attach import load
download export save
schedule plan book reserve
enable activate
disable deactivate
install setup deploy
connect link join
convert transform
compare diff difference
merge combine
check verify validate test
approve accept confirm
reject deny decline
assign allocate delegate
subscribe follow watch monitor track
sort order rank
count number total
sum add total
calculate compute evaluate
analyze analyse inspect examine
summarize summarise summary overview digest
explain describe
draw plot chart graph visualize diagram
take capture screenshot
click press tap
type enter fill input
navigate open visit
buy purchase order
pay payment charge
hide archive
undo revert rollback restore
message email mail
message chat dm
sms text
meeting event appointment calendar
issue ticket bug
task todo
reminder alarm
repository repo
picture image photo
folder directory
document doc file
spreadsheet sheet excel workbook
row record entry
column field
slide presentation deck powerpoint
user person people member account
employee staff worker
team group
role permission access
company organization organisation business
customer client contact
price cost quote fee
money currency
website page url site web webpage
weather forecast temperature rain
movie film
song music track
news article headline
map location place address
route direction navigation
flight plane airline
hotel accommodation lodging
restaurant food dining
recipe cooking
stock share equity
crypto bitcoin coin
database db sql
log logs trace
error failure exception crash
comment note reply
tag label
status state health
server machine vm instance droplet computer host
container pod docker
cluster kubernetes k8s
secret password credential
certificate cert ssl tls
deployment release rollout
build pipeline workflow job
dashboard board
alert notification
metric statistics stats
bucket storage
process cpu processor
memory ram
disk drive volume
device phone mobile
video clip
audio sound voice speech
car vehicle auto
house home property apartment
job career vacancy position
doctor physician
medicine drug
sport match game
country nation
city town
coordinates latitude longitude geocode
holiday vacation trip travel
invoice bill
discount coupon
flag toggle
`

// plainVerbs are verbs that mean the same wherever they stand, a meaning a line.
const plainVerbs = `
show list get retrieve fetch view display
create add make new
delete remove
update edit modify change set
`

// The stems of the other words of a word's lines, by its stem.
var (
	synonymsByStem   = byStem(synonymGroups)
	plainVerbsByStem = byStem(plainVerbs)
)

func byStem(groups string) map[string][]string {
	m := map[string][]string{}
	for line := range strings.Lines(groups) {
		words := strings.Fields(line)
		for _, w := range words {
			for _, other := range words {
				if s, o := stem(w), stem(other); s != o {
					m[s] = append(m[s], o)
				}
			}
		}
	}
	return m
}
