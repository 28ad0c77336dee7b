// The page: recordings come in, phones are seen, heard and saved.

import { connectTimeline } from "../timeline.js";
import { FORMATS, inWords } from "./formats.js";
import { element, Lines } from "./lines.js";
import { moduleBytes } from "./matrix.js";
import { PlaceForm } from "./place-form.js";
import { BLOCK, bytesOf } from "./samples.js";
import { opened, record } from "./sound.js";

const part = (id) => document.getElementById(id);
const given = (name) => [...document.getElementsByClassName(name)].map((each) => each.textContent).join("");
const data = (name) => JSON.parse(given(name));
const recordings = new Map();
let number = 0, worker = null, model = null, recording = null, ready = false;

function say(text) {
  part("live").textContent = text;
}

function complain(text) {
  const line = element("p", { className: "warning", role: "alert" }, text, " ");
  line.append(element("button", { type: "button", onclick: () => line.remove() }, "Close"));
  part("problems").append(line);
}

function disable(why) {
  complain(why);
  for (const each of part("drop").querySelectorAll("input, button")) each.disabled = !(recording && each.id === "record"); // what is being recorded is ended first
  recordings.forEach(giveUp);
  worker = null;
}

// Returns why this browser cannot recognise, or "".
function lacking() {
  if (typeof WebAssembly !== "object") return "This browser has no WebAssembly, or it is switched off; recognition needs it. Open the page in another browser.";
  if (!WebAssembly.validate(moduleBytes())) return "This browser is too old: its WebAssembly has no vectors (SIMD). Use one of 2023 or later.";
  if (typeof Worker !== "function" || typeof OfflineAudioContext !== "function") return "This browser lacks workers or Web Audio. Use one of 2023 or later.";
  return "";
}

function begin() {
  part("whole").remove();
  const why = lacking();
  if (why) {
    disable(why);
    return;
  }
  model = data("model");
  worker = new Worker(URL.createObjectURL(new Blob([data("worker")], { type: "text/javascript" })));
  worker.onmessage = ({ data: found }) => heard(found);
  worker.onerror = (event) => complain(`The recogniser did not start: ${event.message}`);
  const parts = { weights: given("weights"), lm: given("lm"), words: given("words") };
  worker.postMessage({ about: model, ...parts });
  model.words = Boolean(parts.words);
  for (const each of document.querySelectorAll(".weights, .lm, .words")) each.remove();
}

async function take(files) {
  for (const file of files) {
    try {
      show(file, await opened(file, model.config.features.sample_rate));
    } catch (error) {
      complain(error.message);
    }
  }
}

function show(file, { source, played }) {
  number += 1;
  const id = number, seconds = source.frames / source.rate, sound = URL.createObjectURL(played);
  const audio = element("audio", { controls: true, src: sound, preload: "metadata", "aria-label": `Sound of ${file.name}` });
  const unplayable = element("p", { className: "unplayable soft", role: "status", hidden: true }, "This browser cannot play the sound; the phones are right all the same.");
  const box = element("div", { className: "lines" }), bar = element("progress", { max: 1, value: 0, "aria-label": `Recognising ${file.name}` });
  const facts = element("span", {}, `${duration(seconds)}`), state = element("span", { className: "state" }, ready ? "waiting" : "the model is loading");
  const tools = element("div", { className: "tools", role: "toolbar", "aria-label": `Save ${file.name}`, hidden: true });
  const detail = element("p", { className: "detail phones soft" }, "Point at a phone, or play: here is when it is, and how sure the model is.");
  const timeline = element("div", { className: "timeline" }, audio, unplayable, detail, box);
  const working = element("div", { className: "working" }, bar, state, element("button", { type: "button", onclick: () => stop(entry) }, "Stop"));
  const section = element("section", { className: "recording" }, element("h2", {}, file.name), element("p", { className: "soft facts" }, facts), working, tools, timeline);
  part("recordings").prepend(section);
  const entry = { id, file, seconds, played, known: 0, ended: false, section, facts, working, bar, state, tools, sound, detail, audio, box, lines: new Lines(file.name, source, box) };
  recordings.set(id, entry);
  connectTimeline(timeline);
  follow(entry);
  const { blob, ...about } = source;
  worker?.postMessage({ id, source: about });
  if (!worker) giveUp(entry); // it was damaged while one spoke; the sound can be saved
}

async function read({ id, file, lines: { source } }, first) {
  try {
    const bytes = await bytesOf(source, first, first + BLOCK).arrayBuffer();
    if (recordings.has(id)) worker.postMessage({ id, first, bytes }, [bytes]);
  } catch {
    complain(`${file.name}: it cannot be read any more; it was moved or changed.`);
    worker.postMessage({ id, stop: true });
    const entry = recordings.get(id);
    entry?.form?.show([], null, 0, "the file cannot be read any more");
    giveUp(entry);
  }
}

function duration(seconds) {
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds), two = (value) => String(value).padStart(2, "0");
  return whole < 3600 ? `${Math.floor(whole / 60)}:${two(whole % 60)} min` : `${Math.floor(whole / 3600)}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)} h`;
}

function heard({ id, ready: loaded, first, phones, seconds, done, dereverberated, error, damaged, heard: live, placed, words, isUnlike, unplaced }) {
  if (damaged) disable(`The model in this page is damaged (${error}): copy the page again, or export it again.`);
  if (!worker) return;
  if (loaded) {
    ready = true;
    document.body.dataset.ready = "yes";
    for (const each of recordings.values()) each.state.textContent = "waiting";
    return;
  }
  if (live && recording) part("heard").textContent += `${live.join(" ")} `;
  const entry = recordings.get(id);
  if (placed || unplaced) {
    entry?.form.show(placed, words, entry.seconds, error, isUnlike);
    return;
  }
  if (error) {
    complain(entry ? `${entry.file.name}: ${error}` : error);
    giveUp(entry);
    return;
  }
  if (!entry) return;
  if (first !== undefined) {
    read(entry, first);
    return;
  }
  if (entry.ended) return; // said before it was told to stop
  entry.known = seconds;
  entry.lines.add(phones, seconds, done);
  entry.bar.value = seconds / entry.seconds;
  entry.state.textContent = `${duration(seconds)} of ${duration(entry.seconds)}`;
  if (done) finish(entry, dereverberated);
}

// Ends recognition; the phones that are known are kept, and end where they are known.
function stop(entry) {
  if (entry.ended) return;
  worker?.postMessage({ id: entry.id, stop: true });
  entry.known = entry.lines.segments[entry.lines.segments.length - 1]?.end ?? 0; // what was read of the sound is more
  entry.lines.add([], entry.known, true);
  finish(entry, false);
  entry.facts.textContent = `stopped: ${duration(entry.known)} of ${duration(entry.seconds)} recognised, ${entry.lines.segments.length.toLocaleString("en")} phones; what is saved ends there`;
  const again = () => {
    show(entry.file, { source: entry.lines.source, played: entry.played });
    remove(entry.id);
  };
  entry.tools.append(element("button", { type: "button", onclick: () => worker && again() }, "Recognise all of it"));
}

// After an error; a recording of which nothing is known, and which is kept elsewhere, goes.
function giveUp(entry) {
  if (entry?.lines.segments.length || entry?.file.recorded) stop(entry);
  else if (entry && !entry.ended) remove(entry.id);
}

function finish(entry, dereverberated) {
  const { file, lines, known: seconds, facts, tools } = entry, { segments } = lines;
  entry.ended = true;
  entry.working.remove();
  const count = segments.length === 1 ? "1 phone" : `${segments.length.toLocaleString("en")} phones`;
  facts.textContent = segments.length ? `${duration(seconds)}, ${count}` : `${duration(seconds)}; nothing in it sounds like speech`;
  if (dereverberated) facts.textContent += "; reverberation or hum was taken off a copy first";
  const stem = file.name.replace(/\.[^.]*$/, "");
  for (const [ending, { name, type, text }] of Object.entries(FORMATS)) {
    const save = () => download(new Blob([text(segments, seconds, file.name)], { type }), stem + ending);
    tools.append(element("button", { type: "button", title: `Save ${stem}${ending}`, onclick: save }, `Save ${name}`));
  }
  if (entry.file.recorded) tools.append(element("button", { type: "button", onclick: () => saveSound(entry) }, "Save sound"));
  tools.append(element("button", { type: "button", "aria-label": `Remove ${file.name}`, onclick: () => remove(entry.id) }, "Remove"));
  tools.hidden = false;
  const words = element("p", { className: "phones" }), details = element("details", {}, element("summary", {}, "As text"), words);
  details.addEventListener("toggle", () => { words.textContent = segments.map((each) => each.phone).join(" "); });
  entry.section.append(details);
  const { blob, ...source } = lines.source, ask = (wanted) => worker?.postMessage({ id: entry.id, source, wanted });
  const draw = (placed, box) => new Lines(`${file.name}, placed`, lines.source, box).add(placed, seconds, true);
  entry.form = new PlaceForm(model, segments, ask, draw, (text) => download(new Blob([text], { type: "text/plain" }), `${stem} placed.TextGrid`));
  entry.section.append(entry.form.box);
  say(`${file.name}: ${facts.textContent}`);
}

// Shows in words the phone that is heard, pointed at or chosen, and keeps its line in sight.
function follow({ audio, detail, box, lines }) {
  const point = (event) => {
    const cell = event.target.closest?.(".cell");
    if (cell) detail.textContent = cell.getAttribute("aria-label");
  };
  for (const name of ["focusin", "pointerover"]) box.addEventListener(name, point);
  audio.addEventListener("timeupdate", () => {
    const { segments } = lines, now = segments.find((each) => each.end > audio.currentTime);
    if (now && !audio.paused && now.start <= audio.currentTime) detail.textContent = inWords(now);
    const line = audio.paused ? null : [...box.children].find((each) => Number(each.firstChild.dataset.end) > audio.currentTime);
    if (line && line !== box.shown) line.scrollIntoView({ block: "nearest" });
    box.shown = line;
  });
}

function download(blob, name) {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

function saveSound(entry) {
  download(entry.file, entry.file.name);
  entry.isSaved = true;
}

function remove(id) {
  const entry = recordings.get(id);
  worker?.postMessage({ id, stop: true });
  entry.audio.pause();
  URL.revokeObjectURL(entry.sound);
  entry.section.remove();
  recordings.delete(id);
  part("files").focus();
}

async function recordOrEnd() {
  const button = part("record");
  button.disabled = true;
  try {
    if (recording) {
      const end = recording;
      recording = null;
      const file = await end();
      worker?.postMessage({ samples: null });
      file.recorded = true;
      await take([file]);
    } else {
      let listens = false;
      part("heard").textContent = "";
      recording = await record(data("recorder"), (samples, seconds, rate) => {
        if (!listens) worker?.postMessage({ listen: rate });
        listens = true;
        worker?.postMessage({ samples });
        part("level").value = samples.reduce((most, value) => Math.min(Math.max(most, Math.abs(value)), 1), 0);
        part("elapsed").textContent = `${seconds.toFixed(1)} s`;
      });
    }
  } catch (error) {
    complain(error.name === "NotAllowedError" ? "The browser does not allow the microphone; change that beside the address." : `The microphone cannot be used: ${error.message}`);
  }
  button.disabled = !worker && !recording;
  button.textContent = recording ? "End" : "Record";
  button.setAttribute("aria-pressed", String(recording !== null));
  for (const id of ["meter", "heard"]) part(id).hidden = recording === null;
}

part("files").addEventListener("change", ({ target }) => {
  take([...target.files]);
  target.value = "";
});
part("record").addEventListener("click", recordOrEnd);
part("example").addEventListener("click", () => {
  const bytes = Uint8Array.from(atob(given("example")), (letter) => letter.charCodeAt(0));
  take([new File([bytes], "The ship leaves the harbour in the morning.flac")]);
});
for (const name of ["dragenter", "dragover", "dragleave", "drop"]) {
  document.addEventListener(name, (event) => {
    event.preventDefault();
    part("drop").classList.toggle("over", name === "dragover" || name === "dragenter");
    if (name === "drop" && worker) take([...event.dataTransfer.files]);
  });
}
// What the microphone heard is nowhere else.
addEventListener("beforeunload", (event) => {
  if (recording || [...recordings.values()].some(({ file, isSaved }) => file.recorded && !isSaved)) event.preventDefault();
});
let resizing = 0;
addEventListener("resize", () => {
  clearTimeout(resizing);
  resizing = setTimeout(() => recordings.forEach(({ lines }) => lines.again()), 200);
});
begin();
