package sandbox

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/cut"
	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/sandbox/engine"
)

// longestValue is the most bytes of a value's JSON, by the specification.
const longestValue = 256 << 10

// end closes the door of a body that ended, cancels what it had asked for, and returns what comes of it.
func (x *door) end(e engine.Ending) contracts.BodyEnd {
	x.close()
	x.asked.Wait()
	x.mu.Lock()
	defer x.mu.Unlock()
	var open []contracts.CallID
	for i := range x.calls {
		if c := &x.calls[i]; c.Status == "" || c.Status == contracts.StatusCancelled {
			c.Status, c.Ms = contracts.StatusCancelled, time.Since(x.begun[i]).Milliseconds()
			open = append(open, c.CallID)
		}
	}
	x.cancel(open)
	r := &contracts.BodyResult{OK: e.Failure == nil, Logs: x.logs, Calls: x.calls, Telemetry: x.counts}
	end := contracts.BodyEnd{Result: r}
	var cuts []string
	if f := e.Failure; f != nil {
		r.Error = &contracts.BodyError{Name: f.Name, Message: f.Message, Line: f.Line, Column: f.Column, Code: contracts.BodyCode(f.Code)}
	} else {
		r.Value = e.Value
		if len(r.Value) == 0 {
			r.Value = []byte("null")
		}
		end.Content = x.content.shown(r.Value)
		if len(r.Value) > longestValue {
			var notes []string
			r.Value, notes = cut.JSON(r.Value, longestValue)
			if r.Value == nil {
				r.Value = []byte("null")
			}
			cuts = append(cuts, fmt.Sprintf("value: %d bytes, at most %d are returned: %s", len(e.Value), longestValue, strings.Join(notes, ", ")))
		}
	}
	if e.Dropped > 0 {
		cuts = append(cuts, fmt.Sprintf("logs: %d lines over the limit left out", e.Dropped))
	}
	r.Truncated = strings.Join(cuts, "; ")
	return end
}

// cancel asks, in the background, for the end of calls that nobody awaits any more.
func (x *door) cancel(ids []contracts.CallID) {
	if len(ids) == 0 {
		return
	}
	ctx := context.WithoutCancel(x.ctx)
	x.s.running.Go(func() {
		for _, id := range ids {
			err := x.s.caller.Cancel(ctx, x.tenant, x.body.Run, id)
			if err != nil && contracts.CodeOf(err) != contracts.CodeNotFound {
				x.s.log.Error("call of an ended body not cancelled", "call", id, "err", err)
			}
		}
	})
}
