// Line charts on a canvas: many of them, live, sharing one cursor and one zoom. The report has Plotly; here thirty
// charts of up to sixty runs must follow a training without a stutter, under a policy that allows no inline style.

import { h } from "./dom.js";
import { axisTime, compact, score, whole } from "./format.js";

const PAD = { top: 8, right: 12, bottom: 22 };
const FULL = 500; // points of a curve at full resolution
const FONT = "11px ui-sans-serif, system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";

// What all charts of a page share.
export class ChartGroup {
  constructor({ onZoom = () => {} } = {}) {
    this.charts = new Set();
    this.settings = { smoothing: 0.6, log: false, x: "step" };
    this.cursor = null;
    this.zoom = null;
    this.onZoom = onZoom;
    this.dimmed = null; // the run that stands out, while the mouse is over its name
    this.frame = 0;
    this.resize = new ResizeObserver((entries) => {
      for (const entry of entries) entry.target.chart?.schedule();
    });
    this.colours = null;
    this.retheme = () => { this.colours = null; this.redraw(); };
    this.media = matchMedia("(prefers-color-scheme: dark)");
    this.media.addEventListener("change", this.retheme);
    document.addEventListener("ludus-theme", this.retheme);
  }

  palette() {
    if (this.colours === null) {
      const style = getComputedStyle(document.documentElement);
      const read = (name) => style.getPropertyValue(name).trim();
      this.colours = { grid: read("--grid"), dim: read("--dim"), line: read("--line"), card: read("--card"), accent: read("--accent") };
      for (let i = 0; i < 10; i += 1) this.colours[i] = read(`--c${i}`);
    }
    return this.colours;
  }

  setCursor(x) {
    if (x === this.cursor) return;
    this.cursor = x;
    this.redraw();
  }

  setZoom(range) {
    this.zoom = range;
    this.onZoom(range);
    this.redraw();
  }

  // One axis for all charts, so that what happened at the same time stands below one another.
  domain() {
    if (this.zoom) return this.zoom;
    let low = Infinity, high = -Infinity;
    for (const chart of this.charts) {
      for (const one of chart.shown()) {
        low = Math.min(low, one.x[0]);
        high = Math.max(high, one.x[one.x.length - 1]);
      }
    }
    if (low < (high - low) * 0.2) low = Math.min(low, 0);
    return high > low ? [low, high] : [low - 1, low + 1];
  }

  redraw() {
    for (const chart of this.charts) chart.schedule();
  }

  schedule(chart) {
    chart.stale = true;
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      for (const one of this.charts) if (one.stale && one.visible) { one.stale = false; one.draw(); }
    });
  }

  close() {
    cancelAnimationFrame(this.frame);
    this.resize.disconnect();
    this.media.removeEventListener("change", this.retheme);
    document.removeEventListener("ludus-theme", this.retheme);
    this.charts.clear();
  }
}

export class Chart {
  constructor(group, label) {
    this.group = group;
    this.label = label;
    this.series = [];
    this.visible = true;
    this.stale = false;
    this.drag = null;
    this.hovered = false;
    this.canvas = h("canvas", { tabindex: "0", role: "img", "aria-label": label });
    this.tip = h("div", { class: "tip", hidden: true });
    this.element = h("div", { class: "chart" }, this.canvas, this.tip);
    this.canvas.chart = this;
    group.charts.add(this);
    group.resize.observe(this.canvas);
    this.listen();
  }

  // series: [{run, label, colour (0 to 9), x, y, lo?, hi?, hidden?}]
  setSeries(series) {
    const before = this.group.domain().join();
    this.series = series;
    for (const one of series) one.smooth = null;
    if (this.group.domain().join() === before) this.schedule();
    else this.group.redraw();
  }

  appendPoints(run, x, y) {
    const one = this.series.find((series) => series.run === run);
    if (!one) return 0;
    for (let i = 0; i < x.length; i += 1) {
      if (x[i] === null || y[i] === null) continue;
      one.x.push(x[i]);
      one.y.push(y[i]);
      one.lo?.push(y[i]);
      one.hi?.push(y[i]);
    }
    one.smooth = null;
    this.schedule();
    return one.x.length;
  }

  schedule() { this.group.schedule(this); }

  remove() {
    this.group.charts.delete(this);
    this.group.resize.unobserve(this.canvas);
  }

  shown() { return this.series.filter((one) => !one.hidden && one.x.length > 0); }

  line(one) {
    // of a curve with few points as much is smoothed as of one with many: the same share of the axis
    const weight = this.group.settings.smoothing ** Math.max(1, FULL / one.y.length);
    if (weight < 0.005 || one.y.length < 3) return one.y;
    if (one.smooth === null || one.weight !== weight) {
      one.smooth = smoothed(one.y, weight);
      one.weight = weight;
    }
    return one.smooth;
  }

  range([from, to]) {
    let low = Infinity, high = -Infinity, floor = Infinity, ceiling = -Infinity;
    const log = this.group.settings.log;
    for (const one of this.shown()) {
      const line = this.line(one);
      for (let i = 0; i < one.x.length; i += 1) {
        if (one.x[i] < from || one.x[i] > to) continue;
        for (const value of [line[i], one.y[i]]) {
          if (log && !(value > 0)) continue;
          if (value < low) low = value;
          if (value > high) high = value;
        }
        if (one.lo) {
          if (one.lo[i] < floor && (!log || one.lo[i] > 0)) floor = one.lo[i];
          if (one.hi[i] > ceiling) ceiling = one.hi[i];
        }
      }
    }
    if (low === Infinity) return null;
    if (log) return low === high ? [low / 2, high * 2] : [low, high];
    // what differs only by rounding is a straight line
    if (high - low <= 1e-7 * Math.max(Math.abs(low), Math.abs(high))) {
      const room = Math.abs(high) * 0.1 || 1;
      return [low - room, high + room];
    }
    // peaks widen the picture, but never squash the line
    const span = high - low;
    low = Math.max(Math.min(low, floor), low - 0.4 * span);
    high = Math.min(Math.max(high, ceiling), high + 0.4 * span);
    const room = (high - low || Math.abs(high) || 1) * 0.06;
    return [low - room, high + room];
  }

  draw() {
    const { canvas, group } = this;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (!width || !height) return;
    const ratio = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = FONT;
    const colours = group.palette();
    const shown = this.shown();
    const domain = group.domain();
    const range = shown.length ? this.range(domain) : null;
    canvas.dataset.points = String(shown.reduce((sum, one) => sum + one.x.length, 0));
    if (!range) {
      pen.fillStyle = colours.dim;
      pen.textAlign = "center";
      pen.fillText(this.loading ? "" : "no values", width / 2, height / 2);
      this.scale = null;
      this.tip.hidden = true;
      return;
    }
    const log = group.settings.log;
    const yTicks = log ? logTicks(range) : ticks(range, Math.max(2, Math.floor((height - 30) / 38)));
    const labels = yTicks.map(compact);
    const left = Math.ceil(Math.max(...labels.map((text) => pen.measureText(text).width), 12)) + 10;
    const toX = scale(domain, [left, width - PAD.right]);
    const linear = scale(log ? range.map(Math.log10) : range, [height - PAD.bottom, PAD.top]);
    const toY = log ? (value) => linear(Math.log10(Math.max(value, 1e-300))) : linear;
    this.scale = { domain, left, right: width - PAD.right, toX, toY, width, height };

    pen.lineWidth = 1;
    pen.strokeStyle = colours.grid;
    pen.fillStyle = colours.dim;
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    yTicks.forEach((value, i) => {
      const y = Math.round(toY(value)) + 0.5;
      stroke(pen, left, y, width - PAD.right, y);
      pen.fillText(labels[i], left - 7, y);
    });
    pen.textBaseline = "alphabetic";
    const isTime = group.settings.x === "time/seconds";
    const xTicks = isTime ? timeTicks(domain, Math.max(2, Math.floor((width - left) / 80))) : ticks(domain, Math.max(2, Math.floor((width - left) / 80)));
    for (const value of xTicks) {
      const text = isTime ? axisTime(value, domain[1] - domain[0]) : compact(value);
      const x = toX(value), half = pen.measureText(text).width / 2;
      pen.textAlign = "center";
      pen.fillText(text, Math.min(Math.max(x, left + half - 6), width - half - 1), height - 6);
    }

    pen.save();
    pen.beginPath();
    pen.rect(left - 1, PAD.top - 4, width - PAD.right - left + 4, height - PAD.bottom - PAD.top + 8);
    pen.clip();
    for (const one of shown) this.drawBand(pen, one, toX, toY, colours);
    const smoothing = group.settings.smoothing > 0;
    for (const one of shown) {
      pen.strokeStyle = pen.fillStyle = colours[one.colour % 10];
      const back = group.dimmed !== null && group.dimmed !== one.run;
      if (smoothing && !one.lo && this.line(one) !== one.y) {
        pen.globalAlpha = back ? 0.05 : shown.length > 4 ? 0.12 : 0.25;
        pen.lineWidth = 1;
        trace(pen, one.x, one.y, toX, toY);
      }
      pen.globalAlpha = back ? 0.15 : 1;
      pen.lineWidth = group.dimmed === one.run ? 2.6 : 1.8;
      pen.setLineDash(one.colour >= 10 ? [5, 3] : []);
      trace(pen, one.x, this.line(one), toX, toY);
      pen.setLineDash([]);
      if (one.x.length <= 30) {
        const line = this.line(one);
        for (let i = 0; i < one.x.length; i += 1) dot(pen, toX(one.x[i]), toY(line[i]), 2.2);
      }
      pen.globalAlpha = 1;
    }
    pen.restore();
    this.drawSelection(pen, colours);
    this.drawCursor(pen, colours, shown);
  }

  drawBand(pen, one, toX, toY, colours) {
    if (!one.lo) return;
    pen.globalAlpha = (this.group.dimmed !== null && this.group.dimmed !== one.run) ? 0.03 : 0.14;
    pen.fillStyle = colours[one.colour % 10];
    pen.beginPath();
    for (let i = 0; i < one.x.length; i += 1) pen.lineTo(toX(one.x[i]), toY(one.hi[i]));
    for (let i = one.x.length - 1; i >= 0; i -= 1) pen.lineTo(toX(one.x[i]), toY(one.lo[i]));
    pen.fill();
    pen.globalAlpha = 1;
  }

  drawSelection(pen, colours) {
    if (!this.drag || this.drag.from === this.drag.to) return;
    const [from, to] = [this.drag.from, this.drag.to].sort((a, b) => a - b);
    pen.globalAlpha = 0.12;
    pen.fillStyle = colours.accent;
    pen.fillRect(from, PAD.top, to - from, this.scale.height - PAD.bottom - PAD.top);
    pen.globalAlpha = 1;
  }

  drawCursor(pen, colours, shown) {
    const { cursor } = this.group;
    const { domain, toX, toY, height } = this.scale;
    if (cursor === null || cursor < domain[0] || cursor > domain[1]) {
      this.tip.hidden = true;
      return;
    }
    const x = toX(cursor);
    pen.strokeStyle = colours.dim;
    pen.globalAlpha = 0.6;
    stroke(pen, Math.round(x) + 0.5, PAD.top, Math.round(x) + 0.5, height - PAD.bottom);
    pen.globalAlpha = 1;
    const rows = [];
    for (const one of shown) {
      const i = nearest(one.x, cursor);
      const line = this.line(one);
      if (Math.abs(toX(one.x[i]) - x) > 40 || one.x[i] < domain[0] || one.x[i] > domain[1]) continue;
      pen.fillStyle = colours[one.colour % 10];
      dot(pen, toX(one.x[i]), toY(line[i]), 3.4);
      rows.push({ one, value: line[i], raw: one.y[i] });
    }
    if (this.hovered && rows.length) this.showTip(x, cursor, rows);
    else this.tip.hidden = true;
  }

  showTip(x, cursor, rows) {
    rows.sort((a, b) => b.value - a.value);
    const head = this.group.settings.x === "time/seconds" ? axisTime(cursor, 0.01) : `${this.group.settings.x} ${whole(cursor)}`;
    const few = rows.slice(0, 12);
    this.tip.replaceChildren(
      h("div", { class: "tip-x" }, head),
      ...few.map(({ one, value, raw }) => h("div", { class: "tip-row" },
        h("i", { class: `swatch c${one.colour % 10}` }),
        h("b", {}, score(value)),
        raw !== value && this.group.settings.smoothing > 0 ? h("span", { class: "raw" }, score(raw)) : null,
        this.series.length > 1 ? h("span", { class: "of" }, one.label) : null)),
      ...(rows.length > few.length ? [h("div", { class: "tip-x" }, `and ${rows.length - few.length} more`)] : []),
    );
    this.tip.hidden = false;
    // beside the cursor, over the next chart if need be: the curve that is looked at stays free
    const wide = this.tip.offsetWidth;
    const edge = this.element.getBoundingClientRect().left;
    const right = edge + x + wide + 20 < document.documentElement.clientWidth;
    this.tip.style.left = `${right ? x + 14 : Math.max(8 - edge, x - wide - 14)}px`;
    this.canvas.setAttribute("aria-label", `${this.label}, ${head}: ${few.map(({ one, value }) => `${one.label} ${score(value)}`).join(", ")}`);
  }

  listen() {
    const { canvas, group } = this;
    const place = (event) => {
      if (!this.scale) return null;
      const box = canvas.getBoundingClientRect();
      return Math.min(Math.max(event.clientX - box.left, this.scale.left), this.scale.right);
    };
    const toValue = (pixel) => {
      const { domain, left, right } = this.scale;
      return domain[0] + ((pixel - left) / (right - left)) * (domain[1] - domain[0]);
    };
    canvas.addEventListener("pointermove", (event) => {
      const pixel = place(event);
      if (pixel === null) return;
      this.hovered = true;
      if (this.drag) this.drag.to = pixel;
      group.cursor = null;
      group.setCursor(toValue(pixel));
    });
    canvas.addEventListener("pointerdown", (event) => {
      const pixel = place(event);
      if (pixel === null) return;
      this.hovered = true;
      group.setCursor(toValue(pixel));
      if (event.pointerType === "touch" || event.button !== 0) return;
      this.drag = { from: pixel, to: pixel };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointerup", () => {
      const drag = this.drag;
      this.drag = null;
      if (!drag || Math.abs(drag.to - drag.from) < 8) return this.schedule();
      group.setZoom([toValue(drag.from), toValue(drag.to)].sort((a, b) => a - b));
      return undefined;
    });
    canvas.addEventListener("pointerleave", () => {
      this.hovered = false;
      if (!this.drag) group.setCursor(null);
    });
    canvas.addEventListener("dblclick", () => group.setZoom(null));
    canvas.addEventListener("blur", () => { this.hovered = false; group.setCursor(null); });
    canvas.addEventListener("keydown", (event) => {
      if (!this.scale) return;
      const [from, to] = this.scale.domain;
      const step = (to - from) / (event.shiftKey ? 10 : 100);
      const at = group.cursor ?? to;
      const next = { ArrowLeft: at - step, ArrowRight: at + step, Home: from, End: to }[event.key];
      if (next !== undefined) {
        event.preventDefault();
        this.hovered = true;
        group.setCursor(Math.min(Math.max(next, from), to));
      } else if (event.key === "Escape" && group.cursor !== null) {
        event.stopPropagation();
        group.setCursor(null);
      } else if (event.key === "Escape" && group.zoom) {
        event.stopPropagation();
        group.setZoom(null);
      }
    });
  }
}

// An exponential mean that does not start at zero.
export function smoothed(values, weight) {
  const found = new Array(values.length);
  let sum = 0, mass = 0;
  for (let i = 0; i < values.length; i += 1) {
    sum = weight * sum + (1 - weight) * values[i];
    mass = weight * mass + (1 - weight);
    found[i] = sum / mass;
  }
  return found;
}

export function ticks([low, high], count) {
  const raw = (high - low) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= raw * 0.8) ?? raw;
  return multiples(low, high, step);
}

function timeTicks([low, high], count) {
  const raw = (high - low) / count;
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
  const step = steps.find((one) => one >= raw);
  return step && raw > 0.5 ? multiples(low, high, step) : ticks([low, high], count);
}

function multiples(low, high, step) {
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high * (1 + 1e-12) + 1e-300 && found.length < 50; i += 1) found.push(i * step);
  return found;
}

function logTicks([low, high]) {
  const found = [];
  const few = Math.log10(high / low) < 2.5;
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    for (const factor of few ? [1, 2, 5] : [1]) {
      const value = factor * 10 ** power;
      if (value >= low && value <= high) found.push(value);
    }
  }
  const every = Math.ceil(found.length / 6);
  return found.length ? found.filter((_, i) => i % every === 0) : [low, high];
}

function scale([from, to], [start, end]) {
  const factor = (end - start) / (to - from || 1);
  return (value) => start + (value - from) * factor;
}

function trace(pen, x, y, toX, toY) {
  pen.beginPath();
  pen.lineJoin = "round";
  for (let i = 0; i < x.length; i += 1) pen.lineTo(toX(x[i]), toY(y[i]));
  pen.stroke();
}

function stroke(pen, x0, y0, x1, y1) {
  pen.beginPath();
  pen.moveTo(x0, y0);
  pen.lineTo(x1, y1);
  pen.stroke();
}

function dot(pen, x, y, radius) {
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
  pen.fill();
}

function nearest(sorted, value) {
  let low = 0, high = sorted.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle; else high = middle;
  }
  return value - sorted[low] <= sorted[high] - value ? low : high;
}
