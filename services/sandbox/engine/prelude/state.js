// What the running body's part of the prelude knows. There is one body to a snapshot's clone.
const state = {
  __proto__: null,
  config: null, // as the host gave it to __start; null until then
  source: '', // the text of the body with its wrapper
  now: 0, // what the clock shows, in milliseconds since 1970
  returned: false, // the body's function returned
  ended: false, // the body's ending was sent; nothing is after that
};

// send is the only way out. Whatever a body does to the language, its ending is sent once and nothing but remarks after it.
function send(op, id, payload) {
  if (!state.ended) host(op, id, payload);
}

// remark writes a line to the log that the body did not ask for.
function remark(line) {
  host('log', 0, `{"level":"warn","text":${quote(line)}}`);
}

// quote gives a string as JSON.
function quote(string) {
  return stringify(toWellFormed(string));
}

// cut shortens a text that is longer than most units of UTF-16.
function cut(string, most) {
  const length = string.length;
  return length > most ? `${slice(string, 0, most)}… (${length - most} more)` : string;
}

// lines calls each with each line of a text and its number from 1, until it gives true.
function lines(string, each) {
  for (let from = 0, n = 1; from <= string.length; n++) {
    let to = indexOf(string, '\n', from);
    if (to < 0) to = string.length;
    if (each(slice(string, from, to), n)) return;
    from = to + 1;
  }
}

// replaceAll puts b wherever a is.
function replaceAll(string, a, b) {
  let out = '';
  let from = 0;
  for (;;) {
    const at = indexOf(string, a, from);
    if (at < 0) return out + slice(string, from);
    out += slice(string, from, at) + b;
    from = at + a.length;
  }
}
