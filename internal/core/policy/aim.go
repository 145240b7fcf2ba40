package policy

import (
	"fmt"
	"strings"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// CheckGlob returns an error for a text that is no glob, and for one that the id of no tool can match because it does not begin as one: a
// mistyped denial would leave open what it is to close. [Compile] takes such a glob, which is there for what was stored before.
func CheckGlob(glob string) error {
	if _, err := parseGlob(glob); err != nil {
		return err
	}
	begins, _, _ := strings.Cut(glob, "*")
	if i := strings.IndexAny(begins, `?[\`); i >= 0 {
		begins = begins[:i]
	}
	for _, k := range []contracts.SourceKind{contracts.SourceMCP, contracts.SourcePlugin, contracts.SourcePlatform, contracts.SourceClient} {
		kind := string(k) + ":"
		if strings.HasPrefix(begins, kind) || strings.HasPrefix(kind, begins) {
			return nil
		}
	}
	return fmt.Errorf("glob %q: no tool has such an id; want one whose beginning is mcp:, plugin:, platform: or client:, or a wildcard", clip(glob))
}

// CheckAim is [CheckGlob] of all globs of the layers. Its error is a [contracts.Error] with [contracts.CodeInvalid] whose field is a JSON Pointer into them.
func CheckAim(layers []contracts.PolicyLayer) error {
	check := func(pointer string, globs []string) error {
		for i, g := range globs {
			if err := CheckGlob(g); err != nil {
				e := contracts.Errorf(contracts.CodeInvalid, "%w", err)
				e.Fields = []contracts.FieldError{{Field: fmt.Sprintf("%s/%d", pointer, i), Message: err.Error()}}
				return e
			}
		}
		return nil
	}
	for i, l := range layers {
		at := fmt.Sprintf("/%d", i)
		if err := check(at+"/allow", l.Allow); err != nil {
			return err
		}
		if err := check(at+"/deny", l.Deny); err != nil {
			return err
		}
		for j, r := range l.Rules {
			if err := check(fmt.Sprintf("%s/rules/%d/tools", at, j), r.Tools); err != nil {
				return err
			}
		}
	}
	return nil
}
