// structuredClone: what the HTML standard has, for what there is in a body.

const errorNames = ['EvalError', 'RangeError', 'ReferenceError', 'SyntaxError', 'TypeError', 'URIError'];
const boxes = [Boolean, Number, String, BigInt];

function uncloneable(value) {
  return new DOMException(`${cut(inspect(value), 200)} could not be cloned.`, 'DataCloneError');
}

function cloned(value, memory) {
  if (typeof value === 'symbol' || typeof value === 'function') throw uncloneable(value);
  if (typeof value !== 'object' || value === null) return value;
  if (memory.has(value)) return memory.get(value);
  const copy = shell(value, memory);
  memory.set(value, copy);
  if (value instanceof Map) {
    for (const [k, v] of [...Map.prototype.entries.call(value)]) copy.set(cloned(k, memory), cloned(v, memory));
  } else if (value instanceof Set) {
    for (const v of [...Set.prototype.values.call(value)]) copy.add(cloned(v, memory));
  } else if (value instanceof Error) cloneError(value, copy, memory);
  else if (isArray(value) || isPlain(copy)) {
    for (const key of keys(value)) defineProperty(copy, key, data(cloned(value[key], memory)));
  }
  return copy;
}

const isPlain = (copy) => getPrototypeOf(copy) === plainObject;

// shell gives the copy of an object without what it holds.
function shell(value, memory) {
  if (isArray(value)) return new Array(value.length);
  if (value instanceof Date) return new Date(dateTime(value));
  if (value instanceof RegExp) return new RegExp(value.source, value.flags);
  if (value instanceof Map) return new Map();
  if (value instanceof Set) return new Set();
  if (value instanceof ArrayBuffer) return value.resizable ? resizableCopy(value) : value.slice(0);
  if (isView(value)) return viewCopy(value, memory);
  if (value instanceof Error) return new (errorClass(value))();
  for (const box of boxes) {
    if (value instanceof box) return Object(box.prototype.valueOf.call(value));
  }
  if (value instanceof Promise || value instanceof WeakMap || value instanceof WeakSet || value instanceof WeakRef || value instanceof Symbol || value instanceof Iterator) throw uncloneable(value);
  return {};
}

function resizableCopy(buffer) {
  const copy = new ArrayBuffer(buffer.byteLength, { maxByteLength: buffer.maxByteLength });
  new NewUint8Array(copy).set(new NewUint8Array(buffer));
  return copy;
}

function viewCopy(view, memory) {
  const buffer = cloned(view.buffer, memory);
  const length = view instanceof DataView ? view.byteLength : view.length;
  const constructor = view instanceof DataView ? DataView : globalThis[typedName(view)];
  return new constructor(buffer, view.byteOffset, length);
}

const errorClass = (error) => globalThis[errorNames.includes(error.name) ? error.name : 'Error'];

function cloneError(error, copy, memory) {
  const message = getOwnPropertyDescriptor(error, 'message');
  if (message !== undefined) defineProperty(copy, 'message', hidden(`${error.message}`));
  defineProperty(copy, 'stack', hidden(error.stack));
  if ('cause' in error) defineProperty(copy, 'cause', hidden(cloned(error.cause, memory)));
}

install('structuredClone', { structuredClone(value, options) {
  if (arguments.length === 0) throw new NewTypeError('structuredClone wants a value');
  const memory = new Map();
  const transfer = [...(options?.transfer ?? [])];
  for (const buffer of transfer) {
    if (!(buffer instanceof ArrayBuffer)) throw uncloneable(buffer);
  }
  for (const buffer of transfer) memory.set(buffer, buffer.transfer());
  return cloned(value, memory);
} }.structuredClone);
