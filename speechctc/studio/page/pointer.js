// Mouse and touch: choosing, selecting, dragging boundaries, zooming by wheel or pinch, alternatives on hover.

import * as actions from "./actions.js";
import { on, part, tell } from "./dom.js";
import { session, choose, phoneAt, changed, within, TOUCH } from "./session.js";
import { view, toX, toTime, zoom, scroll, show, end } from "./view.js";
import { ROW } from "./draw.js";
import { percent, shown } from "./notation.js";

const NEAR = { mouse: 5, touch: 16 }; // pixels from a boundary at which it is taken
const LEAST = 0.005; // seconds of a phone
const stage = part("stage");
const tiers = part("tiers");
const fingers = new Map(); // by number, where a finger is
let drag = null;

export function isDragging() {
  return drag !== null;
}

function place(event) {
  const box = stage.getBoundingClientRect();
  return { x: event.clientX - box.left - 1, y: event.clientY - box.top };
}

// The boundary near a pixel: the number of a phone, which edge of it, its time, and how far it can go.
function boundaryAt(x, near = NEAR.mouse) {
  const number = phoneAt(toTime(x));
  for (const k of [number, number + 1, number - 1]) {
    for (const edge of ["end", "start"]) {
      const from = session.phones[k]?.[edge];
      if (from !== undefined && Math.abs(toX(from) - x) <= near) return { phone: k, edge, from, ...room(k, edge) };
    }
  }
  return null;
}

function room(k, edge) {
  const { start, end: stop } = session.phones[k];
  const other = session.phones[edge === "end" ? k + 1 : k - 1];
  const gap = !other ? Infinity : edge === "end" ? other.start - stop : start - other.end;
  if (edge === "end") return { low: start + LEAST, high: gap < TOUCH ? other.end - LEAST : (other?.start ?? session.seconds) };
  return { low: gap < TOUCH ? other.start + LEAST : (other?.end ?? 0), high: stop - LEAST };
}

export function connect() {
  for (const id of ["wave", "spectrogram", "axis"]) {
    on(id, "pointerdown", beginSelection);
  }
  on("tiers", "pointerdown", beginOnTiers);
  on("tiers", "dblclick", actions.playPhone);
  on("tiers", "pointermove", hover);
  on("whole", "pointerdown", jump);
  stage.addEventListener("wheel", wheel, { passive: false });
  stage.addEventListener("pointerdown", (event) => event.pointerType === "touch" && fingers.set(event.pointerId, place(event).x), true);
  addEventListener("pointermove", moved);
  addEventListener("pointerup", ended);
  addEventListener("pointercancel", cancelled);
}

function beginSelection(event) {
  if (!session.name || event.button !== 0) return;
  const time = within(toTime(place(event).x));
  drag = event.pointerType === "touch" ? { kind: "pan" } : { kind: "select", from: time };
  session.cursor = time;
  session.selection = null;
  changed("cursor");
}

function beginOnTiers(event) {
  if (!session.name || event.button !== 0) return;
  const { x } = place(event);
  const isTouch = event.pointerType === "touch";
  const y = event.clientY - tiers.getBoundingClientRect().top;
  const found = y < ROW ? boundaryAt(x, NEAR[isTouch ? "touch" : "mouse"]) : null;
  const chosen = session.phones[session.chosen];
  const boundary = isTouch && (!chosen || ![chosen.start, chosen.end].includes(found?.from)) ? null : found; // else a swipe would move it
  if (boundary) {
    drag = { kind: "boundary", ...boundary, time: boundary.from, best: null };
    event.preventDefault();
    tiers.focus();
    return;
  }
  if (isTouch) drag = { kind: "pan" };
  const number = phoneAt(toTime(x));
  if (number >= 0 && session.phones[number].end > toTime(x)) choose(number, false);
  session.cursor = within(toTime(x));
  changed("chosen");
}

async function moved(event) {
  if (!drag) return;
  if (drag.kind === "pan") {
    pan(event);
    return;
  }
  const mine = drag;
  const time = within(toTime(place(event).x));
  if (mine.kind === "select") {
    const both = [mine.from, time].sort((a, b) => a - b);
    session.selection = (both[1] - both[0]) * view.scale > 3 ? both : null;
    session.cursor = both[0];
    changed("cursor");
    return;
  }
  const { from, low, high } = mine;
  mine.time = Math.min(Math.max(event.shiftKey ? await snapped(mine, time) : time, low), high);
  if (drag !== mine) return;
  session.moving = { from, time: mine.time };
  session.cursor = mine.time;
  changed("moving");
}

// One finger moves the view, two zoom it.
function pan(event) {
  if (!fingers.has(event.pointerId)) return;
  const before = [...fingers.values()];
  fingers.set(event.pointerId, place(event).x);
  const now = [...fingers.values()];
  const centre = (all) => all.reduce((sum, x) => sum + x, 0) / all.length;
  if (now.length > 1) zoom(Math.max(Math.abs(now[0] - now[1]), 8) / Math.max(Math.abs(before[0] - before[1]), 8), toTime(centre(before)));
  scroll((centre(before) - centre(now)) / view.scale);
}

// While Shift is held, the boundary is where the model finds it, if it can be found.
async function snapped(mine, time) {
  const left = mine.edge === "end" ? mine.phone : mine.phone - 1;
  mine.best ??= actions.bestBoundary(left).then(
    (found) => found.time,
    (error) => {
      tell(error.message);
      return null;
    },
  );
  return (await mine.best) ?? time;
}

async function ended(event) {
  fingers.delete(event.pointerId);
  const mine = drag;
  if (!fingers.size) drag = null;
  if (mine?.kind !== "boundary") return;
  const time = event.shiftKey ? await snapped(mine, mine.time) : mine.time;
  const done = Math.abs(time - mine.from) < TOUCH ? null : actions.moveEdge(mine.edge, time, mine.phone);
  await done;
  if (session.moving?.from === mine.from) session.moving = null;
  changed("labels");
}

// The browser scrolls the page by this swipe.
function cancelled(event) {
  fingers.delete(event.pointerId);
  drag = null;
  if (!session.moving) return;
  session.moving = null;
  changed("labels");
}

function jump(event) {
  if (!session.name) return;
  const time = (place(event).x / view.width) * session.seconds;
  show(time - (end() - view.start) / 2, view.scale);
}

function wheel(event) {
  if (!session.name) return;
  event.preventDefault();
  const [aside, pixels] = [event.deltaX, event.deltaY].map((each) => (event.deltaMode ? 30 : 1) * each);
  if (event.shiftKey || Math.abs(aside) > Math.abs(pixels)) scroll((aside || pixels) / view.scale);
  else zoom(Math.exp(-pixels / 400), toTime(place(event).x));
}

function hover(event) {
  if (drag || !session.name) return;
  const { x } = place(event);
  const onPhones = event.clientY - tiers.getBoundingClientRect().top < ROW;
  tiers.style.cursor = onPhones && boundaryAt(x) ? "ew-resize" : "default";
  const phone = onPhones && session.phones[phoneAt(toTime(x))];
  tiers.title = phone && phone.end > toTime(x) ? about(phone) : "";
}

function about({ label, checked, confidence, alternatives }) {
  const others = alternatives.filter(([, p]) => p >= 0.005).map(([other, p]) => `${shown(other)} ${percent(p)}`);
  const sure = checked || confidence === null ? "" : ` ${percent(confidence)} sure`;
  return [shown(label) + sure, others.length ? "by the sound alone:" : "", ...others].join("\n").trim();
}
