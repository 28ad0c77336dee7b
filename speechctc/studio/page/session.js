// The recording that is open, its phones, what is chosen, and the edits that are sent to the server in order.

import { get, post, sounds } from "./api.js";

export const session = {
  name: "",
  seconds: 0,
  revision: 0,
  phones: [], // { start, end, label, confidence, alternatives, checked, first }
  tiers: [],
  undo: false,
  redo: false,
  chosen: -1,
  cursor: 0,
  selection: null, // [start, end] in seconds
  moving: null, // a boundary that is dragged: { from, time } in seconds
  unknown: [],
  waits: false, // for a server that does not answer
  heard: [], // phones of a recognition that is under way, of a recording without labels
};

export const TOUCH = 0.0002; // seconds between phones that count as touching
const AGAIN = 1000; // milliseconds until an edit that was not taken is sent again
let queue = Promise.resolve();
let pending = 0;

export let changed = () => {};
export function onChange(listener) {
  changed = listener;
}

function phoneOf([start, end, label, confidence, alternatives, checked, first]) {
  return { start, end, label, confidence, alternatives, checked, first };
}

function take({ revision, undo, redo, state, unknown }) {
  Object.assign(session, { revision, undo, redo, state, unknown });
}

export async function open(name) {
  await queue;
  await fetched(name);
  Object.assign(session, { chosen: -1, cursor: 0, selection: null });
  changed("opened");
}

async function fetched(name) {
  const found = await get("recording", { recording: name });
  sounds.set(name, found.sound);
  Object.assign(session, found, { phones: found.phones.map(phoneOf), heard: [] });
}

// Shows the labels that the server has, after the edits that are under way.
export function reload() {
  queue = queue.then(read, read).catch(() => {}); // the next look at the folder tries again
  return queue;
}

async function read() {
  await fetched(session.name);
  session.chosen = Math.min(session.chosen, session.phones.length - 1);
  changed("labels");
}

// Takes what is known so far of the recognition that is under way.
export async function hearMore() {
  const { name } = session;
  const found = await get("heard", { recording: name, first: session.heard.length });
  if (name !== session.name || !found.phones.length) return;
  session.heard.push(...found.phones.map(phoneOf));
  changed("heard");
}

export function isSaving() {
  return pending > 0;
}

// Sends an edit again until the server answers: what a person did is neither lost nor undone.
async function posted(route, name, request) {
  for (;;) {
    try {
      const change = await post(route, { recording: name }, request);
      session.waits = false;
      return change;
    } catch (error) {
      session.waits = [0, 403].includes(error.status); // it does not run, or was started anew
      if (!session.waits) throw error;
      changed("saving");
      await new Promise((done) => setTimeout(done, AGAIN));
    }
  }
}

// Sends an edit after those before it; `make` returns the request, or null, when its turn has come.
export function edit(make, route = "edit") {
  const { name } = session;
  pending += 1;
  changed("saving");
  const done = queue.then(async () => {
    try {
      const request = name === session.name ? make() : null;
      if (!request) return null;
      const change = await posted(route, name, { ...request, revision: session.revision });
      if (name !== session.name) return change;
      session.phones.splice(change.at, change.remove, ...change.phones.map(phoneOf));
      session.note = change.note || session.note;
      take(change);
      return change;
    } catch (error) {
      await read().catch(() => {});
      throw error;
    } finally {
      pending -= 1;
      changed("labels");
    }
  });
  queue = done.catch(() => {});
  return done;
}

export function choose(number, moveCursor = true) {
  session.chosen = session.phones.length ? Math.min(Math.max(number, 0), session.phones.length - 1) : -1;
  if (moveCursor && session.chosen >= 0) session.cursor = session.phones[session.chosen].start;
  session.selection = null;
  changed("chosen");
}

export const within = (time) => Math.min(Math.max(time, 0), session.seconds);

export function chosenPhone() {
  return session.phones[session.chosen];
}

// What keys take: the model's candidates, and the label that was there first, if another is there now.
export function candidates({ label, alternatives, first } = { alternatives: [] }) {
  const isLost = first && first !== label && alternatives.every(([other]) => other !== first);
  return isLost ? [...alternatives, [first, null]] : alternatives;
}

// The number of the phone at a time, or of the last one before it; -1 before the first.
export function phoneAt(time, phones = session.phones) {
  let low = 0;
  let high = phones.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (phones[middle].start <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

// A phone that nobody has checked.
export const isSuspect = ({ checked, confidence }) => !checked && confidence !== null;

// Their numbers, the least certain first.
export function suspects() {
  return session.phones
    .map((phone, number) => ({ ...phone, number }))
    .filter(isSuspect)
    .sort((a, b) => a.confidence - b.confidence || a.number - b.number);
}
