package hooks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/names"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A failure is why a hook gave no answer that makes sense.
type failure struct {
	problem string // for the operator
	silent  bool   // nothing came at all: the hook may be gone
	skipped bool   // it was not asked
	retry   time.Duration
	size    int // with most: of what was too large to be sent, in bytes
	most    int
}

func (f *failure) Error() string { return f.problem }

// longestProblem is how much of a problem is told, in characters.
const longestProblem = 200

// problem returns a failure whose text may hold what others wrote.
func problem(format string, args ...any) *failure {
	return &failure{problem: names.Line(fmt.Sprintf(format, args...), longestProblem)}
}

// silence is a failure of a hook from which nothing came.
func silence(format string, args ...any) *failure {
	f := problem(format, args...)
	f.silent = true
	return f
}

func tooLarge(size, most int) *failure {
	return &failure{problem: fmt.Sprintf("the request has %d bytes; at most %d can be sent", size, most), size: size, most: most}
}

func asFailure(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	return problem("%v", err)
}

// failed returns what a [contracts.HookRun] says of an error.
func failed(err error) (contracts.HookDecision, string) {
	f := asFailure(err)
	if f.skipped {
		return contracts.HookSkipped, f.problem
	}
	return contracts.HookFailed, f.problem
}

// errLate is why a hook's time ended.
var errLate = errors.New("the hook is late")

// ask sends a body to the hook and returns its answer, in the hook's time. An error that is no *failure is one of ctx.
func (h *hook) ask(ctx context.Context, body []byte) ([]byte, error) {
	if most := h.via.most(); len(body) > most {
		return nil, tooLarge(len(body), most)
	}
	if wait := h.breaker.enter(time.Now()); wait > 0 {
		return nil, &failure{problem: "it gave no answer again and again, and was not asked", skipped: true, retry: wait}
	}
	in, cancel := context.WithTimeoutCause(ctx, h.timeout, errLate)
	defer cancel()
	data, err := h.via.exchange(in, body)
	if err != nil && ctx.Err() != nil {
		h.breaker.leave()
		return nil, context.Cause(ctx)
	}
	if err != nil && errors.Is(context.Cause(in), errLate) {
		err = silence("it gave no answer within %v", h.timeout)
	}
	h.breaker.done(time.Now(), err != nil && asFailure(err).silent)
	return data, err
}
