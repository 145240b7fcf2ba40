package workshop

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

type ticket struct {
	ID         string    `json:"id"`
	Title      string    `json:"title"`
	Status     string    `json:"status"`
	Priority   string    `json:"priority"`
	Assignee   *string   `json:"assignee"`
	Watchers   []string  `json:"watchers"`
	Resolution string    `json:"resolution,omitempty"`
	Comments   []comment `json:"comments"`
}

type comment struct {
	Author   string `json:"author"`
	Body     string `json:"body"`
	Internal bool   `json:"internal"`
}

type tracker struct {
	tickets []*ticket
	last    int
}

// nextStatus says where a ticket may go from each status.
func nextStatus(from string) []string {
	return map[string][]string{
		"open":        {"in_progress", "done"},
		"in_progress": {"open", "review"},
		"review":      {"in_progress", "done"},
		"done":        {"open"},
	}[from]
}

func newTickets() area {
	t := &tracker{last: 1040}
	for _, s := range []struct{ title, status, priority, who string }{
		{"Login page flickers in dark mode", "open", "low", ""},
		{"Export to CSV loses umlauts", "in_progress", "high", "@duc"},
		{"Label printer runs out of paper", "open", "medium", "@bram"},
		{"Payment webhook arrives twice", "review", "urgent", "@ada"},
		{"Onboarding mail has a broken link", "done", "medium", "@elif"},
	} {
		n := t.add(ticket{Title: s.title, Priority: s.priority})
		n.Status = s.status
		if s.who != "" {
			n.Assignee = &s.who
		}
	}
	return area{name: "tickets", about: "the bug and support tracker. A ticket goes open, in_progress, review, done.", tools: t.tools()}
}

func (t *tracker) tools() []tool {
	const ticketDef = `{"type":"object","properties":{"id":{"type":"string"},"title":{"type":"string"},
		"status":{"enum":["open","in_progress","review","done"]},"priority":{"enum":["low","medium","high","urgent"]},
		"assignee":{"anyOf":[{"type":"string"},{"type":"null"}]},"watchers":{"type":"array","items":{"type":"string"}},
		"resolution":{"type":"string"},
		"comments":{"type":"array","items":{"$ref":"#/definitions/comment"}}},"required":["id","title","status","priority","assignee"]}`
	const commentDef = `{"type":"object","properties":{"author":{"type":"string"},"body":{"type":"string"},"internal":{"type":"boolean"}},"required":["author","body"]}`
	const ticketOut = `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"ticket":{"$ref":"#/definitions/ticket"}},
		"required":["ticket"],"definitions":{"ticket":` + ticketDef + `,"comment":` + commentDef + `}}`
	return []tool{
		{name: "createTicket", title: "Create ticket", hints: additive,
			about: "Opens a bug report, a task or a support request in the tracker.",
			in: `{"type":"object","properties":{
				"title":{"type":"string","minLength":3,"maxLength":140},
				"description":{"type":"string"},
				"priority":{"type":"string","enum":["low","medium","high","urgent"],"default":"medium"},
				"assignee":{"type":"string","pattern":"^@[a-z]+$","description":"Handle of a colleague, such as @duc."},
				"watchers":{"type":"array","items":{"$ref":"#/properties/assignee"},"uniqueItems":true}},
				"required":["title"],"additionalProperties":false}`,
			out: ticketOut, run: with(t.create)},
		{name: "getTicket", title: "Get ticket", hints: readOnly,
			about: "Returns one ticket with its comments.",
			in:    `{"type":"object","properties":{"ticketId":{"type":"string","pattern":"^T-[0-9]+$","examples":["T-1041"]}},"required":["ticketId"]}`,
			out:   ticketOut, run: with(t.get)},
		{name: "searchTickets", title: "Search tickets", hints: readOnly,
			about: "Finds tickets by words, status and assignee.",
			in: `{"type":"object","properties":{
				"text":{"type":"string"},
				"status":{"type":"array","items":{"type":"string","enum":["open","in_progress","review","done"]},"uniqueItems":true},
				"assignee":{"type":["string","null"],"pattern":"^@[a-z]+$","description":"A handle such as @duc, or null for tickets that nobody has."},
				"pageSize":{"type":"integer","exclusiveMinimum":0,"maximum":100,"default":20}},"additionalProperties":false}`,
			run: with(t.search)},
		{name: "assignTicket", title: "Assign ticket", hints: destructive | idempotent,
			about: "Gives a ticket to a colleague, or to nobody.",
			in: `{"type":"object","properties":{"ticketId":{"type":"string"},
				"assignee":{"anyOf":[{"type":"string","pattern":"^@[a-z]+$"},{"type":"null"}]}},"required":["ticketId","assignee"]}`,
			run: with(t.assign)},
		{name: "transitionTicket", title: "Move ticket through the workflow", hints: destructive,
			about: "Moves a ticket to another status. A ticket that is done needs a resolution.",
			in: `{"type":"object","properties":{"ticketId":{"type":"string"},
				"to":{"type":"string","enum":["open","in_progress","review","done"],"x-enumNames":["Open","In progress","In review","Done"]},
				"resolution":{"type":"string","enum":["fixed","duplicate","wont_fix"]}},
				"required":["ticketId","to"],"if":{"properties":{"to":{"const":"done"}}},"then":{"required":["resolution"]}}`,
			out: ticketOut, run: with(t.transition)},
		{name: "addComment", title: "Comment on ticket",
			about: "Adds a comment to a ticket.",
			in: `{"type":"object","properties":{"ticketId":{"type":"string","optional":false},"body":{"type":"string","minLength":1,"optional":false},
				"internal":{"type":"boolean","default":true,"optional":true,"description":"Internal comments are not shown to customers."}},"required":["ticketId","body"]}`,
			run: with(t.comment)},
	}
}

func (t *tracker) add(n ticket) *ticket {
	t.last++
	n.ID, n.Status, n.Comments = fmt.Sprintf("T-%d", t.last), "open", []comment{}
	if n.Watchers == nil {
		n.Watchers = []string{}
	}
	t.tickets = append(t.tickets, &n)
	return &n
}

func (t *tracker) find(id string) (*ticket, error) {
	i := slices.IndexFunc(t.tickets, func(x *ticket) bool { return x.ID == id })
	if i < 0 {
		return nil, missing("ticket", id, "searchTickets")
	}
	return t.tickets[i], nil
}

func (t *tracker) create(a struct {
	Title, Description, Priority string
	Assignee                     *string
	Watchers                     []string
}) (any, error) {
	if a.Assignee != nil {
		if _, err := personByHandle("assignee", *a.Assignee); err != nil {
			return nil, err
		}
	}
	for i, w := range a.Watchers {
		if _, err := personByHandle(fmt.Sprintf("watchers[%d]", i), w); err != nil {
			return nil, err
		}
	}
	n := t.add(ticket{Title: a.Title, Priority: a.Priority, Assignee: a.Assignee, Watchers: a.Watchers})
	if a.Description != "" {
		n.Comments = append(n.Comments, comment{Author: "@ada", Body: a.Description})
	}
	return obj{"ticket": n}, nil
}

func (t *tracker) get(a struct{ TicketID string }) (any, error) {
	n, err := t.find(a.TicketID)
	if err != nil {
		return nil, err
	}
	return obj{"ticket": n}, nil
}

func (t *tracker) search(a struct {
	Text     string
	Status   []string
	Assignee json.RawMessage // tells null from left out
	PageSize int
}) (any, error) {
	var found []*ticket
	for _, n := range t.tickets {
		who, _ := json.Marshal(n.Assignee)
		if a.Assignee != nil && string(a.Assignee) != string(who) {
			continue
		}
		if matches(a.Text, n.ID, n.Title) && (len(a.Status) == 0 || slices.Contains(a.Status, n.Status)) {
			found = append(found, n)
		}
	}
	tickets, total := page(found, a.PageSize)
	return obj{"tickets": tickets, "total": total}, nil
}

func (t *tracker) assign(a struct {
	TicketID string
	Assignee *string
}) (any, error) {
	n, err := t.find(a.TicketID)
	if err != nil {
		return nil, err
	}
	if a.Assignee != nil {
		if _, err := personByHandle("assignee", *a.Assignee); err != nil {
			return nil, err
		}
	}
	n.Assignee = a.Assignee
	return obj{"ticket": n}, nil
}

func (t *tracker) transition(a struct{ TicketID, To, Resolution string }) (any, error) {
	n, err := t.find(a.TicketID)
	if err != nil {
		return nil, err
	}
	if allowed := nextStatus(n.Status); !slices.Contains(allowed, a.To) {
		return nil, fmt.Errorf("to: ticket %s is %s and cannot go to %q; allowed are %s", n.ID, n.Status, a.To, strings.Join(allowed, ", "))
	}
	n.Status, n.Resolution = a.To, a.Resolution
	return obj{"ticket": n}, nil
}

func (t *tracker) comment(a struct {
	TicketID, Body string
	Internal       bool
}) (any, error) {
	n, err := t.find(a.TicketID)
	if err != nil {
		return nil, err
	}
	n.Comments = append(n.Comments, comment{Author: "@ada", Body: a.Body, Internal: a.Internal})
	return fmt.Sprintf("Comment %d added to %s.", len(n.Comments), n.ID), nil
}
