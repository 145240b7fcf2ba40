package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/internal/core/names"
	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func (a *app) toolsCommand() *cobra.Command {
	c := group("tools", "Look at what sources offer, admit tools that changed, and hold tools back")
	data := a.dataFlag(c)
	c.AddCommand(a.toolsList(data), a.toolsShow(data), a.toolsAdmit(data), a.toolsQuarantine(data))
	return c
}

func (a *app) toolsList(data *string) *cobra.Command {
	var source, state string
	c := &cobra.Command{
		Use: "list", Short: "List the tools that sources offer, and how they stand", Args: exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			flagged := state == "flagged"
			if flagged {
				state = ""
			}
			list, err := a.operator(*data).Tools(c.Context(), source, contracts.AdmissionState(state), flagged)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(list)
			}
			rows := [][]string{{"TOOL", "STATE", "SINCE", "FLAGS"}}
			for _, t := range list {
				since := ""
				if !t.Since.IsZero() {
					since = t.Since.Local().Format(time.DateTime)
				}
				rows = append(rows, []string{oneLine(string(t.ID), 80), string(t.State), since, strings.Join(rulesOf(t.Flags), " ")})
			}
			return a.table(rows)
		},
	}
	f := c.Flags()
	f.StringVar(&source, "source", "", "only tools of this source, such as mcp:github")
	f.StringVar(&state, "state", "", "only tools in this state: admitted, new, changed, quarantined; or flagged")
	return c
}

// rulesOf returns the rules of flags, each once.
func rulesOf(flags []contracts.Flag) (rules []string) {
	for _, f := range flags {
		rules = append(rules, f.Rule)
	}
	slices.Sort(rules)
	return slices.Compact(rules)
}

func (a *app) toolsShow(data *string) *cobra.Command {
	return &cobra.Command{
		Use: "show TOOL", Short: "Show a tool: what changed since it was admitted, and what is suspicious", Args: exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			t, err := a.operator(*data).Tool(c.Context(), contracts.ToolID(args[0]))
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(t)
			}
			writeTool(a.stdout, t)
			return nil
		},
	}
}

// writeTool prints a tool for the person who is to admit it. What its source says of it is escaped, or stands behind a mark at the
// beginning of each line.
func writeTool(w io.Writer, t *client.ToolView) {
	fmt.Fprintf(w, "tool      %s\nstate     %s\nhash      %s\n", names.Escape(string(t.ID)), t.State, t.Hash)
	if t.Admitted != t.Hash {
		fmt.Fprintf(w, "admitted  %s\n", orNothing(string(t.Admitted)))
	}
	if t.Held {
		fmt.Fprintf(w, "held by   %s\n", names.Escape(t.By))
	}
	for _, f := range t.Flags {
		fmt.Fprintf(w, "flag      %s at %s: %s\n", f.Rule, f.Place, strings.Join(strings.Fields(f.Excerpt), " "))
	}
	for _, d := range t.Diff {
		fmt.Fprintf(w, "\n%s\n%s", d.Part, d.Diff)
	}
	if t.Admitted == "" || len(t.Diff) == 0 { // there is nothing to compare it with
		fmt.Fprintf(w, "\ndescription\n%s\ninputSchema\n%s", quoted(t.Description), quoted(string(t.InputSchema)))
	}
	if t.State != contracts.ToolAdmitted {
		fmt.Fprintf(w, "\nTo admit it as it is: toolcrib tools admit '%s' %s\n", strings.ReplaceAll(names.Escape(string(t.ID)), "'", `'\''`), t.Hash)
	}
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}

// quoted returns a text from outside with a mark before each line.
func quoted(s string) string {
	return "+" + strings.ReplaceAll(strings.TrimRight(names.Escape(s), "\n"), "\n", "\n+") + "\n"
}

func (a *app) toolsAdmit(data *string) *cobra.Command {
	var from string
	c := &cobra.Command{
		Use: "admit [TOOL HASH]", Short: "Admit a tool as it was shown",
		Args: usageArgs(func(_ *cobra.Command, args []string) error {
			if from == "" && len(args) == 2 || from != "" && len(args) == 0 {
				return nil
			}
			return fmt.Errorf("want a tool and the hash that show printed, or --from")
		}),
		Long: "Admits a tool as it was shown: HASH is the one that show printed. With --from those of a list that was looked at, as\n" +
			"list --json prints it. A tool that changed since then is refused, and with it all of its source.",
		RunE: func(c *cobra.Command, args []string) error {
			if from == "" {
				return a.decideTools(c, *data, contracts.ToolAdmitted, client.ToolSeen{ID: contracts.ToolID(args[0]), Hash: contracts.Hash(args[1])})
			}
			raw, err := a.input(from)
			if err != nil {
				return err
			}
			var seen []client.ToolSeen
			if err := json.Unmarshal(raw, &seen); err != nil {
				return usagef("%s: want what tools list --json prints: %w", from, err)
			}
			if len(seen) == 0 {
				a.note("no tools are in %s: nothing is admitted", from)
			}
			return a.decideTools(c, *data, contracts.ToolAdmitted, seen...)
		},
	}
	c.Flags().StringVar(&from, "from", "", "file with the tools to admit, - for standard input")
	return c
}

// input returns what the file holds, or standard input for "-".
func (a *app) input(file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(a.stdin)
	}
	return os.ReadFile(file)
}

func (a *app) toolsQuarantine(data *string) *cobra.Command {
	return &cobra.Command{
		Use: "quarantine TOOL...", Short: "Hold tools back from all runs until they are admitted", Args: atLeast(1),
		RunE: func(c *cobra.Command, args []string) error {
			var tools []client.ToolSeen
			for _, id := range args {
				tools = append(tools, client.ToolSeen{ID: contracts.ToolID(id)})
			}
			return a.decideTools(c, *data, contracts.ToolQuarantined, tools...)
		},
	}
}

// decideTools decides about tools, source by source.
func (a *app) decideTools(c *cobra.Command, data string, state contracts.AdmissionState, tools ...client.ToolSeen) error {
	bySource := map[contracts.SourceID][]client.ToolSeen{}
	for _, t := range tools {
		source, _, err := t.ID.Split()
		if err != nil {
			return err
		}
		bySource[source] = append(bySource[source], t)
	}
	sources := slices.SortedFunc(maps.Keys(bySource), func(a, b contracts.SourceID) int { return strings.Compare(a.String(), b.String()) })
	for _, source := range sources {
		for some := range slices.Chunk(bySource[source], contracts.AdmitMost) {
			if err := a.operator(data).DecideTools(c.Context(), state, some...); err != nil {
				return err
			}
			a.note("%s of %s: %s", plural(len(some), "tool"), source, state)
		}
	}
	return nil
}
