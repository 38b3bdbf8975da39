// The table of runs: search, filters, sorting, selection; live.

import { Live, get } from "./api.js";
import { go } from "./app.js";
import { h, put, runName, showRoot, statusMark, svg } from "./dom.js";
import { ago, compact, moment, score, whole } from "./format.js";

const PAGE = 80;
const STATES = ["running", "finished", "stopped", "interrupted", "failed", "died", "exported", "damaged"];
const COLUMNS = [
  { key: "name", label: "Run", kind: "text" },
  { key: "env", label: "Environment", kind: "text", wide: true },
  { key: "algorithm", label: "Algorithm", kind: "text", wide: true },
  { key: "status", label: "Status", kind: "text" },
  { key: "steps", label: "Steps", kind: "number" },
  { key: "spark", label: "Reward over time", kind: "none" },
  { key: "reward", label: "Reward", kind: "number" },
  { key: "eval", label: "Eval", kind: "number" },
  { key: "best", label: "Best", kind: "number", wide: true },
  { key: "created", label: "Age", kind: "text" },
];

export class RunsPage {
  constructor(main) {
    this.main = main;
    this.runs = new Map();
    this.rows = new Map();
    this.shown = PAGE;
    this.version = 0;
    const query = new URLSearchParams(location.search);
    this.search = query.get("q") ?? "";
    this.state = query.get("status") ?? "";
    this.sort = { key: query.get("sort") ?? "created", down: query.get("order") !== "up" };
    this.selected = new Set(selection());
    this.build();
    this.live = new Live(() => this.load(), { runs: (event) => this.update(event) });
  }

  build() {
    document.title = "Runs · Ludus";
    this.input = h("input", {
      type: "search", class: "grow", value: this.search, placeholder: "Search runs", title: "Words in name, environment, algorithm or tags; also tag:x, env:x, status:x, seed:1",
      "aria-label": "Search runs", "aria-keyshortcuts": "/",
      oninput: () => { this.search = this.input.value; this.shown = PAGE; this.arrange(); this.remember(); },
      onkeydown: (event) => {
        if (event.key === "Enter" || event.key === "ArrowDown") { event.preventDefault(); this.focusRow(0); }
        if (event.key === "Escape") this.input.blur();
      },
    });
    this.chips = h("div", { class: "chips", role: "group", "aria-label": "Status" });
    this.sorter = h("select", {
      class: "phone", "aria-label": "Sort by",
      onchange: (event) => this.sortBy(event.target.value),
    }, COLUMNS.filter((one) => one.kind !== "none").map((one) => h("option", { value: one.key, selected: one.key === this.sort.key }, one.label)));
    this.heads = COLUMNS.map((column) => h("th", { scope: "col", class: `${column.kind} ${column.wide ? "wide" : ""} col-${column.key}` },
      column.kind === "none" ? column.label : h("button", { type: "button", onclick: () => this.sortBy(column.key) }, column.label)));
    this.all = h("input", {
      type: "checkbox", "aria-label": "Select all that are shown",
      onchange: () => {
        const on = this.all.checked; // every selection sets it anew
        for (const run of this.visible.slice(0, 60)) this.select(run.id, on);
      },
    });
    this.body = h("tbody");
    this.more = h("div", { class: "more" });
    this.note = h("p", { class: "note", role: "status" });
    this.bar = h("div", { class: "selection", hidden: true });
    put(this.main,
      h("h1", { class: "visually-hidden" }, "Runs"),
      h("div", { class: "tools" }, this.input, this.sorter),
      this.chips, this.note,
      h("table", { class: "runs" },
        h("thead", {}, h("tr", {}, h("th", { class: "pick" }, this.all), this.heads)), this.body),
      this.more, this.bar);
    this.seen = new IntersectionObserver((entries) => {
      if (entries.some((entry) => entry.isIntersecting) && this.visible && this.shown < this.visible.length) {
        this.shown += 2 * PAGE;
        this.arrange();
      }
    }, { rootMargin: "600px" });
    this.seen.observe(this.more);
  }

  async load() {
    const data = await get("/api/runs");
    this.runs = new Map(data.runs.map((run) => [run.id, run]));
    for (const id of [...this.rows.keys()]) if (!this.runs.has(id)) this.rows.delete(id);
    this.rows.clear();
    showRoot(data.root);
    this.selected = new Set([...this.selected].filter((id) => this.runs.has(id)));
    this.progress(data);
    this.arrange();
    return new URLSearchParams({ since: data.version });
  }

  update(event) {
    for (const run of event.runs) {
      this.runs.set(run.id, run);
      if (this.rows.has(run.id)) this.fillRow(this.rows.get(run.id), run);
    }
    for (const id of event.removed) { this.runs.delete(id); this.rows.delete(id); this.selected.delete(id); }
    this.progress(event);
    this.arrange();
  }

  progress(data) {
    this.note.textContent = data.indexing > 3 ? `reading the metrics of ${data.indexing.toLocaleString("en")} runs …` : "";
  }

  matches(run) {
    if (this.state && run.status !== this.state) return false;
    return this.search.toLowerCase().split(/\s+/).every((word) => {
      const [, field, value] = /^(tag|env|algo|algorithm|status|name|seed):(.*)$/.exec(word) ?? [];
      if (field === "tag") return run.tags.some((tag) => tag.toLowerCase().includes(value));
      if (field === "seed") return String(run.seed) === value;
      if (field) return String(run[field === "algo" ? "algorithm" : field]).toLowerCase().includes(value);
      return [run.name, run.title, run.env, run.algorithm, run.status, ...run.tags].some((text) => text.toLowerCase().includes(word));
    });
  }

  arrange() {
    const { key, down } = this.sort;
    const column = COLUMNS.find((one) => one.key === key) ?? COLUMNS[0];
    const missing = (value) => value === null || value === undefined || value === "";
    this.visible = [...this.runs.values()].filter((run) => this.matches(run)).sort((a, b) => {
      if (missing(a[key]) || missing(b[key])) return missing(a[key]) - missing(b[key]) || a.name.localeCompare(b.name);
      const order = column.kind === "number" ? a[key] - b[key] : String(a[key]).localeCompare(String(b[key]), "en", { numeric: true });
      return (down ? -order : order) || b.name.localeCompare(a.name);
    });
    const wanted = this.visible.slice(0, this.shown).map((run) => this.row(run));
    // moved only where they differ, so that a row in focus keeps it
    wanted.forEach((row, i) => { if (this.body.children[i] !== row) this.body.insertBefore(row, this.body.children[i] ?? null); });
    while (this.body.children.length > wanted.length) this.body.lastChild.remove();
    this.heads.forEach((head, i) => {
      if (COLUMNS[i].key === key) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    this.drawChips();
    this.drawSelection();
    const rest = this.visible.length - wanted.length;
    put(this.more, rest > 0 ? `${rest.toLocaleString("en")} more …` : null);
    if (!this.visible.length) {
      put(this.more, h("p", { class: "empty" }, this.runs.size
        ? "No run matches. Escape clears the search."
        : ["No runs here yet. Start one with ", h("code", {}, "ludus train quickstart"), "; it will appear by itself."]));
    }
  }

  drawChips() {
    const counts = new Map();
    for (const run of this.runs.values()) counts.set(run.status, (counts.get(run.status) ?? 0) + 1);
    const states = [...counts.keys()].sort((a, b) => STATES.indexOf(a) - STATES.indexOf(b));
    const chip = (value, label, count) => h("button", {
      type: "button", class: "chip", "aria-pressed": String(this.state === value),
      onclick: () => { this.state = this.state === value ? "" : value; this.shown = PAGE; this.arrange(); this.remember(); },
    }, value ? statusMark(label) : label, h("span", { class: "count" }, count.toLocaleString("en")));
    const focused = [...this.chips.children].indexOf(document.activeElement);
    put(this.chips, chip("", "all", this.runs.size), states.map((state) => chip(state, state, counts.get(state))));
    if (focused >= 0) this.chips.children[focused]?.focus();
  }

  row(run) {
    if (!this.rows.has(run.id)) {
      const row = h("tr", { data: { id: run.id } });
      row.addEventListener("click", (event) => {
        if (event.target.closest("a, input, button, label")) return;
        if (event.metaKey || event.ctrlKey) window.open(`/run/${run.id}`, "_blank", "noopener");
        else go(`/run/${run.id}`);
      });
      this.fillRow(row, run);
      this.rows.set(run.id, row);
    }
    return this.rows.get(run.id);
  }

  fillRow(row, run) {
    const focused = row.contains(document.activeElement) ? document.activeElement.tagName : null;
    row.classList.toggle("chosen", this.selected.has(run.id));
    put(row,
      h("td", { class: "pick" }, h("label", {}, h("input", {
        type: "checkbox", "aria-label": `Select ${run.name}`, checked: this.selected.has(run.id),
        onchange: (event) => this.select(run.id, event.target.checked),
      }))),
      h("td", { class: "col-name" },
        h("div", { class: "name" },
          h("a", { href: `/run/${run.id}`, "data-link": true, title: run.folder ? `${run.folder}/${run.name}` : run.name }, runName(run.name)),
          run.tags.length ? h("span", { class: "tags" }, run.tags.map((tag) => h("button", {
            type: "button", class: "tag", title: `Show runs tagged ${tag}`,
            onclick: () => { this.input.value = this.search = `tag:${tag}`; this.arrange(); this.remember(); },
          }, tag))) : null),
        h("span", { class: "sub" }, h("bdi", {}, run.env), " · ", h("bdi", {}, run.algorithm))),
      h("td", { class: "wide", title: run.env }, h("bdi", {}, run.env)),
      h("td", { class: "wide col-algorithm", title: run.algorithm }, h("bdi", {}, run.algorithm)),
      h("td", { class: "col-status" }, statusMark(run.status), run.mirror?.behind ? h("span", { class: "behind", title: `The mirror is behind: ${run.mirror.trouble ?? "files are missing there"}` }, "mirror behind") : null),
      h("td", { class: "number col-steps", title: whole(run.steps) }, compact(run.steps),
        run.progress !== null && run.status === "running" ? h("progress", { max: "1", value: run.progress.toFixed(4), title: `${Math.floor(run.progress * 100)} %` }) : null),
      h("td", { class: "col-spark" }, spark(run.spark)),
      h("td", { class: "number col-reward", data: { label: "reward" } }, score(run.reward)),
      h("td", { class: "number col-eval", data: { label: "eval" } }, score(run.eval)),
      h("td", { class: "number wide" }, score(run.best)),
      h("td", { class: "col-created", title: moment(run.created) }, ago(run.created)));
    if (focused) row.querySelector(focused.toLowerCase())?.focus();
  }

  sortBy(key) {
    const column = COLUMNS.find((one) => one.key === key);
    const down = this.sort.key === key ? !this.sort.down : column.kind === "number" || key === "created";
    this.sort = { key, down };
    this.sorter.value = key;
    this.arrange();
    this.remember();
  }

  select(id, on) {
    if (on) this.selected.add(id); else this.selected.delete(id);
    const row = this.rows.get(id);
    if (row) {
      row.classList.toggle("chosen", on);
      row.querySelector("input").checked = on;
    }
    this.drawSelection();
  }

  drawSelection() {
    keepSelection([...this.selected]);
    this.bar.hidden = this.selected.size === 0;
    this.all.checked = this.selected.size > 0 && this.visible.slice(0, 60).every((run) => this.selected.has(run.id));
    put(this.bar,
      h("span", {}, `${this.selected.size} selected`),
      h("button", { type: "button", class: "primary", disabled: this.selected.size < 2, onclick: () => this.compare() }, "Compare"),
      h("button", { type: "button", class: "quiet", onclick: () => { for (const id of [...this.selected]) this.select(id, false); } }, "Clear"));
  }

  compare() {
    if (this.selected.size > 1) go(`/compare?runs=${[...this.selected].slice(0, 60).join(",")}`);
  }

  remember() {
    const query = new URLSearchParams();
    if (this.search) query.set("q", this.search);
    if (this.state) query.set("status", this.state);
    if (this.sort.key !== "created" || !this.sort.down) { query.set("sort", this.sort.key); query.set("order", this.sort.down ? "down" : "up"); }
    history.replaceState(null, "", query.size ? `/?${query}` : "/");
  }

  focusRow(index) {
    const rows = [...this.body.children];
    rows[Math.min(Math.max(index, 0), rows.length - 1)]?.querySelector("a").focus();
  }

  key(event) {
    const at = [...this.body.children].findIndex((row) => row.contains(document.activeElement));
    const here = at >= 0 ? this.body.children[at].dataset.id : null;
    if (event.key === "/") this.input.focus();
    else if (event.key === "j" || event.key === "ArrowDown") this.focusRow(at + 1);
    else if (event.key === "k" || event.key === "ArrowUp") this.focusRow(Math.max(at - 1, 0));
    else if (event.key === "x" && here) this.select(here, !this.selected.has(here));
    else if (event.key === "c") this.compare();
    else if (event.key === "Escape") { this.input.value = this.search = ""; this.state = ""; this.arrange(); this.remember(); }
    else return false;
    return true;
  }

  close() {
    this.live.close();
    this.seen.disconnect();
  }
}

function spark(values) {
  if (values.length < 2) return null;
  const width = 96, height = 24;
  const points = values.map((value, i) => `${((i / (values.length - 1)) * width).toFixed(1)},${(2 + (1 - value / 100) * (height - 4)).toFixed(1)}`).join(" ");
  return svg("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" },
    svg("polyline", { points, fill: "none" }));
}

function selection() {
  try { return JSON.parse(sessionStorage.getItem("ludus-selection") ?? "[]"); } catch { return []; }
}

function keepSelection(ids) {
  try { sessionStorage.setItem("ludus-selection", JSON.stringify(ids)); } catch { /* storage is switched off */ }
}
