// Resampling by a sinc in a Hann window, in blocks. As audio/resampling.py, and torchaudio with the same numbers.

import { joined } from "./rows.js";

const ZERO_CROSSINGS = 32, ROLLOFF = 0.99;
const PIECE = 4096; // output samples at a time

function commonDivisor(a, b) {
  return b ? commonDivisor(b, a % b) : a;
}

// Yields blocks of mono samples at another rate, Hz; in all ceil(n * wanted / rate) samples. An empty block passes through
// all generators as an empty one: who asks for more than there is, is told so.
export function* resampled(blocks, rate, wanted) {
  if (rate === wanted) {
    yield* blocks;
    return;
  }
  const common = commonDivisor(rate, wanted), step = rate / common, group = wanted / common;
  const cutoff = Math.min(step, group) * ROLLOFF, width = Math.ceil((ZERO_CROSSINGS * step) / cutoff), taps = 2 * width + 2;
  const filters = new Map(); // weights by the remainder of a sample's place
  const filter = (remainder) => {
    if (!filters.has(remainder)) {
      filters.set(remainder, Float32Array.from({ length: taps }, (_, k) => {
        const time = Math.min(Math.max(((k - width) / step - remainder / (group * step)) * cutoff, -ZERO_CROSSINGS), ZERO_CROSSINGS);
        const sinc = time ? Math.sin(Math.PI * time) / (Math.PI * time) : 1;
        return (sinc * Math.cos((time * Math.PI) / ZERO_CROSSINGS / 2) ** 2 * cutoff) / step;
      }));
    }
    return filters.get(remainder);
  };
  let waiting = new Float32Array(width), offset = -width, done = 0; // `waiting` begins with this sample of the input
  const begin = (number) => Math.floor((number * step) / group) - width;
  const apply = (count) => {
    const result = new Float32Array(count);
    for (let k = 0; k < count; k += 1) {
      const weights = filter(((done + k) * step) % group), first = begin(done + k) - offset;
      let sum = 0;
      for (let each = 0; each < taps; each += 1) sum += weights[each] * waiting[first + each];
      result[k] = sum;
    }
    done += count;
    return result;
  };
  for (const block of blocks) {
    waiting = joined(waiting, block);
    const until = Math.floor(((offset + waiting.length - taps + width) * group) / step) - 1;
    const count = Math.floor((until - done) / PIECE) * PIECE;
    if (count > 0) yield apply(count);
    else if (!block.length) yield block;
    const past = begin(done) - offset;
    waiting = waiting.slice(past);
    offset += past;
  }
  const total = Math.ceil(((offset + waiting.length) * group) / step);
  waiting = joined(waiting, new Float32Array(taps));
  if (total > done) yield apply(total - done);
}
