// The page of the studio: joins the parts, and asks the server what is new.

import { get, post, setPlace, signed } from "./api.js";
import * as actions from "./actions.js";
import { made, on, part, tell, write } from "./dom.js";
import * as draw from "./draw.js";
import * as keys from "./keys.js";
import * as list from "./list.js";
import * as microphone from "./microphone.js";
import * as notation from "./notation.js";
import * as panel from "./panel.js";
import * as player from "./player.js";
import * as pointer from "./pointer.js";
import { session, onChange, open, reload, hearMore, isSaving, choose, phoneAt, isSuspect } from "./session.js";
import * as tiles from "./tiles.js";
import * as training from "./training.js";
import { onView, resize, fit, show, zoom, view } from "./view.js";

const SPEEDS = [0.25, 0.5, 0.75, 1, 1.5, 2];
const FIRST_SECONDS = 8; // that are seen of a long recording
const FIRST_PHONES = 300; // of those seconds, whose labels have room
const MARGIN = 0.5; // seconds that are seen before the time at which the page opens
const SOON = 700; // milliseconds until the server is asked again while it works, and
const LATE = 5000; // otherwise
const REDRAWN = { cursor: ["over"], chosen: ["tiers", "over"], moving: ["tiers", "over"], labels: ["whole", "tiers", "over"], saving: ["over"] }; // else all
const closed = new Set(); // notes
let overview = null;
const known = new Map(); // the rows of the list, by name
let wanted = ""; // the recording that is being opened
let again = false; // drafts are recognised once more
let timer = 0;
let seenRevision = null; // of the open recording, for which the labels were read again

// Opens a recording; of several that are asked for while one is being opened, the last.
async function openRecording(name, time = 0) {
  if (!name) return;
  if (name === session.name && !wanted) {
    focusEditor();
    return;
  }
  const isOpening = wanted !== "";
  wanted = name;
  list.setOpened(name);
  if (isOpening) return;
  try {
    while (wanted !== session.name) {
      const next = wanted;
      await openOne(next, next === name ? time : 0).catch((error) => {
        tell(error.message);
        if (wanted === next) wanted = session.name; // as the one before stays open
      });
    }
  } finally {
    wanted = "";
    list.setOpened(session.name);
  }
}

async function openOne(name, time) {
  player.load(name);
  const isFirst = !session.name;
  await open(name);
  seenRevision = null;
  actions.forgetVisited();
  const hash = `#${encodeURIComponent(name)}`;
  if (hash !== location.hash) history[isFirst ? "replaceState" : "pushState"](null, "", hash);
  document.title = `${name} - ${overview.folder} - speechctc studio`;
  write("name", name);
  const at = Math.min(time, session.seconds);
  const from = at ? Math.max(at - MARGIN, 0) : 0;
  const first = Math.max(phoneAt(from), 0);
  const seen = session.phones.slice(first, first + FIRST_PHONES).filter((phone) => phone.start < from + FIRST_SECONDS);
  show(from, draw.roomyScale(seen, view.width / Math.min(session.seconds, FIRST_SECONDS)));
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
    await look();
    showOverview();
    document.body.classList.remove("locked");
    const { model, recognising, recordings } = overview;
    busy = !model.problem && (training.isRunning(overview.training) || Object.keys(recognising).length > 0 || !model.folder || model.loading
      || recordings.some((row) => row.state === "reading"));
    if (part("problem").dataset.from === "server") problem("");
  } catch (error) {
    problem(error.message, "server");
    document.body.classList.toggle("locked", error.status === 403 && !isSaving());
  }
  timer = setTimeout(refresh, busy ? SOON : LATE);
}

// Asks what is new; of the rows, the server tells those that changed.
async function look() {
  const found = await get("overview", { since: overview?.change ?? 0 });
  if (!overview) setPlace(found.place);
  if (found.whole) known.clear();
  for (const row of found.recordings) known.set(row.name, row);
  overview = { ...overview, ...found, recordings: [...known.values()] };
}

const openRow = () => overview?.recordings.find((each) => each.name === session.name);

function problem(text, from = "") {
  part("problem").dataset.from = from;
  tellOf("problem", text, !from);
}

// Shows a note; one that was closed stays away.
function tellOf(id, text, closes = true) {
  const box = part(id);
  box.hidden = !text || (closes && closed.has(text));
  if (box.dataset.text === text) return;
  box.dataset.text = text;
  const close = () => {
    closed.add(text);
    box.hidden = true;
  };
  box.replaceChildren(text, " ", closes ? made("button", "Close", "", close) : "");
}

function showOverview() {
  write("folder", overview.folder);
  list.update(overview.recordings, overview.recognising, overview.problems);
  showModels();
  notation.setNames(overview.ipa, overview.terms);
  panel.setInventory(overview.model.phones ?? []);
  panel.setChart(overview.chart);
  training.update(overview);
  showPrimary();
  const lines = [overview.model.problem, ...overview.notes].filter(Boolean);
  if (part("problem").dataset.from !== "server") problem(lines.join(" "));
  const has = (state) => overview.recordings.some((row) => row.state === state);
  again = !has("new") && has("recognised");
  write("recognise-new", again ? "Recognise drafts again" : "Recognise all new");
  part("recognise-new").disabled = !overview.model.folder || !(again || has("new"));
  const row = openRow();
  showNewest(row);
  write("saved", savedText(row));
  if (!session.name && overview.recordings.length && !window.opening) begin();
}

// Shows labels that came meanwhile, but not under the hands of who works on those before: that edit is of these.
function showNewest(row) {
  const isNew = row?.revision !== undefined && row.revision !== session.revision && row.revision !== seenRevision;
  const isGrowing = row?.name in overview.recognising;
  write("recognise", isGrowing ? "Stop recognising" : "Recognise");
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
  if (isSaving()) return session.waits ? "not saved yet: kept in this page until the studio answers" : "saving";
  return list.problemOf(row) ?? (session.state === "corrected" ? `saved to ${session.textgrid}` : "");
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
      const text = round ? `round ${round}${per === null ? "" : `, PER ${per.toFixed(1)} %`}` : model.folder ? modelName(model.first) : "being loaded";
      return new Option(text, round, false, round === current);
    }),
  );
  select.title = model.line ?? "";
}

// The name of a model's folder: a checkpoint's is only "best" or "last".
function modelName(folder) {
  return folder.split(/[\\/]/).filter((name) => name && !["best", "last"].includes(name)).pop();
}

// Shows which button is the next to press, and says what to do where there is nothing yet.
function showPrimary() {
  const isGrowing = session.name in (overview?.recognising ?? {});
  const isEmpty = session.name && !session.phones.length;
  const next = !overview?.model.folder ? "" : training.isDue() ? "open-training" : !overview.recordings.length ? "open-microphone"
    : !session.name || isGrowing ? "" : isEmpty ? "recognise" : session.phones.some(isSuspect) ? "next" : "following";
  for (const button of document.querySelectorAll(".primary:not(dialog *)")) button.classList.remove("primary");
  if (next) part(next).classList.add("primary");
  document.body.classList.toggle("bare", !session.name && !overview?.recordings.length);
  write("hint", !session.name ? "This folder has no recordings yet: record one, or copy some into it."
    : isEmpty ? "No phones yet: Recognise writes a first draft; or drag over a phone, press I and type its label."
    : "Left and right choose a phone, Enter changes its label, N goes to the next doubtful one.");
}

function showReadout() {
  const { moving, selection, cursor } = session;
  const ms = (seconds) => `${Math.round(1000 * seconds)} ms`;
  let text = `Cursor ${cursor.toFixed(3)} s`;
  if (moving) text = `Boundary ${moving.time.toFixed(3)} s, moved by ${ms(moving.time - moving.from)}`;
  else if (selection) {
    const long = selection[1] - selection[0];
    text = `Selection ${selection[0].toFixed(3)} to ${selection[1].toFixed(3)} s: ${ms(long)}, 1/length ${(1 / long).toPrecision(3)} Hz`;
  }
  write("readout", session.name && text);
}

function showRecording(what) {
  if (what === "opened" || what === "labels") {
    const unknown = session.unknown.length ? `The model does not know ${session.unknown.slice(0, 12).join(" ")}: it cannot place such labels before a training.` : "";
    const note = [session.note, unknown].filter(Boolean).join(" ");
    tellOf("note", note);
    write("words", session.words);
    part("words").title = session.words;
    const count = session.phones.length;
    const checked = session.by_hand ? count : session.phones.filter((phone) => phone.checked).length;
    write("facts", `${list.duration(session.seconds)}, ${list.plural(count, "phone")}, ${checked} checked`);
  }
  if (what === "heard") write("facts", `${list.duration(session.seconds)}, ${session.heard.length} phones so far`);
  part("undo").disabled = !session.undo;
  part("redo").disabled = !session.redo;
  const row = openRow();
  write("saved", savedText(row));
  panel.show();
  showReadout();
  if (what !== "cursor" && what !== "moving") showPrimary();
  if (what === "chosen" || what === "labels") write("live", panel.spoken());
  draw.draw(...(REDRAWN[what] ?? []));
}

function connectButtons() {
  const acts = {
    play: actions.playOrStop, "play-phone": actions.playPhone, "zoom-in": () => zoom(1.5), "zoom-out": () => zoom(1 / 1.5), fit,
    previous: () => openRecording(list.neighbour(-1)), following: () => openRecording(list.neighbour(1)),
    undo: actions.undo, redo: actions.redo, next: actions.nextSuspect, place: actions.placeAgain, confirm: actions.confirm,
    "confirm-all": actions.confirmAll, split: actions.split, merge: actions.merge, insert: () => panel.focusLabel(true),
    delete: actions.remove, "recognise-new": () => tried(post("recognise", {}, { again })),
  };
  for (const [id, act] of Object.entries(acts)) on(id, "click", act);
  on("recognise", "click", () => {
    const route = session.name in overview.recognising ? "recognise/stop" : "recognise";
    tried(post(route, {}, { names: [session.name] }));
  });
  on("loop", "click", () => {
    const on = part("loop").ariaPressed !== "true";
    part("loop").ariaPressed = on;
    player.setLoop(on);
  });
  for (const id of ["training", "microphone", "keys"]) on(`open-${id}`, "click", () => part(id).showModal());
}

async function download(name, values) {
  try {
    location.assign(await signed(name, values));
  } catch (error) {
    tell(error.message);
  }
}

async function tried(work) {
  await work.catch((error) => tell(error.message));
  refresh();
}

function connectChoices() {
  part("speed").replaceChildren(...SPEEDS.map((speed) => new Option(`${speed} x`, speed, speed === 1, speed === 1)));
  on("speed", "change", (event) => player.setSpeed(Number(event.target.value)));
  on("model", "change", (event) => tried(post("model", {}, { round: Number(event.target.value) })));
  on("ngram", "change", (event) => tried(post("ngram", {}, { on: event.target.checked })));
  part("export").replaceChildren(new Option("...", ""));
  on("export", "change", (event) => {
    const form = event.target.value;
    event.target.value = "";
    if (form && session.name) download("export", { recording: session.name, format: form });
  });
  for (const name of ["window", "highest", "range"]) {
    on(name, "change", (event) => {
      if (!event.target.checkValidity()) return;
      tiles.settings[name] = Number(event.target.value);
      tiles.forget();
      draw.draw();
    });
  }
  on("notation", "change", (event) => {
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
  onView(() => draw.draw());
  tiles.onTile(draw.draw);
  onChange(showRecording);
  player.onPlay(() => (part("play").firstChild.textContent = player.isPlaying() ? "Stop" : "Play"));
  new ResizeObserver(() => resize(part("stage").clientWidth)).observe(part("stage"));
  connectButtons();
  connectChoices();
  connectFocus();
  list.connect(openRecording);
  panel.connect();
  pointer.connect();
  training.connect(refresh);
  microphone.connect(async (name) => {
    await refresh();
    await openRecording(name);
  });
  keys.connect({ focusLabel: panel.focusLabel, nextRecording: (way) => openRecording(list.neighbour(way)) });
  await refresh();
  for (const form of overview?.formats ?? []) part("export").append(new Option(form, form));
  addEventListener("focus", () => tried(post("look"))); // files may have come
  addEventListener("popstate", () => openRecording(decodeURIComponent(location.hash.slice(1))));
  const low = matchMedia("(max-height: 600px)");
  const fold = () => {
    part("fold").open = !low.matches;
    draw.draw();
  };
  low.addEventListener("change", fold);
  fold();
  addEventListener("beforeunload", (event) => isSaving() && event.preventDefault());
}

start();
