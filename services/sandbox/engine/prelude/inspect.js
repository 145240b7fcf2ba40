// How console and errors show values: as Node does, on one line, and bounded. Nothing here calls a body's code, except
// traps of proxies.

const shown = { __proto__: null, depth: 5, items: 100, string: 10_000, all: 20_000 };

// inspect gives a text for any value; it never throws.
function inspect(value) {
  const w = { __proto__: null, out: '', above: null };
  try {
    show(w, value, 0);
  } catch {
    w.out += '[cannot be shown]';
  }
  return cut(w.out, shown.all);
}

function show(w, v, depth) {
  switch (typeof v) {
    case 'string':
      w.out += quoted(cut(v, shown.string));
      return;
    case 'number':
      w.out += v === 0 && 1 / v < 0 ? '-0' : `${v}`;
      return;
    case 'bigint':
      w.out += `${v}n`;
      return;
    case 'symbol':
      w.out += symbolText(v);
      return;
    case 'function':
      showFunction(w, v);
      return;
    case 'object':
      if (v !== null) {
        showObject(w, v, depth);
        return;
      }
  }
  w.out += `${v}`;
}

// quoted gives a string as a literal, in the quotes that need no escape.
function quoted(string) {
  const json = slice(quote(string), 1, -1);
  if (indexOf(string, "'") < 0) return `'${replaceAll(json, '\\"', '"')}'`;
  if (indexOf(string, '"') < 0) return `"${json}"`;
  const open = replaceAll(json, '\\"', '"');
  if (indexOf(string, '`') < 0 && indexOf(string, '${') < 0) return `\`${open}\``;
  return `'${replaceAll(open, "'", "\\'")}'`;
}

function showFunction(w, f) {
  const name = own(f, 'name');
  const named = typeof name === 'string' ? cut(name, 100) : '';
  if (slice(source(f), 0, 5) !== 'class') {
    const kind = className(f) || 'Function';
    w.out += named ? `[${kind}: ${named}]` : `[${kind} (anonymous)]`;
    return;
  }
  const above = getPrototypeOf(f);
  const base = typeof above === 'function' ? own(above, 'name') : '';
  w.out += `[class ${named || '(anonymous)'}${typeof base === 'string' && base !== '' ? ` extends ${cut(base, 100)}` : ''}]`;
}

function showObject(w, v, depth) {
  if (w.out.length > shown.all) return;
  for (let n = w.above; n !== null; n = n.up) {
    if (n.value === v) {
      w.out += '[Circular]';
      return;
    }
  }
  const name = className(v);
  w.above = { __proto__: null, value: v, up: w.above };
  if (depth > shown.depth) w.out += isArray(v) ? '[Array]' : `[${name || 'Object'}]`;
  else showParts(w, v, name, depth);
  w.above = w.above.up;
}

// className gives the name of an object's class, '' for one without prototype.
function className(v) {
  for (let p = getPrototypeOf(v), n = 0; p !== null && n < 100; p = getPrototypeOf(p), n++) {
    const c = own(p, 'constructor');
    if (typeof c !== 'function') continue;
    const name = own(c, 'name');
    if (typeof name === 'string' && name !== '') return cut(name, 100);
  }
  return '';
}

// What objects of the language look like, by what they inherit from. A function gives false for an object that only pretends to be one.
const looks = new Map([
  [Map.prototype, showMap],
  [Set.prototype, showSet],
  [Date.prototype, (w, v) => (w.out += isFinite(dateTime(v)) ? isoText(v) : 'Invalid Date')],
  [RegExp.prototype, (w, v) => (w.out += regExpText(v))],
  [Error.prototype, showError],
  [TypedArray.prototype, showTyped],
  [ArrayBuffer.prototype, (w, v) => (w.out += `ArrayBuffer { byteLength: ${bufferLength(v)} }`)],
  [Promise.prototype, (w) => (w.out += 'Promise { <await it> }')],
  [Number.prototype, (w, v) => boxed(w, 'Number', numberOf(v))],
  [String.prototype, (w, v) => boxed(w, 'String', stringOf(v))],
  [Boolean.prototype, (w, v) => boxed(w, 'Boolean', booleanOf(v))],
  [Symbol.prototype, (w, v) => boxed(w, 'Symbol', symbolOf(v))],
]);
const numberOf = free(Number.prototype.valueOf);
const stringOf = free(String.prototype.valueOf);
const booleanOf = free(Boolean.prototype.valueOf);
const symbolOf = free(Symbol.prototype.valueOf);

function boxed(w, name, value) {
  w.out += `[${name}: `;
  show(w, value, 0);
  w.out += ']';
}

function showParts(w, v, name, depth) {
  if (isArray(v)) return showArray(w, v, name, depth);
  for (let p = getPrototypeOf(v), n = 0; p !== null && p !== plainObject && n < 100; p = getPrototypeOf(p), n++) {
    const look = mapGet(looks, p);
    if (look === undefined) continue;
    const before = w.out;
    try {
      return look(w, v, name, depth);
    } catch {
      w.out = before;
    }
  }
  if (name === '') w.out += '[Object: null prototype] ';
  else if (name !== 'Object') w.out += `${name} `;
  const tag = tagOf(v);
  if (tag !== '' && tag !== name) w.out += `[${tag}] `;
  showProperties(w, v, ownKeys(v), '{', '}', depth);
}

function tagOf(v) {
  for (let p = v, n = 0; p !== null && n < 100; p = getPrototypeOf(p), n++) {
    const tag = own(p, toStringTag);
    if (typeof tag === 'string') return cut(tag, 100);
  }
  return '';
}

// showProperties shows what is enumerable of an object.
function showProperties(w, v, names, open, close, depth, first = true) {
  w.out += open;
  let rest = 0;
  for (let i = 0; i < names.length; i++) {
    const d = getOwnPropertyDescriptor(v, names[i]);
    if (d === undefined) continue;
    setPrototypeOf(d, null);
    if (!d.enumerable) continue;
    if (i >= shown.items || w.out.length > shown.all) {
      rest = names.length - i;
      break;
    }
    w.out += first ? ' ' : ', ';
    first = false;
    showKey(w, names[i]);
    if (d.get !== undefined || d.set !== undefined) w.out += d.set === undefined ? '[Getter]' : d.get === undefined ? '[Setter]' : '[Getter/Setter]';
    else show(w, d.value, depth + 1);
  }
  if (rest > 0) w.out += `${first ? ' ' : ', '}... ${rest} more`;
  w.out += first && rest === 0 ? close : ` ${close}`;
}

function showKey(w, key) {
  if (typeof key === 'symbol') w.out += `[${symbolText(key)}]: `;
  else if (match(identifier, key) !== null) w.out += `${key}: `;
  else w.out += `${quoted(cut(key, 200))}: `;
}

function showArray(w, v, name, depth) {
  const length = own(v, 'length');
  if (name !== 'Array' && name !== '') w.out += `${name}(${length}) `;
  w.out += '[';
  let first = true;
  let holes = 0;
  const hole = () => {
    if (holes > 0) w.out += `${first ? ' ' : ', '}<${holes} empty item${holes > 1 ? 's' : ''}>`;
    if (holes > 0) first = false;
    holes = 0;
  };
  let i = 0;
  for (; i < length && i < shown.items && w.out.length <= shown.all; i++) {
    const d = getOwnPropertyDescriptor(v, i);
    if (d === undefined) {
      holes++;
      continue;
    }
    setPrototypeOf(d, null);
    hole();
    w.out += first ? ' ' : ', ';
    first = false;
    if (d.get !== undefined || d.set !== undefined) w.out += '[Getter]';
    else show(w, d.value, depth + 1);
  }
  hole();
  if (i < length) w.out += `${first ? ' ' : ', '}... ${length - i} more item${length - i > 1 ? 's' : ''}`;
  w.out += first && i >= length ? ']' : ' ]';
}

function showMap(w, v, name, depth) {
  w.out += `${name}(${mapSize(v)}) {`;
  showItems(w, (each) => mapEach(v, each), depth, true);
}

function showSet(w, v, name, depth) {
  w.out += `${name}(${setSize(v)}) {`;
  showItems(w, (each) => setEach(v, each), depth, false);
}

function showItems(w, all, depth, paired) {
  let n = 0;
  all((value, key) => {
    if (n++ >= shown.items || w.out.length > shown.all) return;
    w.out += n === 1 ? ' ' : ', ';
    if (paired) {
      show(w, key, depth + 1);
      w.out += ' => ';
    }
    show(w, value, depth + 1);
  });
  if (n > shown.items) w.out += `, ... ${n - shown.items} more items`;
  w.out += n === 0 ? '}' : ' }';
}

function showTyped(w, v, _name, depth) {
  const length = typedLength(v);
  w.out += `${typedName(v)}(${length}) [`;
  for (let i = 0; i < length && i < shown.items; i++) {
    w.out += i === 0 ? ' ' : ', ';
    show(w, v[i], depth + 1);
  }
  if (length > shown.items) w.out += `, ... ${length - shown.items} more items`;
  w.out += length === 0 ? ']' : ' ]';
}

// What errors have that is shown otherwise or not at all.
const ofErrors = new Map([['name', 0], ['message', 0], ['stack', 0], ['cause', 0], ['errors', 0]]);

// showError shows an error's name, message and properties; where it was thrown is not told.
function showError(w, v, _name, depth) {
  w.out += depth > 0 ? '[' : '';
  w.out += headOf(v);
  const names = ownKeys(v);
  const extra = list();
  for (let i = 0; i < names.length; i++) {
    if (!mapHas(ofErrors, names[i])) extra[extra.length] = names[i];
  }
  const cause = own(v, 'cause');
  const errors = own(v, 'errors');
  let any = false;
  for (let i = 0; i < extra.length && !any; i++) {
    const d = getOwnPropertyDescriptor(v, extra[i]);
    any = d !== undefined && setPrototypeOf(d, null) && d.enumerable;
  }
  if (any) {
    w.out += ' ';
    showProperties(w, v, extra, '{', '}', depth);
  }
  if (cause !== undefined) {
    w.out += ' [cause]: ';
    show(w, cause, depth + 1);
  }
  if (isArray(errors)) {
    w.out += ' [errors]: ';
    show(w, errors, depth + 1);
  }
  w.out += depth > 0 ? ']' : '';
}

// headOf gives "name: message" of an error.
function headOf(error) {
  let name = 'Error';
  for (let p = error, n = 0; p !== null && n < 100; p = getPrototypeOf(p), n++) {
    const found = own(p, 'name');
    if (typeof found !== 'string') continue;
    name = found;
    break;
  }
  const c = className(error);
  if (name === 'Error' && c !== '' && c !== 'Object') name = c; // a class that did not set its name
  const message = own(error, 'message');
  return typeof message === 'string' && message !== '' ? `${name}: ${cut(message, shown.string)}` : name;
}
