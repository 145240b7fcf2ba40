package executor

import (
	"encoding/json"
	"fmt"

	"github.com/toolcrib/toolcrib/internal/core/catalogue"
	"github.com/toolcrib/toolcrib/internal/core/names"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// notMade is the outcome of a call that did not reach its tool.
func notMade(status contracts.Status, why *contracts.Error) *contracts.Outcome {
	return &contracts.Outcome{Status: status, Error: why, SideEffects: contracts.SideEffectsNone, RetryAfter: why.RetryAfter}
}

func cancelled(effects contracts.SideEffects) contracts.Outcome {
	return contracts.Outcome{
		Status: contracts.StatusCancelled, SideEffects: effects,
		Error: contracts.Errorf(contracts.CodeCancelled, "the call was cancelled"),
	}
}

func timedOut(effects contracts.SideEffects) contracts.Outcome {
	return contracts.Outcome{
		Status: contracts.StatusTimeout, SideEffects: effects,
		Error: contracts.Errorf(contracts.CodeTimeout, "the call did not end in time"),
	}
}

// unknown is the outcome of a call of which nobody can say whether it happened.
func unknown(message string) contracts.Outcome {
	return contracts.Outcome{
		Status: contracts.StatusError, SideEffects: contracts.SideEffectsUnknown,
		Error: contracts.Errorf(contracts.CodeOutcomeUnknown, "%s", names.Text(message)),
	}
}

// refused is the outcome of a call that its source, not its tool, answered with an error. How far it came is not known.
func refused(message string) contracts.Outcome {
	return contracts.Outcome{
		Status: contracts.StatusError, SideEffects: contracts.SideEffectsUnknown,
		Error: contracts.Errorf(contracts.CodeToolError, "%s", names.Text(message)),
	}
}

// answered is the outcome of a call that its tool answered with r.
func (s *Service) answered(e catalogue.Entry, r *contracts.Result) contracts.Outcome {
	o := contracts.Outcome{Status: contracts.StatusOK}
	switch wrong := s.wrongOutput(e, r); {
	case r.IsError:
		o.Status, o.SideEffects = contracts.StatusError, contracts.SideEffectsDone
		o.Error = contracts.Errorf(contracts.CodeToolError, "%s", says(r))
	case wrong != "":
		o.Status, o.SideEffects = contracts.StatusError, contracts.SideEffectsDone
		o.Error = contracts.Errorf(contracts.CodeInvalidOutput, "the tool answered, but not as its output schema says: %s", wrong)
	}
	o.Result = limit(r, limitOf(e.Tool))
	return o
}

// wrongOutput says what of a result is against the tool's output schema, "" for nothing.
func (s *Service) wrongOutput(e catalogue.Entry, r *contracts.Result) string {
	if len(e.OutputSchema) == 0 || r.IsError {
		return ""
	}
	if len(r.StructuredContent) == 0 {
		return "structuredContent is missing"
	}
	v, err := s.schemas.For(e.Hash, e.OutputSchema)
	if err != nil {
		return "" // not the answer's fault; listings hold only schemas that can be used
	}
	fields := v.Validate(r.StructuredContent)
	if len(fields) == 0 {
		return ""
	}
	return fmt.Sprintf("%s: %s", fields[0].Field, fields[0].Message)
}

// says returns the beginning of what a failed tool says.
func says(r *contracts.Result) string {
	const most = 300
	for _, b := range r.Content {
		var block struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		if json.Unmarshal(b, &block) == nil && block.Type == "text" && block.Text != "" {
			return "the tool failed and says: " + names.Cut(names.Text(block.Text), most)
		}
	}
	return "the tool said that it failed"
}
