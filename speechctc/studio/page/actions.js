// What the user can do to the recording that is open, by keys, buttons and the mouse.

import { get } from "./api.js";
import { tell } from "./dom.js";
import * as player from "./player.js";
import { session, edit, candidates, choose, chosenPhone, phoneAt, suspects, changed, within } from "./session.js";
import { view, end, reveal } from "./view.js";

const visited = new Set(); // least certain phones of this recording that were shown already

async function tried(work) {
  return work.catch((error) => tell(error.message)); // then it is undefined
}

function withChosen(request, number) {
  return tried(
    edit(() => {
      const phone = number ?? session.chosen;
      return phone < 0 ? null : { phone, ...request(session.phones[phone]) };
    }),
  );
}

export function relabel(label, number) {
  return withChosen((phone) => {
    Object.assign(phone, { first: phone.first || phone.label, label, checked: true }); // at once; if the server refuses it, the labels are read again
    return { what: "relabel", label };
  }, number);
}

export function alternative(rank) {
  const other = candidates(chosenPhone())[rank];
  if (other) relabel(other[0]);
}

export const confirm = () => withChosen(() => ({ what: "confirm" }));
export const confirmAll = () => tried(edit(() => ({ what: "confirm_all" })));
export const merge = () => withChosen(() => ({ what: "merge" }));
export const redo = () => tried(edit(() => ({ what: "redo" })));

export async function split() {
  const at = () => {
    const phone = chosenPhone();
    const inside = session.cursor > phone.start + 0.005 && session.cursor < phone.end - 0.005;
    return inside ? session.cursor : (phone.start + phone.end) / 2;
  };
  if (await withChosen(() => ({ what: "split", time: at() }))) choose(session.chosen + 1);
}

export async function remove() {
  const number = session.chosen;
  if (await withChosen(() => ({ what: "delete" }))) choose(number);
}

export async function insert(label) {
  const [start, stop] = session.selection ?? [session.cursor, null];
  const change = await tried(edit(() => ({ what: "insert", start, ...(stop === null ? {} : { end: stop }), label })));
  if (change) choose(phoneAt(start + 0.002), false);
  return change;
}

export function moveEdge(edge, time, phone = session.chosen) {
  return tried(edit(() => (phone < 0 ? null : { what: "move", phone, edge, time })));
}

export function edgeToCursor(edge) {
  const { start, end } = chosenPhone() ?? {};
  if (edge === "end" ? session.cursor <= start : session.cursor >= end) tell("the cursor is beyond the phone's other edge");
  else moveEdge(edge, session.cursor);
}

// Moves an edge of the chosen phone to where the model finds the boundary.
export async function snapEdge(edge) {
  const left = edge === "start" ? session.chosen - 1 : session.chosen;
  const best = await tried(bestBoundary(left));
  if (best) await moveEdge("end", best.time, left);
}

export function bestBoundary(left) {
  return get("boundary", { recording: session.name, phone: left });
}

export async function undo() {
  return session.undo ? tried(edit(() => ({ what: "undo" }))) : tell("nothing was changed yet");
}

// Places phones again: those of the selection, else all of a short recording, else those that are seen.
export async function placeAgain() {
  const [start, stop] = session.selection ?? (session.seconds <= 120 ? [0, session.seconds] : [view.start, end()]);
  const inside = session.phones.map((phone, k) => [phone, k]).filter(([phone]) => phone.end > start && phone.start < stop);
  if (!inside.length) {
    tell("there are no phones there");
    return;
  }
  tell("finding the boundaries again");
  const change = await tried(edit(() => ({ first: inside[0][1], last: inside[inside.length - 1][1] + 1 }), "place"));
  if (change) tell(`the boundaries of ${change.phones.length} phones were found again`);
}

// Goes to the least certain phone that was not shown yet; after the last of them, begins again.
export function nextSuspect() {
  const found = suspects();
  if (!found.length) {
    tell(session.phones.length ? "all phones are checked" : "there are no phones yet: press Recognise");
    return;
  }
  let next = found.find((each) => !visited.has(session.phones[each.number].start));
  if (!next) {
    visited.clear();
    [next] = found;
  }
  visited.add(session.phones[next.number].start);
  go(next.number);
}

export function forgetVisited() {
  visited.clear();
}

export function go(number) {
  choose(number);
  const phone = chosenPhone();
  if (phone) reveal(phone.start, phone.end);
}

export function step(way) {
  go(session.chosen < 0 ? phoneAt(session.cursor) + (way > 0 ? 1 : 0) : session.chosen + way);
}

export function moveCursor(seconds) {
  session.cursor = within(session.cursor + seconds);
  reveal(session.cursor);
  changed("cursor");
}

export function playOrStop() {
  if (player.isPlaying()) player.stop();
  else tried(player.play(...(session.selection ?? [session.cursor < session.seconds - 0.02 ? session.cursor : 0, session.seconds])));
}

export function playPhone() {
  const phone = chosenPhone();
  if (phone) tried(player.play(phone.start, phone.end));
}

export function playSeen() {
  tried(player.play(view.start, Math.min(end(), session.seconds)));
}
