// The console of a body. What it writes goes to the body's log; the host bounds how much of it is kept.

let indent = '';

// log writes a line. Its text is cut where it alone would exceed what the log may hold.
function log(level, line) {
  if (indent !== '') line = indent + replaceAll(line, '\n', `\n${indent}`);
  const most = state.config === null ? shown.all : max(state.config.console, 1000);
  if (line.length > most) line = cut(line, max(most - 1000, 500));
  send('log', 0, `{"level":"${level}","text":${quote(line)}}`);
}

// format joins arguments as Node does: a first text may say how to show those that follow.
function format(args) {
  let out = '';
  let next = 0;
  if (typeof args[0] === 'string') {
    const f = args.length > 1 ? formatted(args) : { __proto__: null, text: args[0], used: 1 };
    out = f.text;
    next = f.used;
  }
  for (; next < args.length; next++) {
    if (next > 0) out += ' ';
    out += typeof args[next] === 'string' ? args[next] : inspect(args[next]);
  }
  return out;
}

// formatted fills the first text's places, and tells how many arguments that took.
function formatted(args) {
  const f = args[0];
  let out = '';
  let from = 0;
  let next = 1;
  for (;;) {
    const at = indexOf(f, '%', from);
    if (at < 0 || at === f.length - 1) break;
    const c = f[at + 1];
    out += slice(f, from, at);
    from = at + 2;
    if (c === '%') out += '%';
    else if (next < args.length && indexOf('sdifjoOc', c) >= 0) out += place(c, args[next++]);
    else out += `%${c}`;
  }
  return { __proto__: null, text: out + slice(f, from), used: next };
}

function place(c, v) {
  switch (c) {
    case 's':
      return typeof v === 'string' ? v : inspect(v);
    case 'd':
    case 'i':
    case 'f': {
      if (typeof v === 'bigint') return `${v}n`;
      const n = typeof v === 'object' || typeof v === 'symbol' || typeof v === 'function' ? NaN : +v;
      return inspect(c === 'i' ? trunc(n) : n);
    }
    case 'j':
      return jsonText(v);
    case 'c':
      return '';
    default:
      return inspect(v);
  }
}

// jsonText gives a value as JSON, or how it looks where it has none.
function jsonText(v) {
  try {
    const json = jsonOf(v, 'value', shown.all, false);
    return json === '' ? 'undefined' : json;
  } catch {
    return inspect(v);
  }
}

const counts = new Map();
const times = new Map();

const write =
  (level) =>
  (...args) =>
    log(level, format(args));

const label = (name) => (name === undefined ? 'default' : inspectName(name));
const inspectName = (name) => (typeof name === 'string' ? name : inspect(name));

function elapsed(name, args) {
  const start = mapGet(times, label(name));
  if (start === undefined) return log('warn', `there is no timer ${label(name)}`);
  let line = `${label(name)}: ${state.now - start}ms`;
  for (let i = 0; i < args.length; i++) line += ` ${inspectName(args[i])}`;
  return log('log', line);
}

const consoleMethods = {
  log: write('log'),
  info: write('info'),
  debug: write('debug'),
  warn: write('warn'),
  error: write('error'),
  trace: write('debug'),
  dir: (value) => log('log', inspect(value)),
  dirxml: write('log'),
  table: (value) => log('log', inspect(value)),
  assert(ok, ...args) {
    if (!ok) log('error', args.length > 0 ? `Assertion failed: ${format(args)}` : 'Assertion failed');
  },
  group(...args) {
    if (args.length > 0) log('log', format(args));
    if (indent.length < 40) indent += '  ';
  },
  groupCollapsed(...args) {
    consoleMethods.group(...args);
  },
  groupEnd() {
    indent = slice(indent, 2);
  },
  count(name) {
    const n = (mapGet(counts, label(name)) ?? 0) + 1;
    mapSet(counts, label(name), n);
    log('log', `${label(name)}: ${n}`);
  },
  countReset(name) {
    mapDelete(counts, label(name));
  },
  time(name) {
    mapSet(times, label(name), state.now);
  },
  timeLog: (name, ...args) => elapsed(name, args),
  timeEnd(name) {
    elapsed(name, []);
    mapDelete(times, label(name));
  },
};
for (const name of ownKeys(consoleMethods)) defineProperty(consoleMethods[name], 'name', { value: name });
install('console', consoleMethods);
