package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/cmd/toolcrib/node"
	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// operator returns a client for commands that need a credential: the token that was given or, without one, that of a toolcrib on this
// machine, whose data directory is given or the usual one.
func (a *app) operator(data string) *client.Client {
	if a.token == "" {
		if b, err := os.ReadFile(node.TokenFile(data)); err == nil {
			return client.New(a.url, strings.TrimSpace(string(b)))
		}
	}
	return a.client()
}

func (a *app) approvalsCommand() *cobra.Command {
	c := group("approvals", "Decide on calls that wait for a person")
	data := a.dataFlag(c)
	c.AddCommand(a.approvalsList(data), a.approvalsShow(data), a.approvalsApprove(data), a.approvalsDeny(data))
	return c
}

func (a *app) grantsCommand() *cobra.Command {
	c := group("grants", "Look at and revoke what was approved once and for all")
	data := a.dataFlag(c)
	list := &cobra.Command{
		Use: "list", Short: "List the grants that hold, newest first", Args: exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			grants, err := a.operator(*data).Grants(c.Context())
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(grants)
			}
			rows := [][]string{{"GRANT", "TOOL", "AGENT", "ARGUMENTS", "BY", "EXPIRES"}}
			for _, g := range grants {
				var args []string
				for name, v := range g.Args {
					args = append(args, name+"="+string(v))
				}
				expires := "never"
				if !g.Expires.IsZero() {
					expires = g.Expires.Local().Format(time.DateTime)
				}
				rows = append(rows, []string{string(g.ID), string(g.Tool), g.Agent, oneLine(strings.Join(args, " "), 60), g.By, expires})
			}
			return a.table(rows)
		},
	}
	revoke := &cobra.Command{
		Use: "revoke GRANT", Short: "Revoke a grant: calls that it allowed are asked for again", Args: exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.operator(*data).RevokeGrant(c.Context(), contracts.GrantID(args[0]))
		},
	}
	c.AddCommand(list, revoke)
	return c
}

// usualData is where toolcrib up keeps its data unless it is told otherwise.
func usualData() string {
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return node.DataDir(&config.Config{}, home)
}

// dataFlag adds the flag that says where the admin token of a toolcrib on this machine is.
func (a *app) dataFlag(c *cobra.Command) *string {
	data := new(string)
	c.PersistentFlags().StringVar(data, "data", usualData(), "data directory of the toolcrib on this machine, for its admin token")
	return data
}

func (a *app) approvalsList(data *string) *cobra.Command {
	var state string
	c := &cobra.Command{
		Use: "list", Short: "List approvals, newest first", Args: exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			if state == "all" {
				state = ""
			}
			list, err := a.operator(*data).Approvals(c.Context(), contracts.ApprovalState(state))
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(list)
			}
			rows := [][]string{{"APPROVAL", "STATE", "SEVERITY", "TOOL", "ARGUMENTS", "AGENT", "EXPIRES"}}
			for _, p := range list {
				rows = append(rows, []string{string(p.ID), verdict(&p), string(p.Severity), string(p.Tool.ID), oneLine(string(p.Args), 60), p.Agent, p.Expires.Local().Format(time.DateTime)})
			}
			return a.table(rows)
		},
	}
	c.Flags().StringVar(&state, "state", string(contracts.ApprovalStateWaiting), "only approvals in this state: waiting, decided, expired or void; all for all")
	return c
}

// verdict says how an approval stands.
func verdict(p *client.Approval) string {
	if p.Verdict != nil {
		return string(p.Verdict.Decision)
	}
	return string(p.State)
}

func (a *app) approvalsShow(data *string) *cobra.Command {
	return &cobra.Command{
		Use: "show APPROVAL", Short: "Show an approval with the arguments of its call", Args: exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := a.operator(*data).Approval(c.Context(), contracts.ApprovalID(args[0]))
			if err != nil {
				return err
			}
			return a.printApproval(p)
		},
	}
}

func (a *app) printApproval(p *client.Approval) error {
	if a.json {
		return a.printJSON(p)
	}
	rows := [][]string{
		{"approval", string(p.ID)}, {"state", verdict(p)}, {"title", p.Title}, {"description", p.Description}, {"severity", string(p.Severity)},
		{"tool", string(p.Tool.ID)}, {"arguments", oneLine(string(p.Args), 2000)}, {"agent", p.Agent}, {"run", string(p.Run)}, {"call", string(p.Call)},
		{"asked by", p.AskedBy}, {"expires", p.Expires.Local().Format(time.DateTime)},
	}
	if v := p.Verdict; v != nil {
		rows = append(rows, []string{"decided", fmt.Sprintf("by %s at %s %s", v.By, v.At.Local().Format(time.DateTime), v.Note)})
	}
	if p.Grant != "" {
		rows = append(rows, []string{"grant", string(p.Grant)})
	}
	if p.Reason != "" {
		rows = append(rows, []string{"void", p.Reason})
	}
	return a.table(rows)
}

func (a *app) approvalsApprove(data *string) *cobra.Command {
	var always bool
	var scope client.GrantScope
	var note string
	c := &cobra.Command{
		Use: "approve APPROVAL", Short: "Let the call be made", Args: exactly(1),
		Long: "Lets the call be made, as it is and once. With --always later calls of the same tool by runs of the same agent are\n" +
			"made without asking, until the tool changes or the grant is revoked; --same narrows them to the same values of arguments.",
		RunE: func(c *cobra.Command, args []string) error {
			choice := client.ApprovalChoice{Decision: contracts.DecisionAllowOnce, Note: note}
			switch {
			case always:
				choice.Decision, choice.Scope = contracts.DecisionAllowAlways, &scope
			case len(scope.Args) > 0 || scope.ExpiresIn != 0:
				return usagef("--same and --expires-in go with --always")
			}
			return a.decide(c, *data, args[0], choice)
		},
	}
	f := c.Flags()
	f.BoolVar(&always, "always", false, "and make later calls of this tool without asking")
	f.StringSliceVar(&scope.Args, "same", nil, "with --always: arguments that must have the same values then")
	f.Int64Var(&scope.ExpiresIn, "expires-in", 0, "with --always: for so many seconds; 0 is until it is revoked")
	f.StringVar(&note, "note", "", "a note that is kept with the decision")
	return c
}

func (a *app) approvalsDeny(data *string) *cobra.Command {
	var note string
	c := &cobra.Command{
		Use: "deny APPROVAL", Short: "Do not let the call be made", Args: exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.decide(c, *data, args[0], client.ApprovalChoice{Decision: contracts.DecisionDeny, Note: note})
		},
	}
	c.Flags().StringVar(&note, "note", "", "why; the model is told it")
	return c
}

func (a *app) decide(c *cobra.Command, data, id string, choice client.ApprovalChoice) error {
	p, err := a.operator(data).Decide(c.Context(), contracts.ApprovalID(id), choice)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(p)
	}
	a.note("%s: %s", p.ID, verdict(p))
	return nil
}
