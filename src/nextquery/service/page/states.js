// Every state a view can be in while it has no answer: waiting, away, limited, locked, wrong.

import { Trouble, key, ready } from "./api.js";
import { el, pause } from "./dom.js";

const SLOW = 1500;
const WAITS = [1, 2, 4, 8, 15]; // seconds until the next look whether the service is back

/** Shapes of what will be there. */
export function skeleton(host, rows = 5) {
  const bars = Array.from({ length: rows }, () => el("div", { class: "bone", "aria-hidden": "true" }));
  host.replaceChildren(...bars, el("p", { class: "note slow", role: "status" }));
  host.setAttribute("aria-busy", "true");
}

/** A panel that says what is the matter and what can be done. */
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
 * Do the work until it succeeds; meanwhile the host shows how things stand.
 * Resolves to undefined when `signal` says that nobody waits for it any more.
 */
export async function attempt(host, work, { signal, rows, waiting = skeleton } = {}) {
  for (let tried = 0; ; tried += 1) {
    if (tried === 0) waiting(host, rows);
    const slow = setTimeout(() => {
      const note = host.querySelector(".slow");
      if (note) note.textContent = "This takes longer than usual. Still waiting …";
    }, SLOW);
    try {
      const answer = await work();
      if (signal?.aborted) return undefined;
      host.removeAttribute("aria-busy");
      return answer;
    } catch (trouble) {
      if (signal?.aborted) return undefined;
      if (!(trouble instanceof Trouble)) {
        console.warn(trouble);
        await ask(host, new Trouble("error", "the page could not read the answer."));
      } else await settle(host, trouble, signal);
    } finally {
      clearTimeout(slow);
    }
    if (signal?.aborted) return undefined;
  }
}

async function settle(host, trouble, signal) {
  if (trouble.kind === "down") await back(host, signal);
  else if (trouble.kind === "rate") await countdown(host, trouble.wait || 1, signal);
  else if (trouble.kind === "key" || trouble.kind === "scope") await unlock(host, trouble);
  else await ask(host, trouble);
}

/** Wait for the service, looking again and again; a click looks at once. */
async function back(host, signal) {
  const shown = panel(host, {
    kind: "down",
    title: "The service is away",
    text: "Nothing is lost. This page looks again by itself.",
    actions: [el("button", { type: "button", class: "main", text: "Look now" }), el("span", { class: "note" })],
  });
  const [button, note] = shown.querySelector(".actions").children;
  for (let look = 0; !signal?.aborted; look += 1) {
    for (let left = WAITS[Math.min(look, WAITS.length - 1)]; left > 0 && !signal?.aborted; left -= 1) {
      note.textContent = `Next look in ${left} s`;
      const clicked = await Promise.race([
        pause(1000, signal),
        new Promise((done) => button.addEventListener("click", () => done(true), { once: true })),
      ]);
      if (clicked) break;
    }
    note.textContent = "Looking …";
    if (await ready()) return;
  }
}

async function countdown(host, seconds, signal) {
  const shown = panel(host, {
    kind: "rate",
    title: "A little too fast",
    text: "This key has used up its requests for the moment. Your query will be asked again by itself.",
    actions: [el("span", { class: "note count" })],
  });
  for (let left = seconds; left > 0 && !signal?.aborted; left -= 1) {
    shown.querySelector(".count").textContent = `Again in ${left} s`;
    await pause(1000, signal);
  }
}

/** Ask for a key, and wait until one is given. */
function unlock(host, trouble) {
  const input = el("input", { type: "password", name: "key", id: `key-${host.id}`, autocomplete: "off", required: true, placeholder: "nq_…" });
  const form = el(
    "form",
    { class: "unlock" },
    el("label", { for: input.id, text: "API key" }),
    input,
    el("button", { type: "submit", class: "main", text: "Use this key" }),
  );
  const wrong = trouble.kind === "key" && key.get();
  panel(host, {
    kind: "key",
    title: trouble.kind === "scope" ? "This needs another key" : wrong ? "This key is not known" : "This service asks for a key",
    text: `${trouble.message} It stays in this tab and is forgotten with it.`,
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

function ask(host, trouble) {
  const button = el("button", { type: "button", class: "main", text: "Try again" });
  panel(host, {
    kind: "error",
    title: "That did not work",
    text: trouble.id ? `${trouble.message} (request ${trouble.id})` : trouble.message,
    actions: [button],
  });
  return new Promise((done) => button.addEventListener("click", done, { once: true }));
}
