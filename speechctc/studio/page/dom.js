// Elements of the page: found by id, listened to, and made.

export const part = (id) => document.getElementById(id);
export const on = (id, what, act) => part(id).addEventListener(what, act);
export const write = (id, text) => (part(id).textContent = text);

export function made(tag, text = "", kind = "") {
  const element = document.createElement(tag);
  element.textContent = text;
  element.className = kind;
  if (tag === "button") element.type = "button";
  return element;
}
