package contracts

import (
	"encoding/json"
	"strings"
)

// What a plugin on the bus and the executor say to each other. docs/plugins.md is the whole protocol.

// PluginProtocol is the version of the protocol. A change that an older side could not pass over gets the next one.
const PluginProtocol = 1

// Bounds of what plugins are sent and send, in bytes. Whatever is within them fits into messages of NATS of the usual 1 MiB, headers included.
const (
	PluginMessageMost = 960 << 10 // the body of one message
	PluginToolMost    = 512 << 10 // one [PluginTool] as JSON
	PluginAnswerMost  = 16 << 20  // a [PluginAnswer], all of its parts together
)

// The headers of messages that come before the last one of an answer, and of that.
const (
	// PluginWorkingHeader marks a message that is no answer yet: the call is being worked on. Its value is in how many milliseconds, at most, the next such message or the answer comes.
	PluginWorkingHeader = "Toolcrib-Working"
	// PluginPartHeader marks a message whose body is a part of an answer that fits into no message. Its value counts them, from 1.
	PluginPartHeader = "Toolcrib-Part"
	// PluginPartsHeader is how many parts came before this message, whose body is the end of the answer.
	PluginPartsHeader = "Toolcrib-Parts"
)

// A PluginID names a plugin of a tenant on the bus: 1 to 64 characters of a-z, 0-9, '_' and '-'. Make one with [ParsePluginID].
type PluginID string

// ParsePluginID returns s as a PluginID, or an [Error] with [CodeInvalid].
func ParsePluginID(s string) (PluginID, error) {
	if len(s) == 0 || len(s) > 64 || !only(s, "_-") {
		return "", Errorf(CodeInvalid, "plugin %q: want 1 to 64 characters of a-z, 0-9, '_' and '-'", clip(s))
	}
	return PluginID(s), nil
}

func pluginSubject(t TenantID, p PluginID, rest ...string) string {
	return "plugin." + string(t) + "." + string(p) + "." + strings.Join(rest, ".")
}

// PluginListSubject is where a plugin is asked for its tools: [PluginListRequest] → [PluginListAnswer].
func PluginListSubject(t TenantID, p PluginID) string { return pluginSubject(t, p, "list") }

// PluginCallSubject is where a plugin's tools are called: [PluginCallRequest] → [PluginAnswer].
func PluginCallSubject(t TenantID, p PluginID) string { return pluginSubject(t, p, "call") }

// PluginHookSubject is where a plugin that is a hook is asked and told about calls: [HookRequest] → [HookAnswer].
func PluginHookSubject(t TenantID, p PluginID) string { return pluginSubject(t, p, "hook") }

// PluginChangedSubject is where a plugin tells that it is there, or that its tools changed. The body means nothing.
func PluginChangedSubject(t TenantID, p PluginID) string { return pluginSubject(t, p, "changed") }

// PluginCancelSubject is where the instance that works on a request hears that nobody waits for its answer any more. token is one token that no
// other request has. The body means nothing.
func PluginCancelSubject(t TenantID, p PluginID, token string) string {
	return pluginSubject(t, p, "cancel", token)
}

// PluginCancels is the filter for every [PluginCancelSubject] of a plugin.
func PluginCancels(t TenantID, p PluginID) string { return pluginSubject(t, p, "cancel", "*") }

// PluginService returns the name under which a plugin's instances are services of NATS.
func PluginService(t TenantID, p PluginID) string { return "plugin_" + string(t) + "_" + string(p) }

// PluginPermissions returns what a plugin's user on the NATS server must be allowed to publish to and to subscribe to. It must be allowed to
// answer besides (allow_responses), and needs nothing else.
func PluginPermissions(t TenantID, p PluginID) (publish, subscribe []string) {
	service := PluginService(t, p)
	return []string{PluginChangedSubject(t, p)},
		[]string{PluginListSubject(t, p), PluginCallSubject(t, p), PluginHookSubject(t, p), PluginCancels(t, p), "$SRV.*", "$SRV.*." + service, "$SRV.*." + service + ".*"}
}

// A PluginListRequest asks for a page of a plugin's tools.
type PluginListRequest struct {
	Protocol int `json:"protocol"` // of the asker
	// Cursor is the NextCursor of the page before, "" for the first page. Another instance may have made it.
	Cursor string `json:"cursor,omitempty"`
}

// A PluginListAnswer is a page of a plugin's tools.
type PluginListAnswer struct {
	Protocol     int    `json:"protocol"` // of the plugin
	Title        string `json:"title,omitempty"`
	Version      string `json:"version,omitempty"`      // of the plugin
	Instructions string `json:"instructions,omitempty"` // for a model; those of the first page count
	// Revision names the state of the whole list: pages of different revisions do not belong together. "" where there is only one page.
	Revision   string            `json:"revision,omitempty"`
	Tools      []json.RawMessage `json:"tools"`                // each a [PluginTool]
	NextCursor string            `json:"nextCursor,omitempty"` // "" on the last page
	Error      *Error            `json:"error,omitempty"`      // in place of everything else
}

// A PluginTool is one tool as its plugin tells of it, in MCP's form.
type PluginTool struct {
	Name         string          `json:"name"`
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"inputSchema,omitempty"` // a JSON Schema object; nil means that it takes no arguments
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Annotations  *Annotations    `json:"annotations,omitempty"`
	Meta         json.RawMessage `json:"_meta,omitempty"`
}

// A PluginCallRequest asks a plugin to run a tool once.
type PluginCallRequest struct {
	Protocol int `json:"protocol"` // of the asker
	// CallID is the idempotency key: it is the same when a call is made again because its answer was lost, which happens only to tools that
	// are read-only or idempotent by trusted annotations.
	CallID    CallID          `json:"callId"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"` // an object that fits the tool's input schema
	// TimeoutMs is after how many milliseconds from now nobody waits for the answer any more; 0 means that nothing is said of it.
	TimeoutMs int64 `json:"timeoutMs,omitempty"`
	// Cancel is the [PluginCancelSubject] of this request.
	Cancel string `json:"cancel,omitempty"`
}

// A PluginAnswer is the end of a call: the result of the tool or, where that did not run to its end, an error.
type PluginAnswer struct {
	*Result
	Error *Error `json:"error,omitempty"`
}
