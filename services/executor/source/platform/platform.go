// Package platform holds the tools that are built in: what a model asks for that needs
// neither a server nor a credential. They run in this process and touch nothing outside of it.
package platform

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// ID returns the id of the source, platform:core.
func ID() contracts.SourceID {
	return contracts.SourceID{Kind: contracts.SourcePlatform, Owner: "core"}
}

// Source is the built-in tools as a source's connection, which never ends. The zero value is ready; safe for concurrent use.
type Source struct{}

// A tool is one built-in tool. run gets arguments that are a JSON object.
type tool struct {
	contracts.Tool
	run func(ctx context.Context, args json.RawMessage) (any, error)
}

// List returns the tools. Ids, hashes and sizes are the caller's to fill in.
func (Source) List(context.Context) (*contracts.Listing, []contracts.SkippedTool, error) {
	l := &contracts.Listing{Title: "Built-in tools"}
	for _, t := range tools() {
		l.Tools = append(l.Tools, t.Tool)
	}
	return l, nil, nil
}

// Call calls a tool. Its own failure is a result; an error is that of ctx, or a
// [contracts.Error] with [contracts.CodeToolError] for a name that no tool has.
func (Source) Call(ctx context.Context, name string, args json.RawMessage, _ map[string]string) (*contracts.Result, error) {
	for _, t := range tools() {
		if t.Name != name {
			continue
		}
		v, err := t.run(ctx, args)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			r := contracts.TextResult(err.Error(), nil)
			r.IsError = true
			return r, nil
		}
		b, err := json.Marshal(v)
		if err != nil {
			return nil, contracts.Errorf(contracts.CodeToolError, "the result cannot be encoded: %w", err)
		}
		return contracts.TextResult(string(b), b), nil
	}
	return nil, contracts.Errorf(contracts.CodeToolError, "there is no such tool")
}

// Done returns nil: the connection never ends.
func (Source) Done() <-chan struct{} { return nil }

// Close does nothing.
func (Source) Close() {}

// define declares a tool whose arguments are an A.
func define[A any](t contracts.Tool, idempotent bool, run func(context.Context, A) (any, error)) tool {
	yes, no := true, false
	t.Annotations = &contracts.Annotations{ReadOnlyHint: &yes, DestructiveHint: &no, IdempotentHint: &idempotent, OpenWorldHint: &no}
	t.InputSchema, t.OutputSchema = compact(t.InputSchema), compact(t.OutputSchema)
	return tool{t, func(ctx context.Context, args json.RawMessage) (any, error) {
		var a A
		if err := json.Unmarshal(args, &a); err != nil {
			return nil, contracts.Errorf(contracts.CodeInvalidArgs, "arguments: %w", err)
		}
		return run(ctx, a)
	}}
}

func compact(raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		panic(err) // a schema of this package is no JSON
	}
	return b.Bytes()
}

// longestWait is how long the tool wait waits at most.
const longestWait = 60 * time.Second

func wait(ctx context.Context, a struct {
	Seconds float64 `json:"seconds"`
}) (any, error) {
	d := time.Duration(a.Seconds * float64(time.Second))
	if a.Seconds < 0 || d > longestWait {
		return nil, contracts.Errorf(contracts.CodeInvalidArgs, "seconds: %v; want 0 to %v", a.Seconds, longestWait.Seconds())
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return map[string]float64{"waited": d.Seconds()}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
