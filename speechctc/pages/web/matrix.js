// Matrix products in WebAssembly: the one part of the net that JavaScript is too slow for.
//
// The module is written here, instruction by instruction, since a page has no compiler. Its one function computes
// c = a b + bias in tiles of ROWS x 8 numbers, which stay in registers. Rows of `a` may overlap: a convolution over time
// is a product whose rows begin one frame apart and are several frames long.

export const ROWS = 4; // of a tile; `c` needs room for a multiple of it
export const WIDE = 8; // columns of a tile, two vectors
export const STEP = 4; // terms of the sum in one turn of the inner loop; `b` has rows of zeros up to a multiple of it
const PAGE = 65536;

const GET = 0x20, SET = 0x21, TEE = 0x22, CONST = 0x41, ADD = 0x6a, MUL = 0x6c, LESS = 0x48;
const BLOCK = [0x02, 0x40], LOOP = [0x03, 0x40], END = 0x0b, AGAIN_IF = [0x0d, 0x00], LEAVE_UNLESS = [0x45, 0x0d, 0x01];
const VECTOR = 0xfd, TIMES = [VECTOR, 0xe6, 0x01], PLUS = [VECTOR, 0xe4, 0x01], FUSED = [VECTOR, 0x85, 0x02];
const INTEGER = 0x7f, VECTOR_TYPE = 0x7b;

// LEB128, signed where a constant is.
function number(value) {
  const bytes = [];
  for (; value > 127; value >>>= 7) bytes.push((value & 127) | 128);
  return [...bytes, value];
}

function constant(value) {
  const bytes = [];
  for (; value > 63; value >>= 7) bytes.push((value & 127) | 128);
  return [CONST, ...bytes, value];
}

const load = (offset) => [VECTOR, 0x00, 0x02, ...number(offset)];
const spread = (offset) => [VECTOR, 0x09, 0x02, ...number(offset)]; // one number into all places of a vector
const store = (offset) => [VECTOR, 0x0b, 0x02, ...number(offset)];
const section = (id, content) => [id, ...number(content.length), ...content];
const text = (name) => [name.length, ...[...name].map((letter) => letter.charCodeAt(0))];

// Repeats `body` while `counter` is less than the parameter `limit`; `body` moves the counter.
function whileLess(counter, limit, body) {
  const test = [GET, counter, GET, limit, LESS];
  return [...BLOCK, ...LOOP, ...test, ...LEAVE_UNLESS, ...body, ...constant(1), ...AGAIN_IF, END, END];
}

// Instructions of the product; `fused` multiplies and adds in one, which newer browsers have.
function product(fused) {
  const [a, aRow, b, bias, c, cRow, rows, terms, columns] = Array.from({ length: 9 }, (_, k) => k);
  const [row, term, column, source, target, here] = [9, 10, 11, 12, 13, 14];
  const at = (r) => 15 + r; // where the rows of `a` are read
  const sum = (r, half) => 15 + ROWS + 2 * r + half;
  const [left, right, factor] = [0, 1, 2].map((k) => 15 + ROWS + 2 * ROWS + k);
  const added = (to) => [...(fused ? [GET, to, ...FUSED] : [...TIMES, GET, to, ...PLUS]), SET, to];
  const eachRow = (make) => Array.from({ length: ROWS }, (_, r) => make(r)).flat();
  const more = (local, by) => [GET, local, ...by, ADD, SET, local];
  const terms4 = Array.from({ length: STEP }, (_, k) => [
    GET, here, ...load(k * 4 * WIDE), SET, left, GET, here, ...load(k * 4 * WIDE + 16), SET, right,
    ...eachRow((r) => [
      GET, at(r), ...spread(4 * k), TEE, factor, GET, left, ...added(sum(r, 0)), GET, factor, GET, right, ...added(sum(r, 1)),
    ]),
  ]).flat();
  const inner = whileLess(term, terms, [
    ...terms4, ...eachRow((r) => more(at(r), constant(4 * STEP))),
    ...more(here, constant(4 * WIDE * STEP)), ...more(term, constant(STEP)),
  ]);
  const tile = [
    ...eachRow((r) => [GET, bias, ...load(0), SET, sum(r, 0), GET, bias, ...load(16), SET, sum(r, 1)]),
    ...eachRow((r) => [...(r ? [GET, at(r - 1), GET, aRow, ADD] : [GET, source]), SET, at(r)]),
    GET, b, SET, here, ...constant(0), SET, term, ...inner,
    ...eachRow((r) => [
      GET, target, GET, sum(r, 0), ...store(0), GET, target, GET, sum(r, 1), ...store(16), ...more(target, [GET, cRow]),
    ]),
    ...more(source, [GET, aRow, ...constant(ROWS), MUL]), ...more(row, constant(ROWS)),
  ];
  const panel = [
    ...constant(0), SET, row, GET, a, SET, source, GET, c, SET, target, ...whileLess(row, rows, tile),
    ...more(b, [GET, terms, ...constant(4 * WIDE), MUL]), ...more(bias, constant(4 * WIDE)),
    ...more(c, constant(4 * WIDE)), ...more(column, constant(WIDE)),
  ];
  const locals = [2, ...number(6 + ROWS), INTEGER, ...number(2 * ROWS + 3), VECTOR_TYPE];
  return [...locals, ...constant(0), SET, column, ...whileLess(column, columns, panel), END];
}

export function moduleBytes(fused = false) {
  const body = product(fused);
  return Uint8Array.from([
    0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0,
    ...section(1, [1, 0x60, 9, ...Array(9).fill(INTEGER), 0]), // one type: nine integers to nothing
    ...section(2, [1, ...text("of"), ...text("memory"), 0x02, 0x00, 1]),
    ...section(3, [1, 0]),
    ...section(7, [1, ...text("product"), 0x00, 0]),
    ...section(10, [1, ...number(body.length), ...body]),
  ]);
}

// Numbers in the memory of the module: weights that stay, and behind them room for what a pass needs.
export class Matrices {
  constructor(choices = [moduleBytes(true), moduleBytes()]) {
    this.memory = new WebAssembly.Memory({ initial: 1 });
    const bytes = choices.find((each) => WebAssembly.validate(each));
    const built = new WebAssembly.Instance(new WebAssembly.Module(bytes), { of: { memory: this.memory } });
    this.call = built.exports.product;
    this.used = 16; // bytes
  }

  // Returns the place of `count` numbers, in bytes; `view` gives the numbers, until more room is taken.
  take(count) {
    const place = this.used;
    this.used += (4 * count + 15) & ~15;
    const missing = this.used + 4 * PAGE - this.memory.buffer.byteLength; // the last tile reads beyond what it needs
    if (missing > 0) this.memory.grow(Math.ceil(missing / PAGE));
    return place;
  }

  // Gives back what was taken after the room was `used`.
  release(used) {
    this.used = used;
  }

  view(place, count) {
    return new Float32Array(this.memory.buffer, place, count);
  }

  // Stores weights, given as (output, term) => number, as the product reads them: by 8 outputs, then by term.
  pack(outputs, terms, weight, bias) {
    const columns = Math.ceil(outputs / WIDE) * WIDE, depth = Math.ceil(terms / STEP) * STEP;
    const weights = this.take(columns * depth), biases = this.take(columns);
    const values = this.view(weights, columns * depth).fill(0);
    for (let output = 0; output < outputs; output += 1) {
      const first = Math.floor(output / WIDE) * WIDE * depth + (output % WIDE);
      for (let term = 0; term < terms; term += 1) values[first + term * WIDE] = weight(output, term);
    }
    this.view(biases, columns).fill(0).set(bias);
    return { weights, biases, columns, depth };
  }

  // c = a b + bias; places in bytes, `aRow` the numbers from one row of `a` to the next.
  product(a, aRow, packed, c, rows) {
    const { weights, biases, columns, depth } = packed;
    this.call(a, 4 * aRow, weights, biases, c, 4 * columns, rows, depth, columns);
  }
}
