// Package sandbox runs the bodies of code mode. It takes bodies by question, runs each in an
// isolate of a locked-down worker process, answers what it asks through the bus, and ends it in its record.
// It decides nothing about tools: search, policy, approval and execution are where they are for every call.
package sandbox
