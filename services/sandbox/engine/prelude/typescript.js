// The stripping of types. It keeps all lines.

const { transform } = globalThis.__sucrase;
const options = { transforms: ['typescript'], disableESTransforms: true, keepUnusedImports: true, production: true };
const before = 'async function () {';

function strip(code) {
  try {
    const { code: out } = transform(`(${before}\n${code}\n})`, options);
    const from = indexOf(out, '\n') + 1;
    host('done', 0, stringify(slice(out, from, lastIndexOf(out, '\n'))));
  } catch (e) {
    const { line, column } = e.loc ?? {};
    const stack = line === undefined ? '' : `    at body.js:${line}:${column}`;
    const name = typeof e.name === 'string' ? e.name : 'Error';
    const message = line === undefined ? e.message : plain(e.message);
    host('fail', 0, stringify({ name: line === undefined ? name : 'SyntaxError', message, stack }));
  }
}

// plain takes from a message of sucrase what it says about the position.
function plain(message) {
  const m = match(/^(?:Error transforming [^:]*: )?([^]*?) ?\(\d+:\d+\)$/, message);
  return m === null ? message : m[1];
}

install('__strip', strip);
