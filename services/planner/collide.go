package planner

import (
	"strings"

	"github.com/toolcrib/toolcrib/internal/core/control"
	"github.com/toolcrib/toolcrib/internal/core/names"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// collisions returns an error with [contracts.CodeNameCollision] where a client
// tool that the run may see has the name of another tool that it may see, or of a control tool, whatever their case.
// A tool that policy hides collides with nothing.
func (w *world) collisions() error {
	taken := map[string]contracts.ToolID{}
	for _, name := range control.Names() {
		taken[name] = control.ID(name)
	}
	for i := range w.parts {
		p := &w.parts[i]
		if p.source().Kind != contracts.SourceClient {
			continue
		}
		var err error
		p.tools(func(t *contracts.Tool) {
			for _, form := range forms(t) {
				other, clash := taken[form]
				if !clash {
					other, clash = w.exposedByOthers(form)
				}
				if clash && err == nil {
					err = contracts.Errorf(contracts.CodeNameCollision, "clientTools: %q has the name of %q; give one of them another name", string(t.ID), string(other))
				}
			}
			for _, form := range forms(t) {
				taken[form] = t.ID
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// forms returns the names under which a client tool could be meant, in lower case.
func forms(t *contracts.Tool) []string {
	exposed, bare := strings.ToLower(names.Exposed(t.ID, false)), strings.ToLower(t.Name)
	if exposed == bare {
		return []string{bare}
	}
	return []string{exposed, bare}
}

func (w *world) exposedByOthers(name string) (contracts.ToolID, bool) {
	for i := range w.parts {
		if w.parts[i].source().Kind == contracts.SourceClient {
			continue
		}
		if id, ok := w.parts[i].exposed()[name]; ok {
			return id, true
		}
	}
	return "", false
}
