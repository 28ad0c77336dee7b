// Sound from files and from the microphone, as samples that lie in a file (see samples.js).

import { compressedRate, layout, wavHeader } from "./samples.js";

const HEAD = 65536;
const LARGE = 48e6; // bytes of a compressed file that is decoded at the model's rate, since its samples must fit into memory
const UNPLAYED = /\.(wav|sph)$/i;

// Returns the samples of a file, and a file that the browser plays.
export async function opened(file, rate) {
  const head = new Uint8Array(await file.slice(0, HEAD).arrayBuffer());
  const place = layout(head, file.size);
  if (place?.promised > place?.frames) {
    throw new Error(`${file.name}: bytes are missing; it was cut off, or copied as text. speechctc decode mends the latter.`);
  }
  if (place?.frames) {
    const source = { ...place, blob: file };
    const wrapped = head[0] === 0x4e ? new Blob([wavHeader(source), file.slice(source.offset)], { type: "audio/wav" }) : file;
    return { source, played: wrapped };
  }
  if (!file.size || place) throw new Error(`${file.name}: there is no sound in it.`);
  return { source: await decoded(file, head, rate), played: file };
}

async function decoded(file, head, rate) {
  const own = file.size < LARGE ? compressedRate(head) : null;
  const chosen = own >= 8000 && own <= 96000 ? own : rate;
  let sound;
  try {
    sound = await new OfflineAudioContext(1, 1, chosen).decodeAudioData(await file.arrayBuffer());
  } catch {
    const fix = UNPLAYED.test(file.name) ? "save it as WAV of 16 bits" : "save it as WAV";
    throw new Error(`${file.name}: this browser cannot read it as sound; ${fix}, with Praat or Audacity for example.`);
  }
  const blob = new Blob([averaged(sound)]);
  return { blob, rate: sound.sampleRate, channels: 1, bytes: 4, float: true, offset: 0, frames: sound.length };
}

function averaged(sound) {
  const result = sound.getChannelData(0);
  if (sound.numberOfChannels === 1) return result;
  for (let channel = 1; channel < sound.numberOfChannels; channel += 1) {
    const other = sound.getChannelData(channel);
    for (let k = 0; k < result.length; k += 1) result[k] += other[k];
  }
  for (let k = 0; k < result.length; k += 1) result[k] /= sound.numberOfChannels;
  return result;
}

// Records until `end` is called, which returns a WAV file; `watch` is given the samples, the seconds and the rate.
export async function record(recorder, watch) {
  if (!navigator.mediaDevices?.getUserMedia) throw new Error("This browser offers no microphone here.");
  const plain = { echoCancellation: false, noiseSuppression: false, autoGainControl: false, channelCount: 1 };
  const stream = await navigator.mediaDevices.getUserMedia({ audio: plain });
  const context = new AudioContext(), parts = [];
  const close = async () => {
    for (const track of stream.getTracks()) track.stop();
    await context.close();
  };
  let frames = 0;
  try {
    await context.audioWorklet.addModule(`data:text/javascript,${encodeURIComponent(recorder)}`); // a disk allows no blob here
    const node = new AudioWorkletNode(context, "recorder", { numberOfOutputs: 0 });
    node.port.onmessage = ({ data }) => {
      parts.push(data);
      frames += data.length;
      watch(data, frames / context.sampleRate, context.sampleRate);
    };
    context.createMediaStreamSource(stream).connect(node);
  } catch (error) {
    await close();
    throw error;
  }
  return async () => {
    await close();
    const header = wavHeader({ rate: context.sampleRate, channels: 1, bytes: 4, float: true, frames });
    const when = new Date(Date.now() - new Date().getTimezoneOffset() * 60000).toISOString().slice(0, 19).replace("T", " ").replaceAll(":", ".");
    return new File([header, ...parts], `recording ${when}.wav`, { type: "audio/wav" });
  };
}
