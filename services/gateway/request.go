package gateway

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const (
	mostLabels     = 64
	longestLabel   = 256    // bytes of a label's name or value
	longestWait    = 60_000 // milliseconds for sources
	defaultWait    = 5_000
	longestSetting = 8 << 10 // bytes of toolSearch
)

// wrong is an error about one field of a request.
func wrong(field, format string, args ...any) *contracts.Error {
	m := fmt.Sprintf(format, args...)
	e := contracts.Errorf(contracts.CodeInvalid, "%s: %s", field, m)
	e.Fields = []contracts.FieldError{{Field: "/" + field, Message: m}}
	return e
}

// runRequest checks what the schema of the API could not say and returns the wish as the record has it, without client tools.
func runRequest(o client.RunOptions) (contracts.RunRequest, error) {
	r := contracts.RunRequest{
		Labels: contracts.Labels{
			Agent: o.Agent, Profile: o.Profile, Session: o.Session, Sandbox: o.Sandbox, Channel: o.Channel, Runtime: o.Runtime, Labels: o.Labels,
		},
		Provider: o.Provider, Model: o.Model, Platform: o.Platform, BaseURL: o.BaseURL, Harness: o.Harness,
		ContextWindow: o.ContextWindow, Hint: o.Hint, ExpiresIn: o.ExpiresIn,
	}
	if len(o.Labels) > mostLabels {
		return r, wrong("labels", "has %d labels; want at most %d", len(o.Labels), mostLabels)
	}
	for k, v := range o.Labels {
		if k == "" || len(k) > longestLabel || len(v) > longestLabel {
			return r, wrong("labels", "%q: want names of 1 to %d bytes and values of at most as many", clip(k), longestLabel)
		}
	}
	for field, v := range map[string]string{
		"agent": o.Agent, "profile": o.Profile, "session": o.Session, "sandbox": o.Sandbox, "channel": o.Channel, "runtime": o.Runtime,
	} {
		if !printable(v) {
			return r, wrong(field, "%q has control or invisible characters", clip(v))
		}
	}
	var err error
	if r.ToolSearch, err = toolSearch(o); err != nil {
		return r, err
	}
	r.WaitForSources, err = waitForSources(o.WaitForSources)
	return r, err
}

// toolSearch returns the wished mode, which can be given under two names.
func toolSearch(o client.RunOptions) (json.RawMessage, error) {
	field, v := "toolSearch", o.ToolSearch
	if o.Mode != nil {
		if v != nil {
			return nil, wrong("mode", "is another name for toolSearch; give one of them")
		}
		field, v = "mode", o.Mode
	}
	if v == nil {
		return nil, nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, wrong(field, "cannot be encoded: %v", err)
	}
	if len(raw) > longestSetting {
		return nil, wrong(field, "has %d bytes; want at most %d", len(raw), longestSetting)
	}
	if _, err := config.ParseToolSearch(raw); err != nil {
		e := *contracts.AsError(err)
		if field == "mode" {
			e.Message = strings.ReplaceAll(e.Message, "toolSearch", "mode")
			e.Fields = slices.Clone(e.Fields)
			for i := range e.Fields {
				e.Fields[i].Field = strings.Replace(e.Fields[i].Field, "/toolSearch", "/mode", 1)
			}
		}
		return nil, &e
	}
	return raw, nil
}

// waitForSources returns the milliseconds that v stands for.
func waitForSources(v any) (int64, error) {
	switch v := v.(type) {
	case nil:
		return 0, nil
	case bool:
		if v {
			return defaultWait, nil
		}
		return 0, nil
	case float64:
		if v >= 0 && v <= longestWait && v == math.Trunc(v) {
			return int64(v), nil
		}
	}
	return 0, wrong("waitForSources", "is %s; want true or milliseconds from 0 to %d", clip(fmt.Sprint(v)), longestWait)
}
