// Makes elements. Whatever comes from a run enters the page as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(element.dataset, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(element, child);
    else element.append(child instanceof Node ? child : String(child));
  }
}

export function put(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

export function toast(text, kind = "") {
  const element = h("div", { class: `toast ${kind}` }, text);
  document.getElementById("toasts").append(element);
  setTimeout(() => element.remove(), kind === "bad" ? 9000 : 4500);
}

export function copyButton(text) {
  return h("button", {
    class: "quiet copy", type: "button", title: "Copy",
    onclick: async (event) => {
      const button = event.currentTarget;
      try { await navigator.clipboard.writeText(text); button.textContent = "copied"; }
      catch { button.textContent = "select it by hand"; }
      setTimeout(() => { button.textContent = "copy"; }, 1500);
    },
  }, "copy");
}

// A run's name, its time stamp set back: the part that people chose reads first.
export function runName(name) {
  const found = /^(.+)(_\d{8}-\d{6}(?:-\d+)?)$/.exec(name);
  return found ? [h("bdi", {}, found[1]), h("span", { class: "stamp" }, found[2])] : [h("bdi", {}, name)];
}

export function statusMark(status) {
  return h("span", { class: "status", data: { status } }, h("i", { "aria-hidden": "true" }), status);
}

// The runs folder, in short, beside the brand.
export function showRoot(root) {
  const element = document.getElementById("root");
  element.textContent = root.split("/").slice(-2).join("/");
  element.title = root;
}
