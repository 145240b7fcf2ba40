// Intl.Collator and localeCompare: an order as people expect it, near to that of the root of Unicode's collation: spaces,
// punctuation, symbols, digits, letters; letters by their base, then by their accents, then small before capital.

const marks = '_-,;:!?.\'"()[]{}@*/\\&#%`^+<=>|~$';
const letters = { ß: 'ss', æ: 'ae', œ: 'oe', ø: 'o', đ: 'd', ð: 'd', ł: 'l', þ: 'th', ı: 'i' };

// weightOf gives the place of a character without accents and case.
function weightOf(c) {
  const at = marks.indexOf(c);
  if (at >= 0) return 100 + at;
  if (/\s/.test(c)) return c === ' ' ? 50 : 49;
  if (/\p{N}/u.test(c)) return 1000 + c.codePointAt(0);
  if (/\p{L}/u.test(c)) return 200_000 + c.codePointAt(0);
  return 500 + (c.codePointAt(0) % 400); // other punctuation and symbols
}

// keyOf gives what of a text counts for its order, from the most to the least weighty.
function keyOf(string, numeric) {
  const base = [];
  const accents = [];
  const cases = [];
  const parts = numeric ? string.split(/(\d+)/) : [string];
  parts.forEach((part, i) => {
    if (i % 2 === 1) {
      const digits = part.replace(/^0+(?=.)/, '');
      base.push(1000 + 48 + digits.length, ...[...digits].map((d) => 1000 + d.codePointAt(0)));
      return;
    }
    for (const c of part.normalize('NFD')) {
      if (/\p{M}/u.test(c)) {
        accents.push(base.length * 0x10000 + c.codePointAt(0));
        continue;
      }
      const small = c.toLowerCase();
      const plain = letters[small];
      if (plain !== undefined) accents.push(base.length * 0x10000 + 1);
      for (const l of plain ?? small) base.push(weightOf(l));
      cases.push(small === c ? 0 : 1);
    }
  });
  return { base, accents, cases };
}

function compareLists(a, b) {
  const n = Math.min(a.length, b.length);
  for (let i = 0; i < n; i++) {
    if (a[i] !== b[i]) return a[i] < b[i] ? -1 : 1;
  }
  return Math.sign(a.length - b.length);
}

const simple = /^[a-z0-9 ]*$/; // what is ordered as its code units are
const simpleNumeric = /^[a-z ]*$/;

// Keys are kept for the next comparison, since sorting compares each text with many.
const keptKeys = new Map();

function keptKey(string, numeric) {
  const name = `${numeric ? 'n' : ' '}${string}`;
  let key = keptKeys.get(name);
  if (key !== undefined) return key;
  if (keptKeys.size >= 4000) keptKeys.clear();
  key = keyOf(string, numeric);
  if (string.length <= 200) keptKeys.set(name, key);
  return key;
}

function collate(a, b, o) {
  if (a === b) return 0;
  const plain = o.numeric ? simpleNumeric : simple;
  if (plain.test(a) && plain.test(b)) return a < b ? -1 : 1;
  if (o.ignorePunctuation) [a, b] = [a, b].map((s) => s.replace(/[\p{P}\s]/gu, ''));
  const [x, y] = [keptKey(a, o.numeric), keptKey(b, o.numeric)];
  const byBase = compareLists(x.base, y.base);
  if (byBase !== 0 || o.sensitivity === 'base') return byBase;
  if (o.sensitivity !== 'case') {
    const byAccents = compareLists(x.accents, y.accents);
    if (byAccents !== 0 || o.sensitivity === 'accent') return byAccents;
  }
  const byCase = compareLists(x.cases, y.cases);
  return o.caseFirst === 'upper' ? -byCase || 0 : byCase;
}

function collateOptions(locales, options) {
  const o = Object(options ?? {});
  return {
    locale: localeOf(locales, undefined, true), // most languages have this order
    usage: choice(o, 'usage', ['sort', 'search'], 'sort'),
    sensitivity: choice(o, 'sensitivity', ['base', 'accent', 'case', 'variant'], 'variant'),
    ignorePunctuation: Boolean(o.ignorePunctuation),
    numeric: Boolean(o.numeric ?? /-u-(?:.*-)?kn(?:-true)?(?:-|$)/.test(`${locales}`)),
    caseFirst: choice(o, 'caseFirst', ['upper', 'lower', 'false'], 'false'),
    collation: 'default',
  };
}

class Collator {
  #options;
  #bound;

  constructor(locales, options) {
    this.#options = collateOptions(locales, options);
  }

  get compare() {
    return (this.#bound ??= (a, b) => collate(`${a}`, `${b}`, this.#options));
  }

  resolvedOptions() {
    return { ...this.#options };
  }

  static supportedLocalesOf(locales) {
    return supported(locales);
  }

  get [toStringTag]() {
    return 'Intl.Collator';
  }
}
defineProperty(Intl, 'Collator', hidden(newless(Collator)));

const usualOrder = collateOptions(undefined, undefined);
defineProperty(String.prototype, 'localeCompare', hidden({ localeCompare(that, locales, options) {
  if (this === undefined || this === null) throw new TypeError('String.prototype.localeCompare called on null or undefined');
  const o = locales === undefined && options === undefined ? usualOrder : collateOptions(locales, options);
  return collate(`${this}`, `${that}`, o);
} }.localeCompare));
