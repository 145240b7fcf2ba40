package gateway_test

import (
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/gateway"
)

// TestStop sees that a stop answers what waits, ends sessions and closes their runs, and leaves other runs open.
func TestStop(t *testing.T) {
	w := open(t, gateway.Config{})
	run := w.openRun(t, client.RunOptions{}).ID
	w.connect(t, "/mcp", nil)
	ofSession := w.newest(t).ID
	answered := make(chan answer, 1)
	go func() {
		answered <- w.do(t, "POST", "/v1/runs/"+string(run)+"/calls", `{"name":"slow"}`, "Prefer", "wait=300")
	}()
	await(t, "the tool runs", func() bool {
		running := false
		w.calls.List(t.Context(), "local."+string(run)+".>", func(_ contracts.Key, c *contracts.Call) error {
			running = c.State == contracts.CallStateRunning
			return nil
		})
		return running
	})
	begun := time.Now()
	if err := w.stop(); err != nil {
		t.Errorf("Run() = %v, want nil", err)
	}
	if took := time.Since(begun); took > 9*time.Second {
		t.Errorf("the stop took %v", took)
	}
	if a := <-answered; a.status != 202 {
		t.Errorf("a call that was waited for when the service stopped = %d %s, want 202", a.status, a.body)
	}
	if got := w.runState(t, "local", ofSession); got != contracts.RunStateClosed {
		t.Errorf("the session's run is %s, want closed", got)
	}
	if got := w.runState(t, "local", run); got != contracts.RunStatePlanned {
		t.Errorf("the run opened over HTTP is %s, want planned", got)
	}
	// Another process goes on where this one stopped.
	next := openOn(t, w.bus, w.standIns, gateway.Config{})
	w.release <- struct{}{}
	await(t, "the call has ended", func() bool {
		n := 0
		next.calls.List(t.Context(), "local."+string(run)+".>", func(_ contracts.Key, c *contracts.Call) error {
			if c.State == contracts.CallStateFinished {
				n++
			}
			return nil
		})
		return n == 1
	})
	if v, err := next.client.Run(t.Context(), run); err != nil || v.State != contracts.RunStatePlanned {
		t.Errorf("the run at the next service = %+v, %v", v, err)
	}
}
