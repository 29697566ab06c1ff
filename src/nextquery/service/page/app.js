// The frame: the current view, the colour theme, and the button that forgets the key.

import { key, takeToken } from "./api.js";
import { $ } from "./dom.js";
import * as explore from "./explore.js";

const VIEWS = {
  explore: async () => explore,
  examples: () => import("./examples.js"),
  learning: () => import("./learning.js"), // loaded on first use
  operate: () => import("./operate.js"),
};
const THEME = "nextquery.theme";
let leave = () => {};

async function show() {
  takeToken(); // the link may also be pasted into a tab that is open
  updateForget();
  const hash = location.hash.slice(1);
  if (hash === "main") return; // the skip link
  const name = document.querySelector(`[data-view="${CSS.escape(hash)}"]`) ? hash : "explore"; // examples need a table
  leave();
  leave = () => {};
  for (const view of document.querySelectorAll(".view")) view.hidden = view.id !== name;
  for (const link of document.querySelectorAll("[data-view]")) {
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = name === "explore" ? "nextquery" : `nextquery · ${name}`;
  const view = await VIEWS[name]();
  if ($(name).hidden) return; // the user has moved on meanwhile
  leave = view.enter($(name)) ?? leave;
}

function applyTheme(theme) {
  document.documentElement.dataset.theme = theme;
  $("theme").textContent = theme === "dark" ? "Light" : "Dark";
  $("theme").setAttribute("aria-label", `Switch to ${theme === "dark" ? "light" : "dark"} colours`);
  document.dispatchEvent(new Event("theme"));
}

const darkScheme = matchMedia("(prefers-color-scheme: dark)");
const preferred = () => localStorage.getItem(THEME) ?? (darkScheme.matches ? "dark" : "light");
darkScheme.addEventListener("change", () => applyTheme(preferred()));
$("theme").addEventListener("click", () => {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem(THEME, theme);
  applyTheme(theme);
});

const updateForget = () => ($("forget").hidden = !key.get());
document.addEventListener("key", updateForget);
$("forget").addEventListener("click", () => {
  key.set("");
  location.reload();
});

applyTheme(preferred());
addEventListener("hashchange", show);
show();
