// All elements are created here. Text is always set as text, never as markup.

export const $ = (id) => document.getElementById(id);

const SVG = "http://www.w3.org/2000/svg";

/** Create an element: `on…` are listeners, `text` is its text, everything else an attribute. */
export function el(tag, options = {}, ...children) {
  return filled(document.createElement(tag), options, children);
}

/** Create an SVG element. */
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

/** Text from users: it may be long or right-to-left. */
export const words = (text, tag = "span", kind = "words") => el(tag, { class: kind, dir: "auto", text });

/** Format a number. */
export function number(value, digits = 2) {
  if (value === null || value === undefined) return "–";
  return value.toLocaleString("en", { maximumFractionDigits: digits });
}

export const percent = (value, digits = 0) => (value === null || value === undefined ? "–" : `${number(100 * value, digits)} %`);

/** A probability as a share of people: "about 5 in 10 people", "about 1 in 12 people". */
export function chance(share) {
  if (share >= 0.95) return "nearly all people";
  if (share >= 0.35) return `about ${Math.round(10 * share)} in 10 people`;
  const one = 1 / share;
  if (one > 1000) return "fewer than 1 in 1,000 people";
  return `about 1 in ${number(one > 20 ? Number(one.toPrecision(2)) : Math.round(one), 0)} people`;
}

export const reducedMotion = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

export const pause = (ms, signal) =>
  new Promise((done) => {
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", () => (clearTimeout(timer), done()), { once: true });
  });

/** A unique id; `crypto.randomUUID` is not available without TLS. */
export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
