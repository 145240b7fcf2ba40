package trials

import (
	"fmt"
	"strings"

	"github.com/toolcrib/toolcrib/services/sandbox/engine"
)

// generated gives the hostile bodies whose text itself is the attack: too long, too deep, or not made for eyes.
func generated() []Trial {
	var all []Trial
	for _, group := range [][]Trial{lengths(), characters(), breakouts(), nesting(), types()} {
		all = append(all, group...)
	}
	for i := range all {
		all[i].Name = "text/" + all[i].Name
	}
	return all
}

// ends makes a trial that may end with any of codes.
func ends(name, code string, codes ...engine.Code) Trial {
	return Trial{Name: name, Code: code, Ends: codes}
}

// gives makes a trial that must give a value.
func gives(name, code, value string) Trial {
	return Trial{Name: name, Code: code, Ends: []engine.Code{""}, Value: value}
}

func lengths() []Trial {
	rep := strings.Repeat
	var locals, cases, names strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&locals, "v%d=%d,", i, i)
		fmt.Fprintf(&cases, "case %d:", i)
		fmt.Fprintf(&names, "#n%d;", i)
	}
	return []Trial{
		ends("too-large", "return 1 //"+rep("x", 70_000), engine.CodeTooLarge),
		ends("too-large-of-newlines", rep("\n", 65_537), engine.CodeTooLarge),
		ends("far-too-large", rep("x", 5<<20), engine.CodeTooLarge),
		gives("empty", "", ""),
		gives("spaces", rep(" ", 65_536), ""),
		gives("newlines", rep("\n", 60_000)+"return 1", "1"),
		gives("semicolons", rep(";", 60_000)+"return 1", "1"),
		gives("comment", "/*"+rep("*", 60_000)+"*/ return 1", "1"),
		gives("comments", rep("/**/", 15_000)+"return 1", "1"),
		gives("huge-identifier", "const "+rep("x", 60_000)+" = 1; return 1", "1"),
		gives("huge-text", "return '"+rep("x", 60_000)+"'.length", "60000"),
		gives("huge-number", "return Number('"+rep("9", 60_000)+"') === Infinity", "true"),
		ends("huge-bigint", "return String("+rep("9", 60_000)+"n).length", "", engine.CodeTimeout),
		gives("huge-regexp", "return /"+rep("a?", 20_000)+"/.test('')", "true"),
		gives("huge-template", "return `"+rep("${1}", 15_000)+"`.length", "15000"),
		gives("huge-array", "return ["+rep("1,", 30_000)+"].length", "30000"),
		gives("huge-elision", "return ["+rep(",", 60_000)+"].length", "60000"),
		ends("many-arguments", "return f("+rep("1,", 30_000)+"); function f() { return arguments.length }", "", engine.CodeStack, engine.CodeSyntax),
		ends("many-locals", "let "+locals.String()+"z; return z", "", engine.CodeSyntax),
		ends("many-cases", "switch (1) {"+cases.String()+"} return 1", "", engine.CodeSyntax),
		ends("many-awaits", rep("await 0;", 8_000)+"return 1", ""),
		ends("many-functions", rep("(()=>1);", 8_000)+"return 1", ""),
		ends("many-private-names", "class A {"+names.String()+"} return 1", ""),
		ends("many-comparisons", "return 1"+rep("<1", 30_000), ""),
		ends("many-additions", "return 1"+rep("+1", 30_000), ""),
		ends("long-chain", "const a = {}; return a"+rep("?.a", 20_000), ""),
	}
}

func characters() []Trial {
	return []Trial{
		gives("nul-in-text", "return '\x00'.length", "1"),
		ends("nul-in-code", "return \x00 1", engine.CodeSyntax),
		ends("nul-at-start", "\x00return 1", engine.CodeSyntax),
		gives("nul-in-comment", "// \x00\nreturn 1", "1"),
		gives("byte-order-mark", "\uFEFFreturn 1", "1"),
		gives("line-separators", "return '\u2028\u2029'.length", "2"),
		gives("line-separator-ends-comment", "// a\u2028return 1", "1"),
		gives("invalid-bytes-in-text", "return '\xff\xfe'.length > 0", "true"),
		ends("invalid-bytes-in-code", "return \xff\xfe", engine.CodeSyntax),
		gives("half-a-character", "return '\xe2\x82'.length > 0", "true"),
		gives("surrogate-in-utf-8", "return '\xed\xa0\x80'.length > 0", "true"),
		gives("surrogates-escaped", `return '\ud83d\ude00' + '\ud83d'`, `"😀�"`),
		ends("direction-marks", "const a = 1; /* \u202e } */ return a", ""),
		ends("invisible-identifier", "const a\u200d = 1; return a\u200d", "", engine.CodeSyntax),
		ends("other-alphabet", "const аwait = 1; return аwait", ""),
		gives("many-bytes-a-character", "return '"+strings.Repeat("😀", 16_000)+"'.length", "32000"),
		ends("escaped-keyword", `\u0072eturn 1`, engine.CodeSyntax, engine.CodeException),
		ends("carriage-returns", strings.Repeat("\r", 60_000)+"return 1", ""),
	}
}

// breakouts close the function that they are the inside of.
func breakouts() []Trial {
	both := []engine.Code{engine.CodeSyntax, engine.CodeException}
	return []Trial{
		ends("closes-the-wrapper", "return 1 }); (()=>{ return 2", engine.CodeSyntax),
		ends("closes-the-wrapper-async", "return 1\n}); (async function () {\nreturn 2", engine.CodeSyntax),
		ends("comma-in-the-wrapper", "return 1\n}, async function () {\nreturn 2", engine.CodeSyntax),
		ends("same-text-again", "\n}), (async function () {\n", engine.CodeSyntax),
		ends("brace-too-many", "return 1 }", engine.CodeSyntax),
		ends("brace-missing", "if (1) { return 1", engine.CodeSyntax),
		ends("parenthesis-too-many", "return 1 })", engine.CodeSyntax),
		ends("open-comment", "return 1 /*", engine.CodeSyntax),
		gives("line-comment-at-the-end", "return 1 //", "1"),
		ends("open-template", "return `", engine.CodeSyntax),
		ends("open-text", "return '", engine.CodeSyntax),
		ends("open-regexp", "return /", engine.CodeSyntax),
		ends("escape-at-the-end", "return 1 \\", engine.CodeSyntax),
		ends("outside-calls-tools", "}); tools.call('t'); (async function () {", both...),
		ends("outside-loops", "}); for (;;); (async function () {", engine.CodeSyntax, engine.CodeTimeout),
		ends("outside-patches-text", "}), (Function.prototype.toString = () => 'async function () {\\n}'), (async function () {", engine.CodeSyntax),
		ends("outside-eats-memory", "}); { const a = []; for (;;) a.push(new Array(1e5).fill(1)) } (async function () {", engine.CodeSyntax, engine.CodeMemory, engine.CodeException),
		ends("outside-patches-promises", "}), (Promise.prototype.then = () => { for (;;); }), (async function () { return 1", engine.CodeSyntax),
		ends("no-function", "}) && 1 && (function () {", engine.CodeSyntax),
		ends("proxy-of-itself", "}) && new Proxy(async function () {}, {}) && (async function () {", engine.CodeSyntax),
		ends("super", "return super.x", engine.CodeSyntax),
		ends("yield", "yield 1; return 1", engine.CodeSyntax, engine.CodeException),
		ends("new-target", "return new.target === undefined", "", engine.CodeSyntax),
		ends("strict", "'use strict'; with ({}) {}", engine.CodeSyntax),
		ends("break-outside", "break", engine.CodeSyntax),
	}
}

// nest gives open, n times, then inside, then shut, n times.
func nest(open string, n int, inside, shut string) string {
	return strings.Repeat(open, n) + inside + strings.Repeat(shut, n)
}

func nesting() []Trial {
	deep := []engine.Code{"", engine.CodeSyntax, engine.CodeStack}
	return []Trial{
		ends("deep-parentheses", "return "+nest("(", 30_000, "1", ")"), deep...),
		ends("deep-brackets", "return "+nest("[", 30_000, "", "]"), append(deep, engine.CodeException)...),
		ends("deep-blocks", nest("{", 30_000, "", "}"), deep...),
		ends("deep-objects", "return "+nest("{a:", 12_000, "1", "}"), append(deep, engine.CodeException)...),
		ends("deep-templates", "return "+nest("`${", 12_000, "1", "}`"), deep...),
		ends("deep-arrows", "return "+strings.Repeat("a=>", 20_000)+"1", append(deep, engine.CodeException, engine.CodeTimeout, engine.CodeMemory)...),
		ends("deep-async-arrows", "return "+strings.Repeat("async()=>", 6_000)+"1", append(deep, engine.CodeException, engine.CodeTimeout, engine.CodeMemory)...),
		ends("deep-functions", "return "+nest("(function(){return ", 2_000, "1", "})()"), append(deep, engine.CodeTimeout, engine.CodeMemory)...),
		ends("deep-classes", nest("class A{a=", 3_000, "1", "}"), append(deep, engine.CodeException, engine.CodeTimeout, engine.CodeMemory)...),
		ends("deep-conditions", "return "+strings.Repeat("1?", 15_000)+"1"+strings.Repeat(":1", 15_000), deep...),
		ends("deep-powers", "return "+strings.Repeat("1**", 20_000)+"1", deep...),
		ends("deep-negations", "return "+strings.Repeat("!", 60_000)+"1", deep...),
		ends("deep-awaits", "return "+strings.Repeat("await ", 10_000)+"1", deep...),
		ends("deep-news", "return "+strings.Repeat("new ", 15_000)+"Object", append(deep, engine.CodeException)...),
		ends("deep-ifs", strings.Repeat("if(1)", 12_000)+"return 1", deep...),
		ends("deep-labels", func() string {
			var b strings.Builder
			for i := range 6_000 {
				fmt.Fprintf(&b, "l%d:", i)
			}
			return b.String() + "return 1"
		}(), deep...),
		ends("deep-patterns", "const "+nest("[", 20_000, "x", "]")+" = []", append(deep, engine.CodeException)...),
		ends("deep-regexp", "return /"+nest("(", 20_000, "a", ")")+"/.test('a')", deep...),
		ends("deep-groups-of-regexp", "return /"+nest("(?:", 12_000, "a", ")")+"/.test('a')", deep...),
	}
}

// types are attacks on what strips types.
func types() []Trial {
	any := []engine.Code{"", engine.CodeSyntax, engine.CodeStack, engine.CodeException, engine.CodeTimeout, engine.CodeMemory}
	return []Trial{
		ends("typed-arrows", "const x: any = "+strings.Repeat("a=>", 1000)+"1; return 1", any...),
		ends("typed-arrows-with-types", "const x: any = "+strings.Repeat("(a:any)=>", 1000)+"1; return 1", any...),
		ends("typed-arrows-open", "const x: any = "+strings.Repeat("(a:any", 6000), engine.CodeSyntax, engine.CodeStack, engine.CodeTimeout, engine.CodeMemory),
		ends("typed-parentheses", "const x: any = "+nest("(", 30_000, "1", ")")+"; return 1", any...),
		ends("typed-generics", "const x: "+nest("A<", 15_000, "B", ">")+" = 1; return 1", any...),
		ends("typed-generics-open", "const x: "+strings.Repeat("A<", 30_000), engine.CodeSyntax, engine.CodeStack, engine.CodeTimeout, engine.CodeMemory),
		ends("typed-calls", "return "+nest("f<", 10_000, "a", ">(1)"), any...),
		ends("typed-less-than", "const x: any = a"+strings.Repeat("<a", 20_000)+"; return 1", any...),
		ends("typed-objects", "const x: "+nest("{a:", 12_000, "1", "}")+" = 1; return 1", any...),
		ends("typed-arrays", "const x: "+nest("[", 30_000, "1", "]")+" = 1; return 1", any...),
		ends("typed-functions", "const x: "+strings.Repeat("(a:1)=>", 8_000)+"1 = 1; return 1", any...),
		ends("typed-conditions", "type X = "+strings.Repeat("A extends B ? ", 3_500)+"1"+strings.Repeat(": 2", 3_500)+"; return 1", any...),
		ends("typed-unions", "const x: a"+strings.Repeat("|a", 30_000)+" = 1; return 1", any...),
		ends("typed-casts", "const a: any = 1; return a"+strings.Repeat(" as any", 8_000), any...),
		ends("typed-assertions", "const a: any = 1; return a"+strings.Repeat("!", 60_000), any...),
		ends("typed-templates", "type X = "+nest("`${", 12_000, "1", "}`")+"; return 1", any...),
		ends("typed-enum", "enum E {"+strings.Repeat("A,", 20_000)+"} return 1", any...),
		ends("typed-namespaces", nest("namespace A {", 4_000, "", "}")+" return 1", any...),
		ends("typed-decorators", strings.Repeat("@a ", 20_000)+"class A { x: number } return 1", any...),
		ends("typed-overloads", strings.Repeat("function f(a: 1): 1;", 3_000)+"function f() {} return 1", any...),
		ends("typed-breakout", "const x: number = 1 }); (()=>{ return 2", engine.CodeSyntax),
		ends("typed-breakout-in-type", "type X = { a: 1 } }); for (;;); (()=>{", engine.CodeSyntax, engine.CodeTimeout),
		ends("typed-loop", "const x: number = 1; for (;;);", engine.CodeTimeout),
		ends("typed-nul", "const x: '\x00' = 1; return \x00", engine.CodeSyntax),
		ends("typed-jsx", "const x: any = <a>"+strings.Repeat("<b>", 15_000), engine.CodeSyntax, engine.CodeStack, engine.CodeTimeout, engine.CodeMemory),
		ends("typed-type-only", "type A = 1; interface B { a: 1 } declare const c: 1; return 1", any...),
	}
}
