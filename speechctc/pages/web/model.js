// A model from the files of an exported one, and the way from samples to phones.

import { Gate } from "./activity.js";
import { cmnBlocks, FilterBank, localCmnBlocks } from "./features.js";
import { lasting } from "./formats.js";
import { Matrices } from "./matrix.js";
import { logitBlocks, Net } from "./net.js";
import { Ngram } from "./ngram.js";
import { amiss, FITS, placed } from "./placement.js";
import { joined } from "./rows.js";
import { Goodness } from "./scores.js";
import { chooseSearch } from "./search.js";
import { Segmenter } from "./segments.js";

const LOOKAHEAD = 0.2; // seconds after a frame that its means cover while someone speaks

// Numbers of 16 bits, IEEE 754, to 32: sign, power and part move to their new places, and the power to its new zero.
function fromHalves(buffer) {
  const bits = new Uint16Array(buffer), result = new Float32Array(bits.length), words = new Uint32Array(result.buffer);
  for (let k = 0; k < bits.length; k += 1) {
    const power = bits[k] & 0x7c00, sign = (bits[k] & 0x8000) << 16;
    if (!power) result[k] = (sign ? -1 : 1) * (bits[k] & 1023) * 2 ** -24;
    else words[k] = sign | (((bits[k] & 0x7fff) << 13) + (power === 0x7c00 ? 0x70000000 : 0x38000000));
  }
  return result;
}

const TYPES = {
  F16: fromHalves,
  F32: (buffer) => new Float32Array(buffer),
  F64: (buffer) => new Float64Array(buffer),
  I8: (buffer) => new Int8Array(buffer),
  U8: (buffer) => new Uint8Array(buffer),
  I32: (buffer) => new Int32Array(buffer),
  I64: (buffer) => new BigInt64Array(buffer),
};

// Reads a safetensors file: the length of a header, the header as JSON, then the numbers.
export function readTensors(bytes) {
  const head = Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true));
  const about = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + head)));
  delete about.__metadata__;
  const tensors = Object.fromEntries(Object.entries(about).map(([name, { dtype, shape, data_offsets: [first, end] }]) => {
    if (8 + head + end > bytes.length) throw new Error(`bytes of ${name} are missing`);
    const values = TYPES[dtype](bytes.slice(8 + head + first, 8 + head + end).buffer);
    return [name, { shape, values }];
  }));
  for (const name of Object.keys(tensors).filter((each) => tensors[each].values instanceof Int8Array)) {
    const { values, shape } = tensors[name], scales = tensors[`${name}_scale`]?.values, row = values.length / shape[0];
    if (scales?.length !== shape[0]) throw new Error(`${name} has no factors of its rows`);
    const wide = new Float32Array(values.length);
    for (let k = 0; k < wide.length; k += 1) wide[k] = values[k] * scales[Math.floor(k / row)];
    tensors[name].values = wide;
  }
  return tensors;
}

// A maximum would turn NaN into 0, and nobody would see it.
function finite(tensors) {
  const wrong = Object.keys(tensors).find((name) => !tensors[name].values.every(Number.isFinite));
  if (wrong) throw new Error(`${wrong} is infinite or not a number`);
  return tensors;
}

export class Model {
  // `about` has phones, silences, config and calibration; `weights` and `lm` are the bytes of files.
  constructor(about, weights, lm) {
    Object.assign(this, about);
    this.bank = new FilterBank(this.config.features);
    this.net = new Net(finite(readTensors(weights)), this.config, new Matrices());
    this.ngram = lm && this.config.decode.lm_weight > 0 ? new Ngram(readTensors(lm)) : null;
    const { sample_rate: rate, window_ms: window } = this.config.features;
    this.rate = rate;
    this.clock = { step: (this.bank.shift / rate) * this.config.model.time_stride, half: window * 0.0005 };
    this.silences = new Set(about.silences);
    this.goodness = about.goodness ? new Goodness(about.goodness, this.phones) : null;
    [this.silent, this.spoken] = [true, false].map((silent) => this.phones.flatMap((phone, k) => (this.silences.has(phone) === silent ? [k + 1] : [])));
  }

  // Yields log posteriors of mono samples at the model's rate, which come in blocks.
  *logPosteriors(blocks, live = false) {
    const lookahead = live ? Math.round((1000 * LOOKAHEAD) / this.config.features.shift_ms) : Infinity;
    const gate = new Gate(this.config, this.spoken), { dims } = this.bank, { classes } = this.net;
    const centred = cmnBlocks(gate.watch(this.bank.blocks(blocks)), dims, this.config.features, lookahead);
    for (const logits of gate.apply(logitBlocks(centred, this.net, lookahead), classes)) yield logSoftmax(logits, classes);
  }

  // Yields lists of phones while blocks of samples are read; `seconds` is asked for the length at the end.
  *phonesOf(blocks, seconds, alternatives = 2, live = false) {
    const search = chooseSearch(this.config, this.ngram, this.net.classes, live);
    const segmenter = new Segmenter(this.phones, this.silences, this.clock, this.calibration, alternatives);
    for (const block of this.logPosteriors(blocks, live)) {
      const { rows, path } = search.push(block);
      yield [...segmenter.push(rows, path)];
    }
    const { rows, path } = search.finish();
    yield [...segmenter.push(rows, path), ...segmenter.finish(seconds())];
  }

  // Yields nothing while blocks of samples are read, then the phones of words in time, each with its word and its score, if
  // the model scores. `words` are those of transcript.js; between words, not phones, there may be labels of silence.
  *placed(blocks, seconds, words, silences = []) {
    const { classes } = this.net, centred = localCmnBlocks(this.bank.blocks(blocks), this.bank.dims, this.config.features);
    let rows = new Float32Array(0);
    for (const logits of logitBlocks(centred, this.net, Infinity)) {
      rows = joined(rows, logSoftmax(logits, classes));
      yield [];
    }
    const found = placed(rows, classes, words, silences);
    const fewest = words.reduce((sum, { readings }) => sum + Math.min(...readings.map((each) => each.length)), 0);
    if (!found) throw new Error(`the recording is too short for ${fewest} phones.`);
    this.isUnlike = amiss(rows, classes, found, this.silent) > FITS;
    const segmenter = new Segmenter(this.phones, this.silences, this.clock, this.calibration, 0);
    const all = [...segmenter.push(rows, found.path), ...segmenter.finish(seconds())];
    const segments = lasting(all, this.shortest_segment, seconds());
    const scores = this.goodness?.scores(rows, found.visits, segments, (label) => this.silent.includes(label));
    yield segments.map((segment, k) => ({ ...segment, word: found.visits[k].word, goodness: scores?.[k] ?? null }));
  }
}

export function logSoftmax(logits, classes) {
  const result = new Float32Array(logits.length);
  for (let first = 0; first < logits.length; first += classes) {
    let most = -Infinity, total = 0;
    for (let k = first; k < first + classes; k += 1) most = Math.max(most, logits[k]);
    for (let k = first; k < first + classes; k += 1) total += Math.exp(logits[k] - most);
    const log = most + Math.log(total);
    for (let k = first; k < first + classes; k += 1) result[k] = logits[k] - log;
  }
  return result;
}
