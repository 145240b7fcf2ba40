package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const (
	mostStreams = 500              // event streams at once
	heartbeat   = 15 * time.Second // between signs of life in a quiet stream
)

// events streams the events of a run that come after the sequence in after, "" for all.
func (a *api) events(ctx context.Context, t contracts.TenantID, run, after string) (*huma.StreamResponse, error) {
	rec, err := a.runs.get(ctx, t, run)
	if err != nil {
		return nil, err
	}
	var last uint64
	if after != "" {
		if last, err = strconv.ParseUint(after, 10, 63); err != nil {
			return nil, wrong("Last-Event-ID", "is %q; want the id of an event", clip(after))
		}
	}
	over, err := a.over(ctx, t, rec, last)
	if err != nil {
		return nil, err
	}
	if over {
		return &huma.StreamResponse{Body: func(hc huma.Context) { hc.SetStatus(http.StatusNoContent) }}, nil
	}
	select {
	case a.streams <- struct{}{}:
	default:
		return nil, contracts.Errorf(contracts.CodeRateLimited, "there are %d event streams open already", cap(a.streams)).After(5 * time.Second)
	}
	// The slot is free again when the request ends, whatever becomes of the stream.
	context.AfterFunc(ctx, func() { <-a.streams })
	cfg := jetstream.OrderedConsumerConfig{FilterSubjects: []string{contracts.RunEvents(t, rec.ID)}, DeliverPolicy: jetstream.DeliverAllPolicy}
	if last > 0 {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, last+1
	}
	consumer, done, err := a.bus.Read(ctx, contracts.StreamEvents, cfg)
	if err != nil {
		return nil, fmt.Errorf("follow the events of %s: %w", rec.ID, err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		done()
		return nil, fmt.Errorf("follow the events of %s: %w", rec.ID, err)
	}
	view := viewOf(principalOf(ctx))
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		defer done()
		_, w := humago.Unwrap(hc)
		a.stream(ctx, w, messages, view)
	}}, nil
}

// viewOf returns what of an event of a type the principal may see: all of it who may look at everything, and else what a run's caller may.
func viewOf(p principal) func(string, json.RawMessage) json.RawMessage {
	if p.may(operators()) {
		return func(_ string, data json.RawMessage) json.RawMessage { return data }
	}
	return contracts.ForCaller
}

// over reports whether a run has no events after sequence last and will have none.
func (a *api) over(ctx context.Context, t contracts.TenantID, rec *contracts.Run, last uint64) (bool, error) {
	var end contracts.Event
	switch rec.State {
	case contracts.RunStateClosed:
		end = contracts.RunClosed{Run: rec.ID}
	case contracts.RunStateFailed:
		end = contracts.RunFailed{Run: rec.ID}
	default:
		return false, nil
	}
	s, err := a.bus.JS.Stream(ctx, contracts.StreamEvents)
	if err != nil {
		return false, fmt.Errorf("open the events: %w", err)
	}
	m, err := s.GetLastMsgForSubject(ctx, end.Subject(t))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return len(rec.Unsent) == 0, nil // the events are no longer kept, or this one is not sent yet
	}
	if err != nil {
		return false, fmt.Errorf("read the end of %s: %w", rec.ID, err)
	}
	return m.Sequence <= last, nil
}

// stream writes events until the run ends, the reader goes or is too slow, its credential expires, or the service stops.
func (a *api) stream(ctx context.Context, w http.ResponseWriter, messages jetstream.MessagesContext, view func(string, json.RawMessage) json.RawMessage) {
	defer messages.Stop()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	ctx, cancel := principalOf(ctx).during(ctx)
	defer cancel()
	defer context.AfterFunc(a.stopping, cancel)()
	out := &eventWriter{w: w, flush: http.NewResponseController(w).Flush, view: view}
	out.comment("events") // so that the reader sees the answer begin
	for out.err == nil && ctx.Err() == nil {
		m, err := next(ctx, messages, a.quiet)
		switch {
		case errors.Is(err, errQuiet):
			out.comment("still here")
		case err != nil:
			return
		case out.event(m):
			return
		}
	}
}

var errQuiet = errors.New("nothing happened")

// next returns the next message, or errQuiet where none comes for a while.
func next(ctx context.Context, messages jetstream.MessagesContext, quiet time.Duration) (jetstream.Msg, error) {
	wait, cancel := context.WithTimeout(ctx, quiet)
	defer cancel()
	m, err := messages.Next(jetstream.NextContext(wait))
	if err != nil && wait.Err() != nil && ctx.Err() == nil {
		return nil, errQuiet
	}
	return m, err
}

// An eventWriter writes server-sent events. Once err is set it writes nothing.
type eventWriter struct {
	w     io.Writer
	flush func() error
	view  func(string, json.RawMessage) json.RawMessage
	err   error
}

func (e *eventWriter) comment(text string) { e.write(": " + text + "\n\n") }

// event writes the event and reports whether it is the last one of its run.
func (e *eventWriter) event(m jetstream.Msg) (last bool) {
	s, err := contracts.ParseSubject(m.Subject())
	if err != nil {
		return false
	}
	meta, err := m.Metadata()
	if err != nil {
		return false
	}
	var data bytes.Buffer
	if json.Compact(&data, e.view(s.Type, m.Data())) != nil { // which also takes the line ends out
		return false
	}
	e.write(fmt.Sprintf("id: %d\nevent: %s\ndata: %s\n\n", meta.Sequence.Stream, s.Type, data.Bytes()))
	return s.Type == "run.closed" || s.Type == "run.failed"
}

func (e *eventWriter) write(text string) {
	if e.err != nil {
		return
	}
	if _, e.err = io.WriteString(e.w, text); e.err == nil {
		e.err = e.flush()
	}
}
