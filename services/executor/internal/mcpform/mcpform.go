// Package mcpform reads tools and results in the form that MCP gives them, as servers and plugins send them. It keeps what they say byte for
// byte where that is JSON of their own, and judges only whether it has the form.
package mcpform

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// Tool reads one tool of a listing, or says why it cannot be one.
func Tool(raw json.RawMessage) (*contracts.Tool, *contracts.SkippedTool) {
	var named struct {
		Name any `json:"name"`
	}
	json.Unmarshal(raw, &named) // whatever it is, the name is worth telling
	name, _ := named.Name.(string)
	skip := func(format string, args ...any) (*contracts.Tool, *contracts.SkippedTool) {
		return nil, &contracts.SkippedTool{Name: name, Reason: fmt.Sprintf(format, args...)}
	}
	var w struct {
		Name         string          `json:"name"`
		Title        string          `json:"title"`
		Description  string          `json:"description"`
		InputSchema  json.RawMessage `json:"inputSchema"`
		OutputSchema json.RawMessage `json:"outputSchema"`
		Annotations  *struct {
			contracts.Annotations
			Title string `json:"title"`
		} `json:"annotations"`
		Meta json.RawMessage `json:"_meta"`
	}
	if err := json.Unmarshal(raw, &w); err != nil {
		if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && e.Field != "" {
			return skip("%s: it is a JSON %s", e.Field, e.Value)
		}
		return skip("it is no JSON object with the fields of a tool")
	}
	t := &contracts.Tool{
		Name: w.Name, Title: w.Title, Description: w.Description,
		InputSchema: present(w.InputSchema), OutputSchema: present(w.OutputSchema), Meta: present(w.Meta),
	}
	if w.Annotations != nil {
		if t.Title == "" {
			t.Title = w.Annotations.Title
		}
		if a := w.Annotations.Annotations; a != (contracts.Annotations{}) {
			t.Annotations = &a
		}
	}
	return t, nil
}

// Result reads the result of a call, which is nil where raw has not the form of one.
func Result(raw json.RawMessage) *contracts.Result {
	var w struct { // what a source can say; the rest of a result is ours
		Content           []json.RawMessage `json:"content"`
		StructuredContent json.RawMessage   `json:"structuredContent"`
		IsError           bool              `json:"isError"`
	}
	if json.Unmarshal(raw, &w) != nil {
		return nil
	}
	if w.Content == nil {
		w.Content = []json.RawMessage{}
	}
	return &contracts.Result{Content: w.Content, StructuredContent: present(w.StructuredContent), IsError: w.IsError}
}

// present returns raw, nil where it is null.
func present(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
}
