package contracts

import (
	"slices"
	"strings"
	"time"
)

// A SourceKind says where a tool comes from.
type SourceKind string

// The source kinds.
const (
	SourcePlatform SourceKind = "platform" // built in
	SourcePlugin   SourceKind = "plugin"   // an OpenAPI document or a responder on the bus
	SourceMCP      SourceKind = "mcp"      // an MCP server
	SourceClient   SourceKind = "client"   // sent with the run by its caller
)

var sourceKinds = []SourceKind{SourcePlatform, SourcePlugin, SourceMCP, SourceClient}

// A SourceID names one source of a tenant: kind and owner, "mcp:calendar".
type SourceID struct {
	Kind  SourceKind
	Owner string // 1 to 64 characters of a-z, 0-9, '_' and '-'
}

// ParseSourceID parses "kind:owner", or returns an [Error] with [CodeInvalid].
func ParseSourceID(s string) (SourceID, error) {
	kind, owner, _ := strings.Cut(s, ":")
	id := SourceID{SourceKind(kind), owner}
	if !slices.Contains(sourceKinds, id.Kind) {
		return SourceID{}, Errorf(CodeInvalid, "source %q: want kind:owner with a kind of platform, plugin, mcp or client", clip(s))
	}
	if len(owner) == 0 || len(owner) > 64 || !only(owner, "_-") {
		return SourceID{}, Errorf(CodeInvalid, "source %q: want an owner of 1 to 64 characters of a-z, 0-9, '_' and '-'", clip(s))
	}
	return id, nil
}

// String returns "kind:owner".
func (s SourceID) String() string { return string(s.Kind) + ":" + s.Owner }

// MarshalText and UnmarshalText give a SourceID its JSON form, "kind:owner".
func (s SourceID) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is the inverse of MarshalText; it refuses what [ParseSourceID] refuses.
func (s *SourceID) UnmarshalText(b []byte) error {
	id, err := ParseSourceID(string(b))
	*s = id
	return err
}

// Token returns the id as one token of a subject or key, "mcp-calendar": a kind has no '-', so it is unique.
func (s SourceID) Token() string { return string(s.Kind) + "-" + s.Owner }

// OwnerName makes an owner of a name that a person gave, such as a key of
// mcpServers: letters to lower case, runs of anything else to one '-'. It is
// empty where nothing is left.
func OwnerName(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	s := b.String()
	return strings.Trim(s[:min(len(s), 64)], "-")
}

// A SourceState is the health of a source as a run sees it.
type SourceState string

// The states of a source.
const (
	SourceStatePending SourceState = "pending" // being discovered, nothing known yet
	SourceStateReady   SourceState = "ready"   // its listing is known and usable
	SourceStateFailed  SourceState = "failed"  // cannot be used; Reason says why
)

// A SourceRecord is what the system knows of one source of a tenant. The
// executor alone writes it, in [BucketSources] under [SourceKey].
type SourceRecord struct {
	Outbox
	Source SourceID    `json:"source"`
	State  SourceState `json:"state"`
	// Reason says why the source failed, or why its last refresh did while the
	// previous listing is kept. Shown to whoever may see the source.
	Reason string `json:"reason,omitempty"`
	// Detail is what the source said of its failure, such as the last words of a process: text from outside, for operators only.
	Detail string `json:"detail,omitempty"`
	// Listing names the newest good listing in [StoreListings]; "" where none is known.
	Listing    Hash      `json:"listing,omitempty"`
	Tools      int       `json:"tools"`               // of Listing
	Discovered time.Time `json:"discovered,omitzero"` // when Listing was last confirmed
	AlwaysLoad bool      `json:"alwaysLoad,omitempty"`
	// Settings is the hash of the configuration that Listing was discovered with; "" in answers.
	Settings Hash `json:"settings,omitempty"`
	// Skipped names tools that the source offers and that are set aside, with the reason of each.
	Skipped []SkippedTool `json:"skipped,omitempty"`
	// Admission is what was admitted of the source; nil before its first listing, and for one whose tools are not compared.
	Admission *SourceAdmission `json:"admission,omitempty"`
	// Removed says that the source is not configured any more: the record is kept for its Admission alone.
	Removed bool `json:"removed,omitempty"`
}

// A SkippedTool is one tool that could not be taken into a listing.
type SkippedTool struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// Ages of a listing, by the specification.
const (
	ListingFresh  = 900 * time.Second // younger: used as it is
	ListingUsable = 4 * time.Hour     // younger: used while it is being refreshed
)

// A Seat says which executor has the connection that a session's calls of one source share, in [BucketSeats]. It
// outlives both: an executor that is not there loses its seats to the next that is asked for them.
type Seat struct {
	Outbox
	Executor string `json:"executor"`
}
