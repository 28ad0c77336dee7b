// Log mel energies of samples, their sliding mean, and the input of the net. As features/extractor.py and padded.py.

import { Fourier } from "./fft.js";
import { inWindows, joined } from "./rows.js";

const SCALE = 32768; // Kaldi's filter bank expects samples of 16 bits
const EPSILON = 1.1920928955078125e-7; // energy of a band

const SHAPES = {
  rectangular: () => 1,
  hamming: (turn) => 0.54 - 0.46 * Math.cos(turn),
  hanning: (turn) => 0.5 - 0.5 * Math.cos(turn),
  povey: (turn) => (0.5 - 0.5 * Math.cos(turn)) ** 0.85,
  blackman: (turn) => 0.42 - 0.5 * Math.cos(turn) + 0.08 * Math.cos(2 * turn),
};

const mel = (hertz) => 1127 * Math.log(1 + hertz / 700);

export class FilterBank {
  constructor(config) {
    this.config = config;
    this.window = Math.trunc(config.sample_rate * config.window_ms * 0.001); // samples
    this.shift = Math.trunc(config.sample_rate * config.shift_ms * 0.001);
    this.dims = config.mels + (config.energy ? 1 : 0);
    const shape = SHAPES[config.window], turn = (2 * Math.PI) / (this.window - 1);
    this.shape = Float64Array.from({ length: this.window }, (_, k) => shape(k * turn));
    this.fourier = new Fourier(2 ** Math.ceil(Math.log2(this.window)));
    this.spectrum = new Float64Array(this.fourier.size / 2 + 1);
    this.bands = this.triangles();
  }

  // The weights of each band, from the first frequency that has one.
  triangles() {
    const { sample_rate: rate, low_hz: low, high_hz: high, mels } = this.config;
    const bottom = mel(low), top = mel(high > 0 ? high : high + rate / 2), step = (top - bottom) / (mels + 1);
    const heights = Array.from({ length: this.fourier.size / 2 }, (_, k) => mel((k * rate) / this.fourier.size));
    return Array.from({ length: mels }, (_, band) => {
      const left = bottom + band * step, centre = left + step;
      const all = heights.map((each) => Math.max(0, Math.min((each - left) / step, (centre + step - each) / step)));
      const first = Math.max(all.findIndex((weight) => weight > 0), 0);
      const end = all.findLastIndex((weight) => weight > 0) + 1;
      return { first, weights: Float64Array.from(all.slice(first, end)) };
    });
  }

  frames(samples) {
    return samples < this.window ? 0 : 1 + Math.floor((samples - this.window) / this.shift);
  }

  // Returns the static features of samples in [-1, 1].
  static(samples) {
    const count = this.frames(samples.length), result = new Float32Array(count * this.dims);
    const frame = new Float64Array(this.window);
    for (let k = 0; k < count; k += 1) this.one(samples, k * this.shift, frame, result, k * this.dims);
    return result;
  }

  one(samples, start, frame, result, at) {
    const { config, window, shape, spectrum } = this;
    let mean = 0, energy = 0;
    for (let k = 0; k < window; k += 1) {
      frame[k] = samples[start + k] * SCALE;
      mean += frame[k];
    }
    mean /= window;
    for (let k = 0; k < window; k += 1) {
      frame[k] -= mean;
      energy += frame[k] * frame[k];
    }
    for (let k = window - 1; k >= 0; k -= 1) frame[k] = (frame[k] - config.preemphasis * frame[Math.max(k - 1, 0)]) * shape[k];
    this.fourier.power(frame, window, spectrum);
    this.bands.forEach(({ first, weights }, band) => {
      let sum = 0;
      for (let k = 0; k < weights.length; k += 1) sum += weights[k] * spectrum[first + k];
      result[at + band] = Math.log(Math.max(sum, EPSILON));
    });
    if (config.energy) result[at + config.mels] = Math.max(Math.log(Math.max(energy, EPSILON)), 0);
  }

  // Yields static features as soon as the samples of a frame are known.
  *blocks(samples) {
    let waiting = new Float32Array(0);
    for (const block of samples) {
      waiting = joined(waiting, block);
      const count = this.frames(waiting.length);
      if (!count && block.length) continue;
      yield this.static(waiting);
      waiting = waiting.slice(count * this.shift);
    }
  }
}

// How many frames before and after a frame its sliding mean covers, and how far its weight in the mean looks.
function reachOf({ cmn_window_ms: reach, shift_ms: shift }) {
  const [before, after] = (reach ?? [0, 0]).map((ms) => Math.round(ms / shift));
  return { before, after, stretch: Math.round(1000 / shift) };
}

// The weighted mean over frames around each, as differences of two cumulative sums.
function slidingMean(values, weights, width, before, after) {
  const frames = weights.length, sums = new Float64Array((frames + 1) * (width + 1));
  for (let t = 0; t < frames; t += 1) {
    const here = t * (width + 1), next = here + width + 1;
    for (let k = 0; k < width; k += 1) sums[next + k] = sums[here + k] + weights[t] * values[t * width + k];
    sums[next + width] = sums[here + width] + weights[t];
  }
  const means = new Float64Array(frames * width);
  for (let t = 0; t < frames; t += 1) {
    const end = Math.min(t + after + 1, frames), start = Math.max(Math.min(t - before, end - 1), 0);
    const last = end * (width + 1), first = start * (width + 1);
    const weight = Math.max(sums[last + width] - sums[first + width], 1);
    for (let k = 0; k < width; k += 1) means[t * width + k] = (sums[last + k] - sums[first + k]) / weight;
  }
  return means;
}

// The mean of the bands of each frame.
function meansOf(rows, width) {
  const result = new Float64Array(rows.length / width);
  for (let k = 0; k < rows.length; k += 1) result[Math.floor(k / width)] += rows[k] / width;
  return result;
}

// The weight of each frame in a mean.
function powerOf(rows, width, stretch) {
  const loudness = meansOf(rows, width).map((each) => Math.max(each, 0));
  const power = slidingMean(loudness.map(Math.exp), new Float64Array(loudness.length).fill(1), 1, stretch, stretch);
  return power.map((each, t) => (loudness[t] > 0 ? each : 1));
}

// Raises centred frames to so much below 0 whose rows are below the last of 16 bits.
function floored(centred, rows, width, { depth }) {
  const loudness = meansOf(rows, width);
  return centred.map((value, k) => (loudness[Math.floor(k / width)] > 0 ? value : Math.max(value, -depth)));
}

export function slidingCmn(rows, width, config) {
  if (!config.cmn_window_ms) return rows;
  const { before, after, stretch } = reachOf(config);
  const means = slidingMean(rows, powerOf(rows, width, stretch), width, before, after);
  return floored(rows.map((value, k) => value - means[k]), rows, width, config);
}

// Subtracts the mean of a second around each frame, but at most so much less than the sliding mean.
export function localCmn(rows, width, config) {
  const { before, after, stretch } = reachOf(config), power = powerOf(rows, width, stretch);
  const near = slidingMean(rows, power, width, stretch, stretch), nearby = meansOf(near, width);
  const level = slidingMean(meansOf(rows, width), power, 1, before, after);
  const raised = level.map((each, t) => Math.max(each - config.max_gain - nearby[t], 0));
  const centred = rows.map((value, k) => value - near[k] - raised[Math.floor(k / width)]);
  return floored(centred, rows, width, config);
}

// Yields static features after `localCmn` if the recording is longer than the sliding mean, else as `cmnBlocks`.
export function* localCmnBlocks(blocks, width, config) {
  const { before, after, stretch } = reachOf(config), start = [];
  let frames = 0;
  for (const block of blocks) {
    if (!block.length) yield block; // so that others have their turn
    else start.push(block);
    frames += block.length / width;
    if (!config.cmn_window_ms || frames <= before + after) continue;
    const behind = Math.max(before + stretch, 2 * stretch), ahead = Math.max(after + stretch, 2 * stretch);
    const all = (function* all() { yield* start; yield* blocks; })();
    yield* inWindows(all, width, (rows) => localCmn(rows, width, config), { behind, ahead });
    return;
  }
  yield* cmnBlocks(start, width, config);
}

// Yields static features after the sliding mean, as soon as the frames that it needs are known; `lookahead`: most of
// them after each frame, where not those of the config.
export function cmnBlocks(blocks, width, config, lookahead = Infinity) {
  const { before, after, stretch } = reachOf(config), wanted = config.cmn_window_ms ? after + stretch : 0;
  const reach = { behind: config.cmn_window_ms ? before + stretch : 0, ahead: Math.min(wanted, lookahead) };
  if (lookahead < wanted) reach.size = Math.max(lookahead, 1);
  return inWindows(blocks, width, (rows) => slidingCmn(rows, width, config), reach);
}

// The derivative by a regression over frames; the first and the last frame are repeated beyond the ends.
export function derivative(rows, width, config) {
  const reach = Math.floor(config.delta_window / 2), scale = (reach * (reach + 1) * (2 * reach + 1)) / 3;
  const last = rows.length / width - 1, result = new Float32Array(rows.length);
  for (let t = 0; t <= last; t += 1) {
    for (let band = 0; band < width; band += 1) {
      let sum = 0;
      for (let k = 1; k <= reach; k += 1) {
        sum += k * (rows[Math.min(t + k, last) * width + band] - rows[Math.max(t - k, 0) * width + band]);
      }
      result[t * width + band] = sum / scale;
    }
  }
  return result;
}
