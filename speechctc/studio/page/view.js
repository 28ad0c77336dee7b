// Which part of the recording is seen: the time at the left edge, and pixels for each second.

import { session } from "./session.js";

export const view = { start: 0, scale: 100, width: 800 };

const MAX_SCALE = 20000; // pixels for each second
let changed = () => {};

export function onView(listener) {
  changed = listener;
}

export function toX(time) {
  return (time - view.start) * view.scale;
}

export function toTime(x) {
  return view.start + x / view.scale;
}

export function end() {
  return view.start + view.width / view.scale;
}

const allowed = (scale) => Math.min(Math.max(scale, view.width / Math.max(session.seconds, 0.05)), MAX_SCALE);

function settle() {
  view.scale = allowed(view.scale);
  const last = session.seconds - view.width / view.scale;
  view.start = Math.max(Math.min(view.start, last), 0);
  changed();
}

// The same part is seen in another width, as when a scroll bar comes; a hidden page has none.
export function resize(width) {
  if (!width) return;
  view.scale *= width / view.width;
  view.width = width;
  settle();
}

export function show(start, scale) {
  view.start = start;
  view.scale = scale;
  settle();
}

export function zoom(factor, time = (view.start + end()) / 2) {
  const x = toX(time);
  const scale = allowed(view.scale * factor);
  show(time - x / scale, scale);
}

export function scroll(seconds) {
  show(view.start + seconds, view.scale);
}

export function fit() {
  show(0, 0);
}

// Scrolls as little as is needed to see a time range, with some room around it.
export function reveal(start, stop = start) {
  const room = Math.min(0.15 * (view.width / view.scale), 1);
  if (start - room < view.start) show(start - room, view.scale);
  else if (stop + room > end()) show(Math.min(stop + room - view.width / view.scale, start - room), view.scale);
}

// Turns the page if a time is not seen.
export function turnTo(time) {
  if (time < view.start || time > end()) show(time - 0.1 * (end() - view.start), view.scale);
}
