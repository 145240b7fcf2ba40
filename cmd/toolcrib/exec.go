package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/internal/core/control"
	"github.com/toolcrib/toolcrib/internal/core/names"
	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func (a *app) execCommand() *cobra.Command {
	var key string
	c := &cobra.Command{
		Use: "exec RUN FILE", Short: "Run a JavaScript body; FILE is its text, - reads it from standard input", Args: exactly(2),
		Long: "Run a JavaScript or TypeScript body in the sandbox of a run. The body is the inside of an async function: return gives\n" +
			"its value, which is printed as JSON. What it writes to its console comes on standard error.",
		RunE: func(c *cobra.Command, args []string) error {
			code, err := a.file(args[1])
			if err != nil {
				return err
			}
			o, err := a.call(c, args[0], control.Code, map[string]string{"code": code}, key)
			if err != nil {
				return err
			}
			if a.json {
				err = a.printJSON(o)
			} else {
				err = a.writeBody(args[0], code, o)
			}
			if err == nil && o.Status != contracts.StatusOK {
				return errTold
			}
			return err
		},
	}
	c.Flags().StringVar(&key, "key", "", "idempotency key: an equal key in the same run is the same body, run once")
	return c
}

// file returns the text of a file, that of standard input where name is "-".
func (a *app) file(name string) (string, error) {
	if name == "-" {
		data, err := io.ReadAll(a.stdin)
		if err != nil {
			return "", fmt.Errorf("read standard input: %w", err)
		}
		return string(data), nil
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return "", usagef("FILE: %w", err)
	}
	return string(data), nil
}

// writeBody prints what came of a body: its value to standard output, everything else to standard error.
func (a *app) writeBody(run, code string, o *client.CallAnswer) error {
	var r contracts.BodyResult
	if o.Result != nil {
		if err := json.Unmarshal(o.Result.StructuredContent, &r); err != nil {
			return fmt.Errorf("read the result of the body: %w", err)
		}
	}
	for _, repaired := range o.Repaired {
		a.note("repaired: %s", repaired)
	}
	for _, l := range r.Logs {
		a.note("%s: %s", names.Text(l.Level), names.Text(l.Text))
	}
	if r.Truncated != "" {
		a.note("truncated: %s", names.Text(r.Truncated))
	}
	if len(o.ClientCalls) > 0 {
		a.clientCalls(run, o)
		return nil
	}
	if o.Error != nil {
		a.note("%s: %s", o.Status, names.Text(o.Error.Message))
		if len(o.Repaired) == 0 && r.Error != nil {
			a.pointAt(code, r.Error.Line, r.Error.Column)
		}
		if o.RetryAfter > 0 {
			a.note("try again in %s", time.Duration(o.RetryAfter)*time.Millisecond)
		}
		return nil
	}
	if o.Result == nil {
		a.note("%s", o.Status)
		return nil
	}
	if n := len(o.Result.Content) - 1; n > 0 {
		a.note("%s beside the value; --json shows it all", plural(n, "content block"))
	}
	return a.printJSON(r.Value)
}

// pointAt prints a line of a body's text and marks a column in it; both count from 1, and 0 is not known.
func (a *app) pointAt(code string, line, column int) {
	lines := strings.Split(code, "\n")
	if line < 1 || line > len(lines) {
		return
	}
	const most = 200
	text := []rune(strings.TrimRight(lines[line-1], "\r"))
	text = text[:min(len(text), most)]
	margin := fmt.Sprintf("%5d | ", line)
	a.note("%s%s", margin, names.Text(string(text)))
	if column < 1 || column > len(text)+1 {
		return
	}
	under := strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, string(text[:column-1]))
	a.note("%*s| %s^", len(margin)-len("| "), "", under)
}

// clientCalls says which tools of the caller a body waits for, and how it goes on.
func (a *app) clientCalls(run string, o *client.CallAnswer) {
	base := strings.TrimRight(a.url, "/") + "/v1/runs/" + run + "/calls/"
	a.note("%s: the body waits for %s of yours. Run and answer each:", o.Status, plural(len(o.ClientCalls), "tool"))
	for _, c := range o.ClientCalls {
		a.note("  %s %s", names.Text(c.Tool), names.Text(string(c.Args)))
		a.note(`    curl -H 'Content-Type: application/json' -d '{"content":[{"type":"text","text":"…"}]}' %s%s/result`, base, c.CallID)
	}
	a.note("Then look at the body again:\n    curl -H 'Prefer: wait=60' %s%s", base, o.CallID)
}
