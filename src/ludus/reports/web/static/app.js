// The frame around the pages: which one is shown, the theme, and the keys.

import { ComparePage } from "./compare.js";
import { h, put } from "./dom.js";
import { remember, remembered } from "./panels.js";
import { RunPage } from "./run.js";
import { RunsPage } from "./runs.js";

const KEYS = [
  ["/", "search"], ["j k", "next, previous run"], ["Enter", "open the run"], ["x", "select the run"], ["c", "compare what is selected"],
  ["← →", "in a chart: move along the curve; Shift for more"], ["drag", "in a chart: zoom; double click, or Escape, ends it"],
  ["Esc", "back"], ["t", "light, dark, as the system"], ["?", "these keys"],
];
const THEMES = { auto: ["◐", "as the system"], light: ["☀", "light"], dark: ["☾", "dark"] };

let page = null;
let address = "";
const main = document.getElementById("main");

export function go(target, replace = false) {
  history[replace ? "replaceState" : "pushState"](null, "", target);
  show();
  scrollTo(0, 0);
}

function show() {
  page?.close();
  address = location.pathname + location.search;
  const found = /^\/run\/([0-9a-f]+)$/.exec(location.pathname);
  if (found) page = new RunPage(main, found[1]);
  else if (location.pathname === "/compare") page = new ComparePage(main);
  else page = new RunsPage(main);
}

function theme(next) {
  if (next) {
    remember("theme", next);
    if (next === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    document.dispatchEvent(new Event("ludus-theme"));
  }
  const current = remembered("theme", "auto");
  const [sign, label] = THEMES[current] ?? THEMES.auto;
  const button = document.getElementById("theme");
  button.textContent = sign;
  button.setAttribute("aria-label", `Theme: ${label}`);
  button.title = `Theme: ${label} (t)`;
  return current;
}

function nextTheme() {
  const names = Object.keys(THEMES);
  theme(names[(names.indexOf(theme()) + 1) % names.length]);
}

function help() {
  if (document.querySelector("dialog[open]")) return;
  const dialog = h("dialog", { class: "ask", "aria-labelledby": "keys-title" },
    h("h2", { id: "keys-title" }, "Keys"),
    h("table", { class: "pairs" }, h("tbody", {}, KEYS.map(([key, what]) => h("tr", {}, h("th", { scope: "row" }, h("kbd", {}, key)), h("td", {}, what))))),
    h("form", { method: "dialog", class: "actions" }, h("button", { autofocus: true }, "Close")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-link]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  go(link.getAttribute("href"));
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.closest("input:not([type=checkbox]):not([type=range]), textarea, select, canvas")) return;
  if (event.key === "?") help();
  else if (event.key === "t") nextTheme();
  else if (!page?.key(event)) return;
  event.preventDefault();
});

document.getElementById("theme").addEventListener("click", nextTheme);
document.getElementById("keys").addEventListener("click", help);
window.addEventListener("popstate", () => { if (location.pathname + location.search !== address) show(); });
theme();
put(main);
show();
