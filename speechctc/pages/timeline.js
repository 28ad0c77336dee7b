// Recordings: a click on a phone or on the spectrogram plays from there; arrows move from phone to phone.
"use strict";

function atMoment(audio, seconds) {
  const go = () => {
    audio.currentTime = Math.min(seconds, audio.duration || seconds);
    audio.play().catch(() => {});
  };
  if (audio.readyState >= 1) {
    go();
  } else {
    audio.addEventListener("loadedmetadata", go, { once: true });
    audio.load();
  }
}

function mark(strip, seconds) {
  for (const cell of strip.querySelectorAll(".cell")) {
    cell.classList.toggle("now", seconds >= Number(cell.dataset.start) && seconds < Number(cell.dataset.end));
  }
}

function follow(timeline, audio) {
  const seconds = audio.currentTime;
  for (const strip of timeline.querySelectorAll(".strip")) {
    const start = Number(strip.dataset.start), end = Number(strip.dataset.end);
    const head = strip.querySelector(".playhead");
    const here = seconds >= start && seconds < end;
    head.hidden = !here || (audio.paused && seconds === 0);
    if (here || strip.querySelector(".now")) {
      mark(strip, audio.paused ? -1 : seconds);
    }
    head.style.left = (100 * (seconds - start)) / (end - start) + "%";
    const box = strip.parentElement, at = ((seconds - start) / (end - start)) * strip.offsetWidth;
    if (!head.hidden && !audio.paused && (at < box.scrollLeft || at > box.scrollLeft + box.clientWidth - 24)) {
      box.scrollLeft = Math.max(at - 48, 0);
    }
  }
  if (!audio.paused) {
    requestAnimationFrame(() => follow(timeline, audio));
  }
}

function move(cell, key) {
  const timeline = cell.closest(".timeline"), tiers = [...cell.closest(".strip").querySelectorAll(".cells")];
  const row = [...cell.parentElement.children], at = row.indexOf(cell);
  const other = { ArrowUp: -1, ArrowDown: 1 }[key];
  let next = { ArrowLeft: row[at - 1], ArrowRight: row[at + 1], Home: row[0], End: row[row.length - 1] }[key];
  if (other) {
    const cells = [...(tiers[tiers.indexOf(cell.parentElement) + other]?.children ?? [])];
    const middle = (Number(cell.dataset.start) + Number(cell.dataset.end)) / 2;
    next = cells.find((each) => Number(each.dataset.end) > middle) ?? cells[cells.length - 1];
  } else if (!next && (key === "ArrowRight" || key === "ArrowLeft")) {
    const name = cell.closest(".tier").getAttribute("aria-label");
    const all = [...timeline.querySelectorAll(".tier")].filter((tier) => tier.getAttribute("aria-label") === name);
    const cells = all.flatMap((tier) => [...tier.querySelectorAll(".cell")]);
    next = cells[cells.indexOf(cell) + (key === "ArrowRight" ? 1 : -1)];
  }
  if (next) {
    next.focus();
  }
  return Boolean(next);
}

export function connectTimeline(timeline) {
  const audio = timeline.querySelector("audio");
  for (const tier of timeline.querySelectorAll(".cells")) {
    [...tier.children].forEach((cell, k) => { cell.tabIndex = k ? -1 : 0; });
  }
  timeline.addEventListener("click", (event) => {
    const cell = event.target.closest(".cell"), picture = event.target.closest(".picture");
    if (cell) {
      atMoment(audio, Number(cell.dataset.start));
    } else if (picture) {
      const strip = picture.closest(".strip"), box = picture.getBoundingClientRect();
      const start = Number(strip.dataset.start), end = Number(strip.dataset.end);
      atMoment(audio, start + ((event.clientX - box.left) / box.width) * (end - start));
    }
  });
  timeline.addEventListener("keydown", (event) => {
    if (event.target.classList.contains("cell") && move(event.target, event.key)) {
      event.preventDefault();
    }
  });
  timeline.addEventListener("focusin", (event) => {
    if (event.target.classList.contains("cell")) {
      for (const cell of event.target.parentElement.children) {
        cell.tabIndex = cell === event.target ? 0 : -1;
      }
    }
  });
  audio.addEventListener("play", () => {
    for (const other of document.querySelectorAll("audio")) {
      if (other !== audio) {
        other.pause();
      }
    }
    follow(timeline, audio);
  });
  for (const name of ["pause", "ended", "seeked"]) {
    audio.addEventListener(name, () => follow(timeline, audio));
  }
  audio.addEventListener("error", () => { timeline.querySelector(".unplayable").hidden = false; });
}

const PAPER = 640; // pixels of a line on paper

// On paper nothing scrolls: a recording is shown in lines, which end where a phone does.
function layOnPaper(strip) {
  const edges = [...strip.querySelectorAll(".cell")].map((cell) => cell.offsetLeft);
  const box = strip.parentElement, width = strip.offsetWidth;
  for (let left = 0, right; left < width; left = right) {
    const within = edges.filter((edge) => edge > left + PAPER / 2 && edge <= left + PAPER);
    right = width - left <= PAPER ? width : within.length ? Math.max(...within) : left + PAPER;
    const line = document.createElement("div"), copy = strip.cloneNode(true);
    line.className = "paper";
    line.style.width = `${right - left}px`;
    copy.style.marginLeft = `${-left}px`;
    line.append(copy);
    box.before(line);
  }
}

document.querySelectorAll(".timeline").forEach(connectTimeline);
window.addEventListener("beforeprint", () => document.querySelectorAll(".scroll > .strip").forEach(layOnPaper));
window.addEventListener("afterprint", () => document.querySelectorAll(".paper").forEach((line) => line.remove()));
