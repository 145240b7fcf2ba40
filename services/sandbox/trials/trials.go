// Package trials puts the sandbox on trial: hostile bodies and how each must end, and drivers that run bodies through a runner and
// measure what that costs, whom it harms and what it leaves behind. Its tests and `toolcrib bench sandbox` share it.
// No service imports it.
package trials

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolcrib/toolcrib/services/sandbox/engine"
)

// A Runner runs bodies of tenants, many at once, as a worker.Pool does.
type Runner interface {
	Run(ctx context.Context, tenant string, b engine.Body, d engine.Door) engine.Ending
}

// A Trial is a body and how it must end.
type Trial struct {
	Name   string // group/name
	Code   string
	Ends   []engine.Code // allowed ends, "" for a value
	Value  string        // the value's JSON, "" for any
	Silent bool          // its calls are never answered
}

// Body gives the body, with a time limit.
func (t Trial) Body(limit time.Duration) engine.Body {
	return engine.Body{Code: t.Code, Seed: 1, Now: startOfClock, Limits: engine.Limits{Timeout: limit}}
}

// startOfClock is what the clock of a trial's body shows at its start, in milliseconds since 1970.
const startOfClock = 1_700_000_000_000

// Check tells what is wrong with an ending, nil if it is as it must be.
func (t Trial) Check(e engine.Ending) error {
	got := codeOf(e)
	if !slices.Contains(t.Ends, got) {
		return fmt.Errorf("%s ended with %s, want %s", t.Name, describe(e), wanted(t.Ends))
	}
	if t.Value == "" || got != "" {
		return nil
	}
	var value bytes.Buffer
	if err := json.Compact(&value, e.Value); err != nil || value.String() != t.Value {
		return fmt.Errorf("%s gave %.200s, want %s", t.Name, e.Value, t.Value)
	}
	return nil
}

// codeOf gives the code that e ended with, "" for a value.
func codeOf(e engine.Ending) engine.Code {
	if e.Failure == nil {
		return ""
	}
	return e.Failure.Code
}

func describe(e engine.Ending) string {
	if f := e.Failure; f != nil {
		return fmt.Sprintf("%s (%s: %.200s)", f.Code, f.Name, f.Message)
	}
	return fmt.Sprintf("the value %.200s", e.Value)
}

func wanted(codes []engine.Code) string {
	var names []string
	for _, c := range codes {
		if c == "" {
			c = "value"
		}
		names = append(names, string(c))
	}
	return strings.Join(names, " or ")
}

//go:embed hostile/*.txt
var hostileFiles embed.FS

// Hostile gives the bodies that attack what runs them, in a fixed order.
func Hostile() ([]Trial, error) {
	var all []Trial
	entries, err := hostileFiles.ReadDir("hostile")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		text, err := hostileFiles.ReadFile("hostile/" + e.Name())
		if err != nil {
			return nil, err
		}
		trials, err := parse(strings.TrimSuffix(e.Name(), ".txt"), string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
		all = append(all, trials...)
	}
	return append(all, generated()...), nil
}

// parse reads trials. Each begins with a line `=== name | ends`, where ends are codes, `value` for any value or `value JSON` for
// that one; `| silent` at its end says that calls are never answered. The body follows.
func parse(group, text string) ([]Trial, error) {
	var all []Trial
	for part := range strings.SplitSeq("\n"+text, "\n=== ") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		head, code, _ := strings.Cut(part, "\n")
		fields := strings.Split(head, " | ")
		if len(fields) < 2 || len(fields) > 3 || len(fields) == 3 && fields[2] != "silent" {
			return nil, fmt.Errorf("the head %q is not `name | ends`", head)
		}
		t := Trial{Name: group + "/" + fields[0], Code: strings.TrimSuffix(code, "\n"), Silent: len(fields) == 3}
		for word := range strings.FieldsSeq(fields[1]) {
			if err := t.allow(word); err != nil {
				return nil, fmt.Errorf("%s: %w", t.Name, err)
			}
		}
		all = append(all, t)
	}
	return all, nil
}

// allow adds a word of a head.
func (t *Trial) allow(word string) error {
	codes := []engine.Code{
		engine.CodeSyntax, engine.CodeException, engine.CodeTimeout, engine.CodeMemory, engine.CodeStack,
		engine.CodeStalled, engine.CodeBridgeLimit, engine.CodeOutputLimit, engine.CodeTooLarge,
	}
	switch {
	case word == "value":
		t.Ends = append(t.Ends, "")
	case slices.Contains(codes, engine.Code(word)):
		t.Ends = append(t.Ends, engine.Code(word))
	case slices.Contains(t.Ends, "") && t.Value == "" && json.Valid([]byte(word)):
		t.Value = word
	default:
		return fmt.Errorf("%q is no way to end", word)
	}
	return nil
}
