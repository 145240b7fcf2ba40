// What the prelude needs of the language, taken before any body runs: a body that replaces JSON, Promise or
// Array.prototype.push hurts itself only. For that to hold, code that handles asks, answers, values and endings
//   - calls no method that it finds on a value, but the functions taken here (so no iteration, spread or template of objects),
//   - writes to arrays only if list() made them, and reads only properties that an object itself has,
//   - gives descriptors without a prototype, and waits for promises with then() alone.
// What only serves the body (codecs, Intl and the like) may be written as usual.
const host = globalThis.__send;
delete globalThis.__send;

const { apply, defineProperty, getOwnPropertyDescriptor, getPrototypeOf, ownKeys } = Reflect;
const { freeze, keys, setPrototypeOf } = Object;
const { isArray } = Array;
const { parse, stringify } = JSON;
const { imul, max, trunc } = Math;
const { isFinite } = Number;
const { fromCharCode } = String;
const NewPromise = Promise;
const NewWeakSet = WeakSet;
const NewError = Error;
const NewTypeError = TypeError;
const NewRangeError = RangeError;

// free makes of a method a function that takes its receiver as the first argument.
const free = Function.prototype.bind.bind(Function.prototype.call);

const then = free(Promise.prototype.then);
const source = free(Function.prototype.toString);
const slice = free(String.prototype.slice);
const indexOf = free(String.prototype.indexOf);
const lastIndexOf = free(String.prototype.lastIndexOf);
const charCodeAt = free(String.prototype.charCodeAt);
const toWellFormed = free(String.prototype.toWellFormed);
const match = free(RegExp.prototype.exec); // null or what matched
const regExpText = free(RegExp.prototype.toString);
const symbolText = free(Symbol.prototype.toString);
const isoText = free(Date.prototype.toISOString);
const dateTime = free(Date.prototype.getTime);
const mapGet = free(Map.prototype.get);
const mapSet = free(Map.prototype.set);
const mapHas = free(Map.prototype.has);
const mapDelete = free(Map.prototype.delete);
const mapEach = free(Map.prototype.forEach);
const setEach = free(Set.prototype.forEach);
const weakAdd = free(WeakSet.prototype.add);
const weakHas = free(WeakSet.prototype.has);
const getter = (object, name) => free(getOwnPropertyDescriptor(object, name).get);
const mapSize = getter(Map.prototype, 'size');
const setSize = getter(Set.prototype, 'size');
const TypedArray = getPrototypeOf(Uint8Array);
const typedLength = getter(TypedArray.prototype, 'length');
const typedName = getter(TypedArray.prototype, Symbol.toStringTag);
const bufferLength = getter(ArrayBuffer.prototype, 'byteLength');
const { toStringTag } = Symbol;

// data is the descriptor of a property like any that an assignment makes.
const data = (value) => ({ __proto__: null, value, writable: true, enumerable: true, configurable: true });

// hidden is the descriptor of a property that loops do not see.
const hidden = (value) => ({ __proto__: null, value, writable: true, enumerable: false, configurable: true });

// list makes an array that can be written to by index whatever Array.prototype has.
const list = () => setPrototypeOf([], null);

// own reads a property that an object itself has, without running code of its; undefined where there is none.
function own(object, name) {
  const d = getOwnPropertyDescriptor(object, name);
  return d === undefined ? undefined : valueOf(d);
}

// valueOf reads the value of a descriptor that the language made. Object.prototype may have a "value" of its own.
function valueOf(descriptor) {
  setPrototypeOf(descriptor, null);
  return descriptor.value;
}

// install puts a function or object onto the global object, as the language does with its own.
const install = (name, value) => defineProperty(globalThis, name, hidden(value));
