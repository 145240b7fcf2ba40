package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func (a *app) explainCommand() *cobra.Command {
	var o client.RunOptions
	var mode, tools string
	c := &cobra.Command{
		Use: "explain [RUN]", Short: "Say why a run has its surface, or which one a run would have", Args: between(0, 1),
		RunE: func(c *cobra.Command, args []string) error {
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
	return c
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
