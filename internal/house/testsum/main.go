// Command testsum reads the output of go test -json and writes what a person
// wants of it: the whole output of what failed, one line for each package, and a
// last line "N passed, N failed" that counts tests and subtests. It ends with 1
// where something failed or nothing ran. It runs no tests itself.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	ok, err := summarise(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
	}
	if !ok || err != nil {
		os.Exit(1)
	}
}

// An event is one line of go test -json, see go doc test2json.
type event struct {
	Action, Package, Test, Output string
}

// A summary is what was read so far.
type summary struct {
	w                       io.Writer
	passed, failed, skipped int
	running                 map[string][]string            // the tests of a package that have not ended, in order
	output                  map[[2]string]*strings.Builder // by package and test
	blamed                  map[string]bool                // packages with a failed test
}

// summarise copies from r to w and reports whether tests ran and all passed.
func summarise(r io.Reader, w io.Writer) (ok bool, err error) {
	s := &summary{w: w, running: map[string][]string{}, output: map[[2]string]*strings.Builder{}, blamed: map[string]bool{}}
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadString('\n')
		var e event
		switch {
		case line == "":
		case json.Unmarshal([]byte(line), &e) != nil:
			fmt.Fprint(w, line) // go itself says something
		default:
			s.add(e)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return false, fmt.Errorf("read test output: %w", err)
		}
	}
	fmt.Fprintf(w, "%d passed, %d failed", s.passed, s.failed)
	if s.skipped > 0 {
		fmt.Fprintf(w, ", %d skipped", s.skipped)
	}
	fmt.Fprintln(w)
	return s.failed == 0 && s.passed > 0, nil
}

func (s *summary) add(e event) {
	switch {
	case e.Action == "build-output":
		fmt.Fprint(s.w, e.Output)
	case e.Test == "":
		s.addPackage(e)
	default:
		s.addTest(e)
	}
}

func (s *summary) addTest(e event) {
	key := [2]string{e.Package, e.Test}
	switch e.Action {
	case "run":
		s.running[e.Package] = append(s.running[e.Package], e.Test)
		s.output[key] = new(strings.Builder)
	case "output":
		if b := s.output[key]; b != nil {
			b.WriteString(e.Output)
		}
	case "pass":
		s.passed++
		s.end(key)
	case "skip":
		s.skipped++
		s.end(key)
	case "fail":
		s.failed++
		s.blamed[e.Package] = true
		fmt.Fprint(s.w, s.output[key])
		s.end(key)
	}
}

func (s *summary) end(key [2]string) {
	delete(s.output, key)
	var left []string
	for _, t := range s.running[key[0]] {
		if t != key[1] {
			left = append(left, t)
		}
	}
	s.running[key[0]] = left
}

// addPackage handles what concerns a whole package. One that fails without a failed test counts as a
// failure: it did not build, or it died, and then the tests that were running tell of it.
func (s *summary) addPackage(e event) {
	switch e.Action {
	case "output":
		if e.Output != "PASS\n" && !strings.Contains(e.Output, "[no test files]") {
			fmt.Fprint(s.w, e.Output)
		}
	case "fail":
		for _, t := range s.running[e.Package] {
			fmt.Fprint(s.w, s.output[[2]string{e.Package, t}])
		}
		if !s.blamed[e.Package] {
			s.failed++
		}
	}
}
