package contracts

import (
	"encoding/json"
	"hash/fnv"
	"strconv"
	"time"
)

// Limits of search, by the specification.
const (
	SearchDefaultLimit = 8
	SearchMaxLimit     = 20
	SearchMaxQueries   = 16
	SearchLongestQuery = 4096 // bytes
)

// A SearchRequest asks for the tools of a run that fit a query.
type SearchRequest struct {
	Run     RunID    `json:"run"`
	Query   string   `json:"query,omitempty"`
	Limit   int      `json:"limit,omitempty"`   // 0 means the default
	Queries []string `json:"queries,omitempty"` // a batch in place of Query, at most [SearchMaxQueries]
}

// A SearchAnswer is the answer to one query, or, with Results, to a batch.
type SearchAnswer struct {
	ID      SearchID       `json:"id"`
	Query   string         `json:"query"`
	Hits    []Hit          `json:"hits"`  // best first, never nil
	Total   int            `json:"total"` // tools that match, shown or not
	Limit   int            `json:"limit"`
	Clamped bool           `json:"clamped,omitempty"` // a larger limit was asked for
	Nearest []ToolID       `json:"nearest,omitempty"` // where nothing fits
	Pending []SourceStatus `json:"pending"`
	Failed  []SourceStatus `json:"failed"`
	// Waited is how long the answer waited for pending sources, in milliseconds.
	Waited  int64          `json:"waited,omitempty"`
	Results []SearchAnswer `json:"results,omitempty"`
}

// A Hit is a tool that fits a query.
type Hit struct {
	ID          ToolID     `json:"id"`
	Source      SourceKind `json:"source"`
	Owner       string     `json:"owner"`
	Name        string     `json:"name"`
	Title       string     `json:"title,omitempty"`
	Description string     `json:"description"` // cut for a model
	Input       string     `json:"input"`       // a TypeScript-like signature of at most 300 characters
	Score       float64    `json:"score"`
}

// A DescribeRequest asks for one tool's exact definition.
type DescribeRequest struct {
	Run RunID  `json:"run"`
	ID  string `json:"id"` // an id or a name
}

// A DescribeAnswer is a tool's exact definition.
type DescribeAnswer struct {
	ID           ToolID          `json:"id"`
	Source       SourceKind      `json:"source"`
	Owner        string          `json:"owner"`
	Name         string          `json:"name"`
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description"` // whole
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Annotations  *Annotations    `json:"annotations,omitempty"`
	Hash         Hash            `json:"hash"`
}

// A ReviseRequest asks the planner to bring a run's catalogue up to the present state of sources and policies.
type ReviseRequest struct {
	Run RunID `json:"run"`
}

// A ReviseAnswer is the plan after the revision.
type ReviseAnswer struct {
	Plan Plan `json:"plan"`
}

// A DiscoverRequest asks the executor to have sources listed.
type DiscoverRequest struct {
	Sources []SourceID `json:"sources,omitempty"` // none means all of the tenant
	Force   bool       `json:"force,omitempty"`   // also where a fresh listing is known
	Wait    int64      `json:"wait,omitempty"`    // milliseconds to wait for the end of it
}

// A DiscoverAnswer is the state of the sources asked for.
type DiscoverAnswer struct {
	Sources []SourceRecord `json:"sources"`
}

// A ReportRequest asks for a run's report.
type ReportRequest struct {
	Run RunID `json:"run"`
}

// A Report says what a run saw, searched, called and saved.
type Report struct {
	Run       RunID                      `json:"run"`
	State     RunState                   `json:"state"`
	Surface   SurfaceMode                `json:"surface"`
	Catalogue CatalogueRef               `json:"catalogue"`
	Decision  Decision                   `json:"decision"`
	Opened    time.Time                  `json:"opened"`
	Ended     time.Time                  `json:"ended,omitzero"`
	Seen      Seen                       `json:"seen"`
	Direct    Cost                       `json:"direct"`
	Saved     Cost                       `json:"saved"` // Direct less what was seen; negative where it cost more
	Searches  []ReportSearch             `json:"searches"`
	Describes []ToolID                   `json:"describes"`
	Calls     []ReportCall               `json:"calls"`  // those of bodies among them
	Bodies    []ReportBody               `json:"bodies"` // in the order of asking
	BySource  map[SourceKind]SourceUsage `json:"bySource"`
}

// A ReportSearch is one search of a report.
type ReportSearch struct {
	Query string `json:"query"`
	Hits  int    `json:"hits"`
	Total int    `json:"total"`
	// CalledRank is the rank, from 1, of the tool of this search's hits that was called next; 0 where none was.
	CalledRank int     `json:"calledRank,omitempty"`
	Ms         float64 `json:"ms"`
}

// A ReportCall is one call of a report.
type ReportCall struct {
	CallID CallID     `json:"callId"`
	Tool   string     `json:"tool"` // the id, or the name as asked where it could not be resolved
	Source SourceKind `json:"source,omitempty"`
	Status Status     `json:"status"` // "" while it runs
	Code   Code       `json:"code,omitempty"`
	Ms     int64      `json:"ms"`
}

// A ReportBody is one body of a report. Its searches, describes and calls are among those of the report.
type ReportBody struct {
	BodyID    BodyID   `json:"bodyId"`
	Running   bool     `json:"running,omitempty"` // the rest is then not known
	OK        bool     `json:"ok"`
	Code      BodyCode `json:"code,omitempty"`    // how it failed
	Refused   Code     `json:"refused,omitempty"` // why it was not run
	Searches  int      `json:"searches"`
	Describes int      `json:"describes"`
	Calls     int      `json:"calls"`
	Ms        int64    `json:"ms"`
}

// A SourceUsage sums up the catalogued tools and the calls of one kind of source.
type SourceUsage struct {
	Tools  int `json:"tools"`
	Bytes  int `json:"bytes"`
	Tokens int `json:"tokens"`
	Calls  int `json:"calls"`
}

// A LogRequest asks for the session log of a run: its events, in order.
type LogRequest struct {
	Run RunID `json:"run"`
	// After is the sequence of the last line already had; 0 for the beginning.
	After uint64 `json:"after,omitempty"`
	Limit int    `json:"limit,omitempty"` // lines; 0 means as many as fit in an answer
}

// A LogAnswer is a part of a session log.
type LogAnswer struct {
	Lines []LogLine `json:"lines"`
	More  bool      `json:"more"` // ask again After the last line
}

// A LogLine is one event of a session log.
type LogLine struct {
	Seq   uint64          `json:"seq"`
	Type  string          `json:"type"`
	ID    string          `json:"id,omitempty"` // of the call, search or describe
	At    time.Time       `json:"at"`
	Event json.RawMessage `json:"event"`
}

// BasisOf returns a short fingerprint of the sources and policies of a tenant: a plan made from an equal basis holds the same tools.
// The order does not matter.
func BasisOf(sources []*SourceRecord, policies []*PolicyRecord) string {
	var sum uint64
	h := fnv.New64a()
	for _, s := range sources {
		h.Reset()
		h.Write([]byte(s.Source.String() + "\x00" + string(s.State) + "\x00" + string(s.Listing) + "\x00" + s.Reason))
		sum += h.Sum64()
	}
	for _, p := range policies {
		h.Reset()
		b, _ := json.Marshal(p.Layers)
		h.Write(b)
		sum += h.Sum64()
	}
	return strconv.FormatUint(sum, 36)
}
