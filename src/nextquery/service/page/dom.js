// Elements are made here and nowhere else: text is only ever text, never markup.

export const $ = (id) => document.getElementById(id);

const SVG = "http://www.w3.org/2000/svg";

/** An element: `on…` are listeners, `text` its text, `class` its classes, the rest attributes. */
export function el(tag, options = {}, ...children) {
  return filled(document.createElement(tag), options, children);
}

/** An SVG element. */
export function svg(tag, options = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), options, children);
}

function filled(node, options, children) {
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "text") node.textContent = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** Text that others wrote: it may be long, and run from right to left. */
export const words = (text, tag = "span", kind = "words") => el(tag, { class: kind, dir: "auto", text });

/** A number for people. */
export function said(value, digits = 2) {
  if (value === null || value === undefined) return "–";
  return value.toLocaleString("en", { maximumFractionDigits: digits });
}

export const percent = (value, digits = 0) => (value === null || value === undefined ? "–" : `${said(100 * value, digits)} %`);

export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

export const pause = (ms, signal) =>
  new Promise((done) => {
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", () => (clearTimeout(timer), done()), { once: true });
  });

/** A name nobody else has; `crypto.randomUUID` is missing where there is no TLS. */
export function fresh() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
