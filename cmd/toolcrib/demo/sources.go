package demo

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// HiddenTool is the tool that the demo's policy hides: it would tell a model every secret in its server's environment.
const HiddenTool contracts.ToolID = "mcp:everything:get-env"

// A Server is an MCP server in the form that desktop clients use.
type Server struct {
	Command string            `json:"command"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
}

// Sources returns the MCP servers of the demo by name: two workshops, served by the
// binary self, and, where the npm packages are installed in npmDir, three public servers. folder is
// what the filesystem server may use, and where the memory server keeps its graph.
func Sources(self, npmDir, folder string) map[string]Server {
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

// File returns the configuration file of the demo, as JSON.
func File(servers map[string]Server) []byte {
	b, _ := json.MarshalIndent(map[string]any{
		"listen":     "127.0.0.1:0",
		"mcpServers": servers,
		"policies":   []any{map[string]any{"level": "global", "deny": []string{string(HiddenTool)}}},
	}, "", "  ")
	return b
}
