// The keys: one table, from which the help is made too.

import * as actions from "./actions.js";
import { made, part } from "./dom.js";
import { view, zoom, scroll, fit, end } from "./view.js";
import { session } from "./session.js";

const button = (id) => () => part(id).click();
const seen = () => end() - view.start;

const KEYS = [
  ["ArrowLeft", "previous phone", () => actions.step(-1)],
  ["ArrowRight", "next phone", () => actions.step(1)],
  ["n", "next doubtful phone: the least certain that you have not seen", actions.nextSuspect],
  ["Enter", "change the label: type it, Enter saves, Escape leaves it", () => focusLabel()],
  ["1 to 9", "take what the model considered first to ninth", null],
  ["c", "the label is right; N goes on", actions.confirm],
  ["w", "the whole recording is right: every phone is checked", actions.confirmAll],
  ["s", "split at the cursor, or in the middle", actions.split],
  ["m", "merge with the next phone", actions.merge],
  ["i", "insert a phone at the cursor or in the selection", () => focusLabel(true)],
  ["Delete", "delete the phone", actions.remove],
  ["[", "the phone begins at the cursor", () => actions.edgeToCursor("start")],
  ["]", "the phone ends at the cursor", () => actions.edgeToCursor("end")],
  ["{", "move the phone's start to the model's best place", () => actions.snapEdge("start")],
  ["}", "move the phone's end to the model's best place", () => actions.snapEdge("end")],
  ["a", "align again: find the boundaries in the selection, or all", actions.placeAgain],
  ["z", "undo (Ctrl+Z too)", actions.undo],
  ["y", "redo (Ctrl+Y too)", actions.redo],
  ["Space", "play from the cursor or the selection; stop", actions.playOrStop],
  ["p", "play the phone", actions.playPhone],
  ["v", "play what is seen", actions.playSeen],
  ["l", "loop", button("loop")],
  ["-", "slower", () => changeSpeed(-1)],
  ["+", "faster", () => changeSpeed(1)],
  [",", "cursor 10 ms back", () => actions.moveCursor(-0.01)],
  [".", "cursor 10 ms on", () => actions.moveCursor(0.01)],
  ["ArrowUp", "zoom in", () => zoom(1.5, session.cursor)],
  ["ArrowDown", "zoom out", () => zoom(1 / 1.5, session.cursor)],
  ["PageUp", "a screen back", () => scroll(-0.9 * seen())],
  ["PageDown", "a screen on", () => scroll(0.9 * seen())],
  ["Home", "first phone", () => actions.go(0)],
  ["End", "last phone", () => actions.go(session.phones.length - 1)],
  ["f", "see all", fit],
  ["j", "next recording", () => nextRecording(1)],
  ["k", "previous recording", () => nextRecording(-1)],
  ["?", "this list", button("open-keys")],
];

const byKey = new Map(KEYS.filter(([, , act]) => act).map(([key, , act]) => [key, act]));
// The key as on a Latin keyboard, for who types in another script.
const latin = ({ key, code }) => (key > "~" && /^Key./.test(code) ? code[3].toLowerCase() : key);
const OTHER_NAMES = { " ": "Space", Backspace: "Delete", "=": "+" };

let focusLabel = () => {};
let nextRecording = () => {};

export function connect(parts) {
  ({ focusLabel, nextRecording } = parts);
  document.addEventListener("keydown", pressed);
  const rows = part("key-rows");
  for (const [key, text] of KEYS) {
    const [row, name] = [made("div"), made("dt")];
    name.append(made("kbd", key.replace("Arrow", "")));
    row.append(name, made("dd", text));
    rows.append(row);
    const button = document.querySelector(`[aria-keyshortcuts="${CSS.escape(key.length === 1 ? key.toUpperCase() : key)}"]`);
    if (button) button.title = text;
  }
}

function changeSpeed(way) {
  const select = part("speed");
  if (!select.options[select.selectedIndex + way]) return;
  select.selectedIndex += way;
  select.dispatchEvent(new Event("change"));
}

function pressed(event) {
  const isOther = event.target.closest("input, select, textarea, summary") ?? document.querySelector("dialog[open]");
  if (!session.name || event.altKey || event.defaultPrevented || isOther) return;
  if (["Enter", " "].includes(event.key) && event.target.closest("button, a")) return;
  const key = latin(event);
  const name = OTHER_NAMES[key] ?? (key.length === 1 ? key.toLowerCase() : key);
  let act = /^[1-9]$/.test(name) ? () => actions.alternative(name - 1) : byKey.get(name);
  if (event.ctrlKey || event.metaKey) act = { z: event.shiftKey ? actions.redo : actions.undo, y: actions.redo }[name];
  if (!act) return;
  event.preventDefault();
  act();
}
