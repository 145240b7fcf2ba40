package gateway

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/toolcrib/toolcrib/internal/core/control"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// searchArgs reads the arguments of tool_search. Its errors say what to write.
func searchArgs(c *controlCall) (contracts.SearchRequest, error) {
	m, err := c.fields("query, limit and queries", "query", "limit", "queries")
	if err != nil {
		return contracts.SearchRequest{}, err
	}
	return control.SearchRequest(m)
}

// describeArgs reads the arguments of tool_describe.
func describeArgs(c *controlCall) (string, error) {
	m, err := c.fields("id", "id")
	if err != nil {
		return "", err
	}
	return control.ToolID(m["id"])
}

// callArgs reads the arguments of tool_call and mends what weak models do to them.
func callArgs(c *controlCall) (id string, args json.RawMessage, err error) {
	m, err := c.object()
	for range 4 {
		if err != nil {
			return "", nil, err
		}
		if id, err = control.ToolID(m["id"]); err != nil {
			return "", nil, err
		}
		if args, err = c.inner(m); err != nil || id != control.Call || !isObject(args) {
			return id, args, err
		}
		c.repair("%s was called through itself", control.Call)
		m = nil
		err = json.Unmarshal(args, &m)
	}
	return "", nil, wrong("id", "is %s within %s; want the id of the tool to be called", control.Call, control.Call)
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
	return nil, unknownField(control.Call, "id and args", beside)
}

// codeArgs reads the arguments of tool_search_code and mends what weak models do to them.
func codeArgs(c *controlCall) (string, error) {
	m, err := c.object()
	if err != nil {
		return "", err
	}
	if _, ok := m["code"]; !ok {
		for _, name := range []string{"javascript", "js", "script", "body"} {
			if raw, ok := m[name]; ok {
				m["code"] = raw
				delete(m, name)
				c.repair("code stood in %s", name)
				break
			}
		}
	}
	if err := c.only(m, "code", "code"); err != nil {
		return "", err
	}
	const want = `the inside of an async function, such as: return await tools.search("create calendar event")`
	var code string
	if raw := m["code"]; len(raw) > 0 && json.Unmarshal(raw, &code) != nil {
		return "", wrong("code", "want a text: %s", want)
	}
	if inner, ok := unfenced(code); ok {
		code = inner
		c.repair("code stood in a Markdown fence")
	}
	if strings.TrimSpace(code) == "" {
		return "", wrong("code", "empty; want %s", want)
	}
	return code, nil
}

// unfenced returns what stands in a Markdown code fence that is all of s.
func unfenced(s string) (string, bool) {
	const fence = "```"
	s, ok := strings.CutPrefix(strings.TrimSpace(s), fence)
	info, code, lines := strings.Cut(s, "\n")
	code, closed := strings.CutSuffix(code, fence)
	word := !strings.ContainsFunc(strings.TrimSpace(info), func(r rune) bool { return !unicode.IsLetter(r) })
	if !ok || !lines || !closed || !word || strings.Contains("\n"+code, "\n"+fence) {
		return "", false
	}
	return code, true
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
	return m, c.only(m, takes, known...)
}

// only is an error where the arguments m have others than the known ones.
func (c *controlCall) only(m map[string]json.RawMessage, takes string, known ...string) error {
	unknown := maps.Clone(m)
	maps.DeleteFunc(unknown, func(k string, _ json.RawMessage) bool { return slices.Contains(known, k) })
	if len(unknown) > 0 {
		return unknownField(c.name, takes, unknown)
	}
	return nil
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
