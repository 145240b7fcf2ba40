// Numbers as decimal digits, rounded as Intl rounds them: by the shortest digits that mean the number, not by its bits.

// A Decimal is digits × 10^(point - digits.length): the point stands before digits[point]. Its zero is '' with point 0.
function decimalOf(value) {
  const written = typeof value === 'bigint' ? `${value < 0n ? -value : value}` : `${Math.abs(value)}`;
  const [mantissa, exponent = '0'] = written.split('e');
  const [whole, fraction = ''] = mantissa.split('.');
  return trimmed(whole + fraction, whole.length + Number(exponent));
}

function trimmed(digits, point) {
  const lead = /^0*/.exec(digits)[0].length;
  digits = digits.slice(lead).replace(/0+$/, '');
  return digits === '' ? { digits: '', point: 0 } : { digits, point: point - lead };
}

// roundAt keeps of d the digits before index at of its digits, and rounds by what it drops.
function roundAt(d, at, mode, negative) {
  if (at >= d.digits.length) return d;
  if (at < 0) return up(mode, negative, '0', false, true) ? { digits: '1', point: d.point - at } : { digits: '', point: 0 };
  const kept = d.digits.slice(0, at);
  const last = kept === '' ? '0' : kept.at(-1);
  const dropped = d.digits.slice(at);
  if (!up(mode, negative, dropped[0], dropped.length > 1, Number(last) % 2 === 0)) return trimmed(kept, d.point);
  const raised = (BigInt(kept === '' ? '0' : kept) + 1n).toString();
  return trimmed(raised, d.point + raised.length - kept.length);
}

// up says whether dropping digits that begin with first rounds away from zero.
function up(mode, negative, first, more, even) {
  const half = first === '5' && !more;
  const above = first > '5' || (first === '5' && more);
  switch (mode) {
    case 'trunc':
      return false;
    case 'expand':
      return true;
    case 'ceil':
      return !negative;
    case 'floor':
      return negative;
    case 'halfTrunc':
      return above;
    case 'halfEven':
      return above || (half && !even);
    case 'halfCeil':
      return above || (half && !negative);
    case 'halfFloor':
      return above || (half && negative);
    default:
      return above || half;
  }
}

// The digits before and behind the point, of d as it is.
const wholeOf = (d) => (d.point <= 0 ? '0' : d.digits.slice(0, d.point).padEnd(d.point, '0'));
const fractionOf = (d) => (d.point < 0 ? '0'.repeat(-d.point) + d.digits : d.digits.slice(d.point));

// byFraction gives [whole, fraction] with between least and most digits behind the point.
function byFraction(d, least, most, mode, negative) {
  const r = roundAt(d, d.point + most, mode, negative);
  return [wholeOf(r), fractionOf(r).padEnd(least, '0')];
}

// bySignificant gives [whole, fraction] with between least and most digits that count.
function bySignificant(d, least, most, mode, negative) {
  const r = roundAt(d, most, mode, negative);
  const shownWhole = r.point > 0 ? r.point : r.digits === '' ? 1 : r.point;
  return [wholeOf(r), fractionOf(r).padEnd(Math.max(0, least - shownWhole), '0')];
}

const grouped = (whole) => whole.replace(/\B(?=(?:\d{3})+$)/g, ',');
