package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// An Approval is a question to people: may this call be made?
type Approval struct {
	ID          contracts.ApprovalID    `json:"id"`
	State       contracts.ApprovalState `json:"state" enum:"waiting,decided,expired,void"`
	Run         contracts.RunID         `json:"run"`
	Call        contracts.CallID        `json:"call"`
	Body        contracts.BodyID        `json:"body,omitempty" doc:"The body of tool_search_code that made the call."`
	Agent       string                  `json:"agent,omitempty"`
	Tool        contracts.ToolRef       `json:"tool"`
	Args        json.RawMessage         `json:"args,omitempty" doc:"The arguments of the call, up to 64 KiB: text from a model."`
	ArgsBytes   int                     `json:"argsBytes,omitempty"`
	Title       string                  `json:"title"`
	Description string                  `json:"description,omitempty"`
	Severity    contracts.Severity      `json:"severity" enum:"info,warning,critical"`
	Deciders    []string                `json:"deciders,omitempty" doc:"Who may decide; nothing means everybody with the scope approve."`
	AskedBy     string                  `json:"askedBy" doc:"The policy rule or hook that asks."`
	Requested   time.Time               `json:"requested"`
	Expires     time.Time               `json:"expires"`
	Verdict     *contracts.Verdict      `json:"verdict,omitempty"`
	Consumed    time.Time               `json:"consumed,omitzero" doc:"When the call was made by it."`
	Reason      string                  `json:"reason,omitempty" doc:"Why it is void."`
	Grant       contracts.GrantID       `json:"grant,omitempty" doc:"The grant that allow_always made."`
}

// An ApprovalList is the answer of GET /v1/approvals, the newest first.
type ApprovalList struct {
	Approvals []Approval `json:"approvals"`
}

// An ApprovalChoice is what somebody decides.
type ApprovalChoice struct {
	Decision contracts.ApprovalDecision `json:"decision" enum:"allow_once,allow_always,deny"`
	Scope    *GrantScope                `json:"scope,omitempty" doc:"With allow_always: what else is allowed by it."`
	Note     string                     `json:"note,omitempty" maxLength:"512" doc:"The model is told it where the call is denied."`
}

// A GrantScope says which later calls a decision allows, beyond tool and agent, which always count.
type GrantScope struct {
	Args      []string `json:"args,omitempty" maxItems:"100" doc:"Arguments that must have the same values as in this call; nothing leaves all free."`
	ExpiresIn int64    `json:"expiresIn,omitempty" minimum:"0" maximum:"31536000" doc:"Seconds; 0 means until it is revoked."`
}

// A Grant is an approval in advance.
type Grant struct {
	ID       contracts.GrantID          `json:"id"`
	Agent    string                     `json:"agent" doc:"The agent of the runs that it is for; empty is for runs without one."`
	Tool     contracts.ToolID           `json:"tool"`
	Hash     contracts.Hash             `json:"hash" doc:"Of the tool as it was: one that has changed is asked for again."`
	Args     map[string]json.RawMessage `json:"args,omitempty" doc:"Arguments that must have these values."`
	Approval contracts.ApprovalID       `json:"approval"`
	By       string                     `json:"by"`
	At       time.Time                  `json:"at"`
	Expires  time.Time                  `json:"expires,omitzero"`
}

// A GrantList is the answer of GET /v1/grants, the newest first.
type GrantList struct {
	Grants []Grant `json:"grants"`
}

// A PendingApproval is what the caller of a call is told of what the call waits for. Who makes calls cannot decide.
type PendingApproval struct {
	ID          contracts.ApprovalID `json:"id"`
	Title       string               `json:"title"`
	Description string               `json:"description,omitempty"`
	Severity    contracts.Severity   `json:"severity" enum:"info,warning,critical"`
	Expires     time.Time            `json:"expires"`
}

// Approvals returns the approvals of the tenant, the newest first; only those in that state where it is not "".
func (c *Client) Approvals(ctx context.Context, state contracts.ApprovalState) ([]Approval, error) {
	path := "/v1/approvals"
	if state != "" {
		path += "?state=" + url.QueryEscape(string(state))
	}
	l, err := get[ApprovalList](ctx, c, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	return l.Approvals, nil
}

// Approval returns an approval.
func (c *Client) Approval(ctx context.Context, id contracts.ApprovalID) (*Approval, error) {
	return get[Approval](ctx, c, http.MethodGet, "/v1/approvals/"+url.PathEscape(string(id)), nil)
}

// Decide decides on an approval, which can be done once.
func (c *Client) Decide(ctx context.Context, id contracts.ApprovalID, choice ApprovalChoice) (*Approval, error) {
	return get[Approval](ctx, c, http.MethodPost, "/v1/approvals/"+url.PathEscape(string(id)), choice)
}

// Grants returns the grants of the tenant that hold, the newest first.
func (c *Client) Grants(ctx context.Context) ([]Grant, error) {
	l, err := get[GrantList](ctx, c, http.MethodGet, "/v1/grants", nil)
	if err != nil {
		return nil, err
	}
	return l.Grants, nil
}

// RevokeGrant ends a grant.
func (c *Client) RevokeGrant(ctx context.Context, id contracts.GrantID) error {
	return c.do(ctx, http.MethodDelete, "/v1/grants/"+url.PathEscape(string(id)), nil, nil, nil)
}
