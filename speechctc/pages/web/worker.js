// Recognises in the background: takes the model once, then recordings, and tells the phones as they become known.

import { Model } from "./model.js";
import { resampled } from "./resample.js";
import { sampleBlocks } from "./samples.js";

let model = null;
const stopped = new Set();
const reader = typeof FileReaderSync === "undefined" ? null : new FileReaderSync();

function decoded(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const letters = atob(text), bytes = new Uint8Array(letters.length);
  for (let k = 0; k < bytes.length; k += 1) bytes[k] = letters.charCodeAt(k);
  return bytes;
}

const others = () => new Promise((done) => { setTimeout(done); }); // lets a message come in

async function recognise(id, source) {
  let read = 0;
  function* counted() {
    for (const block of sampleBlocks(source, (part) => reader.readAsArrayBuffer(part))) {
      read += block.length;
      yield block;
    }
  }
  const seconds = source.frames / source.rate;
  for (const phones of model.phonesOf(resampled(counted(), source.rate, model.rate), () => seconds)) {
    postMessage({ id, phones, seconds: Math.min(read / source.rate, seconds) });
    await others();
    if (stopped.has(id)) return;
  }
  postMessage({ id, done: true, phones: [], seconds });
}

let hear = () => {}; // takes samples of the microphone; null at their end

// Tells the phones while someone speaks.
async function listen(rate) {
  const parts = [];
  let ended = false, arrived = () => {};
  hear = (samples) => {
    if (samples) parts.push(samples);
    else ended = true;
    arrived();
  };
  function* heard() {
    for (;;) yield parts.shift() ?? new Float32Array(0);
  }
  for (const phones of model.phonesOf(resampled(heard(), rate, model.rate), null, 0, true)) {
    if (phones.length) postMessage({ heard: phones.map(({ phone }) => phone) });
    while (!parts.length && !ended) await new Promise((done) => { arrived = done; });
    if (ended) return;
    await others();
  }
}

const waiting = [];
let busy = false;

async function work() {
  if (busy) return;
  busy = true;
  while (waiting.length) {
    const { id, source } = waiting.shift();
    if (stopped.has(id)) continue;
    try {
      await recognise(id, source);
    } catch (error) {
      postMessage({ id, error: error.message });
    }
  }
  busy = false;
}

globalThis.onmessage = ({ data }) => {
  try {
    if (data.about) {
      model = new Model(data.about, decoded(data.weights), data.lm ? decoded(data.lm) : null);
      postMessage({ ready: true });
    } else if (data.stop) stopped.add(data.id);
    else if (data.listen) listen(data.listen).catch((error) => postMessage({ error: error.message }));
    else if ("samples" in data) hear(data.samples);
    else {
      waiting.push(data);
      work();
    }
  } catch (error) {
    postMessage({ id: data.id, error: error.message, damaged: Boolean(data.about) });
  }
};
