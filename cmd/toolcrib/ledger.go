package main

import (
	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/examples/plugin-ledger/ledger"
)

// ledgerCommand serves the example plugin, for the demo: so that the binary alone is enough for it.
func (a *app) ledgerCommand() *cobra.Command {
	return &cobra.Command{
		Use: "ledger", Short: "Be the example plugin that the demo uses", Hidden: true, DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error { return ledger.Main(c.Context(), args) },
	}
}
