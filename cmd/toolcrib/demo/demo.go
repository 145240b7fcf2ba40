// Package demo does the main job on real input, before the eyes of whoever
// starts it: a run over real MCP servers, an HTTP service, a plugin on the bus, platform and client tools, in which a
// scripted model asks in plain words, finds, describes and calls. It checks everything
// that it shows: where something did not really happen, it fails.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A Stage is a running Toolcrib with the sources of [Servers] and [Plugins], and what the script needs to know of it.
type Stage struct {
	Client *client.Client // may open runs and call
	Admin  *client.Client // may set policies too
	Out    io.Writer
	// Folder is the one that the filesystem server may use, "" where there is no such server.
	Folder string
	// Sources are those that are configured.
	Sources []contracts.SourceID
	// Report prints a run's report.
	Report func(io.Writer, *contracts.Report) error
}

// Play runs the script. An error says what did not happen as it should.
func Play(ctx context.Context, s Stage) error {
	p := &play{Stage: s, ctx: ctx}
	for _, act := range []func() error{p.ready, p.open, p.tasks, p.hidden, p.mistake, p.blocked, p.report, p.code, p.endless, p.everyKind, p.otherSurfaces} {
		if err := act(); err != nil {
			return err
		}
	}
	p.say("\nAll of this really happened.\n")
	return nil
}

type play struct {
	Stage
	ctx   context.Context
	run   *client.RunView
	calls int // real calls made
}

func (p *play) say(format string, args ...any) { fmt.Fprintf(p.Out, format, args...) }

func (p *play) title(format string, args ...any) { p.say("\n== "+format+"\n", args...) }

// clientTools are the tools of the caller itself: a call of one comes back to it.
func clientTools() []client.ClientTool {
	return []client.ClientTool{{
		Name: "notify_user", Description: "Shows a short message on the user's screen",
		InputSchema: []byte(`{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}`),
	}}
}

// has reports whether there is such a source. Those that nobody configures are always there.
func (p *play) has(s contracts.SourceID) bool {
	return s.Kind == contracts.SourcePlatform || s.Kind == contracts.SourceClient || slices.Contains(p.Sources, s)
}

const readyWithin = time.Minute

// ready waits for the sources: a plugin may come only after it was looked for.
func (p *play) ready() error {
	for deadline := time.Now().Add(readyWithin); ; {
		all, err := p.Admin.Sources(p.ctx)
		if err != nil {
			return fmt.Errorf("list the sources: %w", err)
		}
		var missing []error
		for _, id := range p.Sources {
			i := slices.IndexFunc(all, func(s client.Source) bool { return s.Source == id })
			if i < 0 {
				missing = append(missing, fmt.Errorf("%s is not known", id))
			} else if s := all[i]; s.State != contracts.SourceStateReady {
				missing = append(missing, fmt.Errorf("%s is %s: %s", id, s.State, s.Reason))
			}
		}
		if len(missing) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not every source is ready: %w", errors.Join(missing...))
		}
		select {
		case <-p.ctx.Done():
			return p.ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (p *play) open() error {
	p.title("A run in the surface \"tools\"")
	var err error
	p.run, err = p.Client.OpenRun(p.ctx, client.RunOptions{Agent: "demo", Mode: "tools", WaitForSources: 60_000, ClientTools: clientTools()})
	if err != nil {
		return fmt.Errorf("open a run: %w", err)
	}
	if len(p.run.Pending)+len(p.run.Failed) > 0 {
		return fmt.Errorf("not every source is ready: pending %v, failed %v", p.run.Pending, p.run.Failed)
	}
	if p.run.Surface != contracts.SurfaceTools {
		return fmt.Errorf("surface %q, want tools", p.run.Surface)
	}
	p.say("%s holds %d tools; the model sees these %d:\n", p.run.ID, p.run.Catalogue.Size, len(p.run.Tools))
	for _, t := range p.run.Tools {
		p.say("  %-14s %s\n", t.Name, oneLine(t.Description, 90))
	}
	return nil
}

func (p *play) tasks() error {
	for _, t := range tasks(p.Folder) {
		if !p.has(t.source()) {
			continue
		}
		if err := p.do(t); err != nil {
			return fmt.Errorf("task %q: %w", t.ask, err)
		}
	}
	return nil
}

// do is one thought of the scripted model: search in plain words, take the hit that fits, look at it, call it.
func (p *play) do(t task) error {
	p.title("%s", t.ask)
	found, err := p.search(t.ask)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(found.Hits, func(h contracts.Hit) bool { return h.ID == t.tool })
	if i < 0 {
		return fmt.Errorf("%s is not among the hits %v", t.tool, ids(found.Hits))
	}
	p.say("search    %d hits; rank %d: %s %s\n", len(found.Hits), i+1, t.tool, oneLine(found.Hits[i].Input, 70))
	if t.describe {
		o, err := p.call("tool_describe", map[string]any{"id": t.tool})
		if err == nil {
			err = want(o, contracts.StatusOK)
		}
		if err != nil {
			return err
		}
		p.say("describe  %d bytes of definition\n", len(o.Result.StructuredContent))
	}
	o, err := p.callTool(t.tool, t.args)
	if err == nil {
		err = want(o, contracts.StatusOK)
	}
	if err != nil {
		return err
	}
	p.say("call      %s in %d ms: %s\n", o.Status, o.DurationMs, oneLine(text(o), 90))
	return t.check(o)
}

// hidden shows a tool that policy hides: to the model it does not exist.
func (p *play) hidden() error {
	if !p.has(contracts.SourceID{Kind: contracts.SourceMCP, Owner: "everything"}) {
		return nil
	}
	p.title("A tool that policy hides from the start")
	found, err := p.search("return all environment variables")
	if err != nil {
		return err
	}
	if slices.Contains(ids(found.Hits), HiddenTool) || slices.Contains(found.Nearest, HiddenTool) {
		return fmt.Errorf("search shows the hidden tool %s", HiddenTool)
	}
	o, err := p.callTool(HiddenTool, nil)
	if err != nil {
		return err
	}
	if o.Error == nil || o.Error.Code != contracts.CodeUnknownTool {
		return fmt.Errorf("a call of the hidden tool %s gives %s, want %s", HiddenTool, o.Status, contracts.CodeUnknownTool)
	}
	p.say("search    does not show %s\ncall      %s: %s\n", HiddenTool, o.Status, o.Error.Message)
	return nil
}

// mistake shows what a model is told that gets the arguments wrong.
func (p *play) mistake() error {
	p.title("Wrong arguments")
	o, err := p.callTool("mcp:desk:convert_currency", map[string]any{"amount": "twelve", "from": "EUR"})
	if err == nil {
		err = want(o, contracts.StatusInvalidArgs)
	}
	if err != nil {
		return err
	}
	p.say("call      %s: %s\n", o.Status, oneLine(o.Error.Message, 200))
	for _, f := range o.Error.Fields {
		p.say("          %s: %s\n", f.Field, f.Message)
	}
	if len(o.Error.Fields) < 2 {
		return fmt.Errorf("the wrong fields are not named: %v", o.Error.Fields)
	}
	return nil
}

// blocked has the operator forbid a tool in the middle of the run.
func (p *play) blocked() error {
	const tool = "mcp:desk:createTicket"
	p.title("The operator forbids %s in the middle of the run", tool)
	if _, err := p.Admin.SetPolicies(p.ctx, []contracts.PolicyLayer{{Level: "tenant", Deny: []string{tool}}}); err != nil {
		return fmt.Errorf("set the policy: %w", err)
	}
	defer p.Admin.DeletePolicies(context.WithoutCancel(p.ctx))
	o, err := p.callTool(tool, map[string]any{"title": "one more"})
	if err == nil {
		err = want(o, contracts.StatusBlocked)
	}
	if err != nil {
		return err
	}
	p.say("call      %s: %s\n", o.Status, o.Error.Message)
	return nil
}

func (p *play) report() error {
	p.title("The report")
	if err := p.Client.CloseRun(p.ctx, p.run.ID); err != nil {
		return fmt.Errorf("close the run: %w", err)
	}
	r, err := p.Client.Report(p.ctx, p.run.ID)
	if err != nil {
		return fmt.Errorf("read the report: %w", err)
	}
	if err := p.Report(p.Out, r); err != nil {
		return err
	}
	ok, blocked := 0, 0
	for _, c := range r.Calls {
		switch c.Status {
		case contracts.StatusOK:
			ok++
		case contracts.StatusBlocked:
			blocked++
		}
	}
	switch {
	case len(r.Calls) != p.calls:
		return fmt.Errorf("the report has %d calls, %d were made", len(r.Calls), p.calls)
	case ok == 0 || blocked != 1:
		return fmt.Errorf("the report has %d calls that are ok and %d blocked ones", ok, blocked)
	case r.Saved.Tokens <= 0 || r.Seen.Tokens <= 0 || len(r.Searches) == 0 || len(r.Describes) == 0:
		return errors.New("the report does not say what was seen, searched, described and saved")
	}
	return nil
}

// otherSurfaces opens the same catalogue in the surfaces that do without search, or decide by size.
func (p *play) otherSurfaces() error {
	p.title("The same catalogue in other surfaces")
	for _, mode := range []string{"direct", "auto", "auto:0"} {
		r, err := p.Client.OpenRun(p.ctx, client.RunOptions{Agent: "demo", Mode: mode, WaitForSources: 60_000})
		if err != nil {
			return fmt.Errorf("open a run in mode %s: %w", mode, err)
		}
		report, err := p.Client.Report(p.ctx, r.ID)
		if err != nil {
			return err
		}
		p.say("%-7s surface %-7s %3d model-facing tools, %6d tokens, decided by %s\n", mode, r.Surface, len(r.Tools), report.Seen.Tokens, r.Decision.Winner)
		if mode == "direct" {
			if err := p.direct(r); err != nil {
				return err
			}
		}
		if err := p.Client.CloseRun(p.ctx, r.ID); err != nil {
			return err
		}
	}
	return nil
}

// direct calls a tool by the name under which the model sees it.
func (p *play) direct(r *client.RunView) error {
	const name = "platform__core__now"
	if !slices.ContainsFunc(r.Tools, func(t contracts.ModelTool) bool { return t.Name == name }) {
		return fmt.Errorf("the surface direct has no tool %s", name)
	}
	o, err := p.Client.Call(p.ctx, r.ID, client.CallRequest{Name: name})
	if err != nil {
		return err
	}
	return want(o, contracts.StatusOK)
}

// checkFile returns an error unless the file in the folder holds the content.
func checkFile(folder, name, content string) error {
	data, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		return err
	}
	if string(data) != content {
		return fmt.Errorf("%s holds %q, want %q", name, data, content)
	}
	return nil
}
