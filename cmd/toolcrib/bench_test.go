package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/services/sandbox/trials"
)

// TestBenchSandbox measures once, in workers of the real binary.
func TestBenchSandbox(t *testing.T) {
	var stderr bytes.Buffer
	cmd := exec.Command(binary, "bench", "sandbox", "--rounds", "1", "--json")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("bench sandbox: %v\n%s", err, stderr.String())
	}
	var r trials.Report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("bench sandbox --json prints no JSON: %v\n%s", err, out)
	}
	if len(r.Rows) < 8 || len(r.Layers) == 0 || len(r.Aims) == 0 {
		t.Errorf("bench sandbox reports %d rows, %d layers, %d aims", len(r.Rows), len(r.Layers), len(r.Aims))
	}
	for _, row := range r.Rows {
		if row.Sandbox.Count == 0 || row.Sandbox.Median <= 0 || row.Sandbox.CPU < 0 {
			t.Errorf("%s was not measured: %+v", row.Name, row.Sandbox)
		}
	}
}

func TestWriteBench(t *testing.T) {
	var out bytes.Buffer
	a := &app{stdout: &out}
	figures := trials.Figures{Count: 3, Median: 1234567, P99: 45678901, Max: 2 * time.Second}
	m := trials.Measure{Figures: figures, CPU: 234567, PerSecond: 810.4}
	err := a.writeBench(&trials.Report{
		Machine: "2 cores", Layers: []string{"seccomp"},
		Rows:      []trials.Row{{Name: "return 1", Sandbox: m, Node: &m, Wall: 1, CPU: 1}, {Name: "cold", Sandbox: m}},
		Hostile:   []trials.HostileRow{{AtOnce: 10, Limit: time.Second, Bodies: 600, Over: figures, Wrong: []string{"g/a ended\x1b[2J"}, Memory: 300}},
		Neighbour: &trials.Neighbours{Alone: figures, Beside: figures, Attacks: 7},
		Aims:      []trials.Aim{{Name: "fast", Got: "yes", OK: true}, {Name: "slow", Got: "no"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2 cores; Node: none", "[seccomp]", "1.23ms", "45.68ms", "234.57µs", "1.0 x", "300 MiB", "beside 7 hostile", "pass  fast", "FAIL  slow", "g/a ended"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("an escape reached the terminal:\n%q", out.String())
	}
}

func TestBenchUsage(t *testing.T) {
	if code, _, errs := cli(t, "", "bench", "sandbox", "--rounds", "0"); code != exitUsage || !strings.Contains(errs, "--rounds: 0") {
		t.Errorf("bench sandbox --rounds 0 = %d, %q", code, errs)
	}
	if code, _, errs := cli(t, "", "bench", "sandbox", "--node", "/nowhere/node"); code != exitFailed || !strings.Contains(errs, "/nowhere/node") {
		t.Errorf("bench sandbox --node /nowhere/node = %d, %q", code, errs)
	}
}
