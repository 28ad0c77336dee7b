// The chosen phone: its label, what the model considered, and the inventory.

import * as actions from "./actions.js";
import { session, chosenPhone } from "./session.js";
import { shown, written } from "./notation.js";

const input = document.getElementById("label");
const times = document.getElementById("times");
const groups = { alternatives: document.getElementById("alternatives"), inventory: document.getElementById("inventory") };
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
  const typing = document.activeElement === input;
  if (!typing) {
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
    ...others.map(([label, p], k) => choice(label, `${k + 1}: ${Math.round(100 * p)} %`, String(k + 1))),
  );
}

// A sentence for screen readers.
export function spoken() {
  const phone = chosenPhone();
  if (!phone) return "";
  const sure = phone.checked ? "checked" : phone.confidence === null ? "" : `${Math.round(100 * phone.confidence)} percent`;
  return `${shown(phone.label)}, ${phone.start.toFixed(2)} seconds, ${sure}, phone ${session.chosen + 1} of ${session.phones.length}`;
}
