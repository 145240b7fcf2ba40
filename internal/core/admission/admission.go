// Package admission compares what a source offers with what was admitted of it. A tool is admitted at first
// sight; one that is something else later is taken, noted or held back, by the tenant's setting, until an operator
// admits it. The package also flags suspicious texts of tools, and shows people what changed.
//
// It decides nothing of its own and keeps no record: the executor does, which owns the sources.
package admission

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// mostGone bounds the tools of a source that it does not offer any more and that are still remembered. Beyond it those that left
// first are forgotten, held ones last.
const mostGone = 10_000

// Known is what is known of a source. The zero value is that of one never seen.
type Known struct {
	Listing *contracts.Listing // nil before the first
	Remarks contracts.Admissions
}

// Offered returns the newest listing as the source offered it, with the tools in quarantine. It is not to be changed.
func (k Known) Offered() *contracts.Listing {
	if k.Listing == nil {
		return &contracts.Listing{}
	}
	l := *k.Listing
	l.Tools, l.Quarantined = slices.Clone(l.Tools), nil
	for _, r := range k.Remarks.Tools {
		if r.Offered != nil {
			l.Tools = append(l.Tools, *r.Offered)
		}
	}
	slices.SortFunc(l.Tools, byID)
	return &l
}

func byID(a, b contracts.Tool) int { return cmp.Compare(a.ID, b.ID) }

// A Standing is how one tool stands.
type Standing struct {
	Remark   contracts.Admission // the zero value where there is nothing to say
	Offered  *contracts.Tool     // what the source offered when it was Standing last, nil where it did not offer the tool
	Admitted *contracts.Tool     // what was admitted, nil where nothing was
}

// Standings returns the tools that the source offered when it was Standing last, sorted by id.
func (k Known) Standings() []Standing {
	all := slices.Collect(maps.Values(k.standings()))
	all = slices.DeleteFunc(all, func(s Standing) bool { return s.Offered == nil })
	slices.SortFunc(all, func(a, b Standing) int { return byID(*a.Offered, *b.Offered) })
	return all
}

func (k Known) standings() map[contracts.ToolID]Standing {
	all := map[contracts.ToolID]Standing{}
	for _, r := range k.Remarks.Tools {
		all[r.Tool] = Standing{r, r.Offered, r.Admitted}
	}
	if k.Listing == nil {
		return all
	}
	for i := range k.Listing.Tools {
		t := &k.Listing.Tools[i]
		s := all[t.ID]
		s.Offered = t
		if s.Admitted == nil {
			s.Admitted = t
		}
		all[t.ID] = s
	}
	return all
}

// A Review is what becomes of a listing.
type Review struct {
	Known                           // from now on; Known.Listing is the one that runs may use
	News  []contracts.ToolNews      // by tool; what was known before is none
	Count contracts.SourceAdmission // its numbers
}

// Compare reviews what the source offers at now, a listing that is sorted by id. flags returns the flags of a tool; nil flags nothing.
func (k Known) Compare(mode contracts.AdmissionMode, offered *contracts.Listing, flags func(*contracts.Tool) []contracts.Flag, now time.Time) Review {
	if flags == nil || mode == contracts.AdmissionOff {
		flags = func(*contracts.Tool) []contracts.Flag { return nil }
	}
	listing := *offered
	listing.Tools, listing.Quarantined = make([]contracts.Tool, 0, len(offered.Tools)), nil
	r := Review{Known: Known{Listing: &listing}}
	before := k.standings()
	for i := range offered.Tools {
		t := &offered.Tools[i]
		was, known := before[t.ID]
		delete(before, t.ID)
		a := judge(mode, was, known, k.Listing != nil, t, flags(t))
		if was.still(&a, t) {
			a.Since = was.Remark.Since
		} else if a.Since = now; remarkable(&a) {
			r.News = append(r.News, news(&a, t))
		}
		if a.Offered != nil {
			listing.Quarantined = append(listing.Quarantined, t.ID)
		} else {
			listing.Tools = append(listing.Tools, *t)
		}
		r.note(a)
	}
	if mode == contracts.AdmissionOff {
		r.keep(before, now, func(s Standing) bool { return s.Remark.Held })
	} else {
		r.keep(before, now, func(s Standing) bool { return s.Remark.Held || s.Admitted != nil })
	}
	slices.SortFunc(r.Remarks.Tools, func(a, b contracts.Admission) int { return cmp.Compare(a.Tool, b.Tool) })
	return r
}

// still reports whether the tool stood like this before, as far as people are told.
func (s Standing) still(a *contracts.Admission, t *contracts.Tool) bool {
	return s.Offered != nil && s.Offered.Hash == t.Hash && s.Remark.State() == a.State() && len(s.Remark.Flags) > 0 == (len(a.Flags) > 0)
}

// remarkable reports whether there is something to say of the tool.
func remarkable(a *contracts.Admission) bool {
	return a.State() != contracts.ToolAdmitted || len(a.Flags) > 0
}

// judge says how the tool t stands. Its source is known where it was listed before, the tool where was says of it.
func judge(mode contracts.AdmissionMode, was Standing, known, source bool, t *contracts.Tool, flags []contracts.Flag) contracts.Admission {
	a := contracts.Admission{Tool: t.ID, Held: was.Remark.Held, By: was.Remark.By, New: was.Remark.New, Flags: flags}
	strict := mode == contracts.AdmissionQuarantine
	admitted := was.Admitted
	switch {
	case !known:
		a.New = source && mode != contracts.AdmissionOff
		if !strict || len(flags) == 0 {
			admitted = t
		}
	case admitted == nil && !strict, admitted != nil && same(admitted, t):
		admitted = t
	case admitted != nil && mode == contracts.AdmissionOff:
		admitted, a.New = t, false
	}
	changed := admitted != nil && admitted != t
	switch {
	case a.Held || strict && (changed || admitted == nil):
		a.Admitted, a.Offered = admitted, t
	case changed:
		a.Admitted = admitted
	}
	return a
}

// note keeps the remark where it says something.
func (r *Review) note(a contracts.Admission) {
	switch a.State() {
	case contracts.ToolNew:
		r.Count.New++
	case contracts.ToolChanged:
		r.Count.Changed++
	case contracts.ToolQuarantined:
		r.Count.Quarantined++
	}
	if len(a.Flags) > 0 {
		r.Count.Flagged++
	}
	if remarkable(&a) {
		r.Remarks.Tools = append(r.Remarks.Tools, a)
	}
}

// keep remembers tools that the source does not offer now, so that one that comes back is compared with what it was.
func (r *Review) keep(gone map[contracts.ToolID]Standing, now time.Time, worth func(Standing) bool) {
	var kept []contracts.Admission
	for id, s := range gone {
		if !worth(s) {
			continue
		}
		a := contracts.Admission{Tool: id, Admitted: s.Admitted, Held: s.Remark.Held, By: s.Remark.By, Gone: true, Since: now}
		if s.Remark.Gone {
			a.Since = s.Remark.Since
		}
		kept = append(kept, a)
	}
	slices.SortFunc(kept, func(a, b contracts.Admission) int {
		if a.Held != b.Held {
			return cmp.Compare(btoi(b.Held), btoi(a.Held))
		}
		return cmp.Or(b.Since.Compare(a.Since), cmp.Compare(a.Tool, b.Tool))
	})
	r.Remarks.Tools = append(r.Remarks.Tools, kept[:min(len(kept), mostGone)]...)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func news(a *contracts.Admission, t *contracts.Tool) contracts.ToolNews {
	n := contracts.ToolNews{Tool: t.ID, State: a.State(), Hash: t.Hash}
	if a.Admitted != nil && a.Admitted.Hash != t.Hash {
		n.Was = a.Admitted.Hash
	}
	for _, f := range a.Flags {
		if !slices.Contains(n.Flags, f.Rule) {
			n.Flags = append(n.Flags, f.Rule)
		}
	}
	return n
}

// Decide admits tools as they are offered, or puts them into quarantine, and returns what is known then, of which Compare makes a listing,
// and the tools as they are. A tool that is not offered is an error with [contracts.CodeNotFound], one whose hash is another one with
// [contracts.CodeConflict]; then nothing is decided.
func (k Known) Decide(q contracts.AdmitRequest) (Known, []contracts.ToolAt, error) {
	all := k.standings()
	decided := make([]contracts.ToolAt, 0, len(q.Tools))
	for _, want := range q.Tools {
		s := all[want.Tool]
		switch {
		case s.Offered == nil:
			return k, nil, contracts.Errorf(contracts.CodeNotFound, "the source offers no tool %q", string(want.Tool))
		case want.Hash != "" && want.Hash != s.Offered.Hash, want.Hash == "" && q.State == contracts.ToolAdmitted:
			return k, nil, contracts.Errorf(contracts.CodeConflict, "the hash of %s is now %s and not %q: look at the tool again", want.Tool, s.Offered.Hash, string(want.Hash))
		case q.State == contracts.ToolAdmitted:
			s.Remark = contracts.Admission{Tool: want.Tool, Admitted: s.Offered, Offered: s.Remark.Offered, Since: s.Remark.Since, Flags: s.Remark.Flags}
		default:
			s.Remark.Tool, s.Remark.Held, s.Remark.By = want.Tool, true, q.By
		}
		all[want.Tool] = s
		decided = append(decided, contracts.ToolAt{Tool: want.Tool, Hash: s.Offered.Hash})
	}
	k.Remarks = contracts.Admissions{}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if r := all[id].Remark; r.Tool != "" {
			k.Remarks.Tools = append(k.Remarks.Tools, r)
		}
	}
	return k, decided, nil
}

// same reports whether two tools say the same: the order of members in their schemas is no matter.
func same(a, b *contracts.Tool) bool {
	return a.Hash == b.Hash || string(plain(a)) == string(plain(b))
}

// plain returns what a source says of a tool with all members in the order of their names. Members of the same name all stay.
func plain(t *contracts.Tool) jsontext.Value {
	c := *t
	c.Hash, c.Bytes, c.Tokens, c.Loading = "", 0, 0, ""
	raw, err := json.Marshal(&c)
	if err != nil { // what is no JSON is in no listing
		return jsontext.Value(t.Hash)
	}
	return ordered(raw)
}

// ordered returns JSON with all members in the order of their names, as it is where it is no JSON. More options lay it out.
func ordered(raw []byte, more ...jsontext.Options) jsontext.Value {
	v := jsontext.Value(slices.Clone(raw))
	options := append([]jsontext.Options{jsontext.ReorderRawObjects(true), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}, more...)
	if err := v.Format(options...); err != nil {
		return jsontext.Value(raw)
	}
	return v
}
