// Where a recording may hold speech: where its level changes. As the detector and the gate in inference/streaming.py.

import { joined } from "./rows.js";

const BEHIND = 1, AHEAD = 0.5, MIN_SECONDS = 1, SMOOTHING = 0.09; // seconds
const GROUPS = 5, FLOOR = 5, DB = 10 / Math.LN10;
const FAR_BELOW = 30; // of a phone's logit below that of the blank, where nobody speaks

class Detector {
  constructor(config, least) {
    const step = config.shift_ms / 1000, groups = Math.min(GROUPS, config.mels);
    this.dims = config.mels + (config.energy ? 1 : 0);
    this.edges = Array.from({ length: groups + 1 }, (_, k) => k * Math.floor(config.mels / groups) + Math.min(k, config.mels % groups));
    this.groups = groups;
    this.half = Math.floor(Math.round(SMOOTHING / step) / 2);
    this.behind = Math.round(BEHIND / step);
    this.window = this.behind + Math.round(AHEAD / step) + 1;
    this.shortest = Math.round(MIN_SECONDS / step);
    this.threshold = least;
    this.raw = []; // levels to be smoothed, and their context
    this.smooth = []; // smoothed levels that undecided frames need
    this.start = 0; // frame of the first of `smooth`
    this.decided = 0;
    this.begun = false;
  }

  // Takes the next static features; returns the flags of the frames now decided.
  push(rows) {
    const levels = this.levels(rows);
    if (levels.length && !this.begun) {
      this.begun = true;
      this.raw = Array(2 * this.half).fill(levels[0]);
    }
    this.take(levels);
    const windows = Math.max(this.start + this.smooth.length - this.window + 1, 0);
    return this.decide(windows, windows ? windows + this.behind : 0);
  }

  finish() {
    if (!this.begun) return [];
    this.take(Array(2 * this.half).fill(this.raw[this.raw.length - 1]));
    const frames = this.start + this.smooth.length;
    if (frames < this.shortest) this.threshold = 0;
    return this.decide(Math.max(frames - this.window, 0) + 1, frames);
  }

  levels(rows) {
    return Array.from({ length: rows.length / this.dims }, (_, t) => Array.from({ length: this.groups }, (_, group) => {
      const [first, end] = [this.edges[group], this.edges[group + 1]];
      let sum = 0;
      for (let band = first; band < end; band += 1) sum += rows[t * this.dims + band];
      return DB * Math.max(sum / (end - first), FLOOR);
    }));
  }

  take(levels) {
    this.raw.push(...levels);
    const width = 2 * this.half + 1, count = this.raw.length - 2 * (width - 1);
    if (count <= 0) return;
    const each = Array.from({ length: this.groups }, (_, group) => group);
    const medians = Array.from({ length: this.raw.length - width + 1 }, (_, t) =>
      each.map((group) => this.raw.slice(t, t + width).map((level) => level[group]).sort((a, b) => a - b)[this.half]));
    for (let t = 0; t < count; t += 1) {
      this.smooth.push(each.map((group) => {
        let sum = 0;
        for (let k = 0; k < width; k += 1) sum += medians[t + k][group];
        return sum / width;
      }));
    }
    this.raw = this.raw.slice(count);
  }

  decide(windows, until) {
    const flags = [];
    for (; this.decided < until; this.decided += 1) {
      const begin = Math.min(Math.max(this.decided - this.behind, 0), windows - 1) - this.start;
      flags.push(this.modulation(begin, Math.min(begin + this.window, this.smooth.length)) > this.threshold);
    }
    const done = Math.max(Math.min(until - this.behind - this.start, this.smooth.length - this.window), 0);
    this.smooth = this.smooth.slice(done);
    this.start += done;
    return flags;
  }

  modulation(begin, end) {
    let most = 0;
    for (let group = 0; group < this.groups; group += 1) {
      let low = Infinity, high = -Infinity;
      for (let t = begin; t < end; t += 1) {
        const level = this.smooth[t][group];
        if (level < low) low = level;
        if (level > high) high = level;
      }
      most = Math.max(most, high - low);
    }
    return most;
  }
}

// Removes the phones from logits where nobody speaks: `watch` looks at the features on their way to the net, `apply`
// takes what the net makes of them.
export class Gate {
  constructor(config, spoken) {
    this.stride = config.model.time_stride;
    this.spoken = spoken; // classes other than the blank and labels of silence
    const least = config.decode.min_modulation_db;
    this.detector = least ? new Detector(config.features, least) : null;
    this.flags = [];
  }

  *watch(blocks) {
    for (const block of blocks) {
      if (this.detector) this.flags.push(...this.detector.push(block));
      yield block;
    }
    if (this.detector) this.flags.push(...this.detector.finish());
  }

  *apply(blocks, classes) {
    let waiting = new Float32Array(0);
    for (const block of blocks) {
      waiting = joined(waiting, block);
      const known = this.detector ? Math.floor(this.flags.length / this.stride) : Infinity;
      const count = Math.min(known, waiting.length / classes);
      yield this.gated(waiting.slice(0, count * classes), classes);
      waiting = waiting.slice(count * classes);
      this.flags.splice(0, count * this.stride);
    }
    if (waiting.length) yield this.gated(waiting, classes);
  }

  gated(logits, classes) {
    for (let t = 0; this.detector && t * classes < logits.length; t += 1) {
      if (this.flags[t * this.stride]) continue;
      const ceiling = logits[t * classes] - FAR_BELOW;
      for (const k of this.spoken) logits[t * classes + k] = Math.min(logits[t * classes + k], ceiling);
    }
    return logits;
  }
}
