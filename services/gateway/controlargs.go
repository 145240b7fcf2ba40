package gateway

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const (
	longestQuery = 4096 // characters
	longestID    = 512  // bytes of a tool's id or name
	mostHits     = 1 << 20
)

// searchArgs reads the arguments of tool_search. Its errors say what to write.
func searchArgs(c *controlCall) (contracts.SearchRequest, error) {
	var q contracts.SearchRequest
	m, err := c.fields("query, limit and queries", "query", "limit", "queries")
	if err != nil {
		return q, err
	}
	if raw, ok := m["limit"]; ok {
		if q.Limit, err = positive(raw); err != nil {
			return q, err
		}
	}
	raw, batch := m["queries"]
	if !batch {
		q.Query, err = queryText("query", m["query"])
		return q, err
	}
	if _, ok := m["query"]; ok {
		return q, wrong("queries", "stands beside query; give one of them")
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || len(list) == 0 || len(list) > contracts.SearchMaxQueries {
		return q, wrong("queries", "want a list of 1 to %d queries", contracts.SearchMaxQueries)
	}
	for i, raw := range list {
		text, err := queryText("queries/"+itoa(i), raw)
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
		return "", wrong(field, "want a text, such as \"create a calendar event\"")
	}
	switch s = strings.TrimSpace(s); {
	case s == "":
		return "", wrong(field, "empty; write in a few words what the tool should do, such as \"create a calendar event\"")
	case utf8.RuneCountInString(s) > longestQuery:
		return "", wrong(field, "longer than %d characters; write in a few words what the tool should do", longestQuery)
	}
	return s, nil
}

// positive reads a limit.
func positive(raw json.RawMessage) (int, error) {
	var f float64
	if json.Unmarshal(raw, &f) != nil || string(raw) == "null" || f < 1 || f != float64(int64(f)) {
		return 0, wrong("limit", "is %s; want a positive integer", clip(string(raw)))
	}
	return int(min(f, mostHits)), nil
}

// describeArgs reads the arguments of tool_describe.
func describeArgs(c *controlCall) (string, error) {
	m, err := c.fields("id", "id")
	if err != nil {
		return "", err
	}
	return toolID(m["id"])
}

func toolID(raw json.RawMessage) (string, error) {
	var s string
	if len(raw) > 0 && json.Unmarshal(raw, &s) != nil {
		return "", wrong("id", "want a text: a tool's id, such as the id of a search hit")
	}
	switch {
	case strings.TrimSpace(s) == "":
		return "", wrong("id", "empty; want a tool's id, such as the id of a search hit")
	case len(s) > longestID:
		return "", wrong("id", "longer than %d bytes; want a tool's id, such as the id of a search hit", longestID)
	}
	return strings.TrimSpace(s), nil
}

// callArgs reads the arguments of tool_call and mends what weak models do to them.
func callArgs(c *controlCall) (id string, args json.RawMessage, err error) {
	m, err := c.object()
	for range 4 {
		if err != nil {
			return "", nil, err
		}
		if id, err = toolID(m["id"]); err != nil {
			return "", nil, err
		}
		if args, err = c.inner(m); err != nil || id != toolCallName || !isObject(args) {
			return id, args, err
		}
		c.repair("%s was called through itself", toolCallName)
		m = nil
		err = json.Unmarshal(args, &m)
	}
	return "", nil, wrong("id", "is %s within %s; want the id of the tool to be called", toolCallName, toolCallName)
}

// inner returns the args of a tool_call, also where they stand beside the id or in a text.
func (c *controlCall) inner(m map[string]json.RawMessage) (json.RawMessage, error) {
	args, text, ok := asObject(m["args"])
	if !ok {
		return nil, wrong("args", "is %s; want an object with the tool's arguments", clip(string(m["args"])))
	}
	if text {
		c.repair("args was a text with an object in it")
	}
	beside := maps.Clone(m)
	delete(beside, "id")
	delete(beside, "args")
	switch {
	case len(beside) == 0:
		return args, nil
	case string(args) == "{}":
		c.repair("arguments stood beside id")
		return json.Marshal(beside)
	}
	return nil, unknownField(toolCallName, "id and args", beside)
}

// wrappedArgs returns what stands in {"args": {…}}.
func wrappedArgs(args json.RawMessage) (json.RawMessage, bool) {
	var m map[string]json.RawMessage
	if json.Unmarshal(args, &m) != nil || len(m) != 1 || !isObject(m["args"]) {
		return nil, false
	}
	return m["args"], true
}

// directArgs reads the arguments of a direct call. Where they cannot be used, failed is its outcome.
func directArgs(raw json.RawMessage) (args json.RawMessage, repaired []string, failed *contracts.Outcome) {
	args, text, ok := asObject(raw)
	if !ok {
		e := noObject(raw)
		e.Code = contracts.CodeInvalidArgs
		return nil, nil, &contracts.Outcome{
			Status: contracts.StatusInvalidArgs, Error: e, SideEffects: contracts.SideEffectsNone, CallID: contracts.NewCallID(),
		}
	}
	if text {
		repaired = []string{"the arguments were a text with an object in it"}
	}
	return args, repaired, nil
}

// fields returns the arguments of the call, which takes only the known ones.
func (c *controlCall) fields(takes string, known ...string) (map[string]json.RawMessage, error) {
	m, err := c.object()
	if err != nil {
		return nil, err
	}
	unknown := maps.Clone(m)
	maps.DeleteFunc(unknown, func(k string, _ json.RawMessage) bool { return slices.Contains(known, k) })
	if len(unknown) > 0 {
		return nil, unknownField(c.name, takes, unknown)
	}
	return m, nil
}

func unknownField(tool, takes string, unknown map[string]json.RawMessage) error {
	name := slices.Sorted(maps.Keys(unknown))[0]
	return wrong(clip(name), "unknown; %s takes %s", tool, takes)
}

// noObject is the error about arguments as a whole.
func noObject(raw json.RawMessage) *contracts.Error {
	e := wrong("arguments", "is %s; want an object", clip(string(raw)))
	e.Fields[0].Field = ""
	return e
}

// object returns the arguments of the call, which must be an object.
func (c *controlCall) object() (map[string]json.RawMessage, error) {
	args, text, ok := asObject(c.args)
	var m map[string]json.RawMessage
	if !ok || json.Unmarshal(args, &m) != nil {
		return nil, noObject(c.args)
	}
	if text {
		c.repair("the arguments were a text with an object in it")
	}
	return m, nil
}

// asObject returns the object that raw is, {} for nothing, or the one that stands in a text.
func asObject(raw json.RawMessage) (object json.RawMessage, text, ok bool) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return json.RawMessage("{}"), false, true
	}
	if isObject(raw) {
		return raw, false, true
	}
	var s string
	if json.Unmarshal(raw, &s) == nil && isObject(json.RawMessage(s)) {
		return json.RawMessage(strings.TrimSpace(s)), true, true
	}
	return nil, false, false
}

func isObject(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) > 0 && raw[0] == '{' && json.Valid(raw)
}

func itoa(i int) string { return strconv.Itoa(i) }
