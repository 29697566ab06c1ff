// Operate: queries that became recommendable, wait for review or were removed, with what to do about them.

import { post } from "./api.js";
import { el, words } from "./dom.js";
import { table, wide } from "./tables.js";

const NOTE = "Queries that enough people typed. A held one is shown to nobody until you approve it; a rejected or removed one never comes back.";
const OFFERED = { added: ["remove"], held: ["approve", "reject"] };
const NAMES = { approve: "Approve", reject: "Reject", remove: "Remove" };
const DONE = { approve: "Approved.", reject: "Rejected for good.", remove: "Removed for good, starting with the next answer." };

/** Show the list; `act` makes a change and reloads. The same list again leaves the buttons alone. */
export function fillArms(host, { arms, held }, act) {
  const shown = JSON.stringify(arms);
  if (host.dataset.shown === shown) return;
  host.dataset.shown = shown;
  const title = held ? `New queries: ${held} to review` : "New queries";
  const rows = arms.map((arm) => cells(arm, act));
  host.replaceChildren(arms.length ? wide(title, NOTE, table(["Query", "State", "Owner", "Since"], rows, { numbers: false })) : wide(title, `${NOTE} None yet.`));
}

function cells({ time, text, segment, state, owner }, act) {
  const decide = (OFFERED[state] ?? []).map((verb) => button(verb, { query: text, segment }, act));
  return [
    el("td", { class: "text" }, el("div", { class: "decide" }, words(text), ...(segment ? [el("small", { class: "soft", text: ` in ${segment}` })] : []), ...decide)),
    el("td", {}, el("span", { class: `state ${state}`, text: state })),
    el("td", { class: "when" }, words(owner || "–")),
    el("td", { class: "when", text: new Date(time).toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" }), title: time }),
  ];
}

/** What cannot be undone is asked for twice. */
function button(verb, arm, act) {
  const { query } = arm;
  const made = el("button", { type: "button", class: "quiet", text: NAMES[verb], "aria-label": `${NAMES[verb]} ${query}` });
  made.addEventListener("click", () => {
    if (verb !== "approve" && !made.dataset.asked) {
      made.dataset.asked = "true";
      made.textContent = `${NAMES[verb]} for good?`;
      made.setAttribute("aria-label", `${NAMES[verb]} ${query} for good?`);
      return;
    }
    act(() => post(`/v1/arms/${verb}`, arm), DONE[verb]);
  });
  return made;
}
