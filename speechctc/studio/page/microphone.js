// Recording from the microphone: samples go to the server while one speaks, and phones come back. What the server has not
// acknowledged stays here and is sent again; each request says which sample it begins with, so that none is kept twice.

import { post } from "./api.js";
import { on, part, tell, write } from "./dom.js";
import { folderOf, folders } from "./list.js";
import { shown } from "./notation.js";
import { session } from "./session.js";

const BLOCK = 0.25; // seconds of samples that are worth a request, and
const LONGEST = 10; // that one request has
const AGAIN = 1000; // milliseconds until samples that were not taken are sent again
const LAST = 15000; // samples that a browser still sends for a page that is closed, about
let recording = null;

export function connect(finished) {
  on("open-microphone", "click", () => {
    part("speakers").replaceChildren(...folders().map((name) => new Option(name)));
    if (!recording) part("speaker").value ||= folderOf(session.name);
  });
  on("record", "click", async () => {
    part("record").disabled = true;
    try {
      if (recording) await end(finished);
      else await begin();
    } catch (error) {
      say(SAYS[error.name] ?? error.message);
    }
    part("record").disabled = false;
    show();
  });
  // A dialog that was closed would hide that the microphone is on; browsers let the second Escape close it all the same.
  on("microphone", "cancel", (event) => recording && event.preventDefault());
  on("microphone", "close", () => recording && part("microphone").showModal());
  addEventListener("beforeunload", (event) => recording && event.preventDefault());
  addEventListener("pagehide", () => recording && sendParts(recording, "stop", LAST, { keepalive: true }).catch(() => {})); // of a page that is closed
}

const SAYS = { // by the name of an error
  NotAllowedError: "the browser does not allow the microphone; change it beside the address",
  NotFoundError: "the browser finds no microphone; connect one",
};

function say(text) {
  write("microphone-state", text);
  if (text) tell(text);
}

function show() {
  write("record", recording ? "End" : "Begin");
  part("record").ariaPressed = recording !== null;
  for (const each of part("microphone").querySelectorAll("input, form button")) each.disabled = recording !== null;
  write("open-microphone", recording ? "Recording" : "Record");
  part("open-microphone").ariaPressed = recording !== null;
}

async function begin() {
  const sound = { audio: { echoCancellation: false, noiseSuppression: false, autoGainControl: false, channelCount: 1 } };
  if (!navigator.mediaDevices) throw new Error("this browser has no microphone here");
  say("");
  const stream = await navigator.mediaDevices.getUserMedia(sound);
  const context = new AudioContext();
  let name = "";
  try {
    await context.audioWorklet.addModule("/page/recorder.js");
    ({ name } = await post("microphone/start", {}, { rate: context.sampleRate, speaker: part("speaker").value, name: part("take").value }));
  } catch (error) {
    release({ stream, context });
    throw error;
  }
  const source = context.createMediaStreamSource(stream);
  const node = new AudioWorkletNode(context, "recorder", { numberOfOutputs: 0 });
  recording = { name, rate: context.sampleRate, stream, context, node, parts: [], total: 0, saved: 0, sending: null, isEnding: false };
  write("heard", "");
  node.port.onmessage = ({ data }) => take(recording, data);
  source.connect(node);
}

async function release({ stream, context }) {
  for (const track of stream.getTracks()) track.stop();
  if (context.state !== "closed") await context.close();
}

function take(mine, samples) {
  if (!mine) return;
  mine.parts.push(samples);
  mine.total += samples.length;
  part("level").value = Math.min(Math.max(...samples.map(Math.abs)), 1);
  showTime(mine);
  if (!mine.sending && mine.total - mine.saved >= BLOCK * mine.rate) mine.sending = send(mine);
}

function showTime({ total, saved, rate }) {
  write("elapsed", `${(total / rate).toFixed(1)} s, ${(saved / rate).toFixed(1)} s saved`);
}

// Sends the first samples that are not acknowledged: the parts that have room.
function sendParts({ name, parts, saved, rate }, route, most = LONGEST * rate, more = {}) {
  let count = 0;
  for (let room = most; parts[count]?.length <= room; count += 1) room -= parts[count].length;
  const sent = parts.slice(0, count);
  const samples = new Float32Array(sent.reduce((sum, each) => sum + each.length, 0));
  let at = 0;
  for (const each of sent) {
    samples.set(each, at);
    at += each.length;
  }
  return post(`microphone/${route}`, { recording: name, at: saved }, samples.buffer, more).then((found) => ({ ...found, count, length: samples.length }));
}

async function sendNext(mine, route = "block") {
  const found = await sendParts(mine, route);
  mine.saved += found.length;
  mine.parts.splice(0, found.count);
  showTime(mine);
  hear(found.phones);
  return found;
}

async function send(mine) {
  while (!mine.isEnding && mine.total - mine.saved >= BLOCK * mine.rate) {
    try {
      await sendNext(mine);
      write("microphone-state", "");
    } catch (error) {
      say(`not saved yet: ${error.message}`);
      await new Promise((done) => setTimeout(done, AGAIN));
    }
  }
  mine.sending = null;
}

function hear(phones) {
  if (phones.length) part("heard").textContent += ` ${phones.map(shown).join(" ")}`;
}

// Ends the recording; if the server does not take the rest of it, it stays here, and End tries again.
async function end(finished) {
  const mine = recording;
  await release(mine);
  mine.isEnding = true;
  await mine.sending;
  while (mine.total - mine.saved > LONGEST * mine.rate) await sendNext(mine);
  const { name } = await sendNext(mine, "stop");
  recording = null;
  part("take").value = "";
  part("microphone").close();
  if (name) await finished(name);
}

