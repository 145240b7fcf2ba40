// Package workshop is a Model Context Protocol server with about seventy
// working tools over thirteen everyday areas: calendar, mail, tickets, files,
// contacts, shop, notes, weather, conversion, travel, leave, customers and
// operations. It is a realistic source for demonstrations and tests: its state
// is seeded with the same data in every process, its clock stands still, and
// its listing shows the schema oddities that servers in the field show.
//
// It is not a sample of how to write a small server, and it keeps nothing: the
// state is gone when the process ends. Only the counter file outlives it.
package workshop

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Config says what one workshop server is and serves. The zero value is a
// server of all areas named "workshop".
type Config struct {
	// Name is serverInfo.name. Empty means "workshop".
	Name string
	// Areas are the names of the areas to serve, in any order; see [Areas].
	// Nil or empty means all of them.
	Areas []string
	// CounterFile is a file that gets one JSON line for each execution of
	// increment_counter, so that executions can be counted after the process
	// was killed. It is created where missing and never truncated; its folder
	// must exist. Empty means no file.
	CounterFile string
}

// Areas returns the names of all areas, in the order in which instructions
// list them.
func Areas() []string {
	var names []string
	for _, a := range allAreas("", "") {
		names = append(names, a.name)
	}
	return names
}

// New returns a server with freshly seeded state. All sessions of the server
// share that state; they may call concurrently. It fails if cfg names an area
// that does not exist, or the same area twice.
func New(cfg Config) (*mcp.Server, error) {
	if cfg.Name == "" {
		cfg.Name = "workshop"
	}
	areas, err := selectAreas(allAreas(cfg.Name, cfg.CounterFile), cfg.Areas)
	if err != nil {
		return nil, err
	}
	srv := mcp.NewServer(
		&mcp.Implementation{Name: cfg.Name, Title: "Toolcrib workshop", Version: "1.0.0"},
		&mcp.ServerOptions{Instructions: instructions(areas)},
	)
	names := exposedNames(areas)
	for _, a := range areas {
		if a.resources != nil {
			a.resources(srv)
		}
		mu := a.mu
		if mu == nil {
			mu = new(sync.Mutex)
		}
		for i, t := range a.tools {
			if err := t.addTo(srv, names[a.name][i], mu); err != nil {
				return nil, fmt.Errorf("add tool %s of area %s: %w", t.name, a.name, err)
			}
		}
	}
	return srv, nil
}

// An area is one folder of the workshop: a set of tools and the state that
// they share, which is reachable through the tools' handlers only.
type area struct {
	name  string
	about string      // its line in the server instructions
	mu    sync.Locker // guards the state; nil means one is made for it
	tools []tool

	resources func(*mcp.Server) // adds what its links point at; may be nil
}

// A tool is the declaration of one tool.
type tool struct {
	name, title, about string
	hints              hint
	in, out            string // JSON Schemas; out may be empty
	meta               mcp.Meta
	run                handler
	// unlocked tools take the area's lock themselves, because they wait.
	unlocked bool
}

// A hint is a set of annotations. The zero hint means that the tool has none.
type hint uint8

const (
	readOnly    hint = 1 << iota
	additive         // changes things, destroys nothing
	destructive      // may lose what was there
	idempotent
	openWorld // reaches people or systems outside
	oldTitle  // the title is in the annotations, as older servers have it
)

func (t tool) annotations() *mcp.ToolAnnotations {
	if t.hints == 0 {
		return nil
	}
	open := t.hints&openWorld != 0
	a := &mcp.ToolAnnotations{
		ReadOnlyHint:   t.hints&readOnly != 0,
		IdempotentHint: t.hints&idempotent != 0,
		OpenWorldHint:  &open,
	}
	if t.hints&(additive|destructive) != 0 {
		d := t.hints&destructive != 0
		a.DestructiveHint = &d
	}
	if t.hints&oldTitle != 0 {
		a.Title = t.title
	}
	return a
}

// addTo registers t under name. Calls hold mu while they run.
func (t tool) addTo(srv *mcp.Server, name string, mu sync.Locker) error {
	in, err := newSchema(t.in)
	if err != nil {
		return fmt.Errorf("input schema: %w", err)
	}
	decl := &mcp.Tool{
		Name:        name,
		Description: t.about,
		Annotations: t.annotations(),
		InputSchema: json.RawMessage(t.in),
		Meta:        t.meta,
	}
	if t.hints&oldTitle == 0 {
		decl.Title = t.title
	}
	if t.out != "" {
		if _, err := compile([]byte(t.out)); err != nil {
			return fmt.Errorf("output schema: %w", err)
		}
		decl.OutputSchema = json.RawMessage(t.out)
	}
	if t.unlocked {
		mu = noLock{}
	}
	srv.AddTool(decl, serve(t.run, name, in, mu))
	return nil
}

type noLock struct{}

func (noLock) Lock()   {}
func (noLock) Unlock() {}

// allAreas makes every area with fresh state.
func allAreas(server, counterFile string) []area {
	return []area{
		newCalendar(), newMail(), newTickets(), newFiles(), newContacts(), newShop(), newNotes(),
		newWeather(), newConvert(), newTravel(), newLeave(), newCRM(), newOps(server, counterFile),
	}
}

// selectAreas keeps the areas that wanted names, in the order of all.
func selectAreas(all []area, wanted []string) ([]area, error) {
	if len(wanted) == 0 {
		return all, nil
	}
	var known []string
	for _, a := range all {
		known = append(known, a.name)
	}
	for i, w := range wanted {
		if !slices.Contains(known, w) {
			return nil, fmt.Errorf("areas: %q is no area; allowed are %s", w, strings.Join(known, ", "))
		}
		if slices.Contains(wanted[:i], w) {
			return nil, fmt.Errorf("areas: %q is named twice", w)
		}
	}
	return slices.DeleteFunc(all, func(a area) bool { return !slices.Contains(wanted, a.name) }), nil
}

// exposedNames gives the names of each area's tools, in their order. A name
// that several of the served areas have gets its area in front in each of
// them, because a server's names are unique.
func exposedNames(areas []area) map[string][]string {
	owners := map[string]int{}
	for _, a := range areas {
		for _, t := range a.tools {
			owners[t.name]++
		}
	}
	names := map[string][]string{}
	for _, a := range areas {
		for _, t := range a.tools {
			name := t.name
			if owners[name] > 1 {
				name = a.name + "_" + name
			}
			names[a.name] = append(names[a.name], name)
		}
	}
	return names
}

func instructions(areas []area) string {
	var b strings.Builder
	b.WriteString("The workshop's clock stands at Monday, 2 March 2026, 08:00 UTC. Everything here is fictitious and lives in memory.\n")
	for _, a := range areas {
		fmt.Fprintf(&b, "- %s: %s\n", a.name, a.about)
	}
	return b.String()
}
