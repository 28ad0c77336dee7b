// How well the phones of a transcript were said. As inference/goodness.py and ctc/alternatives.py.

function sum(a, b) {
  const most = Math.max(a, b);
  return most === -Infinity ? most : most + Math.log1p(Math.exp(-Math.abs(a - b)));
}

function total(values, but = -1) {
  let most = -Infinity, sum = 0;
  values.forEach((value, k) => { if (k !== but && value > most) most = value; });
  if (most === -Infinity) return most;
  values.forEach((value, k) => { if (k !== but) sum += Math.exp(value - most); });
  return most + Math.log(sum);
}

const clipped = (value, low, high) => Math.min(Math.max(value, low), high);

// Log probabilities of all beginnings of paths, frames x states; `emission(t, state)`, `label(state)` of the odd states.
function prefixes(frames, states, emission, label) {
  const alpha = new Float64Array(frames * states).fill(-Infinity);
  for (let state = 0; state < Math.min(2, states); state += 1) alpha[state] = emission(0, state);
  for (let t = 1; t < frames; t += 1) {
    for (let state = 0; state < states; state += 1) {
      const before = (t - 1) * states + state;
      let come = alpha[before];
      if (state) come = sum(come, alpha[before - 1]);
      if (state % 2 && state > 1 && label(state) !== label(state - 2)) come = sum(come, alpha[before - 2]);
      alpha[t * states + state] = come + emission(t, state);
    }
  }
  return alpha;
}

// Log ratios of each alternative to the labels themselves, a row of 3 x classes for each label: left out, in its place,
// after it, and before the first; null if the labels do not fit. `rows`: log posteriors, frames x classes.
export function ratios(rows, classes, labels) {
  const frames = rows.length / classes, count = labels.length, states = 2 * count + 1;
  const repeats = labels.filter((label, k) => k && label === labels[k - 1]).length;
  if (!count || count + repeats > frames) return null;
  const at = (t, state) => rows[t * classes + (state % 2 ? labels[(state - 1) / 2] : 0)];
  const alpha = prefixes(frames, states, at, (state) => labels[(state - 1) / 2]);
  const back = prefixes(frames, states, (t, state) => at(frames - 1 - t, states - 1 - state), (state) => labels[(states - 2 - state) / 2]);
  const beta = (t, state) => back[(frames - 1 - t) * states + states - 1 - state];
  const own = sum(alpha[frames * states - 1], alpha[frames * states - 2]);
  if (own === -Infinity) return null;
  // What has come to the blank of a gap and to the label before it, before a frame; and what follows from a frame on.
  const intoBlank = (t, gap) => (t ? alpha[(t - 1) * states + 2 * gap] : gap ? -Infinity : 0);
  const intoLabel = (t, gap) => (t && gap ? alpha[(t - 1) * states + 2 * gap - 1] : -Infinity);
  const outBlank = (t, gap) => (t < frames ? beta(t, 2 * gap) : gap === count ? 0 : -Infinity);
  const outLabel = (t, gap) => (t < frames && gap < count ? beta(t, 2 * gap + 1) : -Infinity);
  const found = Array.from({ length: count }, () => new Float64Array(3 * classes).fill(-Infinity));
  const inserted = Array.from({ length: count + 1 }, () => new Float64Array(classes).fill(-Infinity));
  const state = Array.from({ length: count + 1 }, () => new Float64Array(classes).fill(-Infinity));
  for (let t = 0; t < frames; t += 1) {
    for (let gap = 0; gap <= count; gap += 1) {
      const here = state[gap], blank = intoBlank(t, gap), label = intoLabel(t, gap), both = sum(blank, label);
      for (let k = 1; k < classes; k += 1) here[k] = sum(here[k], gap && k === labels[gap - 1] ? blank : both) + rows[t * classes + k];
    }
    for (let gap = 0; gap <= count; gap += 1) {
      const blank = outBlank(t + 1, gap), label = outLabel(t + 1, gap), both = sum(blank, label);
      for (let k = 1; k < classes; k += 1) {
        const leave = gap < count && k === labels[gap] ? blank : both;
        inserted[gap][k] = sum(inserted[gap][k], state[gap][k] + leave);
        if (gap) found[gap - 1][k] = sum(found[gap - 1][k], state[gap - 1][k] + leave);
      }
    }
  }
  labels.forEach((label, k) => {
    const row = found[k];
    row[label] = own;
    row[0] = without(k);
    for (let other = 1; other < classes; other += 1) {
      row[classes + other] = inserted[k + 1][other];
      if (!k) row[2 * classes + other] = inserted[0][other];
    }
    for (let column = 0; column < 3 * classes; column += 1) row[column] -= own;
  });
  return found;

  // The probability without a label: the gap before it goes on to the label after it.
  function without(k) {
    const last = k === count - 1, same = k > 0 && !last && labels[k + 1] === labels[k - 1];
    if (last) return sum(intoBlank(frames, k), intoLabel(frames, k));
    let result = -Infinity;
    for (let t = 0; t <= frames; t += 1) {
      const come = sum(intoBlank(t, k), same ? -Infinity : intoLabel(t, k));
      result = sum(result, come + outLabel(t, k + 1));
    }
    return result;
  }
}

// The rank of a value among quantiles of these ranks.
function rank(value, quantiles, ranks) {
  const last = quantiles.length - 1;
  if (value > quantiles[last]) return 1 - rank(-value, quantiles.map((each) => -each).reverse(), ranks);
  if (value < quantiles[0]) {
    const scale = Math.max((quantiles[2] - quantiles[0]) / Math.log(ranks[2] / ranks[0]), 1e-3);
    return ranks[0] * Math.exp((value - quantiles[0]) / scale);
  }
  const k = Math.max(quantiles.findIndex((each) => each >= value), 1);
  const share = (value - quantiles[k - 1]) / (quantiles[k] - quantiles[k - 1]);
  return ranks[k - 1] + share * (ranks[k] - ranks[k - 1]);
}

export class Goodness {
  // `about`: what is usual in right speech, and the constants, as `Goodness.plain` in inference/goodness.py.
  constructor(about, phones) {
    Object.assign(this, about, { phones, classes: phones.length + 1 });
  }

  // The log weight of each alternative, by label.
  weighed(labels, seen) {
    const { classes } = this;
    const weights = seen.map((row, n) => row.map((value, k) => value + this.log_usual[labels[n]][k < 2 * classes ? k : k - classes]));
    const against = weights.map((row, n) => total(row.subarray(0, classes), labels[n]) - row[labels[n]]);
    weights.forEach((row, n) => {
      if (n + 1 === weights.length) return;
      for (let k = classes; k < 2 * classes; k += 1) row[k] -= sum(0, against[n + 1]);
    });
    return weights;
  }

  fit(label, seen, weights, seconds) {
    if (!this.gains) return clipped(weights[label] - total(weights, label), -this.most, this.most);
    const others = total(seen.subarray(1, this.classes), label - 1);
    const longer = clipped(Math.log(Math.max(seconds, this.shortest)) - this.seconds[label], -1, 1);
    const gained = this.taken_back * this.gains[this.vowels[label]] * longer;
    return clipped(-sum(others, -this.most), -this.most, this.most) - gained;
  }

  score(label, fit) {
    return this.gains ? Math.sqrt(rank(fit, this.quantiles[label], this.ranks)) : 1 / (1 + Math.exp(-fit));
  }

  text(label, column) {
    if (!column) return "-";
    const own = this.phones[label - 1], named = this.phones[(column % this.classes) - 1];
    return [named, `${own} ${named}`, `${named} ${own}`][Math.floor(column / this.classes)];
  }

  // Returns a score for each phone, or null where it is not judged, and what was probably said instead.
  judge(labels, seen, seconds) {
    const weights = this.weighed(labels, seen);
    return labels.map((label, n) => {
      if (this.unjudged.includes(this.phones[label - 1])) return null;
      const all = total(weights[n]), shares = Array.from(weights[n], (weight) => Math.exp(weight - all));
      const probability = shares[label];
      shares[label] = 0;
      const best = shares.map((_, k) => k).filter((k) => shares[k] >= this.least).sort((a, b) => shares[b] - shares[a]).slice(0, this.told);
      const score = this.score(label, this.fit(label, seen[n], weights[n], seconds[n]));
      return { score, probability, said: best.map((k) => [this.text(label, k), shares[k]]) };
    });
  }

  // Returns the scores of phones that are placed in log posteriors, with their segments in time; silences have none.
  scores(rows, visits, segments, silent) {
    const { classes } = this, found = new Array(visits.length).fill(null), labels = visits.map(({ label }) => label);
    const wanted = [], seen = [];
    for (let first = 0; first < labels.length; first += this.piece) {
      const end = Math.min(first + this.piece, labels.length);
      const low = Math.max(0, first - this.context), high = Math.min(labels.length, end + this.context);
      const start = low ? visits[low].first : 0, stop = high < labels.length ? visits[high - 1].end : rows.length / classes;
      const each = ratios(rows.subarray(start * classes, stop * classes), classes, labels.slice(low, high));
      for (let k = first; each && k < end; k += 1) {
        if (silent(labels[k])) continue;
        wanted.push(k);
        seen.push(each[k - low]);
      }
    }
    const seconds = wanted.map((k) => segments[k].end - segments[k].start);
    this.judge(wanted.map((k) => labels[k]), seen, seconds).forEach((score, n) => { found[wanted[n]] = score; });
    return found;
  }
}
