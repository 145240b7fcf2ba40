// Package prelude is the JavaScript that stands in the snapshots before any body runs: the bridge, the console, the
// conversion of values, timers, codecs and Intl, and the stripping of types. It runs nothing itself, and bundles nothing: the
// generator has npm packages to add.
//
// # Between host and prelude
//
// The host gives one global function while the snapshot is made, __send(op, id, payload) (string, number, string), which the
// prelude takes away. The prelude leaves hidden functions on the global object, which the host takes and deletes:
//
//   - __start(fn, source, config) runs a body. fn is what source, as "(source)", compiled to; source is "async function () {\n" +
//     code + "\n}". config is the JSON {seed: [4 words], now: ms, calls, concurrent, console, value}, value and console in bytes.
//   - __settle(id, ok, payload, now) answers an ask. payload is JSON: of the value ("" is undefined), or {name?, message, props?} where ok is false.
//   - __fail(exception, source) has the prelude tell of an exception that the host met itself; source as above, if there is one.
//   - __rejected(reason) has it write a warning about a promise that was rejected with reason, and that nothing handled by
//     the end of the body. It may be called after the ending.
//   - __strip(code), in the other snapshot, gives code without its types.
//
// What the prelude sends:
//
//   - search, describe, call: an ask; its id counts from 1, its payload is a JSON array as [query, {limit}], [id], [id, args, {outcome: true}];
//     options that are not given are left out.
//   - timer: an ask; the payload is [milliseconds]. It is to be answered when they are over, and counts for no limit.
//   - log: id 0, {"level", "text"}.
//   - done, fail: the ending, once, with id 0. done has the JSON of the value ("" is undefined); of __strip, the JavaScript as
//     a JSON string. fail has {code?, name, message, stack}, where stack has no frames but of the body, in the lines of source.
//
// The clock of Date comes from the host, as the operating system's would; it must show the now of __start and __settle.
package prelude

import (
	"embed"
	"strings"
)

//go:embed *.js
var files embed.FS

// Body gives the script for guests that run bodies. It expects the bundle of [Polyfills] to have run before.
func Body() string {
	return script("primordials.js", "state.js", "value.js", "inspect.js", "errors.js", "timers.js", "bridge.js", "console.js",
		"chance.js", "start.js", "encoding.js", "clone.js", "decimal.js", "numbers.js", "zones.js", "dates.js", "words.js", "collate.js", "url.js")
}

// Polyfills gives the entry of a bundle with npm packages: it leaves them, for [Body] to take, as globalThis.__polyfills.
func Polyfills() string { return read("polyfills.js") }

// TypeScript gives the script for guests that strip types. sucrase is a script that leaves the package of that name as
// the global variable __sucrase.
func TypeScript(sucrase string) string {
	return sucrase + "\n" + script("primordials.js", "state.js", "typescript.js")
}

// script joins files within one function, so that they share their names with each other and nothing else.
func script(names ...string) string {
	var b strings.Builder
	b.WriteString("(() => {\n'use strict';\n")
	for _, name := range names {
		b.WriteString(read(name))
	}
	b.WriteString("})();\n")
	return b.String()
}

// read gives a file that is part of the package.
func read(name string) string {
	b, err := files.ReadFile(name)
	if err != nil {
		panic("prelude: " + err.Error())
	}
	return string(b)
}
