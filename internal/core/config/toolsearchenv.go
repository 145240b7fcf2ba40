package config

import (
	"encoding/json"
	"strings"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// EnvironToolSearch returns the mode that the environment wishes for in TOOL_SEARCH or ENABLE_TOOL_SEARCH, given as [os.Environ] gives it, unset where it wishes for none.
func EnvironToolSearch(environ []string) (ToolSearch, error) {
	for _, name := range []string{"TOOL_SEARCH", "ENABLE_TOOL_SEARCH"} {
		v := ""
		for _, kv := range environ {
			if k, value, _ := strings.Cut(kv, "="); k == name {
				v = value
				break
			}
		}
		if v == "" {
			continue
		}
		raw, _ := json.Marshal(v)
		if v == "true" || v == "false" {
			raw = []byte(v)
		}
		t, err := ParseToolSearch(raw)
		if err != nil {
			return t, contracts.Errorf(contracts.CodeInvalid, "environment %s: %w", name, err)
		}
		return t, nil
	}
	return ToolSearch{}, nil
}
