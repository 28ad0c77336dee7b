// Takes the late reverberation of a room off a recording: weighted prediction error. As audio/dereverberation.py.

import { Fourier } from "./fft.js";
import { inWindows, quantile } from "./rows.js";

const HOP = 0.016, DELAY = 2, TAPS = 16, TURNS = 3, SMOOTHING = 3, LOADING = 1e-6;
const STEADY_DB = 5, DRY_DB = 12, CHANGE_DB = 6, SHORTEST = 2, LOWEST = 300, HIGHEST = 3400, EVERY = 8;
const WINDOW = 20, BEHIND = 2, AHEAD = 1; // seconds

// A recording in blocks; `changed` tells whether anything was taken off so far.
export class Dereverberated {
  constructor(blocks, rate, when = "never") {
    Object.assign(this, { blocks, rate, when, changed: false });
  }

  *[Symbol.iterator]() {
    const { blocks, rate, when } = this;
    if (when === "never") yield* blocks;
    else yield* inWindows(blocks, 1, (samples) => this.cleaned(samples), { behind: BEHIND * rate, ahead: AHEAD * rate, size: WINDOW * rate });
  }

  cleaned(samples) {
    if (this.when === "auto" && !isReverberant(samples, this.rate)) return samples;
    const clean = dereverberate(samples, this.rate);
    this.changed ||= clean.some((value, k) => value !== samples[k]);
    return clean;
  }
}

export function isReverberant(samples, rate) {
  const seconds = samples.length / rate;
  if (seconds < SHORTEST) return false;
  const bands = analysed(samples, rate), [first, last] = [LOWEST, HIGHEST].map((hertz) => Math.round((hertz * bands.size) / rate));
  const powers = Float64Array.from({ length: bands.frames }, (_, t) => {
    let sum = 0;
    for (let at = t * bands.count + first; at < t * bands.count + last; at += 1) sum += bands.re[at] ** 2 + bands.im[at] ** 2;
    return sum;
  }).sort();
  if (quantile(powers, 0.9) <= quantile(powers, 0.1) * 10 ** (CHANGE_DB / 10)) return false;
  const level = reverberationDb(bands, first, last);
  return STEADY_DB <= level && level < DRY_DB + 10 * Math.log10(seconds);
}

function reverberationDb(bands, first, last) {
  let whole = 0, part = 0;
  for (let band = first; band < last; band += EVERY) {
    const { re, im } = row(bands, band), late = lateOf(re, im, 1, 2);
    for (let t = 0; t < re.length; t += 1) {
      whole += re[t] ** 2 + im[t] ** 2;
      part += late.re[t] ** 2 + late.im[t] ** 2;
    }
  }
  return part > 0 ? 10 * Math.log10(whole / part) : Infinity;
}

export function dereverberate(samples, rate) {
  const bands = analysed(samples, rate);
  for (let band = 0; band < bands.count; band += 1) {
    const { re, im } = row(bands, band), late = lateOf(re, im, SMOOTHING, TURNS);
    for (let t = 0, at = band; t < re.length; t += 1, at += bands.count) {
      bands.re[at] -= late.re[t];
      bands.im[at] -= late.im[t];
    }
  }
  return synthesised(bands, samples.length);
}

// A short-time Fourier transform, `count` bands for each of `frames` frames of `size` samples.
function analysed(samples, rate) {
  const hop = 2 ** Math.round(Math.log2(HOP * rate)), size = 2 * hop, count = hop + 1, frames = Math.ceil(samples.length / hop) + 1;
  const re = new Float64Array(frames * count), im = new Float64Array(frames * count), fourier = new Fourier(size), frame = new Float64Array(size);
  const mean = samples.reduce((sum, value) => sum + value, 0) / samples.length;
  const window = Float64Array.from({ length: size }, (_, k) => Math.sin((Math.PI * k) / size));
  for (let t = 0; t < frames; t += 1) {
    for (let k = 0; k < size; k += 1) frame[k] = ((samples[(t - 1) * hop + k] ?? mean) - mean) * window[k];
    fourier.transform(frame, size);
    re.set(fourier.real.subarray(0, count), t * count);
    im.set(fourier.imaginary.subarray(0, count), t * count);
  }
  return { re, im, count, frames, size, hop, window, fourier };
}

function synthesised({ re, im, count, frames, size, hop, window, fourier }, length) {
  const result = new Float32Array(length);
  for (let t = 0; t < frames; t += 1) {
    fourier.inverse(re, im, t * count);
    for (let k = 0, at = (t - 1) * hop; k < size; k += 1, at += 1) if (at >= 0 && at < length) result[at] += (fourier.real[k] * window[k]) / size;
  }
  return result;
}

function row({ re, im, count, frames }, band) {
  const of = (values) => Float64Array.from({ length: frames }, (_, t) => values[t * count + band]);
  return { re: of(re), im: of(im) };
}

// The late reverberation in one band: what a filter predicts of it that is learned in turns with the power of the speech.
function lateOf(re, im, smoothing, turns) {
  const frames = re.length, late = { re: new Float64Array(frames), im: new Float64Array(frames) };
  for (let turn = 0; turn < turns; turn += 1) {
    const filter = filterOf(re, im, powerOf(re, im, late, smoothing));
    for (let t = 0; t < frames; t += 1) {
      let x = 0, y = 0;
      for (let k = 0; k < TAPS && k <= t - DELAY; k += 1) {
        const a = re[t - DELAY - k], b = im[t - DELAY - k];
        x += filter[k] * a - filter[TAPS + k] * b;
        y += filter[k] * b + filter[TAPS + k] * a;
      }
      late.re[t] = x;
      late.im[t] = y;
    }
  }
  return late;
}

// The power of what is left, a mean over frames, and not below 1e-10 of the largest.
function powerOf(re, im, late, smoothing) {
  const frames = re.length, power = Float64Array.from(re, (value, t) => (value - late.re[t]) ** 2 + (im[t] - late.im[t]) ** 2), side = (smoothing - 1) / 2;
  const mean = Float64Array.from(power, (_, t) => {
    let sum = 0;
    for (let k = Math.max(t - side, 0); k <= Math.min(t + side, frames - 1); k += 1) sum += power[k];
    return sum / smoothing;
  });
  const floor = 1e-10 * mean.reduce((most, value) => Math.max(most, value), 0) + 1e-20;
  return mean.map((value) => Math.max(value, floor));
}

// The filter with the least squared error relative to `power`: real parts, then imaginary ones. The equations of complex
// numbers are solved as twice as many of real ones.
function filterOf(re, im, power) {
  const size = 2 * TAPS, table = Array.from({ length: size }, () => new Float64Array(size + 1));
  for (let t = DELAY; t < re.length; t += 1) {
    const taps = Math.min(TAPS, t - DELAY + 1), weight = 1 / power[t];
    for (let j = 0; j < taps; j += 1) {
      const a = re[t - DELAY - j] * weight, b = -im[t - DELAY - j] * weight;
      for (let k = j; k < taps; k += 1) {
        const c = re[t - DELAY - k], d = im[t - DELAY - k];
        table[j][k] += a * c - b * d;
        table[j][TAPS + k] -= a * d + b * c;
      }
      table[j][size] += a * re[t] - b * im[t];
      table[TAPS + j][size] += a * im[t] + b * re[t];
    }
  }
  let trace = 0;
  for (let j = 0; j < TAPS; j += 1) trace += table[j][j];
  for (let j = 0; j < TAPS; j += 1) {
    for (let k = 0; k < j; k += 1) {
      table[j][k] = table[k][j];
      table[j][TAPS + k] = -table[k][TAPS + j];
    }
    table[j][j] += (LOADING * trace) / TAPS + 1e-20;
  }
  for (let j = 0; j < TAPS; j += 1) {
    for (let k = 0; k < TAPS; k += 1) {
      table[TAPS + j][k] = -table[j][TAPS + k];
      table[TAPS + j][TAPS + k] = table[j][k];
    }
  }
  return solved(table);
}

// Gaussian elimination; the matrix is positive definite, and the last column the right side.
function solved(table) {
  const size = table.length, result = new Float64Array(size);
  for (let k = 0; k < size; k += 1) {
    for (let j = k + 1; j < size; j += 1) {
      const share = table[j][k] / table[k][k];
      if (share) for (let i = k; i <= size; i += 1) table[j][i] -= share * table[k][i];
    }
  }
  for (let k = size - 1; k >= 0; k -= 1) {
    let sum = table[k][size];
    for (let i = k + 1; i < size; i += 1) sum -= table[k][i] * result[i];
    result[k] = sum / table[k][k];
  }
  return result;
}
