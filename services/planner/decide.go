package planner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/internal/core/control"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const (
	// assumedWindow is the context window, in tokens, of a model that nothing is known of.
	assumedWindow = 200_000
	// fewTools is the number of tools below which deferring hardly pays.
	fewTools = 10
)

// Names of the conditions of a decision, in the order in which they stand in it.
const (
	conditionToolSearch  = "toolSearch"
	conditionLevel       = "toolSearch.level"
	conditionSearchTools = "policy.searchTools"
	conditionSurface     = "surface.available"
	conditionNative      = "native"
	conditionWindow      = "contextWindow"
	conditionDefinitions = "definitions.tokens"
	conditionTools       = "tools"
	conditionPending     = "sources.pending"
)

// facts are all that a decision depends on.
type facts struct {
	choice   config.ToolSearch // the one that holds
	level    string            // where it was made
	surfaces []contracts.SurfaceMode
	sandbox  string   // why no body can be run, "" where one can or none is wanted
	denied   []string // control tools that policy denies
	window   int      // tokens; 0 means unknown
	tools    int      // that the run may see
	deferred int      // tokens of the definitions that would be deferred
	pending  int      // sources
}

// missing returns why the surface code cannot be given, "" where it can.
func (f *facts) missing() string {
	if !slices.Contains(f.surfaces, contracts.SurfaceCode) {
		return "not offered here"
	}
	return f.sandbox
}

// allows reports whether policy denies none of the control tools that a surface cannot do without.
func (f *facts) allows(m contracts.SurfaceMode) bool {
	return !slices.ContainsFunc(needed(m), func(name string) bool { return slices.Contains(f.denied, name) })
}

// needed returns the control tools by which a model reaches what a surface defers.
func needed(m contracts.SurfaceMode) []string {
	switch m {
	case contracts.SurfaceDirect:
		return nil
	case contracts.SurfaceCode:
		return []string{control.Code}
	}
	return []string{control.Search, control.Describe, control.Call}
}

// decide says what the model sees, and why.
func decide(f facts) contracts.Decision {
	d := decider{facts: f, window: f.window}
	if d.window <= 0 {
		d.window = assumedWindow
	}
	d.mode, d.winner = f.choice.Mode, conditionToolSearch
	if f.choice.Choice == config.ToolSearchFalse {
		d.mode = contracts.SurfaceDirect
	}
	d.say(conditionToolSearch, choiceValue(f.choice), choiceEffect(f.choice))
	d.say(conditionLevel, f.level, "")
	d.policy()
	d.available()
	d.say(conditionNative, false, nativeEffect(d.mode))
	d.size()
	d.hints()
	return contracts.Decision{Surface: d.mode, Winner: d.winner, Conditions: d.conditions}
}

// A decider is a decision being made: mode is the surface as far as the conditions said make it.
type decider struct {
	facts
	window     int
	mode       contracts.SurfaceMode
	winner     string
	conditions []contracts.Condition
}

func (d *decider) say(name string, value any, effect string) {
	d.conditions = append(d.conditions, contracts.Condition{Name: name, Value: value, Effect: effect})
}

// turn changes the surface because of a condition.
func (d *decider) turn(to contracts.SurfaceMode, why string) {
	d.mode, d.winner = to, why
}

func (d *decider) direct() bool { return d.mode == contracts.SurfaceDirect }

// policy replaces a surface where policy denies what a model needs to reach deferred tools.
func (d *decider) policy() {
	value := "allowed"
	if len(d.denied) > 0 {
		value = "denied: " + strings.Join(d.denied, ", ")
	}
	switch {
	case d.allows(d.mode):
		d.say(conditionSearchTools, value, "")
	case d.mode == contracts.SurfaceCode && d.allows(contracts.SurfaceTools):
		d.turn(contracts.SurfaceTools, conditionSearchTools)
		d.say(conditionSearchTools, value, "the surface tools takes the place of code")
	default:
		d.turn(contracts.SurfaceDirect, conditionSearchTools)
		d.say(conditionSearchTools, value, "there is no search, so every tool is direct")
	}
}

// available replaces a surface that cannot be given.
func (d *decider) available() {
	wished, why := d.mode, ""
	switch {
	case wished == contracts.SurfaceCode:
		why = d.missing()
	case !slices.Contains(d.surfaces, wished):
		why = "not offered here"
	}
	if why == "" {
		d.say(conditionSurface, string(wished), "")
		return
	}
	d.turn(contracts.SurfaceDirect, conditionSurface)
	because := ""
	switch {
	case !slices.Contains(d.surfaces, contracts.SurfaceTools):
	case d.allows(contracts.SurfaceTools):
		d.turn(contracts.SurfaceTools, conditionSurface)
	default:
		because = ", for policy denies what tools needs"
	}
	d.say(conditionSurface, string(wished)+": unavailable: "+why, "the surface "+string(d.mode)+" takes its place"+because)
}

// size makes everything direct where toolSearch is auto and the definitions are small.
func (d *decider) size() {
	assumed := ""
	if d.facts.window <= 0 {
		assumed = "assumed, the run did not tell it"
	}
	d.say(conditionWindow, d.window, assumed)
	if d.choice.Choice != config.ToolSearchAuto || d.direct() {
		d.say(conditionDefinitions, d.deferred, "")
		return
	}
	share := fmt.Sprintf("%d %% of the context window", d.choice.Percent)
	d.winner = conditionDefinitions
	if d.deferred*100 < d.choice.Percent*d.window {
		d.turn(contracts.SurfaceDirect, conditionDefinitions)
		d.say(conditionDefinitions, d.deferred, "less than "+share+", so every tool is direct")
		return
	}
	d.say(conditionDefinitions, d.deferred, "at least "+share+", so they are deferred")
}

// hints says what does not decide but should be known.
func (d *decider) hints() {
	effect := ""
	if !d.direct() && d.tools < fewTools {
		effect = fmt.Sprintf("hint: below %d tools the surface direct may cost less", fewTools)
	}
	d.say(conditionTools, d.tools, effect)
	effect = ""
	if d.pending > 0 {
		effect = "their tools can be searched once they are listed"
		if d.direct() {
			effect = "their tools are not among the direct ones; a surface stays as it is for the whole run"
		}
	}
	d.say(conditionPending, d.pending, effect)
}

// choiceValue returns the choice as it is written in a configuration file, without other settings.
func choiceValue(c config.ToolSearch) any {
	switch c.Choice {
	case config.ToolSearchUnset:
		return "unset"
	case config.ToolSearchAuto:
		return fmt.Sprintf("auto:%d", c.Percent)
	case config.ToolSearchTrue, config.ToolSearchFalse:
		return c.Choice == config.ToolSearchTrue
	}
	return string(c.Mode)
}

func choiceEffect(c config.ToolSearch) string {
	switch {
	case c.Choice == config.ToolSearchAuto:
		return fmt.Sprintf("direct below %d %% of the context window, else the surface %s", c.Percent, c.Mode)
	case c.Choice == config.ToolSearchFalse || c.Mode == contracts.SurfaceDirect:
		return "every tool is direct"
	}
	return "defer, with the surface " + string(c.Mode)
}

func nativeEffect(m contracts.SurfaceMode) string {
	if m == contracts.SurfaceDirect {
		return ""
	}
	return "the portable control tools are used"
}
