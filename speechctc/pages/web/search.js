// From log posteriors to the class of each frame: the best path, or a prefix beam search with an n-gram, in blocks.
// As decoding/search.py and beam.py: candidates meet in the same order, so that equal scores fall the same way.

import { flatNgram } from "./ngram.js";
import { argmax, joined } from "./rows.js";

const STRIDE = 8; // frames between commits
const MARGIN = 10, DELAY = 2, LIVE_DELAY = 0.4, FLOOR = -1e4;
const PRIME = 16777619; // FNV-1a, with phones in place of octets, is the hash of phones; a second one makes 64 bits

export class GreedySearch {
  constructor(classes) {
    this.classes = classes;
  }

  push(rows) {
    const { classes } = this;
    return { rows, path: Array.from({ length: rows.length / classes }, (_, t) => argmax(rows, t * classes, (t + 1) * classes)) };
  }

  finish() {
    return { rows: new Float32Array(0), path: [] };
  }
}

function sum(a, b) {
  return Math.max(a, b) + Math.log1p(Math.exp(-Math.abs(a - b)));
}

export class BeamSearch {
  constructor(ngram, classes, { weight, bonus, beam, limit }) {
    Object.assign(this, { ngram, classes, weight, bonus, beam, limit });
    this.tokens = [{ score: 0, best: 0, code: 0, other: 0, state: ngram.start, last: 0 }];
    this.frames = []; // of each frame that is not committed yet, its parents and labels by token
    this.waiting = new Float32Array(0);
    this.seen = 0;
  }

  // Processes the next frames; returns those that are committed by now, and their classes.
  push(rows) {
    const path = [];
    for (let at = 0; at < rows.length; at += this.classes) {
      this.keep(this.candidates(rows, at));
      this.seen += 1;
      if (this.seen % STRIDE) continue;
      if (this.frames.length > this.limit) this.agree(this.frames.length - this.limit - 1);
      path.push(...this.commit());
    }
    return this.taken(joined(this.waiting, rows), path);
  }

  finish() {
    const path = [];
    if (this.frames.length) {
      this.end();
      path.push(...this.commit());
    }
    return this.taken(this.waiting, path);
  }

  taken(rows, path) {
    this.waiting = rows.slice(path.length * this.classes);
    return { rows: rows.slice(0, path.length * this.classes), path };
  }

  // One for each sequence of phones and last class; paths that meet are summed.
  candidates(rows, at) {
    const { classes, weight, bonus } = this, found = [], known = new Map();
    const row = Float32Array.from(rows.subarray(at, at + classes), (value) => Math.max(value, FLOOR));
    const floor = row[argmax(row)] - MARGIN, labels = [];
    for (let label = 0; label < classes; label += 1) if (row[label] >= floor) labels.push(label);
    this.tokens.forEach((token, parent) => {
      const { scores, next } = this.ngram.row(token.state);
      for (const label of labels) {
        let gain = row[label], { code, other, state } = token;
        if (label > 0 && label !== token.last) {
          gain += weight * scores[label] + bonus;
          code = Math.imul(code ^ label, PRIME);
          other = Math.imul(other, 31) + label | 0;
          state = next[label];
        }
        this.meet(found, known, code, other, state, label, token.score + gain, token.best + gain, parent);
      }
    });
    return found;
  }

  meet(found, known, code, other, state, last, score, best, parent) {
    const key = (code ^ Math.imul(last, 0x9e3779b1)) | 0, beside = known.get(key);
    let same = beside;
    while (same && (same.code !== code || same.other !== other || same.last !== last)) same = same.beside;
    if (!same) {
      known.set(key, { code, other, state, last, score, best, parent, number: found.length, beside });
      found.push(known.get(key));
      return;
    }
    same.score = sum(same.score, score);
    if (best > same.best) {
      same.best = best;
      same.parent = parent;
    }
  }

  // Keeps the best candidates; of equal ones, the first.
  keep(found) {
    const least = Float64Array.from(found, (each) => each.score).sort()[Math.max(found.length - this.beam, 0)];
    const kept = found.filter((each) => each.score >= least).sort((a, b) => b.score - a.score || a.number - b.number).slice(0, this.beam);
    const { score, best } = kept[0];
    this.tokens = kept.map((each) => ({
      score: each.score - score, best: each.best - best, code: each.code, other: each.other, state: each.state, last: each.last,
    }));
    this.frames.push({ parents: kept.map((each) => each.parent), labels: kept.map((each) => each.last) });
  }

  // Drops the tokens whose best path differs from the first token's up to a frame.
  agree(frame) {
    let before = this.tokens.map((_, k) => k);
    for (let t = this.frames.length - 1; t > frame; t -= 1) before = before.map((k) => this.frames[t].parents[k]);
    const same = this.tokens.map((_, k) => k).filter((k) => before[k] === before[0]);
    const newest = this.frames[this.frames.length - 1];
    this.tokens = same.map((k) => this.tokens[k]);
    newest.parents = same.map((k) => newest.parents[k]);
    newest.labels = same.map((k) => newest.labels[k]);
  }

  // Returns the classes of the frames in which all best paths agree.
  commit() {
    let distinct = this.tokens.map((_, k) => k), frame = this.frames.length - 1;
    for (; distinct.length > 1 && frame >= 0; frame -= 1) {
      distinct = [...new Set(distinct.map((k) => this.frames[frame].parents[k]))];
    }
    const path = Array(frame + 1);
    for (let t = frame, [k] = distinct; t >= 0; t -= 1) {
      path[t] = this.frames[t].labels[k];
      k = this.frames[t].parents[k];
    }
    this.frames.splice(0, frame + 1);
    return path;
  }

  // Keeps only the best path of the sequence that is best with the end of the utterance included.
  end() {
    let [best, most] = [0, -Infinity];
    this.tokens.forEach((token, k) => {
      let score = -Infinity, path = k;
      this.tokens.forEach((other, place) => { // with a blank or a phone in the last frame
        if (other.code !== token.code || other.other !== token.other) return;
        score = sum(score, other.score);
        if (other.best > this.tokens[path].best) path = place;
      });
      score += this.weight * this.ngram.row(token.state).scores[0];
      if (score > most) [best, most] = [path, score];
    });
    const newest = this.frames[this.frames.length - 1];
    newest.parents[0] = newest.parents[best];
    newest.labels[0] = newest.labels[best];
    this.tokens = [this.tokens[best]];
  }
}

// The search of a model's config.
export function chooseSearch(config, ngram, classes, live = false) {
  const { lm_weight: weight, lm_bonus: bonus, beam, search } = config.decode;
  const uses = ngram && weight > 0;
  if (search === "greedy" || (search === "auto" && !uses)) return new GreedySearch(classes);
  const limit = Math.ceil((1000 * (live ? LIVE_DELAY : DELAY)) / (config.features.shift_ms * config.model.time_stride));
  return new BeamSearch(uses ? ngram : flatNgram(classes), classes, { weight: uses ? weight : 0, bonus: uses ? bonus : 0, beam, limit });
}
