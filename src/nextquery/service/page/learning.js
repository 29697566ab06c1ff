// Learning: how well the service does, from its log, and a run with simulated people.

import { get, lines } from "./api.js";
import { barChart, box, figures, keyOf, lineChart, widthIn } from "./charts.js";
import { el, number, pause, percent } from "./dom.js";
import { comparison, warnings } from "./experiment.js";
import { attempt } from "./states.js";

const EVERY = 10_000;
const VISITS = 100;
const CURVES = [
  ["ours", "this service, simulated people"],
  ["most_similar", "most similar queries, the same people"],
  ["best_possible", "best possible, for who knows every habit"],
];

export function enter(host) {
  const gone = new AbortController();
  const live = el("div", { id: "live" });
  const play = stage(gone.signal);
  host.replaceChildren(
    el("h1", { text: "Learning" }),
    el("p", { class: "lead", text: "An answer is a set of cards. It helped if somebody picked one of them; it did not if they typed something else or left. The share that helped should rise as the service learns." }),
    live,
    play,
  );
  refresh(live, gone.signal);
  return () => gone.abort();
}

async function refresh(host, signal) {
  let rows = 3;
  while (!signal.aborted) {
    const work = () => Promise.all([get("/v1/stats?by=hour", signal), get("/v1/experiment", signal)]);
    const answers = await attempt(host, work, { signal, rows, waiting: rows ? undefined : () => {} });
    rows = 0; // later refreshes keep the figures on screen
    if (answers === undefined) return;
    const [stats, found] = answers;
    host.replaceChildren(...warnings(found), ...drawn(stats, widthIn(host, 2)), ...comparison(found, widthIn(host)));
    await pause(EVERY, signal);
  }
}

function drawn(stats, width) {
  const { totals, coverage, floor } = stats;
  const policies = [...new Set(stats.rows.map((row) => row.policy))];
  const series = policies.map((name) => ({
    name,
    points: stats.rows.filter((row) => row.policy === name && row.acceptance !== null).map((row) => [Date.parse(row.from), row.acceptance]),
  }));
  const time = (ms) => new Date(ms).toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", timeZone: "UTC" });
  const known = series.some(({ points }) => points.length);
  const within = floor === null ? null : 1 - floor;
  const label = `Answers that helped, ${percent(totals.acceptance, 1)} in total`;
  return [
    figures([
      ["Answers", number(totals.rounds), `${number(totals.open)} still open`],
      ["Helped", number(totals.accepted), `${number(totals.failed)} did not`],
      ["Share that helped", percent(totals.acceptance, 1), `regret per round ${number(totals.per_round_regret, 3)}`],
      ["Within reach", percent(within), "of the steps in the log: what came next was among the candidates"],
      ["Queries shown", percent(coverage.share_of_arms_shown, 1), `of ${number(coverage.arms)}, so far`],
    ]),
    el(
      "div",
      { class: "grid" },
      box(
        "Answers that helped",
        "By policy and hour (UTC); higher is better. Answers can help more often than the dotted line: people also accept something better than what they had in mind.",
        known ? lineChart({ label, series, level: within, tick: (share) => percent(share), at: time, width }) : el("p", { class: "blank", text: "No feedback yet. Accept a recommendation in Explore, or watch simulated people below." }),
        known ? keyOf(policies, within === null ? null : `within reach in the log: ${percent(within)}`) : null,
      ),
      box(
        "Choice by step",
        "Out of how many candidates the cards were chosen, by the number of the query in its session.",
        stats.candidates.length ? barChart({ label: "Candidates by step", bars: stats.candidates.map((row) => ({ name: String(row.trial), value: row.candidates })), width }) : el("p", { class: "blank", text: "Ask a query in Explore first." }),
      ),
    ),
  ];
}

function stage(signal) {
  const picture = el("div", { id: "play-chart" });
  const note = el("span", { class: "note", id: "play-note", role: "status" });
  const button = el("button", { type: "button", class: "main", id: "play", text: `Play ${VISITS} visits of simulated people` });
  let seed = 1;
  button.addEventListener("click", () => run(button, picture, note, seed++, signal));
  const shown = box(
    "Watch it learn",
    "Sixty simulated people repeat themselves, follow each other and ask new queries, as people do in web search. They have a small pool, model and log of their own, with the settings of this service: the real ones do not change. Nothing here was measured on a person.",
    el("div", { class: "bar-of" }, button, note),
    picture,
  );
  shown.classList.add("wide");
  shown.firstElementChild.append(el("span", { class: "badge", text: "Simulated" }));
  return shown;
}

async function run(button, picture, note, seed, signal) {
  button.disabled = true;
  const work = () => played(picture, note, seed, signal);
  const rounds = await attempt(picture, work, { signal, waiting: () => {} });
  if (rounds) note.textContent = verdict(rounds);
  button.disabled = false;
}

/** One run from its first round to its last, drawn as it goes. */
async function played(picture, note, seed, signal) {
  const rounds = [];
  let drawnAt = 0;
  note.textContent = "The simulated people are writing their log…";
  for await (const row of lines("/v1/simulate", { users: VISITS, seed }, signal)) {
    rounds.push(row);
    if (performance.now() - drawnAt > 120) {
      drawnAt = performance.now();
      picture.replaceChildren(...curves(rounds, widthIn(picture)));
      note.textContent = `Visit ${row.user} of ${VISITS}, round ${row.round}`;
    }
  }
  picture.replaceChildren(...curves(rounds, widthIn(picture)));
  return rounds;
}

const total = (rounds, field) => rounds.reduce((sum, row) => sum + row[field], 0);

function verdict(rounds) {
  const [ours, similar, best] = CURVES.map(([field]) => total(rounds, field));
  return `${rounds.length} rounds. Simulated people accepted ${ours} recommendations of this service, and ${similar} of the most similar queries; the best possible is about ${number(best, 0)}.`;
}

function curves(rounds, width) {
  const thin = (points) => points.filter((_, at) => at % 4 === 0 || at === points.length - 1);
  const series = CURVES.map(([field, name]) => {
    let sum = 0;
    return { name, points: thin(rounds.map((row) => [row.round, (sum += row[field])])) };
  });
  const most = Math.max(...series.map(({ points }) => points.at(-1)?.[1] ?? 0));
  return [
    lineChart({ label: `Accepted so far: ${verdict(rounds)}`, series, high: Math.max(4, 4 * Math.ceil(most / 4)), at: (x) => `round ${number(x, 0)}`, width }),
    keyOf(CURVES.map(([, name]) => name)),
    el("p", { class: "note", text: "Accepted recommendations so far; higher is better. Most of the next queries are new, so nobody can accept them all." }),
  ];
}
