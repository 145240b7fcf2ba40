package gateway

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/toolcrib/toolcrib/internal/core/names"
	"github.com/toolcrib/toolcrib/internal/core/schema"
	"github.com/toolcrib/toolcrib/internal/core/tokens"
	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const longestName = 128 // characters of a client tool's name

// clientSource is where the caller's own tools come from.
var clientSource = contracts.SourceID{Kind: contracts.SourceClient, Owner: "client"}

// keepClientTools checks the caller's own tools and stores them. It returns "" for none.
func (d *runDesk) keepClientTools(ctx context.Context, t contracts.TenantID, tools []client.ClientTool) (contracts.Hash, error) {
	if len(tools) == 0 {
		return "", nil
	}
	listing, err := clientListing(tools)
	if err != nil {
		return "", err
	}
	return d.library.PutListing(ctx, t, listing)
}

// clientListing makes a listing of the caller's tools. The error names each wrong tool.
func clientListing(tools []client.ClientTool) (*contracts.Listing, error) {
	bad := contracts.Errorf(contracts.CodeInvalid, "clientTools")
	seen := map[string]int{}
	l := &contracts.Listing{Source: clientSource, Tools: make([]contracts.Tool, 0, len(tools))}
	for i, tool := range tools {
		at := fmt.Sprintf("/clientTools/%d", i)
		problems := len(bad.Fields)
		add := func(field, format string, args ...any) {
			bad.Fields = append(bad.Fields, contracts.FieldError{Field: at + "/" + field, Message: fmt.Sprintf(format, args...)})
		}
		if n := utf8.RuneCountInString(tool.Name); n == 0 || n > longestName || strings.TrimSpace(tool.Name) != tool.Name || !printable(tool.Name) || strings.Contains(tool.Name, ":") {
			add("name", "is %q; want 1 to %d visible characters but ':', without spaces around them", clip(tool.Name), longestName)
		} else if first, ok := seen[tool.Name]; ok {
			add("name", "is %q, as that of tool %d; want each name once", clip(tool.Name), first)
		} else {
			seen[tool.Name] = i
		}
		in, message := inputSchema(tool.InputSchema)
		if message != "" {
			add("inputSchema", "%s", message)
		}
		out, message := outputSchema(tool.OutputSchema)
		if message != "" {
			add("outputSchema", "%s", message)
		}
		if len(bad.Fields) == problems {
			l.Tools = append(l.Tools, clientTool(tool, in, out))
		}
	}
	if len(bad.Fields) > 0 {
		f := bad.Fields[0]
		bad.Message = fmt.Sprintf("%s: %s", strings.TrimPrefix(f.Field, "/"), f.Message)
		if n := len(bad.Fields) - 1; n > 0 {
			bad.Message += fmt.Sprintf("; and %d more", n)
		}
		bad.Fields = bad.Fields[:min(len(bad.Fields), 100)]
		return nil, bad
	}
	slices.SortFunc(l.Tools, func(a, b contracts.Tool) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return l, nil
}

// clientTool makes the entry of a caller's tool.
func clientTool(t client.ClientTool, in, out json.RawMessage) contracts.Tool {
	tool := contracts.Tool{
		ID: contracts.NewToolID(clientSource, t.Name), Name: t.Name, Title: t.Title, Description: t.Description,
		InputSchema: in, OutputSchema: out,
	}
	tool.Hash = tool.ContentHash()
	tool.Bytes, tool.Tokens = tokens.Definition(names.Exposed(tool.ID, false), tool.Description, tool.InputSchema)
	return tool
}

// inputSchema checks the schema of a tool's arguments and returns it as compact JSON, or says what is wrong with it.
func inputSchema(raw json.RawMessage) (json.RawMessage, string) {
	in, message := compactObject(raw)
	if in == nil {
		return nil, cmp.Or(message, "is missing; want a JSON Schema object, at least {\"type\":\"object\"}")
	}
	if err := schema.Check("tool", in, nil); err != nil {
		return nil, err.Error()
	}
	return in, ""
}

// outputSchema is inputSchema for the schema of a tool's results, which may be missing and of any type.
func outputSchema(raw json.RawMessage) (json.RawMessage, string) {
	out, message := compactObject(raw)
	if out == nil {
		return nil, message
	}
	if err := schema.Check("tool", nil, out); err != nil {
		return nil, err.Error()
	}
	return out, ""
}

// compactObject returns raw without spaces, nil where it is missing.
func compactObject(raw json.RawMessage) (json.RawMessage, string) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, ""
	}
	var b bytes.Buffer
	if !isObject(raw) || json.Compact(&b, raw) != nil {
		return nil, "want a JSON Schema object"
	}
	return b.Bytes(), ""
}

// printable reports whether s hides no characters.
func printable(s string) bool {
	return names.Text(s) == s && !strings.ContainsAny(s, "\n\t")
}
