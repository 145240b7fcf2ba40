// Intl.PluralRules, ListFormat and RelativeTimeFormat for English.

class PluralRules {
  #locale;
  #ordinal;
  #digits;

  constructor(locales, options) {
    this.#locale = localeOf(locales);
    const o = Object(options ?? {});
    this.#ordinal = choice(o, 'type', ['cardinal', 'ordinal'], 'cardinal') === 'ordinal';
    this.#digits = numberOptions(o);
  }

  select(value) {
    const shownNumber = joined(numberParts(this.#locale, { ...this.#digits, useGrouping: false }, Number(value)));
    if (!this.#ordinal) return shownNumber === '1' || shownNumber === '-1' ? 'one' : 'other';
    const n = Math.abs(Number(value));
    if (n % 100 >= 11 && n % 100 <= 13) return 'other';
    return { 1: 'one', 2: 'two', 3: 'few' }[n % 10] ?? 'other';
  }

  resolvedOptions() {
    const type = this.#ordinal ? 'ordinal' : 'cardinal';
    return { locale: this.#locale, type, pluralCategories: this.#ordinal ? ['few', 'one', 'two', 'other'] : ['one', 'other'] };
  }

  static supportedLocalesOf(locales) {
    return supported(locales);
  }

  get [toStringTag]() {
    return 'Intl.PluralRules';
  }
}

class ListFormat {
  #locale;
  #type;
  #style;

  constructor(locales, options) {
    this.#locale = localeOf(locales);
    const o = Object(options ?? {});
    this.#type = choice(o, 'type', ['conjunction', 'disjunction', 'unit'], 'conjunction');
    this.#style = choice(o, 'style', ['long', 'short', 'narrow'], 'long');
  }

  #parts(list) {
    const items = Array.from(list);
    const odd = items.find((item) => typeof item !== 'string');
    if (odd !== undefined) throw new TypeError(`Iterable yielded ${cut(inspect(odd), 100)} which is not a string`);
    const word = this.#type === 'disjunction' ? 'or' : this.#type === 'unit' ? '' : this.#style === 'long' ? 'and' : this.#style === 'short' ? '&' : '';
    const comma = this.#type === 'unit' && this.#style === 'narrow' ? ' ' : ', ';
    return items.flatMap((item, i) => {
      if (i === 0) return [['element', item]];
      const last = i === items.length - 1 && word !== '';
      const separator = !last ? comma : items.length === 2 ? ` ${word} ` : `, ${word} `;
      return [['literal', separator], ['element', item]];
    });
  }

  format(list) {
    return joined(this.#parts(list));
  }

  formatToParts(list) {
    return asObjects(this.#parts(list));
  }

  resolvedOptions() {
    return { locale: this.#locale, type: this.#type, style: this.#style };
  }

  static supportedLocalesOf(locales) {
    return supported(locales);
  }

  get [toStringTag]() {
    return 'Intl.ListFormat';
  }
}

const spans = ['second', 'minute', 'hour', 'day', 'week', 'month', 'quarter', 'year'];
const shortSpans = { second: 'sec.', minute: 'min.', hour: 'hr.', week: 'wk.', month: 'mo.', quarter: 'qtr.', year: 'yr.' };
const narrowSpans = { second: 's', minute: 'm', hour: 'h', day: 'd', week: 'w', month: 'mo', quarter: 'q', year: 'y' };
const nearDays = { '-1': 'yesterday', 0: 'today', 1: 'tomorrow' };

class RelativeTimeFormat {
  #locale;
  #style;
  #auto;

  constructor(locales, options) {
    this.#locale = localeOf(locales);
    const o = Object(options ?? {});
    this.#style = choice(o, 'style', ['long', 'short', 'narrow'], 'long');
    this.#auto = choice(o, 'numeric', ['always', 'auto'], 'always') === 'auto';
  }

  format(value, unit) {
    const n = Number(value);
    if (!Number.isFinite(n)) throw new RangeError('Invalid time value');
    const span = `${unit}`.replace(/s$/, '');
    if (!spans.includes(span)) throw new RangeError(`Invalid unit argument for format() '${cut(`${unit}`, 50)}'`);
    const past = n < 0 || Object.is(n, -0);
    if (this.#auto) {
      const near = this.#near(n, span);
      if (near !== undefined) return near;
    }
    const one = Math.abs(n) === 1;
    const amount = formatNumber(Math.abs(n), 'en-US');
    if (this.#style === 'narrow') return past ? `${amount}${narrowSpans[span]} ago` : `in ${amount}${narrowSpans[span]}`;
    const long = one ? span : `${span}s`;
    const name = this.#style === 'long' ? long : span === 'quarter' && !one ? 'qtrs.' : (shortSpans[span] ?? long);
    return past ? `${amount} ${name} ago` : `in ${amount} ${name}`;
  }

  #near(n, span) {
    if (span === 'second') return n === 0 ? 'now' : undefined;
    if (span === 'day') return nearDays[n];
    const word = this.#style === 'long' ? span : (shortSpans[span] ?? span);
    if (n === 0) return `this ${span === 'minute' || span === 'hour' ? span : word}`;
    if (span === 'minute' || span === 'hour') return undefined;
    return n === 1 ? `next ${word}` : n === -1 ? `last ${word}` : undefined;
  }

  formatToParts(value, unit) {
    return [{ type: 'literal', value: this.format(value, unit) }];
  }

  resolvedOptions() {
    return { locale: this.#locale, style: this.#style, numeric: this.#auto ? 'auto' : 'always', numberingSystem: 'latn' };
  }

  static supportedLocalesOf(locales) {
    return supported(locales);
  }

  get [toStringTag]() {
    return 'Intl.RelativeTimeFormat';
  }
}

for (const constructor of [PluralRules, ListFormat, RelativeTimeFormat]) defineProperty(Intl, constructor.name, hidden(constructor));
defineProperty(Intl, 'getCanonicalLocales', hidden((locales) => (locales === undefined ? [] : typeof locales === 'string' ? [locales] : [...locales])));
defineProperty(Intl, 'supportedValuesOf', hidden((key) => {
  if (key === 'timeZone') return keys(zoneRules).flatMap((rule) => zoneRules[rule].split(' ')).sort();
  if (key === 'currency') return keys({ ...currencySymbols, ...narrowSymbols, ...currencyNames }).sort();
  if (key === 'unit') return keys(units).sort();
  return [];
}));
