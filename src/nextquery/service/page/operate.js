// Operate: how it runs, what it decided, and what can be done about it. Needs the admin key.

import { download, get, post } from "./api.js";
import { box, figures } from "./charts.js";
import { el, pause, percent, said, words } from "./dom.js";
import { attempt } from "./states.js";

const EVERY = 5000;

export function enter(host) {
  const gone = new AbortController();
  const body = el("div", { id: "operating" });
  host.replaceChildren(
    el("h1", { text: "Operate" }),
    el("p", { class: "lead", text: "How the service runs right now, seen by the worker that answers; requests and times are of all workers since the start." }),
    body,
  );
  watch(body, gone.signal);
  return () => gone.abort();
}

async function watch(host, signal) {
  const look = () => Promise.all([get("/v1/operate", signal), get("/v1/decisions?limit=30", signal)]);
  let parts = null;
  while (!signal.aborted) {
    const found = await attempt(host, look, { signal, rows: 3, waiting: parts ? () => {} : undefined });
    if (found === undefined) return;
    if (!parts || !host.contains(parts.top)) {
      parts = frame(() => look().then((next) => fill(parts, next)), host, signal);
      host.replaceChildren(parts.top, parts.actions, parts.routes, parts.decisions);
    }
    fill(parts, found);
    await pause(EVERY, signal);
  }
}

/** What stays while figures change, so that a form keeps what is being typed. */
function frame(again, host, signal) {
  const note = el("p", { class: "note", role: "status", id: "done" });
  const act = async (work, done) => {
    try {
      const said = await work();
      note.textContent = typeof done === "function" ? done(said) : done;
      await again();
    } catch (trouble) {
      if (!signal.aborted) note.textContent = trouble.message;
    }
  };
  const field = el("input", { class: "field", name: "query", id: "block", required: true, dir: "auto", maxlength: "2000", placeholder: "A query nobody should be shown", autocomplete: "off" });
  const form = el("form", { class: "unlock" }, el("label", { class: "unseen", for: "block", text: "Query to block" }), field, el("button", { type: "submit", class: "main", text: "Block" }));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const query = field.value.trim();
    if (query) act(() => post("/v1/block", { query }), () => ((field.value = ""), `Blocked, from the very next answer.`));
  });
  const blocked = el("ul", { class: "blocked" });
  const power = el("button", { type: "button", class: "main", id: "power" });
  power.addEventListener("click", () => act(() => post("/v1/switch", { on: power.dataset.on !== "true" }), "Switched."));
  const files = ["ubi", "parquet"].map((format) =>
    el("button", { type: "button", class: "quiet", text: format === "ubi" ? "Export as UBI" : "Export as Parquet", onclick: () => act(() => download(`/v1/export?format=${format}`), "The file is on its way.") }),
  );
  const actions = el("div", { class: "grid" }, box("Block a query", "It is never shown again, from the very next answer of every worker.", form, blocked), box("Switch and export", "Off, every answer is empty and still recorded.", el("div", { class: "bar-of" }, power, ...files), note));
  return { top: el("div"), actions, routes: el("div"), decisions: el("div"), blocked, power, act };
}

function fill(parts, [now, { decisions }]) {
  parts.top.replaceChildren(
    figures([
      ["Requests", said(now.requests), `${said(now.errors)} server errors`],
      ["Slates", said(now.slates), `${percent(now.fallback_share, 1)} by fallback`],
      ["Log position", said(now.position), `learner ${said(now.lag)} behind`],
      ["Store", bytes(now.store_bytes), now.store_ok ? "takes events" : "takes no events now"],
      ["Queries", said(now.arms), `${said(now.blocked)} blocked`],
      ["State", now.on ? "on" : "off", now.learning ? now.policy : "the model stands still"],
    ]),
  );
  parts.power.textContent = now.on ? "Switch recommendations off" : "Switch recommendations on";
  parts.power.dataset.on = now.on;
  parts.blocked.replaceChildren(
    ...now.blocked_queries.map((query) =>
      el("li", {}, words(query), el("button", { type: "button", class: "quiet", text: "Unblock", "aria-label": `Unblock ${query}`, onclick: () => parts.act(() => post("/v1/unblock", { query }), "Unblocked.") })),
    ),
  );
  parts.routes.replaceChildren(wide("Latency", null, table(["Route", "Requests", "Errors", "p50 ms", "p95 ms", "p99 ms"], now.routes.map((row) => [row.route, said(row.requests), said(row.errors), said(row.p50_ms, 1), said(row.p95_ms, 1), said(row.p99_ms, 1)]))));
  parts.decisions.replaceChildren(
    wide(
      "Newest decisions",
      decisions.length ? null : "None yet.",
      table(["Time", "Query", "Outcome", "Accepted", "Policy"], decisions.map(decision), { numbers: false }),
    ),
  );
}

function decision(one) {
  const when = new Date(one.time).toLocaleTimeString("en-GB");
  return [
    el("td", { class: "when", text: when, title: one.time }),
    el("td", { class: "text" }, words(one.query)),
    el("td", {}, el("span", { class: `state ${one.state}`, text: one.state })),
    el("td", { class: "text" }, one.accepted === null ? "–" : words(one.accepted)),
    el("td", { class: "when", text: one.fallback ? `${one.policy} (fallback)` : one.policy }),
  ];
}

function wide(title, note, inside) {
  const made = box(title, note, inside);
  made.classList.add("wide");
  return made;
}

function table(names, rows, { numbers = true } = {}) {
  const right = (at) => (numbers && at > 0 ? "number" : undefined);
  const cell = (value, at) => (value instanceof Node ? value : el("td", { class: right(at), text: value }));
  return el(
    "div",
    { class: "table", tabindex: "0", role: "region", "aria-label": names.join(", ") },
    el("table", {}, el("thead", {}, el("tr", {}, ...names.map((name, at) => el("th", { scope: "col", class: right(at), text: name })))), el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map(cell))))),
  );
}

const bytes = (count) => (count > 2 ** 30 ? `${said(count / 2 ** 30, 1)} GB` : count > 2 ** 20 ? `${said(count / 2 ** 20, 1)} MB` : `${said(count / 2 ** 10, 0)} kB`);
