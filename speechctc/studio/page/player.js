// Plays parts of the recording, at any speed with the same pitch.

import { signed } from "./api.js";
import { part } from "./dom.js";
import { setPlaying } from "./draw.js";
import { session } from "./session.js";
import { turnTo } from "./view.js";

const audio = part("audio");
const follows = part("follow");
let stretch = null; // [start, stop]
let loop = false;
let frame = 0;
let ready = Promise.resolve();
let changed = () => {};

export function onPlay(listener) {
  changed = listener;
}

export function load(name) {
  stop();
  audio.removeAttribute("src");
  audio.load();
  audio.preservesPitch = true;
  const asked = signed("audio", { recording: name });
  ready = asked;
  asked.then((source) => ready === asked && (audio.src = source)).catch(() => {}); // playing says it
}

export function setSpeed(speed) {
  audio.defaultPlaybackRate = speed;
  audio.playbackRate = speed;
}

export function setLoop(value) {
  loop = value;
}

export function isPlaying() {
  return stretch !== null;
}

export async function play(start, stop_) {
  stop();
  const own = [start, stop_];
  stretch = own;
  changed();
  try {
    await ready;
    if (stretch !== own) return;
    audio.currentTime = start;
    await audio.play();
    follow();
  } catch (error) {
    stop();
    if (error.name !== "AbortError") throw error;
  }
}

export function stop() {
  cancelAnimationFrame(frame);
  audio.pause();
  stretch = null;
  setPlaying(null);
  changed();
}

function follow() {
  if (!stretch) return;
  const [start, stop_] = stretch;
  if (audio.currentTime >= stop_ - 0.004 || audio.ended) {
    if (!loop) {
      stop();
      return;
    }
    audio.currentTime = start;
    if (audio.ended || audio.paused) audio.play().catch(stop);
  }
  if (follows.checked && !session.moving) turnTo(audio.currentTime);
  setPlaying(audio.currentTime);
  frame = requestAnimationFrame(follow);
}
