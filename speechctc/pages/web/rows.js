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

export function clipped(value, low, high) {
  return Math.min(Math.max(value, low), high);
}
