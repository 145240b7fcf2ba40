package executor

import (
	"context"

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

// replied reports whether an error of that code is an answer of the source.
func replied(code contracts.Code) bool {
	return code == contracts.CodeToolError || code == contracts.CodeRateLimited || code == contracts.CodeUnavailable
}

// refused is the outcome of a call that its source, not its tool, answered with an error, and with r where that is not nil. How far it came
// is not known, unless the source takes no more calls.
func (s *Service) refused(ctx context.Context, j *job, why *contracts.Error, r *contracts.Result) contracts.Outcome {
	e := *why
	e.Message = names.Text(e.Message)
	o := contracts.Outcome{Status: contracts.StatusError, SideEffects: contracts.SideEffectsUnknown, Error: &e, RetryAfter: e.RetryAfter}
	switch e.Code {
	case contracts.CodeRateLimited:
		o.Status, o.SideEffects = contracts.StatusRateLimited, contracts.SideEffectsNone
	case contracts.CodeUnavailable:
		o.Status = contracts.StatusUnavailable
	}
	if r != nil {
		o.Result = s.outputs.Keep(ctx, j.place, j.budget(), r)
	}
	return o
}
