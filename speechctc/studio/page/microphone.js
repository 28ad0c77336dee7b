// Recording from the microphone: samples go to the server while one speaks, and phones come back.

import { post, postBytes } from "./api.js";
import { shown } from "./notation.js";

const part = (id) => document.getElementById(id);
const BLOCK = 0.25; // seconds of samples in one request
let recording = null;

export function connect(tell, finished) {
  part("record").addEventListener("click", async () => {
    part("record").disabled = true;
    try {
      if (recording) await end(finished);
      else await begin(tell);
    } catch (error) {
      tell(error.name === "NotAllowedError" ? "the browser does not allow the microphone; change it beside the address" : error.message);
    }
    part("record").disabled = false;
    part("record").textContent = recording ? "End" : "Begin";
    part("record").setAttribute("aria-pressed", String(recording !== null));
  });
}

async function begin(tell) {
  const sound = { audio: { echoCancellation: false, noiseSuppression: false, autoGainControl: false, channelCount: 1 } };
  if (!navigator.mediaDevices) throw new Error("this browser has no microphone here");
  const stream = await navigator.mediaDevices.getUserMedia(sound);
  const context = new AudioContext();
  try {
    await context.audioWorklet.addModule("/page/recorder.js");
    await post("microphone/start", {}, { rate: context.sampleRate });
  } catch (error) {
    for (const track of stream.getTracks()) track.stop();
    context.close();
    throw error;
  }
  const source = context.createMediaStreamSource(stream);
  const node = new AudioWorkletNode(context, "recorder", { numberOfOutputs: 0 });
  recording = { stream, context, node, parts: [], count: 0, total: 0, sent: Promise.resolve() };
  part("heard").textContent = "";
  node.port.onmessage = ({ data }) => take(data, tell);
  source.connect(node);
}

function take(samples, tell) {
  const mine = recording;
  if (!mine) return;
  mine.parts.push(samples);
  mine.count += samples.length;
  mine.total += samples.length;
  part("level").value = Math.min(Math.max(...samples.map(Math.abs)), 1);
  part("elapsed").textContent = `${(mine.total / mine.context.sampleRate).toFixed(1)} s`;
  if (mine.count >= BLOCK * mine.context.sampleRate) send(mine, tell);
}

function send(mine, tell) {
  const joined = new Float32Array(mine.count);
  let at = 0;
  for (const each of mine.parts) {
    joined.set(each, at);
    at += each.length;
  }
  Object.assign(mine, { parts: [], count: 0 });
  mine.sent = mine.sent
    .then(() => postBytes("microphone/block", joined.buffer))
    .then((found) => hear(found.phones))
    .catch((error) => tell(error.message));
}

function hear(phones) {
  if (phones.length) part("heard").textContent += ` ${phones.map(shown).join(" ")}`;
}

async function end(finished) {
  const mine = recording;
  recording = null;
  for (const track of mine.stream.getTracks()) track.stop();
  await mine.context.close();
  if (mine.count) send(mine, () => {});
  await mine.sent;
  const { name, phones } = await post("microphone/stop");
  hear(phones);
  if (name) await finished(name);
}
