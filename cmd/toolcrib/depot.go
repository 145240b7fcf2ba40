package main

import (
	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/examples/depot"
)

// depotCommand serves the example HTTP service, for the demo: so that the binary alone is enough for it.
func (a *app) depotCommand() *cobra.Command {
	return &cobra.Command{
		Use: "depot", Short: "Be the example HTTP service that the demo uses", Hidden: true, DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error { return depot.Main(c.Context(), args) },
	}
}
