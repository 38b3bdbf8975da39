// Tabs whose place is in the address, after the #: they can be linked to, and Back works.

import { h, put } from "./dom.js";

export class Tabs {
  // tabs: [{key, label, count?, show: (element) => cleanup or nothing}]
  constructor(tabs) {
    this.tabs = tabs;
    this.list = h("div", { role: "tablist", class: "tabs" });
    this.panel = h("div", { role: "tabpanel", id: "panel", tabindex: "-1" });
    this.element = h("div", {}, this.list, this.panel);
    this.list.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const at = this.tabs.findIndex((tab) => tab.key === this.current);
      this.open(this.tabs[(at + step + this.tabs.length) % this.tabs.length].key);
      this.list.querySelector("[aria-selected=true]").focus();
    });
    this.onhash = () => this.open(location.hash.slice(1), false);
    window.addEventListener("hashchange", this.onhash);
    this.open(location.hash.slice(1), false);
  }

  setTabs(tabs) {
    const look = (list) => list.map((tab) => `${tab.label} ${tab.count ?? ""}`).join();
    if (look(tabs) === look(this.tabs)) return;
    this.tabs = tabs;
    this.draw();
  }

  draw() {
    const focused = this.list.contains(document.activeElement);
    put(this.list, this.tabs.map((tab) => h("button", {
      role: "tab", type: "button", "aria-selected": String(tab.key === this.current), "aria-controls": "panel",
      tabindex: tab.key === this.current ? "0" : "-1", onclick: () => this.open(tab.key),
    }, tab.label, tab.count ? h("span", { class: "count" }, String(tab.count)) : null)));
    if (focused) this.list.querySelector("[aria-selected=true]")?.focus();
  }

  open(key, remember = true) {
    const tab = this.tabs.find((one) => one.key === key) ?? this.tabs[0];
    if (tab.key === this.current) return;
    this.cleanup?.();
    this.current = tab.key;
    if (remember) history.replaceState(null, "", tab === this.tabs[0] ? location.pathname + location.search : `#${tab.key}`);
    this.draw();
    const chosen = this.list.querySelector("[aria-selected=true]");
    this.list.scrollLeft = chosen.offsetLeft - this.list.offsetLeft - 40; // in sight, on a narrow screen
    put(this.panel);
    this.cleanup = tab.show(this.panel) ?? null;
  }

  close() {
    this.cleanup?.();
    window.removeEventListener("hashchange", this.onhash);
  }
}
