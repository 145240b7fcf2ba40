package telemetry

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// fold makes the report of a run from its events, in the order of the stream. An event that comes twice counts once.
func fold(id contracts.RunID, lines []contracts.LogLine) (contracts.Report, error) {
	f := folder{
		report: contracts.Report{
			Run: id, Searches: []contracts.ReportSearch{}, Describes: []contracts.ToolID{}, Calls: []contracts.ReportCall{}, Bodies: []contracts.ReportBody{},
			BySource: map[contracts.SourceKind]contracts.SourceUsage{},
		},
		calls: map[contracts.CallID]int{}, bodies: map[contracts.BodyID]int{}, seen: map[string]bool{},
	}
	for _, l := range lines {
		if err := f.add(l); err != nil {
			return contracts.Report{}, err
		}
	}
	for _, c := range f.report.Calls {
		u := f.report.BySource[c.Source]
		u.Calls++
		f.report.BySource[c.Source] = u
	}
	delete(f.report.BySource, "") // calls of tools that do not exist
	return f.report, nil
}

type folder struct {
	report contracts.Report
	calls  map[contracts.CallID]int // position in report.Calls
	bodies map[contracts.BodyID]int // position in report.Bodies
	hits   [][]contracts.ToolID     // of each of report.Searches
	seen   map[string]bool          // events by type and id
}

// once reports whether this is the first time that the event is met.
func (f *folder) once(l contracts.LogLine) bool {
	key := l.Type + " " + l.ID
	first := !f.seen[key]
	f.seen[key] = true
	return first
}

func (f *folder) add(l contracts.LogLine) error {
	if l.Type != "run.revised" && !f.once(l) {
		return nil
	}
	r := &f.report
	switch l.Type {
	case "run.requested":
		return with(l, func(e contracts.RunRequested) { r.State, r.Opened = contracts.RunStateRequested, e.At })
	case "run.planned":
		return with(l, f.planned)
	case "run.revised":
		return with(l, func(e contracts.RunRevised) { r.Catalogue = e.Catalogue })
	case "run.failed":
		return with(l, func(e contracts.RunFailed) { r.State, r.Ended = contracts.RunStateFailed, e.At })
	case "run.closed":
		return with(l, func(e contracts.RunClosed) { r.State, r.Ended = contracts.RunStateClosed, e.At })
	case "search":
		return with(l, f.searched)
	case "describe":
		return with(l, func(e contracts.Described) { r.Describes = append(r.Describes, e.Tool) })
	case "call.requested":
		return with(l, func(e contracts.CallRequested) { f.call(e.Call).Tool = e.Tool })
	case "call.waiting":
		return with(l, func(e contracts.CallWaiting) { f.resolved(f.call(e.Call), e.Tool) })
	case "call.running":
		return with(l, func(e contracts.CallRunning) { f.resolved(f.call(e.Call), e.Tool) })
	case "call.finished":
		return with(l, f.finished)
	case "body.requested":
		return with(l, func(e contracts.BodyRequested) { f.body(e.Body) })
	case "body.finished":
		return with(l, f.bodyFinished)
	}
	return nil // a type that is newer than this code
}

func with[E any](l contracts.LogLine, do func(E)) error {
	var e E
	if err := json.Unmarshal(l.Event, &e); err != nil {
		return fmt.Errorf("event %s at %d: %w", l.Type, l.Seq, err)
	}
	do(e)
	return nil
}

func (f *folder) planned(e contracts.RunPlanned) {
	r := &f.report
	r.State, r.Surface, r.Catalogue, r.Decision = contracts.RunStatePlanned, e.Plan.Surface, e.Plan.Catalogue, e.Plan.Decision
	r.Seen, r.Direct = e.Plan.Seen, e.Plan.Direct
	r.Saved = contracts.Cost{
		Bytes:  r.Direct.Bytes - r.Seen.ToolBytes - r.Seen.PromptBytes,
		Tokens: r.Direct.Tokens - r.Seen.Tokens,
	}
	for kind, n := range e.Plan.Catalogue.Sources {
		cost := e.Plan.BySource[kind]
		r.BySource[kind] = contracts.SourceUsage{Tools: n, Bytes: cost.Bytes, Tokens: cost.Tokens}
	}
}

func (f *folder) searched(e contracts.Searched) {
	f.report.Searches = append(f.report.Searches, contracts.ReportSearch{
		Query: e.Query, Hits: len(e.Hits), Total: e.Total, Ms: float64(e.Micros) / 1000,
	})
	f.hits = append(f.hits, e.Hits)
}

func (f *folder) call(id contracts.CallID) *contracts.ReportCall {
	i, ok := f.calls[id]
	if !ok {
		i = len(f.report.Calls)
		f.calls[id] = i
		f.report.Calls = append(f.report.Calls, contracts.ReportCall{CallID: id})
	}
	return &f.report.Calls[i]
}

func (f *folder) body(id contracts.BodyID) *contracts.ReportBody {
	i, ok := f.bodies[id]
	if !ok {
		i = len(f.report.Bodies)
		f.bodies[id] = i
		f.report.Bodies = append(f.report.Bodies, contracts.ReportBody{BodyID: id, Running: true})
	}
	return &f.report.Bodies[i]
}

func (f *folder) bodyFinished(e contracts.BodyFinished) {
	*f.body(e.Body) = contracts.ReportBody{
		BodyID: e.Body, OK: e.OK, Code: e.Code, Refused: e.Refused,
		Searches: e.Searches, Describes: e.Describes, Calls: e.Calls, Ms: e.DurationMs,
	}
}

// resolved notes the tool of a call, and at the latest search that had it among its hits and led to no call yet, its rank.
func (f *folder) resolved(c *contracts.ReportCall, t contracts.ToolRef) {
	if c.Source != "" {
		return
	}
	c.Tool, c.Source = string(t.ID), t.Source
	for i := len(f.hits) - 1; i >= 0; i-- {
		s := &f.report.Searches[i]
		if rank := slices.Index(f.hits[i], t.ID); rank >= 0 && s.CalledRank == 0 {
			s.CalledRank = rank + 1
			return
		}
	}
}

func (f *folder) finished(e contracts.CallFinished) {
	c := f.call(e.Call)
	if e.Tool != nil {
		f.resolved(c, *e.Tool)
	} else if c.Tool == "" {
		c.Tool = e.Name
	}
	c.Status, c.Code, c.Ms = e.Status, e.Code, e.DurationMs
}
