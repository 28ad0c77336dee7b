// A recording as lines of the width of the page: spectrogram, phones, time. A line is filled when it comes near the
// screen and emptied when it is far, so that an hour is as quick as a sentence.

import { inWords } from "./formats.js";
import { clipped } from "./rows.js";
import { bytesOf, mono } from "./samples.js";
import { draw, HALF, HIGHEST } from "./spectrogram.js";

const NARROWEST = 150, WIDEST = 400; // pixels for a second
const LETTER = 8.5, AROUND = 6; // pixels of a letter, and around a label
const FITTING = 0.8; // share of the labels that fit into their cells
const NEAR = 900; // pixels from the screen at which a line is filled
const MIN_CONFIDENCE = 0.5; // confidence below which a phone is doubtful

export function element(tag, values = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(values)) {
    if (name in made && name !== "style") made[name] = value;
    else if (name === "style") Object.assign(made.style, value);
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

function scaleFor(segments) {
  const needed = segments.map((each) => (LETTER * [...each.phone].length + AROUND) / Math.max(each.end - each.start, 0.01)).sort((a, b) => a - b);
  return needed.length ? clipped(needed[Math.floor(FITTING * (needed.length - 1))], NARROWEST, WIDEST) : NARROWEST;
}

export class Lines {
  constructor(name, source, box) {
    Object.assign(this, { name, source, box });
    this.segments = [];
    this.known = 0; // seconds up to which all phones are known
    this.at = 0; // where the next line begins, seconds
    this.first = 0; // the first phone of the next line
    this.scale = 0; // pixels for a second
    this.watch = new IntersectionObserver((seen) => {
      for (const { target, isIntersecting } of seen) (isIntersecting ? this.fill : this.empty).call(this, target);
    }, { rootMargin: `${NEAR}px` });
    this.parts = new WeakMap(); // by line, from which phone to which
  }

  // Takes phones; all that begin before `known` seconds have come.
  add(segments, known, ended) {
    this.segments.push(...segments);
    this.known = ended ? known : (this.segments[this.segments.length - 1]?.start ?? 0);
    if (!ended && (!this.scale && this.known < 15)) return;
    this.scale ||= scaleFor(this.segments);
    this.layOut(ended);
  }

  // Begins anew, for another width of the page.
  again() {
    if (!this.scale || this.width === this.box.clientWidth) return;
    this.watch.disconnect();
    this.box.replaceChildren();
    [this.at, this.first] = [0, 0];
    this.layOut(this.ended);
  }

  layOut(ended) {
    this.ended = ended;
    this.width = this.box.clientWidth;
    const longest = this.width / this.scale;
    while (this.known - this.at > longest + 1e-6) this.line(this.cut(this.at + longest), longest);
    if (ended && this.known > this.at) this.line(this.known, longest);
  }

  // Where to end a line: before a phone, if one begins in its second half.
  cut(latest) {
    let end = latest;
    for (let k = this.first; k < this.segments.length && this.segments[k].start <= latest; k += 1) {
      if (this.segments[k].start > (this.at + latest) / 2) end = this.segments[k].start;
    }
    return end;
  }

  line(end, longest) {
    const start = this.at, from = this.first;
    let until = from;
    while (until < this.segments.length && this.segments[until].start < end) until += 1;
    const width = `${Math.min((100 * (end - start)) / longest, 100)}%`;
    const head = element("div", { className: "playhead", hidden: true });
    const strip = element("div", { className: "strip", style: { width } }, head);
    Object.assign(strip.dataset, { start: start.toFixed(4), end: end.toFixed(4) });
    const span = `${this.name}, ${start.toFixed(1)} to ${end.toFixed(1)} s`;
    const line = element("div", { className: "line", role: "group", "aria-label": span }, strip);
    this.parts.set(line, { start, end, from, until });
    this.box.append(line);
    this.watch.observe(line);
    [this.at, this.first] = [end, this.segments[until - 1]?.end > end ? until - 1 : until];
  }

  fill(line) {
    const strip = line.firstChild, part = this.parts.get(line);
    if (strip.childElementCount > 1 || !part) return;
    const percent = (seconds) => `${(100 * (clipped(seconds, part.start, part.end) - part.start)) / (part.end - part.start)}%`;
    const canvas = element("canvas", { role: "img", "aria-label": `Spectrogram, ${part.start.toFixed(1)} to ${part.end.toFixed(1)} s` });
    const picture = element("div", { className: "picture" }, canvas);
    for (let hertz = 1000; hertz < HIGHEST; hertz += 1000) {
      picture.append(element("span", { className: "hertz", "aria-hidden": true, style: { top: `${100 * (1 - hertz / HIGHEST)}%` } }, `${hertz / 1000} kHz`));
    }
    const cells = element("div", { className: "cells" });
    this.segments.slice(part.from, part.until).forEach((each, k) => {
      const start = Math.max(each.start, part.start), end = Math.min(each.end, part.end);
      const about = inWords(each), isNarrow = (end - start) * this.scale < LETTER * [...each.phone].length + AROUND;
      const kind = `cell${each.confidence < MIN_CONFIDENCE ? " doubtful" : ""}${isNarrow ? " narrow" : ""}`;
      const width = `${(100 * (end - start)) / (part.end - part.start)}%`;
      const cell = element("button", { type: "button", className: kind, title: about, "aria-label": about, tabIndex: k ? -1 : 0, style: { left: percent(start), width } }, element("span", {}, each.phone));
      Object.assign(cell.dataset, { start: start.toFixed(4), end: end.toFixed(4) });
      cell.style.setProperty("--share", clipped(each.confidence, 0, 1).toFixed(3));
      cells.append(cell);
    });
    const axis = element("div", { className: "axis", "aria-hidden": true });
    for (let k = Math.ceil(2 * part.start); k / 2 <= part.end; k += 1) axis.append(element("span", { style: { left: percent(k / 2) } }, (k / 2).toFixed(1)));
    strip.prepend(picture, element("div", { className: "tier", role: "group", "aria-label": "phones" }, cells), axis);
    this.paint(canvas, part).catch(() => canvas.setAttribute("aria-label", "No spectrogram: the file was moved or changed"));
  }

  async paint(canvas, { start, end }) {
    const { source } = this, first = Math.round((start - HALF) * source.rate), last = Math.round((end + HALF) * source.rate);
    const bytes = await bytesOf(source, first, last).arrayBuffer();
    const samples = new Float32Array(last - first);
    samples.set(mono(bytes, source), Math.max(-first, 0));
    draw(canvas, samples, source.rate, end - start);
  }

  empty(line) {
    if (line.contains(document.activeElement)) return;
    while (line.firstChild.childElementCount > 1) line.firstChild.firstChild.remove();
  }
}
