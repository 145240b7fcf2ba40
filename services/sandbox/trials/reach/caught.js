// Makes traps of all that objects inherit: setters for all names and numbers that somebody might set on an object of his own,
// replaced functions that look at what they are called with. Then it has everything done that bodies can have done. Functions
// and objects that get caught and are none of its own are returned.
const { apply: Reflect_apply, construct: Reflect_construct } = Reflect
const { defineProperty: Object_defineProperty } = Object
let busy = false
const caught = []
const mine = new WeakSet()
const { add, has } = WeakSet.prototype
const { includes, slice } = String.prototype
const { toString } = Function.prototype
const { push } = Array.prototype
const { keys, getPrototypeOf } = Object
const names = ['op', 'args', 'title', 'timer', 'resolve', 'reject', 'at', 'next', 'value', 'key', 'up', 'json', 'live', 'due', 'id', 'ms', 'every',
  'callback', 'out', 'above', 'name', 'message', 'stack', 'line', 'column', 'config', 'source', 'now', 'ended', 'returned', 'used', 'first', 'last', 'code',
  'send', 'settle', 'start', 'fail', 'host', 'data', 'payload', 'done', 'then', 'return', 'index', 'input', 'groups', 'state', 'seed', 'replace', 'wrong',
  'level', 'text', 'query', 'queries', 'limit', 'outcome', 'hits', 'results', 'errors', 'cause', 'href', 'search', 'hash', 'host', 'fatal', 'ignoreBOM']
const note = (what, v) => {
  if (typeof v !== 'function' && (typeof v !== 'object' || v === null)) return
  if (Reflect_apply(has, mine, [v])) return
  const text = typeof v === 'function' ? Reflect_apply(toString, v, []) : ''
  if (Reflect_apply(includes, text, ['[native code]']) && v.name === '') return // what resolves a promise, and such
  if (typeof v === 'function' || getPrototypeOf(v) === null) Reflect_apply(push, caught, [`${what}: ${typeof v} ${Reflect_apply(slice, text, [0, 80])} ${keys(v)}`])
}
const { call, search, describe } = tools

// What everybody can reach is no catch.
const todo = [globalThis, (function* () {})(), (async function* () {})(), [].values().map((x) => x), new Map().keys(), new Set().keys(), ''.matchAll(/x/g), ''[Symbol.iterator]()]
while (todo.length > 0) {
  const o = todo.pop()
  if ((typeof o !== 'object' && typeof o !== 'function') || o === null || mine.has(o)) continue
  mine.add(o)
  todo.push(getPrototypeOf(o))
  for (const d of Object.values(Object.getOwnPropertyDescriptors(o))) todo.push(d.value, d.get, d.set)
  for (const s of Object.getOwnPropertySymbols(o)) { const d = Object.getOwnPropertyDescriptor(o, s); todo.push(d.value, d.get, d.set) }
}
const nothing = () => {}
mine.add(nothing)

// What the language lacks here is made of functions that reach nothing; they use the language's objects as they find them.
const added = () => {
  new URL('http://u:p@a.example:8/b?c=d#e').searchParams.append('x', 'y'); [...new URLSearchParams('a=1&b=2')]
  new TextDecoder().decode(new TextEncoder().encode('€')); atob(btoa('x'))
  new Intl.NumberFormat('en-US').format(1234.5); new Date(0).toLocaleString(); (1234.5).toLocaleString(); 'a'.localeCompare('b')
}
const everything = async () => {
  console.log('%s %d %j %o', { a: [1, new Map([[1, 2]]), new Set([1])] }, 1, { b: 1 }, new Error('x'))
  console.table([1]); console.group('a'); console.groupEnd(); console.count(); console.time(); console.timeEnd()
  await search('x'); await search(['a', 'b'], { limit: 1 }); await describe('x'); await call('x', { a: [1, { b: new Date(0) }] }, { outcome: true })
  await call('x', { n: 1n }).catch(nothing); await call(1).catch(nothing)
  await new Promise((r) => setTimeout(r, 1)); clearTimeout(setTimeout(nothing, 1)); queueMicrotask(nothing)
  const i = setInterval(nothing, 1); clearInterval(i)
  structuredClone({ a: [new Map([[1, { b: 1 }]]), new Date(0), new Error('x')] })
  try { fetch } catch (e) { e.stack }
}
for (const k of names) {
  for (const P of [Object.prototype, Array.prototype, Function.prototype, Error.prototype]) {
    if (Object.getOwnPropertyDescriptor(P, k)) continue
    try {
      Object.defineProperty(P, k, { __proto__: null, configurable: true,
        set(v) { note(`set ${k} of`, this); note(`set ${k} to`, v); Object.defineProperty(this, k, { __proto__: null, value: v, writable: true, enumerable: true, configurable: true }) },
        get() { note(`get ${k} of`, this); return undefined } })
    } catch {}
  }
}
for (let i = 0; i < 10; i++) {
  Object.defineProperty(Array.prototype, i, { __proto__: null, configurable: true,
    set(v) { note(`set [${i}] to`, v); Object.defineProperty(this, i, { __proto__: null, value: v, writable: true, enumerable: true, configurable: true }) },
    get() { return undefined } })
}
try { added(); await everything() } catch (e) { note('thrown', e) }
for (const P of [Object.prototype, Array.prototype, Function.prototype, Error.prototype]) for (const k of [...names, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]) {
  const d = Object.getOwnPropertyDescriptor(P, k)
  if (d?.get && !d.get.toString().includes('[native code]')) delete P[k]
}

// Functions of the language, one class after the other, that tell what they are given.
for (const C of [Map, Set, WeakMap, WeakSet, RegExp, String, Array, Promise, Function, Object, Reflect, JSON, Error, Number, Date]) {
  const undo = []
  for (const o of [C.prototype, C]) {
    for (const k of o ? Reflect.ownKeys(o) : []) {
      const d = Object.getOwnPropertyDescriptor(o, k)
      if (typeof d.value !== 'function' || !d.configurable || k === 'constructor' || k === Symbol.hasInstance) continue
      const real = d.value
      const spy = function (...a) {
        if (busy) return Reflect_apply(real, this, a)
        busy = true
        try { note(`${String(k)} on`, this); for (const v of a) note(`${String(k)} with`, v) } finally { busy = false }
        return new.target ? Reflect_construct(real, a) : Reflect_apply(real, this, a)
      }
      Reflect_apply(add, mine, [spy])
      undo.push([o, k, d])
      Object_defineProperty(o, k, { __proto__: null, value: spy, writable: true, configurable: true })
    }
  }
  try { await everything() } catch (e) { note('thrown', e) }
  for (const [o, k, d] of undo) Object_defineProperty(o, k, d)
}
return [...new Set(caught)]
