package planner

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/toolcrib/toolcrib/internal/core/names"
	"github.com/toolcrib/toolcrib/internal/core/tokens"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const (
	longestPrompt = 18_000 // characters
	longestTitle  = 80
	// promptShare is the part of the context window that the prompt text may take: one in so many.
	promptShare = 10
)

const howToSearch = `Most tools are not listed here. Find them with tool_search, run them with tool_call.
- Search before you say that something cannot be done. If a search finds nothing that fits, no such tool is available: do not search for it again.
- A hit's signature usually suffices to call it: required arguments come first, "?" marks optional ones. Use tool_describe only if it does not.
- Tools that are listed directly are called directly.
`

const howToCode = `Most tools are not listed here. Find and run them with tool_search_code, by tools.search and tools.call in its code.
- Search before you say that something cannot be done. If a search finds nothing that fits, no such tool is available: do not search for it again.
- Where you cannot tell which hit is right or what it takes, return the hits, read them, and call in the next body. A hit's input usually suffices to call it: required arguments come first, "?" marks optional ones.
- One body can search and call several tools, at once where they do not need each other. Return only what you need of their results.
- Tools that are listed directly are called directly, and by tools.call too.
`

// A line is what the prompt says of one source.
type line struct {
	source       string
	status       string // the line itself
	instructions string // cleaned, whole
}

// prompt returns the text for the model: how to reach deferred tools, and each source that the run may
// know of. It shortens the instructions of servers first and leaves out sources last, and says so.
func (w *world) prompt(mode contracts.SurfaceMode, window int) string {
	intro, lines := howToSearch, w.lines()
	switch mode {
	case contracts.SurfaceCode:
		intro = howToCode
	case contracts.SurfaceDirect:
		intro = ""
		told := slices.ContainsFunc(lines, func(l line) bool { return l.instructions != "" })
		if !told && len(w.pending)+len(w.failed) == 0 {
			return "" // the tools say it all
		}
	}
	if window <= 0 {
		window = assumedWindow
	}
	for cut := longestText; cut >= 64; cut /= 2 {
		if p := render(intro, lines, len(lines), cut); fits(p, window) {
			return p
		}
	}
	// More lines never make a shorter text, so the most that fit are found by halving.
	low, high := -1, len(lines)
	for low < high {
		mid := low + (high-low+1)/2
		if fits(render(intro, lines, mid, 0), window) {
			low = mid
		} else {
			high = mid - 1
		}
	}
	if low < 0 {
		return ""
	}
	return render(intro, lines, low, 0)
}

func fits(p string, window int) bool {
	if utf8.RuneCountInString(p) > longestPrompt {
		return false
	}
	room := window / promptShare
	return len(p) <= room || tokens.Count(p) <= room // a token has at least one byte
}

// render writes the first n sources, with their instructions cut at so many characters; 0 leaves them out.
func render(intro string, lines []line, n, cut int) string {
	var b strings.Builder
	b.WriteString(intro)
	if len(lines) > 0 {
		if intro != "" {
			b.WriteByte('\n')
		}
		b.WriteString("Sources of tools:\n")
	}
	for _, l := range lines[:n] {
		b.WriteString(l.status)
	}
	if left := len(lines) - n; left > 0 {
		fmt.Fprintf(&b, "- and %d more\n", left)
	}
	if cut == 0 {
		return b.String()
	}
	for _, l := range lines[:n] {
		if l.instructions == "" {
			continue
		}
		fmt.Fprintf(&b, "\nWhat %s says of its tools (text from outside, not from your user):\n", l.source)
		for s := range strings.Lines(names.Cut(l.instructions, cut)) {
			b.WriteString("> " + strings.TrimRight(s, "\n") + "\n")
		}
	}
	return b.String()
}

// lines returns what there is to say of the sources, sorted by source.
func (w *world) lines() []line {
	var list []line
	for i := range w.parts {
		p := &w.parts[i]
		name := p.source().String()
		l := line{source: name}
		if len(p.hidden) == 0 { // they may speak of what is hidden
			l.instructions = strings.TrimSpace(names.Text(p.listing.Instructions))
		}
		label := name
		if title := oneLine(p.listing.Title, longestTitle); title != "" && title != p.source().Owner {
			label += " (" + title + ")"
		}
		l.status = fmt.Sprintf("- %s: %s, ready\n", label, count(p.visible))
		list = append(list, l)
	}
	for _, s := range w.pending {
		list = append(list, line{source: s.Source.String(), status: "- " + s.Source.String() + ": pending\n"})
	}
	for _, s := range w.failed {
		list = append(list, line{source: s.Source.String(), status: "- " + s.Source.String() + ": failed: " + s.Reason + "\n"})
	}
	slices.SortStableFunc(list, func(a, b line) int { return strings.Compare(a.source, b.source) })
	return list
}

func count(tools int) string {
	if tools == 1 {
		return "1 tool"
	}
	return fmt.Sprintf("%d tools", tools)
}

// oneLine returns cleaned text on one line.
func oneLine(s string, limit int) string {
	return names.Cut(strings.Join(strings.Fields(names.Text(s)), " "), limit)
}
