package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Problem is one thing wrong with a configuration. It shows no value that may be secret.
type Problem struct {
	File    string `json:"file,omitempty"` // as it was given to [Parse], "" where there is none
	Line    int    `json:"line,omitempty"` // from 1; 0 where it is not known
	Path    string `json:"path,omitempty"` // such as tenants.acme.keys[0].hash, "" for the whole file
	Message string `json:"message"`
}

// Error returns file:line: path: message, without the parts that are not known.
func (p Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		if p.File == "" {
			b.WriteString("line ")
		} else {
			b.WriteByte(':')
		}
		b.WriteString(strconv.Itoa(p.Line))
	}
	for _, s := range []string{p.Path, p.Message} {
		if s != "" && b.Len() > 0 {
			b.WriteString(": ")
		}
		b.WriteString(s)
	}
	return b.String()
}

// Problems is everything wrong with a configuration, in the order of the file. As an error it is never empty.
type Problems []Problem

// Error returns the problems, one a line.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i := range p {
		lines[i] = p[i].Error()
	}
	return strings.Join(lines, "\n")
}

// A report collects the problems of one file.
type report struct {
	file     string
	lines    map[string]int // of the paths that the file has
	problems Problems
	broken   []string // paths that could not be read: nothing more is said about these
}

// add reports a problem, unless it only follows from something that could not be read.
func (r *report) add(path, format string, args ...any) {
	for _, b := range r.broken {
		parent := b[:max(0, strings.LastIndexAny(b, ".["))]
		if path == b || strings.HasPrefix(path, b+".") || strings.HasPrefix(path, b+"[") || path == parent && strings.Contains(path, ".") {
			return
		}
	}
	r.problems = append(r.problems, Problem{r.file, r.line(path), path, fmt.Sprintf(format, args...)})
}

// line returns the line of path, or of the nearest thing around it that the file has.
func (r *report) line(path string) int {
	for path != "" {
		if n := r.lines[path]; n > 0 {
			return n
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return 0
}

// readDone ends the reading of the file: what is added from here on is about the values.
func (r *report) readDone() {
	for _, p := range r.problems {
		r.broken = append(r.broken, p.Path)
	}
}

// err returns the problems in the order of the file, nil where there are none.
func (r *report) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(r.problems, func(a, b Problem) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Path, b.Path)) })
	return r.problems
}

// join returns the path of key in the object at path.
func join(path, key string) string {
	if !isWord(key) {
		key = strconv.Quote(clip(key))
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// isWord reports whether s is not empty and has only letters, digits, '_' and '-' of ASCII.
func isWord(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}

// index returns the path of item i in the list at path.
func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// clip shortens untrusted text for a message.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
