package gateway

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/toolcrib/toolcrib/internal/core/approvals"
	"github.com/toolcrib/toolcrib/internal/core/live"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// An api is the HTTP API. It translates; the desks do the work.
type api struct {
	bus       *bus.Bus
	runs      *runDesk
	calls     *callDesk
	policies  *policyTable
	live      *live.State
	approvals *approvals.Desk
	streams   chan struct{} // a slot for each open event stream
	quiet     time.Duration // after which such a stream gives a sign of life
	stopping  context.Context
}

// Who may use a route.
func callers() []string   { return []string{scopeRuns} }
func readers() []string   { return []string{scopeRuns, scopeRead} }
func operators() []string { return []string{scopeRead, scopeAdmin} }
func admins() []string    { return []string{scopeAdmin} }

// An operation is a route of the API and what its documentation says.
type operation struct {
	method, path, id, text string
	scopes                 []string
	status                 int    // of a good answer; 0 means 200
	or                     int    // another status of a good answer; 0 for none
	form                   string // of an answer that is no JSON
	tag                    string
}

// routes collects the operations of the API.
type routes struct {
	front *front
	huma  huma.API
}

// add adds an operation. What do returns as an error becomes a problem document.
func add[I, O any](r *routes, op operation, do func(context.Context, *I) (*O, error)) {
	h := huma.Operation{
		OperationID: op.id, Method: op.method, Path: op.path, Summary: op.text, Tags: []string{op.tag}, DefaultStatus: op.status,
		Description:     "Needs the scope " + strings.Join(op.scopes, " or ") + ".",
		Security:        []map[string][]string{{"key": {}}},
		MaxBodyBytes:    -1, // the front has read the body, with its own limits
		BodyReadTimeout: -1,
		Responses:       r.responses(op),

		RejectUnknownQueryParameters: true,
	}
	r.front.scopes[op.method+" "+op.path] = op.scopes
	huma.Register(r.huma, h, func(ctx context.Context, in *I) (*O, error) {
		out, err := do(ctx, in)
		if err == nil {
			return out, nil
		}
		p := problemOf(err)
		logProblem(r.front.log, p)
		return nil, p
	})
}

// responses describes what the operation answers beside its usual answer, and that one where it is no JSON.
func (r *routes) responses(op operation) map[string]*huma.Response {
	schemas := r.huma.OpenAPI().Components.Schemas
	content := func(form string, s *huma.Schema) map[string]*huma.MediaType {
		return map[string]*huma.MediaType{form: {Schema: s}}
	}
	out := map[string]*huma.Response{"default": {
		Description: "An error.", Content: content(problemType, schemas.Schema(reflect.TypeFor[client.Problem](), true, "")),
	}}
	if op.form != "" {
		out["200"] = &huma.Response{Description: "OK", Content: content(op.form, &huma.Schema{Type: huma.TypeString})}
	}
	switch op.or {
	case http.StatusAccepted:
		out["202"] = &huma.Response{
			Description: "The call has not ended.", Content: content("application/json", schemas.Schema(reflect.TypeFor[client.CallAnswer](), true, "")),
		}
	case http.StatusNoContent:
		out["204"] = &huma.Response{Description: "There is nothing more."}
	}
	return out
}

// register adds all routes of the API to the front.
func (a *api) register(f *front, version string) {
	cfg := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info:    &huma.Info{Title: "Toolcrib", Version: version, Description: "The tool crib for AI agents: runs, search and calls."},
			Components: &huma.Components{
				Schemas:         huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
				SecuritySchemes: map[string]*huma.SecurityScheme{"key": {Type: "http", Scheme: "bearer", Description: "An API key, or a token (JWT) of the tenant's issuer. Without configured tenants only administering needs one: the text of DATA/admin.token."}},
			},
		},
		Formats: huma.DefaultFormats, DefaultFormat: "application/json",
		Transformers: []huma.Transformer{asProblem},
	}
	r := &routes{f, humago.New(f.mux, cfg)}
	a.registerRuns(r)
	a.registerCalls(r)
	a.registerStory(r)
	a.registerAdmin(r)
	a.registerApprovals(r)
	a.registerTools(r)
	a.registerRuling(r)
	delete(r.huma.OpenAPI().Components.Schemas.Map(), "ErrorModel") // huma's own form of an error
	delete(r.huma.OpenAPI().Components.Schemas.Map(), "ErrorDetail")
	f.handle("GET /openapi.yaml", nil, document(r.huma))
}

// asProblem turns huma's own errors into problem documents.
func asProblem(_ huma.Context, _ string, v any) (any, error) {
	if m, ok := v.(*huma.ErrorModel); ok {
		return problemOfHuma(m), nil
	}
	return v, nil
}

// document serves the description of the API.
func document(api huma.API) http.Handler {
	text, err := api.OpenAPI().YAML()
	if err != nil {
		panic(fmt.Sprintf("describe the API: %v", err)) // the types of the API cannot be described: a mistake of ours
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		w.Write(text)
	})
}

// A runPath is the path of a run.
type runPath struct {
	Run string `path:"run" doc:"The run's id."`
}

// A callPath is the path of a call.
type callPath struct {
	Run  string `path:"run" doc:"The run's id."`
	Call string `path:"call" doc:"The call's id."`
}

// A body is an answer.
type body[T any] struct{ Body T }

type nothing struct{}

func (a *api) registerRuns(r *routes) {
	add(r, operation{method: "POST", path: "/v1/runs", id: "openRun", tag: "runs", scopes: callers(), status: http.StatusCreated, text: "Open a run."},
		func(ctx context.Context, in *body[*client.RunOptions]) (*body[*client.RunView], error) {
			who := principalOf(ctx)
			if in.Body == nil { // nothing is wished
				in.Body = &client.RunOptions{}
			}
			rec, err := a.runs.open(ctx, who, *in.Body)
			if err != nil {
				return nil, err
			}
			return answer(a.runs.view(ctx, who.tenant, rec))
		})
	type query struct {
		State string `query:"state" enum:"requested,planned,failed,closed" doc:"Only runs in this state."`
		Limit int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"Most runs in the answer."`
	}
	add(r, operation{method: "GET", path: "/v1/runs", id: "listRuns", tag: "runs", scopes: readers(), text: "List the newest runs."},
		func(ctx context.Context, in *query) (*body[client.RunList], error) {
			runs, err := a.runs.list(ctx, principalOf(ctx).tenant, contracts.RunState(in.State), in.Limit)
			return answer(client.RunList{Runs: runs}, err)
		})
	add(r, operation{method: "GET", path: "/v1/runs/{run}", id: "showRun", tag: "runs", scopes: readers(), text: "Show a run."},
		func(ctx context.Context, in *runPath) (*body[*client.RunView], error) {
			t := principalOf(ctx).tenant
			rec, err := a.runs.get(ctx, t, in.Run)
			if err != nil {
				return nil, err
			}
			return answer(a.runs.view(ctx, t, rec))
		})
	add(r, operation{method: "DELETE", path: "/v1/runs/{run}", id: "closeRun", tag: "runs", scopes: callers(), status: http.StatusNoContent, text: "Close a run. Calls on their way are cancelled."},
		func(ctx context.Context, in *runPath) (*nothing, error) {
			t := principalOf(ctx).tenant
			rec, err := a.runs.get(ctx, t, in.Run)
			if err != nil {
				return nil, err
			}
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyWithin)
			defer cancel()
			return &nothing{}, a.runs.close(ctx, t, rec.ID)
		})
}

// answer returns v as the body of an answer.
func answer[T any](v T, err error) (*body[T], error) {
	if err != nil {
		return nil, err
	}
	return &body[T]{v}, nil
}

// A callResponse is 200 with an outcome, or 202 with how the call stands.
type callResponse struct {
	Status   int
	Location string `header:"Location"`
	Body     *client.CallAnswer
}

func callAnswer(ca *client.CallAnswer, err error) (*callResponse, error) {
	if err != nil {
		return nil, err
	}
	if ca.Final() {
		return &callResponse{Status: http.StatusOK, Body: ca}, nil
	}
	return &callResponse{http.StatusAccepted, ca.Href, ca}, nil
}

// A callInput is a request to call a tool.
type callInput struct {
	Run    string   `path:"run" doc:"The run's id."`
	Key    string   `header:"Idempotency-Key" maxLength:"255" doc:"Equal keys of one principal in a run are the same call, made once: sent again, its answer comes again. 409 where it is another call. Printable ASCII."`
	Prefer []string `header:"Prefer" doc:"wait=N: seconds to wait for the end of the call, 0 to 300. Default 30."`
	Body   client.CallRequest
}

// Resolve refuses what stands for no key or for several: who sends one believes that the call is made once.
func (*callInput) Resolve(ctx huma.Context) []error {
	const field, want = "header.Idempotency-Key", "want one header with 1 to 255 printable ASCII characters"
	r, _ := humago.Unwrap(ctx)
	keys := r.Header.Values("Idempotency-Key")
	switch {
	case len(keys) > 1:
		return []error{&huma.ErrorDetail{Location: field, Message: fmt.Sprintf("there are %d; %s", len(keys), want)}}
	case len(keys) == 1 && (keys[0] == "" || strings.ContainsFunc(keys[0], func(c rune) bool { return c < ' ' || c > '~' })):
		return []error{&huma.ErrorDetail{Location: field, Message: fmt.Sprintf("is %q; %s", clip(keys[0]), want)}}
	}
	return nil
}

func (a *api) registerCalls(r *routes) {
	add(r, operation{method: "POST", path: "/v1/runs/{run}/calls", id: "call", tag: "calls", scopes: callers(), or: http.StatusAccepted, text: "Call a tool by its exposed name. 202 where it takes longer, or where the caller is to run its own tool."},
		func(ctx context.Context, in *callInput) (*callResponse, error) {
			wait, err := preferredWait(in.Prefer, 30*time.Second)
			if err != nil {
				return nil, err
			}
			who := principalOf(ctx)
			ca, err := a.calls.call(ctx, who.tenant, in.Run, call{name: in.Body.Name, args: in.Body.Arguments, by: who.name, key: in.Key, wait: wait})
			if err == nil {
				ca.ID = in.Body.ID
			}
			return callAnswer(ca, err)
		})
	type look struct {
		Run    string   `path:"run" doc:"The run's id."`
		Call   string   `path:"call" doc:"The call's id."`
		Prefer []string `header:"Prefer" doc:"wait=N: seconds to wait for the end of the call, 0 to 300. Default 0."`
	}
	add(r, operation{method: "GET", path: "/v1/runs/{run}/calls/{call}", id: "showCall", tag: "calls", scopes: readers(), or: http.StatusAccepted, text: "Look at a call again. 202 while it has not ended."},
		func(ctx context.Context, in *look) (*callResponse, error) {
			wait, err := preferredWait(in.Prefer, 0)
			if err != nil {
				return nil, err
			}
			return callAnswer(a.calls.state(ctx, principalOf(ctx).tenant, in.Run, in.Call, wait))
		})
	type result struct {
		Run  string `path:"run" doc:"The run's id."`
		Call string `path:"call" doc:"The call's id."`
		Body client.ClientResult
	}
	add(r, operation{method: "POST", path: "/v1/runs/{run}/calls/{call}/result", id: "postResult", tag: "calls", scopes: callers(), text: "Give the result of the caller's own tool."},
		func(ctx context.Context, in *result) (*callResponse, error) {
			return callAnswer(a.calls.result(ctx, principalOf(ctx).tenant, in.Run, in.Call, in.Body))
		})
	add(r, operation{method: "DELETE", path: "/v1/runs/{run}/calls/{call}", id: "cancelCall", tag: "calls", scopes: callers(), status: http.StatusAccepted, text: "Cancel a call. The answer is how it stands."},
		func(ctx context.Context, in *callPath) (*body[*client.CallAnswer], error) {
			return answer(a.calls.cancel(ctx, principalOf(ctx).tenant, in.Run, in.Call))
		})
}

// longestPrefer bounds the wait that a caller can prefer.
const longestPrefer = 300

// preferredWait returns the wait of Prefer headers (RFC 7240), at most 300 s. Other preferences are passed over.
func preferredWait(headers []string, otherwise time.Duration) (time.Duration, error) {
	for p := range strings.FieldsFuncSeq(strings.Join(headers, ","), func(r rune) bool { return r == ',' || r == ';' }) {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		if !strings.EqualFold(strings.TrimSpace(name), "wait") {
			continue
		}
		n, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 31)
		if err != nil {
			return 0, wrong("Prefer", "wait is %q; want seconds from 0 to %d", clip(value), longestPrefer)
		}
		return time.Duration(min(n, longestPrefer)) * time.Second, nil
	}
	return otherwise, nil
}
