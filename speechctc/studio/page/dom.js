// Elements of the page: found by id, listened to, and made; messages.

export const part = (id) => document.getElementById(id);
export const on = (id, what, act) => part(id).addEventListener(what, act);
export const write = (id, text) => (part(id).textContent = text);

let clearing = 0;
export function tell(text) {
  write("message", text);
  clearTimeout(clearing);
  clearing = setTimeout(() => write("message", ""), 8000);
}

export function made(tag, text = "", kind = "", pressed = null) {
  const element = document.createElement(tag);
  element.textContent = text;
  element.className = kind;
  if (tag === "button") element.type = "button";
  if (pressed) element.addEventListener("click", pressed);
  return element;
}
