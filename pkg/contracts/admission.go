package contracts

import "time"

// An AdmissionMode is a tenant's setting for tools that are not what they were when they were admitted.
type AdmissionMode string

// The values of AdmissionMode.
const (
	AdmissionOff        AdmissionMode = "off"        // a change is taken, and nothing is noted
	AdmissionWarn       AdmissionMode = "warn"       // a change is taken and noted until an operator admits it; the default
	AdmissionQuarantine AdmissionMode = "quarantine" // a changed tool is held back until an operator admits it
)

// An AdmissionState says how a tool that its source offers stands.
type AdmissionState string

// The states of a tool.
const (
	ToolAdmitted    AdmissionState = "admitted"    // it is what was admitted
	ToolNew         AdmissionState = "new"         // admitted at first sight, later than the source itself
	ToolChanged     AdmissionState = "changed"     // in use, but not what was admitted
	ToolQuarantined AdmissionState = "quarantined" // in no run until an operator admits it
)

// A SourceAdmission says what the tools of a source are compared with. It outlives the source's place in the configuration.
type SourceAdmission struct {
	Mode AdmissionMode `json:"mode"` // by which Listing was made
	// Listing names the newest listing, and Remarks an [Admissions], both in [StoreListings]. A tool of Listing without a remark was admitted
	// as it stands there; "" where there is no remark.
	Listing Hash `json:"listing"`
	Remarks Hash `json:"remarks,omitempty"`
	// The numbers of tools in these states, and of those with flags.
	New         int `json:"new,omitempty"`
	Changed     int `json:"changed,omitempty"`
	Quarantined int `json:"quarantined,omitempty"`
	Flagged     int `json:"flagged,omitempty"`
}

// Admissions are what there is to say of the tools of one source, sorted by tool.
type Admissions struct {
	Tools []Admission `json:"tools"`
}

// An Admission is what there is to say of one tool.
type Admission struct {
	Tool ToolID `json:"tool"`
	// Admitted is what was admitted, where the listing holds something else; nil as well for a tool in quarantine that never was admitted.
	Admitted *Tool `json:"admitted,omitempty"`
	// Offered is what the source offers, where the tool is in quarantine and so not in the listing.
	Offered *Tool `json:"offered,omitempty"`
	// Held says that an operator put the tool into quarantine, and By who.
	Held bool   `json:"held,omitempty"`
	By   string `json:"by,omitempty"`
	New  bool   `json:"new,omitempty"`  // see [ToolNew]
	Gone bool   `json:"gone,omitempty"` // the source does not offer it at present
	// Since is when the tool came, changed or was held.
	Since time.Time `json:"since"`
	Flags []Flag    `json:"flags,omitempty"` // of what the source offers
}

// State returns the state of the tool.
func (a *Admission) State() AdmissionState {
	switch {
	case a.Offered != nil:
		return ToolQuarantined
	case a.Admitted != nil:
		return ToolChanged
	case a.New:
		return ToolNew
	}
	return ToolAdmitted
}

// A Flag says that a text of a tool is suspicious.
type Flag struct {
	Rule    string `json:"rule"`    // such as hidden-characters
	Place   string `json:"place"`   // of the text, a JSON Pointer into the tool
	Excerpt string `json:"excerpt"` // hidden characters escaped
}

// A ToolNews is what an event says of one tool.
type ToolNews struct {
	Tool  ToolID         `json:"tool"`
	State AdmissionState `json:"state"`
	Hash  Hash           `json:"hash"`            // of what the source offers
	Was   Hash           `json:"was,omitempty"`   // of what was admitted, where that is another
	Flags []string       `json:"flags,omitempty"` // the rules of its flags
}

// ToolsReviewed says that a source offers tools that are new, changed, flagged, or held back for that.
type ToolsReviewed struct {
	At     time.Time     `json:"at"`
	Source SourceID      `json:"source"`
	Mode   AdmissionMode `json:"mode"`
	Tools  []ToolNews    `json:"tools"`          // the first 100
	More   int           `json:"more,omitempty"` // tools beyond these
}

// ToolsDecided says that an operator admitted tools, or put them into quarantine.
type ToolsDecided struct {
	At     time.Time      `json:"at"`
	Source SourceID       `json:"source"`
	State  AdmissionState `json:"state"` // admitted or quarantined
	Tools  []ToolAt       `json:"tools"` // each as it was offered
	By     string         `json:"by"`
}

// A ToolAt is a tool as it was at one time.
type ToolAt struct {
	Tool ToolID `json:"tool"`
	Hash Hash   `json:"hash,omitempty"`
}

// AdmitMost bounds the tools of one decision.
const AdmitMost = 1000

// Subject returns where the event of tenant t goes.
func (e ToolsReviewed) Subject(t TenantID) string { return sourceSubject(t, e.Source, "reviewed") }

// Subject returns where the event of tenant t goes.
func (e ToolsDecided) Subject(t TenantID) string {
	return sourceSubject(t, e.Source, "decided")
}

// An AdmitRequest asks the executor to admit tools of a source, or to put them into quarantine: all of them or none.
type AdmitRequest struct {
	Source SourceID `json:"source"`
	// Tools are those of Source to decide about, at most [AdmitMost], each with the hash of what the operator saw: it must still be that. Only
	// a quarantine may leave hashes out.
	Tools []ToolAt       `json:"tools"`
	State AdmissionState `json:"state"` // admitted or quarantined
	By    string         `json:"by"`
}

// An AdmitAnswer is the record of the tool's source after the decision.
type AdmitAnswer struct {
	Source SourceRecord `json:"source"`
}
