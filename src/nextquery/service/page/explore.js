// Explore: a query runs, cards say what may come next, the trail says how one came here.

import { get, post } from "./api.js";
import { $, el, fresh, percent, said, words } from "./dom.js";
import { attempt, panel } from "./states.js";

const SHOWN = 5;
const AWAY = new Set([404, 409, 422]); // feedback that is refused must not stop anybody

let session = fresh();
let steps = []; // {query, decision, cards, taken}: the last one is on the screen
let pending = null; // the query that is being asked
let arms = 0;
let waiting = new AbortController();
let map = null;
let begun = false;

export function enter() {
  if (!begun) begin();
  begun = true;
  document.addEventListener("keydown", keyboard);
  if (matchMedia("(pointer: fine)").matches) $("box").focus({ preventScroll: true });
  return () => document.removeEventListener("keydown", keyboard);
}

function begin() {
  $("search").addEventListener("submit", (event) => {
    event.preventDefault();
    const query = $("box").value.trim();
    if (query) issue(query);
  });
  starters();
}

async function starters() {
  const host = $("starters");
  host.hidden = false;
  const answer = await attempt(host, () => get("/v1/examples?limit=6"), { rows: 2 });
  arms = answer.arms;
  if (!arms) {
    panel(host, {
      kind: "empty",
      title: "The pool is empty",
      text: "There is no query to recommend yet. Make a pool of a log with nextquery ingest, and serve that.",
    });
    return;
  }
  $("lead").textContent = `Ask anything. Out of ${said(arms)} queries that people asked before, you are shown what is worth asking next, and every pick makes the next one better.`;
  host.replaceChildren(
    el("span", { class: "note", text: "Start from" }),
    ...answer.examples.map((text) => el("button", { type: "button", class: "chip", onclick: () => issue(text) }, words(text))),
  );
  host.hidden = steps.length > 0;
}

/** Ask a query: typed, taken from the cards or from the map. */
export async function issue(query) {
  waiting.abort();
  const mine = (waiting = new AbortController());
  const last = steps.at(-1);
  const card = last?.cards.find((one) => one.text === query);
  const request = fresh();
  if (last?.query === query && !card) steps.pop();
  pending = query;
  $("box").value = query;
  if (matchMedia("(pointer: coarse)").matches) $("box").blur(); // so that the keys of a phone go away
  stage(query);
  const answer = await attempt(
    $("cards"),
    async () => {
      if (last) await tell(last, card, query);
      const body = { session_id: session, query, m: SHOWN, request_id: request, explain: true };
      return post("/v1/recommend", body, mine.signal);
    },
    { signal: mine.signal, rows: SHOWN },
  );
  if (answer === undefined) return;
  pending = null;
  steps.push({ query, decision: answer.decision_id, policy: answer.policy, fallback: answer.fallback, missing: answer.not_searched, cards: answer.recommendations, taken: null });
  show(true);
}

/** What became of the slate before: one answer a slate, so a second pick after a step back is none. */
async function tell(step, card, query) {
  if (step.taken !== null) return;
  const accepted = card ? card.arm_id : null;
  step.taken = accepted ?? -1; // at once, and never called off: a step back does not undo a pick
  try {
    await post("/v1/feedback", { decision_id: step.decision, accepted, issued: card ? null : query });
  } catch (trouble) {
    if (AWAY.has(trouble.status)) return;
    step.taken = null;
    throw trouble;
  }
}

function stage(query) {
  $("explore").classList.add("running");
  $("starters").hidden = true;
  $("found").hidden = false;
  $("keys").hidden = $("partial").hidden = true;
  $("slate-title").replaceChildren("After ", words(query, "q"));
  trail(query);
}

export function stepBack(count = 1) {
  const length = steps.length + (pending === null ? 0 : 1); // what is still being asked is left first
  if (!steps.length || length < 2) return;
  waiting.abort();
  pending = null;
  steps = steps.slice(0, Math.max(1, length - count));
  $("box").value = steps.at(-1).query;
  stage(steps.at(-1).query);
  show(false);
}

function again() {
  waiting.abort();
  pending = null;
  session = fresh();
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
    el("button", { type: "button", class: "quiet", onclick: again, text: "New session" }),
  );
  $("trail").hidden = false;
  $("trail").querySelector("ol").scrollLeft = 1e6;
}

function show(anew) {
  const step = steps.at(-1);
  trail(step.query);
  $("partial").hidden = !step.missing;
  $("partial").textContent = `Without ${said(step.missing)} queries of the pool: the machines that hold them do not answer now.`;
  const host = $("cards");
  if (!step.cards.length) nothing(host, step);
  else host.replaceChildren(...step.cards.map((card, at) => cardOf(card, at, step)));
  $("keys").hidden = !step.cards.length;
  const count = step.cards.length;
  $("said").textContent = count ? `${count} next queries after ${step.query}` : `Nothing to recommend after ${step.query}`;
  if (anew && document.activeElement !== $("box")) $("slate-title").focus({ preventScroll: true });
  if (anew && document.activeElement === $("box") && count) $("box").select();
  requestAnimationFrame(() => setTimeout(draw)); // the cards are painted before the map is asked for
}

function nothing(host, step) {
  const off = step.policy === "off";
  panel(host, {
    kind: off ? "off" : "none",
    title: off ? "Recommendations are switched off" : "Nothing to recommend here",
    text: off
      ? "Whoever runs this service has turned them off for now. What you ask is still remembered in this session."
      : "No query of the pool is left that this session has not seen, or this one cannot be placed. Try other words.",
  });
}

const CHIPS = [
  ["similarity", "Similar", (why) => percent(why.similarity), "How alike it is to the query now running (cosine of their vectors)."],
  ["preference", "Preference", (why) => (why.preference === null ? "from sessions" : `${said(why.preference * arms, 1)} × chance`), "How much likelier than a query drawn blindly; or suggested by what people asked in past sessions."],
  ["score", "Score", (why) => why.score.toFixed(3), "What the model has learnt to expect of it, with its bonus for what it does not know yet."],
];

function cardOf(card, at, step) {
  const why = card.why;
  const facts = CHIPS.map(([kind, name, value, title]) => el("span", { class: `fact ${kind}`, title }, el("span", { class: "fact-name", text: name }), ` ${value(why)}`));
  if (why.confidence !== null) facts.push(confidence(why.confidence));
  const taken = step.taken === card.arm_id;
  return el(
    "button",
    {
      type: "button",
      class: taken ? "card taken" : "card",
      "data-arm": card.arm_id,
      "aria-description": `Similarity ${percent(why.similarity)}, score ${said(why.score, 3)}`,
      onclick: () => issue(card.text),
      onpointerenter: () => map?.point(card.arm_id),
      onpointerleave: () => map?.point(null),
      onfocus: () => map?.point(card.arm_id),
      onblur: () => map?.point(null),
    },
    el("span", { class: "rank", "aria-hidden": "true", text: at + 1 }),
    words(card.text, "span", "words title"),
    el("span", { class: "facts" }, ...facts),
  );
}

function confidence(share) {
  const fill = el("span", { class: "fill" });
  fill.style.inlineSize = `${Math.round(100 * share)}%`;
  return el("span", { class: "fact sure", title: "How sure the model is of that score." }, el("span", { class: "fact-name", text: "Confidence" }), el("span", { class: "bar", role: "img", "aria-label": `Confidence ${percent(share)}` }, fill));
}

async function draw() {
  const step = steps.at(-1);
  if (!step) return;
  const { MapView } = await import("./map.js");
  map ??= new MapView($("map"), issue);
  if (steps.at(-1) !== step) return;
  const past = steps.slice(-20, -1).map((one) => one.query);
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
