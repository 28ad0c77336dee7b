// The page of the studio: joins the parts, and asks the server what is new.

import { get, post, signed } from "./api.js";
import * as actions from "./actions.js";
import * as draw from "./draw.js";
import * as keys from "./keys.js";
import * as list from "./list.js";
import * as microphone from "./microphone.js";
import * as notation from "./notation.js";
import * as panel from "./panel.js";
import * as player from "./player.js";
import * as pointer from "./pointer.js";
import { session, onChange, open, reload, hearMore, isSaving, choose, phoneAt } from "./session.js";
import * as tiles from "./tiles.js";
import * as training from "./training.js";
import { onView, resize, fit, show, zoom, view, end } from "./view.js";

const part = (id) => document.getElementById(id);
const SPEEDS = [0.25, 0.5, 0.75, 1, 1.5, 2];
const FIRST_SECONDS = 8; // that are seen of a long recording
const MARGIN = 0.5; // seconds that are seen before the time at which the page opens
const SOON = 700; // milliseconds until the server is asked again while it works, and
const LATE = 5000; // otherwise
let overview = null;
let timer = 0;
let clearing = 0;
let seenRevision = null; // of the open recording, for which the labels were read again

function tell(text) {
  part("message").textContent = text;
  clearTimeout(clearing);
  clearing = setTimeout(() => (part("message").textContent = ""), 8000);
}

async function openRecording(name, time = 0) {
  if (name && name === session.name) focusEditor();
  if (!name || name === session.name) return;
  try {
    player.load(name);
    await open(name);
  } catch (error) {
    tell(error.message);
    return;
  }
  seenRevision = null;
  actions.forgetVisited();
  history.replaceState(null, "", `#${encodeURIComponent(name)}`);
  list.setOpened(name);
  part("name").textContent = name;
  const scale = view.width / Math.min(session.seconds, FIRST_SECONDS);
  const at = Math.min(time, session.seconds);
  show(at ? Math.max(at - MARGIN, 0) : 0, scale);
  if (session.phones.length) choose(Math.max(phoneAt(at), 0));
  if (at) session.cursor = at;
  focusEditor();
}

function focusEditor() {
  part("tiers").focus({ preventScroll: true });
}

// After a click, the keys are the editor's again, or Enter would press the same button once more; who goes by Tab stays.
function connectFocus() {
  let byMouse = false;
  const giveBack = (event) => {
    const used = event.target.closest("button, a, summary, select");
    if (byMouse && session.name && used === document.activeElement && !used.closest("dialog")) focusEditor();
  };
  document.addEventListener("pointerdown", () => (byMouse = true), true);
  document.addEventListener("keydown", () => (byMouse = false), true);
  document.addEventListener("click", (event) => event.target.closest("select") || giveBack(event));
  document.addEventListener("change", giveBack);
  for (const dialog of document.querySelectorAll("dialog")) {
    dialog.addEventListener("close", () => byMouse && session.name && focusEditor());
  }
}

async function refresh() {
  clearTimeout(timer);
  let busy = false;
  try {
    overview = await get("overview");
    showOverview();
    busy = training.isRunning(overview.training) || Object.keys(overview.recognising).length > 0 || !overview.model.folder
      || overview.recordings.some((row) => row.state === "reading");
    busy = busy && !overview.model.problem;
    if (part("problem").dataset.from === "server") problem("");
  } catch (error) {
    problem(error.message, "server");
  }
  timer = setTimeout(refresh, busy ? SOON : LATE);
}

function problem(text, from = "") {
  part("problem").hidden = !text;
  part("problem").textContent = text;
  part("problem").dataset.from = from;
}

function showOverview() {
  part("folder").textContent = overview.folder;
  list.update(overview.recordings, overview.recognising, overview.problems);
  showModels();
  notation.setNames(overview.ipa);
  panel.setInventory(overview.model.phones ?? []);
  panel.setChart(overview.chart);
  training.update(overview);
  const lines = [overview.model.problem, ...overview.notes].filter(Boolean);
  if (part("problem").dataset.from !== "server") problem(lines.join(" "));
  part("recognise-new").disabled = !overview.model.folder || !overview.recordings.some((row) => row.state === "new");
  const row = overview.recordings.find((each) => each.name === session.name);
  showNewest(row);
  part("saved").textContent = savedText(row);
  if (!session.name && !window.opening) begin();
}

// Shows labels that came meanwhile, but not under the hands of who works on those before: that edit is of these.
function showNewest(row) {
  const isNew = row?.revision !== undefined && row.revision !== session.revision && row.revision !== seenRevision;
  const isGrowing = row?.name in overview.recognising;
  part("recognise").textContent = isGrowing ? "Stop" : "Recognise";
  if (isGrowing && !session.phones.length) hearMore().catch(() => {});
  const hasEnded = !isGrowing && session.heard.length > 0;
  if (!(isNew || hasEnded) || isSaving() || panel.isTyping() || pointer.isDragging()) return;
  seenRevision = row?.revision;
  reload().then(chooseFirst);
}

function chooseFirst() {
  if (session.chosen < 0 && session.phones.length) choose(0);
}

function begin() {
  window.opening = true;
  const [name, time] = location.hash.slice(1).split("@");
  const wanted = decodeURIComponent(name);
  if (overview.recordings.some((row) => row.name === wanted)) openRecording(wanted, Number(time) || 0);
  else openRecording(overview.recordings[0]?.name);
}

function savedText(row) {
  if (!session.name) return "";
  if (isSaving()) return "saving";
  if (row?.problem) return row.problem;
  return session.state === "corrected" ? `saved to ${session.textgrid}` : "";
}

function showModels() {
  const { model } = overview;
  part("with-ngram").hidden = !model.has_ngram;
  part("ngram").checked = model.ngram;
  const select = part("model");
  const choices = [{ round: 0, per: null }, ...model.rounds];
  const current = model.rounds.find((each) => each.folder === model.folder)?.round ?? 0;
  const key = JSON.stringify([choices, current, Boolean(model.folder)]);
  if (select.dataset.key === key) return;
  select.dataset.key = key;
  select.replaceChildren(
    ...choices.map(({ round, per }) => {
      const text = round ? `round ${round}${per === null ? "" : `, PER ${per.toFixed(1)} %`}` : model.folder ? "first model" : "being loaded";
      return new Option(text, round, false, round === current);
    }),
  );
  select.title = model.line ?? "";
}

function showRecording(what) {
  if (what === "opened" || what === "labels") {
    const unknown = session.unknown.length ? `The model does not have these labels: ${session.unknown.slice(0, 12).join(" ")}. It cannot place them; train it on your corrections.` : "";
    const note = [session.note, unknown].filter(Boolean).join(" ");
    part("note").textContent = note;
    part("note").hidden = !note;
    const count = session.phones.length;
    const checked = session.by_hand ? count : session.phones.filter((phone) => phone.checked).length;
    part("facts").textContent = `${list.duration(session.seconds)}, ${count} phones, ${checked} checked`;
  }
  if (what === "heard") part("facts").textContent = `${list.duration(session.seconds)}, ${session.heard.length} phones so far`;
  part("undo").disabled = !session.undo;
  part("redo").disabled = !session.redo;
  const row = overview?.recordings.find((each) => each.name === session.name);
  part("saved").textContent = savedText(row);
  panel.show();
  if (what === "chosen" || what === "labels") part("live").textContent = panel.spoken();
  if (what === "cursor") draw.drawOver();
  else draw.draw();
}

function connectButtons() {
  const click = (id, act) => part(id).addEventListener("click", act);
  click("play", actions.playOrStop);
  click("play-phone", actions.playPhone);
  click("zoom-in", () => zoom(1.5));
  click("zoom-out", () => zoom(1 / 1.5));
  click("fit", fit);
  click("undo", actions.undo);
  click("redo", actions.redo);
  click("next", actions.nextSuspect);
  click("place", actions.placeAgain);
  click("confirm", actions.confirm);
  click("confirm-all", actions.confirmAll);
  click("split", actions.split);
  click("merge", actions.merge);
  click("insert", () => panel.focusLabel(true));
  click("delete", actions.remove);
  click("recognise", () => {
    const route = session.name in overview.recognising ? "recognise/stop" : "recognise";
    tried(post(route, {}, { names: [session.name] }));
  });
  click("recognise-new", () => tried(post("recognise")));
  click("loop", () => {
    const on = part("loop").getAttribute("aria-pressed") !== "true";
    part("loop").setAttribute("aria-pressed", String(on));
    player.setLoop(on);
  });
  for (const [id, dialog] of [["open-training", "training"], ["open-microphone", "microphone"], ["open-keys", "keys"]]) {
    click(id, () => part(dialog).showModal());
  }
  for (const close of document.querySelectorAll("dialog .close")) {
    close.addEventListener("click", () => close.closest("dialog").close());
  }
}

async function download(name, values) {
  try {
    location.assign(await signed(name, values));
  } catch (error) {
    tell(error.message);
  }
}

async function tried(work) {
  try {
    await work;
  } catch (error) {
    tell(error.message);
  }
  refresh();
}

function connectChoices() {
  part("speed").replaceChildren(...SPEEDS.map((speed) => new Option(`${speed} x`, speed, speed === 1, speed === 1)));
  part("speed").addEventListener("change", (event) => player.setSpeed(Number(event.target.value)));
  part("model").addEventListener("change", (event) => tried(post("model", {}, { round: Number(event.target.value) })));
  part("ngram").addEventListener("change", (event) => tried(post("ngram", {}, { on: event.target.checked })));
  part("export").replaceChildren(new Option("...", ""));
  part("export").addEventListener("change", (event) => {
    const form = event.target.value;
    event.target.value = "";
    if (form && session.name) download("export", { recording: session.name, format: form });
  });
  for (const name of ["window", "highest", "range"]) {
    part(name).addEventListener("change", (event) => {
      if (!event.target.checkValidity()) return;
      tiles.settings[name] = Number(event.target.value);
      tiles.forget();
      draw.draw();
    });
  }
  part("notation").addEventListener("change", (event) => {
    notation.setNotation(event.target.value);
    panel.drawInventory();
    showRecording("labels");
  });
}

async function start() {
  history.replaceState(null, "", `/${location.hash}`); // the token is kept
  draw.readColours();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    draw.readColours();
    draw.draw();
  });
  onView(draw.draw);
  tiles.onTile(draw.draw);
  actions.onTell(tell);
  onChange(showRecording);
  player.onPlay(() => (part("play").textContent = player.isPlaying() ? "Stop" : "Play"));
  new ResizeObserver(() => resize(part("stage").clientWidth)).observe(part("stage"));
  connectButtons();
  connectChoices();
  connectFocus();
  list.connect(openRecording);
  panel.connect();
  pointer.connect();
  training.connect(tell, refresh);
  microphone.connect(tell, async (name) => {
    await refresh();
    await openRecording(name);
  });
  keys.connect({ focusLabel: panel.focusLabel, nextRecording: (way) => openRecording(list.neighbour(way)) });
  await refresh();
  for (const form of overview?.formats ?? []) part("export").append(new Option(form, form));
}

start();
