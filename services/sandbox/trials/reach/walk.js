// Lists all that can be reached from a body, by the shortest path to it: what the global object has, what functions of the
// language make, and what the body is given. Own properties of functions that say only their name and length are left out.
const roots = {
  globalThis,
  'new.target': new.target,
  'arguments': arguments,
  'generator': (function* () {})(),
  'asyncGenerator': (async function* () {})(),
  'GeneratorFunction': function* () {},
  'AsyncFunction': async () => {},
  'AsyncGeneratorFunction': async function* () {},
  'promise': Promise.resolve(),
  'arrayIterator': [][Symbol.iterator](),
  'mapIterator': new Map().entries(),
  'setIterator': new Set().entries(),
  'stringIterator': ''[Symbol.iterator](),
  'regExpStringIterator': ''.matchAll(/x/g),
  'iteratorHelper': [].values().map((x) => x),
  'wrappedIterator': Iterator.from({ next() {} }),
  'concatenatedIterator': Iterator.concat?.([]),
  'urlSearchParamsIterator': new URLSearchParams().entries(),
  'template': ((t) => t)`a${1}b`,
  'match': /(?<n>a)/d.exec('a'),
  'class': class { static { this.a = 1 } },
  'hits': await tools.search('add numbers'),
  'entry': await tools.describe('workshop:add'),
  'outcome': await tools.call('workshop:add', {}),
  'thrown': await tools.call('x', { n: 1n }).catch((e) => e),
  'dataError': (() => { try { structuredClone(() => {}) } catch (e) { return e } })(),
  'rangeError': (() => { try { [].length = -1 } catch (e) { return e } })(),
  'syntaxError': (() => { try { eval('(') } catch (e) { return e } })(),
  'stackError': (() => { try { (function f() { f() })() } catch (e) { return e } })(),
}
Error.prepareStackTrace = (error, frames) => frames
roots.frames = new Error('x').stack
Error.prepareStackTrace = undefined
delete Error.prepareStackTrace

const seen = new Map()
const found = []
let level = []
const visit = (value, path) => {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return
  if (seen.has(value)) return
  seen.set(value, path)
  level.push(value)
}
const shown = (key) => typeof key === 'symbol' ? `[${key.description}]` : /^\d+$/.test(key) ? '[n]' : `.${key}`
for (const name of Object.keys(roots)) {
  visit(roots[name], name)
  while (level.length > 0) step()
}
function step() {
  const now = level
  level = []
  for (const o of now) {
    const path = seen.get(o)
    for (const key of Reflect.ownKeys(o)) {
      const d = Object.getOwnPropertyDescriptor(o, key)
      if (typeof o === 'function' && (key === 'name' || key === 'length') && !d.get) continue
      const at = path + shown(key)
      const kind = d.get || d.set ? 'accessor' : typeof d.value
      if (key !== 'constructor' || !seen.has(d.value)) found.push(`${at} ${kind}`)
      visit(d.value, at)
      visit(d.get, `${at}.get`)
      visit(d.set, `${at}.set`)
    }
    visit(Object.getPrototypeOf(o), `${path}.__proto__`)
  }
}
return [...new Set(found)].sort()
