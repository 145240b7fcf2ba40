// A body's beginning and end.

let result = ''; // the JSON of what the body returned

// start runs fn, which is the body. source is its text: a body that closes the function that it is the inside of has
// made another function of it.
function start(fn, text, config) {
  state.source = text;
  if (typeof fn !== 'function' || source(fn) !== text) {
    failWith(new SyntaxError('the body closes the function that it is the inside of: it has a closing bracket too many'), 'syntax');
    return;
  }
  state.config = parse(config);
  state.now = state.config.now;
  seed(state.config.seed);
  began(state.now);
  try {
    const promise = apply(fn, undefined, []);
    defineProperty(promise, 'constructor', hidden(undefined)); // what bodies make of Promise.prototype.constructor is not asked
    then(promise, returned, failWith);
  } catch (e) {
    failWith(e);
  }
}

// returned takes what the body's function returned. Asks that are open then were not awaited: they are waited for.
function returned(value) {
  if (state.ended) return;
  try {
    result = jsonOf(value, 'value', state.config.value * 16, false);
  } catch (e) {
    if (TooLarge.made(e)) failWith(new NewRangeError(`the value is more than 16 times as large as the ${state.config.value} bytes that a value may have: return less of it`), 'output_limit');
    else failWith(e);
    return;
  }
  state.returned = true;
  if (openAsks === 0) {
    end();
    return;
  }
  remark(`not awaited: ${openTitles()}. The body waits for it before it ends, but what it gave is lost: write await before it`);
}

function openTitles() {
  let out = '';
  let n = 0;
  const add = (a) => {
    if (a.timer !== null || ++n > 5) return;
    out += `${out === '' ? '' : ', '}tools.${a.op}(${cut(stringify(own(parse(a.args), 0)), 100)})`;
  };
  mapEach(asks, add);
  for (let a = firstQueued; a !== null; a = a.next) add(a);
  return n > 5 ? `${out} and ${n - 5} more` : out;
}

// awaitRest lets everything run that an answer has set going, to see whether more is asked for.
function awaitRest() {
  const id = ++lastAsk;
  mapSet(asks, id, { __proto__: null, op: 'end', timer: null });
  send('timer', id, '[0]');
}

function endIfIdle() {
  if (openAsks === 0) end();
}

function end() {
  if (state.ended) return;
  send('done', 0, result);
  state.ended = true;
}

// fail takes an exception that the host met itself, such as that the body's text is no JavaScript. text is the body's, if known.
function fail(exception, text) {
  if (typeof text === 'string') state.source = text;
  failWith(exception);
}

// unhandled takes the reason of a promise that was rejected and that nothing handled.
function unhandled(reason) {
  remark(`a promise was rejected and nothing handled it: ${headline(reason)}`);
}

install('__start', start);
install('__settle', settle);
install('__fail', fail);
install('__rejected', unhandled);
