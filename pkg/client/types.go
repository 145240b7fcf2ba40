package client

import (
	"encoding/json"
	"time"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A RunOptions is what a caller wishes for a run. All fields are optional.
type RunOptions struct {
	Agent   string            `json:"agent,omitempty" maxLength:"256" doc:"Which agent the run is for. Policy layers can match it."`
	Profile string            `json:"profile,omitempty" maxLength:"256" doc:"The profile of the run. Policy layers can match it."`
	Session string            `json:"session,omitempty" maxLength:"256" doc:"The session of the agent. Policy layers can match it."`
	Sandbox string            `json:"sandbox,omitempty" maxLength:"256" doc:"The sandbox that the agent works in. Policy layers can match it."`
	Channel string            `json:"channel,omitempty" maxLength:"256" doc:"Where the user talks to the agent."`
	Runtime string            `json:"runtime,omitempty" maxLength:"256" doc:"The program that runs the agent."`
	Labels  map[string]string `json:"labels,omitempty" doc:"Further labels, at most 64."`

	// ToolSearch is the wished mode: true, false, "auto", "auto:N", the name of a surface, or a settings object. nil means unset.
	ToolSearch any `json:"toolSearch,omitempty" doc:"The wished mode: true, false, auto, auto:N with N from 0 to 100, code, tools, directory, direct, or an object of settings."`
	// Mode is another name for ToolSearch; give one of them.
	Mode          any    `json:"mode,omitempty" doc:"Another name for toolSearch."`
	Provider      string `json:"provider,omitempty" maxLength:"256" doc:"The provider of the model, such as anthropic."`
	Model         string `json:"model,omitempty" maxLength:"256"`
	Platform      string `json:"platform,omitempty" enum:"first_party,foundry_azure,foundry_other,vertex,bedrock,other" doc:"Where the model is reached."`
	BaseURL       string `json:"baseUrl,omitempty" maxLength:"2048" doc:"The base URL that the model is reached at."`
	Harness       string `json:"harness,omitempty" enum:"codex" doc:"The harness around the model."`
	ContextWindow int    `json:"contextWindow,omitempty" minimum:"0" doc:"The model's context window in tokens. 0 means unknown."`
	Hint          string `json:"hint,omitempty" maxLength:"32768" doc:"The user's request, from which likely tools are chosen."`
	// WaitForSources is how long opening waits for sources that are still being discovered: milliseconds, or true for 5 s.
	WaitForSources any          `json:"waitForSources,omitempty" doc:"How long to wait for sources that are still being discovered: milliseconds up to 60000, or true for 5000."`
	ClientTools    []ClientTool `json:"clientTools,omitempty" maxItems:"10000" doc:"Tools that the caller runs itself."`
	ExpiresIn      int64        `json:"expiresIn,omitempty" minimum:"0" maximum:"604800" doc:"Seconds until the run ends by itself. 0 means the default, a day."`
}

// A ClientTool is a tool that the caller runs itself: a call of it is handed to the caller, who posts the result.
type ClientTool struct {
	Name         string          `json:"name" doc:"1 to 128 characters, unique in the run."`
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"inputSchema" doc:"A JSON Schema object."`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty" doc:"A JSON Schema object."`
}

// A RunView is a run as its caller sees it. Surface to Decision are only there once the run was planned.
type RunView struct {
	ID        contracts.RunID          `json:"id"`
	State     contracts.RunState       `json:"state" enum:"requested,planned,failed,closed"`
	Surface   contracts.SurfaceMode    `json:"surface,omitempty"`
	Tools     []contracts.ModelTool    `json:"tools,omitempty" doc:"What the model is given; the same bytes for the whole run."`
	Prompt    string                   `json:"prompt,omitempty" doc:"Text for the model's system prompt."`
	Catalogue *contracts.CatalogueRef  `json:"catalogue,omitempty"`
	Pending   []contracts.SourceStatus `json:"pending" doc:"Sources that are still being discovered."`
	Failed    []contracts.SourceStatus `json:"failed" doc:"Sources that could not be used."`
	Decision  *contracts.Decision      `json:"decision,omitempty"`
	Created   time.Time                `json:"created"`
	Expires   time.Time                `json:"expires"`
	Ended     time.Time                `json:"ended,omitzero"`
	Ending    contracts.Ending         `json:"ending,omitempty" doc:"Why the run was closed."`
	Error     *contracts.Error         `json:"error,omitempty" doc:"Why planning failed."`
}

// A RunSummary is a run in a list of runs.
type RunSummary struct {
	ID    contracts.RunID    `json:"id"`
	State contracts.RunState `json:"state" enum:"requested,planned,failed,closed"`
	contracts.Labels
	Surface   contracts.SurfaceMode   `json:"surface,omitempty"`
	Catalogue *contracts.CatalogueRef `json:"catalogue,omitempty"`
	Created   time.Time               `json:"created"`
	Expires   time.Time               `json:"expires"`
	Ended     time.Time               `json:"ended,omitzero"`
	Ending    contracts.Ending        `json:"ending,omitempty"`
}

// A RunList is the answer of GET /v1/runs, newest first.
type RunList struct {
	Runs []RunSummary `json:"runs"`
}

// A CallRequest is what a model asked for.
type CallRequest struct {
	ID        string          `json:"id,omitempty" maxLength:"256" doc:"The caller's own id of the call; it is given back."`
	Name      string          `json:"name" minLength:"1" maxLength:"512" doc:"The tool's exposed name or id, or tool_search, tool_describe, tool_call or tool_search_code."`
	Arguments json.RawMessage `json:"arguments,omitempty" doc:"An object; nothing means {}."`

	// Key makes the call idempotent: an equal key in the same run is the same call, made once. "" for none.
	Key string `json:"-"`
}

// A CallAnswer is the outcome of a call or, with the status waiting or requires_action, how it stands.
type CallAnswer struct {
	contracts.Outcome
	ID string `json:"id,omitempty" doc:"The id that the request had."`
	// Href is where to look again, "" once the call has ended.
	Href       string           `json:"href,omitempty" doc:"Where to look again."`
	Approval   *PendingApproval `json:"approval,omitempty" doc:"With waiting: what somebody is asked before the call is made."`
	ClientCall *ClientCall      `json:"clientCall,omitempty" doc:"With requires_action: what the caller is to run."`
	// ClientCalls are those of a body. The result of each is posted to the call of its own CallID, and then Href is looked at again.
	ClientCalls []ClientCall `json:"clientCalls,omitempty" doc:"With requires_action of tool_search_code: what the caller is to run for the body. Post each result to the call of its callId, then look again at href."`
}

// Final reports whether the call has ended.
func (a *CallAnswer) Final() bool {
	return a.Status != contracts.StatusWaiting && a.Status != contracts.StatusRequiresAction
}

// A ClientCall is a call of the caller's own tool, to be run by the caller.
type ClientCall struct {
	CallID contracts.CallID `json:"callId,omitempty" doc:"In clientCalls: the call that the result is for."`
	Tool   string           `json:"tool" doc:"The tool's name, as the caller gave it."`
	Args   json.RawMessage  `json:"args"`
}

// A ClientResult is what a tool of the caller answered.
type ClientResult struct {
	Content           []json.RawMessage `json:"content" maxItems:"10000" doc:"MCP content blocks: objects with a type."`
	StructuredContent json.RawMessage   `json:"structuredContent,omitempty" doc:"An object."`
	IsError           bool              `json:"isError,omitempty"`
}

// An Event is one event of a run.
type Event struct {
	Seq  uint64          // where to resume after
	Type string          // such as call.finished
	Data json.RawMessage // as in [contracts.EventTypes]
}

// Discovered is the answer of GET …/discovered.
type Discovered struct {
	Tools []contracts.ToolID `json:"tools" doc:"The ids of tools that the run's searches and describes brought up, in that order."`
}

// A Source is a source of the tenant.
type Source struct {
	Source      contracts.SourceID      `json:"source"`
	State       contracts.SourceState   `json:"state" enum:"pending,ready,failed"`
	Reason      string                  `json:"reason,omitempty"`
	Detail      string                  `json:"detail,omitempty" doc:"What the source said of its failure: text from outside."`
	Tools       int                     `json:"tools"`
	Changed     int                     `json:"changed,omitempty" doc:"Of these, tools that are not what was admitted."`
	Quarantined int                     `json:"quarantined,omitempty" doc:"Tools besides that are in quarantine."`
	Listing     contracts.Hash          `json:"listing,omitempty"`
	Discovered  time.Time               `json:"discovered,omitzero"`
	AlwaysLoad  bool                    `json:"alwaysLoad,omitempty"`
	Skipped     []contracts.SkippedTool `json:"skipped,omitempty"`
}

// A SourceList is the answer of GET /v1/sources.
type SourceList struct {
	Sources []Source `json:"sources"`
}

// Policies are the policy layers of a tenant.
type Policies struct {
	Layers []contracts.PolicyLayer `json:"layers" doc:"Set over this API."`
	File   []contracts.PolicyLayer `json:"file,omitempty" doc:"From the configuration file; they hold together with those of layers. Not settable here."`
}

// A PolicyUpdate is the body of PUT /v1/policies.
type PolicyUpdate struct {
	Layers []contracts.PolicyLayer `json:"layers" maxItems:"1000"`
}

// A Problem is an error of the API, in the form of RFC 9457.
type Problem struct {
	Type   string                 `json:"type"`
	Title  string                 `json:"title"`
	Status int                    `json:"status"`
	Detail string                 `json:"detail"`
	Code   contracts.Code         `json:"code"`
	Fields []contracts.FieldError `json:"fields,omitempty"`
	// RetryAfter is in milliseconds; 0 where it is not known.
	RetryAfter int64 `json:"retryAfter,omitempty" doc:"Milliseconds to wait before another try."`
}

// A RulingRequest asks what policy says of a tool.
type RulingRequest struct {
	Tool contracts.ToolID `json:"tool" maxLength:"2048" doc:"The tool's whole id."`
	// Arguments are those of a call, an object; nothing asks whether the run may see the tool.
	Arguments json.RawMessage `json:"arguments,omitempty" doc:"Those of a call, an object. Left out, it is asked whether the run may see the tool."`
}

// A RulingView is what policy says of a tool and why, for operators.
type RulingView struct {
	Tool    contracts.ToolID       `json:"tool"`
	Known   bool                   `json:"known" doc:"Whether a source, or the run's caller, has such a tool now."`
	Visible bool                   `json:"visible" doc:"Whether the run may see the tool: there is such a tool, and policy does not hide it."`
	Effect  contracts.PolicyEffect `json:"effect" enum:"allow,deny,approve" doc:"Of the call with the arguments, or without any of seeing the tool."`
	contracts.Ruling
	Approval *contracts.ApprovalTerms `json:"approval,omitempty" doc:"What is asked, with approve."`
}
