package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/internal/core/control"
	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func (a *app) client() *client.Client { return client.New(a.url, a.token) }

func (a *app) runCommand() *cobra.Command {
	return group("run", "Open, look at and close runs",
		a.runOpen(), a.runList(), a.runShow(), a.runReport(), a.runLog(), a.runClose())
}

// runFlags adds the flags that describe a run to c.
func runFlags(c *cobra.Command, o *client.RunOptions, mode, tools *string) {
	f := c.Flags()
	f.StringVar(&o.Agent, "agent", "", "agent of the run")
	f.StringVar(&o.Profile, "profile", "", "profile of the run")
	f.StringVar(&o.Session, "session", "", "session of the run")
	f.StringVar(&o.Provider, "provider", "", "provider of the model")
	f.StringVar(&o.Model, "model", "", "the model")
	f.StringVar(&o.Platform, "platform", "", "where the model is reached")
	f.StringVar(&o.BaseURL, "base-url", "", "base URL that the model is reached at")
	f.StringVar(&o.Harness, "harness", "", "harness around the model")
	f.IntVar(&o.ContextWindow, "context-window", 0, "context window of the model in tokens")
	f.StringVar(&o.Hint, "hint", "", "the user's request")
	f.StringVar(mode, "mode", "", "true, false, auto, auto:N, code, tools, directory or direct")
	f.StringVar(tools, "client-tools", "", "JSON file with an array of tools that the caller runs itself")
	f.Int64Var(&o.ExpiresIn, "expires-in", 0, "seconds until the run ends by itself")
}

// complete fills in what flags cannot hold directly.
func complete(o *client.RunOptions, mode, tools string) error {
	switch mode {
	case "":
	case "true", "false":
		o.Mode = mode == "true"
	default:
		o.Mode = mode
	}
	o.WaitForSources = true
	if tools == "" {
		return nil
	}
	data, err := os.ReadFile(tools)
	if err != nil {
		return usagef("--client-tools: %w", err)
	}
	if err := json.Unmarshal(data, &o.ClientTools); err != nil {
		return usagef("--client-tools %s: want an array of tools: %w", tools, err)
	}
	return nil
}

func (a *app) runOpen() *cobra.Command {
	var o client.RunOptions
	var mode, tools string
	c := &cobra.Command{
		Use: "open", Short: "Open a run and print its id", Args: exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := complete(&o, mode, tools); err != nil {
				return err
			}
			r, err := a.client().OpenRun(c.Context(), o)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(r)
			}
			fmt.Fprintln(a.stdout, r.ID)
			a.note("%s", summary(r))
			return nil
		},
	}
	runFlags(c, &o, &mode, &tools)
	return c
}

// summary says in a line what a run is.
func summary(r *client.RunView) string {
	if r.Catalogue == nil {
		return string(r.State)
	}
	s := fmt.Sprintf("%s: %s of %s, surface %s with %s", r.State, plural(r.Catalogue.Size, "tool"),
		plural(len(r.Catalogue.Sources), "kind of source", "kinds of source"), r.Surface, plural(len(r.Tools), "model-facing tool"))
	for _, p := range r.Pending {
		s += fmt.Sprintf("; %s is pending", p.Source)
	}
	for _, p := range r.Failed {
		s += fmt.Sprintf("; %s failed: %s", p.Source, p.Reason)
	}
	return s
}

func (a *app) runList() *cobra.Command {
	var state string
	var limit int
	c := &cobra.Command{
		Use: "list", Short: "List runs, newest first", Args: exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			runs, err := a.client().Runs(c.Context(), contracts.RunState(state), limit)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(runs)
			}
			rows := [][]string{{"RUN", "STATE", "SURFACE", "TOOLS", "AGENT", "CREATED"}}
			for _, r := range runs {
				tools := ""
				if r.Catalogue != nil {
					tools = fmt.Sprint(r.Catalogue.Size)
				}
				rows = append(rows, []string{string(r.ID), string(r.State), string(r.Surface), tools, r.Agent, r.Created.Local().Format(time.DateTime)})
			}
			return a.table(rows)
		},
	}
	c.Flags().StringVar(&state, "state", "", "only runs in this state: requested, planned, failed or closed")
	c.Flags().IntVar(&limit, "limit", 0, "how many at most")
	return c
}

func (a *app) runShow() *cobra.Command {
	return a.ofRun("show RUN", "Show a run", func(c *cobra.Command, id contracts.RunID) error {
		r, err := a.client().Run(c.Context(), id)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(r)
		}
		fmt.Fprintf(a.stdout, "%s\n%s\n", r.ID, summary(r))
		if r.Error != nil {
			fmt.Fprintf(a.stdout, "error: %s\n", r.Error.Message)
		}
		for _, t := range r.Tools {
			fmt.Fprintf(a.stdout, "\n%s\n  %s\n", t.Name, oneLine(t.Description, 200))
		}
		if r.Prompt != "" {
			fmt.Fprintf(a.stdout, "\n%s\n", r.Prompt)
		}
		return nil
	})
}

func (a *app) runReport() *cobra.Command {
	return a.ofRun("report RUN", "Say what a run saw, searched, called and saved", func(c *cobra.Command, id contracts.RunID) error {
		r, err := a.client().Report(c.Context(), id)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(r)
		}
		return writeReport(a.stdout, r)
	})
}

func (a *app) runLog() *cobra.Command {
	var follow bool
	c := a.ofRun("log RUN", "Print the session log of a run as JSON lines", func(c *cobra.Command, id contracts.RunID) error {
		enc := json.NewEncoder(a.stdout)
		if follow {
			for e, err := range a.client().Events(c.Context(), id, 0) {
				if err != nil {
					return err
				}
				if err := enc.Encode(map[string]any{"seq": e.Seq, "type": e.Type, "event": e.Data}); err != nil {
					return err
				}
			}
			return nil
		}
		for l, err := range a.client().Log(c.Context(), id) {
			if err != nil {
				return err
			}
			if err := enc.Encode(l); err != nil {
				return err
			}
		}
		return nil
	})
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what happens, until the run ends")
	return c
}

func (a *app) runClose() *cobra.Command {
	return a.ofRun("close RUN", "End a run", func(c *cobra.Command, id contracts.RunID) error {
		return a.client().CloseRun(c.Context(), id)
	})
}

// ofRun returns a command whose one argument is a run.
func (a *app) ofRun(use, short string, do func(*cobra.Command, contracts.RunID) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: exactly(1), RunE: func(c *cobra.Command, args []string) error {
		id, err := contracts.ParseRunID(args[0])
		if err != nil {
			return err
		}
		return do(c, id)
	}}
}

func (a *app) searchCommand() *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use: "search RUN QUERY", Short: "Search the tools of a run", Args: atLeast(2),
		RunE: func(c *cobra.Command, args []string) error {
			q := map[string]any{"query": strings.Join(args[1:], " ")}
			if c.Flags().Changed("limit") {
				q["limit"] = limit
			}
			var found contracts.SearchAnswer
			if err := a.control(c, args[0], control.Search, q, &found); err != nil || a.json {
				return err
			}
			rows := [][]string{{"SCORE", "TOOL", "INPUT", "DESCRIPTION"}}
			for _, h := range found.Hits {
				rows = append(rows, []string{fmt.Sprintf("%.2f", h.Score), string(h.ID), oneLine(h.Input, 60), oneLine(h.Description, 60)})
			}
			if len(found.Hits) > 0 {
				if err := a.table(rows); err != nil {
					return err
				}
			}
			a.note("%d of %s shown", len(found.Hits), plural(found.Total, "matching tool"))
			if len(found.Nearest) > 0 {
				a.note("nothing fits; nearest: %s", strings.Trim(fmt.Sprint(found.Nearest), "[]"))
			}
			for _, p := range found.Pending {
				a.note("%s is still pending", p.Source)
			}
			for _, f := range found.Failed {
				a.note("%s failed: %s", f.Source, f.Reason)
			}
			return nil
		},
	}
	c.Flags().IntVar(&limit, "limit", 0, "how many hits at most")
	return c
}

func (a *app) describeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "describe RUN TOOL", Short: "Print the exact definition of a tool as JSON", Args: exactly(2),
		RunE: func(c *cobra.Command, args []string) error {
			var d contracts.DescribeAnswer
			if err := a.control(c, args[0], control.Describe, map[string]any{"id": args[1]}, &d); err != nil || a.json {
				return err
			}
			return a.printJSON(d)
		},
	}
}

// control makes a call of a control tool and decodes what it found into out; with --json it prints that as it is.
func (a *app) control(c *cobra.Command, run, name string, args map[string]any, out any) error {
	o, err := a.call(c, run, name, args, "")
	if err != nil {
		return err
	}
	if o.Status != contracts.StatusOK {
		return o.Error
	}
	if a.json {
		return a.printJSON(o.Result.StructuredContent)
	}
	return json.Unmarshal(o.Result.StructuredContent, out)
}

func (a *app) call(c *cobra.Command, run, name string, args any, key string) (*client.CallAnswer, error) {
	id, err := contracts.ParseRunID(run)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	q := client.CallRequest{Name: name, Arguments: raw, Key: cmp.Or(key, rand.Text())}
	o, err := a.client().Call(c.Context(), id, q)
	switch {
	case c.Context().Err() == nil:
	case key != "":
		a.note("the call goes on; the same command waits for it again")
	default:
		a.cancelCall(id, q)
	}
	return o, err
}

// cancelCall ends a call whose caller has gone. It finds it by its key: the answer that would have named it never came.
func (a *app) cancelCall(run contracts.RunID, q client.CallRequest) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	o, err := a.client().Start(ctx, run, q)
	if err == nil && !o.Final() {
		if err = a.client().CancelCall(ctx, run, o.CallID); err == nil {
			a.note("cancelled %s", o.CallID)
		}
	}
	if err != nil {
		a.note("the call could not be cancelled, and may go on: %v", err)
	}
}

func (a *app) callCommand() *cobra.Command {
	var key string
	c := &cobra.Command{
		Use: "call RUN TOOL [ARGUMENTS]", Short: "Call a tool; ARGUMENTS is a JSON object, - reads it from standard input", Args: between(2, 3),
		RunE: func(c *cobra.Command, args []string) error {
			raw := json.RawMessage("{}")
			if len(args) == 3 {
				var err error
				if raw, err = a.argument(args[2]); err != nil {
					return err
				}
			}
			o, err := a.call(c, args[0], control.Call, map[string]any{"id": args[1], "args": raw}, key)
			if err != nil {
				return err
			}
			if a.json {
				err = a.printJSON(o)
			} else {
				err = writeOutcome(a.stdout, o)
			}
			if err == nil && o.Status != contracts.StatusOK {
				return errTold
			}
			return err
		},
	}
	c.Flags().StringVar(&key, "key", "", "idempotency key: an equal key in the same run is the same call")
	return c
}
