package workshop

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

type message struct {
	ID      string   `json:"id"`
	Folder  string   `json:"folder"`
	From    string   `json:"from"`
	To      []string `json:"to"`
	Cc      []string `json:"cc,omitempty"`
	Subject string   `json:"subject"`
	Body    string   `json:"body"`
	Sent    string   `json:"sent"`
	Unread  bool     `json:"unread"`
	Labels  []string `json:"labels"`
	ReplyTo *string  `json:"in_reply_to"`
}

type mailbox struct {
	messages []*message
	last     int
}

const mailOwner = "ada@workshop.example"

func newMail() area {
	m := &mailbox{last: 500}
	for i, s := range []struct{ folder, from, subject, body string }{
		{"inbox", "bram@workshop.example", "Printer on floor 2", "The label printer says it is out of paper, again."},
		{"inbox", "chiara@workshop.example", "Northwind wants a discount", "They ask for 12 percent on 40 seats. Can we talk before Wednesday?"},
		{"inbox", "invoices@paperclip.example", "Invoice 2026-0117", "Please find the invoice over 184.50 EUR, due on 16 March."},
		{"inbox", "duc@workshop.example", "Hội thảo Hà Nội", "Mình đã gửi đề cương hội thảo, nhờ chị xem giúp."},
		{"archive", "greta@workshop.example", "Urlaubsplanung Sommer", "Bitte tragt eure Wünsche bis Ende März ein."},
		{"sent", mailOwner, "Re: Design critique", "Moved to Thursday, same room."},
	} {
		msg := m.add(message{Folder: s.folder, From: s.from, To: []string{mailOwner}, Subject: s.subject, Body: s.body})
		msg.Unread = s.folder == "inbox" && i%2 == 0
	}
	return area{name: "mail", about: "the mailbox of " + mailOwner + ". A message that was sent cannot be taken back.", tools: m.tools()}
}

func (m *mailbox) tools() []tool {
	const headers = `{"type":"object","properties":{"messages":{"type":"array","items":{"type":"object","properties":{
		"id":{"type":"string"},"folder":{"type":"string"},"from":{"type":"string"},"subject":{"type":"string"},
		"unread":{"type":"boolean"},"labels":{"type":"array","items":{"type":"string"}}},"required":["id","from","subject"]}},
		"total":{"type":"integer","minimum":0}},"required":["messages","total"]}`
	return []tool{
		{name: "list_messages", title: "List messages", hints: readOnly,
			about: "Lists the messages of a mail folder, newest first, without their text.",
			in: `{"type":"object","properties":{
				"folder":{"type":"string","enum":["inbox","sent","archive","all"],"default":"inbox"},
				"unread_only":{"type":"boolean","default":false},
				"limit":{"type":"integer","minimum":1,"maximum":50,"default":25}}}`,
			out: headers, run: with(m.list)},
		{name: "read_message", title: "Read a message", hints: additive | idempotent,
			about: "Returns a whole message and marks it as read.",
			in:    `{"type":"object","properties":{"message_id":{"type":"string","pattern":"^msg-\\d+$"}},"required":["message_id"],"additionalProperties":false}`,
			run:   with(m.read)},
		{name: "send_mail", title: "Send an e-mail", hints: additive | openWorld,
			about: "Sends an e-mail to one or more people. It cannot be taken back.",
			in: `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{
				"to":{"description":"One address or several.","oneOf":[
					{"type":"string","format":"email","minLength":3},
					{"type":"array","items":{"type":"string","format":"email"},"minItems":1,"maxItems":50}]},
				"cc":{"$ref":"#/properties/to"},
				"subject":{"type":"string","minLength":1,"maxLength":998},
				"body":{"type":"string"},
				"in_reply_to":{"type":["string","null"],"pattern":"^msg-\\d+$","default":null}},
				"required":["to","subject","body"],"additionalProperties":false}`,
			out: `{"type":"object","properties":{"message_id":{"type":"string"},"recipients":{"type":"array","items":{"type":"string"}}},"required":["message_id","recipients"],"additionalProperties":false}`,
			run: with(m.send)},
		{name: "label_message", title: "Label a message", hints: destructive | idempotent,
			about: "Adds labels to a message and takes others away.",
			in: `{"type":"object","properties":{
				"message_id":{"type":"string"},
				"add":{"type":"array","items":{"type":"string","minLength":1,"maxLength":40},"uniqueItems":true},
				"remove":{"$ref":"#/properties/add"}},
				"required":["message_id"]}`,
			run: with(m.label)},
		{name: "search", title: "Search mail", hints: readOnly,
			about: "Finds e-mails by words of the subject, the text or the sender, in every folder.",
			in: `{"type":"object","properties":{"query":{"type":"string","minLength":1,"description":"Words that must all occur."},
				"has_label":{"type":"string"}},"required":["query"],"additionalProperties":false}`,
			out: headers, run: with(m.search)},
	}
}

func (m *mailbox) add(msg message) *message {
	m.last++
	msg.ID, msg.Sent, msg.Labels = fmt.Sprintf("msg-%d", m.last), now, []string{}
	m.messages = append(m.messages, &msg)
	return &msg
}

func (m *mailbox) find(id string) (*message, error) {
	i := slices.IndexFunc(m.messages, func(x *message) bool { return x.ID == id })
	if i < 0 {
		return nil, missing("message", id, "list_messages")
	}
	return m.messages[i], nil
}

// head is a message without its text.
func (m *message) head() obj {
	return obj{"id": m.ID, "folder": m.Folder, "from": m.From, "subject": m.Subject, "unread": m.Unread, "labels": m.Labels}
}

func (m *mailbox) heads(limit int, keep func(*message) bool) obj {
	var found []obj
	for _, msg := range slices.Backward(m.messages) {
		if keep(msg) {
			found = append(found, msg.head())
		}
	}
	messages, total := page(found, limit)
	return obj{"messages": messages, "total": total}
}

func (m *mailbox) list(a struct {
	Folder     string
	UnreadOnly bool `json:"unread_only"`
	Limit      int
}) (any, error) {
	return m.heads(a.Limit, func(msg *message) bool {
		return (a.Folder == "all" || a.Folder == msg.Folder) && (msg.Unread || !a.UnreadOnly)
	}), nil
}

func (m *mailbox) read(a struct {
	ID string `json:"message_id"`
}) (any, error) {
	msg, err := m.find(a.ID)
	if err != nil {
		return nil, err
	}
	msg.Unread = false
	return msg, nil
}

// addresses reads what the schema allows as a recipient: nothing, one address
// or several.
func addresses(field string, v any) ([]string, error) {
	list, ok := v.([]any)
	if v == nil {
		return nil, nil
	}
	if !ok {
		list = []any{v}
	}
	var out []string
	for _, x := range list {
		s, _ := x.(string)
		if _, err := parseEmail(field, s); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

func (m *mailbox) send(a struct {
	To, Cc        any
	Subject, Body string
	ReplyTo       *string `json:"in_reply_to"`
}) (any, error) {
	to, err := addresses("to", a.To)
	if err != nil {
		return nil, err
	}
	cc, err := addresses("cc", a.Cc)
	if err != nil {
		return nil, err
	}
	if a.ReplyTo != nil {
		if _, err := m.find(*a.ReplyTo); err != nil {
			return nil, fmt.Errorf("in_reply_to: %w", err)
		}
	}
	msg := m.add(message{Folder: "sent", From: mailOwner, To: to, Cc: cc, Subject: a.Subject, Body: a.Body, ReplyTo: a.ReplyTo})
	return obj{"message_id": msg.ID, "recipients": slices.Concat(to, cc)}, nil
}

func (m *mailbox) label(a struct {
	ID          string `json:"message_id"`
	Add, Remove []string
}) (any, error) {
	msg, err := m.find(a.ID)
	if err != nil {
		return nil, err
	}
	if len(a.Add)+len(a.Remove) == 0 {
		return nil, errors.New("add, remove: at least one label is needed")
	}
	for _, l := range a.Add {
		if !slices.Contains(msg.Labels, l) {
			msg.Labels = append(msg.Labels, l)
		}
	}
	msg.Labels = slices.DeleteFunc(msg.Labels, func(l string) bool { return slices.Contains(a.Remove, l) })
	return fmt.Sprintf("%s is labelled [%s]", msg.ID, strings.Join(msg.Labels, ", ")), nil
}

func (m *mailbox) search(a struct {
	Query    string
	HasLabel string `json:"has_label"`
}) (any, error) {
	return m.heads(50, func(msg *message) bool {
		return matches(a.Query, msg.Subject, msg.Body, msg.From) && (a.HasLabel == "" || slices.Contains(msg.Labels, a.HasLabel))
	}), nil
}
