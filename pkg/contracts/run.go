package contracts

import (
	"encoding/json"
	"time"
)

// A RunRequest is what a caller wishes for a run. All fields are optional.
type RunRequest struct {
	Labels
	// ToolSearch is the wished mode: true, false, a mode's name, "auto", "auto:N" or a settings object. Null means unset.
	ToolSearch    json.RawMessage `json:"toolSearch,omitempty"`
	Provider      string          `json:"provider,omitempty"`
	Model         string          `json:"model,omitempty"`
	Platform      string          `json:"platform,omitempty"`
	BaseURL       string          `json:"baseUrl,omitempty"`
	Harness       string          `json:"harness,omitempty"`
	ContextWindow int             `json:"contextWindow,omitempty"` // tokens; 0 means unknown
	Hint          string          `json:"hint,omitempty"`          // the user's request
	// WaitForSources is how long to wait for sources that are still being discovered, in milliseconds.
	WaitForSources int64 `json:"waitForSources,omitempty"`
	// ClientTools names the [Listing] of the caller's own tools in [StoreListings]; "" for none.
	ClientTools Hash  `json:"clientTools,omitempty"`
	ExpiresIn   int64 `json:"expiresIn,omitempty"` // seconds; 0 means the default
}

// Labels are what policy can match of a run.
type Labels struct {
	Agent   string            `json:"agent,omitempty"`
	Profile string            `json:"profile,omitempty"`
	Session string            `json:"session,omitempty"`
	Sandbox string            `json:"sandbox,omitempty"`
	Channel string            `json:"channel,omitempty"`
	Runtime string            `json:"runtime,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
}

// A RunState is a state of a run.
type RunState string

// The states of a run: requested → planned → closed, or requested → failed.
const (
	RunStateRequested RunState = "requested"
	RunStatePlanned   RunState = "planned"
	RunStateFailed    RunState = "failed"
	RunStateClosed    RunState = "closed"
)

// A Run is the record of a run, in [BucketRuns] under [RunKey].
type Run struct {
	Outbox
	ID        RunID      `json:"id"`
	State     RunState   `json:"state"`
	Request   RunRequest `json:"request"`
	Principal string     `json:"principal,omitempty"` // who opened it
	Created   time.Time  `json:"created"`
	Expires   time.Time  `json:"expires"`
	Planned   time.Time  `json:"planned,omitzero"`
	Ended     time.Time  `json:"ended,omitzero"`
	Ending    Ending     `json:"ending,omitempty"` // why it was closed
	Plan      *Plan      `json:"plan,omitempty"`   // nil until planned
	Error     *Error     `json:"error,omitempty"`  // why planning failed
}

// An Ending says why a run was closed.
type Ending string

// The endings of a run.
const (
	EndingClosed    Ending = "closed" // by its caller
	EndingExpired   Ending = "expired"
	EndingCancelled Ending = "cancelled" // by the gateway: it was not planned in time, or its caller went away meanwhile
)

// A SurfaceMode is what a model sees.
type SurfaceMode string

// The surfaces.
const (
	SurfaceCode      SurfaceMode = "code"
	SurfaceTools     SurfaceMode = "tools"
	SurfaceDirectory SurfaceMode = "directory"
	SurfaceDirect    SurfaceMode = "direct"
)

// A Plan is what the planner decided for a run.
type Plan struct {
	Surface SurfaceMode `json:"surface"`
	// SurfaceHash names the [Surface] in [StoreCatalogues]. It never changes in a run.
	SurfaceHash Hash         `json:"surfaceHash"`
	Catalogue   CatalogueRef `json:"catalogue"`
	// CatalogueBlob names the [Catalogue] in [StoreCatalogues], with what it hides: callers are not told it.
	CatalogueBlob Hash           `json:"catalogueBlob"`
	Pending       []SourceStatus `json:"pending"`
	Failed        []SourceStatus `json:"failed"`
	Decision      Decision       `json:"decision"`
	// Policy names the layers that held when the run was planned, in [StoreCatalogues]; a later
	// revision obeys the stricter of these and the live ones.
	Policy Hash `json:"policy"`
	// Basis is the state of sources and policies that the newest revision was made from, see [BasisOf].
	Basis string `json:"basis"`
	// CodeTimeoutMs is the wall clock limit of the run's bodies; 0 means 10 s.
	CodeTimeoutMs int64 `json:"codeTimeoutMs,omitempty"`
	// SearchLimit is the number of hits where a search of the run names no limit; 0 means [SearchDefaultLimit].
	SearchLimit int `json:"searchLimit,omitempty"`
	// SearchMost is the most hits that a search of the run can ask for; 0 means [SearchMaxLimit].
	SearchMost int  `json:"searchMost,omitempty"`
	Seen       Seen `json:"seen"`
	// Direct is what direct exposure of the catalogue would have cost.
	Direct Cost `json:"direct"`
	// BySource splits Direct by source kind.
	BySource map[SourceKind]Cost `json:"bySource"`
}

// A CatalogueRef names a run's catalogue.
type CatalogueRef struct {
	Hash     Hash               `json:"hash"`     // over the ids and hashes of its tools: equal for equal catalogues, whatever is hidden from them
	Revision int                `json:"revision"` // 1 for the first
	Size     int                `json:"size"`     // number of tools
	Sources  map[SourceKind]int `json:"sources"`  // number of tools by kind
}

// A SourceStatus names a source that a run could not use (yet).
type SourceStatus struct {
	Source SourceID `json:"source"`
	Reason string   `json:"reason,omitempty"`
}

// A Decision is how the planner came to the surface.
type Decision struct {
	Surface    SurfaceMode `json:"surface"`
	Native     bool        `json:"native"` // deferral by the provider's own feature
	Winner     string      `json:"winner"` // the name of the condition that decided
	Conditions []Condition `json:"conditions"`
}

// A Condition is one fact of a decision.
type Condition struct {
	Name   string `json:"name"`
	Value  any    `json:"value"`
	Effect string `json:"effect"` // what followed from it, "" for nothing
}

// Seen measures what the model was sent when the run opened.
type Seen struct {
	Tools       int `json:"tools"`
	Schemas     int `json:"schemas"` // of catalogued tools, sent in full
	ToolBytes   int `json:"toolBytes"`
	PromptBytes int `json:"promptBytes"`
	Tokens      int `json:"tokens"` // of both
}

// A Cost is a size in bytes and o200k_base tokens.
type Cost struct {
	Bytes  int `json:"bytes"`
	Tokens int `json:"tokens"`
}

// A Surface is what a model is given: its bytes are the same for the whole run.
type Surface struct {
	Tools  []ModelTool `json:"tools"`
	Prompt string      `json:"prompt"`
}

// A ModelTool is a tool as a model sees it.
type ModelTool struct {
	Name        string          `json:"name"` // ^[A-Za-z0-9_-]{1,64}$
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

// A PolicyRecord holds the policy layers of a tenant from one origin, in [BucketPolicies]
// under [PolicyKey]. Those of all origins hold together, and as everywhere a denial wins.
type PolicyRecord struct {
	Outbox
	Layers []PolicyLayer `json:"layers"`
}

// A PolicyLayer narrows what the runs it matches may see and call.
type PolicyLayer struct {
	// Level is where the layer stands: global, tenant, profile, agent, sandbox or session.
	Level string `json:"level"`
	// Name is the profile, agent, sandbox or session that the layer is for; "" at the levels global and tenant.
	Name string `json:"name,omitempty"`
	// Allow, where it is not empty, lets through only tools whose id one of the globs matches.
	Allow []string `json:"allow,omitempty"`
	// Deny hides every tool whose id one of the globs matches.
	Deny []string `json:"deny,omitempty"`
	// Rules say more of single tools and calls. One with the effect allow belongs to the allow list, with or without globs in Allow.
	Rules []PolicyRule `json:"rules,omitempty"`
}
