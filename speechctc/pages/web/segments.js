// Phones with start, end and confidence, from the class of each frame. As inference/segmenter.py.

import { argmax, clipped, joined } from "./rows.js";

const REACH = 0.25, EDGE = 0.1; // seconds
const MARGIN = 0.25; // frames
const TINY = 1e-6;

// The probability that a phone with this posterior is right.
export function calibrated(calibration, posterior) {
  if (!calibration?.phones) return posterior;
  const inside = clipped(posterior, TINY, 1 - TINY);
  const exponent = calibration.slope * (Math.log(inside) - Math.log1p(-inside)) + calibration.intercept;
  return 1 / (1 + Math.exp(-clipped(exponent, -700, 700)));
}

// Where rows change from one class to another, in rows from the first.
export function changePoint(rows, classes, left, right) {
  const count = rows.length / classes;
  if (left === right) return (count - 1) / 2;
  const contrast = Array.from({ length: count }, (_, t) => rows[t * classes + left] - rows[t * classes + right]);
  let total = 0, most = -Infinity, last = 0;
  for (let t = 0; t < count - 1; t += 1) {
    total += contrast[t];
    if (total > most) [most, last] = [total, t];
  }
  const fall = contrast[last], rise = contrast[last + 1];
  return last + (fall > rise ? clipped(fall / (fall - rise), 0, 1) : 0.5);
}

export class Segmenter {
  constructor(phones, silences, clock, calibration, alternatives) {
    Object.assign(this, { phones, silences, clock, calibration });
    this.alternatives = Math.min(alternatives, phones.length - 1);
    this.classes = phones.length + 1;
    this.reach = Math.ceil(REACH / clock.step);
    this.frames = 0;
    this.endsEarly = !phones.some((phone) => silences.has(phone)); // a label of silence would fill a pause
    this.spike = null; // a run of frames of one phone: its first, last and peak row
    this.gap = new Float32Array(0); // rows of blanks since the spike; of many, the first and the last
    this.shift = calibration?.shift ?? 0;
  }

  // Yields the phones that the next frames complete.
  *push(rows, path) {
    const { classes } = this;
    for (let begin = 0, end; begin < path.length; begin = end) {
      const label = path[begin];
      for (end = begin + 1; end < path.length && path[end] === label; end += 1);
      const run = rows.slice(begin * classes, end * classes);
      if (label === 0) yield* this.blanks(run);
      else if (this.spike?.label === label && !this.gap.length) this.extend(run);
      else yield* this.next(label, run);
      this.frames += end - begin;
    }
  }

  // Yields the last phone of a recording of this length.
  *finish(seconds) {
    const last = this.spike;
    if (!last) return;
    yield this.segment(last, Math.min(last.silent ? seconds : this.edge(last), seconds));
  }

  // The end of a phone before a pause.
  edge(spike) {
    return this.time(spike.last + EDGE / this.clock.step);
  }

  // Appends frames after a spike; in a pause, yields its phone.
  *blanks(rows) {
    if (!this.spike) return;
    const gap = joined(this.gap, rows), within = this.reach * this.classes;
    if (gap.length <= 2 * within) this.gap = gap;
    else if (this.endsEarly) {
      yield this.segment(this.spike, this.edge(this.spike));
      this.spike = null;
      this.gap = new Float32Array(0);
    } else this.gap = joined(gap.slice(0, within), gap.slice(-within));
  }

  peakOf(rows, label) {
    const count = rows.length / this.classes;
    const t = argmax(Array.from({ length: count }, (_, k) => rows[k * this.classes + label]));
    return rows.slice(t * this.classes, (t + 1) * this.classes);
  }

  extend(rows) {
    const { spike, classes } = this, peak = this.peakOf(rows, spike.label);
    spike.last += rows.length / classes;
    spike.fall = rows.slice(-classes);
    if (peak[spike.label] > spike.peak[spike.label]) spike.peak = peak;
  }

  // Starts a phone, and yields the one before.
  *next(label, rows) {
    const { classes, frames: first, spike: left } = this;
    const spike = {
      label, first, last: first + rows.length / classes - 1, silent: this.silences.has(this.phones[label - 1]), start: 0,
      rise: rows.slice(0, classes), fall: rows.slice(-classes), peak: this.peakOf(rows, label),
    };
    if (!left) spike.start = spike.silent ? 0 : this.time(first - EDGE / this.clock.step);
    else {
      const [end, start] = this.between(left, spike).map((each) => this.time(each));
      spike.start = start;
      yield this.segment(left, end);
    }
    this.spike = spike;
    this.gap = new Float32Array(0);
  }

  // The end of a phone and the start of the next, in frames; equal except around a pause.
  between(left, right) {
    const pause = right.first - left.last - 1 > this.gap.length / this.classes;
    if (pause && !left.silent && !right.silent) {
      const edge = EDGE / this.clock.step;
      return [left.last + edge, right.first - edge];
    }
    let boundary = this.boundary(left, right);
    if (!left.silent) boundary = Math.min(boundary, left.last + this.reach);
    if (!right.silent) boundary = Math.max(boundary, right.first - this.reach);
    return [boundary, boundary];
  }

  boundary(left, right) {
    const rows = joined(left.fall, this.gap, right.rise), count = rows.length / this.classes;
    const cut = right.first - left.last - 1 - (count - 2);
    let place = changePoint(rows, this.classes, left.label, right.label);
    if (place > count / 2) place += cut;
    else if (left.label === right.label) place += cut / 2;
    return clipped(left.last + place, left.last + MARGIN, right.first - MARGIN);
  }

  time(position) {
    return Math.max(position * this.clock.step + this.clock.half + this.shift, 0);
  }

  segment(spike, end) {
    const peak = Array.from(spike.peak, Math.exp);
    const others = peak.map((_, k) => k).filter((k) => k && k !== spike.label && peak[k]).sort((a, b) => peak[b] - peak[a]);
    return {
      phone: this.phones[spike.label - 1],
      start: Math.min(spike.start, end),
      end,
      confidence: calibrated(this.calibration, peak[spike.label]),
      alternatives: others.slice(0, this.alternatives).map((k) => [this.phones[k - 1], peak[k]]),
    };
  }
}
