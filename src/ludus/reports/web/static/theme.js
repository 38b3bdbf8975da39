// Before the first paint, so that a dark page never flashes light. Values: auto, light, dark.
"use strict";
(() => {
  let theme = "auto";
  try { theme = localStorage.getItem("ludus-theme") || "auto"; } catch { /* storage is switched off */ }
  if (theme !== "auto") document.documentElement.dataset.theme = theme;
})();
