// A spectrogram with the settings of Praat, drawn into a canvas. As pages/spectrogram.py.

import { Fourier } from "./fft.js";

export const HIGHEST = 5500; // Hz
const WINDOW = 0.005; // seconds; as in Praat, the Gaussian window is computed over twice this length
const RANGE = 50, PREEMPHASIS = 6; // dB; dB for each octave
const COLUMNS_PER_SECOND = 200, ROWS = 120;
export const HALF = WINDOW; // seconds of sound before the first and after the last column

// Levels in dB by row, the highest frequency first; `samples` begin and end HALF seconds outside of what is drawn.
export function levels(samples, rate, columns, rows = ROWS) {
  const length = Math.max(Math.round(2 * WINDOW * rate), 3), edge = Math.exp(-12), height = HIGHEST / rows;
  const window = Float64Array.from({ length }, (_, k) => (Math.exp(-48 * ((k - 0.5 * (length - 1)) / (length + 1)) ** 2) - edge) / (1 - edge));
  const fourier = new Fourier(2 ** Math.ceil(Math.log2(Math.max(length, rate / height))));
  const heard = Array.from({ length: rows }, (_, row) => (rows - row - 0.5) * height);
  const bins = heard.map((hertz) => Math.min(Math.round((hertz / rate) * fourier.size), fourier.size / 2));
  const lift = heard.map((hertz) => PREEMPHASIS * Math.log2(hertz / 1000));
  const frame = new Float64Array(length), power = new Float64Array(fourier.size / 2 + 1), result = new Float32Array(rows * columns);
  const drawn = samples.length - 2 * Math.round(HALF * rate);
  for (let column = 0; column < columns; column += 1) {
    const start = Math.floor(((column + 0.5) / columns) * drawn);
    for (let k = 0; k < length; k += 1) frame[k] = (samples[start + k] ?? 0) * window[k];
    fourier.power(frame, length, power);
    for (let row = 0; row < rows; row += 1) {
      result[row * columns + column] = heard[row] > rate / 2 ? -Infinity : 10 * Math.log10(power[bins[row]]) + lift[row];
    }
  }
  return result;
}

export function draw(canvas, samples, rate, seconds) {
  const columns = Math.max(Math.round(seconds * COLUMNS_PER_SECOND), 1), found = levels(samples, rate, columns);
  const most = found.reduce((a, b) => Math.max(a, b), -Infinity);
  canvas.width = columns;
  canvas.height = ROWS;
  const context = canvas.getContext("2d"), picture = context.createImageData(columns, ROWS);
  for (let k = 0; k < found.length; k += 1) {
    const grey = Number.isFinite(most) ? Math.min(Math.max((255 * (most - found[k])) / RANGE, 0), 255) : 255;
    picture.data.set([grey, grey, grey, 255], 4 * k);
  }
  context.putImageData(picture, 0, 0);
}
