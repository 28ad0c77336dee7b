// The chosen phone: its label, what the model considered, and the inventory.

import * as actions from "./actions.js";
import { session, chosenPhone } from "./session.js";
import { shown, written } from "./notation.js";

const input = document.getElementById("label");
const times = document.getElementById("times");
const groups = { alternatives: document.getElementById("alternatives"), inventory: document.getElementById("inventory") };
const chart = document.getElementById("chart-rows");
let phones = [];
let inserting = false;
let drawn = "";

export function connect() {
  document.getElementById("label-form").addEventListener("submit", (event) => {
    event.preventDefault();
    save();
  });
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.preventDefault();
    leave();
  });
  input.addEventListener("blur", () => {
    inserting = false;
    show();
  });
}

export function setInventory(found) {
  if (found.join(" ") === phones.join(" ")) return;
  phones = found;
  drawInventory();
}

export function drawInventory() {
  groups.inventory.replaceChildren(...phones.map((phone) => choice(phone)));
}

// All symbols of the IPA, a row for each manner, height and kind of sign; drawn once.
export function setChart(rows) {
  if (chart.firstChild) return;
  for (const [name, symbols] of rows) {
    const title = document.createElement("span");
    title.textContent = name;
    const group = document.createElement("div");
    group.className = "choices";
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", name);
    group.append(...symbols.map((symbol) => symbolButton(symbol, name)));
    chart.append(title, group);
  }
}

function symbolButton(symbol, name) {
  const button = document.createElement("button");
  button.type = "button";
  button.title = name;
  button.textContent = isSign(symbol) ? `\u25cc${symbol}` : symbol;
  button.addEventListener("click", () => takeSymbol(symbol));
  button.addEventListener("pointerdown", (event) => event.preventDefault()); // the input keeps the focus
  return button;
}

// Whether a symbol is only written with a letter: a combining mark, a modifier, a length or a tone.
function isSign(symbol) {
  return /^[\p{M}\p{Lm}\p{Sk}\u02d0\u02d1.‿↗↘]/u.test(symbol);
}

// While a label is typed, a symbol joins it; else it becomes the label, and a sign joins the label that is there.
function takeSymbol(symbol) {
  if (document.activeElement === input) input.setRangeText(symbol, input.selectionStart, input.selectionEnd, "end");
  else if (chosenPhone()) actions.relabel(written(isSign(symbol) ? shown(chosenPhone().label) + symbol : symbol));
}

function choice(label, text = "", key = "") {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = shown(label);
  if (text) {
    const small = document.createElement("small");
    small.textContent = ` ${text}`;
    button.append(small);
  }
  if (key) button.setAttribute("aria-keyshortcuts", key);
  button.addEventListener("click", () => (inserting ? actions.insert(label) : actions.relabel(label)));
  button.addEventListener("pointerdown", (event) => event.preventDefault()); // the input keeps the focus
  return button;
}

export function focusLabel(insert = false) {
  if (!insert && !chosenPhone()) return;
  inserting = insert;
  input.disabled = false;
  if (insert) input.value = "";
  input.focus();
  input.select();
}

export function isTyping() {
  return document.activeElement === input;
}

function leave() {
  inserting = false;
  show();
  document.getElementById("tiers").focus();
}

async function save() {
  const label = written(input.value);
  const insert = inserting;
  const same = label === chosenPhone()?.label;
  leave();
  if (insert) await actions.insert(label);
  else if (same) await actions.confirm();
  else await actions.relabel(label);
}

export function show() {
  const phone = chosenPhone();
  if (!isTyping()) {
    input.value = phone ? shown(phone.label) : "";
    input.disabled = !phone;
  }
  for (const id of ["confirm", "split", "merge", "delete", "play-phone"]) document.getElementById(id).disabled = !phone;
  const sure = !phone ? "" : phone.checked ? ", checked by hand" : phone.confidence === null ? "" : `, ${Math.round(100 * phone.confidence)} % sure`;
  times.textContent = phone
    ? `${phone.start.toFixed(3)} to ${phone.end.toFixed(3)} s, ${Math.round(1000 * (phone.end - phone.start))} ms${sure}`
    : "no phone is chosen";
  const others = phone?.alternatives ?? [];
  const key = JSON.stringify([others, shown("aa")]);
  if (key === drawn) return;
  drawn = key;
  groups.alternatives.replaceChildren(
    ...others.map(([label, p], k) => choice(label, p < 0.005 ? "" : `${Math.round(100 * p)} %`, String(k + 1))),
  );
}

// A sentence for screen readers.
export function spoken() {
  const phone = chosenPhone();
  if (!phone) return "";
  const sure = phone.checked ? "checked" : phone.confidence === null ? "" : `${Math.round(100 * phone.confidence)} percent`;
  return `${shown(phone.label)}, ${phone.start.toFixed(2)} seconds, ${sure}, phone ${session.chosen + 1} of ${session.phones.length}`;
}
