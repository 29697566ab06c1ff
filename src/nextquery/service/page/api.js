// Requests to the service. Every failure becomes an `ApiError` of one of a few kinds.

const KEY = "nextquery.key"; // kept in sessionStorage only, so it is removed with the tab
const TIMEOUT = 40_000;

export const key = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (text) => (text ? sessionStorage.setItem(KEY, text) : sessionStorage.removeItem(KEY)),
};

/** Take the token out of a link like #token=… and keep it as the key; the address bar loses it. */
export function takeToken() {
  const token = /^#token=([\w-]+)$/.exec(location.hash)?.[1];
  if (!token) return;
  key.set(token);
  history.replaceState(null, "", location.pathname + location.search);
}

/** kind: "key" (missing or wrong), "scope" (the key is not allowed this), "rate", "down", "error". */
export class ApiError extends Error {
  constructor(kind, detail, { wait = 0, status = 0, id = "" } = {}) {
    super(detail);
    Object.assign(this, { kind, wait, status, id });
  }
}

const KINDS = { 401: "key", 403: "scope", 429: "rate", 502: "down", 503: "down", 504: "down" };

async function errorFrom(response) {
  let problem = {};
  try {
    problem = await response.json();
  } catch {
    // a proxy in between may answer anything
  }
  return new ApiError(KINDS[response.status] ?? "error", problem.detail ?? `the service answered ${response.status}.`, {
    wait: Number(response.headers.get("Retry-After")) || 0,
    status: response.status,
    id: problem.request_id ?? "",
  });
}

/** Send a request and return its response; throws an `ApiError` if it fails. */
export async function send(method, path, body, signal) {
  const headers = {};
  if (key.get()) headers.Authorization = `Bearer ${key.get()}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const limit = AbortSignal.timeout(TIMEOUT);
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
    throw new ApiError("down", "the service cannot be reached.");
  }
  if (!response.ok) throw await errorFrom(response);
  return response;
}

export const get = async (path, signal) => (await send("GET", path, undefined, signal)).json();
export const post = async (path, body, signal) => (await send("POST", path, body, signal)).json();

/** Yield each line of a JSON Lines response as it arrives. */
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

/** Whether the service is ready for requests. */
export async function ready() {
  try {
    return (await fetch("/readyz", { cache: "no-store", signal: AbortSignal.timeout(3000) })).ok;
  } catch {
    return false;
  }
}

/** Download a file with the key, which a plain link could not send. */
export async function download(path) {
  const response = await send("GET", path);
  const name = /filename="([^"]+)"/.exec(response.headers.get("Content-Disposition") ?? "");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = name ? name[1] : "nextquery";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
