package workshop

import (
	"fmt"
	"slices"
)

type note struct {
	ID    string   `json:"id"`
	Kind  string   `json:"kind"`
	Title string   `json:"title"`
	Body  string   `json:"body"`
	Tags  []string `json:"tags"`
	Done  bool     `json:"done"`
}

type notebook struct {
	notes []*note
	last  int
}

// node is one entry of an outline, with what is below it.
type node struct {
	Text     string `json:"text"`
	Done     bool   `json:"done"`
	Children []node `json:"children,omitempty"`
}

// maxDepth is how deep an outline may go.
const maxDepth = 16

func newNotes() area {
	n := &notebook{last: 300}
	n.add(note{Kind: "note", Title: "Retro, February", Body: "Keep: pairing on Thursdays. Try: shorter planning.", Tags: []string{"team"}})
	n.add(note{Kind: "task", Title: "Order wood glue", Tags: []string{"shop"}})
	n.add(note{Kind: "task", Title: "Answer Northwind about the discount", Tags: []string{"sales"}})
	n.add(note{Kind: "task", Title: "Renew the domain", Done: true})
	return area{name: "notes", about: "a private notebook with notes, tasks and outlines.", tools: n.tools()}
}

func (n *notebook) tools() []tool {
	const noteOut = `{"type":"object","properties":{"id":{"type":"string"},"kind":{"enum":["note","task"]},"title":{"type":"string"},"body":{"type":"string"},
		"tags":{"type":"array","items":{"type":"string"}},"done":{"type":"boolean"}},"required":["id","kind","title","done"]}`
	return []tool{
		{name: "list_items", title: "List notes and tasks", hints: readOnly,
			about: "Lists what is in the notebook.",
			in: `{"type":"object","properties":{"kind":{"type":"string","enum":["note","task","any"],"default":"any"},
				"tag":{"type":"string"},"open_only":{"type":"boolean","description":"Leave out tasks that are done."}}}`,
			out: `{"type":"object","properties":{"items":{"type":"array","items":` + noteOut + `}},"required":["items"]}`,
			run: with(n.list)},
		{name: "create_note", title: "Write a note", hints: additive,
			about: "Writes a note or a task into the notebook.",
			in: `{"type":"object","properties":{"title":{"type":"string","minLength":1},"body":{"type":"string"},
				"kind":{"type":"string","enum":["note","task"],"default":"note"},
				"tags":{"type":"array","items":{"type":"string"}}},"required":["title"]}`,
			out: noteOut, run: with(n.create)},
		{name: "create_outline", title: "Create tasks from an outline", hints: additive,
			about: "Turns a nested outline into tasks, one for each entry that has nothing below it, and returns the outline numbered.",
			in: `{"type":"object","properties":{"title":{"type":"string","minLength":1},
				"nodes":{"type":"array","items":{"$ref":"#/$defs/node"},"minItems":1}},"required":["title","nodes"],"additionalProperties":false,
				"$defs":{"node":{"type":"object","properties":{"text":{"type":"string","minLength":1},"done":{"type":"boolean","default":false},
					"children":{"type":"array","items":{"$ref":"#/$defs/node"}}},"required":["text"],"additionalProperties":false}}}`,
			out: `{"type":"object","properties":{"tasks":{"type":"integer","minimum":1},"outline":{"$ref":"#/$defs/entry"}},"required":["tasks","outline"],
				"$defs":{"entry":{"type":"object","properties":{"number":{"type":"string"},"text":{"type":"string"},"taskId":{"type":"string"},
					"children":{"type":"array","items":{"$ref":"#/$defs/entry"}}},"required":["text"]}}}`,
			run: with(n.outline)},
		{name: "complete_task", title: "Complete a task", hints: additive | idempotent,
			about: "Marks a task as done.",
			in:    `{"type":"object","properties":{"id":{"type":"string"}},"required":["id"],"additionalProperties":{}}`,
			run:   with(n.complete)},
		{name: "delete_note", title: "Delete a note", hints: destructive,
			about: "Deletes notes or tasks for good.",
			in:    `{"type":"object","properties":{"ids":{"type":"array","items":{"type":"string"},"minItems":1}},"required":["ids"]}`,
			run:   with(n.remove)},
	}
}

func (n *notebook) add(x note) *note {
	n.last++
	x.ID = fmt.Sprintf("note-%d", n.last)
	if x.Tags == nil {
		x.Tags = []string{}
	}
	n.notes = append(n.notes, &x)
	return &x
}

func (n *notebook) find(id string) (*note, error) {
	i := slices.IndexFunc(n.notes, func(x *note) bool { return x.ID == id })
	if i < 0 {
		return nil, missing("note", id, "list_items")
	}
	return n.notes[i], nil
}

func (n *notebook) list(a struct {
	Kind, Tag string
	OpenOnly  bool `json:"open_only"`
}) (any, error) {
	items := []*note{}
	for _, x := range n.notes {
		if (a.Kind == "any" || a.Kind == x.Kind) && (a.Tag == "" || slices.Contains(x.Tags, a.Tag)) && !(a.OpenOnly && x.Done) {
			items = append(items, x)
		}
	}
	return obj{"items": items}, nil
}

func (n *notebook) create(a struct {
	Title, Body, Kind string
	Tags              []string
}) (any, error) {
	return n.add(note{Kind: a.Kind, Title: a.Title, Body: a.Body, Tags: a.Tags}), nil
}

func (n *notebook) outline(a struct {
	Title string
	Nodes []node
}) (any, error) {
	root := node{Text: a.Title, Children: a.Nodes}
	if d := root.depth(); d > maxDepth {
		return nil, fmt.Errorf("nodes: the outline is %d levels deep; at most %d are allowed", d-1, maxDepth-1)
	}
	before := len(n.notes)
	entry := n.plant(root, "")
	return obj{"tasks": len(n.notes) - before, "outline": entry}, nil
}

func (x node) depth() int {
	d := 0
	for _, c := range x.Children {
		d = max(d, c.depth())
	}
	return d + 1
}

// plant makes a task of each leaf below x and returns x with numbers.
func (n *notebook) plant(x node, number string) obj {
	entry := obj{"number": number, "text": x.Text}
	if len(x.Children) == 0 {
		entry["taskId"] = n.add(note{Kind: "task", Title: x.Text, Done: x.Done}).ID
		return entry
	}
	var children []obj
	for i, c := range x.Children {
		children = append(children, n.plant(c, fmt.Sprintf("%s%d.", number, i+1)))
	}
	entry["children"] = children
	return entry
}

func (n *notebook) complete(a struct{ ID string }) (any, error) {
	x, err := n.find(a.ID)
	if err != nil {
		return nil, err
	}
	if x.Kind != "task" {
		return nil, fmt.Errorf("id: %s is a note, not a task", x.ID)
	}
	x.Done = true
	return x, nil
}

func (n *notebook) remove(a struct{ IDs []string }) (any, error) {
	for _, id := range a.IDs {
		if _, err := n.find(id); err != nil {
			return nil, err
		}
	}
	n.notes = slices.DeleteFunc(n.notes, func(x *note) bool { return slices.Contains(a.IDs, x.ID) })
	return fmt.Sprintf("Deleted %d.", len(a.IDs)), nil
}
