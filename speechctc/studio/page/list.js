// The list of recordings: length, state and certainty, suspects first.

const list = document.getElementById("list");
const search = document.getElementById("search");
const counts = document.getElementById("counts");
const STATES = {
  new: "new",
  recognised: "recognised",
  corrected: "corrected",
  reading: "being read",
  unreadable: "cannot be read",
};

let rows = [];
let opened = "";
let drawn = "";
let choose = () => {};

export function connect(onChoose) {
  choose = onChoose;
  search.addEventListener("input", draw);
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  const minutes = Math.floor(whole / 60);
  return `${minutes}:${String(whole % 60).padStart(2, "0")} min`;
}

export function update(found, recognising, problems) {
  const now = found.map((row) => ({ ...row, progress: recognising[row.name], problem: row.problem ?? problems[row.name] }));
  rows = keepsOrder(now) ? inOrder(now) : now;
  draw();
}

// A recording keeps its place while it is corrected; the order is new when others are found or recognised.
function keepsOrder(now) {
  const before = new Map(rows.map((row) => [row.name, row.state]));
  const isWorkedOn = (row) => before.get(row.name) === row.state || row.state === "corrected";
  return rows.length === now.length && now.every((row) => before.has(row.name) && isWorkedOn(row));
}

function inOrder(now) {
  const byName = new Map(now.map((row) => [row.name, row]));
  return rows.map((row) => byName.get(row.name));
}

export function setOpened(name) {
  opened = name;
  draw();
}

// The recording that is `way` places from the open one in the list.
export function neighbour(way) {
  const names = seen().map((row) => row.name);
  const at = names.indexOf(opened);
  return names[at < 0 ? 0 : Math.min(Math.max(at + way, 0), names.length - 1)];
}

function seen() {
  const wanted = search.value.trim().toLowerCase();
  return rows.filter((row) => row.name.toLowerCase().includes(wanted));
}

function draw() {
  const found = seen();
  const key = JSON.stringify([found, opened]);
  if (key === drawn) return;
  drawn = key;
  const of = (state) => rows.filter((row) => row.state === state).length;
  counts.textContent = `${rows.length} recordings: ${of("new")} new, ${of("recognised")} recognised, ${of("corrected")} corrected`;
  const focused = document.activeElement?.dataset?.name;
  list.replaceChildren(...found.map(item));
  if (focused) list.querySelector(`[data-name="${CSS.escape(focused)}"]`)?.focus();
}

function item(row) {
  const button = document.createElement("button");
  button.dataset.name = row.name;
  button.setAttribute("aria-current", String(row.name === opened));
  const add = (kind, text) => {
    const span = document.createElement("span");
    span.className = kind;
    span.textContent = text;
    button.append(span);
    return span;
  };
  add("file", row.name);
  add("length", duration(row.seconds));
  add("state", state(row));
  if (row.confidence !== null && row.confidence !== undefined) {
    const bar = add("certainty", "");
    const full = document.createElement("i");
    full.style.width = `${Math.round(100 * row.confidence)}%`;
    bar.append(full);
  }
  button.addEventListener("click", () => choose(row.name));
  const entry = document.createElement("li");
  entry.append(button);
  return entry;
}

function state(row) {
  const words = [STATES[row.state]];
  if (row.progress !== undefined) words.push(`being recognised, ${Math.round(100 * row.progress)} %`);
  if (row.phones) words.push(`${row.phones} phones`);
  if (row.confidence !== null && row.confidence !== undefined) words.push(`${Math.round(100 * row.confidence)} % sure`);
  if (row.checked) words.push(`${row.checked} checked`);
  if (row.problem) words.push(row.problem);
  return words.join(", ");
}
