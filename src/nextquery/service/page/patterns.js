// Operate: the patterns of queries that are never shown.

import { post } from "./api.js";
import { box } from "./charts.js";
import { el, number, words } from "./dom.js";

/** A form to block a pattern, and the list of those that are blocked. */
export function patternBox(act) {
  const field = el("input", { class: "field", name: "pattern", id: "pattern", required: true, dir: "auto", maxlength: "200", placeholder: "Words, like *casino*", autocomplete: "off" });
  const form = el("form", { class: "unlock" }, el("label", { class: "unseen", for: "pattern", text: "Pattern to block" }), field, el("button", { type: "submit", class: "main", text: "Block" }));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const pattern = field.value.trim();
    if (pattern) act(() => post("/v1/patterns", { pattern }), () => ((field.value = ""), "Pattern blocked, starting with the next answer."));
  });
  const list = el("ul", { class: "blocked", id: "patterns" });
  const about = "Hides every query with these words next to each other. * stands for any characters of a word, ? for one.";
  return { box: box("Block a pattern", about, form, list), list };
}

export function fillPatterns(list, patterns, act) {
  list.replaceChildren(
    ...patterns.map(({ pattern, arms }) =>
      el(
        "li",
        {},
        el("span", {}, words(pattern), el("small", { class: "soft", text: ` hides ${number(arms)}` })),
        el("button", { type: "button", class: "quiet", text: "Allow", "aria-label": `Allow ${pattern}`, onclick: () => act(() => post("/v1/patterns/remove", { pattern }), "Allowed again.") }),
      ),
    ),
  );
}
