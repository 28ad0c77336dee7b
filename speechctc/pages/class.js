// The table of a class: sounds sorted by a learner, learners by a sound; what was not said comes last.
"use strict";

const table = document.querySelector(".class");
const score = (row, column) => Number(row.cells[column].dataset.score ?? Infinity);

function sortRows(column) {
  const body = table.tBodies[0], [whole, ...rows] = body.rows;
  rows.sort((a, b) => score(a, column) - score(b, column));
  body.append(whole, ...rows);
  tell([...table.tHead.rows[0].cells], column);
}

function sortColumns(row) {
  const places = [...Array(row.cells.length).keys()].slice(2).sort((a, b) => score(row, a) - score(row, b));
  for (const each of table.rows) {
    const cells = [...each.cells];
    each.append(...places.map((place) => cells[place]));
  }
  tell([...table.tBodies[0].rows].map((each) => each.cells[0]), row.sectionRowIndex);
}

function tell(heads, chosen) {
  heads.forEach((head, k) => (k === chosen ? head.setAttribute("aria-sort", "ascending") : head.removeAttribute("aria-sort")));
}

table.addEventListener("click", ({ target }) => {
  const head = target.closest(".sort")?.parentElement;
  if (!head) return;
  if (head.closest("thead")) sortRows(head.cellIndex);
  else sortColumns(head.parentElement);
});
