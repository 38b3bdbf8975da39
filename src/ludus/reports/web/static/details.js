// The other tabs of a run: config, checkpoints, videos, league, games, logs.

import { get, path } from "./api.js";
import { copyButton, h, put } from "./dom.js";
import { bytes, moment, score, whole } from "./format.js";

// Shows `load`'s result, or why there is none; returns a function that forgets about it.
function filled(element, load, draw) {
  let gone = false;
  put(element, h("p", { class: "empty" }, "…"));
  load().then((data) => { if (!gone) put(element, draw(data)); }, (error) => {
    if (!gone) put(element, h("p", { class: "problem" }, error.message));
  });
  return () => { gone = true; };
}

const empty = (...children) => h("p", { class: "empty" }, children);

export function showConfig(element, id, page) {
  return filled(element, () => get(path(id, "/config")), (values) => [
    facts(page),
    values.length ? h("table", { class: "pairs" }, h("tbody", {}, values.map(([key, value]) => h("tr", {},
      h("th", { scope: "row" }, keyName(key)), h("td", { class: value === "null" ? "raw" : "" }, h("bdi", {}, value)))))) : empty("There is no config.yaml to be read."),
  ]);
}

function facts({ info, path: place }) {
  const versions = info.versions && typeof info.versions === "object" ? info.versions : {};
  const rows = [["folder", place], ["command", info.command], ...Object.entries(versions)].filter(([, value]) => typeof value === "string");
  return h("details", { class: "facts" }, h("summary", {}, "Where it comes from"),
    h("table", { class: "pairs" }, h("tbody", {}, rows.map(([key, value]) => h("tr", {},
      h("th", { scope: "row" }, key), h("td", {}, h("bdi", {}, value), key === "folder" || key === "command" ? [" ", copyButton(value)] : null))))));
}

export function keyName(key) {
  const at = key.lastIndexOf(".");
  return at < 0 ? h("bdi", {}, key) : h("bdi", {}, h("span", { class: "stem" }, key.slice(0, at + 1)), key.slice(at + 1));
}

export function showCheckpoints(element, id, page) {
  return filled(element, () => get(path(id, "/checkpoints")), (checkpoints) => (checkpoints.length ? h("table", { class: "plain" },
    h("thead", {}, h("tr", {}, ["Step", "Saved", "Size", "", "Load it"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, checkpoints.map((one) => {
      const command = `ludus eval ${quoted(`${page.path}@${one.name}`)}`;
      return h("tr", {},
        h("td", { class: "number" }, whole(one.step)),
        h("td", {}, moment(one.created)),
        h("td", { class: "number" }, one.intact ? bytes(one.size) : ""),
        h("td", {}, [
          one.best && h("span", { class: "mark good" }, "best"),
          one.pinned && h("span", { class: "mark" }, "pinned"),
          !one.intact && h("span", { class: "mark bad" }, "damaged"),
          one.intact && (one.resumable ? h("span", { class: "mark", title: one.exact ? "Resuming repeats the run to the byte" : "Resuming goes on, open episodes begin anew" }, one.exact ? "exact" : "resumable")
            : h("span", { class: "mark dim" }, "policy only")),
        ].filter(Boolean)),
        h("td", { class: "command" }, h("code", { title: command }, `ludus eval …@${one.name}`), copyButton(command)));
    }))) : empty("No checkpoints yet.")));
}

function quoted(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`;
}

export function showVideos(element, id) {
  return filled(element, () => get(path(id, "/videos")), (videos) => (videos.length ? h("div", { class: "films" }, videos.map((one) => {
    const source = path(id, `/videos/${encodeURIComponent(one.name)}`);
    return h("figure", {},
      one.name.toLowerCase().endsWith(".gif") ? h("img", { src: source, alt: one.name, loading: "lazy" })
        : h("video", { src: source, controls: true, preload: "metadata", playsinline: true, loop: true }),
      h("figcaption", {}, h("bdi", {}, one.name), h("span", {}, [one.step === null ? "" : `step ${whole(one.step)} · `, bytes(one.size)])));
  })) : empty("No videos yet. ", h("code", {}, "ludus video RUN"), " films the newest policy.")));
}

export function showLeague(element, id) {
  return filled(element, () => get(path(id, "/league")), (league) => (league && league.table.length ? [
    h("p", { class: "note" }, `As of checkpoint ${league.checkpoint}`),
    h("table", { class: "plain league" },
      h("thead", {}, h("tr", {}, ["", "Player", "Kind", "Rating", "Games", "Won", "Drawn", "Lost", "Met"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, league.table.map((one, i) => h("tr", { class: one.kind === "learner" ? "learner" : "" },
        h("td", { class: "number place" }, String(i + 1)),
        h("td", {}, h("bdi", {}, one.name)),
        h("td", {}, one.kind),
        h("td", { class: "number" }, h("b", {}, one.mu.toFixed(1)), h("span", { class: "raw" }, ` ± ${one.sigma.toFixed(1)}`)),
        h("td", { class: "number" }, whole(one.games)),
        h("td", { class: "number" }, whole(one.wins)),
        h("td", { class: "number" }, whole(one.draws)),
        h("td", { class: "number" }, whole(one.losses)),
        h("td", { class: "number" }, one.frequency ? `${(one.frequency * 100).toFixed(0)} %` : ""))))),
  ] : empty("No checkpoint holds a league yet.")));
}

export function showGames(element, id) {
  const list = h("div", { class: "games" });
  let turn = 0;
  const open = async (file) => {
    const mine = (turn += 1);
    try {
      const matches = await get(path(id, `/games/${file.split("/").map(encodeURIComponent).join("/")}`));
      if (mine === turn) put(list, matches.length ? matches.map(match) : empty("No games in this file."));
    } catch (error) { if (mine === turn) put(list, h("p", { class: "problem" }, error.message)); }
  };
  const forget = filled(element, () => get(path(id, "/games")), (files) => {
    if (!files.length) return empty("No games yet.");
    open(files[0].file);
    return [h("div", { class: "tools" }, h("label", {}, "games of", h("select", { onchange: (event) => open(event.target.value) },
      files.map((one) => h("option", { value: one.file }, `${{ train: "training, update", eval: "evaluation after update" }[one.kind] ?? ""} ${one.name.replace(/^0+(?=.)/, "")}`))))), list];
  });
  return () => { turn += 1; forget(); };
}

function match(one) {
  const best = Math.max(...one.rewards.filter(Number.isFinite));
  return h("details", { class: "match" },
    h("summary", {},
      h("b", {}, one.game), " ",
      one.players.map((player, seat) => [seat ? " – " : "", h("span", { class: one.rewards[seat] === best && best > Math.min(...one.rewards) ? "winner" : "" }, player, h("span", { class: "raw" }, ` ${score(one.rewards[seat])}`))]),
      h("span", { class: "raw" }, ` · ${whole(one.length)} turns${one.cut_off ? " · cut off" : ""}${one.reason ? ` · ${one.reason}` : ""}`)),
    h("ol", { class: "moves" }, one.moves.map(([seat, action], i) => {
      const turn = one.turns.find((other) => other.index === i);
      return h("li", {},
        h("span", { class: `seat c${Number(seat) % 10}` }, one.players[seat] ?? `seat ${seat}`),
        h("code", {}, String(action)),
        turn?.invalid ? h("span", { class: "mark bad" }, "invalid") : null,
        turn && !turn.well_formed ? h("span", { class: "mark bad" }, "not in the asked form") : null,
        turn && (turn.text || turn.observation) ? h("details", {}, h("summary", {}, "what it saw and said"),
          h("pre", {}, turn.observation ?? ""), h("pre", { class: "said" }, turn.text ?? "")) : null);
    })));
}

export function showLogs(element, id, running) {
  const text = h("pre", { class: "log", tabindex: "0", "aria-label": "End of the log" });
  let timer = null, name = null, gone = false;
  const follow = async () => {
    clearTimeout(timer);
    try {
      const found = await get(path(id, `/logs/${encodeURIComponent(name)}`));
      if (gone) return;
      const shown = found.text || "(nothing written yet)";
      if (shown !== text.textContent) {
        const atEnd = text.scrollHeight - text.scrollTop - text.clientHeight < 40;
        text.textContent = shown;
        if (atEnd) text.scrollTop = text.scrollHeight;
      }
    } catch (error) { text.textContent = error.message; }
    if (!gone && running() && !document.hidden) timer = setTimeout(follow, 2000);
  };
  const forget = filled(element, () => get(path(id, "/logs")), (names) => {
    if (!names.length) return empty("No logs.");
    [name] = names;
    follow();
    return [h("div", { class: "tools" }, h("label", {}, "log", h("select", { onchange: (event) => { name = event.target.value; follow(); } },
      names.map((one) => h("option", { value: one }, one))))), text];
  });
  return () => { gone = true; clearTimeout(timer); forget(); };
}
