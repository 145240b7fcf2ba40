package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// longestLine bounds one line of a stream: an event or a line of a log.
const longestLine = 4 << 20

// Events yields the events of a run that come after the one with sequence after, 0 for all,
// as they happen, until the run has ended. It resumes by itself where the
// connection breaks off; it ends with an error where it cannot, or when ctx is done.
func (c *Client) Events(ctx context.Context, run contracts.RunID, after uint64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			before := after
			last, more, err := c.events(ctx, run, after, func(e Event) bool { return yield(e, nil) })
			switch after = last; {
			case err != nil:
				yield(Event{}, err)
				return
			case !more:
				return
			case after == before && !pause(ctx): // nothing came: no hurry
				yield(Event{}, ctx.Err())
				return
			}
		}
	}
}

// events follows one connection. It returns the sequence of the last event and whether there is reason to connect again.
func (c *Client) events(ctx context.Context, run contracts.RunID, after uint64, yield func(Event) bool) (last uint64, more bool, err error) {
	h := http.Header{"Accept": {"text/event-stream"}}
	if after > 0 {
		h.Set("Last-Event-ID", strconv.FormatUint(after, 10))
	}
	res, err := c.send(ctx, http.MethodGet, runPath(run)+"/events", h, nil)
	if err != nil {
		return after, false, err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusNoContent {
		return after, false, nil
	}
	lines := scan(res.Body)
	var e Event
	for lines.Scan() {
		key, value, _ := bytes.Cut(lines.Bytes(), []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(key) {
		case "id":
			if e.Seq, err = strconv.ParseUint(string(value), 10, 64); err != nil {
				return after, false, fmt.Errorf("read the events of %s: id %q: %w", run, value, err)
			}
		case "event":
			e.Type = string(value)
		case "data":
			e.Data = append(e.Data, value...)
		}
		if len(lines.Bytes()) > 0 || e.Data == nil {
			continue
		}
		after = e.Seq
		if !yield(e) || e.Type == "run.closed" || e.Type == "run.failed" {
			return after, false, nil
		}
		e = Event{}
	}
	switch {
	case ctx.Err() != nil:
		return after, false, ctx.Err()
	case errors.Is(lines.Err(), bufio.ErrTooLong):
		return after, false, fmt.Errorf("read the events of %s: %w", run, lines.Err())
	}
	return after, true, nil // the connection broke off
}

func pause(ctx context.Context) bool {
	t := time.NewTimer(time.Second)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Log yields the session log of a run. It ends with the first error.
func (c *Client) Log(ctx context.Context, run contracts.RunID) iter.Seq2[contracts.LogLine, error] {
	return func(yield func(contracts.LogLine, error) bool) {
		res, err := c.send(ctx, http.MethodGet, runPath(run)+"/log", nil, nil)
		if err != nil {
			yield(contracts.LogLine{}, err)
			return
		}
		defer res.Body.Close()
		lines := scan(res.Body)
		for lines.Scan() {
			var l contracts.LogLine
			if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
				yield(l, fmt.Errorf("read the log of %s: %w", run, err))
				return
			}
			if !yield(l, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(contracts.LogLine{}, fmt.Errorf("read the log of %s: %w", run, err))
		}
	}
}

func scan(r io.Reader) *bufio.Scanner {
	s := bufio.NewScanner(r)
	s.Buffer(nil, longestLine)
	return s
}
