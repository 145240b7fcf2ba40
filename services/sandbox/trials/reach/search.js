// Looks for texts that begin with MARK in all that can be reached, and in all memory that can be had. MARK itself is made of
// numbers, so that this text does not hold it. What is found is returned.
const mark = String.fromCharCode(...CODES)
const found = []
const look = (text, where) => {
  const at = typeof text === 'string' ? text.indexOf(mark) : -1
  if (at >= 0) found.push(`${where}: ${text.slice(Math.max(0, at - 20), at + 100)}`)
}

// All that can be reached, and the texts of functions, symbols and errors.
const seen = new Set()
let level = [[globalThis, 'globalThis'], [await tools.search('x'), 'hits'], [await tools.call('t', {}), 'outcome'], [arguments, 'arguments']]
try { level.push([arguments.callee, 'callee'], [arguments.callee.caller, 'caller']) } catch {}
Error.prepareStackTrace = (e, frames) => { level.push([frames, 'frames']); return '' }
void new Error('x').stack
Error.prepareStackTrace = undefined
for (const f of [() => null.x, () => structuredClone(() => {}), () => tools.call(1n), () => eval('('), () => new URL('x'), () => { for (;;) f() }]) {
  try { await f() } catch (e) { level.push([e, 'error']); look(e.stack, 'stack'); look(e.message, 'message') }
}
while (level.length > 0) {
  const now = level
  level = []
  for (const [o, path] of now) {
    if (typeof o === 'string') look(o, path)
    if (typeof o === 'symbol') look(o.description, path)
    if ((typeof o !== 'object' && typeof o !== 'function') || o === null || seen.has(o)) continue
    seen.add(o)
    if (typeof o === 'function') {
      try { look(Function.prototype.toString.call(o), path) } catch {}
    }
    for (const key of Reflect.ownKeys(o)) {
      look(typeof key === 'symbol' ? key.description : key, path)
      const d = Object.getOwnPropertyDescriptor(o, key)
      level.push([d.value, `${path}.${String(key)}`], [d.get, path], [d.set, path])
      if (d.get && !seen.has(d.get)) { try { level.push([o[key], `${path}.${String(key)}`]) } catch {} }
    }
    level.push([Object.getPrototypeOf(o), `${path}.__proto__`])
  }
}

if (LARGE === 0) return { found, objects: seen.size, bytes: 0 }

// All memory that can be had: it must come as zeros.
const zeros = '0'.repeat(2 << 20)
const scan = (buffer, where) => {
  const view = new Uint8Array(buffer)
  const hex = view.toHex()
  if (hex === (hex.length === zeros.length ? zeros : '0'.repeat(hex.length))) return
  found.push(`${where}: a buffer of ${view.length} bytes is not empty`)
  look(new TextDecoder().decode(view), where)
}
const kept = []
let got = 0
for (let size = 16; size <= 1 << 20; size *= 2) {
  for (let i = 0; i < 2; i++) {
    const b = new ArrayBuffer(size)
    scan(b, `a buffer of ${size}`)
    kept.push(b)
    got += size
  }
}
const grows = new ArrayBuffer(0, { maxByteLength: 1 << 20 })
for (let size = 1; size <= 1 << 20; size *= 2) {
  grows.resize(size)
  scan(grows, 'a buffer that grows')
}
let moves = new ArrayBuffer(1)
for (let size = 2; size <= 1 << 20; size *= 2) {
  moves = moves.transfer(size)
  scan(moves, 'a buffer that moves')
}
for (const T of [Uint8Array, Float64Array, BigInt64Array]) {
  const t = new T(1000)
  scan(t.buffer, T.name)
}
const rest = new TextDecoder().decode(new Uint8Array(1000))
look(rest, 'decoder')
const holes = new Array(10000)
for (let i = 0; i < holes.length; i++) if (holes[i] !== undefined || i in holes) found.push(`a hole holds ${typeof holes[i]}`)
kept.length = 0

// As much as there is, up to the limit, in large pieces; the last bit of it ends a body, so some is left.
for (let i = 0; i < LARGE; i++) {
  const b = new ArrayBuffer(1 << 20)
  scan(b, 'a large buffer')
  kept.push(b)
  got += b.byteLength
}
return { found, objects: seen.size, bytes: got }
