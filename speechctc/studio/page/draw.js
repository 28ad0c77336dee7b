// Draws the recording: all of it, waveform, spectrogram, axis, tiers, and over them cursor and selection.

import { session, phoneAt } from "./session.js";
import { view, toX, end } from "./view.js";
import * as tiles from "./tiles.js";
import { shown } from "./notation.js";

export const ROW = 34; // pixels of the tier of phones
export const OTHER = 24; // and of each other tier
const canvases = Object.fromEntries(
  ["whole", "wave", "spectrogram", "axis", "tiers", "over"].map((id) => [id, document.getElementById(id)]),
);
const stage = document.getElementById("stage");
let colours = {};
let waiting = false;
let playing = null; // the time that is heard

export function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["paper", "panel", "line", "ink", "soft", "accent", "on-accent", "right", "substituted", "mark", "phones"]) {
    colours[name] = style.getPropertyValue(`--${name}`).trim();
  }
}

export function setPlaying(time) {
  playing = time;
  drawOver();
}

export function draw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    drawWhole();
    drawWave();
    drawSpectrogram();
    drawAxis();
    drawTiers();
    drawOver();
  });
}

function prepared(canvas, height = Number(canvas.getAttribute("data-height"))) {
  const ratio = window.devicePixelRatio || 1;
  const width = stage.clientWidth;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}

// The largest sample of what is drawn, at least 1 % of full scale: the waveform is as high as there is room.
function peak(found) {
  let most = 327;
  for (const tile of found) {
    if (!tile.pairs) continue;
    for (const value of tile.pairs) most = Math.max(most, Math.abs(value));
  }
  return most;
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
  const { context, width, height } = prepared(canvases.whole, 36);
  if (!session.name) return;
  const scale = width / session.seconds;
  context.strokeStyle = colours.soft;
  const found = tiles.wave(session.name, 0, session.seconds, scale, session.seconds);
  for (const tile of found) {
    if (tile.pairs) drawPairs(context, tile, 0, scale, height, peak(found));
  }
  context.fillStyle = colours.substituted;
  for (const phone of session.phones) {
    if (!phone.checked && phone.confidence !== null && phone.confidence < 0.4) {
      context.fillRect(phone.start * scale, height - 4, Math.max((phone.end - phone.start) * scale, 1), 4);
    }
  }
  context.strokeStyle = colours.accent;
  context.lineWidth = 2;
  context.strokeRect(view.start * scale + 1, 1, Math.max((end() - view.start) * scale - 2, 4), height - 2);
}

function drawWave() {
  const { context, width, height } = prepared(canvases.wave, 90);
  context.fillStyle = colours.paper;
  context.fillRect(0, 0, width, height);
  if (!session.name) return;
  context.strokeStyle = colours.ink;
  const found = tiles.wave(session.name, view.start, end(), view.scale, session.seconds);
  for (const tile of found) {
    if (tile.pairs) drawPairs(context, tile, view.start, view.scale, height, peak(found));
  }
}

function drawSpectrogram() {
  const { context, width, height } = prepared(canvases.spectrogram, 220);
  context.fillStyle = "#ffffff";
  context.fillRect(0, 0, width, height);
  if (!session.name) return;
  const found = tiles.spectrogram(session.name, view.start, end(), view.scale, session.seconds);
  if (found === null) {
    context.fillStyle = "#444444";
    context.font = "14px system-ui, sans-serif";
    context.fillText("Zoom in to see the spectrogram", 12, 24);
    return;
  }
  for (const tile of found) {
    if (tile.image) context.drawImage(tile.image, toX(tile.start), 0, tile.seconds * view.scale, height);
  }
  const last = toX(session.seconds);
  if (last < width) context.fillRect(last, 0, width - last, height);
  context.fillStyle = "#000000";
  context.font = "11px system-ui, sans-serif";
  const { highest } = tiles.settings;
  for (let hertz = 1000; hertz < highest; hertz += highest > 9000 ? 2000 : 1000) {
    const y = height * (1 - hertz / highest);
    context.fillRect(0, y, 6, 1);
    const text = `${hertz / 1000} kHz`;
    context.fillStyle = "rgb(255 255 255 / 0.75)";
    context.fillRect(7, y - 6, context.measureText(text).width + 4, 12);
    context.fillStyle = "#000000";
    context.fillText(text, 9, y + 4);
  }
}

function stepOfAxis() {
  const least = 80 / view.scale;
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least);
}

function drawAxis() {
  const { context } = prepared(canvases.axis, 22);
  const step = stepOfAxis();
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  context.fillStyle = colours.soft;
  context.font = "12px system-ui, sans-serif";
  for (let k = Math.ceil(view.start / step); k * step <= Math.min(end(), session.seconds); k += 1) {
    const x = toX(k * step);
    context.fillRect(x, 0, 1, 5);
    const time = k * step;
    const text = time >= 60 ? `${Math.floor(time / 60)}:${(time % 60).toFixed(digits).padStart(digits ? digits + 3 : 2, "0")}` : time.toFixed(digits);
    context.fillText(text, x + 3, 15);
  }
}

export function tiersHeight() {
  return ROW + OTHER * session.tiers.length + 2;
}

function drawTiers() {
  const { context, width, height } = prepared(canvases.tiers, tiersHeight());
  context.fillStyle = colours.paper;
  context.fillRect(0, 0, width, height);
  drawPhones(context, width);
  session.tiers.forEach((tier, k) => drawTier(context, tier, ROW + k * OTHER, width));
}

function drawPhones(context, width) {
  context.textAlign = "center";
  let drawn = -10; // the pixel that the last phone reached, where many share one
  const phones = session.phones.length ? session.phones : session.heard;
  for (let k = Math.max(phoneAt(view.start, phones), 0); k < phones.length; k += 1) {
    const phone = phones[k];
    if (phone.start > end()) break;
    const left = toX(phone.start);
    const right = toX(phone.end);
    if (right < drawn + 0.7) continue;
    drawn = right;
    drawPhone(context, phone, k, left, right, width);
  }
  context.textAlign = "start";
}

function drawPhone(context, phone, number, left, right, width) {
  const chosen = number === session.chosen;
  if (!phone.checked && phone.confidence !== null) {
    context.globalAlpha = Math.min(Math.max((1 - phone.confidence) * 0.75, 0), 0.75);
    context.fillStyle = colours.substituted;
    context.fillRect(left, 1, right - left, ROW - 2);
    context.globalAlpha = 1;
  }
  if (phone.checked) {
    context.fillStyle = colours.right;
    context.fillRect(left, ROW - 5, right - left, 4);
  }
  if (chosen) {
    context.fillStyle = colours.accent;
    context.fillRect(left, 1, right - left, ROW - 2);
  }
  context.fillStyle = colours.ink;
  context.fillRect(left - 0.5, 0, 1, ROW);
  context.fillRect(right - 0.5, 0, 1, ROW);
  const text = shown(phone.label);
  context.font = `16px ${colours.phones}`;
  if (right - left > 5 && context.measureText(text).width < right - left + 2) {
    context.fillStyle = chosen ? colours["on-accent"] : colours.ink;
    const middle = (Math.max(left, 0) + Math.min(right, width)) / 2;
    context.fillText(text, middle, ROW / 2 + 4);
  }
}

// How dark a score of score-phones is: as on its page, those below 0.2 are shaded, and those below 0.05 more.
function shade(tier, label) {
  const score = ["score", "goodness"].includes(tier.name) && !tier.points && label.trim() ? Number(label) : 1;
  return score < 0 ? 0 : score < 0.05 ? 0.6 : score < 0.2 ? 0.25 : 0;
}

function drawTier(context, tier, top, width) {
  context.fillStyle = colours.line;
  context.fillRect(0, top, width, 1);
  context.font = `13px ${colours.phones}`;
  let low = 0;
  let high = tier.entries.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (tier.entries[middle][1] < view.start) low = middle + 1;
    else high = middle;
  }
  for (let k = low; k < tier.entries.length && tier.entries[k][0] <= end(); k += 1) {
    const [start, stop, label] = tier.entries[k];
    const left = toX(start);
    const right = tier.points ? left + 60 : toX(stop);
    context.globalAlpha = shade(tier, label);
    context.fillStyle = colours.substituted;
    context.fillRect(left, top + 1, right - left, OTHER - 1);
    context.globalAlpha = 1;
    context.fillStyle = colours.line;
    context.fillRect(left, top, 1, OTHER);
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
  context.fillStyle = colours.soft;
  context.font = "11px system-ui, sans-serif";
  const name = context.measureText(tier.name).width;
  context.fillStyle = colours.panel;
  context.fillRect(width - name - 8, top + 2, name + 8, OTHER - 4);
  context.fillStyle = colours.soft;
  context.fillText(tier.name, width - name - 4, top + 16);
}

export function drawOver() {
  const { context, height } = prepared(canvases.over, 90 + 220 + 22 + tiersHeight());
  if (!session.name) return;
  if (session.selection) {
    const [start, stop] = session.selection.map(toX);
    context.globalAlpha = 0.18;
    context.fillStyle = colours.accent;
    context.fillRect(start, 0, stop - start, 310);
    context.globalAlpha = 1;
  }
  const phone = session.phones[session.chosen];
  if (phone) {
    context.strokeStyle = colours.accent;
    context.setLineDash([4, 3]);
    for (const time of [phone.start, phone.end]) line(context, toX(time), 310, 1);
    context.setLineDash([]);
  }
  context.strokeStyle = colours.accent;
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
