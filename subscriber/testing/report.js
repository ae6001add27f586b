"use strict";
// The page works without this; it adds the filters, and Escape to leave a session.
const filters = document.getElementById("filters");
const rows = [...document.querySelectorAll("#scenarios > tbody > tr")];

function filter() {
  const words = filters.search.value.toLowerCase().split(/\s+/);
  for (const row of rows) {
    const text = row.cells[0].textContent.toLowerCase();
    row.hidden = (filters.failures.checked && !row.classList.contains("bad")) || !words.every((word) => text.includes(word));
  }
  const shown = rows.filter((row) => !row.hidden).length;
  filters.shown.value = shown === rows.length ? "" : `${shown} of ${rows.length} shown`;
}

filters.addEventListener("input", filter);
filters.addEventListener("submit", (event) => event.preventDefault());
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") document.querySelector(".session:is(:target, :has(:target)) .back")?.click();
});
filters.hidden = false;
filter(); // a browser that comes back to the page keeps what was filled in
