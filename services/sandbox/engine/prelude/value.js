// The JSON form of values: of what a body returns, and of what it gives to a tool.

const deepest = 500; // levels of nesting that a value may have

// TooLarge is thrown when a value's JSON would be longer than it may be.
class TooLarge {
  #made = true;

  // made says whether something that was thrown is one, without running code of it.
  static made(thrown) {
    return typeof thrown === 'object' && thrown !== null && #made in thrown;
  }
}

// iterators is what all iterators of the language have as their first ancestor.
const iterators = getPrototypeOf(getPrototypeOf([][Symbol.iterator]()));
const asyncIterators = getPrototypeOf(getPrototypeOf((async function* () {}).prototype));

// What objects of the language become, by what they inherit from: [replace] makes something else of them, [wrong] says why
// they have no JSON form. Code that fails on its object leaves the object what it is.
const forms = new Map([
  [Map.prototype, { replace: mapForm }],
  [Set.prototype, { replace: setForm }],
  [Error.prototype, { replace: errorForm }],
  [RegExp.prototype, { replace: (v) => regExpText(v) }],
  [BigInt.prototype, { replace: (v) => `${bigOf(v)}` }],
  [Date.prototype, { replace: (v) => (isFinite(dateTime(v)) ? isoText(v) : null) }],
  [TypedArray.prototype, { replace: typedForm }],
  [ArrayBuffer.prototype, { replace: (v, w) => bytesForm(new Uint8Array(v), w) }],
  [DataView.prototype, { replace: (v, w) => bytesForm(new Uint8Array(v.buffer, v.byteOffset, v.byteLength), w) }],
  [Promise.prototype, { wrong: 'a Promise: await it' }],
  [iterators, { wrong: 'an iterator: make it an array first, as in [...it]' }],
  [asyncIterators, { wrong: 'an async iterator: collect what it yields first, as in await Array.fromAsync(it)' }],
  [WeakMap.prototype, { wrong: 'a WeakMap, which cannot be listed' }],
  [WeakSet.prototype, { wrong: 'a WeakSet, which cannot be listed' }],
]);

const bigOf = free(BigInt.prototype.valueOf);
const plainObject = Object.prototype;
const plainArray = Array.prototype;

// formOf gives what the language's object becomes, undefined for one that is what it is.
function formOf(value) {
  for (let p = getPrototypeOf(value), n = 0; p !== null && p !== plainObject && p !== plainArray && n < 100; p = getPrototypeOf(p), n++) {
    const form = mapGet(forms, p);
    if (form !== undefined) return form;
  }
  return undefined;
}

function mapForm(map, w) {
  room(w, mapSize(map));
  let named = true;
  const object = { __proto__: null };
  const pairs = list();
  mapEach(map, (v, k) => {
    if (typeof k !== 'string') named = false;
    if (named) defineProperty(object, k, data(v));
    pairs[pairs.length] = [k, v];
  });
  return named ? object : pairs;
}

function setForm(set, w) {
  room(w, setSize(set));
  const items = list();
  setEach(set, (v) => {
    items[items.length] = v;
  });
  return items;
}

function errorForm(error) {
  const object = { __proto__: null, name: error.name, message: error.message };
  const names = keys(error);
  for (let i = 0; i < names.length; i++) {
    if (names[i] !== 'stack') defineProperty(object, names[i], data(error[names[i]]));
  }
  if (object.cause === undefined) object.cause = error.cause;
  if (object.errors === undefined) object.errors = error.errors; // of an AggregateError
  return object;
}

function typedForm(typed, w) {
  const length = typedLength(typed);
  room(w, length);
  const items = list();
  for (let i = 0; i < length; i++) items[i] = typed[i];
  return items;
}

const base64 = free(Uint8Array.prototype.toBase64);

function bytesForm(bytes, w) {
  room(w, typedLength(bytes));
  return base64(bytes);
}

// jsonOf gives value as JSON, "" for undefined. what names it in errors. It may have at most so many units of UTF-16, else
// TooLarge is thrown. A strict one is an argument: what JSON does not know is an error there, and is left out or
// translated elsewhere.
function jsonOf(value, what, most, strict) {
  // top is the innermost of the objects that are being written.
  const w = { __proto__: null, what, most, strict, size: 0, top: null };
  // The language calls this for each value, in order, with the object that holds it as this.
  function replace(key, v) {
    while (w.top !== null && w.top.value !== this) w.top = w.top.up;
    return part(w, key, v);
  }
  let json;
  try {
    json = stringify(value, replace);
  } catch (e) {
    throw cycleAt(w.top, what) ?? e;
  }
  if (json === undefined) return '';
  if (json.length > most) throw new TooLarge();
  return indexOf(json, '\\ud') < 0 ? json : mendSurrogates(json);
}

// room notes that n more units will be written.
function room(w, n) {
  w.size += n;
  if (w.size > w.most) throw new TooLarge();
}

const wrong = (w, key, why) => new NewTypeError(`${pathOf(w.top, key, w.what)} is ${why}`);

// part gives what is written in the place of v, which is under key in the innermost object.
function part(w, key, v) {
  room(w, 1);
  switch (typeof v) {
    case 'string':
      room(w, v.length);
      return v;
    case 'bigint':
      if (w.strict) throw wrong(w, key, 'a BigInt: give it as text or as a number, as in String(n)');
      return `${v}`;
    case 'number':
      if (w.strict && !isFinite(v)) throw wrong(w, key, `${v}, which JSON does not have`);
      return v;
    case 'function':
    case 'symbol':
      if (w.strict || w.top === null) throw wrong(w, key, `a ${typeof v}, which JSON does not have`);
      return undefined;
    case 'object':
      return v === null ? null : enter(w, key, v);
    default:
      return v;
  }
}

function enter(w, key, v) {
  const p = getPrototypeOf(v);
  if (p !== plainObject && p !== plainArray && p !== null) {
    const form = formOf(v);
    if (form !== undefined) {
      if (form.wrong !== undefined) throw wrong(w, key, form.wrong);
      v = replaced(form, v, w);
      if (typeof v !== 'object' || v === null) return v;
    }
  }
  if (isArray(v) && w.size + own(v, 'length') > w.most) throw new TooLarge(); // each item will be a unit at least
  w.top = { __proto__: null, value: v, key, up: w.top, depth: w.top === null ? 1 : w.top.depth + 1 };
  if (w.top.depth > deepest) throw new NewTypeError(`${w.what} is nested more than ${deepest} levels deep`);
  return v;
}

// replaced gives what form makes of value. What only pretends to be of the form stays what it is.
function replaced(form, value, w) {
  try {
    return form.replace(value, w);
  } catch (e) {
    if (TooLarge.made(e)) throw e;
    return value;
  }
}

// cycleAt gives the error for an object that holds itself, if the innermost one is one.
function cycleAt(top, what) {
  if (top === null) return undefined;
  for (let n = top.up; n !== null; n = n.up) {
    if (n.value === top.value) {
      const inner = pathOf(top.up, top.key, what);
      return new NewTypeError(`${inner} is ${pathOf(n.up, n.key, what)} again: a value that contains itself has no JSON form`);
    }
  }
  return undefined;
}

const identifier = /^[A-Za-z_$][\w$]*$/;

// pathOf writes where key of the object that node stands for is, as in value.items[2].
function pathOf(node, key, what) {
  if (node === null) return what;
  const before = pathOf(node.up, node.key, what);
  if (isArray(node.value)) return `${before}[${key}]`;
  key = cut(key, 64);
  return match(identifier, key) === null ? `${before}[${quote(key)}]` : `${before}.${key}`;
}

// mendSurrogates puts U+FFFD where a JSON text has an escaped half of a surrogate pair.
function mendSurrogates(json) {
  let out = '';
  let from = 0;
  for (;;) {
    const at = indexOf(json, '\\', from);
    if (at < 0) return out + slice(json, from);
    const half = slice(json, at + 1, at + 4);
    const isHalf = slice(half, 0, 2) === 'ud' && half[2] >= '8' && half[2] <= 'f';
    out += slice(json, from, at) + (isHalf ? '\ufffd' : slice(json, at, at + 2));
    from = at + (isHalf ? 6 : 2);
  }
}
