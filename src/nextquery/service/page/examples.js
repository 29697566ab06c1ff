// Examples: rows of a table to mark, and the SQL query that finds such rows.
// The service keeps nothing: all labels of this tab are in sessionStorage and go with each request.

import { ApiError, post } from "./api.js";
import { box, figures } from "./charts.js";
import { el, number, words } from "./dom.js";
import { attempt, panel } from "./states.js";

const KEPT = "nextquery.examples";
const WHY = { discovery: "not seen yet", misclassified: "perhaps wrong", boundary: "at a border" };

const fresh = () => ({ seed: crypto.getRandomValues(new Uint32Array(1))[0], table: null, rounds: [], marked: [] });
const read = () => JSON.parse(sessionStorage.getItem(KEPT) ?? "null") ?? fresh();
const keep = (state) => sessionStorage.setItem(KEPT, JSON.stringify(state));

export function enter(host) {
  const gone = new AbortController();
  const body = el("div", { id: "rounds" });
  const said = el("p", { class: "unseen", role: "status" });
  host.replaceChildren(
    el("h1", { text: "Examples" }),
    el("p", { class: "lead", text: "Mark the rows that you are looking for. Each round learns from the marks and shows rows that tell most. The query below finds all rows like those." }),
    body,
    said,
  );
  const view = { body, said, signal: gone.signal, state: read() };
  go(view, {});
  return () => gone.abort();
}

/** Ask for the round that follows from all labels, and show it. */
async function go(view, { waiting = undefined, focus = false }) {
  const { body, said, signal, state } = view;
  keep(state);
  const answer = await attempt(body, () => asked(state, signal), { signal, rows: 4, waiting });
  if (answer === undefined) return;
  if (answer instanceof ApiError) return refused(view, answer);
  state.table = answer.table;
  keep(state);
  body.replaceChildren(...shown(view, answer));
  if (!focus) return;
  body.querySelector("h2").focus();
  said.textContent = `${answer.next.length} rows to mark. The query selects ${number(answer.selected)} rows.`;
}

/** The answer, or the error that trying again does not help. */
async function asked({ seed, table, rounds }, signal) {
  const relevant = rounds.flatMap((round) => round.relevant);
  const irrelevant = rounds.flatMap((round) => round.rows.filter((row) => !round.relevant.includes(row)));
  try {
    return await post("/v1/explore", { seed, table, relevant, irrelevant }, signal);
  } catch (error) {
    if (error instanceof ApiError && [404, 409, 413, 422].includes(error.status)) return error;
    throw error;
  }
}

function refused(view, error) {
  const actions = [button("Start over", "main", () => startOver(view)), button("Take back", "quiet", () => takeBack(view))];
  panel(view.body, { kind: "error", title: "These labels cannot be used", text: error.message, actions: view.state.rounds.length ? actions : actions.slice(0, 1) });
}

const button = (text, kind, onclick, more = {}) => el("button", { type: "button", class: kind, text, onclick, ...more });

function startOver(view) {
  view.state = fresh();
  go(view, { focus: true });
}

function takeBack(view) {
  const last = view.state.rounds.pop();
  view.state.marked = last.relevant;
  go(view, { waiting: busy, focus: true });
}

/** Until the next round is there, the present one stays, but cannot be changed. */
function busy(host) {
  host.setAttribute("aria-busy", "true");
  for (const each of host.querySelectorAll("button, input")) each.disabled = true;
}

function shown(view, answer) {
  const { state } = view;
  const rows = answer.next.map(({ row }) => row);
  state.marked = state.marked.filter((row) => rows.includes(row));
  const next = button("", "main", () => {
    state.rounds.push({ rows, relevant: state.marked });
    state.marked = [];
    go(view, { waiting: busy, focus: true });
  }, { id: "next-round" });
  const count = () => (next.textContent = state.marked.length ? `Next round: ${state.marked.length} relevant` : "Next round: none is relevant");
  count();
  const mark = (row, on) => {
    state.marked = on ? [...state.marked, row] : state.marked.filter((each) => each !== row);
    keep(state);
    count();
  };
  const actions = el(
    "div",
    { class: "bar-of" },
    rows.length ? next : null,
    state.rounds.length ? button("Take back", "quiet", () => takeBack(view), { id: "take-back" }) : null,
    state.rounds.length ? button("Start over", "quiet", () => startOver(view), { id: "start-over" }) : null,
  );
  const title = rows.length ? `Round ${state.rounds.length + 1}: which rows are relevant?` : "Every row is labelled";
  const toMark = box(title, null, rows.length ? grid(answer, state.marked, mark) : null, actions, ...leftOut(answer));
  toMark.classList.add("wide");
  toMark.querySelector("h2").tabIndex = -1;
  return [summary(answer), toMark, query(answer)];
}

const summary = (answer) =>
  figures([
    ["Table", answer.name, `${number(answer.rows)} rows`],
    ["Labels", number(answer.labels), `${number(answer.relevant)} relevant`],
    ["Selected", number(answer.selected), "rows, by the query below"],
  ]);

function grid({ columns, next }, marked, mark) {
  const isNumber = columns.map((_, at) => next.every(({ values }) => values[at] === null || typeof values[at] === "number"));
  const side = (at, value = "") => (isNumber[at] ? "number" : text(value).length > 24 ? "value" : "short");
  const head = el("tr", {}, el("th", { scope: "col", class: "tick" }, el("span", { class: "unseen", text: "Relevant" })), ...columns.map((name, at) => el("th", { scope: "col", class: side(at) }, words(name))), el("th", { scope: "col", text: "Why" }));
  const lines = next.map(({ row, values, phase }) => {
    const tick = el("input", { type: "checkbox", "aria-label": `Relevant: ${columns.map((name, at) => `${name} ${text(values[at])}`).join(", ")}`, "data-row": row });
    const line = el("tr", {}, el("td", { class: "tick" }, tick), ...values.map((value, at) => el("td", { class: side(at, value) }, words(text(value)))), el("td", { class: "when", text: WHY[phase] ?? phase }));
    const set = (on) => (tick.checked = on, line.classList.toggle("taken", on));
    set(marked.includes(row));
    tick.addEventListener("change", () => (set(tick.checked), mark(row, tick.checked)));
    line.addEventListener("click", (event) => {
      if (event.target !== tick && !getSelection().toString()) tick.click(); // who selects text does not mark
    });
    return line;
  });
  return el("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Rows to mark" }, el("table", { class: "marks" }, el("thead", {}, head), el("tbody", {}, ...lines)));
}

/** Whole numbers as they are: 2024 may be a year. */
function text(value) {
  if (value === null) return "–";
  return typeof value === "number" && !Number.isInteger(value) ? String(Number(value.toPrecision(6))) : String(value);
}

function leftOut({ left_out: columns }) {
  const reasons = Object.entries(columns).map(([name, why]) => `${name} (${why})`);
  return reasons.length ? [el("p", { class: "note", dir: "auto", text: `No conditions on: ${reasons.join("; ")}.` })] : [];
}

function query(answer) {
  const none = "No row is relevant yet. Mark one as soon as you see one; until then, each round shows other parts of the table.";
  if (!answer.relevant) return box("The query", none);
  const sql = el("pre", { class: "sql", id: "sql", dir: "ltr", text: answer.sql });
  const note = el("span", { class: "note", role: "status" });
  const copy = button("Copy", "quiet", async () => {
    try {
      await navigator.clipboard.writeText(answer.sql);
      note.textContent = "Copied.";
    } catch {
      getSelection().selectAllChildren(sql); // without TLS, or not allowed
      note.textContent = "Selected. Press Ctrl+C to copy.";
    }
  }, { id: "copy" });
  return box("The query", "DuckDB runs it in the folder of the file. The condition after WHERE works in most databases.", sql, el("div", { class: "bar-of" }, copy, note));
}
