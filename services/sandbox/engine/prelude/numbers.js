// Intl.NumberFormat for English.

const Intl = {};
defineProperty(Intl, toStringTag, { value: 'Intl', configurable: true });
install('Intl', Intl);

const languageTag = /^[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8})*$/;
const told = new Set();

// localeOf picks of the locales asked for the first that is here: English, and those in also. It says so when it has to take
// English of the USA instead, unless quiet.
function localeOf(locales, also = [], quiet = false) {
  const asked = locales === undefined ? [] : typeof locales === 'string' ? [locales] : Array.from(locales, (l) => `${l}`);
  for (const tag of asked) {
    if (!languageTag.test(tag)) throw new RangeError(`Incorrect locale information provided: ${cut(inspect(tag), 100)}`);
  }
  for (const tag of asked) {
    const name = tag.replace(/-u-.*$/, '');
    if (/^en(?:-|$)/i.test(name) || also.includes(name)) return name === 'en' ? 'en-US' : name;
  }
  if (asked.length === 0) return 'en-US';
  if (!quiet && !told.has(asked[0])) remark(`the locale ${cut(asked[0], 50)} is not available in a body: en-US was used`);
  if (!quiet) told.add(asked[0]);
  return 'en-US';
}

// choice reads an option that is one of some words.
function choice(options, name, words, otherwise) {
  const value = options[name];
  if (value === undefined) return otherwise;
  if (!words.includes(`${value}`)) throw new RangeError(`Value ${cut(inspect(value), 100)} out of range for Intl options property ${name}: it is one of ${words.join(', ')}`);
  return `${value}`;
}

// whole reads an option that is a whole number.
function whole(options, name, least, most, otherwise) {
  if (options[name] === undefined) return otherwise;
  const value = Number(options[name]);
  if (!(value >= least && value <= most)) throw new RangeError(`${name} value is out of range: it is ${least} to ${most}`);
  return Math.floor(value);
}

const currencySymbols = { USD: '$', EUR: '€', GBP: '£', JPY: '¥', INR: '₹', CNY: 'CN¥', KRW: '₩', BRL: 'R$', CAD: 'CA$', AUD: 'A$', MXN: 'MX$', NZD: 'NZ$', HKD: 'HK$', TWD: 'NT$', ILS: '₪', VND: '₫', PHP: '₱', XAF: 'FCFA', XOF: 'F\u202fCFA', XCD: 'EC$', XPF: 'CFPF' };
const narrowSymbols = { CNY: '¥', CAD: '$', AUD: '$', MXN: '$', NZD: '$', HKD: '$', TWD: '$', SEK: 'kr', NOK: 'kr', DKK: 'kr', ISK: 'kr', PLN: 'zł', CZK: 'Kč', HUF: 'Ft', TRY: '₺', UAH: '₴', RUB: '₽', NGN: '₦', THB: '฿', SGD: '$', CLP: '$', COP: '$', ARS: '$', ZAR: 'R', EGP: 'E£', IDR: 'Rp', MYR: 'RM' };
const currencyNames = { USD: ['US dollar', 'US dollars'], EUR: ['euro', 'euros'], GBP: ['British pound', 'British pounds'], JPY: ['Japanese yen', 'Japanese yen'], INR: ['Indian rupee', 'Indian rupees'], CNY: ['Chinese yuan', 'Chinese yuan'], CAD: ['Canadian dollar', 'Canadian dollars'], AUD: ['Australian dollar', 'Australian dollars'], CHF: ['Swiss franc', 'Swiss francs'], MXN: ['Mexican peso', 'Mexican pesos'], BRL: ['Brazilian real', 'Brazilian reals'], SEK: ['Swedish krona', 'Swedish kronor'] };
const currencyDigits = { JPY: 0, KRW: 0, VND: 0, CLP: 0, ISK: 0, PYG: 0, UGX: 0, XAF: 0, XOF: 0, XPF: 0, BHD: 3, IQD: 0, JOD: 3, KWD: 3, LYD: 3, OMR: 3, TND: 3 };
const homeCurrency = { 'en-CA': 'CAD', 'en-AU': 'AUD', 'en-NZ': 'NZD', 'en-US': 'USD', 'en-HK': 'HKD' };

// Units: short, short for many, long, long for many, narrow. A narrow one and those marked stand without a space.
const units = {
  byte: ['byte', 'byte', 'byte', 'bytes', 'B'], kilobyte: ['kB', 'kB', 'kilobyte', 'kilobytes', 'kB'], megabyte: ['MB', 'MB', 'megabyte', 'megabytes', 'MB'], gigabyte: ['GB', 'GB', 'gigabyte', 'gigabytes', 'GB'], terabyte: ['TB', 'TB', 'terabyte', 'terabytes', 'TB'], petabyte: ['PB', 'PB', 'petabyte', 'petabytes', 'PB'], bit: ['bit', 'bit', 'bit', 'bits', 'bit'],
  millisecond: ['ms', 'ms', 'millisecond', 'milliseconds', 'ms'], second: ['sec', 'sec', 'second', 'seconds', 's'], minute: ['min', 'min', 'minute', 'minutes', 'm'], hour: ['hr', 'hr', 'hour', 'hours', 'h'], day: ['day', 'days', 'day', 'days', 'd'], week: ['wk', 'wks', 'week', 'weeks', 'w'], month: ['mth', 'mths', 'month', 'months', 'm'], year: ['yr', 'yrs', 'year', 'years', 'y'],
  millimeter: ['mm', 'mm', 'millimeter', 'millimeters', 'mm'], centimeter: ['cm', 'cm', 'centimeter', 'centimeters', 'cm'], meter: ['m', 'm', 'meter', 'meters', 'm'], kilometer: ['km', 'km', 'kilometer', 'kilometers', 'km'], inch: ['in', 'in', 'inch', 'inches', '″'], foot: ['ft', 'ft', 'foot', 'feet', '′'], yard: ['yd', 'yd', 'yard', 'yards', 'yd'], mile: ['mi', 'mi', 'mile', 'miles', 'mi'],
  gram: ['g', 'g', 'gram', 'grams', 'g'], kilogram: ['kg', 'kg', 'kilogram', 'kilograms', 'kg'], ounce: ['oz', 'oz', 'ounce', 'ounces', 'oz'], pound: ['lb', 'lb', 'pound', 'pounds', '#'], milliliter: ['mL', 'mL', 'milliliter', 'milliliters', 'mL'], liter: ['L', 'L', 'liter', 'liters', 'L'], gallon: ['gal', 'gal', 'gallon', 'gallons', 'gal'],
  percent: ['%', '%', 'percent', 'percent', '%'], degree: ['deg', 'deg', 'degree', 'degrees', '°'], celsius: ['°C', '°C', 'degree Celsius', 'degrees Celsius', '°C'], fahrenheit: ['°F', '°F', 'degree Fahrenheit', 'degrees Fahrenheit', '°'],
  'kilometer-per-hour': ['km/h', 'km/h', 'kilometer per hour', 'kilometers per hour', 'km/h'], 'mile-per-hour': ['mph', 'mph', 'mile per hour', 'miles per hour', 'mph'], 'meter-per-second': ['m/s', 'm/s', 'meter per second', 'meters per second', 'm/s'],
};
const tight = ['percent', 'celsius', 'fahrenheit'];

const compactNames = { short: ['', 'K', 'M', 'B', 'T'], long: ['', ' thousand', ' million', ' billion', ' trillion'] };
const roundingModes = ['ceil', 'floor', 'expand', 'trunc', 'halfCeil', 'halfFloor', 'halfExpand', 'halfTrunc', 'halfEven'];

function numberOptions(given) {
  const options = Object(given ?? {});
  const o = {
    style: choice(options, 'style', ['decimal', 'percent', 'currency', 'unit'], 'decimal'),
    notation: choice(options, 'notation', ['standard', 'compact', 'scientific', 'engineering'], 'standard'),
    compactDisplay: choice(options, 'compactDisplay', ['short', 'long'], 'short'),
    signDisplay: choice(options, 'signDisplay', ['auto', 'never', 'always', 'exceptZero', 'negative'], 'auto'),
    roundingMode: choice(options, 'roundingMode', roundingModes, 'halfExpand'),
  };
  if (options.currency !== undefined && !/^[A-Za-z]{3}$/.test(options.currency)) throw new RangeError(`Invalid currency code : ${cut(inspect(options.currency), 50)}`);
  if (o.style === 'currency') {
    if (options.currency === undefined) throw new TypeError('Currency code is required with currency style.');
    o.currency = `${options.currency}`.toUpperCase();
    o.currencyDisplay = choice(options, 'currencyDisplay', ['symbol', 'narrowSymbol', 'code', 'name'], 'symbol');
    o.currencySign = choice(options, 'currencySign', ['standard', 'accounting'], 'standard');
  }
  if (o.style === 'unit') {
    if (options.unit === undefined) throw new TypeError('Unit is required with unit style.');
    if (!Object.hasOwn(units, options.unit)) throw new RangeError(`Value ${cut(inspect(options.unit), 50)} out of range for Intl options property unit: in a body it is one of ${keys(units).join(', ')}`);
    o.unit = options.unit;
    o.unitDisplay = choice(options, 'unitDisplay', ['short', 'narrow', 'long'], 'short');
  }
  const g = options.useGrouping;
  o.useGrouping = g === undefined ? (o.notation === 'compact' ? 'min2' : 'auto') : g === true || g === 'true' ? 'always' : g === false || g === 'false' ? false : `${g}`;
  digitOptions(options, o);
  return o;
}

function digitOptions(options, o) {
  o.minimumIntegerDigits = whole(options, 'minimumIntegerDigits', 1, 21, 1);
  const money = o.style === 'currency' && o.notation === 'standard' ? (currencyDigits[o.currency] ?? 2) : undefined;
  if (options.minimumSignificantDigits !== undefined || options.maximumSignificantDigits !== undefined) {
    o.minimumSignificantDigits = whole(options, 'minimumSignificantDigits', 1, 21, 1);
    o.maximumSignificantDigits = whole(options, 'maximumSignificantDigits', o.minimumSignificantDigits, 21, 21);
    return;
  }
  if (o.notation === 'compact' && options.minimumFractionDigits === undefined && options.maximumFractionDigits === undefined) {
    o.compactRounding = true;
    return;
  }
  const leastUsual = money ?? 0;
  const mostUsual = money ?? (o.style === 'percent' || o.notation === 'compact' ? 0 : 3);
  let least = whole(options, 'minimumFractionDigits', 0, 100, undefined);
  let most = whole(options, 'maximumFractionDigits', 0, 100, undefined);
  if (least === undefined) least = Math.min(leastUsual, most ?? leastUsual);
  else if (most === undefined) most = Math.max(mostUsual, least);
  most ??= mostUsual;
  if (least > most) throw new RangeError('maximumFractionDigits value is out of range.');
  o.minimumFractionDigits = least;
  o.maximumFractionDigits = most;
}

function digitsBy(o, d, negative) {
  if (o.maximumSignificantDigits !== undefined) return bySignificant(d, o.minimumSignificantDigits, o.maximumSignificantDigits, o.roundingMode, negative);
  if (o.compactRounding) return d.point >= 2 ? byFraction(d, 0, 0, o.roundingMode, negative) : bySignificant(d, 1, 2, o.roundingMode, negative);
  return byFraction(d, o.minimumFractionDigits, o.maximumFractionDigits, o.roundingMode, negative);
}

// scaled gives [whole, fraction, exponent]: in compact and scientific notation the exponent is told, and rounding may raise it.
function scaled(o, d, negative) {
  if (o.notation === 'standard') return [...digitsBy(o, d, negative), 0];
  const step = o.notation === 'scientific' ? 1 : 3;
  const most = o.notation === 'compact' ? 12 : Infinity;
  const exponentOf = (x) => (x.digits === '' ? 0 : Math.min(most, Math.floor((x.point - 1) / step) * step));
  let e = exponentOf(d);
  if (o.notation === 'compact') e = Math.max(0, e);
  for (;;) {
    const [w, f] = digitsBy(o, { digits: d.digits, point: d.digits === '' ? 0 : d.point - e }, negative);
    if (w.length <= step || e >= most) return [w, f, e];
    e += step;
  }
}

// numberParts gives the parts of value as formatToParts does.
function numberParts(locale, o, value) {
  if (typeof value !== 'bigint') value = Number(value);
  let negative = value < 0 || Object.is(value, -0);
  const parts = [];
  let zero = false;
  let one = false;
  if (Number.isNaN(value)) {
    parts.push(['nan', 'NaN']);
    negative = false;
  } else if (value === Infinity || value === -Infinity) parts.push(['infinity', '∞']);
  else {
    const d = decimalOf(value);
    if (o.style === 'percent' && d.digits !== '') d.point += 2;
    let [w, f, e] = scaled(o, d, negative);
    zero = !/[1-9]/.test(w + f);
    one = w === '1' && f === '' && e === 0;
    w = w.padStart(o.minimumIntegerDigits, '0');
    const least = o.useGrouping === 'min2' ? 5 : 4;
    if (o.useGrouping === false || w.length < least) parts.push(['integer', w]);
    else grouped(w).split(',').forEach((g, i) => parts.push(...(i > 0 ? [['group', ',']] : []), ['integer', g]));
    if (f !== '') parts.push(['decimal', '.'], ['fraction', f]);
    addExponent(o, e, parts);
  }
  return signed(o, affixed(locale, o, parts, one), negative, zero);
}

function addExponent(o, e, parts) {
  if (o.notation === 'compact') {
    const name = compactNames[o.compactDisplay][e / 3];
    if (name.startsWith(' ')) parts.push(['literal', ' ']);
    if (name !== '') parts.push(['compact', name.trim()]);
  } else if (o.notation !== 'standard') {
    parts.push(['exponentSeparator', 'E']);
    if (e < 0) parts.push(['exponentMinusSign', '-']);
    parts.push(['exponentInteger', `${Math.abs(e)}`]);
  }
}

function affixed(locale, o, parts, one) {
  if (o.style === 'percent') return [...parts, ['percentSign', '%']];
  if (o.style === 'currency') {
    if (o.currencyDisplay === 'name') return [...parts, ['literal', ' '], ['currency', (currencyNames[o.currency] ?? [o.currency, o.currency])[one ? 0 : 1]]];
    const symbol = symbolFor(locale, o);
    return /[A-Za-z]$/.test(symbol) ? [['currency', symbol], ['literal', '\u00a0'], ...parts] : [['currency', symbol], ...parts];
  }
  if (o.style !== 'unit') return parts;
  const [short, shortMany, long, longMany, narrow] = units[o.unit];
  const name = o.unitDisplay === 'narrow' ? narrow : o.unitDisplay === 'long' ? (one ? long : longMany) : one ? short : shortMany;
  const space = o.unitDisplay === 'long' || (o.unitDisplay === 'short' && !tight.includes(o.unit));
  return [...parts, ...(space ? [['literal', ' ']] : []), ['unit', name]];
}

function symbolFor(locale, o) {
  if (o.currencyDisplay === 'code') return o.currency;
  if (o.currencyDisplay === 'narrowSymbol') return narrowSymbols[o.currency] ?? currencySymbols[o.currency] ?? o.currency;
  if (homeCurrency[locale] === o.currency) return '$';
  if (o.currency === 'USD') return locale in homeCurrency || locale === 'en-GB' ? 'US$' : '$';
  return currencySymbols[o.currency] ?? o.currency;
}

function signed(o, parts, negative, zero) {
  const shownSign = { auto: negative ? '-' : '', never: '', always: negative ? '-' : '+', exceptZero: zero ? '' : negative ? '-' : '+', negative: negative && !zero ? '-' : '' }[o.signDisplay];
  if (shownSign === '-' && o.currencySign === 'accounting') return [['literal', '('], ...parts, ['literal', ')']];
  if (shownSign === '') return parts;
  return [[shownSign === '-' ? 'minusSign' : 'plusSign', shownSign], ...parts];
}

const joined = (parts) => parts.map((p) => p[1]).join('');
const asObjects = (parts) => parts.map(([type, value]) => ({ type, value }));
const supported = (locales) => (typeof locales === 'string' ? [locales] : [...(locales ?? [])]).filter((l) => /^en(?:-|$)/i.test(l));

// newless lets a class be called without new, as some of Intl's may.
function newless(constructor) {
  return new Proxy(constructor, { apply: (target, _, args) => new target(...args) });
}

class NumberFormat {
  #locale;
  #options;
  #bound;

  constructor(locales, options) {
    this.#locale = localeOf(locales);
    this.#options = numberOptions(options);
  }

  get format() {
    return (this.#bound ??= (value) => joined(numberParts(this.#locale, this.#options, value)));
  }

  formatToParts(value) {
    return asObjects(numberParts(this.#locale, this.#options, value));
  }

  formatRange(from, to) {
    const [a, b] = [this.format(from), this.format(to)];
    return a === b ? `~${a}` : `${a}–${b}`;
  }

  resolvedOptions() {
    return { locale: this.#locale, numberingSystem: 'latn', ...this.#options };
  }

  static supportedLocalesOf(locales) {
    return supported(locales);
  }

  get [toStringTag]() {
    return 'Intl.NumberFormat';
  }
}
defineProperty(Intl, 'NumberFormat', hidden(newless(NumberFormat)));

const formatNumber = (value, locales, options) => joined(numberParts(localeOf(locales), numberOptions(options), value));
const toNumber = Number.prototype.valueOf;
const toBigInt = BigInt.prototype.valueOf;
defineProperty(Number.prototype, 'toLocaleString', hidden({ toLocaleString(locales, options) {
  return formatNumber(toNumber.call(this), locales, options);
} }.toLocaleString));
defineProperty(BigInt.prototype, 'toLocaleString', hidden({ toLocaleString(locales, options) {
  return formatNumber(toBigInt.call(this), locales, options);
} }.toLocaleString));
