// Package names makes what a model may see of names and texts that others
// wrote: provider-safe tool names, text without hidden characters, cut to
// length, and suggestions for a name that is wrong. It maps no name back and is
// not for HTML or terminals: nothing is escaped.
package names

import (
	"crypto/sha256"
	"strings"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const (
	longestName = 64
	hashLength  = 8
	// ownerShare is how much of an owner stays where owner and name are too long together.
	ownerShare = 20
)

// Exposed returns the name under which a model is shown the tool id; it matches
// ^[A-Za-z0-9_-]{1,64}$ and depends on nothing but its arguments:
//
//	mcp:calendar:create_event    calendar__create_event, bare create_event
//	plugin:crm:find_customer     plugin__crm__find_customer, bare find_customer
//	platform:core:now            platform__core__now, bare now
//	client:client:open_file      open_file
//
// Where such a name would not be safe, too long, or one that another id can
// have too, it is mended and ends in '_' and 8 characters of a hash of the id. Without bare
// no two ids share a name (two hashes alike apart); with it, two sources' tools of one name do.
func Exposed(id contracts.ToolID, bare bool) string {
	source, name, err := id.Split()
	if err != nil {
		return hashed(id, "", string(id))
	}
	prefix := ""
	switch {
	case bare || source.Kind == contracts.SourceClient:
	case source.Kind == contracts.SourceMCP:
		prefix = source.Owner
	default:
		prefix = string(source.Kind) + "__" + source.Owner
	}
	form := name
	if prefix != "" {
		form = prefix + "__" + name
	}
	if !safe(form) || endsLikeHash(form) || !single(source, prefix, name) {
		return hashed(id, prefix, name)
	}
	return form
}

// single reports whether no other id has the plain form of prefix and name.
// Read backwards: a form without "__" is a name of client:client, one that begins with
// plugin__ or platform__ is such a source's, and any other splits at its first "__".
func single(source contracts.SourceID, prefix, name string) bool {
	if prefix == "" {
		return !strings.Contains(name, "__") && (source.Kind != contracts.SourceClient || source.Owner == "client")
	}
	if strings.Contains(source.Owner, "__") || strings.HasSuffix(source.Owner, "_") {
		return false
	}
	return source.Kind != contracts.SourceMCP ||
		source.Owner != string(contracts.SourcePlugin) && source.Owner != string(contracts.SourcePlatform)
}

func safe(s string) bool {
	if len(s) == 0 || len(s) > longestName {
		return false
	}
	for i := range len(s) {
		if !safeByte(s[i]) {
			return false
		}
	}
	return true
}

func safeByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// hashAlphabet has no vowels, so that a hash is no word.
const hashAlphabet = "0123456789bcdfghjklmnpqrstvwxyz"

// endsLikeHash reports whether s ends in what [hash] could have made. A hash
// begins with a digit so that few real names do.
func endsLikeHash(s string) bool {
	i := len(s) - hashLength - 1
	if i < 0 || s[i] != '_' || s[i+1] < '0' || s[i+1] > '9' {
		return false
	}
	for _, c := range []byte(s[i+2:]) {
		if strings.IndexByte(hashAlphabet, c) < 0 {
			return false
		}
	}
	return true
}

func hash(id contracts.ToolID) string {
	sum := sha256.Sum256([]byte(id))
	var b [hashLength]byte
	for i := range b {
		b[i] = hashAlphabet[int(sum[i])%len(hashAlphabet)]
	}
	b[0] = '0' + byte((uint(sum[0])<<8|uint(sum[hashLength]))%10)
	return string(b[:])
}

func hashed(id contracts.ToolID, prefix, name string) string {
	const room = longestName - hashLength - 1
	stem := mend(name)
	if prefix != "" {
		prefix = mend(prefix)
		if len(prefix)+len("__")+len(stem) > room {
			prefix = strings.TrimRight(prefix[:min(len(prefix), ownerShare)], "_")
		}
		stem = prefix + "__" + stem
	}
	stem = strings.TrimRight(stem[:min(len(stem), room)], "_")
	if stem == "" {
		stem = "tool"
	}
	return stem + "_" + hash(id)
}

// mend replaces each run of unsafe characters by one '_'.
func mend(s string) string {
	var b strings.Builder
	gap := false
	for i := 0; i < len(s) && b.Len() <= longestName; i++ {
		if safeByte(s[i]) {
			b.WriteByte(s[i])
			gap = false
			continue
		}
		if !gap {
			b.WriteByte('_')
		}
		gap = true
	}
	return b.String()
}
