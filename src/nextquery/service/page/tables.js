// Tables in a wide box, for Operate.

import { box } from "./charts.js";
import { el } from "./dom.js";

/** A titled box as wide as the page. */
export function wide(title, note, ...inside) {
  const panel = box(title, note, ...inside);
  panel.classList.add("wide");
  return panel;
}

/** A table; a cell is a text or a `td`. */
export function table(names, rows, { numbers = true } = {}) {
  const right = (at) => (numbers && at > 0 ? "number" : undefined);
  const cell = (value, at) => (value instanceof Node ? value : el("td", { class: right(at), text: value }));
  return el(
    "div",
    { class: "table", tabindex: "0", role: "region", "aria-label": names.join(", ") },
    el("table", {}, el("thead", {}, el("tr", {}, ...names.map((name, at) => el("th", { scope: "col", class: right(at), text: name })))), el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map(cell))))),
  );
}
