// Explore: the current query, cards with next queries, and the trail of earlier queries.

import { get, post } from "./api.js";
import { $, chance, el, newId, number, percent, words } from "./dom.js";
import { attempt, panel } from "./states.js";

const SHOWN = 5;
const TRAIL = 4000; // characters of earlier queries on a map
const REJECTED = new Set([404, 409, 422]); // rejected feedback must not stop the user

let session = newId();
let steps = []; // {query, decision, cards, taken}: the last one is on the screen
let pending = null; // the query being asked
let waiting = new AbortController();
let map = null;
let started = false;

export function enter() {
  if (!started) start();
  started = true;
  document.addEventListener("keydown", keyboard);
  if (matchMedia("(pointer: fine)").matches) $("box").focus({ preventScroll: true });
  return () => document.removeEventListener("keydown", keyboard);
}

function start() {
  $("search").addEventListener("submit", (event) => {
    event.preventDefault();
    const query = $("box").value.trim();
    if (query) issue(query);
  });
  $("numbers").addEventListener("click", numbers);
  starters();
}

async function starters() {
  const host = $("starters");
  host.hidden = false;
  const answer = await attempt(host, () => get("/v1/examples?limit=6"), { rows: 2 });
  const { arms } = answer;
  if (!arms) {
    panel(host, {
      kind: "empty",
      title: "The pool is empty",
      text: "There are no queries to recommend. Create a pool from a log with nextquery ingest, then serve it.",
    });
    return;
  }
  $("lead").textContent = `Type any query. The cards tell what others went on with, out of ${number(arms)} ${answer.arms_are}. Every pick improves them.`;
  host.replaceChildren(
    el("span", { class: "note", text: "Start from" }),
    ...answer.examples.map((text) => el("button", { type: "button", class: "chip", onclick: () => issue(text) }, words(text))),
  );
  host.hidden = steps.length > 0;
}

/** Ask a query that was typed, or picked from the cards or the map. */
export async function issue(query) {
  waiting.abort();
  const { signal } = (waiting = new AbortController());
  const last = steps.at(-1);
  const card = last?.cards.find(({ text }) => text === query);
  const request = newId();
  if (last?.query === query && !card) steps.pop();
  pending = query;
  $("box").value = query;
  if (matchMedia("(pointer: coarse)").matches) $("box").blur(); // hides the keyboard of a phone
  prepare(query);
  const answer = await attempt(
    $("cards"),
    async () => {
      if (last) await sendFeedback(last, card, query);
      const body = { session_id: session, query, m: SHOWN, request_id: request, explain: true };
      return post("/v1/recommend", body, signal);
    },
    { signal, rows: SHOWN },
  );
  if (answer === undefined) return;
  pending = null;
  steps.push({ query, decision: answer.decision_id, policy: answer.policy, fallback: answer.fallback, missing: answer.not_searched, cards: answer.recommendations, taken: null });
  show(true);
}

/** Send feedback for the last slate, once per slate: a second pick after a step back sends none. */
async function sendFeedback(step, card, query) {
  if (step.taken !== null) return;
  const accepted = card ? card.arm_id : null;
  step.taken = accepted ?? -1; // set at once and never aborted: a step back does not undo a pick
  try {
    await post("/v1/feedback", { decision_id: step.decision, accepted, issued: card ? null : query });
  } catch (error) {
    if (REJECTED.has(error.status)) return;
    step.taken = null;
    throw error;
  }
}

function prepare(query) {
  $("explore").classList.add("running");
  $("starters").hidden = true;
  $("found").hidden = false;
  $("keys").hidden = $("numbers").hidden = $("partial").hidden = true;
  $("slate-title").replaceChildren("After ", words(query, "q"));
  trail(query);
}

export function stepBack(count = 1) {
  const length = steps.length + (pending === null ? 0 : 1); // a pending query is dropped first
  if (!steps.length || length < 2) return;
  waiting.abort();
  pending = null;
  steps = steps.slice(0, Math.max(1, length - count));
  $("box").value = steps.at(-1).query;
  prepare(steps.at(-1).query);
  show(false);
}

function newSession() {
  waiting.abort();
  pending = null;
  session = newId();
  steps = [];
  $("explore").classList.remove("running");
  $("found").hidden = true;
  $("trail").hidden = true;
  $("starters").hidden = false;
  $("box").value = "";
  $("box").focus();
}

function trail(running) {
  const past = steps.map((step) => step.query);
  if (past.at(-1) !== running) past.push(running);
  const items = past.map((text, at) => {
    const here = at === past.length - 1;
    const label = here ? el("span", { class: "step", "aria-current": "step" }, words(text)) : el("button", { type: "button", class: "step", onclick: () => stepBack(past.length - 1 - at) }, words(text));
    return el("li", {}, label);
  });
  $("trail").replaceChildren(
    el("button", { type: "button", class: "quiet back", disabled: past.length < 2, onclick: () => stepBack(), text: "← Step back" }),
    el("ol", {}, ...items),
    el("button", { type: "button", class: "quiet", onclick: newSession, text: "New session" }),
  );
  $("trail").hidden = false;
  $("trail").querySelector("ol").scrollLeft = 1e6;
}

function show(isNew) {
  const step = steps.at(-1);
  trail(step.query);
  $("partial").hidden = !step.missing;
  $("partial").textContent = `${number(step.missing)} queries of the pool were not searched: their machines are unavailable.`;
  const host = $("cards");
  if (!step.cards.length) nothing(host, step);
  else host.replaceChildren(...step.cards.map((card, at) => cardOf(card, at, step)));
  $("keys").hidden = $("numbers").hidden = !step.cards.length;
  const count = step.cards.length;
  $("said").textContent = count ? `${count} next queries after ${step.query}` : `Nothing to recommend after ${step.query}`;
  if (isNew && document.activeElement !== $("box")) $("slate-title").focus({ preventScroll: true });
  if (isNew && document.activeElement === $("box") && count) $("box").select();
  requestAnimationFrame(() => setTimeout(draw)); // paint the cards before requesting the map
}

function nothing(host, step) {
  const off = step.policy === "off";
  panel(host, {
    kind: off ? "off" : "none",
    title: off ? "Recommendations are switched off" : "Nothing to recommend here",
    text: off
      ? "An operator has turned them off for now. This session still remembers what you ask."
      : "This session has already seen every candidate, or the query has no known words. Try other words.",
  });
}

const CERTAIN = 0.8; // below it, a chance says more about the model than about the card

// For experts: shown by the button Details.
const NUMBERS = [
  ["Chance", (why) => percent(why.probability, 2), "Calibrated probability that this query comes next, as in a forecast."],
  ["Similar", (why) => percent(why.similarity), "Cosine of the vectors of this query and yours."],
  ["Score", (why) => why.score.toFixed(3), "What the cards are ranked by: the reward that the model expects, plus a bonus for uncertainty."],
  ["Certainty", (why) => percent(why.confidence), "How much of its first uncertainty about this score the model has lost."],
];

function cardOf(card, at, step) {
  const why = card.why;
  const facts = NUMBERS.map(([name, value, title]) => el("span", { class: "fact", title }, el("span", { class: "fact-name", text: name }), ` ${value(why)}`));
  const likely = why.probability === null ? null
    : why.confidence < CERTAIN ? "Too new here to say how likely"
    : `${chance(why.probability)} go on with this`;
  const taken = step.taken === card.arm_id;
  return el(
    "button",
    {
      type: "button",
      class: taken ? "card taken" : "card",
      "data-arm": card.arm_id,
      "aria-description": [why.because, likely].filter(Boolean).join("; "),
      onclick: () => issue(card.text),
      onpointerenter: () => map?.point(card.arm_id),
      onpointerleave: () => map?.point(null),
      onfocus: () => map?.point(card.arm_id),
      onblur: () => map?.point(null),
    },
    el("span", { class: "rank", "aria-hidden": "true", text: at + 1 }),
    words(card.text, "span", "words title"),
    el("span", { class: `because ${why.kind}`, text: why.because }),
    likely && el("span", { class: "chance", text: likely }),
    el("span", { class: "facts" }, ...facts),
  );
}

function numbers() {
  const on = $("explore").classList.toggle("numbers");
  $("numbers").setAttribute("aria-pressed", on);
}

/** The newest queries that the service accepts on one map. */
function newest(queries) {
  let room = TRAIL;
  let first = queries.length;
  while (first > 0 && queries[first - 1].length <= room) room -= queries[--first].length;
  return queries.slice(first);
}

async function draw() {
  const step = steps.at(-1);
  if (!step) return;
  const module = await import("./map.js").catch(() => null);
  if (!module) return; // the service is away, as the next query will say
  map ??= new module.MapView($("map"), issue);
  if (steps.at(-1) !== step) return;
  const past = newest(steps.slice(-20, -1).map((earlier) => earlier.query));
  map.load({ session_id: session, query: step.query, trail: past }, step.cards.map((card) => card.arm_id));
}

function keyboard(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.matches("input, textarea");
  const cards = [...$("cards").querySelectorAll(".card")];
  const at = cards.indexOf(document.activeElement);
  if (event.key === "/" && !typing) {
    $("box").focus();
    $("box").select();
  } else if (event.key === "Backspace" && !typing) stepBack();
  else if (event.key === "Escape" && at >= 0) $("box").focus();
  else if (event.key === "ArrowDown" && cards.length && (!typing || event.target === $("box"))) cards[Math.min(at + 1, cards.length - 1)].focus();
  else if (event.key === "ArrowUp" && at === 0) $("box").focus();
  else if (event.key === "ArrowUp" && at > 0) cards[at - 1].focus();
  else return;
  event.preventDefault();
}
