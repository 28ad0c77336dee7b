// The mouse: choosing, selecting, dragging boundaries, zooming by the wheel, alternatives on hover.

import * as actions from "./actions.js";
import { session, choose, phoneAt, changed } from "./session.js";
import { view, toX, toTime, zoom, scroll, show, end } from "./view.js";
import { ROW } from "./draw.js";
import { shown } from "./notation.js";

const NEAR = 5; // pixels from a boundary at which it is taken
const stage = document.getElementById("stage");
const tiers = document.getElementById("tiers");
const tip = document.getElementById("tip");
let drag = null;

export function isDragging() {
  return drag !== null;
}

function place(event) {
  const box = stage.getBoundingClientRect();
  return { x: event.clientX - box.left - 1, y: event.clientY - box.top };
}

function within(time) {
  return Math.min(Math.max(time, 0), session.seconds);
}

// The boundary near a pixel: the number of a phone, and which edge of it.
function boundaryAt(x) {
  const number = phoneAt(toTime(x));
  for (const k of [number, number + 1, number - 1]) {
    const phone = session.phones[k];
    if (!phone) continue;
    if (Math.abs(toX(phone.end) - x) <= NEAR) return { phone: k, edge: "end" };
    if (Math.abs(toX(phone.start) - x) <= NEAR) return { phone: k, edge: "start" };
  }
  return null;
}

export function connect() {
  for (const id of ["wave", "spectrogram", "axis"]) {
    document.getElementById(id).addEventListener("pointerdown", beginSelection);
  }
  tiers.addEventListener("pointerdown", beginOnTiers);
  tiers.addEventListener("dblclick", actions.playPhone);
  tiers.addEventListener("pointermove", hover);
  tiers.addEventListener("pointerleave", () => (tip.hidden = true));
  document.getElementById("whole").addEventListener("pointerdown", jump);
  stage.addEventListener("wheel", wheel, { passive: false });
  window.addEventListener("pointermove", moved);
  window.addEventListener("pointerup", ended);
}

function beginSelection(event) {
  if (!session.name || event.button !== 0) return;
  const time = within(toTime(place(event).x));
  drag = { kind: "select", from: time };
  session.cursor = time;
  session.selection = null;
  changed("cursor");
}

function beginOnTiers(event) {
  if (!session.name || event.button !== 0) return;
  const { x } = place(event);
  const y = event.clientY - tiers.getBoundingClientRect().top;
  const boundary = y < ROW ? boundaryAt(x) : null;
  if (boundary) {
    drag = { kind: "boundary", ...boundary, time: toTime(x), best: null };
    event.preventDefault();
    tiers.focus();
    return;
  }
  const number = phoneAt(toTime(x));
  if (number >= 0 && session.phones[number].end > toTime(x)) choose(number, false);
  session.cursor = within(toTime(x));
  changed("chosen");
}

async function moved(event) {
  if (!drag) return;
  const time = within(toTime(place(event).x));
  if (drag.kind === "select") {
    const both = [drag.from, time].sort((a, b) => a - b);
    session.selection = (both[1] - both[0]) * view.scale > 3 ? both : null;
    session.cursor = both[0];
  } else {
    drag.time = event.shiftKey ? await snapped(drag, time) : time;
    session.cursor = drag.time;
  }
  changed("cursor");
}

// While Shift is held, the boundary is where the model finds it, if it can be found.
async function snapped(mine, time) {
  const left = mine.edge === "end" ? mine.phone : mine.phone - 1;
  mine.best ??= actions.bestBoundary(left).then(
    (found) => found.time,
    (error) => {
      actions.tell(error.message);
      return null;
    },
  );
  return (await mine.best) ?? time;
}

async function ended(event) {
  const mine = drag;
  drag = null;
  if (mine?.kind !== "boundary") return;
  const time = event.shiftKey ? await snapped(mine, mine.time) : mine.time;
  await actions.moveEdge(mine.edge, time, mine.phone);
}

function jump(event) {
  if (!session.name) return;
  const time = (place(event).x / view.width) * session.seconds;
  show(time - (end() - view.start) / 2, view.scale);
}

function wheel(event) {
  if (!session.name) return;
  event.preventDefault();
  const pixels = event.deltaMode ? event.deltaY * 30 : event.deltaY;
  const aside = event.deltaMode ? event.deltaX * 30 : event.deltaX;
  if (event.shiftKey || Math.abs(aside) > Math.abs(pixels)) scroll((aside || pixels) / view.scale);
  else zoom(Math.exp(-pixels / 400), toTime(place(event).x));
}

function hover(event) {
  if (drag || !session.name) return;
  const { x, y } = place(event);
  const onPhones = event.clientY - tiers.getBoundingClientRect().top < ROW;
  tiers.style.cursor = onPhones && boundaryAt(x) ? "ew-resize" : "default";
  const phone = session.phones[phoneAt(toTime(x))];
  tip.hidden = !onPhones || !phone || phone.end < toTime(x);
  if (tip.hidden) return;
  const sure = phone.checked ? "checked" : phone.confidence === null ? "" : `${Math.round(100 * phone.confidence)} %`;
  const others = phone.alternatives.map(([label, p]) => `${shown(label)} ${Math.round(100 * p)} %`).join("\n");
  tip.textContent = `${shown(phone.label)} ${sure}${others ? `\n${others}` : ""}`;
  tip.style.left = `${Math.min(x + 12, view.width - 90)}px`;
  tip.style.top = `${y + 14}px`;
}
