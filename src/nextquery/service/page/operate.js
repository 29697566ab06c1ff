// Operate: the state of the service, its newest decisions, and controls. Needs the admin key.

import { download, get, post } from "./api.js";
import { fillArms } from "./arms.js";
import { box, figures } from "./charts.js";
import { auditBox, fillPins, pinBox } from "./curated.js";
import { el, number, pause, percent, words } from "./dom.js";
import { fillModel, modelBox, warnings } from "./experiment.js";
import { fillPatterns, patternBox } from "./patterns.js";
import { attempt } from "./states.js";
import { table, wide } from "./tables.js";

const EVERY = 5000;

export function enter(host) {
  const gone = new AbortController();
  const body = el("div", { id: "operating" });
  host.replaceChildren(
    el("h1", { text: "Operate" }),
    el("p", { class: "lead", text: "The current state of the service, as seen by the worker that answers. Requests and latencies cover all workers since the start." }),
    body,
  );
  watch(body, gone.signal);
  return () => gone.abort();
}

async function watch(host, signal) {
  const load = () => Promise.all([get("/v1/operate", signal), get("/v1/decisions?limit=30", signal), get("/v1/arms?limit=100", signal), get("/v1/patterns", signal), get("/v1/pins", signal), get("/v1/experiment", signal)]);
  let parts = null;
  while (!signal.aborted) {
    const answers = await attempt(host, load, { signal, rows: 3, waiting: parts ? () => {} : undefined });
    if (answers === undefined) return;
    if (!parts || !host.contains(parts.top)) {
      parts = frame(() => load().then((next) => fill(parts, next)), host, signal);
      host.replaceChildren(parts.notices, parts.top, parts.actions, parts.arms, parts.routes, parts.decisions, parts.changes);
    }
    fill(parts, answers);
    await pause(EVERY, signal);
  }
}

/** The parts that stay while figures change, so that a form keeps what is being typed. */
function frame(refresh, host, signal) {
  const note = el("p", { class: "note", role: "status", id: "done" });
  const act = async (work, done) => {
    try {
      const answer = await work();
      note.textContent = typeof done === "function" ? done(answer) : done;
      await refresh();
    } catch (error) {
      if (!signal.aborted) note.textContent = error.message;
    }
  };
  const field = el("input", { class: "field", name: "query", id: "block", required: true, dir: "auto", maxlength: "2000", placeholder: "A query that should never be shown", autocomplete: "off" });
  const form = el("form", { class: "unlock" }, el("label", { class: "unseen", for: "block", text: "Query to block" }), field, el("button", { type: "submit", class: "main", text: "Block" }));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const query = field.value.trim();
    if (query) act(() => post("/v1/block", { query }), () => ((field.value = ""), "Blocked, starting with the next answer."));
  });
  const blocked = el("ul", { class: "blocked" });
  const patterns = patternBox(act);
  const pins = pinBox(act);
  const model = modelBox(act, post);
  const power = el("button", { type: "button", class: "main", id: "power" });
  power.addEventListener("click", () => act(() => post("/v1/switch", { on: power.dataset.on !== "true" }), "Switched."));
  const files = ["ubi", "parquet"].map((format) =>
    el("button", { type: "button", class: "quiet", text: format === "ubi" ? "Export as UBI" : "Export as Parquet", onclick: () => act(() => download(`/v1/export?format=${format}`), "Download started.") }),
  );
  const actions = el("div", { class: "grid" }, box("Block a query", "It is never shown again, starting with the next answer of every worker.", form, blocked), patterns.box, pins.box, model.box, box("Switch and export", "When off, every answer is empty but still recorded.", el("div", { class: "bar-of" }, power, ...files), note));
  return { notices: el("div"), top: el("div"), actions, model, arms: el("div", { id: "arms" }), routes: el("div"), decisions: el("div"), blocked, patterns: patterns.list, pins: pins.list, changes: auditBox(el("div"), signal), power, act };
}

function fill(parts, [now, { decisions }, arms, { patterns }, { pins }, found]) {
  parts.notices.replaceChildren(...warnings(found));
  fillModel(parts.model, found);
  fillPins(parts.pins, pins, parts.act);
  fillPatterns(parts.patterns, patterns, parts.act);
  fillArms(parts.arms, arms, parts.act);
  parts.top.replaceChildren(
    figures([
      ["Requests", number(now.requests), `${number(now.errors)} server errors`],
      ["Slates", number(now.slates), `${percent(now.fallback_share, 1)} by fallback`],
      ["Log position", number(now.position), `learner ${number(now.lag)} behind`],
      [
        "Pool",
        now.pool,
        now.pool_problem ||
          (now.pool_current ? "what the folder has" : "a new one is being prepared"),
      ],
      ["Store", bytes(now.store_bytes), now.store_ok ? "accepts events" : "not accepting events"],
      ["Queries", number(now.arms), `${number(now.blocked)} blocked`],
      ["State", now.on ? "on" : "off", now.learning ? now.policy : "not learning"],
    ]),
  );
  parts.power.textContent = now.on ? "Switch recommendations off" : "Switch recommendations on";
  parts.power.dataset.on = now.on;
  parts.blocked.replaceChildren(
    ...now.blocked_queries.map((query) =>
      el("li", {}, words(query), el("button", { type: "button", class: "quiet", text: "Unblock", "aria-label": `Unblock ${query}`, onclick: () => parts.act(() => post("/v1/unblock", { query }), "Unblocked.") })),
    ),
  );
  parts.routes.replaceChildren(wide("Latency", null, table(["Route", "Requests", "Errors", "p50 ms", "p95 ms", "p99 ms"], now.routes.map((row) => [row.route, number(row.requests), number(row.errors), number(row.p50_ms, 1), number(row.p95_ms, 1), number(row.p99_ms, 1)]))));
  parts.decisions.replaceChildren(
    wide(
      "Newest decisions",
      decisions.length ? null : "None yet.",
      table(["Time", "Query", "Outcome", "Accepted", "Policy"], decisions.map(cells), { numbers: false }),
    ),
  );
}

function cells({ time, query, state, accepted, policy, fallback }) {
  return [
    el("td", { class: "when", text: new Date(time).toLocaleTimeString("en-GB"), title: time }),
    el("td", { class: "text" }, words(query)),
    el("td", {}, el("span", { class: `state ${state}`, text: state })),
    el("td", { class: "text" }, accepted === null ? "–" : words(accepted)),
    el("td", { class: "when", text: fallback ? `${policy} (fallback)` : policy }),
  ];
}

const bytes = (count) => (count > 2 ** 30 ? `${number(count / 2 ** 30, 1)} GB` : count > 2 ** 20 ? `${number(count / 2 ** 20, 1)} MB` : `${number(count / 2 ** 10, 0)} kB`);
