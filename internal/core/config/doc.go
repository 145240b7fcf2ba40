// Package config reads toolcrib.yaml, the one configuration file of Toolcrib,
// and the MCP server files of desktop clients, and gives the services what they need of them.
//
// A file is checked as a whole: unknown keys, wrong types and values that
// contradict each other are all reported at once, each with its path and line. The struct tags
// of [Config] are the only list of keys: reading and [Schema] both follow them. They are
//
//	json     the key; without omitempty or omitzero it must be given
//	doc      what it means, its unit, its default
//	enum     the strings that are allowed; without an empty one, "" is not
//	min, max the range of a number
//	hint     keys that people write when they mean this one
//
// The package keeps references to secrets, never what they refer to: that is read by
// [MCPServer.Resolve] and [Secret.Resolve] when it is needed, so that a missing
// secret harms only what needs it. The package reads no environment, starts nothing, and
// does not know what a policy or a source does.
package config
