// setTimeout and its kin. The host is asked once for each timer; whichever of them it answers, the timer that is due first
// goes off, one for each answer, so that promises settle between two of them.

const mostTimers = 999; // that may be open at once, cleared ones included
let openTimers = 0;
let firstTimer = null; // a list in the order of due, then of their making
const cleared = { __proto__: null };

// ask gives the next number of an ask.
let lastAsk = 0;

function startTimer(callback, ms, args, every) {
  if (typeof callback !== 'function') throw new NewTypeError(`the first argument of ${every ? 'setInterval' : 'setTimeout'} is ${inspect(callback)}, not a function`);
  ms = typeof ms === 'number' || typeof ms === 'string' ? trunc(+ms) : 1;
  if (!(ms >= 1 && ms <= 2147483647)) ms = 1;
  const timer = { __proto__: null, id: lastAsk + 1, due: 0, ms, every, callback, args, live: true, next: null };
  arm(timer);
  return timer.id;
}

// arm asks the host and puts the timer into the list.
function arm(timer) {
  if (openTimers >= mostTimers) throw limitError(`more than ${mostTimers} timers are open at once`);
  openTimers++;
  timer.due = state.now + timer.ms;
  const ask = ++lastAsk;
  mapSet(asks, ask, { __proto__: null, timer });
  if (firstTimer === null || firstTimer.due > timer.due) {
    timer.next = firstTimer;
    firstTimer = timer;
  } else {
    let t = firstTimer;
    while (t.next !== null && t.next.due <= timer.due) t = t.next;
    timer.next = t.next;
    t.next = timer;
  }
  send('timer', ask, `[${timer.ms}]`);
}

function clearTimer(id) {
  if (typeof id !== 'number') return;
  let before = null;
  for (let t = firstTimer; t !== null; before = t, t = t.next) {
    if (t.id !== id) continue;
    t.live = false;
    if (before === null) firstTimer = t.next;
    else before.next = t.next;
    return;
  }
  if (ringing !== null && ringing.id === id) ringing.live = false;
}

let ringing = null; // the interval whose callback runs

// timerAnswered lets the timer go off that is due first.
function timerAnswered(answered) {
  openTimers--;
  const t = firstTimer;
  if (t === null || t.due > max(state.now, answered.live ? answered.due : 0)) return;
  firstTimer = t.next;
  t.next = null;
  ringing = t;
  try {
    apply(t.callback, undefined, t.args);
    if (t.every && t.live && !state.ended) arm(t);
  } catch (e) {
    uncaught(e, 'a timer');
  }
  ringing = null;
}

// uncaught ends the body for an error that nothing in it can catch, unless the body has returned already.
function uncaught(e, where) {
  if (state.returned) remark(`${where} threw after the body had returned: ${headline(e)}`);
  else failWith(e);
}

const tick = queueMicrotask;

const timerFunctions = {
  setTimeout: (callback, ms, ...args) => startTimer(callback, ms, args, false),
  setInterval: (callback, ms, ...args) => startTimer(callback, ms, args, true),
  clearTimeout: (id) => clearTimer(id),
  clearInterval: (id) => clearTimer(id),
  queueMicrotask(callback) {
    if (typeof callback !== 'function') throw new NewTypeError(`the argument of queueMicrotask is ${inspect(callback)}, not a function`);
    tick(() => {
      try {
        callback();
      } catch (e) {
        uncaught(e, 'a microtask');
      }
    });
  },
};
for (const name of ownKeys(timerFunctions)) install(name, timerFunctions[name]);
