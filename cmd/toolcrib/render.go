package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/toolcrib/toolcrib/internal/core/names"
	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// note prints a remark that is no data.
func (a *app) note(format string, args ...any) { fmt.Fprintf(a.stderr, format+"\n", args...) }

func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

func (a *app) table(rows [][]string) error { return writeTable(a.stdout, rows) }

func writeTable(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		for i := range r {
			r[i] = names.Text(r[i])
		}
		fmt.Fprintln(t, strings.Join(r, "\t"))
	}
	return t.Flush()
}

// argument returns the JSON object that s is, or that standard input holds where s is "-".
func (a *app) argument(s string) (json.RawMessage, error) {
	data := []byte(s)
	if s == "-" {
		var err error
		if data, err = io.ReadAll(a.stdin); err != nil {
			return nil, fmt.Errorf("read the arguments: %w", err)
		}
	}
	var v map[string]json.RawMessage
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, usagef("ARGUMENTS: want a JSON object such as '{\"path\": \"a.txt\"}': %w", err)
	}
	return data, nil
}

// plural returns "1 tool", "2 tools"; a second form is for nouns that take more than an s.
func plural(n int, noun string, many ...string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case len(many) > 0:
		return fmt.Sprintf("%d %s", n, many[0])
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// oneLine returns s on one line of at most most characters, without what would move a terminal.
func oneLine(s string, most int) string {
	r := []rune(strings.Join(strings.Fields(names.Text(s)), " "))
	if len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return string(r)
}

// writeOutcome prints how a call ended: the tool's text as it is, and whatever went wrong.
func writeOutcome(w io.Writer, o *client.CallAnswer) error {
	if o.Result != nil {
		for _, block := range o.Result.Content {
			var b struct{ Type, Text string }
			if json.Unmarshal(block, &b) == nil && b.Type == "text" {
				fmt.Fprintln(w, names.Text(b.Text))
			} else {
				fmt.Fprintln(w, string(block))
			}
		}
	}
	if o.ClientCall != nil {
		fmt.Fprintf(w, "%s: run %s with %s and post the result\n", o.Status, o.ClientCall.Tool, o.ClientCall.Args)
	}
	for _, c := range o.ClientCalls {
		fmt.Fprintf(w, "%s: run %s with %s and post the result to call %s\n", o.Status, c.Tool, c.Args, c.CallID)
	}
	if o.Error != nil {
		fmt.Fprintf(w, "%s: %s\n", o.Status, o.Error.Message)
		for _, f := range o.Error.Fields {
			fmt.Fprintf(w, "  %s: %s\n", f.Field, f.Message)
		}
	}
	return nil
}

// writeReport prints a report in plain words.
func writeReport(w io.Writer, r *contracts.Report) error {
	fmt.Fprintf(w, "Run %s (%s), surface %s, catalogue of %s, revision %d\n", r.Run, r.State, r.Surface, plural(r.Catalogue.Size, "tool"), r.Catalogue.Revision)
	fmt.Fprintf(w, "\nSeen at the start: %s in %d bytes and a prompt of %d bytes, together %d tokens.\n",
		plural(r.Seen.Tools, "tool"), r.Seen.ToolBytes, r.Seen.PromptBytes, r.Seen.Tokens)
	fmt.Fprintf(w, "Direct exposure would have been %d bytes, %d tokens.\n", r.Direct.Bytes, r.Direct.Tokens)
	fmt.Fprintf(w, "Saved: %d bytes, %d tokens%s.\n", r.Saved.Bytes, r.Saved.Tokens, share(r.Saved.Tokens, r.Direct.Tokens))

	rows := [][]string{{"SOURCE", "TOOLS", "TOKENS", "CALLS"}}
	for _, kind := range slices.Sorted(maps.Keys(r.BySource)) {
		u := r.BySource[kind]
		rows = append(rows, []string{string(kind), fmt.Sprint(u.Tools), fmt.Sprint(u.Tokens), fmt.Sprint(u.Calls)})
	}
	fmt.Fprintln(w, "\nWhere tools came from")
	if err := writeTable(w, rows); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nSearched for (%d)\n", len(r.Searches))
	rows = [][]string{{"QUERY", "HITS", "CALLED", "MS"}}
	for _, s := range r.Searches {
		called := "-"
		if s.CalledRank > 0 {
			called = fmt.Sprintf("rank %d", s.CalledRank)
		}
		rows = append(rows, []string{oneLine(s.Query, 60), fmt.Sprint(s.Hits), called, fmt.Sprintf("%.2f", s.Ms)})
	}
	if err := writeTable(w, rows); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nCalled (%d)\n", len(r.Calls))
	rows = [][]string{{"TOOL", "SOURCE", "STATUS", "MS"}}
	for _, c := range r.Calls {
		status := string(c.Status)
		if status == "" {
			status = "running"
		}
		if c.Code != "" && string(c.Code) != status {
			status += " (" + string(c.Code) + ")"
		}
		rows = append(rows, []string{oneLine(c.Tool, 60), string(c.Source), status, fmt.Sprint(c.Ms)})
	}
	if err := writeTable(w, rows); err != nil || len(r.Bodies) == 0 {
		return err
	}
	fmt.Fprintf(w, "\nBodies (%d)\n", len(r.Bodies))
	rows = [][]string{{"BODY", "ENDED", "SEARCHES", "DESCRIBES", "CALLS", "MS"}}
	for _, b := range r.Bodies {
		rows = append(rows, []string{
			string(b.BodyID), bodyEnd(b), fmt.Sprint(b.Searches), fmt.Sprint(b.Describes), fmt.Sprint(b.Calls), fmt.Sprint(b.Ms),
		})
	}
	return writeTable(w, rows)
}

// bodyEnd says how a body ended.
func bodyEnd(b contracts.ReportBody) string {
	switch {
	case b.Running:
		return "running"
	case b.OK:
		return "ok"
	}
	return cmp.Or(string(b.Code), string(b.Refused))
}

func share(part, whole int) string {
	if whole <= 0 {
		return ""
	}
	return fmt.Sprintf(", %.1f %%", 100*float64(part)/float64(whole))
}
