package gateway_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolcrib/toolcrib/internal/core/calls"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// sandbox takes bodies and ends each as its text says.
func (s *standIns) sandbox(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	return s.bus.Serve(ctx, "sandbox", bus.Answers(contracts.VerbSandbox,
		func(context.Context, contracts.TenantID, contracts.SandboxRequest) (contracts.SandboxAnswer, error) {
			return contracts.SandboxAnswer{Ready: true, Layers: []string{"seccomp"}}, nil
		}), bus.Answers(contracts.VerbBody,
		func(hctx context.Context, t contracts.TenantID, q contracts.BodyRequest) (contracts.BodyAnswer, error) {
			key := contracts.BodyKey(t, q.Run, q.Body)
			rec, err := s.bodies.Get(hctx, key)
			if err != nil {
				return contracts.BodyAnswer{}, err
			}
			switch rec.Code {
			case "busy":
				return contracts.BodyAnswer{}, contracts.Errorf(contracts.CodeRateLimited, "too many bodies").After(2 * time.Second)
			case "no engine":
				return contracts.BodyAnswer{}, contracts.Errorf(contracts.CodeUnavailable, "the sandbox has no engine")
			}
			cancelled := make(chan *nats.Msg, 1)
			sub, err := s.bus.Conn.ChanSubscribe(contracts.BodyCancelSubject(t, q.Body), cancelled)
			if err != nil {
				return contracts.BodyAnswer{}, err
			}
			if err := s.changeBody(hctx, key, func(rec *contracts.Body) { rec.State, rec.Owner = contracts.BodyStateRunning, "stand-in" }); err != nil {
				return contracts.BodyAnswer{}, err
			}
			running.Go(func() {
				defer sub.Unsubscribe()
				end, err := s.runBody(ctx, t, rec, cancelled)
				if err == nil {
					_, err = s.bodies.End(ctx, key, end, 0, func(*contracts.Body) error { return nil })
				}
				if err != nil && ctx.Err() == nil {
					panic(err)
				}
			})
			return contracts.BodyAnswer{Owner: "stand-in"}, nil
		}))
}

func (s *standIns) changeBody(ctx context.Context, key contracts.Key, change func(*contracts.Body)) error {
	_, err := s.bodies.Change(ctx, key, func(rec *contracts.Body) ([]contracts.Event, error) {
		change(rec)
		if len(rec.Waits) > 0 {
			return []contracts.Event{contracts.BodyWaiting{At: time.Now().UTC(), Run: rec.Run, Body: rec.ID, Calls: rec.Waits}}, nil
		}
		return nil, nil
	})
	return err
}

func (s *standIns) runBody(ctx context.Context, t contracts.TenantID, rec *contracts.Body, cancelled <-chan *nats.Msg) (contracts.BodyEnd, error) {
	r := contracts.BodyResult{
		Logs: []contracts.BodyLog{{Level: "log", Text: "<began>"}}, Calls: []contracts.BodyCall{},
		Telemetry: contracts.BodyTelemetry{CatalogSize: 4, Sources: map[contracts.SourceKind]int{contracts.SourceMCP: 4}},
	}
	made := contracts.BodyCall{ID: "mcp:calendar:create_event", CallID: contracts.BodyCallID(rec.Run, rec.ID, 1), Status: contracts.StatusOK, Ms: 3}
	failed := func(e contracts.BodyError) (contracts.BodyEnd, error) {
		r.Error = &e
		return contracts.BodyEnd{Result: &r}, nil
	}
	var end contracts.BodyEnd
	switch word, _, _ := strings.Cut(rec.Code, " "); word {
	case "throw":
		return failed(contracts.BodyError{Name: "TypeError", Message: "x is <not> a function", Line: 2, Column: 7, Code: contracts.BodyException})
	case "act":
		r.Calls, r.Telemetry.Calls = append(r.Calls, made), 1
		if rec.Code == "act and throw" {
			return failed(contracts.BodyError{Message: "longer than 10 s", Code: contracts.BodyTimeout})
		}
	case "image":
		end.Content = []json.RawMessage{json.RawMessage(`{"type":"image","data":"AA==","mimeType":"image/png"}`)}
	case "slow":
		select {
		case <-s.release:
		case <-cancelled:
			r.Calls = append(r.Calls, made)
			return failed(contracts.BodyError{Message: "the body was cancelled", Code: contracts.BodyCancelled})
		case <-ctx.Done():
			return end, ctx.Err()
		}
	case "ask":
		var err error
		if r.Value, err = s.askClient(ctx, t, rec, strings.Fields(rec.Code)[1:]); err != nil {
			return end, err
		}
		r.OK = true
		return contracts.BodyEnd{Result: &r}, nil
	}
	r.OK = true
	r.Value, _ = json.Marshal(map[string]any{"code": rec.Code, "timeoutMs": rec.TimeoutMs})
	end.Result = &r
	return end, nil
}

// askClient calls tools of the caller all at once and returns their texts.
func (s *standIns) askClient(ctx context.Context, t contracts.TenantID, rec *contracts.Body, tools []string) (json.RawMessage, error) {
	key := contracts.BodyKey(t, rec.Run, rec.ID)
	var asked []*calls.Pending
	var ids []contracts.CallID
	for i, tool := range tools {
		p, err := s.caller.Start(ctx, t, rec.Run, calls.Request{
			Tool: tool, Args: json.RawMessage(`{"n":"` + tool + `"}`), ID: contracts.BodyCallID(rec.Run, rec.ID, i+1), Deadline: time.Now().Add(time.Minute), Body: rec.ID,
		})
		if err != nil {
			return nil, err
		}
		defer p.Close()
		if _, err := p.Await(ctx); err != nil { // until it waits
			return nil, err
		}
		asked, ids = append(asked, p), append(ids, p.ID)
	}
	if err := s.changeBody(ctx, key, func(rec *contracts.Body) { rec.State, rec.Waits = contracts.BodyStateWaiting, ids }); err != nil {
		return nil, err
	}
	texts := map[string]string{}
	for i, p := range asked {
		c, err := p.AwaitEnd(ctx, func(contracts.WaitsFor) {})
		if err != nil || ctx.Err() != nil {
			return nil, ctx.Err()
		}
		texts[tools[i]] = text(c.Outcome.Result)
	}
	if err := s.changeBody(ctx, key, func(rec *contracts.Body) { rec.State, rec.Waits = contracts.BodyStateRunning, nil }); err != nil {
		return nil, err
	}
	return json.Marshal(texts)
}
