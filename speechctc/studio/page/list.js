// The list of recordings: found by name, filtered and ordered; only what is seen of it is drawn.

import { made, on, part } from "./dom.js";
import { percent } from "./notation.js";

const box = part("list-box");
const list = part("list");
const search = part("search");
const filter = part("filter");
const order = part("order");
const counts = part("counts");
const HEIGHT = 56; // pixels of a row, as in studio.css
const AROUND = 6; // rows that are drawn above and below what is seen
const STATES = {
  recognised: "recognised",
  reading: "being read",
  new: "new",
  corrected: "corrected",
  unreadable: "cannot be read",
};
const RANK = Object.keys(STATES);
const collator = new Intl.Collator(undefined, { numeric: true });
const byName = (a, b) => collator.compare(a.name, b.name);
const ORDERS = {
  "unsure first": (a, b) => RANK.indexOf(a.state) - RANK.indexOf(b.state) || (a.confidence ?? 0) - (b.confidence ?? 0) || byName(a, b),
  "by name": byName,
  "longest first": (a, b) => (b.seconds ?? 0) - (a.seconds ?? 0) || byName(a, b),
};

let rows = []; // in their order
let shown = []; // those that the search and the filter leave
let working = { recognising: {}, problems: {} };
let opened = "";
let place = 0; // of the open recording among those shown, now or when it was last there
let drawn = "";
let choose = () => {};

export function connect(onChoose) {
  choose = onChoose;
  filter.append(new Option("all states", ""), ...Object.entries(STATES).map(([state, words]) => new Option(words, state)));
  order.append(...Object.keys(ORDERS).map((name) => new Option(name)));
  on("search", "input", () => find(true));
  on("filter", "change", () => find(true));
  on("order", "change", () => {
    rows.sort(ORDERS[order.value]);
    find();
  });
  box.addEventListener("scroll", draw, { passive: true });
  new ResizeObserver(draw).observe(box);
}

export function duration(seconds) {
  return seconds < 60 ? `${seconds.toFixed(1)} s` : `${clock(Math.round(seconds))} min`;
}

export function clock(seconds) {
  return `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;
}

export function plural(count, word) {
  return `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
}

// A recording keeps its place while it is corrected; the order is new when others are found or recognised.
export function update(found, recognising, problems) {
  working = { recognising, problems };
  const before = new Map(rows.map((row, k) => [row.name, { k, state: row.state }]));
  const stays = ({ name, state }) => before.has(name) && (state === "corrected" || state === before.get(name).state);
  const isSame = rows.length === found.length && found.every(stays);
  rows = [...found].sort(isSame ? (a, b) => before.get(a.name).k - before.get(b.name).k : ORDERS[order.value]);
  find();
}

export function setOpened(name) {
  opened = name;
  locate();
  const top = place * HEIGHT;
  if (shown[place]?.name === name && (top < box.scrollTop || top + HEIGHT > box.scrollTop + box.clientHeight)) {
    box.scrollTop = top - box.clientHeight / 2 + HEIGHT / 2;
  }
  draw();
}

function locate() {
  const at = shown.findIndex((row) => row.name === opened);
  if (at >= 0) place = at;
}

// The recording that is `way` places from the one that is open, or that is being opened; after the last, the first.
export function neighbour(way) {
  const isHere = shown[place]?.name === opened;
  const at = place + way - (!isHere && way > 0 ? 1 : 0);
  return shown.at(at % shown.length)?.name;
}

export const folderOf = (name) => name.slice(0, Math.max(name.lastIndexOf("/"), 0));
export const folders = () => [...new Set(rows.map(({ name }) => folderOf(name)))].filter(Boolean);

function find(fromTop = false) {
  const wanted = search.value.trim().toLowerCase();
  const state = filter.value;
  shown = rows.filter((row) => (!state || row.state === state) && row.name.toLowerCase().includes(wanted));
  locate();
  const count = (each) => rows.reduce((sum, row) => sum + (row.state === each), 0);
  const some = shown.length < rows.length ? `; ${shown.length || "none"} shown` : "";
  counts.textContent = `${plural(rows.length, "recording")}: ${["new", "recognised", "corrected"].map((each) => `${count(each)} ${each}`).join(", ")}${some}`;
  if (fromTop) box.scrollTop = 0;
  draw();
}

function draw() {
  list.style.height = `${shown.length * HEIGHT}px`;
  const first = Math.max(Math.floor(box.scrollTop / HEIGHT) - AROUND, 0);
  const last = Math.ceil((box.scrollTop + box.clientHeight) / HEIGHT) + AROUND;
  const seen = shown.slice(first, last);
  const key = JSON.stringify([first, shown.length, opened, seen, seen.map((row) => [working.recognising[row.name], working.problems[row.name]])]);
  if (key === drawn) return;
  drawn = key;
  const focused = list.contains(document.activeElement) && document.activeElement.dataset.name;
  list.replaceChildren(...seen.map((row, k) => item(row, first + k)));
  if (focused) list.querySelector(`[data-name="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}

const isGuessed = ({ confidence }) => (confidence ?? null) !== null;

function item(row, number) {
  const button = made("button", "", "", () => choose(row.name));
  button.dataset.name = row.name;
  button.title = `${row.name}: ${state(row)}${isGuessed(row) ? "\nsure: the mean of its unchecked phones" : ""}`;
  button.ariaCurrent = row.name === opened;
  button.append(made("span", row.name, "file"), made("span", state(row), "state"));
  if (isGuessed(row)) {
    button.append(made("progress"));
    button.lastChild.value = row.confidence;
  }
  const entry = made("li");
  entry.style.top = `${number * HEIGHT}px`;
  entry.ariaPosInSet = number + 1;
  entry.ariaSetSize = shown.length;
  entry.append(button);
  return entry;
}

export const problemOf = (row) => row?.problem ?? working.problems[row?.name];

function state(row) {
  const progress = working.recognising[row.name];
  const words = [
    problemOf(row),
    progress === undefined ? STATES[row.state] : `being recognised, ${percent(progress)}`,
    row.checked ? `${row.checked} of ${row.phones} checked` : row.phones && plural(row.phones, "phone"),
    isGuessed(row) && `${percent(row.confidence)} sure`,
    row.seconds && duration(row.seconds),
  ];
  return words.filter(Boolean).join(", ");
}
