package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/nats-io/nats.go"

	"github.com/toolcrib/toolcrib/internal/core/approvals"
	"github.com/toolcrib/toolcrib/internal/core/names"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// shownElicited is how many characters of the arguments stand in a question to the user of an MCP client.
const shownElicited = 2000

// asksItsUser reports whether approvals of the session's calls can be decided by the user of its client: whoever opened it may
// decide, and the client can ask. A session without a credential may not, or a tool that reaches this service could approve its own calls.
func (s *session) asksItsUser() bool {
	p := s.ss.InitializeParams()
	if p == nil || p.Capabilities == nil || p.Capabilities.Elicitation == nil {
		return false
	}
	form := p.Capabilities.Elicitation.Form != nil || p.Capabilities.Elicitation.URL == nil
	return form && s.who.may([]string{scopeApprove})
}

// elicit has the user of the session's client asked about each approval that the call q, or the body that it is, waits for
// while ctx lasts. Others can decide meanwhile: the question is then taken back. Call stop once q has ended.
func (m *mcpFront) elicit(ctx context.Context, s *session, q *call) (stop func()) {
	news := make(chan *nats.Msg, 128)
	sub, err := m.calls.bus.Conn.ChanSubscribe(contracts.ApprovalStates(s.who.tenant, s.run), news)
	if err != nil { // somebody can decide elsewhere
		m.log.Error("approvals are not asked of the MCP client", "run", s.run, "err", err)
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	started := make(chan contracts.CallID, 1)
	q.started = func(id contracts.CallID) { started <- id }
	go func() {
		select {
		case id := <-started:
			m.hear(ctx, s, id, news)
		case <-ctx.Done():
		}
	}()
	return func() { sub.Unsubscribe(); cancel() }
}

// hear asks about the approvals of a call, as they are told in news.
func (m *mcpFront) hear(ctx context.Context, s *session, id contracts.CallID, news <-chan *nats.Msg) {
	asked := map[contracts.ApprovalID]context.CancelFunc{}
	settled := func(a contracts.ApprovalID) {
		if cancel := asked[a]; cancel != nil {
			cancel()
		}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case msg := <-news:
			_, e, err := contracts.DecodeEvent(msg.Subject, msg.Data)
			if err != nil {
				continue
			}
			switch e := e.(type) {
			case contracts.ApprovalDecided:
				settled(e.Approval)
			case contracts.ApprovalEnded:
				settled(e.Approval)
			case contracts.ApprovalRequested:
				if asked[e.Approval] == nil {
					ctx, cancel := context.WithCancel(ctx)
					asked[e.Approval] = cancel
					go m.askUser(ctx, s, id, e.Approval)
				}
			}
		}
	}
}

// askUser asks about one approval, where it is one of the call or body and this user may decide, and takes the decision.
func (m *mcpFront) askUser(ctx context.Context, s *session, id contracts.CallID, approval contracts.ApprovalID) {
	desk := m.calls.approvals
	a, err := desk.Get(ctx, s.who.tenant, approval)
	mine := err == nil && (a.Call == id || a.Body != "" && a.Body == contracts.BodyOf(id))
	if !mine || len(a.Terms.Deciders) > 0 && !slices.Contains(a.Terms.Deciders, s.who.name) {
		return
	}
	args, err := desk.Args(ctx, s.who.tenant, a)
	if err != nil {
		m.log.Error("arguments to be approved cannot be read", "approval", approval, "err", err)
		return
	}
	res, err := s.ss.Elicit(ctx, &mcp.ElicitParams{Message: question(a, args), RequestedSchema: decisionForm()})
	if err != nil {
		if ctx.Err() == nil {
			m.log.Warn("the MCP client did not ask its user", "approval", approval, "err", err)
		}
		return
	}
	choice := approvals.Choice{By: s.who.name, Decision: contracts.DecisionDeny}
	switch res.Action {
	case "accept":
		decision, _ := res.Content["decision"].(string)
		choice.Decision = contracts.ApprovalDecision(decision)
		choice.Note, _ = res.Content["note"].(string)
	case "decline":
	default: // the user put it off: it waits for somebody
		return
	}
	if _, err := desk.Decide(ctx, s.who.tenant, approval, choice); err != nil {
		m.log.Info("a decision came too late or was none", "approval", approval, "err", err)
	}
}

// decisionForm is the schema of what a client has its user fill in.
func decisionForm() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{` +
		`"decision":{"type":"string","title":"Decision","enum":["allow_once","allow_always","deny"],"enumNames":["Allow this call","Always allow this agent this tool","Deny"]},` +
		`"note":{"type":"string","title":"Note","maxLength":` + fmt.Sprint(approvals.Longest) + `}},"required":["decision"]}`)
}

// question is the text that the user reads. All of it that comes from outside is shown without characters that hide something.
func question(a *contracts.Approval, args json.RawMessage) string {
	text := a.Terms.Title
	if a.Terms.Description != "" {
		text += "\n" + a.Terms.Description
	}
	return names.Text(fmt.Sprintf("%s\n\nTool: %s\nSeverity: %s\nArguments: %s\nTime to decide: until %s",
		text, a.Tool.ID, a.Terms.Severity, names.Cut(string(args), shownElicited), a.Expires.UTC().Format(time.RFC3339)))
}
