// Operate: imported queries and pins, and who changed what.

import { get, post } from "./api.js";
import { box } from "./charts.js";
import { el, words } from "./dom.js";
import { table, wide } from "./tables.js";

/** A form to import a query and to pin it, and the list of the pins. */
export function pinBox(act) {
  const input = (name, placeholder) => el("input", { class: "field", name, id: name, dir: "auto", maxlength: "2000", placeholder, autocomplete: "off", "aria-label": placeholder });
  const [query, after] = [input("pin", "A query to suggest"), input("pin-after", "After this query (empty: after every one)")];
  query.required = true;
  const form = el("form", { class: "unlock" }, query, after, el("button", { type: "submit", class: "main", text: "Pin" }));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const wanted = { query: query.value.trim(), after: after.value.trim() || null };
    const pin = () => post("/v1/curated", { queries: [wanted.query] }).then(() => post("/v1/pins", wanted));
    if (wanted.query) act(pin, () => ((query.value = after.value = ""), "Pinned, starting with the next answer."));
  });
  const list = el("ul", { class: "blocked", id: "pins" });
  return { box: box("Pin a query", "It is shown at the top, also if nobody asked it. A block wins over a pin.", form, list), list };
}

export function fillPins(list, pins, act) {
  list.replaceChildren(
    ...pins.map((pin) =>
      el(
        "li",
        {},
        el("span", {}, words(pin.query), el("small", { class: "soft", text: ` after ${pin.after ?? "every query"}${pin.segment ? ` in ${pin.segment}` : ""}` })),
        el("button", { type: "button", class: "quiet", text: "Unpin", "aria-label": `Unpin ${pin.query}`, onclick: () => act(() => post("/v1/pins/remove", pin), "No longer pinned.") }),
      ),
    ),
  );
}

/** The newest changes, read when they are asked for: that reads the whole log. */
export function auditBox(host, signal) {
  const shown = el("div", { id: "changes" });
  const show = async () => {
    try {
      const { changes } = await get("/v1/audit?limit=50", signal);
      const rows = changes.map((row) => [
        el("td", { class: "when", text: new Date(row.time).toLocaleString("en-GB"), title: row.time }),
        el("td", { class: "when", text: row.change }),
        el("td", { class: "text" }, words(Object.entries(row.details).filter(([name]) => name !== "settings").map(([name, value]) => `${name} ${value}`).join(", "))),
        el("td", { class: "when" }, words(row.by ? Object.values(row.by).join(" ") : "not recorded")),
      ]);
      shown.replaceChildren(changes.length ? table(["Time", "Change", "What", "Who"], rows, { numbers: false }) : el("p", { class: "note", text: "None yet." }));
    } catch (error) {
      if (!signal.aborted) shown.replaceChildren(el("p", { class: "note", text: error.message }));
    }
  };
  const button = el("button", { type: "button", class: "quiet", id: "show-changes", text: "Show changes", onclick: show });
  host.replaceChildren(wide("Who changed what", "Blocks, patterns, pins, arms, keys, models and the switch, newest first.", button, shown));
  return host;
}
