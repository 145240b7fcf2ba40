// Command toolcrib is Toolcrib in one binary: all services in one process, and
// the command line that operates them. This package wires and prints; what the product does is in the services.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/sandbox"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == sandbox.WorkerCommand {
		os.Exit(sandbox.Worker(os.Args[2:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// run executes one command line and returns its exit code.
func run(ctx context.Context, args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	app := &app{environ: environ, stdin: stdin, stdout: stdout, stderr: stderr}
	root := app.command()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if !errors.Is(err, errTold) {
		fmt.Fprintln(stderr, "toolcrib:", explainError(err))
	}
	if _, wrong := errors.AsType[usageError](err); wrong {
		return exitUsage
	}
	if contracts.CodeOf(err) == contracts.CodeInternal {
		return exitFailed
	}
	return contracts.InfoOf(contracts.CodeOf(err)).Exit
}

// errTold ends a command that has said already what went wrong.
var errTold = errors.New("told")

// A usageError is a command line that cannot be understood.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// explainError adds to an error what to do next, where that is known.
func explainError(err error) string {
	e, ok := errors.AsType[*contracts.Error](err)
	if !ok {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) {
			return err.Error() + "\n  The connection broke before the answer came: what was asked for may have happened. toolcrib run log RUN tells of calls."
		}
		return err.Error()
	}
	msg := strings.Replace(err.Error(), e.Error(), e.Message, 1)
	for _, f := range e.Fields {
		msg += fmt.Sprintf("\n  %s: %s", f.Field, f.Message)
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		msg += "\n  Is it running? Start it with: toolcrib up"
	case e.Code == contracts.CodeUnauthenticated || e.Code == contracts.CodeForbidden:
		msg += "\n  Give a token with --token or in TOOLCRIB_TOKEN."
	}
	return msg
}

// app is what the commands share.
type app struct {
	environ        []string // as os.Environ
	stdin          io.Reader
	stdout, stderr io.Writer
	url, token     string
	json           bool
}

func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "toolcrib",
		Short: "The tool crib for AI agents",
		Long: "Toolcrib shows a model one to three small control tools, searches thousands of others for it,\n" +
			"and calls the chosen ones through one place with policy, limits and a record of everything.",
		SilenceUsage: true, SilenceErrors: true,
		Args: noCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	f := root.PersistentFlags()
	f.StringVar(&a.url, "url", a.or("TOOLCRIB_URL", "http://127.0.0.1:7420"), "address of a running toolcrib")
	f.StringVar(&a.token, "token", a.or("TOOLCRIB_TOKEN", ""), "API key or admin token")
	f.BoolVar(&a.json, "json", false, "print data as JSON")
	root.AddCommand(a.upCommand(), a.demoCommand(), a.mcpCommand(), a.runCommand(), a.searchCommand(), a.describeCommand(),
		a.callCommand(), a.execCommand(), a.explainCommand(), a.configCommand(), a.versionCommand(), a.benchCommand(), a.approvalsCommand(), a.grantsCommand(), a.toolsCommand(), a.workshopCommand(),
		a.depotCommand(), a.ledgerCommand(), a.keysCommand())
	return root
}

// or returns the environment variable name, or the fallback where it is empty.
func (a *app) or(name, fallback string) string {
	for _, kv := range a.environ {
		if k, v, _ := strings.Cut(kv, "="); k == name && v != "" {
			return v
		}
	}
	return fallback
}

// group returns a command that only holds others.
func group(use, short string, subs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: noCommand, RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	c.AddCommand(subs...)
	return c
}

func noCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := ""
	c.SuggestionsMinimumDistance = 2
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		hint = fmt.Sprintf("; did you mean %q?", near[0])
	}
	return usagef("unknown command %q for %q%s", args[0], c.CommandPath(), hint)
}

// exactly and atLeast check the number of arguments.
func exactly(n int) cobra.PositionalArgs { return usageArgs(cobra.ExactArgs(n)) }
func between(least, most int) cobra.PositionalArgs {
	return usageArgs(cobra.RangeArgs(least, most))
}
func atLeast(n int) cobra.PositionalArgs { return usageArgs(cobra.MinimumNArgs(n)) }

func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return usagef("%w\nusage: %s", err, c.UseLine())
		}
		return nil
	}
}
