package contracts

import (
	"encoding/json"
	"time"
)

// An Event is a fact that a service publishes to [StreamEvents].
type Event interface {
	// Subject returns where the event of tenant t goes.
	Subject(t TenantID) string
}

// A Note is an event that a record's change announces and that is still to be
// published. It stands in the record, so that the change and its event cannot come apart.
type Note struct {
	Subject string          `json:"subject"`
	MsgID   string          `json:"msgId"` // for the stream's de-duplication
	Trace   string          `json:"trace,omitempty"`
	Data    json.RawMessage `json:"data"`
}

// Outbox is embedded in a record that changes together with events.
type Outbox struct {
	Unsent []Note `json:"unsent,omitempty"`
}

// Notes returns the notes of the record, to be read and changed in place.
func (o *Outbox) Notes() *[]Note { return &o.Unsent }

// RunRequested asks for a run to be planned.
type RunRequested struct {
	At      time.Time  `json:"at"`
	Run     RunID      `json:"run"`
	Request RunRequest `json:"request"`
}

// RunPlanned says that a run can be used.
type RunPlanned struct {
	At   time.Time `json:"at"`
	Run  RunID     `json:"run"`
	Plan Plan      `json:"plan"`
	Ms   int64     `json:"ms"` // from the request
}

// RunRevised says that a run's catalogue has a new revision.
type RunRevised struct {
	At        time.Time    `json:"at"`
	Run       RunID        `json:"run"`
	Catalogue CatalogueRef `json:"catalogue"`
	// CatalogueBlob names the [Catalogue] in [StoreCatalogues]. Not for callers.
	CatalogueBlob Hash           `json:"catalogueBlob"`
	Pending       []SourceStatus `json:"pending"`
	Failed        []SourceStatus `json:"failed"`
	Withdrawn     int            `json:"withdrawn"` // tools that the run had and no longer has
}

// RunReady says that the catalogue of a run is searchable.
type RunReady struct {
	At        time.Time `json:"at"`
	Run       RunID     `json:"run"`
	Catalogue Hash      `json:"catalogue"`
	Ms        int64     `json:"ms"` // that indexing took; next to 0 where all was known
}

// RunFailed says that a run could not be planned.
type RunFailed struct {
	At    time.Time `json:"at"`
	Run   RunID     `json:"run"`
	Error Error     `json:"error"`
}

// RunClosed says that a run ended.
type RunClosed struct {
	At     time.Time `json:"at"`
	Run    RunID     `json:"run"`
	Ending Ending    `json:"ending"`
}

// Searched says what a run looked for and what it was shown.
type Searched struct {
	At      time.Time      `json:"at"`
	Run     RunID          `json:"run"`
	Search  SearchID       `json:"search"`
	Query   string         `json:"query"`
	Limit   int            `json:"limit"`
	Total   int            `json:"total"`
	Hits    []ToolID       `json:"hits"` // best first
	Nearest []ToolID       `json:"nearest,omitempty"`
	Pending []SourceStatus `json:"pending,omitempty"`
	Micros  int64          `json:"micros"` // that the search took
}

// Described says that a run asked for a tool's full definition.
type Described struct {
	At   time.Time `json:"at"`
	Run  RunID     `json:"run"`
	ID   SearchID  `json:"id"` // of this question
	Tool ToolID    `json:"tool"`
}

// CallRequested says that a call was accepted.
type CallRequested struct {
	At   time.Time `json:"at"`
	Run  RunID     `json:"run"`
	Call CallID    `json:"call"`
	Tool string    `json:"tool"`           // as the caller named it
	Body BodyID    `json:"body,omitempty"` // that made the call
}

// CallRunning says that an executor is about to reach the tool.
type CallRunning struct {
	At      time.Time `json:"at"`
	Run     RunID     `json:"run"`
	Call    CallID    `json:"call"`
	Tool    ToolRef   `json:"tool"`
	Attempt int       `json:"attempt"`
}

// CallWaiting says that a call waits for somebody: its caller, for a client tool, or whoever may approve. Its arguments are in the record.
type CallWaiting struct {
	At       time.Time  `json:"at"`
	Run      RunID      `json:"run"`
	Call     CallID     `json:"call"`
	Tool     ToolRef    `json:"tool"`
	For      WaitsFor   `json:"for"`
	Approval ApprovalID `json:"approval,omitempty"` // that it waits for, "" for none
}

// CallFinished says how a call ended. Results are not in events: the record has them.
type CallFinished struct {
	At          time.Time   `json:"at"`
	Run         RunID       `json:"run"`
	Call        CallID      `json:"call"`
	Tool        *ToolRef    `json:"tool,omitempty"`
	Name        string      `json:"name"` // the tool as the caller named it
	Status      Status      `json:"status"`
	Code        Code        `json:"code,omitempty"`
	SideEffects SideEffects `json:"sideEffects,omitempty"`
	Attempts    int         `json:"attempts"`
	ResultBytes int         `json:"resultBytes"`
	DurationMs  int64       `json:"durationMs"`
	// Ruling is what stopped the call, where that was policy. For operators only.
	Ruling *Ruling `json:"ruling,omitempty"`
}

// SourceListed says that a source's listing was discovered and differs from the one before.
type SourceListed struct {
	At      time.Time     `json:"at"`
	Source  SourceID      `json:"source"`
	Listing Hash          `json:"listing"`
	Tools   int           `json:"tools"`
	Skipped []SkippedTool `json:"skipped,omitempty"`
	Ms      int64         `json:"ms"`
}

// SourceFailed says that a source could not be discovered or refreshed.
type SourceFailed struct {
	At     time.Time `json:"at"`
	Source SourceID  `json:"source"`
	Reason string    `json:"reason"`
	Kept   bool      `json:"kept"` // whether an earlier listing is still used
}

func (e RunRequested) Subject(t TenantID) string { return runSubject(t, e.Run, "requested") }
func (e RunPlanned) Subject(t TenantID) string   { return runSubject(t, e.Run, "planned") }
func (e RunRevised) Subject(t TenantID) string   { return runSubject(t, e.Run, "revised") }
func (e RunReady) Subject(t TenantID) string     { return runSubject(t, e.Run, "ready") }
func (e RunFailed) Subject(t TenantID) string    { return runSubject(t, e.Run, "failed") }
func (e RunClosed) Subject(t TenantID) string    { return runSubject(t, e.Run, "closed") }
func (e Searched) Subject(t TenantID) string {
	return runSubject(t, e.Run, "search", string(e.Search))
}
func (e Described) Subject(t TenantID) string {
	return runSubject(t, e.Run, "describe", string(e.ID))
}
func (e CallRequested) Subject(t TenantID) string {
	return runSubject(t, e.Run, "call", string(e.Call), "requested")
}
func (e CallRunning) Subject(t TenantID) string {
	return runSubject(t, e.Run, "call", string(e.Call), "running")
}
func (e CallWaiting) Subject(t TenantID) string {
	return runSubject(t, e.Run, "call", string(e.Call), "waiting")
}
func (e CallFinished) Subject(t TenantID) string {
	return runSubject(t, e.Run, "call", string(e.Call), "finished")
}
func (e SourceListed) Subject(t TenantID) string { return sourceSubject(t, e.Source, "listed") }
func (e SourceFailed) Subject(t TenantID) string { return sourceSubject(t, e.Source, "failed") }

func sourceSubject(t TenantID, s SourceID, state string) string {
	return "tc." + string(t) + ".source." + s.Token() + "." + state
}

// An EventType describes one type of event, for decoding and for the documentation.
type EventType struct {
	Type    string // as in [Subject].Type
	Sender  string // the service that publishes it
	Pattern string // of its subject, with {placeholders}
	Text    string
	Zero    Event // a zero value of its Go type
	decode  func([]byte) (Event, error)
}

func eventType[E Event](typ, sender, pattern, text string) EventType {
	var zero E
	return EventType{typ, sender, "tc.{tenant}." + pattern, text, zero, func(b []byte) (Event, error) {
		var e E
		err := json.Unmarshal(b, &e)
		return e, err
	}}
}

// EventTypes is the append-only table of all types of event.
func EventTypes() []EventType {
	return []EventType{
		eventType[RunRequested]("run.requested", "gateway", "run.{run}.requested", "A run is asked for."),
		eventType[RunPlanned]("run.planned", "planner", "run.{run}.planned", "The run can be used: its catalogue is frozen and its surface decided."),
		eventType[RunRevised]("run.revised", "planner", "run.{run}.revised", "The run's catalogue has a new revision."),
		eventType[RunReady]("run.ready", "indexer", "run.{run}.ready", "The run's catalogue is searchable."),
		eventType[RunFailed]("run.failed", "planner", "run.{run}.failed", "The run could not be planned."),
		eventType[RunClosed]("run.closed", "gateway, planner", "run.{run}.closed", "The run ended."),
		eventType[Searched]("search", "indexer", "run.{run}.search.{search}", "A search was answered."),
		eventType[Described]("describe", "indexer", "run.{run}.describe.{id}", "A tool was described."),
		eventType[CallRequested]("call.requested", "gateway, sandbox", "run.{run}.call.{call}.requested", "A call was accepted."),
		eventType[CallRunning]("call.running", "executor", "run.{run}.call.{call}.running", "The tool is about to be reached."),
		eventType[CallWaiting]("call.waiting", "executor", "run.{run}.call.{call}.waiting", "The call waits for a decision, or for the caller to run its own tool."),
		eventType[CallFinished]("call.finished", "executor, gateway, sandbox", "run.{run}.call.{call}.finished", "The call ended. It does so exactly once."),
		eventType[BodyRequested]("body.requested", "gateway", "run.{run}.body.{body}.requested", "A body was accepted."),
		eventType[BodyWaiting]("body.waiting", "sandbox", "run.{run}.body.{body}.waiting", "The body waits for its caller to run its own tools."),
		eventType[BodyFinished]("body.finished", "sandbox, gateway", "run.{run}.body.{body}.finished", "The body ended. It does so exactly once."),
		eventType[ApprovalRequested]("approval.requested", "executor", "run.{run}.approval.{approval}.requested", "A call waits for somebody to decide whether it may be made."),
		eventType[ApprovalDecided]("approval.decided", "gateway", "run.{run}.approval.{approval}.decided", "Somebody decided. It happens once at most."),
		eventType[ApprovalEnded]("approval.ended", "executor, gateway", "run.{run}.approval.{approval}.ended", "Nobody decided in time, or there is nothing left to decide."),
		eventType[SourceListed]("source.listed", "executor", "source.{source}.listed", "A source has a new listing."),
		eventType[SourceFailed]("source.failed", "executor", "source.{source}.failed", "A source could not be discovered or refreshed."),
		eventType[ToolsReviewed]("source.reviewed", "executor", "source.{source}.reviewed", "A source offers tools that are new, changed, flagged, or held back for that."),
		eventType[ToolsDecided]("source.decided", "executor", "source.{source}.decided", "An operator admitted tools of the source, or put them into quarantine."),
	}
}

// forOperators is an event that says more to operators than to the caller of its run.
type forOperators interface {
	forCaller() Event
}

func (e RunPlanned) forCaller() Event {
	e.Plan.Policy, e.Plan.Basis, e.Plan.CatalogueBlob = "", "", "" // a digest would tell whether a guess about the policy is right
	return e
}

func (e RunRevised) forCaller() Event {
	e.CatalogueBlob = ""
	return e
}

func (e CallFinished) forCaller() Event {
	e.Ruling = nil
	return e
}

// ForCaller returns what the caller of a run may know of an event of the type: data without what is for operators only.
// It returns data itself where there is nothing such, and nil where data cannot be read.
func ForCaller(typ string, data json.RawMessage) json.RawMessage {
	for _, t := range EventTypes() {
		if _, ok := t.Zero.(forOperators); t.Type == typ && ok {
			e, err := t.decode(data)
			if err != nil {
				return nil
			}
			if data, err = json.Marshal(e.(forOperators).forCaller()); err != nil {
				return nil
			}
			return data
		}
	}
	return data
}

// DecodeEvent returns the event that data holds, by its subject. An unknown
// type or malformed data is an [Error] with [CodeInvalid]; unknown fields are ignored.
func DecodeEvent(subject string, data []byte) (Subject, Event, error) {
	s, err := ParseSubject(subject)
	if err != nil {
		return s, nil, err
	}
	for _, t := range EventTypes() {
		if t.Type != s.Type {
			continue
		}
		e, err := t.decode(data)
		if err != nil {
			return s, nil, Errorf(CodeInvalid, "event %s: %w", s.Type, err)
		}
		return s, e, nil
	}
	return s, nil, Errorf(CodeInvalid, "event type %q is not known", s.Type)
}
