// Small charts in SVG: lines over time with a level, and bars.

import { el, number, svg } from "./dom.js";

const HEIGHT = 220;
const [LEFT, RIGHT, TOP, BOTTOM] = [38, 8, 10, 24];

/** The width of a chart in a host, so that its text keeps its size. */
export const widthIn = (host, columns = 1) => {
  const inside = host.clientWidth || 560;
  return Math.max(260, Math.min(1200, inside / (inside > 860 ? columns : 1) - 48));
};

function frame(label, ticks, low, high, WIDTH, tick = (value) => number(value, 2)) {
  const picture = svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label });
  const y = (value) => HEIGHT - BOTTOM - ((value - low) / (high - low || 1)) * (HEIGHT - TOP - BOTTOM);
  for (const value of ticks) {
    picture.append(
      svg("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }),
      svg("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end", text: tick(value) }),
    );
  }
  return [picture, y];
}

/**
 * Lines over a shared axis. `series`: {name, points: [[x, y], …]}; `level`: a dotted line;
 * `at`, `tick`: format an x and a y.
 */
export function lineChart({ label, series, level = null, tick, at = (x) => number(x, 0), high = 1, width: WIDTH }) {
  const all = series.flatMap(({ points }) => points);
  const [picture, y] = frame(label, [0, 0.25, 0.5, 0.75, 1].map((part) => part * high), 0, high, WIDTH, tick);
  const [first, last] = [Math.min(...all.map(([x]) => x)), Math.max(...all.map(([x]) => x))];
  const x = (value) => (last === first ? (LEFT + WIDTH - RIGHT) / 2 : LEFT + ((value - first) / (last - first)) * (WIDTH - LEFT - RIGHT));
  if (all.length) {
    picture.append(svg("text", { x: last === first ? x(first) : LEFT, y: HEIGHT - 6, "text-anchor": last === first ? "middle" : "start", text: at(first) }));
    if (last > first) picture.append(svg("text", { x: WIDTH - RIGHT, y: HEIGHT - 6, "text-anchor": "end", text: at(last) }));
  }
  if (level !== null) picture.append(svg("line", { class: "level", x1: LEFT, x2: WIDTH - RIGHT, y1: y(level), y2: y(level) }));
  series.forEach(({ points }, which) => {
    const colour = `c${which % 4}`;
    const path = points.map(([a, b], step) => `${step ? "L" : "M"}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("");
    if (points.length > 1) picture.append(svg("path", { class: `line ${colour}`, d: path }));
    if (points.length && points.length < 40) {
      for (const [a, b] of points) picture.append(svg("circle", { class: colour, cx: x(a), cy: y(b), r: 3 }));
    }
  });
  return picture;
}

/** Bars: {name, value}. */
export function barChart({ label, bars, width: WIDTH }) {
  const high = Math.max(...bars.map((bar) => bar.value), 1);
  const [picture, y] = frame(label, [0, high / 2, high].map(Math.round), 0, high, WIDTH);
  const room = (WIDTH - LEFT - RIGHT) / bars.length;
  const every = Math.ceil(20 / room); // skip names that would overlap
  const thick = Math.min(36, room * 0.7);
  bars.forEach((bar, at) => {
    const middle = LEFT + room * (at + 0.5);
    picture.append(
      svg("rect", { x: middle - thick / 2, width: thick, y: y(bar.value), height: Math.max(0, y(0) - y(bar.value)), rx: 3 }, svg("title", { text: `${bar.name}: ${number(bar.value, 1)}` })),
      svg("text", { x: middle, y: HEIGHT - 6, "text-anchor": "middle", text: at % every ? "" : bar.name }),
    );
  });
  return picture;
}

/** Estimates with their intervals around 0: {name, mean, low, high}; the interval may be unknown. */
export function intervals({ label, rows, width: WIDTH }) {
  const room = 46;
  const high = rows.length * room + 18;
  const picture = svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${high}`, role: "img", "aria-label": label });
  const ends = rows.flatMap((row) => [row.mean, row.low, row.high]).filter((value) => value !== null);
  const most = Math.min(1, Math.max(0.05, ...ends.map(Math.abs)) * 1.1);
  const x = (value) => WIDTH / 2 + (Math.max(-most, Math.min(most, value)) / most) * (WIDTH / 2 - 8);
  picture.append(svg("line", { class: "level", x1: x(0), x2: x(0), y1: 4, y2: high - 14 }), svg("text", { x: x(0), y: high - 2, "text-anchor": "middle", text: "0" }));
  rows.forEach((row, at) => {
    const y = at * room + 34;
    picture.append(svg("text", { class: "over", x: 0, y: y - 14, text: row.name }));
    if (row.low !== null) picture.append(svg("line", { class: "span", x1: x(row.low), x2: x(row.high), y1: y, y2: y }));
    if (row.mean !== null) picture.append(svg("circle", { class: "c0", cx: x(row.mean), cy: y, r: 5 }));
  });
  return picture;
}

/** The legend of the colours. */
export function keyOf(names, level) {
  const items = names.map((name, which) => el("li", {}, el("span", { class: `swatch c${which % 4}` }), name));
  if (level) items.push(el("li", {}, el("span", { class: "swatch level" }), level));
  return el("ul", { class: "key-of" }, ...items);
}

/** Large figures in a row: [name, value, text below]. */
export function figures(rows) {
  const cells = rows.map(([name, value, small]) => el("div", {}, el("dt", { text: name }), el("dd", {}, value, el("small", { text: small ?? " " }))));
  return el("dl", { class: "figures" }, ...cells);
}

/** A titled box. */
export function box(title, note, ...inside) {
  return el("div", { class: "box" }, el("h2", { text: title }), note ? el("p", { class: "note", text: note }) : null, ...inside);
}
