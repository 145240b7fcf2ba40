package main

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func (a *app) explainCommand() *cobra.Command {
	var o client.RunOptions
	var mode, tools, tool, callArgs, data string
	c := &cobra.Command{
		Use: "explain [RUN]", Short: "Say why a run has its surface, which one a run would have, or what policy says of a tool in a run", Args: between(0, 1),
		RunE: func(c *cobra.Command, args []string) error {
			if tool != "" || callArgs != "" {
				return a.explainPolicy(c, data, args, tool, callArgs)
			}
			r, err := a.explained(c, args, o, mode, tools)
			if err != nil {
				return err
			}
			if r.Decision == nil {
				return contracts.Errorf(contracts.CodeConflict, "the run is %s and has no decision", r.State)
			}
			if a.json {
				return a.printJSON(r.Decision)
			}
			rows := [][]string{{"", "CONDITION", "VALUE", "EFFECT"}}
			for _, cond := range r.Decision.Conditions {
				mark := ""
				if cond.Name == r.Decision.Winner {
					mark = ">"
				}
				rows = append(rows, []string{mark, cond.Name, oneLine(fmt.Sprint(cond.Value), 50), cond.Effect})
			}
			if err := a.table(rows); err != nil {
				return err
			}
			fmt.Fprintf(a.stdout, "\nsurface %s, decided by %s\n", r.Decision.Surface, r.Decision.Winner)
			return nil
		},
	}
	runFlags(c, &o, &mode, &tools)
	c.Flags().StringVar(&tool, "tool", "", "say what policy makes of the tool with this id in RUN; for operators")
	c.Flags().StringVar(&callArgs, "args", "", "with --tool: the arguments of a call, a JSON object")
	c.Flags().StringVar(&data, "data", usualData(), "data directory of the toolcrib on this machine, for its admin token")
	return c
}

// explainPolicy says whether policy lets a run see or call a tool, and what decides.
func (a *app) explainPolicy(c *cobra.Command, data string, args []string, tool, callArgs string) error {
	if len(args) != 1 || tool == "" {
		return usagef("explain --tool: give the run, and the tool's id")
	}
	run, err := contracts.ParseRunID(args[0])
	if err != nil {
		return err
	}
	q := client.RulingRequest{Tool: contracts.ToolID(tool)}
	if callArgs != "" {
		if q.Arguments = json.RawMessage(callArgs); !json.Valid(q.Arguments) {
			return usagef("--args: %s is no JSON; want an object", callArgs)
		}
	}
	v, err := a.operator(data).Ruling(c.Context(), run, q)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(v)
	}
	rows := [][]string{{"effect", string(v.Effect)}, {"visible", yesNo(v.Visible)}, {"known", yesNo(v.Known)}, {"layer", v.Layer}, {"rule", v.Rule}, {"reason", v.Reason}}
	return a.table(slices.DeleteFunc(rows, func(r []string) bool { return r[1] == "" }))
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// explained returns the run that args name, or one that was opened as the flags say and closed again.
func (a *app) explained(c *cobra.Command, args []string, o client.RunOptions, mode, tools string) (*client.RunView, error) {
	if len(args) == 1 {
		id, err := contracts.ParseRunID(args[0])
		if err != nil {
			return nil, err
		}
		return a.client().Run(c.Context(), id)
	}
	if err := complete(&o, mode, tools); err != nil {
		return nil, err
	}
	r, err := a.client().OpenRun(c.Context(), o)
	if err != nil {
		return nil, err
	}
	return r, a.client().CloseRun(c.Context(), r.ID)
}
