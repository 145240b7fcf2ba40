package guest

import "github.com/toolcrib/toolcrib/services/sandbox/engine/rewrite"

// A Manifest goes with what the generator made, and says what it was made of.
type Manifest struct {
	Inputs     map[string]string `json:"inputs"` // SHA-256 of each, in hexadecimal
	Files      map[string]string `json:"files"`  // SHA-256 of each file beside the manifest
	Counts     rewrite.Counts    `json:"counts"`
	Body       Snapshot          `json:"body"`       // of guests that run bodies
	TypeScript Snapshot          `json:"typescript"` // of guests that strip types
}

// The names of the inputs that are known when Toolcrib is built.
const (
	InputPrelude    = "prelude"    // what the guests that run bodies are booted with
	InputTypeScript = "typescript" // the project's own part of what those that strip types are booted with
)

// The hidden functions that the preludes leave.
const (
	FuncStart    = "__start"
	FuncSettle   = "__settle"
	FuncFail     = "__fail"
	FuncRejected = "__rejected"
	FuncStrip    = "__strip"
)
