// The net: convolutions over bands and time, then dense layers over time, as model/net.py. One recording at a time.

import { derivative } from "./features.js";
import { ROWS } from "./matrix.js";
import { inWindows, joined } from "./rows.js";

const CHUNK = 1024; // rows of a product that are gathered at a time
const EPSILON = 1e-5; // of the layer normalisation
const BLOCK_FRAMES = 2000; // of input in one pass
const upTo = (value, step) => Math.ceil(value / step) * step;

function maximum(values, from, result, at, units, pieces) {
  for (let k = 0; k < units; k += 1) {
    let most = values[from + k];
    for (let piece = 1; piece < pieces; piece += 1) most = Math.max(most, values[from + piece * units + k]);
    result[at + k] = most;
  }
}

const CURVES = {
  relu: (x) => Math.max(x, 0),
  silu: (x) => x / (1 + Math.exp(-x)),
  prelu: (x, slope) => (x < 0 ? slope * x : x),
};

export class Net {
  constructor(tensors, config, matrices) {
    this.tensor = (name) => tensors[`net.${name}`];
    this.config = config.model;
    this.features = config.features;
    this.matrices = matrices;
    this.mean = tensors["normalisation.mean"].values;
    this.std = tensors["normalisation.std"].values;
    if (!this.std.every((value) => value > 0)) throw new Error("normalisation.std has a value that is not above 0");
    this.dims = this.features.mels + (this.features.energy ? 1 : 0);
    const { convs, dense, pool, kernel } = this.config;
    const bands = Math.floor(this.dims / pool), maps = convs[convs.length - 1];
    this.convs = convs.map((_, k) => this.layer(`convs.${k}`, kernel, (height, width, channel, channels) =>
      (width * kernel[0] + height) * channels + channel));
    // After the convolutions, the bands of a frame come one after another, where torch has them map by map.
    const flat = (number) => (_, span, channel, channels) =>
      span * channels + (number ? channel : (channel % bands) * maps + Math.floor(channel / bands));
    this.dense = dense.map((_, k) => this.layer(`dense.${k}`, null, flat(k)));
    this.context = this.config.context ? this.around() : null;
    this.output = this.layer("output", null, flat(dense.length), "");
    this.norm = this.scale("norm");
    this.classes = this.output.outputs;
    this.room = matrices.used;
  }

  scale(name) {
    const weight = this.tensor(`${name}.weight`);
    return weight && { weight: weight.values, bias: this.tensor(`${name}.bias`).values };
  }

  around() {
    const layer = (name) => this.layer(`context.${name}`, null, (_, __, channel) => channel, "");
    return { norm: this.scale("context.norm"), down: layer("down"), up: this.dense.slice(1).map((_, k) => layer(`up.${k}`)) };
  }

  // Packs the weights of a layer; `place` tells which term of the sum a weight belongs to.
  layer(name, kernel, place, part = ".conv") {
    const { shape, values } = this.tensor(`${name}${part}.weight`);
    const [outputs, channels, height = 1, width = 1] = shape, each = channels * height * width;
    const from = new Uint32Array(each);
    for (let channel = 0, k = 0; channel < channels; channel += 1) {
      for (let row = 0; row < height; row += 1) {
        for (let column = 0; column < width; column += 1, k += 1) from[place(row, column, channel, channels)] = k;
      }
    }
    const weight = (output, term) => values[output * each + from[term]];
    const packed = this.matrices.pack(outputs, each, weight, this.tensor(`${name}${part}.bias`).values);
    const pieces = this.config.activation === "maxout" && part ? this.config.pieces : 1;
    const slopes = this.tensor(`${name}.activation.weight`)?.values;
    return { packed, outputs, channels, span: width, units: outputs / pieces, pieces, slopes, norm: this.scale(`${name}.norm`) };
  }

  activate(layer, values, from, result, at) {
    if (layer.pieces > 1) maximum(values, from, result, at, layer.units, layer.pieces);
    else {
      const curve = CURVES[this.config.activation];
      for (let k = 0; k < layer.units; k += 1) result[at + k] = curve(values[from + k], layer.slopes?.[k]);
    }
  }

  // Returns the logits, n x classes, of features after the sliding mean, of a whole recording; of `last` frames at its end, if
  // no more are asked for: those before may be zeros.
  forward(rows, last = Infinity) {
    if (!rows.length) return new Float32Array(0);
    const stride = this.config.time_stride, frames = rows.length / this.dims;
    let count = Math.ceil(frames / stride), cut = 0;
    let state = { values: this.input(rows, frames), frames, bands: this.dims, channels: 1 + this.features.deltas };
    this.convs.forEach((layer, k) => {
      state = this.convolved(state, layer, k ? 1 : stride);
      if (!k && this.config.pool > 1) state = pooled(state, this.config.pool);
    });
    let values = state.values;
    let heard = null;
    this.dense.forEach((layer, k) => {
      if (heard) values = this.changed(values, heard, this.context.up[k - 1]);
      values = this.denselyApplied(values, count, layer);
      if (k || !this.context) return;
      cut = Math.max(count - last, 0);
      [heard, values] = [this.heardAround(values, count), values].map((each) => each.subarray((cut / count) * each.length));
      count -= cut;
    });
    if (this.norm) values = normalised(values, values.length / count, this.norm);
    const logits = this.product(values, count, this.output, (out, t, result) => {
      for (let k = 0; k < this.classes; k += 1) result[t * this.classes + k] = out[t * this.output.packed.columns + k];
    });
    if (!logits.every(Number.isFinite)) throw new Error("The model's output is not finite: use another model.");
    return cut ? joined(new Float32Array(cut * this.classes), logits) : logits;
  }

  // Appends derivatives and normalises; frame by frame, band by band, channel by channel.
  input(rows, frames) {
    const orders = [rows];
    for (let k = 0; k < this.features.deltas; k += 1) orders.push(derivative(orders[k], this.dims, this.features));
    const channels = orders.length, values = new Float32Array(frames * this.dims * channels);
    orders.forEach((order, channel) => {
      for (let k = 0; k < order.length; k += 1) {
        const each = channel * this.dims + (k % this.dims);
        values[k * channels + channel] = (order[k] - this.mean[each]) / this.std[each];
      }
    });
    return values;
  }

  // The windows of a convolution are gathered as rows of a product, some at a time.
  convolved({ values, frames, bands, channels }, layer, stride) {
    const { matrices } = this, [height, width] = this.config.kernel, { packed } = layer;
    const top = Math.floor(height / 2), left = Math.floor(width / 2), count = Math.ceil(frames / stride);
    const lines = bands + 2 * top, padded = new Float32Array((frames + 2 * left) * lines * channels);
    for (let t = 0; t < frames; t += 1) {
      padded.set(values.subarray(t * bands * channels, (t + 1) * bands * channels), ((t + left) * lines + top) * channels);
    }
    const result = new Float32Array(count * bands * layer.units), run = height * channels;
    const a = matrices.take((CHUNK + ROWS) * packed.depth), c = matrices.take((CHUNK + ROWS) * packed.columns);
    matrices.view(a, (CHUNK + ROWS) * packed.depth).fill(0);
    for (let first = 0; first < count * bands; first += CHUNK) {
      const rows = Math.min(CHUNK, count * bands - first), gathered = matrices.view(a, (CHUNK + ROWS) * packed.depth);
      for (let row = 0; row < rows; row += 1) {
        const t = Math.floor((first + row) / bands) * stride, band = (first + row) % bands;
        for (let k = 0; k < width; k += 1) {
          const from = ((t + k) * lines + band) * channels, at = row * packed.depth + k * run;
          for (let each = 0; each < run; each += 1) gathered[at + each] = padded[from + each];
        }
      }
      matrices.product(a, packed.depth, packed, c, rows);
      const out = matrices.view(c, rows * packed.columns);
      for (let row = 0; row < rows; row += 1) this.activate(layer, out, row * packed.columns, result, (first + row) * layer.units);
    }
    matrices.release(this.room);
    if (this.config.residual && layer.channels === layer.units && stride === 1) add(result, values);
    return { values: result, frames: count, bands, channels: layer.units };
  }

  denselyApplied(values, frames, layer) {
    const residual = this.config.residual && layer.channels === layer.units;
    const inputs = residual && layer.norm ? normalised(values, layer.channels, layer.norm) : values;
    const result = this.product(inputs, frames, layer, (out, t, made) => {
      const from = t * layer.packed.columns;
      if (layer.norm && !residual) out.set(normalised(out.slice(from, from + layer.outputs), layer.outputs, layer.norm), from);
      this.activate(layer, out, from, made, t * layer.units);
    });
    return residual ? add(result, values) : result;
  }

  // What is heard around each frame, as a few values: of the mean over context_span frames, fewer at the ends.
  heardAround(values, frames) {
    const width = values.length / frames, half = Math.floor(this.config.context_span / 2), { norm, down } = this.context;
    const sums = new Float64Array(values.length + width), means = new Float32Array(values.length);
    for (let k = 0; k < values.length; k += 1) sums[k + width] = sums[k] + values[k];
    for (let t = 0; t < frames; t += 1) {
      const first = Math.max(t - half, 0), end = Math.min(t + half + 1, frames);
      for (let k = 0; k < width; k += 1) means[t * width + k] = (sums[end * width + k] - sums[first * width + k]) / (end - first);
    }
    return this.product(normalised(means, width, norm), frames, down, (out, t, made) => {
      for (let k = 0; k < down.outputs; k += 1) made[t * down.outputs + k] = Math.max(out[t * down.packed.columns + k], 0);
    });
  }

  // Scales and shifts the inputs of a layer by what is heard around them.
  changed(values, heard, up) {
    const width = up.outputs / 2;
    return this.product(heard, values.length / width, up, (out, t, made) => {
      const factor = t * up.packed.columns, shift = factor + width;
      for (let k = 0, at = t * width; k < width; k += 1, at += 1) made[at] = values[at] * (1 + out[factor + k]) + out[shift + k];
    }, width);
  }

  // Multiplies frames, with those around them, by the weights of a layer; `finish` makes its units of each frame.
  product(values, frames, layer, finish, units = layer.units) {
    const { matrices } = this, { channels, span, packed } = layer, around = Math.floor(span / 2) * channels;
    const size = (frames + span + ROWS) * channels, a = matrices.take(size);
    const c = matrices.take(upTo(frames, ROWS) * packed.columns), padded = matrices.view(a, size).fill(0);
    padded.set(values, around);
    matrices.product(a, channels, packed, c, frames);
    const out = matrices.view(c, frames * packed.columns), result = new Float32Array(frames * units);
    for (let t = 0; t < frames; t += 1) finish(out, t, result);
    matrices.release(this.room);
    return result;
  }
}

function add(values, others) {
  for (let k = 0; k < values.length; k += 1) values[k] += others[k];
  return values;
}

function pooled({ values, frames, bands, channels }, pool) {
  const fewer = Math.floor(bands / pool), result = new Float32Array(frames * fewer * channels).fill(-Infinity);
  for (let t = 0; t < frames; t += 1) {
    for (let band = 0; band < fewer * pool; band += 1) {
      const from = (t * bands + band) * channels, at = (t * fewer + Math.floor(band / pool)) * channels;
      for (let k = 0; k < channels; k += 1) result[at + k] = Math.max(result[at + k], values[from + k]);
    }
  }
  return { values: result, frames, bands: fewer, channels };
}

function normalised(values, width, { weight, bias }) {
  const result = new Float32Array(values.length);
  for (let from = 0; from < values.length; from += width) {
    let mean = 0, square = 0;
    for (let k = 0; k < width; k += 1) mean += values[from + k];
    mean /= width;
    for (let k = 0; k < width; k += 1) square += (values[from + k] - mean) ** 2;
    const scale = 1 / Math.sqrt(square / width + EPSILON);
    for (let k = 0; k < width; k += 1) result[from + k] = (values[from + k] - mean) * scale * weight[k] + bias[k];
  }
  return result;
}

// How many static frames one output frame depends on.
function receptiveField(model, features, spans) {
  const around = model.context ? model.context_span - 1 : 0;
  const wide = model.kernel[1] - 1, later = around + (model.convs.length - 1) * wide + spans.reduce((sum, span) => sum + span - 1, 0);
  return 1 + wide + later * model.time_stride + features.deltas * (features.delta_window - 1);
}

// Yields the logits of features that come in blocks, equal to those of one pass; with `lookahead` at once: what the net
// hears around a frame is then of the frames before it.
export function logitBlocks(blocks, net, lookahead = Infinity) {
  const { config: model, features, dims, classes: made } = net, stride = model.time_stride, live = lookahead < Infinity;
  const spans = net.dense.map((layer) => layer.span);
  const half = (config) => upTo(Math.floor((receptiveField(config, features, spans) - 1) / 2), stride);
  const size = upTo(live ? Math.max(lookahead, 1) : BLOCK_FRAMES, stride);
  const reach = { behind: half(model), ahead: half(live ? { ...model, context: 0 } : model), size, stride, made };
  const last = live ? (2 * reach.ahead + size) / stride : Infinity; // most of a window serves the mean alone
  return inWindows(blocks, dims, (rows) => net.forward(rows, last), reach);
}
