// One run: what it is, how far it is, its curves as they grow, and the two buttons.

import { Live, get, path, post } from "./api.js";
import { h, put, runName, showRoot, statusMark, toast } from "./dom.js";
import { ago, duration, moment, score, whole } from "./format.js";
import { Panels } from "./panels.js";
import { showCheckpoints, showConfig, showGames, showLeague, showLogs, showVideos } from "./details.js";
import { Tabs } from "./tabs.js";

export class RunPage {
  constructor(main, id) {
    this.id = id;
    this.main = main;
    this.last = {};
    this.head = h("div", { class: "run-head" });
    this.stats = h("dl", { class: "stats" });
    put(main, this.head, this.stats);
    this.panels = new Panels([{ id, label: "", colour: 0 }]);
    this.live = new Live(() => this.load(), {
      rows: (event) => this.rows(event),
      reset: () => this.live.open(),
      runs: (event) => this.changed(event),
    });
  }

  async load() {
    let data;
    try { data = await get(path(this.id)); } catch (error) {
      if (error.status === 404) {
        put(this.main, h("p", { class: "empty" }, "This run is not here (any more). ", h("a", { href: "/", "data-link": true }, "All runs")));
      }
      throw error;
    }
    const again = this.data !== undefined;
    Object.assign(this, { data, run: data.summary, control: data.control, last: data.last });
    document.title = `${this.run.title} · Ludus`;
    showRoot(data.root);
    this.draw();
    this.panels.setMetrics(data.metrics, data.last);
    if (again) this.panels.refresh();
    if (!this.tabs) {
      this.tabs = new Tabs(this.tabList());
      this.main.append(this.tabs.element);
    } else this.tabs.setTabs(this.tabList());
    return new URLSearchParams({ since: data.version, watch: `${this.id}:${this.run.rows}:${this.run.epoch}` });
  }

  tabList() {
    const { has } = this.data;
    return [
      { key: "charts", label: "Charts", show: (element) => { element.append(this.panels.element); this.panels.group.redraw(); } },
      { key: "config", label: "Config", show: (element) => showConfig(element, this.id, this.data) },
      { key: "checkpoints", label: "Checkpoints", show: (element) => showCheckpoints(element, this.id, this.data) },
      { key: "videos", label: "Videos", count: has.videos, show: (element) => showVideos(element, this.id) },
      has.league && { key: "league", label: "League", show: (element) => showLeague(element, this.id) },
      has.games > 0 && { key: "games", label: "Games", show: (element) => showGames(element, this.id) },
      { key: "logs", label: "Logs", show: (element) => showLogs(element, this.id, () => this.run.status === "running") },
    ].filter(Boolean);
  }

  rows(event) {
    for (const [name, values] of Object.entries(event.columns)) {
      this.last[name] = values.findLast((value) => value !== null) ?? this.last[name];
    }
    this.panels.append(this.id, event.columns);
    this.drawStats();
  }

  changed(event) {
    const run = event.runs.find((one) => one.id === this.id);
    if (event.removed.includes(this.id)) { this.live.open(); return; }
    if (!run) return;
    const before = this.run.status;
    Object.assign(this, { run, control: run.control });
    this.draw();
    if (before !== run.status) toast(`${run.title}: ${run.status}`, run.status === "failed" || run.status === "died" ? "bad" : "");
  }

  draw() {
    const { run, data } = this;
    const { info } = data;
    const facts = [
      h("bdi", {}, run.env), h("bdi", {}, run.algorithm),
      run.seed === null ? null : `seed ${run.seed}`,
      typeof info.device === "string" ? info.device : null,
      run.created ? h("span", { title: moment(run.created) }, `started ${ago(run.created)} ago`) : null,
    ].filter(Boolean);
    put(this.head,
      h("div", { class: "title" },
        h("h1", {}, runName(run.name), statusMark(run.status)),
        h("p", { class: "sub" }, facts.map((fact, i) => [i ? " · " : "", fact]),
          run.tags.map((tag) => [" ", h("a", { class: "tag", href: `/?q=${encodeURIComponent(`tag:${tag}`)}`, "data-link": true }, tag)]))),
      h("div", { class: "actions" }, this.buttons()),
      run.status === "running" && run.progress !== null ? h("div", { class: "progress" },
        h("progress", { max: "1", value: run.progress.toFixed(4), "aria-label": "Progress" }),
        h("span", {}, `${Math.floor(run.progress * 100)} % of ${total(run.total)}${this.left()}`)) : null,
      typeof info.reason === "string" && run.status === "stopped" ? h("p", { class: "note" }, info.reason) : null,
      typeof info.error === "string" && run.status === "failed" ? h("p", { class: "problem" }, info.error) : null,
      mirrorTrouble(run.mirror),
      run.damaged ? h("p", { class: "problem" }, `${run.damaged.toLocaleString("en")} damaged ${run.damaged === 1 ? "row is" : "rows are"} left out of metrics.jsonl.`) : null,
      this.control.failed ? h("p", { class: "problem", role: "alert" }, `It could not be resumed: ${this.control.failed}`) : null);
    this.drawStats();
  }

  left() {
    const { progress, seconds } = this.run;
    if (!progress || !seconds || progress >= 1) return "";
    return `, about ${duration((seconds * (1 - progress)) / progress)} left`;
  }

  drawStats() {
    const { run, last } = this;
    const stat = (label, value, title) => (value === "" ? null : h("div", { title }, h("dt", {}, label), h("dd", {}, value)));
    put(this.stats,
      stat("steps", whole(last.step ?? run.steps)),
      stat("episodes", whole(last.episodes)),
      stat("reward", score(last["rollout/ep_rew_mean"] ?? run.reward), "rollout/ep_rew_mean, the newest"),
      stat("evaluation", score(last["eval/mean_reward"] ?? run.eval), "eval/mean_reward, the newest"),
      stat("best", score(run.best), "what made the best checkpoint best"),
      stat("steps/s", whole(last["time/fps"] ?? run.fps)),
      stat("trained for", duration(last["time/seconds"] ?? run.seconds)),
      run.mirror ? stat("mirror", run.mirror.behind ? "behind" : run.mirror.mirrored ? "whole" : "begun", run.mirror.url) : null);
  }

  buttons() {
    const { run, control } = this;
    const report = h("a", { class: "button", href: path(this.id, "/report"), target: "_blank", rel: "noopener" }, "Report");
    if (run.status === "running") {
      return [report, h("button", {
        type: "button", id: "stop", disabled: control.stopping, onclick: () => this.stop(),
      }, control.stopping ? "Saving and stopping …" : "Stop and save")];
    }
    if (run.status === "exported") return [report];
    return [report, h("button", {
      type: "button", id: "resume", class: ["finished", "stopped"].includes(run.status) ? "" : "primary", disabled: control.resuming, onclick: () => this.askResume(),
    }, control.resuming ? "Resuming …" : "Resume")];
  }

  async stop() {
    this.control.stopping = true;
    this.draw();
    try { toast((await post(path(this.id, "/stop"))).message); } catch (error) {
      toast([error.message, error.fix].filter(Boolean).join(": "), "bad");
    }
    this.poll();
  }

  askResume() {
    const input = h("input", { name: "steps", autocomplete: "off", placeholder: total(this.run.total) || "as configured" });
    const done = this.run.status === "finished";
    const dialog = h("dialog", { class: "ask", "aria-labelledby": "ask-title" },
      h("form", { method: "dialog", onsubmit: (event) => {
        event.preventDefault();
        this.resume(input.value.trim());
        dialog.close();
      } },
      h("h2", { id: "ask-title" }, "Resume this run?"),
      h("p", {}, "It goes on from its newest checkpoint, in a process of its own on the machine that serves this page."),
      h("label", {}, done ? "It is finished: new total of steps (or a time, as 30 min)" : "New total, if it is to be another (steps, or a time, as 30 min)", input),
      h("div", { class: "actions" },
        h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
        h("button", { type: "submit", class: "primary", id: "resume-now" }, "Resume"))));
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
    if (done) { input.required = true; input.focus(); } else dialog.querySelector("#resume-now").focus();
  }

  async resume(steps) {
    this.control = { ...this.control, resuming: true, failed: null };
    this.draw();
    try { toast((await post(path(this.id, "/resume"), steps ? { steps } : {})).message); } catch (error) {
      toast([error.message, error.fix].filter(Boolean).join(": "), "bad");
    }
    this.poll();
  }

  // Until what a button began is done: the run's own files tell the rest.
  async poll() {
    clearTimeout(this.timer);
    try {
      const { control, summary } = await get(path(this.id));
      Object.assign(this, { control, run: summary });
      this.draw();
      if (control.stopping || control.resuming) this.timer = setTimeout(() => this.poll(), 700);
    } catch { /* the stream says when the server is back */ }
  }

  key(event) {
    if (event.key !== "Escape") return false;
    history.length > 1 ? history.back() : document.querySelector(".brand").click();
    return true;
  }

  close() {
    clearTimeout(this.timer);
    this.live.close();
    this.tabs?.close();
    this.panels.close();
  }
}

function mirrorTrouble(mirror) {
  if (!mirror?.behind) return null;
  const missing = mirror.missing ? `${whole(mirror.missing)} ${mirror.missing === 1 ? "file is" : "files are"} missing there` : "";
  return h("p", { class: "problem" }, "The mirror at ", h("bdi", {}, mirror.url), ": ", h("bdi", {}, [mirror.trouble, missing].filter(Boolean).join("; ")), ".");
}

function total(text) {
  return /^[0-9][0-9_]*$/.test(text) ? `${Number(text.replaceAll("_", "")).toLocaleString("en")} steps` : text;
}
