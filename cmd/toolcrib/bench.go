package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/services/sandbox/trials"
	"github.com/toolcrib/toolcrib/services/sandbox/worker"
)

func (a *app) benchCommand() *cobra.Command {
	return group("bench", "Measure", a.benchSandboxCommand())
}

func (a *app) benchSandboxCommand() *cobra.Command {
	var node string
	var rounds int
	var hostile bool
	c := &cobra.Command{
		Use: "sandbox", Short: "Measure what bodies cost in the sandbox, and beside it in Node",
		Long: "Runs bodies in the sandbox's worker processes, with calls that are answered at once, and the same bodies in a\n" +
			"Node process each, in turn. CPU time is that of all processes together. Ends with 1 only where something could not be\n" +
			"run; figures that are worse than aimed at are marked.",
		Args: exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			if rounds < 1 {
				return usagef("--rounds: %d, want at least 1", rounds)
			}
			b := trials.Bench{Rounds: rounds, Hostile: hostile, Log: func(s string) { a.note("%s", s) }}
			var err error
			if b.Node, err = trials.FindNode(c.Context(), node); err != nil {
				if node != "" || !errors.Is(err, exec.ErrNotFound) {
					return err
				}
				a.note("Node is not there, so that nothing is compared with it.")
			}
			if dir, err := os.UserCacheDir(); err == nil {
				b.Pool = worker.Config{CacheDir: filepath.Join(dir, "toolcrib", "engine")}
			}
			r, err := b.Run(c.Context())
			if err != nil {
				return err
			}
			return a.writeBench(r)
		},
	}
	f := c.Flags()
	f.StringVar(&node, "node", "", "path of the Node to compare with; the default is the one that the system finds, if any")
	f.IntVar(&rounds, "rounds", 10, "how often everything is measured")
	f.BoolVar(&hostile, "hostile", false, "also run hostile bodies, and measure how they end and what a neighbour notices; takes some minutes")
	return c
}

// writeBench prints a report.
func (a *app) writeBench(r *trials.Report) error {
	if a.json {
		return a.printJSON(r)
	}
	fmt.Fprintf(a.stdout, "%s; Node: %s\nlayers of protection: %v\n\n", r.Machine, orNone(r.Node), r.Layers)
	rows := [][]string{{"BODY", "MEDIAN", "P99", "CPU", "PER SECOND", "NODE MEDIAN", "NODE CPU", "WALL", "CPU"}}
	for _, row := range r.Rows {
		m := row.Sandbox
		line := []string{row.Name, short(m.Median), short(m.P99), cpu(m.CPU), fmt.Sprintf("%.0f", m.PerSecond), "", "", "", ""}
		if n := row.Node; n != nil {
			copy(line[5:], []string{short(n.Median), short(n.CPU), fmt.Sprintf("%.1f x", row.Wall), fmt.Sprintf("%.1f x", row.CPU)})
		}
		rows = append(rows, line)
	}
	if err := a.table(rows); err != nil {
		return err
	}
	if err := a.writeHostile(r); err != nil {
		return err
	}
	fmt.Fprintln(a.stdout)
	rows = [][]string{{"", "AIM", "GOT"}}
	for _, aim := range r.Aims {
		rows = append(rows, []string{passed(aim.OK), aim.Name, aim.Got})
	}
	return a.table(rows)
}

// writeHostile prints what was measured of hostile bodies, if anything was.
func (a *app) writeHostile(r *trials.Report) error {
	if len(r.Hostile) == 0 {
		return nil
	}
	fmt.Fprintln(a.stdout)
	rows := [][]string{{"HOSTILE BODIES", "AT ONCE", "LIMIT", "REACHED IT", "OVER IT: MEDIAN", "P99", "MOST", "MEMORY"}}
	for _, h := range r.Hostile {
		rows = append(rows, []string{fmt.Sprint(h.Bodies), fmt.Sprint(h.AtOnce), h.Limit.String(), fmt.Sprint(h.Over.Count),
			short(h.Over.Median), short(h.Over.P99), short(h.Over.Max), fmt.Sprintf("%d MiB", h.Memory)})
	}
	if n := r.Neighbour; n != nil {
		rows = append(rows, []string{"", "", "", "", "", "", "", ""}, []string{"NEIGHBOUR", "BODIES", "", "", "MEDIAN", "P99", "MOST", ""},
			[]string{"alone", fmt.Sprint(n.Alone.Count), "", "", short(n.Alone.Median), short(n.Alone.P99), short(n.Alone.Max), ""},
			[]string{fmt.Sprintf("beside %d hostile bodies", n.Attacks), fmt.Sprint(n.Beside.Count), "", "", short(n.Beside.Median), short(n.Beside.P99), short(n.Beside.Max), ""})
	}
	if err := a.table(rows); err != nil {
		return err
	}
	for _, h := range r.Hostile {
		for _, w := range h.Wrong {
			fmt.Fprintln(a.stdout, oneLine(w, 300))
		}
	}
	return nil
}

func passed(ok bool) string {
	if ok {
		return "pass"
	}
	return "FAIL"
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// cpu gives a CPU time, nothing where it was not measured.
func cpu(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return short(d)
}

// short gives a time with three digits or so.
func short(d time.Duration) string {
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if d >= unit {
			return d.Round(unit / 100).String()
		}
	}
	return d.String()
}
