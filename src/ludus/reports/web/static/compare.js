// Several runs side by side: their curves in one wall, what their configs differ in, and where they stand.

import { Live, get, path } from "./api.js";
import { go } from "./app.js";
import { h, put, runName, showRoot, statusMark } from "./dom.js";
import { compact, duration, score, whole } from "./format.js";
import { keyName } from "./details.js";
import { Panels } from "./panels.js";
import { Tabs } from "./tabs.js";

export class ComparePage {
  constructor(main) {
    this.main = main;
    document.title = "Compare · Ludus";
    this.ids = (new URLSearchParams(location.search).get("runs") ?? "").split(",").filter((id) => /^[0-9a-f]{1,64}$/.test(id)).slice(0, 60);
    this.runs = new Map();
    this.legend = h("ul", { class: "legend", "aria-label": "Runs" });
    put(main, h("div", { class: "run-head" }, h("div", { class: "title" }, h("h1", {}, "Compare"))), this.legend);
    this.live = new Live(() => this.load(), {
      rows: (event) => { this.panels.append(event.run, event.columns); },
      reset: () => this.live.open(),
      runs: (event) => this.changed(event),
    });
  }

  async load() {
    const data = await get("/api/runs");
    showRoot(data.root);
    const all = new Map(data.runs.map((run) => [run.id, run]));
    this.runs = new Map(this.ids.filter((id) => all.has(id)).map((id) => [id, all.get(id)]));
    if (!this.runs.size) {
      put(this.main, h("p", { class: "empty" }, "Choose two or more runs to compare. ", h("a", { href: "/", "data-link": true }, "All runs")));
      return null;
    }
    if (!this.panels) {
      this.panels = new Panels([...this.runs.values()].map((run, i) => ({ id: run.id, label: run.name, colour: i })));
      this.tabs = new Tabs([
        { key: "charts", label: "Charts", show: (element) => { element.append(this.panels.element); this.panels.group.redraw(); } },
        { key: "config", label: "Config", show: (element) => this.showConfig(element) },
        { key: "values", label: "Values", show: (element) => this.showValues(element) },
      ]);
      this.main.append(this.tabs.element);
    } else this.panels.refresh();
    this.drawLegend();
    const pages = await Promise.all([...this.runs.keys()].map((id) => get(path(id))));
    this.lasts = new Map(pages.map((page) => [page.summary.id, page.last]));
    this.panels.setMetrics([...new Set(pages.flatMap((page) => page.metrics))]);
    const query = new URLSearchParams({ since: data.version });
    for (const page of pages) query.append("watch", `${page.summary.id}:${page.summary.rows}:${page.summary.epoch}`);
    return query;
  }

  changed(event) {
    let ours = false;
    for (const run of event.runs) if (this.runs.has(run.id)) { this.runs.set(run.id, run); ours = true; }
    if (ours) this.drawLegend();
  }

  drawLegend() {
    const focused = document.activeElement?.dataset?.run;
    put(this.legend, [...this.runs.values()].map((run, i) => {
      const state = this.panels.runs.find((one) => one.id === run.id);
      return h("li", {
        class: state.hidden ? "off" : "",
        onpointerenter: () => this.panels.highlight(run.id), onpointerleave: () => this.panels.highlight(null),
      },
      h("button", {
        type: "button", class: "toggle", "aria-pressed": String(!state.hidden), title: state.hidden ? "Show" : "Hide", data: { run: run.id },
        onclick: () => { this.panels.setHidden(run.id, !state.hidden); this.drawLegend(); },
        onfocus: () => this.panels.highlight(run.id), onblur: () => this.panels.highlight(null),
      }, h("i", { class: `swatch c${i % 10} ${i >= 10 ? "dashed" : ""}` }), h("span", {}, runName(run.name)), h("b", {}, score(run.reward ?? run.eval))),
      h("a", { href: `/run/${run.id}`, "data-link": true, title: "Open this run", "aria-label": `Open ${run.name}` }, statusMark(run.status)),
      h("button", { type: "button", class: "icon small", title: "Take out", "aria-label": `Take out ${run.name}`, onclick: () => this.take(run.id) }, "×"));
    }));
    if (focused) this.legend.querySelector(`[data-run="${CSS.escape(focused)}"]`)?.focus();
  }

  take(id) {
    go(`/compare?runs=${this.ids.filter((one) => one !== id).join(",")}${location.hash}`, true);
  }

  showConfig(element) {
    let gone = false;
    put(element, h("p", { class: "empty" }, "…"));
    const runs = [...this.runs.values()];
    Promise.all(runs.map((run) => get(path(run.id, "/config")))).then((configs) => {
      if (gone) return;
      const maps = configs.map((values) => new Map(values));
      const keys = [...new Set(configs.flatMap((values) => values.map(([key]) => key)))];
      const differs = (key) => new Set(maps.map((map) => map.get(key))).size > 1;
      const body = h("tbody");
      const draw = (all) => {
        const shown = all ? keys : keys.filter(differs);
        put(body, shown.map((key) => h("tr", { class: differs(key) ? "differs" : "" },
          h("th", { scope: "row" }, keyName(key)),
          maps.map((map) => h("td", {}, map.has(key) ? h("bdi", {}, map.get(key)) : h("span", { class: "raw" }, "–"))))));
        if (!shown.length) put(body, h("tr", {}, h("td", { colspan: String(runs.length + 1), class: "empty" }, "The configs are the same.")));
      };
      draw(false);
      put(element,
        h("div", { class: "tools" }, h("label", { class: "check" }, h("input", { type: "checkbox", onchange: (event) => draw(event.target.checked) }), "also what is the same"),
          h("span", { class: "note" }, `${keys.filter(differs).length} of ${keys.length} keys differ`)),
        h("div", { class: "scroll" }, h("table", { class: "diff" }, this.tableHead("key", runs), body)));
    }, (error) => put(element, h("p", { class: "problem" }, error.message)));
    return () => { gone = true; };
  }

  showValues(element) {
    const runs = [...this.runs.values()];
    const metrics = [...new Set(runs.flatMap((run) => Object.keys(this.lasts?.get(run.id) ?? {})))].sort();
    const row = (label, cells) => h("tr", {}, h("th", { scope: "row" }, label), cells.map((cell) => h("td", { class: "number" }, cell)));
    put(element, h("div", { class: "scroll" }, h("table", { class: "diff" }, this.tableHead("newest value", runs), h("tbody", {},
      row("status", runs.map((run) => statusMark(run.status))),
      row("steps", runs.map((run) => whole(run.steps))),
      row("best evaluation", runs.map((run) => score(run.best))),
      row("trained for", runs.map((run) => duration(run.seconds))),
      metrics.filter((name) => !["step", "time/seconds"].includes(name)).map((name) => {
        const values = runs.map((run) => this.lasts.get(run.id)?.[name]);
        return row(keyName(name), values.map((value) => (Number.isInteger(value) ? compact(value) : score(value))));
      })))));
  }

  tableHead(label, runs) {
    return h("thead", {}, h("tr", {}, h("th", { scope: "col" }, label),
      runs.map((run, i) => h("th", { scope: "col" }, h("i", { class: `swatch c${i % 10}` }), runName(run.name)))));
  }

  key(event) {
    if (event.key !== "Escape") return false;
    go("/");
    return true;
  }

  close() {
    this.live.close();
    this.tabs?.close();
    this.panels?.close();
  }
}
