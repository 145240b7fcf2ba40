package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A Tool is a tool that a source of the tenant offers, and how it stands.
type Tool struct {
	ID       contracts.ToolID         `json:"id"`
	Title    string                   `json:"title,omitempty"`
	State    contracts.AdmissionState `json:"state" enum:"admitted,new,changed,quarantined"`
	Hash     contracts.Hash           `json:"hash" doc:"Of the tool as its source offers it. Admitting names it."`
	Admitted contracts.Hash           `json:"admitted,omitempty" doc:"The hash of what was admitted; nothing where nothing was."`
	Held     bool                     `json:"held,omitempty" doc:"An operator put it into quarantine."`
	By       string                   `json:"by,omitempty" doc:"Who did."`
	Since    time.Time                `json:"since,omitzero" doc:"When it came, changed or was held."`
	Flags    []contracts.Flag         `json:"flags,omitempty" doc:"What is suspicious about it."`
}

// A ToolView is a tool with what its source says of it: text from outside, as it is.
type ToolView struct {
	Tool
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Diff         []ToolChange    `json:"diff,omitempty" doc:"What changed since it was admitted."`
}

// A ToolChange is one part of a tool that changed.
type ToolChange struct {
	Part string `json:"part" doc:"Such as description or inputSchema."`
	Diff string `json:"diff" doc:"By lines: - was, + is. Hidden characters are escaped."`
}

// A ToolList is the answer of GET /v1/tools, sorted by id.
type ToolList struct {
	Tools []Tool           `json:"tools"`
	Next  contracts.ToolID `json:"next,omitempty" doc:"Where there are more: the value of after for these."`
}

// A ToolDecision is what an operator decides about tools of one source.
type ToolDecision struct {
	State contracts.AdmissionState `json:"state" enum:"admitted,quarantined"`
	Tools []ToolSeen               `json:"tools" minItems:"1" maxItems:"1000" doc:"All of one source. Either all are decided or none."`
}

// A ToolSeen is a tool as somebody looked at it.
type ToolSeen struct {
	ID   contracts.ToolID `json:"id" maxLength:"2048"`
	Hash contracts.Hash   `json:"hash,omitempty" maxLength:"64" doc:"The tool must still be that. Needed to admit."`
}

// Tools returns the tools that the sources of the tenant offer: those of one source, "" for all, in one state, "" for any, or with
// flagged only those that are flagged.
func (c *Client) Tools(ctx context.Context, source string, state contracts.AdmissionState, flagged bool) ([]Tool, error) {
	q := url.Values{"limit": {"1000"}}
	if source != "" {
		q.Set("source", source)
	}
	if state != "" {
		q.Set("state", string(state))
	}
	if flagged {
		q.Set("flagged", "true")
	}
	all := []Tool{}
	for {
		l, err := get[ToolList](ctx, c, http.MethodGet, "/v1/tools?"+q.Encode(), nil)
		if err != nil {
			return nil, err
		}
		if all = append(all, l.Tools...); l.Next == "" {
			return all, nil
		}
		q.Set("after", string(l.Next))
	}
}

// Tool returns one tool, with what changed since it was admitted.
func (c *Client) Tool(ctx context.Context, id contracts.ToolID) (*ToolView, error) {
	return get[ToolView](ctx, c, http.MethodGet, "/v1/tools/"+url.PathEscape(string(id)), nil)
}

// DecideTools admits tools of one source, at most [contracts.AdmitMost], or puts them into quarantine: all of them or none.
func (c *Client) DecideTools(ctx context.Context, state contracts.AdmissionState, tools ...ToolSeen) error {
	return c.do(ctx, http.MethodPut, "/v1/tools", nil, ToolDecision{state, tools}, nil)
}
