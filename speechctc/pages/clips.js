// Buttons that play the short sound that they hold, or that another holds; again, and it stops.
"use strict";

const player = document.createElement("audio");
let pressed = null;

function show() {
  pressed?.setAttribute("aria-pressed", String(!player.paused));
}

document.body.append(player);
for (const name of ["play", "pause", "ended"]) player.addEventListener(name, show);
document.addEventListener("click", ({ target }) => {
  const button = target.closest("[data-sound], [data-like]");
  if (!button) return;
  const isOn = button === pressed && !player.paused;
  player.pause();
  pressed?.removeAttribute("aria-pressed");
  pressed = button;
  if (isOn) return;
  for (const other of document.querySelectorAll("audio")) other.pause();
  const holder = document.getElementById(button.dataset.like) ?? button;
  player.src = holder.dataset.sound ?? holder.querySelector("audio").src;
  player.play().catch(({ name }) => { document.querySelector(".unplayable").hidden = name === "AbortError"; });
});
