package contracts

import (
	"errors"
	"fmt"
	"time"
)

// A Code says what kind of failure an error is. Codes are append-only.
type Code string

// The codes. [Codes] maps each to HTTP, MCP and the command line.
const (
	CodeInvalid           Code = "invalid"             // the request is wrong; the message names the field
	CodeNotFound          Code = "not_found"           // no such run, call, source, …
	CodeUnauthenticated   Code = "unauthenticated"     // no credential, or one that is not known
	CodeForbidden         Code = "forbidden"           // the credential may not do this
	CodeConflict          Code = "conflict"            // the state does not allow it, or another was faster
	CodeUnavailable       Code = "unavailable"         // something needed is away; try again later
	CodeTimeout           Code = "timeout"             // not done in time
	CodeRateLimited       Code = "rate_limited"        // too many; try again after RetryAfter
	CodeInternal          Code = "internal"            // a fault of ours; the text stays in the log
	CodeCatalogueTooLarge Code = "catalogue_too_large" // more tools than the tenant's limit
	CodeNameCollision     Code = "name_collision"      // a client tool has the name of another tool of the run
	CodeUnknownTool       Code = "unknown_tool"        // no such tool in the run's catalogue
	CodeAmbiguousTool     Code = "ambiguous_tool"      // a name that several tools have
	CodeRunClosed         Code = "run_closed"          // the run has ended
	CodePolicyDenied      Code = "policy_denied"       // policy does not allow the call
	CodeInvalidArgs       Code = "invalid_args"        // arguments against the tool's schema
	CodeToolGone          Code = "tool_gone"           // the source no longer has the tool
	CodeToolError         Code = "tool_error"          // the tool itself said that it failed
	CodeSourceUnavailable Code = "source_unavailable"  // the tool's source cannot be reached
	CodeInvalidOutput     Code = "invalid_output"      // the tool answered against its own output schema
	CodeOutcomeUnknown    Code = "outcome_unknown"     // the call may or may not have happened
	CodeCancelled         Code = "cancelled"
	CodeTooLarge          Code = "too_large" // larger than a limit; the message names it
	CodeRouteCannotDefer  Code = "route_cannot_defer"
	CodeBodyFailed        Code = "body_failed"      // the body of tool_search_code failed; its result says how
	CodeApprovalDenied    Code = "approval_denied"  // who was asked said no
	CodeApprovalTimeout   Code = "approval_timeout" // nobody decided in time
	CodeApprovalVoid      Code = "approval_void"    // what was approved is not what would be called
	CodeHookBlocked       Code = "hook_blocked"     // a hook did not let the call pass
	CodeToolQuarantined   Code = "tool_quarantined" // the tool is held back until an operator admits it
)

// A CodeInfo is how the edges show a code.
type CodeInfo struct {
	Code Code
	HTTP int    // status of a problem document
	MCP  int    // JSON-RPC error code
	Exit int    // exit status of the command line
	Text string // what it means, for the documentation
}

// Codes is the append-only table of all codes.
func Codes() []CodeInfo {
	const (
		invalidParams = -32602
		internal      = -32603
		notFound      = -32002
		server        = -32000
	)
	return []CodeInfo{
		{CodeInvalid, 400, invalidParams, 2, "The request is wrong; the message names the field, its value and what is allowed."},
		{CodeNotFound, 404, notFound, 1, "There is no such thing for this caller."},
		{CodeUnauthenticated, 401, server, 1, "A credential is missing or not known."},
		{CodeForbidden, 403, server, 1, "The credential does not allow this."},
		{CodeConflict, 409, server, 1, "The present state does not allow this."},
		{CodeUnavailable, 503, server, 1, "Something that is needed is away. Try again later."},
		{CodeTimeout, 504, server, 1, "It was not done in time."},
		{CodeRateLimited, 429, server, 1, "Too many requests. Try again after the stated time."},
		{CodeInternal, 500, internal, 1, "A fault of the service. The log has the details."},
		{CodeCatalogueTooLarge, 422, invalidParams, 1, "The run would hold more tools than its tenant may have."},
		{CodeNameCollision, 422, invalidParams, 1, "A client tool has the name of another tool that the run can see."},
		{CodeUnknownTool, 404, invalidParams, 1, "The run's catalogue has no such tool."},
		{CodeAmbiguousTool, 409, invalidParams, 1, "Several tools have this name; use an id."},
		{CodeRunClosed, 409, server, 1, "The run has ended."},
		{CodePolicyDenied, 403, server, 1, "Policy does not allow the call."},
		{CodeInvalidArgs, 422, invalidParams, 1, "The arguments do not fit the tool's schema."},
		{CodeToolGone, 410, server, 1, "The source no longer has the tool."},
		{CodeToolError, 502, server, 1, "The tool said that it failed."},
		{CodeSourceUnavailable, 503, server, 1, "The source of the tool cannot be reached."},
		{CodeInvalidOutput, 502, server, 1, "The tool's answer does not fit its own output schema."},
		{CodeOutcomeUnknown, 502, server, 1, "The call may or may not have happened."},
		{CodeCancelled, 409, server, 1, "The call was cancelled."},
		{CodeTooLarge, 413, invalidParams, 1, "Something is larger than its limit."},
		{CodeRouteCannotDefer, 422, invalidParams, 1, "The route to this model cannot carry deferred tools."},
		{CodeBodyFailed, 422, server, 1, "The body of tool_search_code failed. error.code in structuredContent of the result says how."},
		{CodeApprovalDenied, 403, server, 1, "Whoever was asked to approve the call denied it. That is final."},
		{CodeApprovalTimeout, 504, server, 1, "Nobody decided in time whether the call may be made."},
		{CodeApprovalVoid, 409, server, 1, "The approval does not hold for the call as it is now. Make the call again to have it asked for anew."},
		{CodeHookBlocked, 403, server, 1, "A hook did not let the call pass."},
		{CodeToolQuarantined, 403, server, 1, "The tool is held back until an operator admits it: it changed, or was set aside."},
	}
}

// InfoOf returns the table's row for c, and that of [CodeInternal] for a code it does not have.
func InfoOf(c Code) CodeInfo {
	var fallback CodeInfo
	for _, i := range Codes() {
		if i.Code == c {
			return i
		}
		if i.Code == CodeInternal {
			fallback = i
		}
	}
	return fallback
}

// StatusOf returns the status of the outcome of a call that failed with c before its tool was reached: [StatusError] for a code that has no status of its own.
func StatusOf(c Code) Status {
	switch c {
	case CodeInvalid, CodeInvalidArgs:
		return StatusInvalidArgs
	case CodePolicyDenied, CodeToolQuarantined:
		return StatusBlocked
	case CodeRateLimited:
		return StatusRateLimited
	case CodeUnavailable, CodeSourceUnavailable, CodeToolGone:
		return StatusUnavailable
	case CodeTimeout:
		return StatusTimeout
	case CodeCancelled, CodeRunClosed:
		return StatusCancelled
	}
	return StatusError
}

// An Error is a failure that one service reports to another or to a caller.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"` // for the caller; names no secret and nothing that policy hides
	// Fields are the wrong fields of a request or of arguments, where they are known.
	Fields []FieldError `json:"fields,omitempty"`
	// RetryAfter is how long to wait before another try, in milliseconds; 0 where that is not known.
	RetryAfter int64 `json:"retryAfter,omitempty"`
	Cause      error `json:"-"` // for the operator's log; never sent
	// Ruling is what decided, where that was policy; nil elsewhere. It is never sent to the run's caller.
	Ruling *Ruling `json:"-"`
}

// A FieldError is one wrong field.
type FieldError struct {
	Field   string `json:"field"` // JSON Pointer into the arguments or request, "" for the whole
	Message string `json:"message"`
}

// Errorf returns an Error with code and a formatted message; an operand of %w becomes its cause.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Cause: errors.Unwrap(err)}
}

// Error returns code and message.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Unwrap returns the cause, nil where there is none.
func (e *Error) Unwrap() error { return e.Cause }

// After returns a copy of e that asks to wait for d.
func (e *Error) After(d time.Duration) *Error {
	c := *e
	c.RetryAfter = d.Milliseconds()
	return &c
}

// CodeOf returns the code of err: "" for nil, [CodeInternal] for an error without one.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}

// AsError returns err as an Error that may be sent: its own, or one with
// [CodeInternal] whose message hides the text of err. nil stays nil.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Code: CodeInternal, Message: "internal error", Cause: err}
}

// Final reports whether trying again cannot help. nil is final.
func Final(err error) bool {
	switch CodeOf(err) {
	case CodeInternal, CodeUnavailable, CodeTimeout, CodeRateLimited, CodeSourceUnavailable:
		return false
	}
	return true
}
