// Draws every figure of the page, in the light or the dark, over env steps or over time.
"use strict";
(() => {
  const INKS = {
    light: { ink: "#1f2933", pale: "#616e7c", grid: "#e4e7eb", card: "#ffffff" },
    dark: { ink: "#e6eaf0", pale: "#9aa7b5", grid: "#2b333d", card: "#171c23" },
  };
  const root = document.documentElement;
  const night = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null; // by the button; until then the system's choice counts
  let overTime = false;

  const theme = () => chosen || (night.matches ? "dark" : "light");

  function looks(layout) {
    const inks = INKS[theme()];
    const changes = {
      "font.color": inks.ink,
      "hoverlabel.bgcolor": inks.card,
      "hoverlabel.bordercolor": inks.grid,
      "hoverlabel.font.color": inks.ink,
    };
    for (const key of Object.keys(layout)) {
      if (/^[xy]axis\d*$/.test(key)) {
        changes[key + ".gridcolor"] = inks.grid;
        changes[key + ".linecolor"] = inks.grid;
      }
    }
    (layout.annotations || []).forEach((_, index) => { changes[`annotations[${index}].font.color`] = inks.pale; });
    (layout.updatemenus || []).forEach((_, index) => {
      changes[`updatemenus[${index}].bgcolor`] = inks.card;
      changes[`updatemenus[${index}].bordercolor`] = inks.grid;
    });
    return changes;
  }

  function put(layout, changes) {
    for (const [path, value] of Object.entries(changes)) {
      const keys = path.split(/[.[\]]+/).filter(Boolean);
      const last = keys.pop();
      let node = layout;
      for (const key of keys) node = node[key] ??= {};
      node[last] = value;
    }
    return layout;
  }

  const KINDS = { f8: Float64Array, f4: Float32Array, i4: Int32Array };
  function numbers(packed) {
    if (!packed || !packed.bdata) return packed;
    const bytes = Uint8Array.from(atob(packed.bdata), (letter) => letter.charCodeAt(0));
    return new KINDS[packed.dtype](bytes.buffer);
  }

  const figures = [];
  function draw(place) {
    const figure = JSON.parse(place.querySelector("script").textContent);
    place.replaceChildren();
    const steps = figure.data.map((trace) => numbers(trace.x));
    const clocks = figure.clocks && figure.clocks.some(Boolean) ? figure.clocks.map(numbers) : null;
    figures.push({ place, clocks, steps });
    const layout = put(figure.layout, looks(figure.layout));
    return Plotly.newPlot(place, figure.data, layout, { displayModeBar: false, responsive: true });
  }

  function dress() {
    root.dataset.theme = theme();
    for (const { place } of figures) Plotly.relayout(place, looks(place.layout));
  }

  function switchClock() {
    for (const { place, clocks, steps } of figures) {
      if (!clocks) continue;
      const xs = steps.map((own, index) => (overTime && clocks[index] ? clocks[index] : own));
      Plotly.update(place, { x: xs }, { "xaxis.title.text": overTime ? "seconds of training" : "env steps",
        "xaxis.autorange": true });
    }
  }

  root.dataset.theme = theme();
  night.addEventListener("change", dress);
  document.addEventListener("DOMContentLoaded", async () => {
    for (const place of document.querySelectorAll(".figure")) {
      await draw(place);
    }
    root.dataset.drawn = String(figures.length);
    document.getElementById("which-episode")?.addEventListener("change", (event) => {
      for (const part of document.querySelectorAll("[data-episode]")) {
        part.hidden = part.dataset.episode !== event.target.value;
        // a figure that was hidden while the window changed its size learns of it when it is shown
        if (!part.hidden) part.querySelectorAll(".figure").forEach((figure) => Plotly.Plots.resize(figure));
      }
    });
    for (const button of document.querySelectorAll("[data-do]")) {
      button.addEventListener("click", () => {
        if (button.dataset.do === "theme") {
          chosen = theme() === "dark" ? "light" : "dark";
          dress();
        } else {
          overTime = !overTime;
          button.setAttribute("aria-pressed", String(overTime));
          switchClock();
        }
      });
    }
  });
})();
