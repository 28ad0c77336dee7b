// A transcript placed in log posteriors: each of its words by the pronunciation that fits best, with silences between
// words where the model has labels for them. As inference/transcript.py and ctc/graph.py: states and arcs come in the same
// order, so that equal scores fall the same way.

import { argmax, quantile } from "./rows.js";

const MOST = 5e8; // pairs of frames and states, a byte each
const INSIDE = 0.1, PAUSE = [5, 50]; // what a blank inside a word, or between two phones, costs: as in inference/placement.py
const BETWEEN = -2; // in place of the number of a word: between two phones

// States in order, each with its class, the number of its word (below 0 between words), and those that lead to it; those that
// may be last, in the order in which they are chosen.
function compiled(words, silences) {
  const states = [];
  const add = (label, word, from) => states.push({ label, word, from }) - 1;
  const other = (label, phones) => phones.filter((phone) => states[phone].label !== label);
  let phones = []; // that end the word before
  const between = (number) => {
    const arePhones = number > 0 && words[number - 1].isPhone && words[number]?.isPhone;
    const blank = add(0, arePhones ? BETWEEN : -1, [...phones]), silent = silences.map((label) => add(label, -1, [...other(label, phones), blank]));
    states[blank].from.push(...silent);
    phones.push(...silent);
    return blank;
  };
  words.forEach(({ readings }, number) => {
    const blank = between(number), last = [];
    for (const labels of readings) {
      let state = add(labels[0], number, [blank, ...other(labels[0], phones)]);
      for (const label of labels.slice(1)) {
        const inner = add(0, number, [state]);
        state = add(label, number, [inner, ...other(label, [state])]);
      }
      last.push(state);
    }
    phones = last;
  });
  const blank = between(words.length);
  return { states, last: [blank, ...phones] };
}

// Returns the class of each frame on the best path, and the phones on it in order, each with its word and its frames, from
// `first` to before `end`; null if the words do not fit. A word has `readings`, lists of classes; a phone that stands
// alone `isPhone`.
export function placed(rows, classes, words, silences = []) {
  const { states, last } = compiled(words, silences), frames = rows.length / classes, count = states.length;
  if (frames * count > MOST) throw new Error("recording and transcript are too long for a page; cut them into parts.");
  const steps = new Uint8Array(frames * count); // 0: the same state before; k: the k-th that leads to it
  let before = new Float64Array(count).fill(-Infinity), now = new Float64Array(count);
  before[0] = 0;
  let heard = -PAUSE[1] - 1; // the last frame in which a phone is most probable
  for (let t = 0; t < frames; t += 1) {
    if (argmax(rows, t * classes, (t + 1) * classes)) heard = t;
    const isPause = t - heard > PAUSE[0] && t - heard <= PAUSE[1];
    for (let k = 0; k < count; k += 1) {
      const { label, word, from } = states[k], isDear = !label && (word >= 0 || (word === BETWEEN && isPause));
      let best = before[k], step = 0;
      for (let n = 0; n < from.length; n += 1) if (before[from[n]] > best) [best, step] = [before[from[n]], n + 1];
      now[k] = best + rows[t * classes + label] - (isDear ? INSIDE : 0);
      steps[t * count + k] = step;
    }
    [before, now] = [now, before];
  }
  let state = last.reduce((best, each) => (before[each] > before[best] ? each : best));
  if (!frames || before[state] === -Infinity) return null;
  const path = new Array(frames), visits = [];
  for (let t = frames - 1, later = -1; t >= 0; t -= 1) {
    const { label, word, from } = states[state];
    path[t] = label;
    if (label && state !== later) visits.push({ label, word, end: t + 1 });
    if (label) visits[visits.length - 1].first = t;
    later = state;
    const step = steps[t * count + state];
    if (step) state = from[step - 1];
  }
  return { path, visits: visits.reverse() };
}

const LEAST_TOLD = 8, WORTH = 8.4; // as in inference/alignment.py
export const FITS = 0.5;

// How much is amiss in words that are placed, in phones for each of their phones: by how much their path is less probable
// than what is recognised. As `amiss` in inference/alignment.py; `silent` are labels that are no speech.
export function amiss(rows, classes, { path, visits }, silent) {
  const told = visits.filter(({ label }) => !silent.includes(label)).length, worths = [];
  if (told < LEAST_TOLD) return 0;
  let behind = 0, before = 0;
  path.forEach((label, t) => {
    const row = rows.subarray(t * classes, (t + 1) * classes), greedy = argmax(row);
    behind += row[greedy] - row[label];
    if (greedy && greedy !== before && !silent.includes(greedy)) worths.push(0);
    if (worths.length) worths[worths.length - 1] += row[greedy] - row[0];
    before = greedy;
  });
  worths.sort((a, b) => a - b);
  return behind / told / Math.max(worths.length ? quantile(worths, 0.75) : 0, WORTH);
}
