// Package contracts is what Toolcrib's services agree on: ids, subjects, events,
// records, questions and answers, outcomes and error codes, with their checks.
// It holds no behaviour beyond making and checking these, imports only the
// standard library, and is the one package that every service shares.
//
// # The services
//
//   - gateway: the front door; authenticates, fixes the tenant, speaks HTTP and MCP.
//   - planner: turns [RunRequested] into a catalogue and a surface: [RunPlanned].
//   - indexer: makes a catalogue searchable; answers [SearchRequest] and [DescribeRequest].
//   - executor: owns the sources and executes calls: [CallRequested] to [CallFinished].
//   - sandbox: runs the bodies of tool_search_code; answers [BodyRequest]; [BodyFinished].
//   - telemetry: turns every event into reports and session logs.
//
// # Compatibility
//
// Everything here is additive: fields and codes are added, never renamed,
// reordered or used for something else. New code reads old events; old code
// ignores fields that it does not know. Committed samples in testdata hold this.
//
// # The tenant
//
// The tenant of an event or a question is a token of its subject and of the key
// of its record. It is never a field of a payload.
package contracts
