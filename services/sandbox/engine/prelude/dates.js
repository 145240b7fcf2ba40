// Intl.DateTimeFormat for English and, where models use it to write ISO dates, Swedish; Date's toLocale methods.

const months = ['January', 'February', 'March', 'April', 'May', 'June', 'July', 'August', 'September', 'October', 'November', 'December'];
const weekdays = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
const dateLocales = ['sv-SE', 'sv'];
const americanNames = ['EST', 'EDT', 'CST', 'CDT', 'MST', 'MDT', 'PST', 'PDT', 'AKST', 'AKDT', 'HST', 'HDT'];
const zoneNames = {
  UTC: 'Coordinated Universal Time', GMT: 'Greenwich Mean Time', BST: 'British Summer Time', JST: 'Japan Standard Time',
  EST: 'Eastern Standard Time', EDT: 'Eastern Daylight Time', CST: 'Central Standard Time', CDT: 'Central Daylight Time',
  MST: 'Mountain Standard Time', MDT: 'Mountain Daylight Time', PST: 'Pacific Standard Time', PDT: 'Pacific Daylight Time',
  AKST: 'Alaska Standard Time', AKDT: 'Alaska Daylight Time', HST: 'Hawaii-Aleutian Standard Time', HDT: 'Hawaii-Aleutian Daylight Time',
  CET: 'Central European Standard Time', CEST: 'Central European Summer Time', EET: 'Eastern European Standard Time', EEST: 'Eastern European Summer Time',
  WET: 'Western European Standard Time', WEST: 'Western European Summer Time', AEST: 'Australian Eastern Standard Time', AEDT: 'Australian Eastern Daylight Time',
};

const dateStyles = {
  full: { weekday: 'long', year: 'numeric', month: 'long', day: 'numeric' },
  long: { year: 'numeric', month: 'long', day: 'numeric' },
  medium: { year: 'numeric', month: 'short', day: 'numeric' },
  short: { year: '2-digit', month: 'numeric', day: 'numeric' },
};
const timeStyles = {
  full: { hour: 'numeric', minute: '2-digit', second: '2-digit', timeZoneName: 'long' },
  long: { hour: 'numeric', minute: '2-digit', second: '2-digit', timeZoneName: 'short' },
  medium: { hour: 'numeric', minute: '2-digit', second: '2-digit' },
  short: { hour: 'numeric', minute: '2-digit' },
};
const digitsChoice = ['numeric', '2-digit'];
const namesChoice = ['long', 'short', 'narrow'];
const fieldChoices = {
  weekday: namesChoice, era: namesChoice, year: digitsChoice, month: [...digitsChoice, ...namesChoice], day: digitsChoice, dayPeriod: namesChoice,
  hour: digitsChoice, minute: digitsChoice, second: digitsChoice,
  timeZoneName: ['short', 'long', 'shortOffset', 'longOffset', 'shortGeneric', 'longGeneric'],
};

// dateOptions reads options. usual is what is shown where nothing is asked for: date, time or both.
function dateOptions(locale, given, usual) {
  const options = Object(given ?? {});
  const o = { timeZone: options.timeZone === undefined ? utc : zoneOf(options.timeZone) };
  for (const name of keys(fieldChoices)) o[name] = choice(options, name, fieldChoices[name], undefined);
  o.fractionalSecondDigits = whole(options, 'fractionalSecondDigits', 1, 3, undefined);
  o.dateStyle = choice(options, 'dateStyle', keys(dateStyles), undefined);
  o.timeStyle = choice(options, 'timeStyle', keys(timeStyles), undefined);
  const styled = o.dateStyle !== undefined || o.timeStyle !== undefined;
  const asked = [...keys(fieldChoices), 'fractionalSecondDigits'].filter((f) => o[f] !== undefined);
  if (styled) {
    if (asked.length > 0) throw new TypeError(`Can't set option ${asked[0]} when ${o.dateStyle !== undefined ? 'dateStyle' : 'timeStyle'} is used`);
    if (usual === 'date' && o.timeStyle !== undefined) throw new TypeError('Invalid option : timeStyle');
    if (usual === 'time' && o.dateStyle !== undefined) throw new TypeError('Invalid option : dateStyle');
    Object.assign(o, dateStyles[o.dateStyle], timeStyles[o.timeStyle]);
    if (o.dateStyle === 'short' && (locale === 'en-GB' || dateLocales.includes(locale))) o.year = 'numeric';
  } else {
    const has = (fields) => fields.some((f) => o[f] !== undefined);
    const dated = has(['weekday', 'year', 'month', 'day']);
    const timed = has(['dayPeriod', 'hour', 'minute', 'second', 'fractionalSecondDigits']);
    const any = usual === 'date' ? dated : usual === 'time' ? timed : dated || timed;
    if (!any && usual !== 'time') Object.assign(o, { year: 'numeric', month: 'numeric', day: 'numeric' });
    if (!any && (usual === 'time' || usual === 'both')) Object.assign(o, { hour: 'numeric', minute: '2-digit', second: '2-digit' });
  }
  const cycle = choice(options, 'hourCycle', ['h11', 'h12', 'h23', 'h24'], undefined);
  const halves = locale !== 'en-GB' && !dateLocales.includes(locale);
  o.hour12 = options.hour12 !== undefined ? Boolean(options.hour12) : cycle !== undefined ? cycle === 'h12' || cycle === 'h11' : halves;
  return o;
}

const pad = (n, length = 2) => `${n}`.padStart(length, '0');
const named = (style, name) => (style === 'long' ? name : style === 'short' ? name.slice(0, 3) : name[0]);

// dateParts gives the parts of a time as formatToParts does.
function dateParts(locale, o, ms) {
  if (!Number.isFinite(ms)) throw new RangeError('Invalid time value');
  const zoned = o.timeZone.at(ms);
  const t = new Date(ms + zoned.offset);
  const date = dayParts(locale, o, t);
  const time = timeParts(locale, o, t);
  if (o.timeZoneName !== undefined) {
    const name = ['timeZoneName', zoneName(o.timeZoneName, o.timeZone, zoned)];
    if (time.length > 0) time.push(['literal', ' '], name);
    else time.push(name);
  }
  if (date.length === 0 || time.length === 0) return [...date, ...time];
  const swedish = dateLocales.includes(locale);
  const alone = date.length === 1 && o.weekday !== undefined && locale !== 'en-GB';
  const between = swedish || alone ? ' ' : o.month === 'long' && o.hour !== undefined ? ' at ' : ', ';
  return [...date, ['literal', between], ...time];
}

function dayParts(locale, o, t) {
  const british = locale === 'en-GB';
  const iso = dateLocales.includes(locale) || locale === 'en-CA';
  const textual = namesChoice.includes(o.month);
  const padded = (british || iso) && o.month !== undefined && !textual && (o.day !== undefined || o.year !== undefined);
  const p = {};
  if (o.weekday !== undefined) p.weekday = named(o.weekday, weekdays[t.getUTCDay()]);
  if (o.year !== undefined) p.year = o.year === '2-digit' ? pad(t.getUTCFullYear() % 100) : `${t.getUTCFullYear()}`;
  if (o.month !== undefined) p.month = textual ? named(o.month, months[t.getUTCMonth()]) : pad(t.getUTCMonth() + 1, o.month === '2-digit' || padded ? 2 : 1);
  if (o.day !== undefined) p.day = pad(t.getUTCDate(), o.day === '2-digit' || padded ? 2 : 1);
  const order = dayOrder(o, textual, british, iso);
  return order.flatMap((f) => (f.startsWith('-') ? [['literal', f.slice(1)]] : [[f, p[f]]]));
}

// dayOrder gives the fields of a date in their order; what begins with - is a text between them.
function dayOrder(o, textual, british, iso) {
  const shownFields = (fields) => fields.filter((f) => o[f] !== undefined);
  const between = (fields, separator) => shownFields(fields).flatMap((f, i) => (i > 0 ? [`-${separator}`, f] : [f]));
  const { weekday, year, month, day } = o;
  if (month === undefined || (weekday !== undefined && day === undefined)) {
    return between(british ? ['weekday', 'day', 'month', 'year'] : month === undefined ? ['day', 'year', 'weekday'] : ['month', 'year', 'weekday'], ' ');
  }
  const before = (separator) => (weekday === undefined ? [] : ['weekday', `-${separator}`]);
  if (!textual) {
    const fields = iso ? between(['year', 'month', 'day'], '-') : between(british ? ['day', 'month', 'year'] : ['month', 'day', 'year'], '/');
    return [...before(', '), ...fields];
  }
  if (british) return [...before(year === undefined ? ' ' : ', '), ...between(['day', 'month', 'year'], ' ')];
  const core = between(['month', 'day'], ' ');
  return [...before(', '), ...core, ...(year === undefined ? [] : [day === undefined ? '- ' : '-, ', 'year'])];
}

function timeParts(locale, o, t) {
  const parts = [];
  const add = (type, value, separator) => {
    if (parts.length > 0) parts.push(['literal', separator]);
    parts.push([type, value]);
  };
  const h = t.getUTCHours();
  if (o.hour !== undefined) add('hour', o.hour12 ? pad(h % 12 === 0 ? 12 : h % 12, o.hour === '2-digit' ? 2 : 1) : pad(h), '');
  if (o.minute !== undefined) add('minute', pad(t.getUTCMinutes(), o.hour !== undefined || o.second !== undefined ? 2 : 1), ':');
  if (o.second !== undefined) add('second', pad(t.getUTCSeconds(), parts.length > 0 ? 2 : 1), ':');
  if (o.fractionalSecondDigits !== undefined) add('fractionalSecond', pad(t.getUTCMilliseconds(), 3).slice(0, o.fractionalSecondDigits), '.');
  if (o.hour !== undefined && o.hour12) {
    const half = h < 12 ? 'AM' : 'PM';
    add('dayPeriod', locale === 'en-CA' ? (h < 12 ? 'a.m.' : 'p.m.') : locale === 'en-GB' ? half.toLowerCase() : half, ' ');
  }
  return parts;
}

// zoneName names a zone's offset.
function zoneName(style, zone, { offset, name, summer }) {
  const american = americanNames.includes(name) && /^(?:America|US|Pacific\/(?:Honolulu|Johnston)|[A-Z]{3}\d?)/.test(zone.name);
  const plainName = zone === utc || ((name === 'GMT' || name === 'WET') && offset === 0 && !summer);
  if (american || plainName) {
    if (style === 'short') return american ? name : zone === utc ? 'UTC' : 'GMT';
    if (style === 'long') return zoneNames[name];
    if (style === 'shortGeneric' && american) return name.replace(/[SD]T$/, 'T');
    if (style === 'longGeneric' && american) return zoneNames[name].replace(/ (?:Standard|Daylight)/, '');
  }
  if (style === 'long' && /^(?:Europe|Australia|Asia\/Tokyo)/.test(zone.name) && zoneNames[name] !== undefined) return zoneNames[name];
  const minutes = Math.abs(offset) / 60000;
  const [h, m] = [Math.floor(minutes / 60), minutes % 60];
  const sign = offset < 0 ? '-' : '+';
  if (style.startsWith('long')) return offset === 0 && style === 'long' ? 'GMT' : `GMT${sign}${pad(h)}:${pad(m)}`;
  return `GMT${sign}${h}${m === 0 ? '' : `:${pad(m)}`}`;
}

const timeOf = (value) => (value === undefined ? Date.now() : value instanceof Date ? value.getTime() : Number(value));

class DateTimeFormat {
  #locale;
  #options;
  #bound;

  constructor(locales, options) {
    this.#locale = localeOf(locales, dateLocales);
    this.#options = dateOptions(this.#locale, options, 'plain');
  }

  get format() {
    return (this.#bound ??= (value) => joined(this.#parts(value)));
  }

  #parts(value) {
    return dateParts(this.#locale, this.#options, timeOf(value));
  }

  formatToParts(value) {
    return asObjects(this.#parts(value));
  }

  formatRange(from, to) {
    const [a, b] = [this.format(from), this.format(to)];
    return a === b ? a : `${a} – ${b}`;
  }

  resolvedOptions() {
    const { timeZone, hour12, ...rest } = this.#options;
    const out = { locale: this.#locale, calendar: 'gregory', numberingSystem: 'latn', timeZone: timeZone.name };
    if (rest.hour !== undefined) Object.assign(out, { hourCycle: hour12 ? 'h12' : 'h23', hour12 });
    for (const name of keys(rest)) {
      if (rest[name] !== undefined) out[name] = rest[name];
    }
    return out;
  }

  static supportedLocalesOf(locales) {
    return supported(locales);
  }

  get [toStringTag]() {
    return 'Intl.DateTimeFormat';
  }
}
defineProperty(Intl, 'DateTimeFormat', hidden(newless(DateTimeFormat)));

function localDate(date, locales, options, usual) {
  const ms = dateTime(date);
  if (!isFinite(ms)) return 'Invalid Date';
  const locale = localeOf(locales, dateLocales);
  return joined(dateParts(locale, dateOptions(locale, options, usual), ms));
}

const plainTime = Date.prototype.toTimeString;
const dateMethods = {
  toLocaleString(locales, options) {
    return localDate(this, locales, options, 'both');
  },
  toLocaleDateString(locales, options) {
    return localDate(this, locales, options, 'date');
  },
  toLocaleTimeString(locales, options) {
    return localDate(this, locales, options, 'time');
  },
  toTimeString() {
    return isFinite(dateTime(this)) ? `${plainTime.call(this)} (Coordinated Universal Time)` : 'Invalid Date';
  },
  toString() {
    return isFinite(dateTime(this)) ? `${this.toDateString()} ${this.toTimeString()}` : 'Invalid Date';
  },
};
for (const name of ownKeys(dateMethods)) defineProperty(Date.prototype, name, hidden(dateMethods[name]));
