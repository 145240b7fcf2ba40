package contracts

import (
	"hash/fnv"
	"strconv"
	"strings"
)

// The streams. See docs/events.md.
const (
	StreamEvents   = "EVENTS"   // every fact; tc.>
	StreamDispatch = "DISPATCH" // wake-ups for the executor; dispatch.>
	StreamTimers   = "TIMERS"   // scheduled messages and what they become; timer.> and due.>
	StreamDead     = "DEAD"     // events that no handler could take; dead.>
)

// The buckets of records (JetStream key/value), each with the record it holds.
const (
	BucketRuns      = "runs"      // [Run]
	BucketCalls     = "calls"     // [Call]
	BucketBodies    = "bodies"    // [Body]
	BucketSources   = "sources"   // [SourceRecord]
	BucketPolicies  = "policies"  // [PolicyRecord]
	BucketSeats     = "seats"     // [Seat]
	BucketApprovals = "approvals" // [Approval]
	BucketGrants    = "grants"    // [Grant]
)

// The stores of content (JetStream object store), named by tenant and hash.
const (
	StoreListings   = "listings"   // [Listing]
	StoreCatalogues = "catalogues" // [Catalogue] and [Surface]
	StorePayloads   = "payloads"   // large arguments and results; short retention
	StoreReports    = "reports"    // final reports and session logs of ended runs
)

// Partitions is the number of parts of [StreamDispatch].
const Partitions = 16

// A Key is the key of a record: tokens joined by '.', the tenant first.
type Key string

// Tenant returns the first token of the key.
func (k Key) Tenant() TenantID {
	t, _, _ := strings.Cut(string(k), ".")
	return TenantID(t)
}

// RunKey, CallKey, BodyKey and SourceKey return the key of a record in its bucket.
func RunKey(t TenantID, r RunID) Key            { return key(t, string(r)) }
func CallKey(t TenantID, r RunID, c CallID) Key { return key(t, string(r), string(c)) }
func BodyKey(t TenantID, r RunID, b BodyID) Key { return key(t, string(r), string(b)) }
func SourceKey(t TenantID, s SourceID) Key      { return key(t, s.Token()) }

// ApprovalKey and GrantKey return the key of a record in its bucket.
func ApprovalKey(t TenantID, a ApprovalID) Key { return key(t, string(a)) }
func GrantKey(t TenantID, g GrantID) Key       { return key(t, string(g)) }

// PolicyKey returns the key of a tenant's policies of one origin, [PolicyFile] or [PolicyAPI].
func PolicyKey(t TenantID, origin string) Key { return key(t, origin) }

// SeatKey returns the key of the seat of a session's connection to a source; scope names the session among all of the tenant.
func SeatKey(t TenantID, s SourceID, scope string) Key {
	return key(t, s.Token(), string(HashOf([]byte(scope))))
}

// The origins of policies.
const (
	PolicyFile = "file" // the configuration file
	PolicyAPI  = "api"  // set over the API
)

func key(t TenantID, rest ...string) Key {
	return Key(string(t) + "." + strings.Join(rest, "."))
}

// Subjects of events. A sender and a receiver share these functions; nobody builds a subject by hand.
func runSubject(t TenantID, r RunID, rest ...string) string {
	return "tc." + string(t) + ".run." + string(r) + "." + strings.Join(rest, ".")
}

// RunEvents returns the filter for every event of one run.
func RunEvents(t TenantID, r RunID) string { return runSubject(t, r, ">") }

// RunStates returns the filter for the state changes of one run.
func RunStates(t TenantID, r RunID) string { return runSubject(t, r, "*") }

// CallStates returns the filter for the state changes of one call.
func CallStates(t TenantID, r RunID, c CallID) string {
	return runSubject(t, r, "call", string(c), "*")
}

// BodyStates returns the filter for the state changes of one body.
func BodyStates(t TenantID, r RunID, b BodyID) string {
	return runSubject(t, r, "body", string(b), "*")
}

// ApprovalStates returns the filter for the state changes of the approvals of one run.
func ApprovalStates(t TenantID, r RunID) string { return runSubject(t, r, "approval", "*", "*") }

// Filters over all tenants, for the consumers of the services.
const (
	AllEvents           = "tc.>"
	AllRunRequested     = "tc.*.run.*.requested"
	AllRunPlanned       = "tc.*.run.*.planned"
	AllRunRevised       = "tc.*.run.*.revised"
	AllRunClosed        = "tc.*.run.*.closed"
	AllRunFailed        = "tc.*.run.*.failed"
	AllApprovalsDecided = "tc.*.run.*.approval.*.decided"
	AllApprovalsEnded   = "tc.*.run.*.approval.*.ended"
)

// DispatchSubject returns the subject that wakes the executor for a call of t.
func DispatchSubject(t TenantID) string {
	h := fnv.New32a()
	h.Write([]byte(t))
	return "dispatch." + strconv.Itoa(int(h.Sum32()%Partitions)) + "." + string(t)
}

// RunExpiryTimer returns the subject of the timer that ends a run, and the one it becomes when due.
func RunExpiryTimer(t TenantID, r RunID) (timer, due string) {
	s := ".run." + string(t) + "." + string(r)
	return "timer" + s, "due" + s
}

// AllRunExpiriesDue is the filter for the timers of runs that are due.
const AllRunExpiriesDue = "due.run.*.*"

// ParseRunExpiry returns the run that a due timer's subject names.
func ParseRunExpiry(subject string) (TenantID, RunID, error) {
	p := strings.Split(subject, ".")
	if len(p) != 4 || p[0] != "due" || p[1] != "run" {
		return "", "", Errorf(CodeInvalid, "subject %q: want due.run.<tenant>.<run>", clip(subject))
	}
	t, err := ParseTenantID(p[2])
	if err != nil {
		return "", "", err
	}
	r, err := ParseRunID(p[3])
	if err != nil {
		return "", "", err
	}
	return t, r, nil
}

// CancelSubject is where a running call's executor hears at once that the call was cancelled. Not stored;
// the record tells it too.
func CancelSubject(t TenantID, c CallID) string {
	return "ctl." + string(t) + ".cancel." + string(c)
}

// AllCancels is the filter for every [CancelSubject].
const AllCancels = "ctl.*.cancel.*"

// HandOverSubject is where an executor is handed a call whose session has its connection there. It is asked; not stored.
func HandOverSubject(t TenantID, executor string) string {
	return "ctl." + string(t) + ".exec." + executor
}

// AllHandOvers is the filter for every [HandOverSubject] of an executor.
func AllHandOvers(executor string) string { return "ctl.*.exec." + executor }

// BodyCancelSubject is where the sandbox that runs a body hears at once that it was cancelled. Not stored; the record tells it too.
func BodyCancelSubject(t TenantID, b BodyID) string {
	return "ctl." + string(t) + ".body." + string(b)
}

// AllBodyCancels is the filter for every [BodyCancelSubject].
const AllBodyCancels = "ctl.*.body.*"

// A Verb names a question that one service answers for another, by request and reply.
type Verb string

// The verbs, each with its question and answer and who answers it.
const (
	VerbSearch   Verb = "search"   // [SearchRequest] → [SearchAnswer]; indexer
	VerbDescribe Verb = "describe" // [DescribeRequest] → [DescribeAnswer]; indexer
	VerbRevise   Verb = "revise"   // [ReviseRequest] → [ReviseAnswer]; planner
	VerbDiscover Verb = "discover" // [DiscoverRequest] → [DiscoverAnswer]; executor
	VerbAdmit    Verb = "admit"    // [AdmitRequest] → [AdmitAnswer]; executor
	VerbReport   Verb = "report"   // [ReportRequest] → [Report]; telemetry
	VerbBody     Verb = "body"     // [BodyRequest] → [BodyAnswer]; sandbox
	VerbSandbox  Verb = "sandbox"  // [SandboxRequest] → [SandboxAnswer]; sandbox
	VerbLog      Verb = "log"      // [LogRequest] → [LogAnswer]; telemetry
)

// Once reports whether a question must not be asked again without an answer: its answerer may do twice what it is asked twice.
func (v Verb) Once() bool { return v == VerbBody }

// AskSubject returns the subject of a question of tenant t.
func AskSubject(t TenantID, v Verb) string { return "ask." + string(t) + "." + string(v) }

// AllAsks returns the filter for a verb's questions of all tenants.
func AllAsks(v Verb) string { return "ask.*." + string(v) }

// AskTenant returns the tenant of a question's subject.
func AskTenant(subject string) (TenantID, error) {
	p := strings.Split(subject, ".")
	if len(p) != 3 || p[0] != "ask" {
		return "", Errorf(CodeInvalid, "subject %q: want ask.<tenant>.<verb>", clip(subject))
	}
	return ParseTenantID(p[1])
}

// A Subject is the parsed subject of an event.
type Subject struct {
	Tenant TenantID
	Type   string // of the event, such as "call.finished"
	Run    RunID  // "" for the events of sources
	ID     string // of the call, search, describe or source token; "" for those of a run
}

// ParseSubject takes an event's subject apart, or returns an [Error] with [CodeInvalid].
func ParseSubject(subject string) (Subject, error) {
	bad := func() (Subject, error) {
		return Subject{}, Errorf(CodeInvalid, "subject %q: not that of an event", clip(subject))
	}
	p := strings.Split(subject, ".")
	if len(p) < 5 || p[0] != "tc" {
		return bad()
	}
	t, err := ParseTenantID(p[1])
	if err != nil {
		return Subject{}, err
	}
	s := Subject{Tenant: t}
	switch {
	case p[2] == "source" && len(p) == 5 && only(p[3], "_-"):
		s.ID, s.Type = p[3], "source."+p[4]
		return s, nil
	case p[2] != "run":
		return bad()
	}
	if s.Run, err = ParseRunID(p[3]); err != nil {
		return Subject{}, err
	}
	switch {
	case len(p) == 5:
		s.Type = "run." + p[4]
	case len(p) == 6 && (p[4] == "search" || p[4] == "describe"):
		s.ID, s.Type = p[5], p[4]
	case len(p) == 7:
		s.ID, s.Type = p[5], p[4]+"."+p[6]
	default:
		return bad()
	}
	if s.ID != "" && !only(s.ID, "_") {
		return bad()
	}
	return s, nil
}
