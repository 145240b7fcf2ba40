package contracts

import (
	"encoding/json"
	"strings"
)

// A ToolID names a tool in a tenant: "source:owner:name". It splits at its
// first two colons; the name may hold any character.
type ToolID string

// NewToolID returns the id of the tool called name of source s.
func NewToolID(s SourceID, name string) ToolID { return ToolID(s.String() + ":" + name) }

// Split returns the parts of the id, or an [Error] with [CodeInvalid].
func (id ToolID) Split() (SourceID, string, error) {
	parts := strings.SplitN(string(id), ":", 3)
	if len(parts) != 3 || parts[2] == "" {
		return SourceID{}, "", Errorf(CodeInvalid, "tool id %q: want source:owner:name", clip(string(id)))
	}
	s, err := ParseSourceID(parts[0] + ":" + parts[1])
	return s, parts[2], err
}

// A Tool is one entry of a listing. Its bytes never change: another
// description or schema is another Tool with another hash.
type Tool struct {
	ID           ToolID          `json:"id"`
	Name         string          `json:"name"` // as its source calls it
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"inputSchema"` // a JSON Schema object, never empty
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Annotations  *Annotations    `json:"annotations,omitempty"`
	Meta         json.RawMessage `json:"_meta,omitempty"` // the source's _meta, unread
	Loading      Loading         `json:"loading,omitempty"`
	// Binding says how the tool's source calls it, in a form of that source's own: nobody else reads it, and it is shown to nobody but the operator who admits a change of it.
	Binding json.RawMessage `json:"binding,omitempty"`
	// Hash covers name, title, description, schemas, annotations, meta and binding. [Tool.ContentHash] makes it.
	Hash Hash `json:"hash"`
	// Bytes and Tokens measure the tool's definition as a model would be sent
	// it directly: {"name","description","inputSchema"} as compact JSON, tokens of o200k_base.
	Bytes  int `json:"bytes"`
	Tokens int `json:"tokens"`
}

// ContentHash returns the hash over what the source says of the tool.
func (t *Tool) ContentHash() Hash {
	c := *t
	c.Hash, c.Bytes, c.Tokens, c.Loading = "", 0, 0, ""
	b, err := json.Marshal(&c)
	if err != nil { // only an invalid RawMessage can do it, and a listing holds none
		return HashOf([]byte(t.ID))
	}
	return HashOf(b)
}

// Annotations are a source's own hints about a tool, as in MCP. They are not to
// be believed but from a source with trustAnnotations. Nil pointers mean unsaid.
type Annotations struct {
	ReadOnlyHint    *bool `json:"readOnlyHint,omitempty"`
	DestructiveHint *bool `json:"destructiveHint,omitempty"`
	IdempotentHint  *bool `json:"idempotentHint,omitempty"`
	OpenWorldHint   *bool `json:"openWorldHint,omitempty"`
}

// Loading says whether a tool is shown to the model at once.
type Loading string

// The values of Loading; "" means that a farther level decides.
const (
	LoadingDirect   Loading = "direct"
	LoadingAuto     Loading = "auto"
	LoadingDeferred Loading = "deferred"
)

// A Listing is all tools of one source at one time, sorted by the bytes of
// their ids. It is stored as JSON in [StoreListings] under its own hash.
type Listing struct {
	Source       SourceID `json:"source"`
	Title        string   `json:"title,omitempty"`        // how the source names itself
	Instructions string   `json:"instructions,omitempty"` // the server's instructions, whole
	// TrustAnnotations is the operator's word that the annotations of this source hold.
	TrustAnnotations bool   `json:"trustAnnotations,omitempty"`
	Tools            []Tool `json:"tools"`
	// Quarantined are the tools that the source offers besides and that no run may see, sorted.
	Quarantined []ToolID `json:"quarantined,omitempty"`
}

// A Catalogue is the frozen set of tools that one revision of a run may see: a
// set of listings, each with a mask. It is stored as JSON in [StoreCatalogues] under its own hash.
type Catalogue struct {
	Listings []CatalogueListing `json:"listings"` // sorted by source
	// Withdrawn are tools that an earlier revision of the run held and this one
	// does not. They cannot be found; a call says why it fails.
	Withdrawn map[ToolID]Withdrawal `json:"withdrawn,omitempty"`
}

// A CatalogueListing is a listing and the tools of it that the run may not see.
type CatalogueListing struct {
	Source  SourceID `json:"source"`
	Listing Hash     `json:"listing"`
	Visible int      `json:"visible"`          // number of tools that the run may see
	Hidden  []int    `json:"hidden,omitempty"` // ascending positions in Listing.Tools
}

// A Withdrawal says why a tool left a run's catalogue.
type Withdrawal string

// The reasons of a withdrawal.
const (
	WithdrawnByPolicy Withdrawal = "policy"
	WithdrawnBySource Withdrawal = "source" // the source no longer has it
	// WithdrawnForAdmission means that the tool is in quarantine.
	WithdrawnForAdmission Withdrawal = "admission"
)

// Size returns the number of tools that the run may see.
func (c *Catalogue) Size() int {
	n := 0
	for _, l := range c.Listings {
		n += l.Visible
	}
	return n
}
