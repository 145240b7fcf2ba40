package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write what the engine gives into testdata/language")

// A langCase is a body of testdata/language with what comes of it. A file has a comment, and then for each case
//
//	== its name
//	the body
//	-- value     the JSON of the value; without it there is none
//	-- error     code, name, line:column and message
//	-- logs      a line for each: level and text; what spans lines goes on with two spaces
//	-- node      "needs" and an expression that is false where Node is too old, or "differs" and a heading of differences.md
type langCase struct {
	File, Name, Code   string
	Value, Error, Logs string
	Needs, Differs     string
	withoutNode        bool
}

func langCases(t *testing.T) []*langCase {
	t.Helper()
	files, err := filepath.Glob("testdata/language/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases in testdata/language (%v)", err)
	}
	var cases []*langCase
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split("\n"+string(content), "\n== ")
		for _, part := range parts[1:] {
			c := parseCase(t, part)
			c.File, c.withoutNode = file, strings.Contains(parts[0], "\nnode: off")
			cases = append(cases, c)
		}
	}
	return cases
}

func parseCase(t *testing.T, part string) *langCase {
	t.Helper()
	name, rest, _ := strings.Cut(part, "\n")
	sections := strings.Split("\n"+rest, "\n-- ")
	c := &langCase{Name: name, Code: strings.Trim(sections[0], "\n")}
	for _, s := range sections[1:] {
		head, body, _ := strings.Cut(s, "\n")
		body = strings.TrimRight(body, "\n")
		switch head {
		case "value":
			c.Value = body
		case "error":
			c.Error = body
		case "logs":
			c.Logs = body
		case "node":
			c.Needs, _ = strings.CutPrefix(body, "needs ")
			if c.Needs == body {
				c.Needs = ""
			}
			c.Differs, _ = strings.CutPrefix(body, "differs ")
			if c.Differs == body {
				c.Differs = ""
			}
		default:
			t.Fatalf("%s: a section is called %q", name, head)
		}
	}
	return c
}

func (c *langCase) format() string {
	var b strings.Builder
	fmt.Fprintf(&b, "== %s\n%s\n", c.Name, c.Code)
	for _, s := range [][2]string{{"value", c.Value}, {"error", c.Error}, {"logs", c.Logs}} {
		if s[1] != "" {
			fmt.Fprintf(&b, "-- %s\n%s\n", s[0], s[1])
		}
	}
	if c.Needs != "" {
		fmt.Fprintf(&b, "-- node\nneeds %s\n", c.Needs)
	}
	if c.Differs != "" {
		fmt.Fprintf(&b, "-- node\ndiffers %s\n", c.Differs)
	}
	return b.String()
}

// formatLogs writes log lines as a case has them.
func formatLogs(logs []Log) string {
	var lines []string
	for _, l := range logs {
		text := strings.Map(func(r rune) rune {
			if r < ' ' && r != '\n' && r != '\t' {
				return '␀' + r // a picture of it
			}
			return r
		}, cut(l.Text, 500))
		lines = append(lines, fmt.Sprintf("%s %s", l.Level, strings.ReplaceAll(text, "\n", "\n  ")))
	}
	return strings.Join(lines, "\n")
}

func formatFailure(f *Failure) string {
	if f == nil {
		return ""
	}
	name, at := f.Name, fmt.Sprintf("%d:%d", f.Line, f.Column)
	if name == "" {
		name = "-"
	}
	if f.Line == 0 {
		at = "-"
	}
	return fmt.Sprintf("%s %s %s %s", f.Code, name, at, strings.ReplaceAll(cut(f.Message, 500), "\n", "\\n"))
}

// TestLanguage runs each case in the engine.
func TestLanguage(t *testing.T) {
	e := openEngine(t, Config{})
	world, err := readTable("testdata/language/tools.json")
	if err != nil {
		t.Fatal(err)
	}
	cases := langCases(t)
	if len(cases) < 170 {
		t.Errorf("only %d cases are left", len(cases))
	}
	for _, c := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(c.File), ".txt")+"/"+c.Name, func(t *testing.T) {
			d := world.door()
			ending := e.Run(context.Background(), Body{Code: c.Code, Seed: world.Seed, Now: world.Now}, d)
			d.close()
			got := &langCase{Name: c.Name, Code: c.Code, Value: cut(string(ending.Value), 5000), Error: formatFailure(ending.Failure), Logs: formatLogs(d.logs), Needs: c.Needs, Differs: c.Differs}
			if *update {
				c.Value, c.Error, c.Logs = got.Value, got.Error, got.Logs
				return
			}
			if diff := cmp.Diff(c.format(), got.format()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if *update {
		writeCases(t, cases)
	}
}

func writeCases(t *testing.T, cases []*langCase) {
	t.Helper()
	for file := range slices.Values(slices.Compact(files(cases))) {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		head, _, _ := strings.Cut("\n"+string(content), "\n== ")
		out := strings.TrimSpace(head) + "\n"
		for _, c := range cases {
			if c.File == file {
				out += "\n" + c.format()
			}
		}
		if err := os.WriteFile(file, []byte(out), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func files(cases []*langCase) []string {
	var names []string
	for _, c := range cases {
		names = append(names, c.File)
	}
	return names
}

// TestLanguageInNode runs the cases in Node, with the prelude's bridge but Node's own language, Intl, URL and codecs. What
// comes of them must be the same, but for cases that say that they differ; those must differ.
func TestLanguageInNode(t *testing.T) {
	differences, err := os.ReadFile("prelude/differences.md")
	if err != nil {
		t.Fatal(err)
	}
	var cases []*langCase
	for _, c := range langCases(t) {
		if c.Differs != "" && !strings.Contains(string(differences), "\n- **"+c.Differs+"**") {
			t.Errorf("%s: differences.md has nothing about %q", c.Name, c.Differs)
		}
		if !c.withoutNode {
			cases = append(cases, c)
		}
	}
	old := 0
	for i, r := range runInNode(t, cases) {
		c := cases[i]
		value, failed, logs := r.Value, c.Error, formatLogs(r.Logs)
		if (r.Failed != "") != (c.Error != "") || r.Failed != "" && c.Error != "" && r.Failed != strings.Fields(c.Error)[1] {
			failed = "in Node: " + r.Failed
		}
		diff := cmp.Diff([]string{c.Value, c.Error, withoutWarnings(c.Logs)}, []string{cut(value, 5000), failed, withoutWarnings(logs)})
		switch {
		case r.Old:
			old++
		case c.Differs == "" && diff != "":
			t.Errorf("%s: %s: differs in Node (-engine +node):\n%s", filepath.Base(c.File), c.Name, diff)
		case c.Differs != "" && diff == "":
			t.Errorf("%s: %s: does not differ in Node any more", filepath.Base(c.File), c.Name)
		}
	}
	t.Logf("%d cases, %d of them need a newer Node", len(cases), old)
}

// withoutWarnings leaves out what the engine remarks about a body itself, where the messages of errors are the engine's.
func withoutWarnings(logs string) string {
	lines := strings.Split(logs, "\n")
	return strings.Join(slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "warn a promise was rejected") }), "\n")
}

type nodeResult struct {
	Value  string `json:"value"`
	Failed string `json:"failed"` // the name of what was thrown
	Logs   []Log  `json:"logs"`
	Old    bool   `json:"old"`
}

func runInNode(t *testing.T, cases []*langCase) []nodeResult {
	t.Helper()
	in, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", "testdata/language/node.mjs")
	cmd.Env = append(os.Environ(), "TZ=UTC", "NO_COLOR=1")
	cmd.Stdin = bytes.NewReader(in)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("node: %v\n%s", err, stderr.Bytes())
	}
	var results []nodeResult
	if err := json.Unmarshal(out, &results); err != nil || len(results) != len(cases) {
		t.Fatalf("node gave %d results for %d cases (%v)", len(results), len(cases), err)
	}
	return results
}
