// The frame: which view is shown, light or dark, and the key that can be forgotten.

import { key } from "./api.js";
import { $ } from "./dom.js";
import * as explore from "./explore.js";

const VIEWS = {
  explore: async () => explore,
  learning: () => import("./learning.js"), // what is not looked at is not loaded
  operate: () => import("./operate.js"),
};
const THEME = "nextquery.theme";
let leave = () => {};

async function show() {
  const asked = location.hash.slice(1);
  if (asked === "main") return; // the skip link
  const name = asked in VIEWS ? asked : "explore";
  leave();
  leave = () => {};
  for (const view of document.querySelectorAll(".view")) view.hidden = view.id !== name;
  for (const link of document.querySelectorAll("[data-view]")) {
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = name === "explore" ? "nextquery" : `nextquery · ${name}`;
  const view = await VIEWS[name]();
  if ($(name).hidden) return; // somebody went on meanwhile
  leave = view.enter($(name)) ?? leave;
}

function dress(theme) {
  document.documentElement.dataset.theme = theme;
  $("theme").textContent = theme === "dark" ? "Light" : "Dark";
  $("theme").setAttribute("aria-label", `Switch to ${theme === "dark" ? "light" : "dark"} colours`);
  document.dispatchEvent(new Event("theme"));
}

const night = matchMedia("(prefers-color-scheme: dark)");
const preferred = () => localStorage.getItem(THEME) ?? (night.matches ? "dark" : "light");
night.addEventListener("change", () => dress(preferred()));
$("theme").addEventListener("click", () => {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem(THEME, theme);
  dress(theme);
});

const locked = () => ($("forget").hidden = !key.get());
document.addEventListener("key", locked);
$("forget").addEventListener("click", () => {
  key.set("");
  location.reload();
});

dress(preferred());
locked();
addEventListener("hashchange", show);
show();
