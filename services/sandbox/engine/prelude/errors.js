// How a body's failure is told: name, message, where in the body it was, and what to do where a body wants what is not here.

const longest = 8000; // units of UTF-16 of a message

// A caller that shows frames could be handed the prelude's functions by them.
(() => {
  const before = NewError.prepareStackTrace;
  let frame;
  NewError.prepareStackTrace = (_, frames) => {
    frame = frames[0];
    return '';
  };
  void new NewError().stack;
  NewError.prepareStackTrace = before;
  for (const name of ['getFunction', 'getThis']) {
    if (frame !== undefined) Reflect.deleteProperty(getPrototypeOf(frame), name);
  }
})();

// failWith ends the body with what was thrown.
function failWith(thrown, code) {
  if (state.ended) return;
  const f = failure(thrown);
  if (code === undefined && typeof thrown === 'object' && thrown !== null && weakHas(limits, thrown)) code = 'bridge_limit';
  const head = code === undefined ? '' : `"code":${quote(code)},`;
  const payload = `{${head}"name":${quote(f.name)},"message":${quote(f.message)},"stack":${quote(f.stack)}}`;
  send('fail', 0, payload);
  state.ended = true;
}

// headline gives "name: message" of what was thrown, with hints.
function headline(thrown) {
  const f = failure(thrown);
  return f.message === '' ? f.name : `${f.name}: ${f.message}`;
}

// failure reads what was thrown, whatever it is: it never throws.
function failure(thrown) {
  const f = { __proto__: null, name: 'Error', message: '', stack: '' };
  if ((typeof thrown !== 'object' && typeof thrown !== 'function') || thrown === null) {
    f.message = cut(typeof thrown === 'string' ? thrown : inspect(thrown), longest);
    return f;
  }
  const name = read(thrown, 'name');
  const message = read(thrown, 'message');
  const stack = read(thrown, 'stack');
  f.stack = framesOf(stack, thrown);
  if (typeof message !== 'string' || (typeof name !== 'string' && f.stack === '')) {
    const json = jsonText(thrown);
    f.message = cut(json === '{}' ? inspect(thrown) : json, longest);
    return f;
  }
  f.name = cut(typeof name === 'string' && name !== '' ? name : 'Error', 200);
  f.message = cut(advised(f, message, stack), longest - 3000) + parts(thrown);
  f.message = cut(f.message, longest);
  return f;
}

// read reads a property of something hostile.
function read(object, name) {
  try {
    return object[name];
  } catch {
    return undefined;
  }
}

// parts tells an error's cause, and the errors that it collects.
function parts(error) {
  let out = '';
  const cause = read(error, 'cause');
  if (cause !== undefined) out += ` (cause: ${inspect(cause)})`;
  const errors = read(error, 'errors');
  let collected = false;
  try {
    collected = isArray(errors);
  } catch {
    collected = false;
  }
  if (collected) out += ` (errors: ${inspect(errors)})`;
  return out;
}

// framesOf keeps of a stack the frames that are in the body, from where the error was made on: its class's constructors are
// left out. Line 1 is the wrapper's, and no line of the body.
function framesOf(stack, error) {
  if (typeof stack !== 'string') return '';
  const classes = error === undefined ? '' : classesOf(error);
  let out = '';
  let n = 0;
  lines(cut(stack, 20_000), (line) => {
    const at = placeIn(line);
    if (at === null || at.line < 2) return false;
    const made = match(/^\s*at ([\w$]+) \(/, line);
    if (n === 0 && made !== null && indexOf(classes, ` ${made[1]} `) >= 0) return false;
    out += `${out === '' ? '' : '\n'}${line}`;
    return ++n >= 10;
  });
  return out;
}

// classesOf gives the names of the classes that an object is of, between spaces.
function classesOf(object) {
  let out = ' ';
  try {
    for (let p = getPrototypeOf(object), n = 0; p !== null && n < 10; p = getPrototypeOf(p), n++) {
      const c = own(p, 'constructor');
      const name = typeof c === 'function' ? own(c, 'name') : '';
      if (typeof name === 'string') out += `${cut(name, 100)} `;
    }
  } catch {
    out = ' ';
  }
  return out;
}

// placeIn reads the position in the body that a frame names, null where it names none.
function placeIn(frame) {
  const at = lastIndexOf(frame, 'body.js:');
  const m = at < 0 ? null : match(/^body\.js:(\d{1,7}):(\d{1,7})/, slice(frame, at, at + 24));
  return m === null ? null : { __proto__: null, line: +m[1], column: +m[2] };
}

// advised gives a failure's message with what to do about it, as far as the body's text tells.
function advised(f, message, stack) {
  let where = null;
  lines(f.stack, (frame) => (where = placeIn(frame)) !== null);
  let line = '';
  let last = '';
  let count = 0;
  lines(state.source, (l, n) => {
    if (where !== null && n === where.line) line = cut(l, 2000);
    if (n > 1 && l !== '}') last = l;
    count = n;
  });
  const column = where === null ? 0 : where.column;
  switch (f.name) {
    case 'ReferenceError':
      return message + forReference(message);
    case 'TypeError':
      return message === 'not a function' || message === 'not a constructor' ? message + forCall(line, stack) : message;
    case 'SyntaxError':
      if (where !== null && where.line >= count && state.config === null) {
        f.stack = `    at body.js:${max(count - 1, 2)}:${last.length + 1}`; // where the wrapper ends
        return 'the body ends in the wrong place: a bracket, a quote or a block is not closed, or one is closed too often';
      }
      return message + forSyntax(line, column);
    case 'AggregateError':
      return message === '' ? 'All promises were rejected' : message;
    default:
      return message;
  }
}

function forReference(message) {
  if (match(/^could not load module/, message) !== null) return `. ${modules}`;
  const m = match(/^([\w$]+) is not defined/, message);
  const advice = m === null ? undefined : mapGet(missing, m[1]);
  return advice === undefined ? '' : `. ${advice}`;
}

function forSyntax(line, column) {
  if (match(/^\s*(?:import|export)\b(?!\s*[(.])/, line) !== null) return `. ${modules}`;
  if (match(/\bawait\s*$/, slice(line, 0, column - 1)) === null) return state.config === null ? quotedLine(line) : '';
  return '. await needs an async function around it: make the callback async, as in await Promise.all(items.map(async (item) => { … }))';
}

// forCall tells where something was called that is no function. The language tells neither what nor exactly where.
function forCall(line, stack) {
  const native = match(/^\s*at (\w+) \(native\)/, stack);
  const called = match(/\b(?:openclaw\.)?tools\.(?!(?:search|describe|call)\b)[\w$]+(?=\s*\()/, line);
  if (called !== null) {
    return `: there is no ${called[0]}. tools has search, describe and call: await tools.call("the id of the tool", {…}) calls a tool, and tools.search("what you need") finds its id`;
  }
  return (native === null ? '' : `, given to ${native[1]}`) + quotedLine(line);
}

// quotedLine shows a line of the body.
function quotedLine(line) {
  const m = match(/^\s*([^]{1,160})/, line);
  return m === null ? '' : `, in: ${m[1]}`;
}

const modules = 'There are no modules in a body: what it needs of a library it has to write out or to find with tools.search';
const byTool = (what, query) => `${what} is not available in a body: find a tool with tools.search("${query}") and call it`;
const instead = (what, other) => `${what} is not available in a body: ${other}`;
const missing = new Map([['import', modules]]);
const tellMissing = (names, tell) => {
  for (const name of names) missing.set(name, tell(name));
};
tellMissing(['fetch', 'XMLHttpRequest', 'WebSocket', 'EventSource', 'axios', 'Request', 'Response', 'Headers', 'FormData', 'http', 'https', 'net'], (n) => byTool(n, 'fetch a web page'));
tellMissing(['fs', 'path', 'Deno', 'Bun', 'Blob', 'File', 'FileReader'], (n) => byTool(n, 'read a file'));
tellMissing(['process', 'os', 'child_process'], (n) => byTool(n, 'run a command'));
tellMissing(['require', 'module', 'exports', '__dirname', '__filename', '_', 'lodash', 'moment', 'dayjs', 'luxon', 'z', 'zod'], (n) => `${n} is not available in a body. ${modules}`);
tellMissing(['window', 'document', 'navigator', 'localStorage', 'sessionStorage', 'indexedDB', 'self', 'alert'], (n) => instead(n, 'it runs in no browser, and its global object is globalThis'));
tellMissing(['Buffer'], (n) => instead(n, 'use TextEncoder and TextDecoder, atob and btoa, or Uint8Array with toBase64, fromBase64, toHex and fromHex'));
tellMissing(['crypto'], (n) => instead(n, 'Math.random() is the only source of chance, and find a tool for hashes and signatures'));
tellMissing(['Worker', 'SharedArrayBuffer', 'Atomics', 'WebAssembly', 'MessageChannel', 'BroadcastChannel'], (n) => instead(n, 'it has one thread of JavaScript and nothing else'));
tellMissing(['setImmediate', 'requestAnimationFrame', 'requestIdleCallback'], (n) => instead(n, 'use setTimeout'));
tellMissing(['AbortController', 'AbortSignal'], (n) => instead(n, 'to wait no longer than some time, use Promise.race with setTimeout'));
tellMissing(['Temporal'], (n) => instead(n, 'use Date and Intl.DateTimeFormat'));
tellMissing(['global'], (n) => instead(n, 'use globalThis'));
tellMissing(['Event', 'EventTarget', 'CustomEvent', 'EventEmitter', 'ReadableStream', 'WritableStream', 'TransformStream'], (n) => instead(n, 'use promises, async functions and async generators'));
tellMissing(['search', 'describe', 'call'], (n) => `Write tools.${n}(…), or const { search, describe, call } = tools at the start`);
tellMissing(['tool_search', 'tool_describe', 'tool_call'], (n) => `In a body it is tools.${n.slice(5)}(…)`);
tellMissing(['string', 'number', 'boolean', 'any', 'unknown', 'never'], (n) => `Where it is to be a type: in a body that is valid JavaScript, f<${n}>(x) is a comparison; leave the type arguments out`);
