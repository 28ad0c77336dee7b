// Buttons that play the short sound that they hold, or that another holds.
"use strict";

const player = new Audio();

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-sound], [data-like]");
  if (button) {
    player.src = (document.getElementById(button.dataset.like) ?? button).dataset.sound;
    player.play().catch(() => { document.querySelector(".unplayable").hidden = false; });
  }
});
