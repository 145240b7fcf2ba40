package gateway

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// A rpcHead is what is read of a JSON-RPC message before the SDK reads it.
type rpcHead struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// answeredHere answers the messages that the SDK would refuse with an HTTP error, for which many clients
// give a session up: a request of an unknown method or without its params gets a JSON-RPC error, an unknown notification
// is passed over. Of any other it reports false, and leaves the body as it was.
func answeredHere(w http.ResponseWriter, r *http.Request) bool {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBody))
	r.Body = io.NopCloser(bytes.NewReader(body))
	var head rpcHead
	if err != nil || json.Unmarshal(body, &head) != nil || head.Method == "" {
		return false
	}
	needsParams, known := methodOf(head.Method)
	switch {
	case known && (!needsParams || len(head.Params) > 0 && string(head.Params) != "null"):
		return false
	case len(head.ID) == 0 || string(head.ID) == "null":
		if known {
			return false
		}
		w.WriteHeader(http.StatusAccepted)
	case known:
		writeRPCError(w, head.ID, jsonrpc.CodeInvalidParams, head.Method+": params are missing")
	default:
		writeRPCError(w, head.ID, jsonrpc.CodeMethodNotFound, "there is no such method")
	}
	return true
}

// methodOf reports whether a client may send the method, and whether it needs params.
func methodOf(method string) (needsParams, known bool) {
	switch method {
	case "ping", "tools/list", "prompts/list", "resources/list", "resources/templates/list",
		"notifications/initialized", "notifications/roots/list_changed":
		return false, true
	case "initialize", "tools/call", "prompts/get", "resources/read", "resources/subscribe", "resources/unsubscribe",
		"completion/complete", "logging/setLevel", "notifications/cancelled", "notifications/progress":
		return true, true
	}
	return false, strings.HasPrefix(method, "server/") // of protocol versions that the SDK may know
}

func writeRPCError(w http.ResponseWriter, id json.RawMessage, code int64, message string) {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": message}})
	if err != nil {
		http.Error(w, "malformed id", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(body)
}
