// Time and chance: both come from the host, so that a body that is run again does the same.

// Math.random is xoshiro128**, 53 bits of two draws.
let s0 = 1;
let s1 = 0;
let s2 = 0;
let s3 = 0;

function seed(words) {
  s0 = words[0] >>> 0;
  s1 = words[1] >>> 0;
  s2 = words[2] >>> 0;
  s3 = words[3] >>> 0;
  if ((s0 | s1 | s2 | s3) === 0) s0 = 1;
}

const rotate = (x, n) => (x << n) | (x >>> (32 - n));

function draw() {
  const drawn = imul(rotate(imul(s1, 5), 7), 9) >>> 0;
  const t = s1 << 9;
  s2 ^= s0;
  s3 ^= s1;
  s1 ^= s2;
  s0 ^= s3;
  s2 ^= t;
  s3 = rotate(s3, 11);
  return drawn;
}

defineProperty(Math, 'random', hidden({ random: () => ((draw() >>> 5) * 67108864 + (draw() >>> 6)) / 9007199254740992 }.random));

// performance counts from the body's start. Date gets the same clock from the host.
let began0 = 0;

function began(now) {
  began0 = now;
}

install('performance', {
  now: () => state.now - began0,
  get timeOrigin() {
    return began0;
  },
  mark() {},
  measure() {},
});

delete globalThis.SharedArrayBuffer; // there are no threads to share it with
