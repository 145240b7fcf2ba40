// Runs one body in Node, as a child process for each body does it: the body comes as a line of JSON on the standard input,
// {"code"}; asks and their answers go as lines of JSON, and so does the end. The body sees a context of its own.
import { createInterface } from 'node:readline';
import vm from 'node:vm';

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const say = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);
const asks = new Map();
let last = 0;
const ask =
  (op) =>
  (...args) =>
    new Promise((resolve, reject) => {
      const id = ++last;
      asks.set(id, { resolve, reject });
      say({ ask: id, op, args });
    });

async function answer() {
  for (;;) {
    const line = await lines.next();
    if (line.done) return;
    const message = JSON.parse(line.value);
    const waiting = asks.get(message.id);
    asks.delete(message.id);
    if (message.error) waiting?.reject(new Error(message.error.message));
    else waiting?.resolve(message.value);
  }
}

const { code } = JSON.parse((await lines.next()).value);
const tools = { search: async (...args) => (await ask('search')(...args)).hits, describe: ask('describe'), call: ask('call') };
const log = (...args) => say({ log: args.map(String).join(' ') });
const context = vm.createContext({ tools, console: { log, info: log, warn: log, error: log, debug: log }, setTimeout, clearTimeout });
answer();
try {
  const value = await vm.runInContext(`(async function () {\n${code}\n})`, context, { filename: 'body.js' })();
  say({ value: value === undefined ? null : value });
} catch (e) {
  say({ failure: { name: `${e?.name}`, message: `${e?.message}` } });
}
process.exit(0);
