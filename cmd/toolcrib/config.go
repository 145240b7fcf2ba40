package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func (a *app) configCommand() *cobra.Command {
	check := &cobra.Command{
		Use: "check FILE", Short: "Check a configuration file", Args: exactly(1),
		RunE: func(_ *cobra.Command, args []string) error {
			problems, err := checkConfig(args[0])
			if err != nil {
				return err
			}
			if a.json {
				if err := a.printJSON(problems); err != nil {
					return err
				}
			}
			if len(problems) > 0 {
				if a.json {
					return errTold
				}
				return problems
			}
			a.note("%s is good", args[0])
			return nil
		},
	}
	schema := &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of the configuration file", Args: exactly(0),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.stdout, string(config.Schema()))
			return err
		},
	}
	return group("config", "Check the configuration file and print its schema", check, schema)
}

// checkConfig returns what is wrong with the file at path: all that up would refuse it for.
func checkConfig(path string) (config.Problems, error) {
	c, err := config.Load(path)
	if err == nil {
		err = c.Check()
	}
	problems, ok := errors.AsType[config.Problems](err)
	if err != nil && !ok {
		return nil, usageError{err}
	}
	if c == nil {
		return problems, nil
	}
	if err := config.Supported(c); err != nil {
		problems = append(problems, config.Problem{File: path, Message: contracts.AsError(err).Message})
	}
	return problems, nil
}
