package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A ToolSearchChoice is a row of the table of toolSearch.
type ToolSearchChoice string

// The choices.
const (
	ToolSearchUnset   ToolSearchChoice = ""        // nothing was said
	ToolSearchTrue    ToolSearchChoice = "true"    // defer, natively or not at all
	ToolSearchAuto    ToolSearchChoice = "auto"    // defer from a share of the context window on
	ToolSearchFalse   ToolSearchChoice = "false"   // everything direct
	ToolSearchSurface ToolSearchChoice = "surface" // a mode's name, or settings
)

// A ToolSearch is a value of toolSearch, of the configuration or of a run. The zero value is unset.
type ToolSearch struct {
	Choice ToolSearchChoice
	// Mode is the surface: direct for false, code for true and for settings without a mode, "" for auto without one and where unset.
	Mode contracts.SurfaceMode
	// Percent is the share of the context window from which on auto defers, 0 to 100. Only for auto.
	Percent int
	// Settings; 0, "" and nil mean unset.
	SearchDefaultLimit int
	MaxSearchLimit     int
	CodeTimeoutMs      int
	CodeUnavailable    string // "tools" or "refuse"
	Experimental       *bool
}

// toolSearchSettings is the object form of toolSearch.
type toolSearchSettings struct {
	Enabled            *bool  `json:"enabled,omitempty" doc:"false means the same as toolSearch: false. Default true."`
	Mode               string `json:"mode,omitempty" enum:"code,tools,directory,direct,auto" doc:"The surface. Default code. auto means the configured surface, from auto percent on."`
	Auto               *int   `json:"auto,omitempty" min:"0" max:"100" doc:"Everything is direct while the definitions to be deferred take less than this percentage of the context window. Unset, tools are always deferred; with mode auto it is 10."`
	SearchDefaultLimit int    `json:"searchDefaultLimit,omitempty" min:"1" max:"50" doc:"Hits of a search that asks for no number. Default 8."`
	MaxSearchLimit     int    `json:"maxSearchLimit,omitempty" min:"1" max:"50" doc:"Most hits that a search can ask for. Default 20."`
	CodeTimeoutMs      int    `json:"codeTimeoutMs,omitempty" min:"1000" max:"60000" doc:"Time limit of a body in milliseconds. Default 10000."`
	CodeUnavailable    string `json:"codeUnavailable,omitempty" enum:"tools,refuse" doc:"What becomes of surface code where no sandbox is up: the surface tools, or a refusal. Default tools."`
	Experimental       *bool  `json:"experimental,omitempty" doc:"Whether experimental features of providers may be used. Default true."`
}

const autoPercent = 10 // of auto without a number

// ParseToolSearch returns the value that raw, a JSON value, stands for; null and nothing are unset.
// The error is a [contracts.Error] with CodeInvalid that names each wrong field.
func ParseToolSearch(raw json.RawMessage) (ToolSearch, error) {
	var t ToolSearch
	if len(bytes.TrimSpace(raw)) == 0 {
		return t, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	err := dec.Decode(&v)
	if err == nil && !errors.Is(skip(dec), io.EOF) {
		err = errors.New("text after the value")
	}
	if err != nil {
		return t, contracts.Errorf(contracts.CodeInvalid, "toolSearch: %w", err)
	}
	d := newDecoder("", "")
	t.decodeNode(d, jsonNode(v), "toolSearch")
	if len(d.problems) == 0 {
		return t, nil
	}
	e := contracts.Errorf(contracts.CodeInvalid, "%v", d.problems)
	for _, p := range d.problems {
		e.Fields = append(e.Fields, contracts.FieldError{Field: "/" + strings.ReplaceAll(p.Path, ".", "/"), Message: p.Message})
	}
	return ToolSearch{}, e
}

func skip(dec *json.Decoder) error {
	_, err := dec.Token()
	return err
}

// jsonNode returns the node of a decoded JSON value.
func jsonNode(v any) *node {
	switch v := v.(type) {
	case bool:
		return &node{kind: kindBool, truth: v, text: strconv.FormatBool(v)}
	case json.Number:
		return &node{kind: kindNumber, number: v.String(), text: v.String()}
	case string:
		return &node{kind: kindString, text: v}
	case []any:
		n := &node{kind: kindList}
		for _, item := range v {
			n.items = append(n.items, jsonNode(item))
		}
		return n
	case map[string]any:
		n := &node{kind: kindObject}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			n.fields = append(n.fields, field{k, jsonNode(v[k])})
		}
		return n
	}
	return &node{kind: kindNull}
}

// UnmarshalJSON is [ParseToolSearch].
func (t *ToolSearch) UnmarshalJSON(b []byte) error {
	v, err := ParseToolSearch(b)
	if err == nil {
		*t = v
	}
	return err
}

const toolSearchForms = "true, false, code, tools, directory, direct, auto, auto:N with N from 0 to 100, or an object of settings"

func (t *ToolSearch) decodeNode(d *decoder, n *node, path string) {
	switch n.kind {
	case kindNull:
		*t = ToolSearch{}
	case kindBool:
		*t = ofWord(strconv.FormatBool(n.truth))
	case kindString:
		v := ofWord(n.text)
		if v.Choice == ToolSearchUnset {
			d.add(path, "is %q; want %s", clip(n.text), toolSearchForms)
		}
		*t = v
	case kindObject:
		before := len(d.problems)
		var s toolSearchSettings
		d.decodeStruct(n, path, reflect.ValueOf(&s).Elem())
		if s.SearchDefaultLimit > cmp.Or(s.MaxSearchLimit, contracts.SearchMaxLimit) {
			d.add(join(path, "searchDefaultLimit"), "is %d; want at most maxSearchLimit, which is %d", s.SearchDefaultLimit, cmp.Or(s.MaxSearchLimit, contracts.SearchMaxLimit))
		}
		if len(d.problems) == before {
			*t = s.value()
		}
	default:
		d.add(path, "is %s; want %s", n.kind, toolSearchForms)
	}
}

// ofWord returns the value that a single word stands for, unset for none.
func ofWord(s string) ToolSearch {
	switch s {
	case "true":
		return ToolSearch{Choice: ToolSearchTrue, Mode: contracts.SurfaceCode}
	case "false":
		return ToolSearch{Choice: ToolSearchFalse, Mode: contracts.SurfaceDirect}
	case "auto":
		return ToolSearch{Choice: ToolSearchAuto, Percent: autoPercent}
	case "code", "tools", "directory", "direct":
		return ToolSearch{Choice: ToolSearchSurface, Mode: contracts.SurfaceMode(s)}
	}
	if digits, ok := strings.CutPrefix(s, "auto:"); ok {
		if n, err := strconv.ParseUint(digits, 10, 7); err == nil && n <= 100 {
			return ToolSearch{Choice: ToolSearchAuto, Percent: int(n)}
		}
	}
	return ToolSearch{}
}

// value returns what the settings stand for.
func (s *toolSearchSettings) value() ToolSearch {
	t := ToolSearch{
		SearchDefaultLimit: s.SearchDefaultLimit,
		MaxSearchLimit:     s.MaxSearchLimit,
		CodeTimeoutMs:      s.CodeTimeoutMs,
		CodeUnavailable:    s.CodeUnavailable,
		Experimental:       s.Experimental,
	}
	switch {
	case s.Enabled != nil && !*s.Enabled:
		t.Choice, t.Mode = ToolSearchFalse, contracts.SurfaceDirect
	case s.Auto != nil || s.Mode == "auto":
		t.Choice, t.Percent = ToolSearchAuto, autoPercent
		if s.Auto != nil {
			t.Percent = *s.Auto
		}
		if s.Mode != "auto" {
			t.Mode = contracts.SurfaceMode(s.Mode)
		}
	default:
		t.Choice, t.Mode = ToolSearchSurface, contracts.SurfaceMode(cmp.Or(s.Mode, "code"))
	}
	return t
}

// MarshalJSON returns the shortest form that reads as t, null where it is unset. It is for
// what [ParseToolSearch] returned: no form has true, or nothing, together with settings.
func (t ToolSearch) MarshalJSON() ([]byte, error) {
	bare := ToolSearch{Choice: t.Choice, Mode: t.Mode, Percent: t.Percent}
	word := string(t.Choice)
	switch t.Choice {
	case ToolSearchUnset:
		return []byte("null"), nil
	case ToolSearchAuto:
		word = fmt.Sprintf("auto:%d", t.Percent)
	case ToolSearchSurface:
		word = string(t.Mode)
	}
	if t == bare && ofWord(word) == bare {
		if t.Choice == ToolSearchTrue || t.Choice == ToolSearchFalse {
			return []byte(word), nil
		}
		return json.Marshal(word)
	}
	s := toolSearchSettings{
		Mode:               string(t.Mode),
		SearchDefaultLimit: t.SearchDefaultLimit,
		MaxSearchLimit:     t.MaxSearchLimit,
		CodeTimeoutMs:      t.CodeTimeoutMs,
		CodeUnavailable:    t.CodeUnavailable,
		Experimental:       t.Experimental,
	}
	switch t.Choice {
	case ToolSearchFalse:
		s.Enabled, s.Mode = new(bool), ""
	case ToolSearchAuto:
		s.Auto = &t.Percent
	}
	return json.Marshal(s)
}

// EffectiveToolSearch returns what holds when several levels speak, the nearest first: the
// choice is that of the nearest level that made one, each setting that of the nearest
// level that has it, and everything else the default. Only Choice can be unset in the
// result; Mode is then code. auto without a mode takes that of the nearest level that defers.
func EffectiveToolSearch(levels ...ToolSearch) ToolSearch {
	var e ToolSearch
	for _, l := range levels {
		switch {
		case e.Choice == ToolSearchUnset:
			e.Choice, e.Mode, e.Percent = l.Choice, l.Mode, l.Percent
		case e.Mode == "" && l.Mode != contracts.SurfaceDirect:
			e.Mode = l.Mode
		}
		e.SearchDefaultLimit = cmp.Or(e.SearchDefaultLimit, l.SearchDefaultLimit)
		e.MaxSearchLimit = cmp.Or(e.MaxSearchLimit, l.MaxSearchLimit)
		e.CodeTimeoutMs = cmp.Or(e.CodeTimeoutMs, l.CodeTimeoutMs)
		e.CodeUnavailable = cmp.Or(e.CodeUnavailable, l.CodeUnavailable)
		e.Experimental = cmp.Or(e.Experimental, l.Experimental)
	}
	experimental := true
	e.Mode = cmp.Or(e.Mode, contracts.SurfaceCode)
	e.MaxSearchLimit = cmp.Or(e.MaxSearchLimit, contracts.SearchMaxLimit)
	e.SearchDefaultLimit = min(cmp.Or(e.SearchDefaultLimit, contracts.SearchDefaultLimit), e.MaxSearchLimit)
	e.CodeTimeoutMs = cmp.Or(e.CodeTimeoutMs, 10_000)
	e.CodeUnavailable = cmp.Or(e.CodeUnavailable, "tools")
	e.Experimental = cmp.Or(e.Experimental, &experimental)
	return e
}
