// Asking the service. Whatever goes wrong becomes a `Trouble` of one of a few kinds.

const KEY = "nextquery.key"; // in sessionStorage alone: gone with the tab
const LONGEST = 40_000;

export const key = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (text) => (text ? sessionStorage.setItem(KEY, text) : sessionStorage.removeItem(KEY)),
};

/** kind: "key" (none, or a wrong one), "scope" (too small a key), "rate", "down", "error". */
export class Trouble extends Error {
  constructor(kind, detail, { wait = 0, status = 0, id = "" } = {}) {
    super(detail);
    Object.assign(this, { kind, wait, status, id });
  }
}

const KINDS = { 401: "key", 403: "scope", 429: "rate", 502: "down", 503: "down", 504: "down" };

async function complaint(response) {
  let said = {};
  try {
    said = await response.json();
  } catch {
    // a proxy between may answer anything
  }
  return new Trouble(KINDS[response.status] ?? "error", said.detail ?? `the service answered ${response.status}.`, {
    wait: Number(response.headers.get("Retry-After")) || 0,
    status: response.status,
    id: said.request_id ?? "",
  });
}

/** The response to a request that succeeded. */
export async function send(method, path, body, signal) {
  const headers = {};
  if (key.get()) headers.Authorization = `Bearer ${key.get()}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const limit = AbortSignal.timeout(LONGEST);
  let response;
  try {
    response = await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
      cache: "no-store",
      credentials: "omit",
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Trouble("down", "the service cannot be reached.");
  }
  if (!response.ok) throw await complaint(response);
  return response;
}

export const get = async (path, signal) => (await send("GET", path, undefined, signal)).json();
export const post = async (path, body, signal) => (await send("POST", path, body, signal)).json();

/** Each line of an answer of JSON Lines, as it comes. */
export async function* lines(path, body, signal) {
  const response = await send("POST", path, body, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const part of parts) yield JSON.parse(part);
  }
}

/** Whether the service takes requests again. */
export async function ready() {
  try {
    return (await fetch("/readyz", { cache: "no-store", signal: AbortSignal.timeout(3000) })).ok;
  } catch {
    return false;
  }
}

/** A download that needs a key, which a plain link could not send. */
export async function download(path) {
  const response = await send("GET", path);
  const name = /filename="([^"]+)"/.exec(response.headers.get("Content-Disposition") ?? "");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = name ? name[1] : "nextquery";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
