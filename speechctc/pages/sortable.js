// A long table: a click on the head of a column sorts by it, and what is typed leaves the rows that have it.
"use strict";

for (const table of document.querySelectorAll("table.all")) {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  const number = (row, k) => parseFloat(row.cells[k].textContent);
  const order = (k) => (heads[k].classList.contains("number") ? (a, b) => number(b, k) - number(a, k) : (a, b) => a.cells[k].textContent.localeCompare(b.cells[k].textContent, undefined, { numeric: true }));

  heads.forEach((head, k) => {
    if (head.tagName !== "TH") return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const isAgain = head.getAttribute("aria-sort") !== null, rows = [...body.rows];
      body.append(...(isAgain ? rows.reverse() : rows.sort(order(k))));
      const now = isAgain ? (head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending") : head.classList.contains("number") ? "descending" : "ascending";
      for (const each of heads) each.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", now);
    });
  });

  const filter = document.querySelector(`input[aria-controls="${table.id}"]`), count = filter.parentElement.querySelector("output");
  filter.addEventListener("input", () => {
    const wanted = filter.value.trim().toLowerCase();
    for (const row of body.rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
    count.textContent = `${[...body.rows].filter((row) => !row.hidden).length} of ${body.rows.length}`;
  });
}
