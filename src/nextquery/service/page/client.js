// nextquery in the browser: ask for the next queries, tell what was clicked. No dependencies.
//
//   import { Nextquery } from "/client.js";
//   const nextquery = new Nextquery();
//   const slate = await nextquery.recommend("cat food", { m: 5 });
//   nextquery.clicked(slate, slate.recommendations[0]);
//
// docs/javascript.md says more. A key in a web page is public: give a page a proxy, or a key of its own.

const AGAIN = new Set([408, 429, 502, 503, 504]); // nothing was written, or repeating is safe

/** An answer that is no success (`status`), or none at all (0). `detail` says what to do. */
export class NextqueryError extends Error {
  constructor(status, detail) {
    super(detail);
    this.name = "NextqueryError";
    this.status = status;
  }
}

const newId = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join("");

export class Nextquery {
  /**
   * url: of the service or of your proxy to it; timeout: milliseconds for one call with all its
   * attempts; retries: attempts after the first; sessionId: of this visit, by default one per tab.
   * user: { user_id, user_signature }, sent with every call.
   */
  constructor(url = "", { key, timeout = 3000, retries = 2, sessionId, user = {} } = {}) {
    this.url = new URL(url.replace(/\/?$/, "/"), location.href).href;
    Object.assign(this, { key, timeout, retries, user });
    this.sessionId = sessionId ?? this.#ofThisTab();
  }

  /** The next queries: { decision_id, recommendations: [{ arm_id, text, … }], … }. */
  recommend(query, { m = 5, signal, ...more } = {}) {
    const body = { session_id: this.sessionId, query, m, request_id: newId(), ...more };
    return this.#call("recommend", body, signal); // every attempt has the same request_id
  }

  /** What happened to a slate: one of its entries was accepted, or null, and what was typed. */
  feedback(slate, accepted = null, { issued, signal } = {}) {
    return this.#call("feedback", outcome(slate, accepted, issued), signal);
  }

  /** The same without an answer; it arrives even if the page is being left. */
  clicked(slate, accepted = null, { issued } = {}) {
    const body = JSON.stringify({ ...this.user, ...outcome(slate, accepted, issued) });
    const here = new URL(this.url).origin === location.origin;
    const url = `${this.url}v1/feedback`;
    if (here && !this.key && navigator.sendBeacon?.(url, new Blob([body], JSON_TYPE))) return;
    fetch(url, { ...this.#request(body), keepalive: true }).catch(() => {});
  }

  /** The likeliest next queries with probabilities; nothing is recorded. */
  forecast(query, { m = 5, signal, ...more } = {}) {
    return this.#call("forecast", { session_id: this.sessionId, query, m, ...more }, signal);
  }

  async #call(path, body, signal) {
    const over = new AbortController();
    const abort = () => over.abort(signal.reason);
    if (signal?.aborted) throw signal.reason;
    signal?.addEventListener("abort", abort);
    const late = new NextqueryError(0, `no answer within ${this.timeout} ms`);
    const timer = setTimeout(() => over.abort(late), this.timeout);
    try {
      return await this.#attempts(path, JSON.stringify({ ...this.user, ...body }), over.signal);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    }
  }

  async #attempts(path, body, signal) {
    for (let left = this.retries, wait = 100; ; left--, wait *= 2) {
      let problem;
      try {
        const options = { ...this.#request(body), signal };
        const answer = await fetch(`${this.url}v1/${path}`, options);
        if (answer.ok) return await answer.json();
        const { detail } = await answer.json().catch(() => ({}));
        problem = new NextqueryError(answer.status, detail ?? answer.statusText);
        wait = Math.max(wait, 1000 * (answer.headers.get("Retry-After") || 0));
      } catch (error) {
        signal.throwIfAborted();
        problem = new NextqueryError(0, `the service cannot be reached (${error.message})`);
      }
      if (left <= 0 || !(problem.status === 0 || AGAIN.has(problem.status))) throw problem;
      await pause(wait, signal);
    }
  }

  #request(body) {
    const headers = { "Content-Type": JSON_TYPE.type };
    if (this.key) headers.Authorization = `Bearer ${this.key}`;
    return { method: "POST", body, headers, credentials: "omit" };
  }

  #ofThisTab() {
    try {
      return (sessionStorage["nextquery-session"] ??= newId());
    } catch {
      return newId(); // storage is turned off: each page is a visit
    }
  }
}

const JSON_TYPE = { type: "application/json" };

const outcome = (slate, accepted, issued) => ({
  decision_id: slate.decision_id ?? slate,
  accepted: accepted?.arm_id ?? accepted,
  ...(issued && { issued }),
});

const pause = (ms, signal) =>
  new Promise((done, failed) => {
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), failed(signal.reason)));
  });
