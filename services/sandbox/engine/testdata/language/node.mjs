// Runs cases of the language suite in Node: the prelude's bridge, console and conversion of values, with Node's own
// language, Intl, URL and codecs. It reads the cases as JSON and writes what came of them.
import fs from 'node:fs';
import { createRequire } from 'node:module';
import { formatWithOptions } from 'node:util';

const here = new URL('.', import.meta.url);
const read = (path) => fs.readFileSync(new URL(path, here), 'utf8');
const { transform } = createRequire(new URL('../../npm/package.json', here))('sucrase');
const table = JSON.parse(read('tools.json'));
const prelude = `(() => {\n'use strict';\n${['primordials', 'state', 'value', 'inspect', 'errors', 'timers', 'bridge', 'console', 'chance', 'start'].map((f) => read(`../../prelude/${f}.js`)).join('')}})();`;
const later = setImmediate;
const realGlobals = Object.getOwnPropertyDescriptors(globalThis);
const RealDate = Date;
Uint8Array.prototype.toBase64 ??= function () {
  return Buffer.from(this).toString('base64');
};

let clock;
let takeRejection;
process.on('unhandledRejection', (reason, promise) => takeRejection(reason, promise));
process.on('rejectionHandled', (promise) => takeRejection(undefined, promise));

// stubDate gives a Date that shows the clock.
function stubDate() {
  const fake = class extends RealDate {
    constructor(...args) {
      if (args.length === 0) super(clock);
      else super(...args);
    }

    static now() {
      return clock;
    }
  };
  Object.defineProperty(fake, 'name', { value: 'Date' });
  Object.defineProperty(fake.prototype, Symbol.toPrimitive, { value: RealDate.prototype[Symbol.toPrimitive], configurable: true });
  return fake;
}

// seedOf gives the words of a seed as the engine draws them (splitmix64).
function seedOf(seed) {
  let s = BigInt(seed);
  return Array.from({ length: 4 }, () => {
    s = BigInt.asUintN(64, s + 0x9e3779b97f4a7c15n);
    let z = BigInt.asUintN(64, (s ^ (s >> 30n)) * 0xbf58476d1ce4e5b9n);
    z = BigInt.asUintN(64, (z ^ (z >> 27n)) * 0x94d049bb133111ebn);
    return Number((z ^ (z >> 31n)) >> 32n);
  });
}

function compile(code) {
  const wrapped = `async function () {\n${code}\n}`;
  return [(0, eval)(`(${wrapped})`), wrapped];
}

function compileEither(code) {
  try {
    return compile(code);
  } catch (e) {
    try {
      const out = transform(`(async function () {\n${code}\n})`, { transforms: ['typescript'], disableESTransforms: true, keepUnusedImports: true, production: true }).code;
      return compile(out.slice(out.indexOf('\n') + 1, out.lastIndexOf('\n')));
    } catch {
      throw e;
    }
  }
}

async function run(code) {
  clock = table.now;
  const result = { value: '', failed: '', logs: [] };
  const due = [];
  const calls = {};
  let ended = false;
  const rejections = new Map();
  takeRejection = (reason, promise) => (rejections.has(promise) ? rejections.delete(promise) : rejections.set(promise, reason));
  globalThis.Date = stubDate();
  globalThis.__send = (op, id, payload) => {
    if (op === 'log') result.logs.push(JSON.parse(payload));
    else if (ended) throw new Error(`sent ${op} after the end`);
    else if (op === 'done') [ended, result.value] = [true, payload];
    else if (op === 'fail') [ended, result.failed] = [true, JSON.parse(payload).name];
    else {
      const { after = 0, ...answer } = answerTo(op, JSON.parse(payload), id, calls);
      due.push({ id, at: clock + after, ...answer });
    }
  };
  (0, eval)(prelude);
  const { __start, __settle, __fail, __rejected } = globalThis;
  for (const name of ['__start', '__settle', '__fail', '__rejected']) delete globalThis[name];
  for (const level of ['log', 'info', 'warn', 'error', 'debug']) {
    globalThis.console[level] = (...args) => result.logs.push({ level, text: formatWithOptions({ breakLength: Infinity, compact: true, depth: 5 }, ...args) });
  }
  const settled = () => new Promise((resolve) => later(() => later(resolve)));
  try {
    const [fn, wrapped] = compileEither(code);
    __start(fn, wrapped, JSON.stringify({ seed: seedOf(table.seed), now: clock, calls: 100, concurrent: 16, console: 65536, value: 262144 }));
  } catch (e) {
    __fail(e, code);
  }
  await settled();
  while (!ended && due.length > 0) {
    due.sort((a, b) => a.at - b.at);
    const { id, at, value, error } = due.shift();
    clock = Math.max(clock, at);
    __settle(id, error === undefined, JSON.stringify(error ?? value) ?? '', clock);
    await settled();
  }
  if (!ended) result.failed = '-';
  for (const reason of rejections.values()) __rejected(reason);
  result.logs = result.logs.filter((_, i, all) => all.slice(0, i + 1).reduce((n, l) => n + Buffer.byteLength(l.text) + 1, 0) <= 65537);
  return result;
}

function answerTo(op, args, ask, calls) {
  switch (op) {
    case 'timer':
      return { after: args[0] };
    case 'search': {
      const limit = args[1]?.limit ?? 8;
      return { value: Array.isArray(args[0]) ? { results: args[0].map((q) => hitsFor(q, limit)) } : hitsFor(args[0], limit) };
    }
    case 'describe': {
      const tool = table.tools[args[0]];
      if (tool === undefined) return { error: { message: `there is no tool ${JSON.stringify(args[0])}` } };
      return { value: { id: args[0], description: tool.description, inputSchema: { type: 'object' } } };
    }
    default:
      return call(args, ask, calls);
  }
}

function hitsFor(query, limit) {
  const found = table.search[query] ?? [];
  const hits = found.slice(0, limit).map((id) => ({ id, name: id.slice(4), description: table.tools[id].description }));
  return { hits, total: found.length, limit, nearest: hits.length > 0 ? [] : ['mcp:net:echo'], query };
}

function call([id, args, options], ask, calls) {
  const tool = table.tools[id];
  const callId = `call_${ask}`;
  calls[id] = (calls[id] ?? 0) + 1;
  const problem = tool === undefined ? `there is no tool ${JSON.stringify(id)}` : calls[id] <= (tool.failures ?? 0) ? 'the network is down' : undefined;
  if (problem !== undefined) {
    const outcome = { status: 'unavailable', error: { code: 'unavailable', message: problem }, callId };
    if (options?.outcome) return { value: outcome, after: tool?.delay };
    return { error: { message: `${id}: ${problem}`, props: { callId, outcome, status: 'unavailable' } }, after: tool?.delay };
  }
  const structuredContent = tool.echo ? args : tool.byArgs ? (tool.byArgs[JSON.stringify(args)] ?? null) : tool.result;
  const content = [{ type: 'text', text: JSON.stringify(structuredContent) }];
  return { value: { status: 'ok', tool: { id }, result: { content, structuredContent }, callId }, after: tool.delayArg ? args[tool.delayArg] : tool.delay };
}

// has says whether Node has what a case needs.
function has(expression) {
  if (expression === '') return true;
  try {
    return Boolean((0, eval)(expression));
  } catch {
    return false;
  }
}

const results = [];
for (const c of JSON.parse(fs.readFileSync(0, 'utf8'))) {
  if (!has(c.Needs)) results.push({ old: true });
  else results.push(await run(c.Code));
  Object.defineProperties(globalThis, Object.fromEntries(Object.entries(realGlobals).filter(([, d]) => d.configurable)));
}
process.stdout.write(JSON.stringify(results));
