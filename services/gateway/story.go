package gateway

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/toolcrib/toolcrib/internal/core/live"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// registerStory adds the routes that tell what happened in a run.
func (a *api) registerStory(r *routes) {
	type events struct {
		Run   string `path:"run" doc:"The run's id."`
		After string `header:"Last-Event-ID" maxLength:"20" pattern:"^[0-9]+$" doc:"The id of the last event that was had; events after it follow."`
	}
	add(r, operation{method: "GET", path: "/v1/runs/{run}/events", id: "streamEvents", tag: "story", scopes: readers(), or: http.StatusNoContent, form: "text/event-stream", text: "Follow the events of a run as server-sent events, until it ends. 204 where there are no more."},
		func(ctx context.Context, in *events) (*huma.StreamResponse, error) {
			return a.events(ctx, principalOf(ctx).tenant, in.Run, in.After)
		})
	add(r, operation{method: "GET", path: "/v1/runs/{run}/report", id: "showReport", tag: "story", scopes: readers(), text: "What the run saw, searched, called and saved."},
		func(ctx context.Context, in *runPath) (*body[contracts.Report], error) {
			t := principalOf(ctx).tenant
			rec, err := a.runs.get(ctx, t, in.Run)
			if err != nil {
				return nil, err
			}
			return answer(bus.Ask[contracts.Report](ctx, a.bus, t, contracts.VerbReport, contracts.ReportRequest{Run: rec.ID}))
		})
	add(r, operation{method: "GET", path: "/v1/runs/{run}/log", id: "showLog", tag: "story", scopes: readers(), form: "application/x-ndjson", text: "The session log of the run, as JSON lines."},
		func(ctx context.Context, in *runPath) (*huma.StreamResponse, error) {
			return a.log(ctx, principalOf(ctx).tenant, in.Run)
		})
	add(r, operation{method: "GET", path: "/v1/runs/{run}/discovered", id: "showDiscovered", tag: "story", scopes: readers(), text: "The tools that the run found so far."},
		func(ctx context.Context, in *runPath) (*body[client.Discovered], error) {
			tools, err := a.discovered(ctx, principalOf(ctx).tenant, in.Run)
			return answer(client.Discovered{Tools: tools}, err)
		})
}

// logPage asks for the lines of a run's log that come after one.
func (a *api) logPage(ctx context.Context, t contracts.TenantID, run contracts.RunID, after uint64) (contracts.LogAnswer, error) {
	page, err := bus.Ask[contracts.LogAnswer](ctx, a.bus, t, contracts.VerbLog, contracts.LogRequest{Run: run, After: after})
	if err == nil && page.More && (len(page.Lines) == 0 || page.Lines[len(page.Lines)-1].Seq <= after) {
		return page, contracts.Errorf(contracts.CodeInternal, "the log of %s does not go on after %d", run, after)
	}
	return page, err
}

// log streams the session log of a run.
func (a *api) log(ctx context.Context, t contracts.TenantID, run string) (*huma.StreamResponse, error) {
	rec, err := a.runs.get(ctx, t, run)
	if err != nil {
		return nil, err
	}
	page, err := a.logPage(ctx, t, rec.ID, 0)
	if err != nil {
		return nil, err
	}
	view := viewOf(principalOf(ctx))
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		_, w := humago.Unwrap(hc)
		w.Header().Set("Content-Type", "application/x-ndjson")
		out := json.NewEncoder(w)
		out.SetEscapeHTML(false)
		for {
			var last uint64
			for _, l := range page.Lines {
				last = l.Seq
				l.Event = view(l.Type, l.Event)
				if out.Encode(l) != nil {
					return // the reader has gone
				}
			}
			if !page.More {
				return
			}
			if page, err = a.logPage(ctx, t, rec.ID, last); err != nil {
				panic(http.ErrAbortHandler) // the reader must see that the log is not whole
			}
		}
	}}, nil
}

// discovered returns the tools that searches and describes of the run brought up, in that order, but for those that it may no longer see.
func (a *api) discovered(ctx context.Context, t contracts.TenantID, run string) ([]contracts.ToolID, error) {
	rec, err := a.runs.get(ctx, t, run)
	if err != nil {
		return nil, err
	}
	if live.Usable(rec) == nil {
		if rec, err = a.live.Current(ctx, t, rec.ID); err != nil {
			return nil, err
		}
	}
	found := []contracts.ToolID{}
	if rec.Plan == nil {
		return found, nil
	}
	cat, err := a.runs.library.Catalogue(ctx, t, rec.Plan.CatalogueBlob)
	if err != nil {
		return nil, err
	}
	seen := map[contracts.ToolID]bool{}
	take := func(id contracts.ToolID) {
		if _, gone := cat.Withdrawn[id]; !gone && !seen[id] {
			seen[id] = true
			found = append(found, id)
		}
	}
	for page := (contracts.LogAnswer{More: true}); page.More; {
		var after uint64
		if n := len(page.Lines); n > 0 {
			after = page.Lines[n-1].Seq
		}
		if page, err = a.logPage(ctx, t, rec.ID, after); err != nil {
			return nil, err
		}
		for _, l := range page.Lines {
			for _, id := range broughtUp(l) {
				take(id)
			}
		}
	}
	return found, nil
}

// broughtUp returns the tools that a line of a log shows to its run.
func broughtUp(l contracts.LogLine) []contracts.ToolID {
	switch l.Type {
	case "search":
		var e contracts.Searched
		json.Unmarshal(l.Event, &e)
		return e.Hits
	case "describe":
		var e contracts.Described
		if json.Unmarshal(l.Event, &e); e.Tool != "" {
			return []contracts.ToolID{e.Tool}
		}
	}
	return nil
}
