package demo

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// HiddenTool is the tool that the demo's policy hides: it would tell a model every secret in its server's environment.
const HiddenTool contracts.ToolID = "mcp:everything:get-env"

// What the plugins are called in the configuration.
const (
	DepotName  = "depot"
	LedgerName = "ledger"
)

// A Server is an MCP server in the form that desktop clients use.
type Server struct {
	Command string            `json:"command"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
}

// Servers returns the MCP servers of the demo by name: two workshops, served by the
// binary self, and, where the npm packages are installed in npmDir, three public servers. folder is
// what the filesystem server may use, and where the memory server keeps its graph.
func Servers(self, npmDir, folder string) map[string]Server {
	servers := map[string]Server{
		"office": {Command: self, Args: []string{"workshop", "--name", "office", "--areas", "calendar,mail,contacts,leave"}},
		"desk":   {Command: self, Args: []string{"workshop", "--name", "desk", "--areas", "tickets,shop,notes,weather,convert,travel,crm"}},
	}
	memory := map[string]string{"MEMORY_FILE_PATH": filepath.Join(folder, "memory.jsonl")}
	for name, s := range map[string]Server{"everything": {}, "memory": {Env: memory}, "filesystem": {Args: []string{folder}}} {
		bin, err := filepath.Abs(filepath.Join(npmDir, "node_modules", ".bin", "mcp-server-"+name))
		if err != nil {
			continue
		}
		if _, err := os.Stat(bin); err == nil {
			s.Command = bin
			servers[name] = s
		}
	}
	return servers
}

// Plugins returns the plugins of the demo as the configuration has them: the depot, whose OpenAPI document is at url and which wants
// the key, and the ledger on the bus. password is the one with which the ledger connects, "" where that is the business of the NATS server.
func Plugins(url, key, password string) map[string]any {
	ledger := map[string]any{}
	if password != "" {
		ledger["password"] = password
	}
	return map[string]any{
		"openapi": map[string]any{DepotName: map[string]any{"url": url, "auth": map[string]string{"key": key}}},
		"bus":     map[string]any{LedgerName: ledger},
	}
}

// IDs returns the sources of servers with these names and, where they are there, of the plugins.
func IDs(servers []string, plugins bool) []contracts.SourceID {
	var out []contracts.SourceID
	for _, name := range servers {
		out = append(out, contracts.SourceID{Kind: contracts.SourceMCP, Owner: name})
	}
	if plugins {
		out = append(out, contracts.SourceID{Kind: contracts.SourcePlugin, Owner: DepotName}, contracts.SourceID{Kind: contracts.SourcePlugin, Owner: LedgerName})
	}
	return out
}

// File returns the configuration file of the demo, as JSON. listen is where the ledger finds the NATS server.
func File(servers map[string]Server, plugins map[string]any, listen string) []byte {
	b, _ := json.MarshalIndent(map[string]any{
		"listen":     "127.0.0.1:0",
		"nats":       map[string]any{"listen": listen},
		"mcpServers": servers,
		"plugins":    plugins,
		"policies":   []any{map[string]any{"level": "global", "deny": []string{string(HiddenTool)}}},
	}, "", "  ")
	return b
}
