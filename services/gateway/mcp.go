package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/nats-io/nats.go"

	"github.com/toolcrib/toolcrib/internal/core/control"
	"github.com/toolcrib/toolcrib/internal/kit/trace"
	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// Headers of MCP requests.
const (
	headerSessionID = "Mcp-Session-Id"
	headerMode      = "Toolcrib-Mode"
	headerAgent     = "Toolcrib-Agent"
	headerSession   = "Toolcrib-Session"
)

// callGrace is how long after its limit the outcome of a call is waited for.
const callGrace = 5 * time.Second

// An mcpFront serves MCP: each session is a run, opened by initialize and closed with the session. One server of the
// SDK serves all sessions; what differs between them is answered before it is asked.
type mcpFront struct {
	runs     *runDesk
	calls    *callDesk
	sessions *sessions
	handler  http.Handler
	log      *slog.Logger
}

func newMCPFront(cfg Config, runs *runDesk, calls *callDesk, log *slog.Logger) *mcpFront {
	m := &mcpFront{runs: runs, calls: calls, log: log}
	m.sessions = newSessions(cfg.MaxSessions, m.closeRun)
	server := mcp.NewServer(&mcp.Implementation{Name: "toolcrib", Title: "Toolcrib", Version: cfg.Version}, &mcp.ServerOptions{
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
	})
	server.AddReceivingMiddleware(m.receive)
	m.handler = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{
		SessionTimeout: cfg.SessionIdle, MaxRequestBodyBytes: mostBody,
		DisableLocalhostProtection: true, // the front has checked it
	})
	return m
}

// An opening is what an initialize request says beside its body.
type opening struct {
	who     principal
	options client.RunOptions
}

type openingKey struct{}

func (m *mcpFront) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	who := principalOf(r.Context())
	if r.Method == http.MethodPost && answeredHere(w, r) {
		return
	}
	id := r.Header.Get(headerSessionID)
	if id == "" {
		o := opening{who, client.RunOptions{
			Profile: r.PathValue("profile"), Agent: r.Header.Get(headerAgent), Session: r.Header.Get(headerSession),
		}}
		if mode := firstOf(r.URL.Query().Get("mode"), r.Header.Get(headerMode)); mode != "" {
			o.options.Mode = mode
		}
		m.handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), openingKey{}, o)))
		return
	}
	s := m.sessions.get(id)
	if s == nil || !s.who.same(who) {
		http.Error(w, "session not found", http.StatusNotFound)
		return
	}
	if r.Method == http.MethodDelete {
		s.cancel() // the SDK waits for calls on their way
	}
	if r.Method == http.MethodGet {
		ctx, cancel := who.during(r.Context())
		defer cancel()
		defer context.AfterFunc(m.calls.stopping, cancel)()
		r = r.WithContext(ctx)
	}
	m.handler.ServeHTTP(w, r)
}

func firstOf(texts ...string) string {
	for _, s := range texts {
		if s != "" {
			return s
		}
	}
	return ""
}

// receive answers what depends on the run of a session.
func (m *mcpFront) receive(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		ss, ok := req.GetSession().(*mcp.ServerSession)
		if !ok {
			return next(ctx, method, req)
		}
		if extra := req.GetExtra(); extra != nil {
			ctx = trace.Extract(ctx, nats.Header(extra.Header))
		}
		ctx, end := trace.Start(ctx, "mcp "+method)
		res, err := m.dispatch(ctx, ss, method, req, next)
		end(err)
		return res, err
	}
}

func (m *mcpFront) dispatch(ctx context.Context, ss *mcp.ServerSession, method string, req mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
	if params, ok := req.GetParams().(*mcp.InitializeParams); ok && method == "initialize" && m.sessions.get(ss.ID()) == nil {
		return m.initialize(ctx, ss, params, func() (mcp.Result, error) { return next(ctx, method, req) })
	}
	s := m.sessions.get(ss.ID())
	if s == nil {
		return next(ctx, method, req)
	}
	defer s.use()()
	switch params := req.GetParams().(type) {
	case *mcp.ListToolsParams:
		return s.tools, nil
	case *mcp.CallToolParamsRaw:
		return m.call(ctx, s, params)
	}
	return next(ctx, method, req)
}

// initialize opens the run of a new session.
func (m *mcpFront) initialize(ctx context.Context, ss *mcp.ServerSession, params *mcp.InitializeParams, next func() (mcp.Result, error)) (mcp.Result, error) {
	o, ok := ctx.Value(openingKey{}).(opening)
	if !ok {
		return nil, rpcError(contracts.Errorf(contracts.CodeInvalid, "initialize: it opens a session and cannot be sent in one"))
	}
	options := o.options
	if params.ClientInfo != nil {
		options.Runtime = params.ClientInfo.Name
	}
	if err := checkLabels(options); err != nil {
		return nil, rpcError(err)
	}
	view, err := m.open(ctx, ss, o.who, options)
	if err != nil {
		logProblem(m.log, problemOf(err))
		return nil, rpcError(err)
	}
	res, err := next()
	if r, ok := res.(*mcp.InitializeResult); ok && err == nil {
		r.Instructions = view.Prompt
	}
	return res, err
}

// open opens a run and makes it that of the session.
func (m *mcpFront) open(ctx context.Context, ss *mcp.ServerSession, who principal, options client.RunOptions) (*client.RunView, error) {
	if err := m.sessions.reserve(who.tenant); err != nil {
		return nil, err
	}
	rec, err := m.runs.open(ctx, who, options)
	if err != nil {
		m.sessions.release()
		return nil, err
	}
	s := &session{ss: ss, who: who, run: rec.ID}
	view, err := m.runs.view(ctx, who.tenant, rec)
	if err == nil {
		s.tools = modelTools(view.Tools)
		err = m.sessions.add(s)
	}
	if err != nil {
		m.sessions.release()
		m.closeRun(s)
		return nil, err
	}
	return view, nil
}

// checkLabels refuses labels from headers, paths and client names that the HTTP API would refuse.
func checkLabels(o client.RunOptions) error {
	for name, v := range map[string]string{"profile": o.Profile, headerAgent: o.Agent, headerSession: o.Session, "clientInfo.name": o.Runtime} {
		if len(v) > longestLabel {
			return wrong(name, "has %d bytes; want at most %d", len(v), longestLabel)
		}
	}
	return nil
}

// modelTools returns the answer to tools/list: the surface's tools in their order.
func modelTools(tools []contracts.ModelTool) *mcp.ListToolsResult {
	r := &mcp.ListToolsResult{Tools: make([]*mcp.Tool, 0, len(tools))}
	for _, t := range tools {
		r.Tools = append(r.Tools, &mcp.Tool{Name: t.Name, Description: t.Description, InputSchema: t.InputSchema})
	}
	return r
}

// closeRun closes the run of a session that ended.
func (m *mcpFront) closeRun(s *session) {
	ctx, cancel := context.WithTimeout(context.Background(), tidyWithin)
	defer cancel()
	if err := m.runs.close(ctx, s.who.tenant, s.run); err != nil {
		m.log.Error("run not closed", "run", s.run, "err", err) // it expires
	}
}

// call makes a call of the session's run.
func (m *mcpFront) call(ctx context.Context, s *session, params *mcp.CallToolParamsRaw) (mcp.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	t := s.who.tenant
	q := call{name: params.Name, args: params.Arguments, wait: m.calls.timeouts(t) + callGrace, patient: true}
	if s.asksItsUser() {
		defer m.elicit(ctx, s, &q)()
	}
	a, err := m.calls.call(ctx, t, string(s.run), q)
	if err != nil {
		logProblem(m.log, problemOf(err))
		return nil, rpcError(err)
	}
	if !a.Final() && ctx.Err() != nil {
		tidy, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyWithin)
		defer cancel()
		if _, err := m.calls.cancel(tidy, t, string(s.run), string(a.CallID)); err != nil {
			m.log.Error("call not cancelled", "call", a.CallID, "err", err)
		} else if ended, err := m.calls.state(tidy, t, string(s.run), string(a.CallID), tidyWithin/2); err == nil {
			a = ended
		}
	}
	return toolResult(a)
}

// toolResult returns an answer in MCP's form. What a tool answered, or came of a body, passes as it is; everything else is told as text.
func toolResult(a *client.CallAnswer) (mcp.Result, error) {
	answered := a.Status == contracts.StatusOK ||
		a.Status == contracts.StatusError && a.Error != nil && (a.Error.Code == contracts.CodeToolError || a.Error.Code == contracts.CodeBodyFailed)
	res := a.Result
	if !answered || res == nil {
		text, err := compact(a)
		if err != nil {
			return nil, err
		}
		res = contracts.TextResult(string(text), nil)
		res.IsError = a.Status != contracts.StatusOK
	}
	content := res.Content
	if content == nil {
		content = []json.RawMessage{}
	}
	out := struct {
		Meta              map[string]any    `json:"_meta,omitempty"`
		Content           []json.RawMessage `json:"content"`
		StructuredContent json.RawMessage   `json:"structuredContent,omitempty"`
		IsError           bool              `json:"isError,omitempty"`
	}{nil, content, res.StructuredContent, res.IsError}
	out.Meta = map[string]any{}
	if res.More != nil {
		out.Meta["toolcrib/more"] = res.More
	}
	if len(a.Repaired) > 0 {
		out.Meta["toolcrib/repaired"] = a.Repaired
	}
	ofBody := a.Tool != nil && a.Tool.ID == control.ID(control.Code) // which says itself what was cut
	if res.Truncated != "" && !ofBody {
		out.StructuredContent = withNote(res.StructuredContent, res.Truncated)
	}
	body, err := compact(out)
	if err != nil {
		return nil, err
	}
	return &rawResult{body: body}, nil
}

// noteKey is the member of cut structured content that says so.
const noteKey = "_toolcrib"

// withNote adds to a cut object what was cut of it and how to read on: some clients show a model nothing else of a result.
func withNote(object json.RawMessage, note string) json.RawMessage {
	members, ok := bytes.CutSuffix(bytes.TrimSpace(object), []byte("}"))
	if !ok || !isObject(object) {
		return object
	}
	said, err := compact(map[string]string{noteKey: note})
	if err != nil {
		return object
	}
	if members = bytes.TrimSpace(members); len(members) > 1 {
		return slices.Concat(members, []byte(","), said[1:])
	}
	return said
}

// A rawResult is the result of a call as its source wrote it: also content of types that the SDK does not know.
type rawResult struct {
	mcp.ResultBase
	body json.RawMessage
}

func (r *rawResult) MarshalJSON() ([]byte, error) { return r.body, nil }

// rpcError returns err as JSON-RPC has it.
func rpcError(err error) error {
	e := contracts.AsError(err)
	data, _ := json.Marshal(e)
	return &jsonrpc.Error{Code: int64(contracts.InfoOf(e.Code).MCP), Message: e.Message, Data: data}
}
