// Package control is what the control tools are called and what they take, for all who name, offer or answer them.
package control

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/toolcrib/toolcrib/internal/core/names"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// The names of the control tools. They can be called in every surface.
const (
	Search   = "tool_search"
	Describe = "tool_describe"
	Call     = "tool_call"
	Code     = "tool_search_code"
)

// Names returns the names of all control tools: no client tool can have one of them.
func Names() []string { return []string{Search, Describe, Call, Code} }

// Source is the source of the control tools.
func Source() contracts.SourceID {
	return contracts.SourceID{Kind: contracts.SourcePlatform, Owner: "toolcrib"}
}

// ID returns the id by which policy knows a control tool.
func ID(name string) contracts.ToolID { return contracts.NewToolID(Source(), name) }

const (
	longestID = 512 // bytes of a tool's id or name
	mostHits  = 1 << 20
)

// SearchRequest reads the arguments query, limit and queries of a search; other arguments are the caller's concern. The error is
// one with [contracts.CodeInvalid] that names the argument and says what to write. Run is left empty.
func SearchRequest(args map[string]json.RawMessage) (contracts.SearchRequest, error) {
	var q contracts.SearchRequest
	var err error
	if raw, ok := args["limit"]; ok {
		if q.Limit, err = positive(raw); err != nil {
			return q, err
		}
	}
	raw, batch := args["queries"]
	if !batch {
		q.Query, err = queryText("query", args["query"])
		return q, err
	}
	if _, ok := args["query"]; ok {
		return q, Wrong("queries", "stands beside query; give one of them")
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || len(list) == 0 || len(list) > contracts.SearchMaxQueries {
		return q, Wrong("queries", "want a list of 1 to "+strconv.Itoa(contracts.SearchMaxQueries)+" queries")
	}
	for i, raw := range list {
		text, err := queryText("queries/"+strconv.Itoa(i), raw)
		if err != nil {
			return q, err
		}
		q.Queries = append(q.Queries, text)
	}
	return q, nil
}

func queryText(field string, raw json.RawMessage) (string, error) {
	var s string
	if len(raw) > 0 && json.Unmarshal(raw, &s) != nil {
		return "", Wrong(field, `want a text, such as "create a calendar event"`)
	}
	return Query(field, s)
}

// Query returns the text of a search without the space around it. The error is as that of [SearchRequest], about the argument field.
func Query(field, text string) (string, error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return "", Wrong(field, `empty; write in a few words what the tool should do, such as "create a calendar event"`)
	case len(text) > contracts.SearchLongestQuery:
		return "", Wrong(field, fmt.Sprintf("has %d bytes, at most %d are allowed; write in a few words what the tool should do",
			len(text), contracts.SearchLongestQuery))
	}
	return text, nil
}

// positive reads a limit.
func positive(raw json.RawMessage) (int, error) {
	var f float64
	if json.Unmarshal(raw, &f) != nil || string(raw) == "null" || f < 1 || f != float64(int64(f)) {
		return 0, Wrong("limit", "is "+clip(string(raw))+"; want a positive integer")
	}
	return int(min(f, mostHits)), nil
}

// ToolID reads the argument id of a describe or a call: a tool's id or name, unresolved.
func ToolID(raw json.RawMessage) (string, error) {
	var s string
	if len(raw) > 0 && json.Unmarshal(raw, &s) != nil {
		return "", Wrong("id", "want a text: a tool's id, such as the id of a search hit")
	}
	switch {
	case strings.TrimSpace(s) == "":
		return "", Wrong("id", "empty; want a tool's id, such as the id of a search hit")
	case len(s) > longestID:
		return "", Wrong("id", "longer than "+strconv.Itoa(longestID)+" bytes; want a tool's id, such as the id of a search hit")
	}
	return strings.TrimSpace(s), nil
}

// Wrong is the error about one argument.
func Wrong(field, message string) *contracts.Error {
	e := contracts.Errorf(contracts.CodeInvalid, "%s: %s", field, message)
	e.Fields = []contracts.FieldError{{Field: "/" + field, Message: message}}
	return e
}

func clip(s string) string { return names.Cut(s, 80) }
