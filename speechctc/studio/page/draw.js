// Draws the recording: all of it, waveform, spectrogram, axis, tiers, and over them cursor and selection.

import { part } from "./dom.js";
import { session, phoneAt, TOUCH } from "./session.js";
import { view, toX, end } from "./view.js";
import * as tiles from "./tiles.js";
import { shown } from "./notation.js";

export const ROW = 60; // pixels of the tier of phones
const DOUBT = 12; // of them under the labels, for how unsure a phone is
const LARGE = 16; // pixels of a label that has room in its phone, and
const SMALL = 12; // of one that stands over or under it
const BASES = [12, 45]; // of those
export const OTHER = 24; // and of each other tier
const SANS = "system-ui, sans-serif";
const canvases = Object.fromEntries(
  ["whole", "wave", "spectrogram", "axis", "tiers", "over"].map((id) => [id, part(id)]),
);
const stage = part("stage");
export const colours = {};
let playing = null; // the time that is heard

export function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["paper", "panel", "line", "ink", "soft", "accent", "on-accent", "right", "substituted", "substituted-back", "phones"]) {
    colours[name] = style.getPropertyValue(`--${name}`).trim();
  }
}

export function setPlaying(time) {
  playing = time;
  drawOver();
}

const DRAWN = { whole: drawWhole, wave: drawWave, spectrogram: drawSpectrogram, axis: drawAxis, tiers: drawTiers, over: drawOver };
const due = new Set(); // canvases to draw in the next frame

// Draws some canvases, or all.
export function draw(...names) {
  if (!due.size) requestAnimationFrame(() => {
    const now = [...due];
    due.clear();
    for (const name of now) DRAWN[name]();
  });
  for (const name of names.length ? names : Object.keys(DRAWN)) due.add(name);
}

function prepared(canvas, height = canvas.clientHeight) {
  const ratio = devicePixelRatio;
  const width = stage.clientWidth;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    if (height !== canvas.clientHeight) canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}

function fill(context, colour, ...box) {
  context.fillStyle = colour;
  context.fillRect(...box);
}

function onPaper(...canvas) {
  const found = prepared(...canvas);
  fill(found.context, colours.paper, 0, 0, found.width, found.height);
  return found;
}

// The largest sample of what is drawn, at least 1 % of full scale: the waveform is as high as there is room.
const peak = (found) => found.reduce((most, { pairs }) => (pairs ?? []).reduce((high, value) => Math.max(high, Math.abs(value)), most), 327);

function drawSound(context, found, start, scale, height) {
  const most = peak(found);
  for (const tile of found) {
    if (tile.pairs) drawPairs(context, tile, start, scale, height, most);
  }
}

function drawPairs(context, tile, start, scale, height, most) {
  const step = (tile.seconds * scale) / 512;
  context.beginPath();
  for (let k = 0; k < 512; k += 1) {
    const x = (tile.start - start) * scale + (k + 0.5) * step;
    if (x < -2 || x > view.width + 2) continue;
    const low = tile.pairs[2 * k] / most;
    const high = tile.pairs[2 * k + 1] / most;
    context.moveTo(x, (0.5 - high / 2) * height - 0.5);
    context.lineTo(x, (0.5 - low / 2) * height + 0.5);
  }
  context.lineWidth = Math.max(step, 1);
  context.stroke();
}

function drawWhole() {
  const { context, width, height } = prepared(canvases.whole);
  if (!session.name) return;
  const scale = width / session.seconds;
  context.strokeStyle = colours.soft;
  drawSound(context, tiles.wave(session.name, 0, session.seconds, scale, session.seconds), 0, scale, height);
  for (const { start, end: stop, checked, confidence } of session.phones) {
    if (!checked && confidence !== null && confidence < 0.4) {
      fill(context, colours.substituted, start * scale, height - 4, Math.max((stop - start) * scale, 1), 4);
    }
  }
  context.strokeStyle = colours.accent;
  context.lineWidth = 2;
  context.strokeRect(view.start * scale + 1, 1, Math.max((end() - view.start) * scale - 2, 4), height - 2);
}

function drawWave() {
  const { context, height } = onPaper(canvases.wave);
  if (!session.name) return;
  context.strokeStyle = colours.ink;
  drawSound(context, tiles.wave(session.name, view.start, end(), view.scale, session.seconds), view.start, view.scale, height);
}

function drawSpectrogram() {
  const { context, width, height } = prepared(canvases.spectrogram);
  fill(context, "#ffffff", 0, 0, width, height);
  if (!session.name) return;
  const found = tiles.spectrogram(session.name, view.start, end(), view.scale, session.seconds);
  if (found === null) {
    context.fillStyle = "#444444";
    context.font = `14px ${SANS}`;
    context.fillText("Zoom in to see the spectrogram", 12, 24);
    return;
  }
  for (const tile of found) {
    if (tile.image) context.drawImage(tile.image, toX(tile.start), 0, tile.seconds * view.scale, height);
    else fill(context, "#e4e4e4", toX(tile.start), 0, tile.seconds * view.scale, height); // it is not computed yet
  }
  const last = toX(session.seconds);
  if (last < width) fill(context, "#ffffff", last, 0, width - last, height);
  context.font = `11px ${SANS}`;
  const { highest } = tiles.settings;
  for (let hertz = 1000; hertz < highest; hertz += highest > 9000 ? 2000 : 1000) {
    const y = height * (1 - hertz / highest);
    fill(context, "#000000", 0, y, 6, 1);
    const text = `${hertz / 1000} kHz`;
    fill(context, "rgb(255 255 255 / 0.75)", 7, y - 6, context.measureText(text).width + 4, 12);
    context.fillStyle = "#000000";
    context.fillText(text, 9, y + 4);
  }
}

const STEPS = [...[0.001, 0.01, 0.1, 1].flatMap((power) => [power, 2 * power, 5 * power]), 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400]; // seconds

function drawAxis() {
  const { context, width, height } = onPaper(canvases.axis);
  if (!session.name) return;
  const least = 80 / view.scale;
  const step = STEPS.find((each) => each >= least) ?? least;
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  context.fillStyle = colours.soft;
  context.font = `12px ${SANS}`;
  for (let k = Math.ceil(view.start / step); k * step <= Math.min(end(), session.seconds); k += 1) {
    const x = toX(k * step);
    context.fillRect(x, 0, 1, 5);
    const time = k * step;
    const text = time >= 60 ? `${Math.floor(time / 60)}:${(time % 60).toFixed(digits).padStart(digits ? digits + 3 : 2, "0")}` : time.toFixed(digits);
    const wide = context.measureText(text).width;
    context.fillText(text, x + 3 + wide < width ? x + 3 : x - 3 - wide, 15);
  }
}

function tiersHeight() {
  return ROW + OTHER * session.tiers.length + 2;
}

function drawTiers() {
  const { context, width, height } = onPaper(canvases.tiers, tiersHeight());
  drawPhones(context, width);
  session.tiers.forEach((tier, k) => drawTier(context, tier, ROW + k * OTHER, width));
}

// Start and end of a phone in pixels; while a boundary is dragged, as it will be.
function edges(phone) {
  const { moving } = session;
  const at = (time) => toX(moving && Math.abs(time - moving.from) < TOUCH ? moving.time : time);
  return [at(phone.start), at(phone.end)];
}

const widths = new Map(); // of labels, in pixels for each pixel of their size

function wide(context, text) {
  if (!widths.has(text)) {
    context.font = `${LARGE}px ${colours.phones}`;
    widths.set(text, context.measureText(text).width / LARGE);
  }
  return widths.get(text);
}

// Where labels go: in the phone if it has room, else small and above or below it, where that is free; else null.
function layOut(context, boxes, width) {
  const free = BASES.map(() => -Infinity);
  return boxes.map(({ text, left, right }) => {
    const share = wide(context, text);
    const middle = (Math.max(left, 0) + Math.min(right, width)) / 2;
    if (share * LARGE <= Math.min(right, width) - Math.max(left, 0) - 3) return { x: middle, base: 29, size: LARGE };
    const half = (share * SMALL) / 2;
    const lane = free[0] <= free[1] ? 0 : 1;
    const x = Math.max(Math.min(Math.max(middle, half + 1), width - half - 1), free[lane] + half);
    if (x - middle > half + 6) return null;
    free[lane] = x + half + 2;
    return { x, base: BASES[lane], size: SMALL, half };
  });
}

// The least scale, from one on, at which every label has room.
export function roomyScale(phones, scale) {
  const context = canvases.tiers.getContext("2d");
  for (; scale < 2000; scale *= 1.15) {
    const boxes = phones.map(({ start, end: stop, label }) => ({ text: shown(label), left: start * scale, right: stop * scale }));
    if (!layOut(context, boxes, Infinity).includes(null)) break;
  }
  return scale;
}

function drawPhones(context, width) {
  let drawn = -10; // the pixel that the last phone reached, where many share one
  const phones = session.phones.length ? session.phones : session.heard;
  const boxes = [];
  for (let k = Math.max(phoneAt(view.start, phones), 0); k < phones.length; k += 1) {
    if (phones[k].start > end()) break;
    const [left, right] = edges(phones[k]);
    if (right < Math.max(drawn + 0.7, 0)) continue;
    drawn = right;
    boxes.push({ phone: phones[k], text: shown(phones[k].label), left, right, chosen: k === session.chosen });
  }
  for (const box of boxes) drawBox(context, box);
  const places = layOut(context, boxes, width);
  const isFull = 2 * places.filter((place) => place).length > places.length; // else a few labels would look like all
  context.textAlign = "center";
  places.forEach((place, k) => place && (isFull || place.size === LARGE) && drawLabel(context, boxes[k], place));
  context.textAlign = "start";
}

function drawBox(context, { phone, left, right, chosen }) {
  if (phone.checked) {
    for (const y of [ROW - 8, ROW - 4]) fill(context, colours.right, left, y, right - left, 2);
  } else if (phone.confidence !== null) {
    const high = DOUBT * (1 - phone.confidence);
    fill(context, colours.substituted, left, ROW - 1 - high, right - left, high);
  }
  if (chosen) fill(context, colours.accent, left, 1, right - left, ROW - DOUBT - 2);
  fill(context, colours.ink, left - 0.5, 0, 1, ROW);
  context.fillRect(right - 0.5, 0, 1, ROW);
}

function drawLabel(context, { text, chosen }, { x, base, size, half }) {
  if (size === SMALL) {
    fill(context, chosen ? colours.accent : colours.paper, x - half - 1, base - 11, 2 * half + 2, 14);
  }
  context.font = `${size}px ${colours.phones}`;
  context.fillStyle = chosen ? colours["on-accent"] : colours.ink;
  context.fillText(text, x, base);
}

// How low a score of score-phones is: as on its page, 1 below 0.2 and 2 below 0.05.
function poorness(tier, label) {
  const score = ["score", "goodness"].includes(tier.name) && !tier.points && label.trim() ? Number(label) : 1;
  return score < 0 ? 0 : score < 0.05 ? 2 : score < 0.2 ? 1 : 0;
}

function drawTier(context, tier, top, width) {
  fill(context, colours.line, 0, top, width, 1);
  context.font = `13px ${colours.phones}`;
  const first = tier.entries.findIndex(([, stop]) => stop >= view.start);
  for (let k = Math.max(first, 0); k < tier.entries.length && tier.entries[k][0] <= end(); k += 1) {
    const [start, stop, label] = tier.entries[k];
    const left = toX(start);
    const right = tier.points ? left + 60 : toX(stop);
    const poor = poorness(tier, label);
    if (poor) {
      fill(context, colours["substituted-back"], left, top + 1, right - left, OTHER - 1);
      fill(context, colours.substituted, left, top + OTHER - 1 - 2 * poor, right - left, 2 * poor);
    }
    fill(context, colours.line, left, top, 1, OTHER);
    if (!tier.points) context.fillRect(right, top, 1, OTHER);
    if (right - left < 8) continue;
    context.save();
    context.beginPath();
    context.rect(left, top, right - left, OTHER);
    context.clip();
    context.fillStyle = colours.ink;
    context.fillText(label, Math.max(left, 0) + 4, top + 16);
    context.restore();
  }
  context.font = `11px ${SANS}`;
  const name = context.measureText(tier.name).width;
  fill(context, colours.panel, width - name - 8, top + 2, name + 8, OTHER - 4);
  context.fillStyle = colours.soft;
  context.fillText(tier.name, width - name - 4, top + 16);
}

function drawOver() {
  const sound = canvases.wave.clientHeight + canvases.spectrogram.clientHeight;
  const { context, height } = prepared(canvases.over, sound + 22 + tiersHeight());
  if (!session.name) return;
  if (session.selection) {
    const [start, stop] = session.selection.map(toX);
    context.globalAlpha = 0.18;
    fill(context, colours.accent, start, 0, stop - start, sound);
    context.globalAlpha = 1;
  }
  const phone = session.phones[session.chosen];
  context.strokeStyle = colours.accent;
  if (phone) {
    context.setLineDash([4, 3]);
    for (const x of edges(phone)) line(context, x, sound, 1);
    context.setLineDash([]);
  }
  line(context, toX(session.cursor), height, 1.5);
  if (playing !== null) {
    context.strokeStyle = colours.substituted;
    line(context, toX(playing), height, 2);
  }
}

function line(context, x, height, width) {
  context.lineWidth = width;
  context.beginPath();
  context.moveTo(x, 0);
  context.lineTo(x, height);
  context.stroke();
}
