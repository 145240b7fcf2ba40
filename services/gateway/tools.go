package gateway

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/admission"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// registerTools adds the routes by which operators admit tools.
func (a *api) registerTools(r *routes) {
	add(r, operation{method: "GET", path: "/v1/tools", id: "listTools", tag: "tools", scopes: operators(), text: "List the tools that the sources of the tenant offer, and how they stand."},
		func(ctx context.Context, in *toolFilter) (*body[client.ToolList], error) {
			return answer(a.toolList(ctx, principalOf(ctx).tenant, in))
		})
	add(r, operation{method: "GET", path: "/v1/tools/{tool}", id: "showTool", tag: "tools", scopes: operators(), text: "Show a tool, with what changed since it was admitted."},
		func(ctx context.Context, in *struct {
			Tool string `path:"tool" maxLength:"2048" doc:"The tool's id."`
		}) (*body[client.ToolView], error) {
			return answer(a.tool(ctx, principalOf(ctx).tenant, contracts.ToolID(in.Tool)))
		})
	add(r, operation{method: "PUT", path: "/v1/tools", id: "decideTools", tag: "tools", scopes: admins(), status: http.StatusNoContent, text: "Admit tools of a source as they are offered, or put them into quarantine."},
		func(ctx context.Context, in *body[client.ToolDecision]) (*nothing, error) {
			return &nothing{}, a.decideTools(ctx, principalOf(ctx), in.Body)
		})
}

// decideTools has the executor decide about tools.
func (a *api) decideTools(ctx context.Context, who principal, d client.ToolDecision) error {
	q := contracts.AdmitRequest{State: d.State, By: who.name}
	for i, t := range d.Tools {
		source, _, err := t.ID.Split()
		field := fmt.Sprintf("tools/%d", i)
		switch {
		case err != nil:
			return contracts.Errorf(contracts.CodeNotFound, "there is no tool %q", clip(string(t.ID)))
		case i > 0 && source != q.Source:
			return wrong(field+"/id", "is %q, and the first is of %s; want tools of one source", clip(string(t.ID)), q.Source)
		case d.State == contracts.ToolAdmitted && t.Hash == "":
			return wrong(field+"/hash", "is missing; admitting needs that of the tool that was looked at")
		}
		q.Source, q.Tools = source, append(q.Tools, contracts.ToolAt{Tool: t.ID, Hash: t.Hash})
	}
	_, err := bus.Ask[contracts.AdmitAnswer](ctx, a.bus, who.tenant, contracts.VerbAdmit, q)
	return err
}

// toolFilter says which tools to list.
type toolFilter struct {
	Source  string `query:"source" maxLength:"128" doc:"Only tools of this source, kind:owner."`
	State   string `query:"state" enum:"admitted,new,changed,quarantined" doc:"Only tools in this state."`
	Flagged bool   `query:"flagged" doc:"Only tools that are flagged."`
	After   string `query:"after" maxLength:"2048" doc:"Only tools whose ids come after this one."`
	Limit   int    `query:"limit" minimum:"1" maximum:"1000" default:"200" doc:"Most tools in the answer."`
}

// knownSources returns the sources of a tenant whose tools are admitted, with every decision that was made before.
func (a *api) knownSources(ctx context.Context, t contracts.TenantID) ([]*contracts.SourceRecord, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := a.live.Sync(ctx); err != nil {
		return nil, err
	}
	records, _ := a.live.Sources(t)
	return slices.DeleteFunc(records, func(r *contracts.SourceRecord) bool { return r.Admission == nil }), nil
}

// toolList lists tools.
func (a *api) toolList(ctx context.Context, t contracts.TenantID, f *toolFilter) (client.ToolList, error) {
	out := client.ToolList{Tools: []client.Tool{}}
	records, err := a.knownSources(ctx, t)
	if err != nil {
		return out, err
	}
	for _, rec := range records {
		if f.Source != "" && rec.Source.String() != f.Source {
			continue
		}
		known, err := admission.Load(ctx, a.runs.library, t, rec)
		if err != nil {
			return out, err
		}
		for _, s := range known.Standings() {
			if v := toolView(s); (f.State == "" || string(v.State) == f.State) && (!f.Flagged || len(v.Flags) > 0) && string(v.ID) > f.After {
				out.Tools = append(out.Tools, v)
			}
		}
	}
	slices.SortFunc(out.Tools, func(a, b client.Tool) int { return cmp.Compare(a.ID, b.ID) })
	if len(out.Tools) > f.Limit {
		out.Tools = out.Tools[:f.Limit]
		out.Next = out.Tools[f.Limit-1].ID
	}
	return out, nil
}

// tool returns one tool.
func (a *api) tool(ctx context.Context, t contracts.TenantID, id contracts.ToolID) (client.ToolView, error) {
	none := contracts.Errorf(contracts.CodeNotFound, "there is no tool %q", clip(string(id)))
	source, _, err := id.Split()
	if err != nil {
		return client.ToolView{}, none
	}
	records, err := a.knownSources(ctx, t)
	if err != nil {
		return client.ToolView{}, err
	}
	i := slices.IndexFunc(records, func(r *contracts.SourceRecord) bool { return r.Source == source })
	if i < 0 {
		return client.ToolView{}, none
	}
	known, err := admission.Load(ctx, a.runs.library, t, records[i])
	if err != nil {
		return client.ToolView{}, err
	}
	for _, s := range known.Standings() {
		if s.Offered.ID != id {
			continue
		}
		v := client.ToolView{Tool: toolView(s), Description: s.Offered.Description, InputSchema: s.Offered.InputSchema, OutputSchema: s.Offered.OutputSchema}
		if s.Admitted != nil {
			for _, c := range admission.Diff(s.Admitted, s.Offered) {
				v.Diff = append(v.Diff, client.ToolChange(c))
			}
		}
		return v, nil
	}
	return client.ToolView{}, none
}

// toolView returns what an operator is shown of a tool in a list.
func toolView(s admission.Standing) client.Tool {
	r := s.Remark
	v := client.Tool{ID: s.Offered.ID, Title: s.Offered.Title, State: r.State(), Hash: s.Offered.Hash, Held: r.Held, By: r.By, Since: r.Since, Flags: r.Flags}
	if s.Admitted != nil {
		v.Admitted = s.Admitted.Hash
	}
	return v
}
