// The map: candidates and trail in the plane of greatest variance, drawn on a canvas.

import { post } from "./api.js";
import { el, number, percent, reducedMotion, words } from "./dom.js";
import { attempt, panel } from "./states.js";

const MOVE = 450; // milliseconds from one map to the next
const NEAR = 16; // pixels within which a point is hit
const EDGE = 26;

export class MapView {
  /** `accept` is called with the text of the chosen point. */
  constructor(host, accept) {
    this.host = host;
    this.accept = accept;
    this.canvas = el("canvas", { role: "img", tabindex: "0", "aria-label": "Map" });
    this.tip = el("div", { class: "tip", hidden: true });
    this.legend = el("p", { class: "note legend", text: "Larger: closer in meaning to your query. Stronger colour: likelier to come next. Numbers: your cards. Click a point to ask it." });
    this.points = [];
    this.ring = null;
    this.pinned = null;
    this.moved = performance.now() - MOVE;
    this.loading = new AbortController();
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("pointerleave", () => !this.pinned && this.mark(null));
    this.canvas.addEventListener("click", (event) => this.choose(event));
    this.canvas.addEventListener("keydown", (event) => this.keyboard(event));
    document.addEventListener("theme", () => this.later());
    new ResizeObserver(() => this.later()).observe(host);
  }

  async load(body, ranked) {
    this.loading.abort();
    const { signal } = (this.loading = new AbortController());
    const drawn = this.host.contains(this.canvas);
    delete this.host.dataset.points;
    this.canvas.classList.add("old"); // it shows the last query until the answer arrives
    const ask = () => post("/v1/map", body, signal);
    const waiting = drawn ? () => {} : (host) => host.replaceChildren(el("div", { class: "bone tall" }));
    const answer = await attempt(this.host, ask, { signal, waiting });
    if (answer === undefined) return;
    if (!answer.points.length) {
      panel(this.host, { kind: "none", title: "No candidates", text: "There is nothing to draw for this query." });
      return;
    }
    if (!this.host.contains(this.canvas)) this.host.replaceChildren(this.canvas, this.tip, this.legend);
    this.take(answer, ranked);
  }

  /** Show the next map: points that were on the last one move to their new place. */
  take(answer, ranked) {
    const before = new Map(this.points.map((point) => [point.arm_id, point]));
    const preferences = answer.points.filter((point) => point.source === "selection").map((point) => point.preference);
    const [least, most] = [Math.min(...preferences), Math.max(...preferences)];
    const scores = answer.points.map((point) => point.score).sort((a, b) => a - b);
    const rank = new Map(scores.map((score, at) => [score, scores.length > 1 ? at / (scores.length - 1) : 1]));
    this.points = answer.points.map((point) => {
      const was = before.get(point.arm_id);
      const size = 3 + (point.source === "selection" ? (7 * (point.preference - least)) / (most - least || 1) : 0);
      return { ...point, size, warmth: rank.get(point.score), rank: ranked.indexOf(point.arm_id) + 1, from: was ? { x: was.x, y: was.y } : null };
    });
    this.points.sort((a, b) => (a.rank > 0) - (b.rank > 0) || a.warmth - b.warmth);
    this.path = [...answer.trail, answer.query];
    const all = [...answer.points, ...this.path];
    this.box = ["x", "y"].map((axis) => [Math.min(...all.map((p) => p[axis])), Math.max(...all.map((p) => p[axis]))]);
    this.mark(null);
    this.moved = performance.now() - (reducedMotion() ? MOVE : 0);
    const best = this.points.filter((point) => point.rank).map((point) => point.text);
    this.canvas.setAttribute("aria-label", `Map of ${this.points.length} candidates around ${answer.query.text}, after ${answer.trail.length} earlier queries. On the cards: ${best.join("; ")}. Use the arrow keys to move between points and Enter to ask one.`);
    this.host.dataset.points = this.points.length;
    delete this.canvas.dataset.still;
    this.canvas.classList.remove("old");
    this.later();
  }

  /** Ring the point of a card. */
  point(arm) {
    this.ring = arm;
    this.later();
  }

  later() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined;
      if (this.host.contains(this.canvas) && this.box) this.draw();
    });
  }

  place(point, width, height) {
    const [[left, right], [low, high]] = this.box;
    const x = EDGE + ((point.x - left) / (right - left || 1)) * (width - 2 * EDGE);
    const y = height - EDGE - ((point.y - low) / (high - low || 1)) * (height - 2 * EDGE);
    return [x, y];
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const scale = devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * scale) || this.canvas.height !== Math.round(height * scale)) {
      this.canvas.width = Math.round(width * scale);
      this.canvas.height = Math.round(height * scale);
    }
    const pen = this.canvas.getContext("2d");
    const style = getComputedStyle(this.host);
    const colour = (name) => style.getPropertyValue(name).trim();
    const [accent, faint, ink, paper] = ["--accent", "--faint", "--ink", "--paper"].map(colour);
    const share = Math.min(1, (performance.now() - this.moved) / MOVE);
    const eased = 1 - (1 - share) ** 3;
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    let walked = false;
    for (const point of this.points) {
      if (point.rank && !walked) {
        this.walk(pen, width, height, { ink, paper }); // below the cards' points, above the others
        walked = true;
      }
      let [x, y] = this.place(point, width, height);
      if (eased < 1 && point.from) {
        const [was, at] = this.place(point.from, width, height);
        x = was + (x - was) * eased;
        y = at + (y - at) * eased;
      }
      point.at = [x, y];
      pen.globalAlpha = (0.25 + 0.6 * point.warmth ** 2) * (point.from ? 1 : eased);
      pen.fillStyle = point.warmth > 0.5 || point.rank ? accent : faint;
      pen.beginPath();
      pen.arc(x, y, point.rank ? Math.max(9, point.size) : point.size, 0, 7);
      pen.fill();
      if (point.rank) {
        pen.globalAlpha = 1;
        pen.fill();
        pen.fillStyle = paper;
        pen.font = "600 11px system-ui, sans-serif";
        pen.textAlign = "center";
        pen.textBaseline = "middle";
        pen.fillText(point.rank, x, y + 0.5);
      }
      if (point.arm_id === this.ring || point === this.marked) {
        pen.globalAlpha = 1;
        pen.strokeStyle = ink;
        pen.lineWidth = 2;
        pen.beginPath();
        pen.arc(x, y, Math.max(9, point.size) + 4, 0, 7);
        pen.stroke();
      }
    }
    if (!walked) this.walk(pen, width, height, { ink, paper });
    if (share < 1) this.later();
    else this.canvas.dataset.still = ""; // the points no longer move
  }

  /** Draw the session so far, as a line that ends at the current query. */
  walk(pen, width, height, { ink, paper }) {
    const places = this.path.map((step) => this.place(step, width, height));
    pen.globalAlpha = 1;
    pen.strokeStyle = pen.fillStyle = ink;
    pen.lineWidth = 1.5;
    pen.setLineDash([4, 4]);
    pen.beginPath();
    places.forEach(([x, y], at) => (at ? pen.lineTo(x, y) : pen.moveTo(x, y)));
    pen.stroke();
    pen.setLineDash([]);
    places.forEach(([x, y], at) => {
      const here = at === places.length - 1;
      pen.fillStyle = here ? ink : paper;
      pen.beginPath();
      pen.arc(x, y, here ? 7 : 4, 0, 7);
      pen.fill();
      pen.stroke();
    });
    const [x, y] = places.at(-1);
    pen.font = "600 12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    const left = x > width / 2;
    pen.textAlign = left ? "right" : "left";
    pen.lineWidth = 4;
    pen.strokeStyle = paper;
    const room = (left ? x : width - x) - 24;
    let label = this.path.at(-1).text;
    for (let most = 40; most > 3 && pen.measureText(label).width > room; most -= 2) label = cut(label, most);
    pen.strokeText(label, x + (left ? -13 : 13), y);
    pen.fillStyle = ink;
    pen.fillText(label, x + (left ? -13 : 13), y);
  }

  near(event) {
    const frame = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - frame.left, event.clientY - frame.top];
    let best = null;
    let least = NEAR;
    for (const point of this.points) {
      if (!point.at) continue;
      const far = Math.hypot(point.at[0] - x, point.at[1] - y) - (point.rank ? 4 : 0);
      if (far < least) [best, least] = [point, far];
    }
    return best;
  }

  hover(event) {
    if (event.pointerType === "touch") return;
    const found = this.near(event);
    if (found !== this.marked) this.mark(found);
  }

  choose(event) {
    const found = this.near(event);
    if (!found) return this.mark(null);
    if (event.pointerType !== "touch") return this.accept(found.text);
    this.mark(found, true); // a finger covers the point, so show it first and let a button ask
  }

  mark(point, pinned = false) {
    this.marked = point;
    this.pinned = pinned && point;
    this.canvas.classList.toggle("on", Boolean(point));
    this.tip.hidden = !point;
    if (point) {
      const why = `${percent(point.similarity)} similar`;
      const take = pinned ? el("button", { type: "button", class: "main", text: "Ask this", onclick: () => this.accept(point.text) }) : null;
      this.tip.replaceChildren(words(point.text, "strong"), el("span", { class: "note", text: why }), ...(take ? [take] : []));
      this.tip.classList.toggle("pinned", pinned);
      const [x, y] = point.at;
      const half = this.canvas.clientWidth / 2;
      this.tip.style.insetInlineStart = `${Math.max(0, Math.min(x - 120, 2 * half - 250))}px`;
      this.tip.style.insetBlockStart = `${y + 16}px`;
      this.tip.classList.toggle("above", y > this.canvas.clientHeight * 0.6);
    }
    this.later();
  }

  keyboard(event) {
    const order = [...this.points].reverse();
    const at = order.indexOf(this.marked);
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step) this.mark(order[(at + step + order.length) % order.length]);
    else if (event.key === "Enter" && this.marked) this.accept(this.marked.text);
    else if (event.key === "Escape") this.mark(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
