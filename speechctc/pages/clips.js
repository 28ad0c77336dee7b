// Buttons that play the short sound that they hold.
"use strict";

const player = new Audio();

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-sound]");
  if (button) {
    player.src = button.dataset.sound;
    player.play().catch(() => { document.querySelector(".unplayable").hidden = false; });
  }
});
