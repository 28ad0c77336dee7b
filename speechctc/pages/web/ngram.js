// A back-off n-gram of phones as an automaton. A state is a node of the trie of its strings; the rows of a state, log
// probabilities and next states of all classes, are made when it is first reached. As lm/ngram.py and lm/model.py.

const START = 0, ROOT = 0, END = 0; // tokens: the start 0, phones from 1, the end `classes`; column 0: the end

export class Ngram {
  constructor(tensors) {
    const values = (name) => tensors[`ngram.${name}`].values;
    this.classes = Number(values("classes")[0]);
    this.unseen = values("unseen")[0];
    this.starts = Array.from(values("starts"), Number);
    [this.token, this.logProb, this.backoff] = ["token", "log_prob", "backoff"].map(values);
    this.less = tensors["ngram.less"]?.values ?? []; // taken from the log probability of each phone
    const children = values("children"), nodes = this.token.length;
    this.inner = children.length; // nodes that may have children
    this.first = new Int32Array(this.inner + 1).fill(1); // of each node's children
    for (let k = 0; k < this.inner; k += 1) this.first[k + 1] = this.first[k] + Number(children[k]);
    this.parent = new Int32Array(nodes);
    for (let k = 0; k < this.inner; k += 1) this.parent.fill(k, this.first[k], this.first[k + 1]);
    this.suffix = this.suffixes();
    this.rows = new Map();
    this.start = this.state(Math.max(this.find(ROOT, START), ROOT));
  }

  find(parent, token) {
    if (parent >= this.inner) return -1;
    let low = this.first[parent], high = this.first[parent + 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.token[middle] < token) low = middle + 1;
      else high = middle;
    }
    return low < this.first[parent + 1] && this.token[low] === token ? low : -1;
  }

  // By node, the longest string that ends it, is shorter, and is in the trie.
  suffixes() {
    const suffix = new Int32Array(this.token.length);
    for (let node = this.starts[2] ?? this.token.length; node < this.token.length; node += 1) {
      let context = suffix[this.parent[node]], found = this.find(context, this.token[node]);
      while (found < 0 && context !== ROOT) {
        context = suffix[context];
        found = this.find(context, this.token[node]);
      }
      suffix[node] = Math.max(found, ROOT);
    }
    return suffix;
  }

  // The node whose predictions are those of a node: one without children and back-off has those of its suffix.
  state(node) {
    let at = node;
    while (at !== ROOT && (this.token[at] === this.classes || !this.apart(at))) at = this.suffix[at];
    return at;
  }

  apart(node) {
    return node < this.inner && (this.first[node + 1] > this.first[node] || this.backoff[node] !== 0);
  }

  row(state) {
    let row = this.rows.get(state);
    if (row) return row;
    if (state === ROOT) row = { logProbs: new Float64Array(this.classes).fill(this.unseen), next: new Int32Array(this.classes).fill(ROOT) };
    else {
      const shorter = this.row(this.state(this.suffix[state]));
      row = { logProbs: shorter.logProbs.map((value) => value + this.backoff[state]), next: shorter.next.slice() };
    }
    for (let node = this.first[state]; node < this.first[state + 1]; node += 1) {
      if (this.token[node] === START) continue;
      const column = this.token[node] % this.classes;
      row.logProbs[column] = this.logProb[node];
      row.next[column] = column === END ? START : this.state(node);
    }
    row.scores = Float32Array.from(row.logProbs, (value, column) => value - (this.less[column] ?? 0));
    this.rows.set(state, row);
    return row;
  }
}

// All classes are equally probable after any context.
export function flatNgram(classes) {
  const row = { scores: new Float32Array(classes).fill(-Math.log(classes)), next: new Int32Array(classes) };
  return { start: 0, row: () => row };
}
