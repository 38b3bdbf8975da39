// Talks to the server: data, buttons, and what changes while one looks.

export async function get(path) {
  return answer(await fetch(path, { headers: { accept: "application/json" } }));
}

export async function post(path, body = {}) {
  return answer(await fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json", "x-ludus-ui": "1" },
    body: JSON.stringify(body),
  }));
}

async function answer(response) {
  let data = null;
  try { data = await response.json(); } catch { /* a page of words: a proxy's, or the token's */ }
  if (response.ok && data !== null) return data;
  if (response.status === 401) location.reload();
  const problem = data?.error ?? { what: `the server answered ${response.status}`, where: "", fix: "" };
  throw Object.assign(new Error(problem.what), problem, { status: response.status });
}

export function path(run, part = "") {
  return `/api/runs/${encodeURIComponent(run)}${part}`;
}

// One stream per visible page. A hidden tab lets go of its own: browsers allow a page few connections at a time.
export class Live {
  constructor(begin, handlers) {
    this.begin = begin; // async: fetches afresh and returns the stream's query
    this.handlers = handlers;
    this.visibility = () => (document.hidden ? this.pause() : this.open());
    document.addEventListener("visibilitychange", this.visibility);
    this.open();
  }

  async open() {
    this.pause();
    const turn = (this.turn = Symbol("turn"));
    let query;
    try { query = await this.begin(); } catch (error) {
      if (this.turn === turn) this.retry(error);
      return;
    }
    if (this.turn !== turn || query === null) return;
    this.source = new EventSource(`/api/events?${query}`);
    this.source.onopen = () => state("live");
    this.source.onerror = () => this.retry();
    for (const [name, handle] of Object.entries(this.handlers)) {
      this.source.addEventListener(name, (event) => handle(JSON.parse(event.data)));
    }
  }

  retry(error) {
    if (error?.status === 404) return;
    this.pause();
    state("offline");
    this.timer = setTimeout(() => this.open(), 2000);
  }

  pause() {
    this.turn = null;
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }

  close() {
    this.pause();
    document.removeEventListener("visibilitychange", this.visibility);
  }
}

function state(name) {
  const element = document.getElementById("link");
  element.dataset.state = name;
  element.textContent = name === "live" ? "live" : "no connection";
}
