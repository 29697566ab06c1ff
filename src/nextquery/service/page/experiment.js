// The policies that share the sessions, how sure their differences are, and what watches them.

import { box, figures, intervals } from "./charts.js";
import { el, number, percent } from "./dom.js";
import { table, wide } from "./tables.js";

const points = (share) => (share > 0 ? "+" : "") + number(100 * share, 1);
const between = (row) => (row.low === null ? "" : ` [${points(row.low)}, ${points(row.high)}]`);

/** What everybody should know first: a fallback, a roll-back, a model that is being computed. */
export function warnings({ policies, rolled_back, computing }) {
  const fallen = policies.filter((one) => one.fell_back !== null);
  const back = rolled_back.at(-1);
  const found = [
    ...fallen.map((one) => ["fallback", "Fallback", `${one.policy} was found worse than the most similar queries. Its sessions get those since log position ${number(one.fell_back)}.`]),
    ...(back ? [["rolled-back", "Rolled back", `The model is what it was at log position ${number(back.to)}, and what it has learnt since position ${number(back.position)}.`]] : []),
    ...(computing ? [["computing", "Computing", "The model is being computed from the log. Until that is done, the model of before answers."]] : []),
  ];
  return found.map(([kind, title, text]) => el("div", { class: "panel down notice", role: "status", "data-notice": kind }, el("h3", { text: title }), el("p", { text })));
}

/** The comparison of policies; nothing while there is only one. */
export function comparison(found, width) {
  const { policies, differences, watch, interleaving } = found;
  if (policies.length < 2) return [];
  const shown = [];
  const rows = policies.filter((one) => one.share > 0).map((one) => [one.policy, percent(one.share, 1), number(one.sessions), number(one.hits), percent(one.hits_per_session, 1)]);
  const bars = differences.map((row) => ({ name: `${row.policy} − ${row.other}`, mean: row.difference, low: row.low, high: row.high }));
  shown.push(
    wide(
      "Policies side by side",
      "Chance decides which policy a session gets. A session counts once, by its first answer: a hit if it helped.",
      table(["Policy", "Share", "Sessions", "Hits", "Hits per session"], rows),
      ...(bars.length ? [el("h3", { text: "Difference in hits per 100 sessions" }), intervals({ label: differences.map(verdict).join(" "), rows: bars, width }), ...differences.map((row) => el("p", { class: "note", text: verdict(row) })), el("p", { class: "note", text: "These 95 % intervals hold at any time: look as often as you like, and stop when you like." })] : []),
      ...watch.map((row) => el("p", { class: "note", text: `Watched: the evidence that ${row.policy} is worse than ${row.control} has p = ${number(row.p_value, 3)} after ${number(row.sessions)} sessions; at ${number(row.alpha)} the service falls back.` })),
    ),
  );
  if (interleaving) shown.push(drafted(interleaving, width));
  return shown;
}

function verdict(row) {
  if (row.difference === null) return `${row.policy} and ${row.other}: no session yet.`;
  const says = row.low > 0 ? `${row.policy} is better` : row.high < 0 ? `${row.other} is better` : "not decided yet";
  return `${row.policy} − ${row.other}: ${points(row.difference)}${between(row)} over ${number(row.sessions)} sessions, p = ${number(row.p_value, 3)}: ${says}.`;
}

function drafted({ policies, clicks, credit, low, high }, width) {
  const [one, other] = policies;
  const says = credit === null ? "No click yet." : low > 0 ? `${one} is preferred.` : high < 0 ? `${other} is preferred.` : "Not decided yet.";
  return wide(
    "Interleaved",
    `Every answer is drafted from both rankings; a click counts for the one that picked the card. ${says}`,
    figures(policies.map((name, at) => [name, number(clicks[at]), "clicks"])),
    ...(credit === null ? [] : [intervals({ label: `Mean credit of a click ${number(credit)}, from ${number(low)} to ${number(high)}`, rows: [{ name: `${one} (+) or ${other} (−)`, mean: credit, low, high }], width })]),
  );
}

/** The controls of the safe learner, for Operate. */
export function modelBox(act, post) {
  const position = el("input", { class: "field", name: "position", id: "position", type: "number", min: "1", step: "1", required: true, placeholder: "Log position", "aria-label": "Log position to roll back to" });
  const form = el("form", { class: "unlock" }, position, el("button", { type: "submit", class: "main", text: "Roll back" }));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const to = Number(position.value);
    act(() => post("/v1/model/roll-back", { to }), () => ((position.value = ""), `Rolled back to position ${to}. Every worker computes the model now.`));
  });
  const forward = el("button", { type: "button", class: "quiet", id: "forward", text: "Forward again", onclick: () => act(() => post("/v1/model/roll-back", { forward: true }), "Forward again. Every worker computes the model now.") });
  const end = el("button", { type: "button", class: "quiet", id: "end-fallback", text: "End the fallback", onclick: () => act(() => post("/v1/model/end-fallback", {}), "The model answers again; its watch begins anew.") });
  const shown = box("The model", "Rolled back, it is what it was at a position of the log; it goes on learning from later answers. Forward again restores everything.", form, el("div", { class: "bar-of" }, forward, end));
  return { box: shown, forward, end };
}

export function fillModel({ forward, end }, { rolled_back, policies }) {
  forward.disabled = rolled_back.length === 0;
  end.disabled = policies.every((one) => one.fell_back === null);
}
