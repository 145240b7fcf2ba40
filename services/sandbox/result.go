package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/outputs"
	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/sandbox/engine"
)

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
		var told string
		if end.Content, told = x.fit(r); told != "" {
			cuts = append(cuts, fmt.Sprintf("value of %d bytes: %s", len(e.Value), told))
		}
	}
	if e.Dropped > 0 {
		cuts = append(cuts, fmt.Sprintf("logs: %d lines over the limit left out", e.Dropped))
	}
	r.Truncated = strings.Join(cuts, "; ")
	return end
}

// keepWithin bounds how long what a body returned may take to be kept.
const keepWithin = time.Minute

// fit brings the value of a body, and the content blocks that it refers to, within what is shown of them. It returns the blocks and what was cut.
func (x *door) fit(r *contracts.BodyResult) (blocks []json.RawMessage, told string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.ctx), keepWithin)
	defer cancel()
	logs := 0
	for _, l := range r.Logs {
		logs += len(l.Text)
	}
	// The paths in it are those of the result that the model gets: its first block is the text of the whole.
	whole := contracts.TextResult("", slices.Concat(json.RawMessage(`{"value":`), r.Value, json.RawMessage(`}`)))
	whole.Content = append(whole.Content, x.content.shown(ctx, r.Value)...)
	out := x.s.outputs.Keep(ctx, x.place(), outputs.ForValue(logs), whole)
	if out.Truncated == "" {
		return out.Content[1:], ""
	}
	var kept struct {
		Value json.RawMessage `json:"value"`
	}
	if json.Unmarshal(out.StructuredContent, &kept) != nil || len(kept.Value) == 0 {
		kept.Value = json.RawMessage("null")
	}
	r.Value, r.More = kept.Value, out.More
	return out.Content[1 : len(out.Content)-1], out.Truncated
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
