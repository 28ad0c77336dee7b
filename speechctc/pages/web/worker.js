// Recognises in the background: takes the model once, then recordings, and tells the phones as they become known.

import { Dereverberated } from "./dereverberation.js";
import { Model } from "./model.js";
import { resampled } from "./resample.js";
import { BLOCK, finiteMono } from "./samples.js";
import { Dictionary, parsed } from "./transcript.js";

const WARM_SECONDS = 1, WARM_PHONES = 10, WARM_ROUNDS = 6;

let model = null, packed = null, dictionary = null;
let current = null, awaited = -1, isStopped = false; // the recording that is recognised, and the sample it waits for
let arrived = () => {}; // takes bytes that were asked for, or none if it is stopped

function decoded(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const letters = atob(text), bytes = new Uint8Array(letters.length);
  for (let k = 0; k < bytes.length; k += 1) bytes[k] = letters.charCodeAt(k);
  return bytes;
}

// The dictionary, which is unpacked when it is first needed.
async function dictionaryOf() {
  if (!dictionary) {
    const { readable, writable } = new DecompressionStream("gzip"), writer = writable.getWriter(); // a blob has no bytes here in Safari
    for (const done of [writer.write(decoded(packed)), writer.close()]) done.catch(() => {}); // the reader tells
    dictionary = new Dictionary(await new Response(readable).text());
  }
  return dictionary;
}

const others = () => new Promise((done) => { setTimeout(done); }); // lets a message come in

// The page reads for it, one block ahead: of a page from a disk, Safari gives a worker no bytes of its files.
// With phones or words it places these, else it recognises.
async function recognise(id, source, wanted) {
  const words = wanted && parsed(wanted.text, model.phones, wanted.words ? await dictionaryOf() : null);
  let asked = 0, block = null;
  function* blocks() {
    while (block || asked < source.frames) {
      const known = block ?? new Float32Array(0);
      block = null;
      yield known;
    }
  }
  const seconds = source.frames / source.rate, length = () => seconds;
  const { dereverb } = model.config.decode, scored = wanted && model.goodness; // scores are of the sound as it is
  const samples = new Dereverberated(resampled(blocks(), source.rate, model.rate), model.rate, scored && dereverb === "auto" ? "never" : dereverb);
  const silences = wanted?.words ? model.silent : [];
  for (const phones of wanted ? model.placed(samples, length, words, silences) : model.phonesOf(samples, length)) {
    if (wanted && phones.length) postMessage({ id, placed: phones, words: wanted.words ? words.map((each) => each.text) : null, isUnlike: model.isUnlike });
    else if (!wanted) postMessage({ id, phones, seconds: Math.min(asked / source.rate, seconds) });
    if (!block && asked < source.frames) {
      const bytes = isStopped ? null : await new Promise((done) => {
        [arrived, awaited] = [done, asked];
        postMessage({ id, first: asked });
      });
      if (isStopped) return;
      block = finiteMono(bytes, source, asked);
      asked += BLOCK;
    }
  }
  if (!wanted) postMessage({ id, done: true, phones: [], seconds, dereverberated: samples.changed });
}

// Browsers compile what they have run a few times: made-up sound saves a person's first recording the wait.
async function warmUp() {
  const noise = Float32Array.from({ length: WARM_SECONDS * model.rate }, (_, k) => Math.sin(k * k));
  const text = model.spoken.slice(0, WARM_PHONES).map((k) => model.phones[k - 1]).join(" "), words = parsed(text, model.phones, null);
  for (let round = 0; round < WARM_ROUNDS && !busy; round += 1) {
    Array.from(model.placed([noise], () => WARM_SECONDS, words));
    await others();
  }
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
    const { id, source, wanted } = waiting.shift();
    [current, isStopped] = [id, false];
    try {
      await recognise(id, source, wanted);
    } catch (error) {
      postMessage({ id, error: error.message, unplaced: Boolean(wanted) });
    }
  }
  [busy, current] = [false, null];
}

globalThis.onmessage = ({ data }) => {
  try {
    if (data.about) {
      packed = data.words;
      model = new Model(data.about, decoded(data.weights), data.lm ? decoded(data.lm) : null);
      postMessage({ ready: true });
      setTimeout(() => warmUp().catch(() => {})); // a model that fails tells it with a recording
    } else if (data.stop) {
      for (let k = waiting.length - 1; k >= 0; k -= 1) if (waiting[k].id === data.id) waiting.splice(k, 1);
      if (current === data.id) {
        isStopped = true;
        arrived();
      }
    } else if (data.bytes) {
      if (data.id === current && data.first === awaited) arrived(data.bytes); // else for one that was stopped
    } else if (data.listen) listen(data.listen).catch((error) => postMessage({ error: error.message }));
    else if ("samples" in data) hear(data.samples);
    else {
      waiting.push(data);
      work();
    }
  } catch (error) {
    postMessage({ id: data.id, error: error.message, damaged: Boolean(data.about) });
  }
};
