package workshop

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	fileURI     = "workshop://files"
	maxFileSize = 1 << 20 // bytes of one file
)

// drive is a file system in memory. Folders exist as long as a file is in them.
type drive struct {
	mu    sync.Mutex
	files map[string]string // absolute path to content
}

func newFiles() area {
	d := &drive{files: map[string]string{
		"/readme.txt":               "Shared drive of the workshop.\nNothing here leaves the process.\n",
		"/finance/budget-2026.csv":  "month,planned,spent\n2026-01,12000,11840\n2026-02,12000,12310\n2026-03,12500,0\n",
		"/finance/invoices/0117.md": "# Invoice 2026-0117\n\nPaperclip Ltd, 184.50 EUR, due 16 March 2026\n",
		"/design/palette.json":      `{"ink":"#1d1f21","paper":"#fbf7ee","accent":"#c8502b"}` + "\n",
		"/people/Reisekosten.txt":   "Belege bitte bis zum 5. des Folgemonats einreichen.\n",
	}}
	return area{name: "files", mu: &d.mu, tools: d.tools(), resources: d.resources,
		about: "a shared drive in memory. Paths are absolute and use slashes."}
}

func (d *drive) tools() []tool {
	const pathProp = `{"type":"string","pattern":"^/[^\\x00]*$","maxLength":255,"description":"Absolute path, such as /finance/budget-2026.csv"}`
	return []tool{
		{name: "files.list", title: "List files", hints: readOnly | oldTitle,
			about: "Lists the files of a folder with their sizes.",
			in: `{"type":"object","properties":{"folder":{"type":"string","default":"/"},
				"recursive":{"type":"boolean","default":true},"glob":{"type":"string","description":"Pattern for the file name, such as *.csv"}}}`,
			out: `{"type":"object","properties":{"files":{"type":"array","items":{"type":"object","properties":{
				"path":{"type":"string"},"bytes":{"type":"integer","minimum":0}},"required":["path","bytes"]}}},"required":["files"]}`,
			run: with(d.list)},
		{name: "files.read", title: "Read a file", hints: readOnly, meta: mcp.Meta{"anthropic/maxResultSizeChars": 200_000},
			about: "Returns the text of a file, or some of its lines.",
			in: `{"type":"object","properties":{"path":` + pathProp + `,
				"lines":{"type":"array","description":"First and last line, counted from 1.","prefixItems":[{"type":"integer","minimum":1},{"type":"integer","minimum":1}],
					"items":false,"minItems":2}},"required":["path"],"additionalProperties":false}`,
			run: with(d.read)},
		{name: "files.write", title: "Write a file", hints: destructive,
			about: "Writes a file. Says what to do if there is one already: create refuses, overwrite replaces, append adds to the end.",
			in: `{"type":"object","properties":{"path":` + pathProp + `,"content":{"type":"string"},
				"mode":{"oneOf":[{"const":"create","title":"refuse if it exists"},{"const":"overwrite","title":"replace"},{"const":"append","title":"add to the end"}],"default":"create"}},
				"required":["path","content"],"additionalProperties":false}`,
			run: with(d.write)},
		{name: "files.move", title: "Move or rename a file", hints: destructive,
			about: "Moves a file to another path, which must be free.",
			in:    `{"type":"object","properties":{"from":` + pathProp + `,"to":{"$ref":"#/properties/from"}},"required":["from","to"]}`,
			run:   with(d.move)},
		{name: "files.delete", title: "Delete a file", hints: destructive,
			about: "Deletes a file for good.",
			in:    `{"type":"object","properties":{"path":` + pathProp + `,"confirm":{"const":true,"description":"Must be true."}},"required":["path","confirm"]}`,
			run:   with(d.remove)},
		{name: "files.share", title: "Share a file", hints: readOnly,
			about: "Gives a link to a file that the client can read as a resource.",
			in:    `{"type":"object","properties":{"path":` + pathProp + `},"required":["path"]}`,
			run:   with(d.share)},
	}
}

// resources lets clients read the links that files.share gives.
func (d *drive) resources(srv *mcp.Server) {
	srv.AddResourceTemplate(&mcp.ResourceTemplate{
		Name: "file", Title: "A file of the shared drive", URITemplate: fileURI + "{+path}",
	}, func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		text, ok := d.files[strings.TrimPrefix(req.Params.URI, fileURI)]
		if !ok {
			return nil, mcp.ResourceNotFoundError(req.Params.URI)
		}
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: req.Params.URI, MIMEType: "text/plain", Text: text}}}, nil
	})
}

func (d *drive) get(p string) (string, error) {
	text, ok := d.files[p]
	if !ok {
		return "", missing("file", p, "files.list")
	}
	return text, nil
}

// clean checks a path at which something is to be written.
func clean(field, p string) error {
	if path.Clean(p) != p || p == "/" {
		return fmt.Errorf("%s: %q is not a clean absolute path of a file; no //, no . or .., no slash at the end", field, p)
	}
	return nil
}

func (d *drive) list(a struct {
	Folder    string
	Recursive bool
	Glob      string
}) (any, error) {
	folder := strings.TrimSuffix(a.Folder, "/") + "/"
	files := []obj{}
	for _, p := range slices.Sorted(maps.Keys(d.files)) {
		rest, in := strings.CutPrefix(p, folder)
		if !in || !a.Recursive && strings.Contains(rest, "/") {
			continue
		}
		if a.Glob != "" {
			ok, err := path.Match(a.Glob, path.Base(p))
			if err != nil {
				return nil, fmt.Errorf("glob: %q is no pattern: %w", a.Glob, err)
			}
			if !ok {
				continue
			}
		}
		files = append(files, obj{"path": p, "bytes": len(d.files[p])})
	}
	return obj{"files": files}, nil
}

func (d *drive) read(a struct {
	Path  string
	Lines []int
}) (any, error) {
	text, err := d.get(a.Path)
	if err != nil || len(a.Lines) == 0 {
		return text, err
	}
	lines := strings.SplitAfter(text, "\n")
	first, last := a.Lines[0], a.Lines[1]
	if first > last || first > len(lines) {
		return nil, fmt.Errorf("lines: [%d, %d] is not allowed; %s has %d lines", first, last, a.Path, len(lines))
	}
	return strings.Join(lines[first-1:min(last, len(lines))], ""), nil
}

func (d *drive) write(a struct{ Path, Content, Mode string }) (any, error) {
	if err := clean("path", a.Path); err != nil {
		return nil, err
	}
	old, exists := d.files[a.Path]
	switch {
	case a.Mode == "create" && exists:
		return nil, fmt.Errorf("path: %s exists already; use mode overwrite or append", a.Path)
	case a.Mode == "append":
		a.Content = old + a.Content
	}
	if len(a.Content) > maxFileSize {
		return nil, fmt.Errorf("content: the file would have %d bytes; at most %d are allowed", len(a.Content), maxFileSize)
	}
	d.files[a.Path] = a.Content
	return obj{"path": a.Path, "bytes": len(a.Content)}, nil
}

func (d *drive) move(a struct{ From, To string }) (any, error) {
	text, err := d.get(a.From)
	if err != nil {
		return nil, err
	}
	if err := clean("to", a.To); err != nil {
		return nil, err
	}
	if _, exists := d.files[a.To]; exists {
		return nil, fmt.Errorf("to: %s exists already", a.To)
	}
	delete(d.files, a.From)
	d.files[a.To] = text
	return fmt.Sprintf("Moved %s to %s.", a.From, a.To), nil
}

func (d *drive) remove(a struct{ Path string }) (any, error) {
	if _, err := d.get(a.Path); err != nil {
		return nil, err
	}
	delete(d.files, a.Path)
	return "Deleted " + a.Path + ".", nil
}

func (d *drive) share(a struct{ Path string }) (any, error) {
	text, err := d.get(a.Path)
	if err != nil {
		return nil, err
	}
	size := int64(len(text))
	return &mcp.CallToolResult{Content: []mcp.Content{
		&mcp.TextContent{Text: "Anyone in this session can read the file:"},
		&mcp.ResourceLink{URI: fileURI + a.Path, Name: path.Base(a.Path), MIMEType: "text/plain", Size: &size},
	}}, nil
}
