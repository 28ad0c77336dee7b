// The chosen phone: its label, what the model considered, and the inventory.

import * as actions from "./actions.js";
import { made, on, part } from "./dom.js";
import { session, candidates, chosenPhone } from "./session.js";
import { percent, shown, term, written } from "./notation.js";

const input = part("label");
const times = part("times");
const chart = part("chart-rows");
let phones = [];
let inserting = false;
let editing = -1; // the phone whose label is typed: a click elsewhere saves it
let drawn = "";

export function connect() {
  on("label-form", "submit", (event) => {
    event.preventDefault();
    save();
  });
  on("label", "keydown", (event) => {
    if (event.key !== "Escape") return;
    event.preventDefault();
    leave();
  });
  on("label", "focus", () => (editing = session.chosen));
  on("label", "blur", () => {
    if (isTyping()) return; // it is the window that was left
    const label = written(input.value);
    if (!inserting && label && label !== (session.phones[editing]?.label ?? label)) actions.relabel(label, editing);
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
  part("inventory").replaceChildren(...phones.map((phone) => choice(phone)));
  part("known").replaceChildren(...phones.map((phone) => new Option(shown(phone))));
}

// All symbols of the IPA, a row for each manner, height and kind of sign; drawn once.
export function setChart(rows) {
  if (chart.firstChild) return;
  for (const [name, symbols] of rows) {
    const group = made("div", "", "choices");
    group.role = "group";
    group.ariaLabel = name;
    for (const [symbol, title] of Object.entries(symbols)) {
      group.append(pressed(isSign(symbol) ? `\u25cc${symbol}` : symbol, title, () => takeSymbol(symbol)));
    }
    chart.append(made("span", name), group);
  }
}

function pressed(text, title, act) {
  const button = made("button", text, "", act);
  button.title = title;
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
  const button = pressed(shown(label), term(label), () => (inserting ? actions.insert(label) : actions.relabel(label)));
  if (text) button.append(made("small", ` ${text}`));
  if (key) button.setAttribute("aria-keyshortcuts", key);
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
  editing = -1;
  show();
  part("tiers").focus();
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
  for (const id of ["confirm", "split", "merge", "delete", "play-phone"]) part(id).disabled = !phone;
  for (const id of ["confirm-all", "place"]) part(id).disabled = !session.phones.length;
  const about = term(phone?.label);
  const sure = !phone ? "" : phone.checked ? ", checked by hand" : phone.confidence === null ? "" : `, ${percent(phone.confidence)} sure`;
  times.textContent = phone
    ? `${about && `${about}: `}${phone.start.toFixed(3)} to ${phone.end.toFixed(3)} s, ${Math.round(1000 * (phone.end - phone.start))} ms${sure}`
    : "no phone is chosen";
  const others = candidates(phone);
  const key = JSON.stringify([others, shown("aa")]);
  if (key === drawn) return;
  drawn = key;
  part("alternatives").replaceChildren(
    made("span", others.length ? "By the sound alone:" : "", "soft"),
    ...others.map(([label, p], k) => choice(label, p === null ? "as it was" : p < 0.005 ? "" : percent(p), String(k + 1))),
  );
}

// A sentence for screen readers.
export function spoken() {
  const phone = chosenPhone();
  if (!phone) return "";
  const sure = phone.checked ? "checked" : phone.confidence === null ? "" : percent(phone.confidence);
  return `${shown(phone.label)}, ${phone.start.toFixed(2)} seconds, ${sure}, phone ${session.chosen + 1} of ${session.phones.length}`;
}
