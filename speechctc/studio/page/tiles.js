// Tiles of the spectrogram and of the waveform: asked for when they are seen, and kept.

import { address, getBytes } from "./api.js";

const COLUMNS = 512;
const KEPT = 240;
const SPECTROGRAM = { first: -3, last: 5 }; // tiles of 2 ** level seconds
const WAVE = { first: -3, last: 13 };

export const settings = { window: 0.005, highest: 5500, range: 50 };

const pictures = new Map();
const waves = new Map();
let arrived = () => {};

export function onTile(listener) {
  arrived = listener;
}

function level(scale, { first, last }) {
  const dense = COLUMNS / devicePixelRatio;
  return Math.min(Math.max(Math.ceil(Math.log2(dense / 1.5 / scale)), first), last);
}

// What was fetched of a tile; the most recently used ones are kept.
function ready(cache, route, values, read, ...seen) {
  const key = address(route, values);
  const tile = cache.get(key) ?? load(cache, route, key, values, read, seen);
  cache.delete(key);
  cache.set(key, tile);
  if (cache.size > KEPT) cache.delete(cache.keys().next().value);
  return tile.ready;
}

function range(start, stop, seconds, total) {
  const first = Math.max(Math.floor(start / seconds), 0);
  const last = Math.min(Math.floor(stop / seconds), Math.ceil(total / seconds) - 1);
  return Array.from({ length: Math.max(last - first + 1, 0) }, (_, k) => first + k);
}

// The tiles of the spectrogram between two times; null where too much is seen for one.
export function spectrogram(name, start, stop, scale, total) {
  const of = level(scale, SPECTROGRAM);
  const seconds = 2 ** of;
  if (seconds * scale < 200) return null;
  const wanted = range(start - seconds / 2, stop + seconds / 2, seconds, total);
  return wanted.map((number) => {
    const values = { recording: name, level: of - SPECTROGRAM.first, number, ...settings };
    return { start: number * seconds, seconds, image: ready(pictures, "tile", values, toImage, "spectrogram") };
  });
}

function load(cache, route, key, values, read, seen) {
  const tile = { ready: null };
  getBytes(route, values)
    .then(read)
    .then((found) => {
      tile.ready = found;
      arrived(...seen);
    })
    .catch(() => cache.delete(key));
  return tile;
}

const toImage = (bytes) => createImageBitmap(new Blob([bytes], { type: "image/png" }));
const toPairs = (bytes) => new Int16Array(bytes);

// The tiles of the waveform between two times: pairs of lowest and highest, from -32767 to 32767.
export function wave(name, start, stop, scale, total) {
  const of = level(scale, WAVE);
  const seconds = 2 ** of;
  return range(start, stop, seconds, total).map((number) => {
    const values = { recording: name, start: number * seconds, stop: (number + 1) * seconds, columns: COLUMNS };
    return { start: number * seconds, seconds, pairs: ready(waves, "wave", values, toPairs, "wave", "whole") };
  });
}

export function forget() {
  pictures.clear();
}
