// tools.search, tools.describe and tools.call: asks that the host answers, in any order.

const asks = new Map(); // what waits for an answer, by its number
const limits = new NewWeakSet(); // errors that tell of the bridge's limit
const mostRefused = 10_000; // asks over the limit after which a body has no sense
let asked = 0;
let refused = 0;
let openAsks = 0;
let firstQueued = null; // asks that wait for another to be answered
let lastQueued = null;

// ask sends args, which is a JSON array, or queues it, and gives a promise for the answer.
function ask(op, args) {
  if (state.config === null) return new NewPromise(() => {}); // text outside of the body's function asks for nothing
  if (asked >= state.config.calls) return refuse();
  asked++;
  const a = { __proto__: null, op, args, timer: null, resolve: null, reject: null, at: stackHere(), next: null };
  const promise = new NewPromise((resolve, reject) => {
    a.resolve = resolve;
    a.reject = reject;
  });
  if (openAsks < state.config.concurrent) {
    sendAsk(a);
    return promise;
  }
  if (lastQueued === null) firstQueued = a;
  else lastQueued.next = a;
  lastQueued = a;
  return promise;
}

function sendAsk(a) {
  openAsks++;
  const id = ++lastAsk;
  mapSet(asks, id, a);
  send(a.op, id, a.args);
}

const { captureStackTrace } = NewError;

// stackHere gives the stack of who asks.
function stackHere() {
  try {
    const here = { __proto__: null };
    captureStackTrace(here);
    return own(here, 'stack');
  } catch {
    return '';
  }
}

// limitError gives the error for what is beyond the bridge's limits: a body that it ends has the code bridge_limit.
function limitError(message) {
  const error = new NewError(message);
  defineProperty(error, 'code', data('bridge_limit'));
  weakAdd(limits, error);
  return error;
}

// refuse is what happens to an ask beyond the limit.
function refuse() {
  const most = state.config.calls;
  const error = limitError(`more than ${most} calls of tools.search, tools.describe and tools.call in one body: return what there is so far and go on in another body`);
  if (++refused >= mostRefused) failWith(error);
  return rejected(error);
}

const rejected = (error) => new NewPromise((_, reject) => reject(error));

// settle takes the host's answer to an ask.
function settle(id, ok, payload, now) {
  if (now > state.now) state.now = now;
  const a = mapGet(asks, id);
  if (a === undefined || state.ended) return;
  mapDelete(asks, id);
  if (a.timer !== null) {
    timerAnswered(a.timer);
    return;
  }
  if (a.op === 'end') {
    endIfIdle();
    return;
  }
  openAsks--;
  if (firstQueued !== null) {
    const next = firstQueued;
    firstQueued = next.next;
    if (firstQueued === null) lastQueued = null;
    sendAsk(next);
  }
  if (state.returned && openAsks === 0) awaitRest();
  if (!ok) {
    a.reject(thrownOf(payload, a.at)); // the last step: what the body has made of promises may run here
    return;
  }
  const value = payload === '' ? undefined : parse(payload);
  a.resolve(a.op === 'search' ? found(value) : value);
}

const errorClasses = new Map([
  ['TypeError', NewTypeError],
  ['RangeError', NewRangeError],
  ['SyntaxError', SyntaxError],
]);

// thrownOf makes the error that an ask failed with. It is thrown where the ask was made.
function thrownOf(payload, at) {
  const { name, message, props } = { __proto__: null, ...parse(payload) };
  const error = new (mapGet(errorClasses, name) ?? NewError)(message);
  if (typeof name === 'string' && name !== '' && name !== 'Error' && !mapHas(errorClasses, name)) defineProperty(error, 'name', hidden(name));
  defineProperty(error, 'stack', hidden(framesOf(at)));
  if (typeof props === 'object' && props !== null) {
    const names = keys(props);
    for (let i = 0; i < names.length; i++) {
      if (names[i] !== 'stack' && names[i] !== 'message') defineProperty(error, names[i], data(props[names[i]]));
    }
  }
  return error;
}

// found makes of {hits, …rest} an array of hits that has the rest as properties, and of {results} the same for each.
function found(answer) {
  if (typeof answer !== 'object' || answer === null) return answer;
  const results = own(answer, 'results');
  const hits = own(answer, 'hits');
  if (isArray(results)) {
    for (let i = 0; i < results.length; i++) defineProperty(results, i, data(found(results[i])));
    return answer;
  }
  if (!isArray(hits)) return answer;
  const names = keys(answer);
  for (let i = 0; i < names.length; i++) {
    if (names[i] !== 'hits' && names[i] !== 'length') defineProperty(hits, names[i], hidden(answer[names[i]]));
  }
  return hits;
}

const mostArgs = 1 << 20; // units of UTF-16 of an argument's JSON

// argument gives an argument as JSON.
function argument(value, what) {
  try {
    return jsonOf(value, what, mostArgs, true) || 'null';
  } catch (e) {
    if (TooLarge.made(e)) throw new NewRangeError(`${what} is too large to be given to a tool`);
    throw e;
  }
}

// asking makes a function of tools. prepare gives what to send, a JSON array; what is wrong rejects the promise.
function asking(op, prepare) {
  return (...args) => {
    try {
      return ask(op, prepare(args));
    } catch (e) {
      return rejected(e);
    }
  };
}

// idOf gives a tool's id: a hit or an entry stands for its own.
function idOf(value, op) {
  const id = typeof value === 'object' && value !== null && !isArray(value) ? value.id : value;
  if (typeof id === 'string') return id;
  throw new NewTypeError(`tools.${op} wants the id of a tool as text, or what tools.search found, not ${cut(inspect(value), 200)}`);
}

const isOptions = (value) => typeof value === 'object' && value !== null && !isArray(value);

const search = asking('search', (args) => {
  let query = args[0];
  let options = args[1];
  if (isOptions(query)) {
    options = query;
    query = options.queries ?? options.query;
  } else if (typeof options === 'number') {
    options = args.length === 2 ? { __proto__: null, limit: options } : undefined; // array.map gives an index and the array
  }
  if (typeof query !== 'string' && !isArray(query)) {
    throw new NewTypeError(`tools.search wants words that say what is needed, as in tools.search("create a calendar event"), not ${cut(inspect(args[0]), 200)}`);
  }
  const limit = isOptions(options) ? options.limit : undefined;
  const json = argument(query, 'query');
  return limit === undefined ? `[${json}]` : `[${json},{"limit":${argument(limit, 'limit')}}]`;
});

const describe = asking('describe', (args) => {
  return `[${quote(idOf(args[0], 'describe'))}]`;
});

const call = asking('call', (args) => {
  const id = quote(idOf(args[0], 'call'));
  let input = args[1];
  const options = args[2];
  if (input === undefined && isOptions(args[0])) input = args[0].args; // call({id, args})
  const json = input === undefined || input === null ? '{}' : argument(input, 'args');
  const outcome = isOptions(options) && options.outcome === true;
  return outcome ? `[${id},${json},{"outcome":true}]` : `[${id},${json}]`;
});

const tools = freeze({ search, describe, call });
for (const name of ownKeys(tools)) defineProperty(tools[name], 'name', { value: name });
install('tools', tools);
install('openclaw', freeze({ tools }));
