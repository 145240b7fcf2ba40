package main

import (
	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/examples/workshop"
)

// workshopCommand serves the example tools, for the demo: so that the binary alone is enough for it.
func (a *app) workshopCommand() *cobra.Command {
	return &cobra.Command{
		Use: "workshop", Short: "Be the example MCP server that the demo uses", Hidden: true, DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error { return workshop.Main(c.Context(), args) },
	}
}
