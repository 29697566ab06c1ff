// Every state of a view without an answer: waiting, unavailable, rate-limited, locked, error.

import { ApiError, key, ready } from "./api.js";
import { el, pause } from "./dom.js";

const SLOW = 1500;
const WAITS = [1, 2, 4, 8, 15]; // seconds between checks whether the service is back

/** Show placeholders while waiting. */
export function skeleton(host, rows = 5) {
  const bars = Array.from({ length: rows }, () => el("div", { class: "bone", "aria-hidden": "true" }));
  host.replaceChildren(...bars, el("p", { class: "note slow", role: "status" }));
  host.setAttribute("aria-busy", "true");
}

/** Show a panel with the problem and what you can do. */
export function panel(host, { kind, title, text, actions = [] }) {
  host.removeAttribute("aria-busy");
  host.replaceChildren(
    el(
      "div",
      { class: `panel ${kind}`, role: "status", "data-state": kind },
      el("h3", { text: title }),
      el("p", { text }),
      ...(actions.length ? [el("div", { class: "actions" }, ...actions)] : []),
    ),
  );
  return host.firstElementChild;
}

/**
 * Repeat the work until it succeeds; meanwhile the host shows the state.
 * Resolves to undefined if `signal` is aborted.
 */
export async function attempt(host, work, { signal, rows, waiting = skeleton } = {}) {
  for (let tried = 0; ; tried += 1) {
    if (tried === 0) waiting(host, rows);
    const slow = setTimeout(() => {
      const note = host.querySelector(".slow");
      if (note) note.textContent = "This is taking longer than usual. Still waiting …";
    }, SLOW);
    try {
      const answer = await work();
      if (signal?.aborted) return undefined;
      host.removeAttribute("aria-busy");
      return answer;
    } catch (error) {
      if (signal?.aborted) return undefined;
      if (!(error instanceof ApiError)) {
        console.warn(error);
        await retry(host, new ApiError("error", "the page could not read the answer."));
      } else await recover(host, error, signal);
    } finally {
      clearTimeout(slow);
    }
    if (signal?.aborted) return undefined;
  }
}

async function recover(host, error, signal) {
  if (error.kind === "down") await waitForService(host, signal);
  else if (error.kind === "rate") await countdown(host, error.wait || 1, signal);
  else if (error.kind === "key" || error.kind === "scope") await unlock(host, error);
  else await retry(host, error);
}

/** Wait until the service is back, checking at intervals; a click checks at once. */
async function waitForService(host, signal) {
  const shown = panel(host, {
    kind: "down",
    title: "The service is unavailable",
    text: "Nothing is lost. This page retries automatically.",
    actions: [el("button", { type: "button", class: "main", text: "Retry now" }), el("span", { class: "note" })],
  });
  const [button, note] = shown.querySelector(".actions").children;
  for (let check = 0; !signal?.aborted; check += 1) {
    for (let seconds = WAITS[Math.min(check, WAITS.length - 1)]; seconds > 0 && !signal?.aborted; seconds -= 1) {
      note.textContent = `Next try in ${seconds} s`;
      const clicked = await Promise.race([
        pause(1000, signal),
        new Promise((done) => button.addEventListener("click", () => done(true), { once: true })),
      ]);
      if (clicked) break;
    }
    note.textContent = "Checking …";
    if (await ready()) return;
  }
}

async function countdown(host, seconds, signal) {
  const shown = panel(host, {
    kind: "rate",
    title: "Too many requests",
    text: "This key has reached its rate limit. Your query is retried automatically.",
    actions: [el("span", { class: "note count" })],
  });
  for (let left = seconds; left > 0 && !signal?.aborted; left -= 1) {
    shown.querySelector(".count").textContent = `Retrying in ${left} s`;
    await pause(1000, signal);
  }
}

/** Ask for a key and wait until it is entered. */
function unlock(host, error) {
  const input = el("input", { type: "password", name: "key", id: `key-${host.id}`, autocomplete: "off", required: true, placeholder: "nq_…" });
  const form = el(
    "form",
    { class: "unlock" },
    el("label", { for: input.id, text: "API key or token" }),
    input,
    el("button", { type: "submit", class: "main", text: "Use this key" }),
  );
  const wrong = error.kind === "key" && key.get();
  panel(host, {
    kind: "key",
    title: error.kind === "scope" ? "This needs another API key" : wrong ? "Unknown API key" : "This view needs the link from the terminal, or an API key",
    text: `${error.message} The key is kept in this tab only.`,
    actions: [form],
  });
  input.focus({ preventScroll: true });
  return new Promise((done) =>
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      key.set(input.value.trim());
      document.dispatchEvent(new Event("key"));
      done();
    }),
  );
}

function retry(host, error) {
  const button = el("button", { type: "button", class: "main", text: "Try again" });
  panel(host, {
    kind: "error",
    title: "Something went wrong",
    text: error.id ? `${error.message} (request ${error.id})` : error.message,
    actions: [button],
  });
  return new Promise((done) => button.addEventListener("click", done, { once: true }));
}
