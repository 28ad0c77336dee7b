// Rows of numbers, one for each frame, in one Float32Array; how wide a row is, is known where they are used.

export function joined(...parts) {
  const some = parts.filter((part) => part.length);
  if (some.length === 1) return some[0];
  const whole = new Float32Array(some.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of some) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

export function argmax(values, first = 0, end = values.length) {
  let best = first;
  for (let k = first + 1; k < end; k += 1) if (values[k] > values[best]) best = k;
  return best - first;
}

// Of sorted values, the one with a share of them below it; between two, in proportion.
export function quantile(sorted, share) {
  const place = share * (sorted.length - 1), low = Math.floor(place);
  return sorted[low] + (place - low) * (sorted[Math.min(low + 1, sorted.length - 1)] - sorted[low]);
}

export function clipped(value, low, high) {
  return Math.min(Math.max(value, low), high);
}

// Yields what a function makes of rows that come in blocks: it is applied to windows with rows behind and ahead. Without
// a size, a window has all rows that can be done. Of `stride` rows it makes one, of `made` values.
export function* inWindows(blocks, width, apply, { behind, ahead, size = 0, stride = 1, made = width }) {
  let waiting = new Float32Array(0), before = 0;
  const place = (row) => (row / stride) * made;
  for (const block of blocks) {
    if (!block.length) yield block;
    else waiting = joined(waiting, block);
    for (;;) {
      const count = waiting.length / width, done = size ? before + size : count - ahead;
      if (!block.length || done <= before || done + ahead > count) break;
      yield apply(waiting.subarray(0, (done + ahead) * width)).slice(place(before), place(done));
      before = Math.min(behind, done);
      waiting = waiting.slice((done - before) * width);
    }
  }
  if (waiting.length / width > before) yield apply(waiting).slice(place(before));
}
