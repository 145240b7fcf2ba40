package engine

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
)

// hostile are bodies that try to outlast, outgrow or confuse the engine, with the codes that they may end with ("" for a value).
func hostile() map[string]struct {
	code string
	ends []Code
} {
	type h = struct {
		code string
		ends []Code
	}
	late := []Code{CodeTimeout}
	full := []Code{CodeMemory, CodeTimeout}
	threw := []Code{CodeException}
	return map[string]h{
		"endless loop":               {`for (;;) {}`, late},
		"endless loop in finally":    {`try { for (;;) {} } finally { for (;;) {} }`, late},
		"endless awaiting":           {`for (;;) await null`, late},
		"endless promise chain":      {`const f = () => Promise.resolve().then(f); await f()`, late},
		"microtask storm":            {`const f = () => { queueMicrotask(f); queueMicrotask(f) }; f(); await new Promise(() => {})`, full},
		"endless thenable":           {`const t = { then(r) { r(t) } }; await t`, late},
		"endless generator":          {`function* g() { for (;;) yield 1 } for (const x of g()) {}`, late},
		"endless async generator":    {`async function* g() { for (;;) yield 1 } for await (const x of g()) {}`, late},
		"endless getter":             {`return { get x() { for (;;) {} } }`, late},
		"endless toJSON":             {`return { toJSON() { for (;;) {} } }`, late},
		"endless toString of errors": {`throw { toString() { for (;;) {} }, get message() { for (;;) {} } }`, append(late, CodeException)},
		"endless proxy":              {`return new Proxy({}, { ownKeys() { for (;;) {} } })`, late},
		"endless after the end":      {`Promise.reject({ toString() { for (;;) {} }, get message() { for (;;) {} } }); return 1`, append(late, "")},
		"endless out of the wrapper": {`}, (() => { for (;;) {} })(), async function () {`, late},
		"ask and loop":               {`tools.describe("x"); for (;;) {}`, late},
		"join":                       {`return new Array(2**32 - 1).join('')`, full},
		"join of text":               {`return new Array(2**27).join('ab')`, full},
		"indexOf":                    {`return Array.prototype.indexOf.call({ length: 2**53 - 1 }, 1)`, late},
		"fill":                       {`return Array.prototype.fill.call({ length: 2**53 - 1 }, 1)`, full},
		"Array.from":                 {`return Array.from({ length: 2**32 - 2 })`, full},
		"replaceAll":                 {`return 'a'.repeat(3e7).replaceAll('a', 'bb').length`, append(full, "", CodeException)},
		"regular expression":         {`return /(a+)+$/.test('a'.repeat(40) + 'b')`, late},
		"regular expression, nested": {`return /^((a*)*)*$/.test('a'.repeat(35) + 'b')`, append(late, CodeException, CodeStack, "")},
		"BigInt":                     {`let n = 3n; for (;;) n = n * n`, append(full, CodeException)},
		"BigInt power":               {`return String(7n ** 4000000n).length`, append(full, CodeException, "")},
		"sort":                       {`return new Array(1e6).fill(0).sort(() => { for (;;) {} })`, full},
		"copyWithin":                 {`const a = new Uint8Array(2e7); for (;;) a.copyWithin(1, 0)`, late},
		"typed array fill":           {`const a = new Uint8Array(5e7); for (;;) a.fill(1)`, full},
		"string doubling":            {`let s = 'x'; for (;;) s += s`, append(full, CodeException)},
		"repeat":                     {`return 'x'.repeat(2**30)`, append(threw, CodeMemory)},
		"array bomb":                 {`const a = []; for (;;) a.push(new Array(1e6).fill(1))`, full},
		"typed array bomb":           {`const a = []; for (;;) a.push(new Uint8Array(1e7))`, append(full, CodeException)},
		"huge typed array":           {`return new Uint8Array(2**31 - 1).length`, append(full, CodeException)},
		"map bomb":                   {`const m = new Map(); for (let i = 0;; i++) m.set(i, { i })`, full},
		"closure chain":              {`let f = () => 1; for (;;) { const g = f; f = () => g }`, full},
		"memory bomb, caught":        {`const a = []; for (;;) try { for (;;) a.push(new Array(1e5).fill(1)) } catch {}`, full},
		"promise bomb":               {`const a = []; for (;;) a.push(new Promise(() => {}))`, full},
		"rejection bomb":             {`for (;;) Promise.reject(1)`, full},
		"weak references":            {`const r = new FinalizationRegistry(() => { for (;;) {} }); for (;;) { r.register({}, 1); await null }`, full},
		"recursion":                  {`const f = () => f(); f()`, []Code{CodeStack}},
		"recursion, caught for ever": {`const f = () => { try { f() } finally { f() } }; f()`, append(late, CodeStack)},
		"recursion of getters":       {`const o = { get x() { return this.x } }; return o.x`, []Code{CodeStack}},
		"recursion of proxies":       {`let p = {}; for (let i = 0; i < 1e5; i++) p = new Proxy(p, {}); return p.x`, append(full, CodeStack)},
		"recursion of toString":      {`const o = { toString() { return '' + o } }; return '' + o`, []Code{CodeStack}},
		"nested JSON":                {`return JSON.parse('['.repeat(1e6))`, append(full, CodeStack, CodeException)},
		"nested value":               {`let v = []; for (let i = 0; i < 1e5; i++) v = [v]; return v`, append(full, CodeStack, CodeException)},
		"nested source":              {strings.Repeat("(", 30_000), []Code{CodeStack, CodeSyntax}},
		"nested TypeScript":          {"const x: number = " + strings.Repeat("(", 20_000), []Code{CodeStack, CodeSyntax}},
		"arrows":                     {strings.Repeat("a=>", 20_000), []Code{CodeStack, CodeSyntax}},
		"braces":                     {strings.Repeat("{", 30_000), []Code{CodeStack, CodeSyntax}},
		"templates":                  {strings.Repeat("`${", 20_000), []Code{CodeStack, CodeSyntax}},
		"throw null":                 {`throw null`, threw},
		"throw undefined":            {`throw undefined`, threw},
		"throw a symbol":             {`throw Symbol('x')`, threw},
		"throw a proxy":              {`throw new Proxy(new Error('x'), { get() { throw 1 }, getPrototypeOf() { throw 2 } })`, threw},
		"throw a large message":      {`throw new Error('x'.repeat(5e6))`, threw},
		"patched primordials":        {`for (const o of [Array, Object, String, Promise, Map, Function, JSON, Symbol, RegExp]) for (const k of Reflect.ownKeys(o.prototype ?? o)) try { (o.prototype ?? o)[k] = () => { throw 1 } } catch {} throw new Error('x')`, threw},
		"polluted prototypes":        {`Object.prototype.then = (r) => { r(7) }; Object.prototype.get = () => 1; Object.prototype.toJSON = () => 2; Array.prototype[0] = 3; return {}`, []Code{"", CodeException, CodeStalled}},
		"eval":                       {`return eval('(() => { for (;;) {} })()')`, late},
		"Function":                   {`return new Function('for (;;) {}')()`, late},
		"console flood":              {`for (;;) console.log('x'.repeat(1000))`, late},
		"empty console flood":        {`for (;;) console.log()`, late},
		"large console line":         {`console.log('x'.repeat(2e7)); return 1`, append(full, "")},
		"bridge flood":               {`for (;;) tools.describe('x').catch(() => {})`, append(full, CodeBridgeLimit)},
		"timer flood":                {`for (;;) setTimeout(() => {}, 1e9)`, append(full, CodeBridgeLimit)},
		"large value":                {`return 'x'.repeat(3e7)`, append(full, CodeOutputLimit)},
	}
}

// slack is how much later than its limit a body may end when the race detector and other tests share the machine. How much it is on an idle one
// is measured by the trials.
const slack = time.Second

func TestHostile(t *testing.T) {
	e := openEngine(t, Config{})
	for name, h := range hostile() {
		t.Run(name, func(t *testing.T) {
			limit := 200 * time.Millisecond
			if !slices.Contains(h.ends, CodeTimeout) {
				limit = 10 * time.Second
			}
			d := newDoor(func(a Ask) *Answer { return nil })
			start := time.Now()
			ending := e.Run(context.Background(), Body{Code: h.code, Limits: Limits{Timeout: limit}}, d)
			took := time.Since(start)
			if got := whereOf(ending.Failure).Code; !slices.Contains(h.ends, got) {
				t.Errorf("ended with %q, want one of %q: %+v %.100s", got, h.ends, ending.Failure, ending.Value)
			}
			if took > limit+slack {
				t.Errorf("took %s", took)
			}
			if f := ending.Failure; f != nil && (len(f.Message) > maxMessage || len(f.Name) > maxName) {
				t.Errorf("the failure has a name of %d and a message of %d bytes", len(f.Name), len(f.Message))
			}
			next, _ := runCode(t, e, `return [1, {}.x, [].concat([2]).map(String), JSON.stringify({a: 1})]`)
			if got, want := string(next.Value), `[1,null,["2"],"{\"a\":1}"]`; got != want {
				t.Errorf("the next body gave %s %v, want %s", got, next.Failure, want)
			}
			t.Logf("%-10s %7.1f ms %+v", whereOf(ending.Failure).Code, float64(took.Microseconds())/1000, ending.Failure)
		})
	}
	if used := e.used.Load(); used != 0 {
		t.Errorf("%d bytes of the budget are still taken", used)
	}
}

// TestHostileTogether runs all at once, beside bodies that do nothing bad.
func TestHostileTogether(t *testing.T) {
	e := openEngine(t, Config{Budget: 256 << 20})
	const limit = 500 * time.Millisecond
	ends := make(chan string)
	all := hostile()
	for name, h := range all {
		go func() {
			start := time.Now()
			e.Run(context.Background(), Body{Code: h.code, Limits: Limits{Timeout: limit}}, newDoor(nil))
			if took := time.Since(start); took > limit+10*slack { // two cores for dozens of bodies that all compute
				ends <- name + " took " + took.String()
				return
			}
			ends <- ""
		}()
	}
	for range 20 {
		if ending, _ := runCode(t, e, `return await tools.describe("x")`); ending.Failure != nil {
			t.Errorf("a harmless body failed: %+v", ending.Failure)
		}
	}
	for range all {
		if end := <-ends; end != "" {
			t.Error(end)
		}
	}
}

// Functions of the engine that call each other use its stack faster than the limit of the JavaScript stack tells.
func TestStackOfTheEngineItself(t *testing.T) {
	e := openEngine(t, Config{})
	ending, _ := runCode(t, e, `let it = [1, 2, 3].values(); for (let i = 0; i < 1e5; i++) it = it.map(x => x); return [...it]`)
	if whereOf(ending.Failure).Code != CodeStack {
		t.Errorf("ended with %+v, want %s", ending.Failure, CodeStack)
	}
	if ending, _ = runCode(t, e, `return 1`); string(ending.Value) != "1" {
		t.Errorf("the next body ended with %+v", ending.Failure)
	}
}
