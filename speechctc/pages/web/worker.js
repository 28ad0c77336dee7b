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
    else {
      waiting.push(data);
      work();
    }
  } catch (error) {
    postMessage({ id: data.id, error: error.message, damaged: Boolean(data.about) });
  }
};
