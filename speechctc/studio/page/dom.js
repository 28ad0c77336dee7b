// Elements of the page: found by id, and made.

export const part = (id) => document.getElementById(id);

export function made(tag, text = "", kind = "") {
  const element = document.createElement(tag);
  element.textContent = text;
  element.className = kind;
  if (tag === "button") element.type = "button";
  return element;
}
