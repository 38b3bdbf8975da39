// The wall of charts: one panel per metric, grouped by the first part of its name, loaded as it comes into view.

import { get } from "./api.js";
import { Chart, ChartGroup } from "./chart.js";
import { h, put } from "./dom.js";
import { score } from "./format.js";

const POINTS = 500;
const ORDER = ["rollout", "eval", "games", "league", "train", "time"];
const FIRST = ["rollout/ep_rew_mean", "eval/mean_reward", "rollout/ep_len_mean", "rollout/success_rate"];
const AXES = [["step", "steps"], ["time/seconds", "time"], ["updates", "updates"], ["episodes", "episodes"]];
const CLOCKS = AXES.map(([name]) => name);

export class Panels {
  // runs: [{id, label, colour}]
  constructor(runs) {
    this.runs = runs;
    this.panels = new Map();
    this.wanted = new Set();
    this.filter = "";
    this.group = new ChartGroup({ onZoom: () => this.zoomed() });
    this.group.settings.smoothing = Number(remembered("smoothing", "0.6"));
    this.seen = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        const panel = this.panels.get(entry.target.dataset.metric);
        if (!panel) continue;
        panel.chart.visible = entry.isIntersecting;
        if (entry.isIntersecting) {
          if (panel.stale) this.want(panel);
          panel.chart.schedule();
        }
      }
    }, { rootMargin: "300px" });
    this.body = h("div", { class: "wall" });
    this.element = h("div", {}, this.toolbar(), this.body);
  }

  toolbar() {
    const value = h("output", {}, this.group.settings.smoothing.toFixed(2));
    this.reset = h("button", { type: "button", hidden: true, onclick: () => this.group.setZoom(null) }, "reset zoom");
    return h("div", { class: "tools" },
      h("input", {
        type: "search", placeholder: "Filter metrics", "aria-label": "Filter metrics", class: "grow",
        oninput: (event) => { this.filter = event.target.value.toLowerCase(); this.arrange(); },
      }),
      h("label", {}, "over", h("select", {
        "aria-label": "Horizontal axis",
        onchange: (event) => { this.group.settings.x = event.target.value; this.group.zoom = null; this.zoomed(); },
      }, AXES.map(([name, label]) => h("option", { value: name }, label)))),
      h("label", { class: "slider" }, "smoothing", h("input", {
        type: "range", min: "0", max: "0.99", step: "0.01", value: this.group.settings.smoothing,
        oninput: (event) => {
          this.group.settings.smoothing = Number(event.target.value);
          value.textContent = this.group.settings.smoothing.toFixed(2);
          remember("smoothing", event.target.value);
          this.group.redraw();
        },
      }), value),
      h("label", { class: "check" }, h("input", {
        type: "checkbox", onchange: (event) => { this.group.settings.log = event.target.checked; this.group.redraw(); },
      }), "log"),
      this.reset);
  }

  // Metrics may appear while a run goes on; those that are there stay as they are.
  setMetrics(metrics, last = {}) {
    let added = false;
    for (const metric of metrics) {
      if (CLOCKS.includes(metric)) continue;
      if (!this.panels.has(metric)) { this.panels.set(metric, this.panel(metric)); added = true; }
      if (metric in last) this.panels.get(metric).value.textContent = score(last[metric]);
    }
    if (added || !this.panels.size) this.arrange();
  }

  panel(metric) {
    const chart = new Chart(this.group, metric);
    chart.visible = false;
    chart.loading = true;
    const value = h("span", { class: "latest" });
    const [folder, rest] = split(metric);
    const element = h("section", { class: "panel", data: { metric } },
      h("header", {},
        h("h3", { title: metric }, rest),
        value,
        h("button", {
          class: "icon small", type: "button", title: "Enlarge", "aria-label": `Enlarge ${metric}`, "aria-pressed": "false",
          onclick: (event) => {
            const large = element.classList.toggle("large");
            event.currentTarget.setAttribute("aria-pressed", String(large));
          },
        }, "⤢")),
      chart.element);
    this.seen.observe(element);
    return { metric, folder, element, chart, value, stale: true };
  }

  arrange() {
    const groups = new Map();
    for (const panel of this.panels.values()) {
      if (this.filter && !panel.metric.toLowerCase().includes(this.filter)) continue;
      if (!groups.has(panel.folder)) groups.set(panel.folder, []);
      groups.get(panel.folder).push(panel);
    }
    const place = (list, name) => (list.includes(name) ? list.indexOf(name) : list.length);
    const names = [...groups.keys()].sort((a, b) => place(ORDER, a) - place(ORDER, b) || a.localeCompare(b));
    put(this.body, names.map((name) => {
      const panels = groups.get(name).sort((a, b) => place(FIRST, a.metric) - place(FIRST, b.metric) || a.metric.localeCompare(b.metric));
      return h("section", { class: "group" }, h("h2", {}, name || "other"), h("div", { class: "grid" }, panels.map((one) => one.element)));
    }));
    if (!names.length) put(this.body, h("p", { class: "empty" }, this.panels.size ? "No metric has that in its name." : "No values yet."));
  }

  want(panel) {
    this.wanted.add(panel);
    if (this.wanted.size === 1) queueMicrotask(() => this.load());
  }

  async load() {
    const panels = [...this.wanted];
    this.wanted.clear();
    const query = new URLSearchParams({ x: this.group.settings.x, points: POINTS });
    for (const run of this.runs) query.append("runs", run.id);
    for (const panel of panels) { query.append("metrics", panel.metric); panel.stale = false; }
    if (this.group.zoom) { query.set("from", this.group.zoom[0]); query.set("to", this.group.zoom[1]); }
    const asked = (this.asked = (this.asked ?? 0) + 1);
    const { series } = await get(`/api/series?${query}`);
    if (this.closed || (this.restarted ?? 0) >= asked) return;
    for (const panel of panels) {
      panel.chart.loading = false;
      panel.chart.setSeries(series.filter((one) => one.metric === panel.metric).map((one) => {
        const run = this.runs.find((other) => other.id === one.run);
        return { ...one, label: run.label, colour: run.colour, hidden: run.hidden };
      }));
    }
  }

  zoomed() {
    this.reset.hidden = this.group.zoom === null;
    this.refresh();
  }

  // Everything afresh: another axis, another stretch, or a run that was cut back.
  refresh() {
    this.restarted = this.asked ?? 0;
    for (const panel of this.panels.values()) {
      panel.stale = true;
      if (panel.chart.visible) this.want(panel);
    }
  }

  // New rows of a run, column by column.
  append(run, columns) {
    const x = filled(columns[this.group.settings.x]);
    if (this.runs.length === 1) this.setMetrics(Object.keys(columns));
    for (const [metric, y] of Object.entries(columns)) {
      const panel = this.panels.get(metric);
      if (!panel) continue;
      if (this.runs.length === 1) panel.value.textContent = score(lastOf(y));
      if (panel.stale) continue;
      const known = panel.chart.series.some((one) => one.run === run);
      const length = x && known ? panel.chart.appendPoints(run, x, y) : Infinity;
      if (length > 3 * POINTS || !known) {
        panel.stale = true;
        if (panel.chart.visible) this.want(panel);
      }
    }
  }

  setHidden(run, hidden) {
    this.runs.find((one) => one.id === run).hidden = hidden;
    for (const panel of this.panels.values()) {
      for (const one of panel.chart.series) if (one.run === run) one.hidden = hidden;
      panel.chart.schedule();
    }
  }

  highlight(run) {
    this.group.dimmed = run;
    this.group.redraw();
  }

  close() {
    this.closed = true;
    this.seen.disconnect();
    this.group.close();
  }
}

function split(metric) {
  const at = metric.indexOf("/");
  return at < 0 ? ["", metric] : [metric.slice(0, at), metric.slice(at + 1)];
}

// An evaluation's row has no time of its own: it gets the one before.
function filled(values) {
  let last = null;
  return values?.map((value) => (last = value ?? last));
}

function lastOf(values) {
  return values.findLast((value) => value !== null);
}

export function remember(name, value) {
  try { localStorage.setItem(`ludus-${name}`, value); } catch { /* storage is switched off */ }
}

export function remembered(name, otherwise) {
  try { return localStorage.getItem(`ludus-${name}`) ?? otherwise; } catch { return otherwise; }
}
