// The Fourier transform of real samples and its inverse, in powers of two, in place.

export class Fourier {
  constructor(size) {
    this.size = size;
    this.real = new Float64Array(size);
    this.imaginary = new Float64Array(size);
    this.cosine = Float64Array.from({ length: size / 2 }, (_, k) => Math.cos((2 * Math.PI * k) / size));
    this.sine = Float64Array.from({ length: size / 2 }, (_, k) => -Math.sin((2 * Math.PI * k) / size));
    this.order = new Uint32Array(size); // the place of each sample, its bits reversed
    for (let k = 1; k < size; k += 1) this.order[k] = (this.order[k >> 1] >> 1) | (k & 1 ? size >> 1 : 0);
  }

  // Transforms the first `count` of `samples`, the rest of which is 0, into `real` and `imaginary`.
  transform(samples, count) {
    const { size, real, imaginary, order } = this;
    imaginary.fill(0);
    for (let k = 0; k < size; k += 1) real[order[k]] = k < count ? samples[k] : 0;
    this.butterflies();
  }

  // Transforms frequencies 0 to half the rate, from `first` on in two arrays, into real samples: `real`, times the size.
  inverse(re, im, first) {
    const { size, real, imaginary, order } = this;
    for (let k = 0; k < size; k += 1) {
      const at = first + Math.min(k, size - k), sign = k > size / 2 ? 1 : -1; // of the conjugate, since samples are real
      real[order[k]] = re[at];
      imaginary[order[k]] = sign * im[at];
    }
    this.butterflies();
  }

  butterflies() {
    const { size, real, imaginary, cosine, sine } = this;
    for (let half = 1; half < size; half *= 2) {
      const turn = size / (2 * half);
      for (let first = 0; first < size; first += 2 * half) {
        for (let k = 0; k < half; k += 1) {
          const a = first + k, b = a + half, c = cosine[k * turn], s = sine[k * turn];
          const x = real[b] * c - imaginary[b] * s, y = real[b] * s + imaginary[b] * c;
          real[b] = real[a] - x;
          imaginary[b] = imaginary[a] - y;
          real[a] += x;
          imaginary[a] += y;
        }
      }
    }
  }

  // Returns the power of frequency 0 to half the rate.
  power(samples, count, result) {
    const { size, real, imaginary } = this;
    this.transform(samples, count);
    for (let k = 0; k <= size / 2; k += 1) result[k] = real[k] * real[k] + imaginary[k] * imaginary[k];
    return result;
  }
}
