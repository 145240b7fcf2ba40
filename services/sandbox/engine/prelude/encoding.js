// TextEncoder and TextDecoder, for UTF-8 as the Encoding Standard has it, and for UTF-16LE and Latin-1 where bytes are read.

const NewUint8Array = Uint8Array;
const isView = ArrayBuffer.isView;
const codeUnits = free(fromCharCode.apply);
const { atob, btoa, decodeURIComponent, encodeURIComponent, escape, unescape } = globalThis;
const fromBase64 = Uint8Array.fromBase64;
const beyondAscii = /[^\0-\x7f]/;

// encoded gives a string's UTF-8, by functions of the language that do so on their way.
function encoded(string) {
  const units = beyondAscii.test(string) ? unescape(encodeURIComponent(toWellFormed(string))) : string;
  return fromBase64.call(NewUint8Array, btoa(units));
}

// decoded gives the text of bytes if they are whole and well-formed UTF-8, else undefined.
function decoded(bytes) {
  const units = atob(base64(bytes));
  if (!beyondAscii.test(units)) return units;
  try {
    return decodeURIComponent(escape(units));
  } catch {
    return undefined;
  }
}

// encodeInto writes string to bytes from at on, as far as whole characters fit, and gives what was read and written.
function encodeInto(string, bytes, at) {
  const start = at;
  const end = bytes.length;
  let read = 0;
  for (const length = string.length; read < length; ) {
    let c = charCodeAt(string, read);
    let units = 1;
    if (c >= 0xd800 && c <= 0xdfff) {
      const low = c < 0xdc00 && read + 1 < length ? charCodeAt(string, read + 1) : 0;
      if (low >= 0xdc00 && low <= 0xdfff) {
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        units = 2;
      } else c = 0xfffd;
    }
    if (c < 0x80) {
      if (at >= end) break;
      bytes[at++] = c;
    } else if (c < 0x800) {
      if (at + 2 > end) break;
      bytes[at++] = 0xc0 | (c >> 6);
      bytes[at++] = 0x80 | (c & 0x3f);
    } else if (c < 0x10000) {
      if (at + 3 > end) break;
      bytes[at++] = 0xe0 | (c >> 12);
      bytes[at++] = 0x80 | ((c >> 6) & 0x3f);
      bytes[at++] = 0x80 | (c & 0x3f);
    } else {
      if (at + 4 > end) break;
      bytes[at++] = 0xf0 | (c >> 18);
      bytes[at++] = 0x80 | ((c >> 12) & 0x3f);
      bytes[at++] = 0x80 | ((c >> 6) & 0x3f);
      bytes[at++] = 0x80 | (c & 0x3f);
    }
    read += units;
  }
  return { read, written: at - start };
}

install('TextEncoder', class TextEncoder {
  get encoding() {
    return 'utf-8';
  }

  encode(string = '') {
    return encoded(`${string}`);
  }

  encodeInto(string, bytes) {
    if (!(bytes instanceof NewUint8Array)) throw new NewTypeError('the second argument of encodeInto is no Uint8Array');
    return encodeInto(`${string}`, bytes, 0);
  }

  get [toStringTag]() {
    return 'TextEncoder';
  }
});

// A text that is put together from code units.
class Units {
  #out = '';
  #part = new Uint16Array(1024);
  #length = 0;

  add(unit) {
    this.#part[this.#length++] = unit;
    if (this.#length === 1024) this.#flush();
  }

  #flush() {
    this.#out += codeUnits(fromCharCode, null, this.#length === 1024 ? this.#part : this.#part.slice(0, this.#length));
    this.#length = 0;
  }

  text() {
    if (this.#length > 0) this.#flush();
    return this.#out;
  }
}

// Utf8 decodes by the state machine of the Encoding Standard.
class Utf8 {
  #point = 0;
  #seen = 0;
  #needed = 0;
  #lower = 0x80;
  #upper = 0xbf;

  // fresh says that no sequence is begun.
  get fresh() {
    return this.#needed === 0;
  }

  // decode adds the characters that bytes complete to units; bad is called for each malformed sequence.
  decode(bytes, units, bad) {
    for (let i = 0; i < bytes.length; i++) {
      const b = bytes[i];
      if (this.#needed === 0) {
        this.#first(b, units, bad);
        continue;
      }
      if (b < this.#lower || b > this.#upper) {
        this.#reset();
        bad();
        i--; // what does not go on with a sequence may begin one
        continue;
      }
      this.#lower = 0x80;
      this.#upper = 0xbf;
      this.#point = (this.#point << 6) | (b & 0x3f);
      if (++this.#seen < this.#needed) continue;
      addPoint(units, this.#point);
      this.#reset();
    }
  }

  #first(b, units, bad) {
    if (b < 0x80) units.add(b);
    else if (b >= 0xc2 && b <= 0xdf) this.#begin(1, b & 0x1f);
    else if (b >= 0xe0 && b <= 0xef) {
      if (b === 0xe0) this.#lower = 0xa0;
      if (b === 0xed) this.#upper = 0x9f;
      this.#begin(2, b & 0xf);
    } else if (b >= 0xf0 && b <= 0xf4) {
      if (b === 0xf0) this.#lower = 0x90;
      if (b === 0xf4) this.#upper = 0x8f;
      this.#begin(3, b & 7);
    } else bad();
  }

  #begin(needed, point) {
    this.#needed = needed;
    this.#point = point;
  }

  #reset() {
    this.#point = this.#seen = this.#needed = 0;
    this.#lower = 0x80;
    this.#upper = 0xbf;
  }

  end(bad) {
    if (this.#needed > 0) bad();
    this.#reset();
  }
}

function addPoint(units, point) {
  if (point < 0x10000) {
    units.add(point);
    return;
  }
  units.add(0xd7c0 + (point >> 10));
  units.add(0xdc00 | (point & 0x3ff));
}

class Latin1 {
  decode(bytes, units) {
    for (let i = 0; i < bytes.length; i++) units.add(bytes[i]);
  }

  end() {}
}

class Utf16 {
  #half = -1;
  #high = 0;

  decode(bytes, units, bad) {
    for (let i = 0; i < bytes.length; i++) {
      if (this.#half < 0) this.#half = bytes[i];
      else {
        this.#unit(this.#half | (bytes[i] << 8), units, bad);
        this.#half = -1;
      }
    }
  }

  #unit(unit, units, bad) {
    const low = unit >= 0xdc00 && unit <= 0xdfff;
    if (this.#high !== 0) {
      const high = this.#high;
      this.#high = 0;
      if (low) {
        units.add(high);
        units.add(unit);
        return;
      }
      bad();
    }
    if (unit >= 0xd800 && unit <= 0xdbff) this.#high = unit;
    else if (low) bad();
    else units.add(unit);
  }

  end(bad) {
    if (this.#half >= 0 || this.#high !== 0) bad();
    this.#half = -1;
    this.#high = 0;
  }
}

const encodings = {
  __proto__: null,
  'utf-8': Utf8, utf8: Utf8, 'unicode-1-1-utf-8': Utf8,
  'utf-16le': Utf16, 'utf-16': Utf16, 'ucs-2': Utf16,
  latin1: Latin1, 'iso-8859-1': Latin1, ascii: Latin1, 'us-ascii': Latin1,
};
const encodingNames = new Map([[Utf8, 'utf-8'], [Utf16, 'utf-16le'], [Latin1, 'iso-8859-1']]);

function bytesOf(input) {
  if (input === undefined) return new NewUint8Array(0);
  if (isView(input)) return new NewUint8Array(input.buffer, input.byteOffset, input.byteLength);
  if (input instanceof ArrayBuffer) return new NewUint8Array(input);
  throw new NewTypeError(`TextDecoder decodes an ArrayBuffer or a view of one, not ${cut(inspect(input), 200)}`);
}

install('TextDecoder', class TextDecoder {
  #encoding;
  #decoder;
  #fatal;
  #ignoreBOM;
  #begun = false;

  constructor(label = 'utf-8', options) {
    this.#encoding = encodings[`${label}`.trim().toLowerCase()];
    if (this.#encoding === undefined) throw new NewRangeError(`the encoding ${cut(inspect(label), 100)} is not available in a body: there are utf-8, utf-16le and latin1`);
    this.#fatal = Boolean(options?.fatal);
    this.#ignoreBOM = Boolean(options?.ignoreBOM);
    this.#decoder = new this.#encoding();
  }

  get encoding() {
    return encodingNames.get(this.#encoding);
  }

  get fatal() {
    return this.#fatal;
  }

  get ignoreBOM() {
    return this.#ignoreBOM;
  }

  decode(input, options) {
    const bytes = bytesOf(input);
    const more = Boolean(options?.stream);
    if (this.#encoding === Utf8 && this.#decoder.fresh) {
      const text = decoded(bytes);
      if (text !== undefined) return this.#finished(text, more);
    }
    const units = new Units();
    const bad = () => {
      if (!this.#fatal) return units.add(0xfffd);
      this.#decoder = new this.#encoding();
      this.#begun = false;
      throw new NewTypeError(`the bytes are no ${this.encoding}`);
    };
    this.#decoder.decode(bytes, units, bad);
    if (!more) this.#decoder.end(bad);
    return this.#finished(units.text(), more);
  }

  // finished gives what is decoded without the mark of byte order at its start.
  #finished(out, more) {
    if (!this.#begun && out !== '') {
      if (!this.#ignoreBOM && this.#encoding !== Latin1 && out[0] === '\ufeff') out = slice(out, 1);
      this.#begun = true;
    }
    if (!more) this.#begun = false;
    return out;
  }

  get [toStringTag]() {
    return 'TextDecoder';
  }
});
