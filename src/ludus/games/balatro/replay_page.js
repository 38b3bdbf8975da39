// Steps through a game. Every text goes into the page as text, never as HTML.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  const SVG = "http://www.w3.org/2000/svg";
  const SUITS = { "♠": "spade", "♥": "heart", "♣": "club", "♦": "diamond" };
  const RANKS = ["2", "3", "4", "5", "6", "7", "8", "9", "10", "J", "Q", "K", "A"];
  const SHORT = { Holographic: "Holo", Polychrome: "Poly" };
  const PICTURES = { joker: "★", consumable: "✦", voucher: "◆", booster: "■" };
  const game = JSON.parse(document.getElementById("game").textContent);
  const byId = (id) => document.getElementById(id);

  const states = [];
  for (const change of game.states) {
    states.push(Object.freeze({ ...states[states.length - 1], ...change }));
  }
  const last = states.length - 1;
  let at = 0;
  let timer = null;

  function make(tag, look = "", text = null) {
    const element = document.createElement(tag);
    if (look) element.className = look;
    if (text !== null) element.textContent = text;
    return element;
  }

  function short(value) {
    if (typeof value !== "number") return String(value);
    if (value >= 1e11) return value.toExponential(3).replace("+", "");
    return value.toLocaleString("en-US", { maximumFractionDigits: 2 });
  }

  const plain = (name) => name.toLowerCase().replace(/[^a-z]+/g, "-");

  function dressed(element, thing) {
    if (thing.edition) element.classList.add(`edition-${plain(thing.edition)}`);
    if (thing.debuffed || (thing.stickers || []).includes("debuffed")) element.classList.add("debuffed");
    return element;
  }

  function drawCard(card) {
    if (card.face_down) {
      const back = make("div", "card back");
      back.title = "face down";
      if (card.forced) back.classList.add("forced");
      return back;
    }
    const element = dressed(make("div", `card ${SUITS[card.suit] || "stone"}`), card);
    if (card.enhancement) element.classList.add(`enhanced-${plain(card.enhancement)}`);
    if (card.forced) element.classList.add("forced");
    const corner = make("span", "corner");
    corner.append(make("b", "", card.rank || ""), make("i", "", card.suit || ""));
    element.append(corner, make("span", "pip", card.suit || "◆"));
    if (card.seal) element.append(make("span", `seal seal-${plain(card.seal)}`));
    const marks = [card.enhancement, SHORT[card.edition] || card.edition, card.bonus ? `+${card.bonus}` : ""].filter(Boolean);
    if (marks.length) element.append(make("span", "mark", marks.join(" ")));
    element.title = [
      `${card.rank || "Stone"}${card.suit || ""}`, card.enhancement, card.edition, card.seal && `${card.seal} seal`,
      card.bonus && `+${card.bonus} chips`, card.debuffed && "debuffed", card.forced && "forced",
    ].filter(Boolean).join(", ");
    return element;
  }

  function drawItem(item, kind) {
    if (item.face_down) {
      const back = make("div", "item back");
      back.title = "face down";
      return back;
    }
    if (item.rank || item.enhancement) return drawCard(item);
    if (item.rarity) kind = "joker";
    const element = dressed(make("div", `item ${item.rarity ? `rarity-${item.rarity}` : kind}`), item);
    const longest = Math.max(...item.name.split(/[\s-]+/).map((word) => word.length));
    const size = longest > 11 ? " longer" : longest > 8 ? " long" : "";
    element.append(make("span", `name${size}`, item.name), make("span", "picture", PICTURES[kind] || ""));
    const notes = [item.edition, item.asks_for, ...(item.stickers || [])];
    if (item.perishes_in !== undefined) notes.push(`in ${item.perishes_in}`);
    const shown = notes.filter(Boolean).join(", ");
    if (shown) element.append(make("span", "note", shown));
    if (item.value !== undefined) element.append(make("span", "worth", short(item.value)));
    if (item.sells_for !== undefined) element.append(make("span", "sale", `$${item.sells_for}`));
    element.title = [item.name, shown, item.sells_for !== undefined && `sells for $${item.sells_for}`]
      .filter(Boolean).join("; ");
    return element;
  }

  function slot(inner, price, chosen) {
    const place = make("div", "slot");
    if (chosen) place.classList.add("chosen");
    place.append(inner);
    if (price !== undefined) place.append(make("span", "price", `$${price}`));
    return place;
  }

  function fill(place, items, kind, choice, name) {
    place.replaceChildren(...items.map((item, index) => {
      const chosen = choice && choice.place === name && choice.index === index;
      return item ? slot(drawItem(item, kind), item.price, chosen) : make("div", "slot empty");
    }));
  }

  function group(title, items, kind, choice, name) {
    const part = make("div", "offer-group");
    const slots = make("div", "slots");
    part.append(make("h3", "", title), slots);
    fill(slots, items, kind, choice, name);
    slots.querySelectorAll(".empty").forEach((one) => one.remove());
    return slots.childElementCount ? part : null;
  }

  function message(large, ...lines) {
    const part = make("div", "message");
    part.append(make("b", "", large), ...lines.filter(Boolean).map((line) => make("span", "", line)));
    return part;
  }

  function middle(state, choice) {
    const parts = [];
    if (state.phase === "blind") {
      parts.push(message(`Next: ${state.blind}`, `score at least ${short(state.target)}`,
        state.skip_tags.length ? `skip it for a ${state.skip_tags[0]}` : ""));
    } else if (state.phase === "cash out") {
      parts.push(message(`${state.blind} beaten`, `cash out $${state.payout}`));
    } else if (state.phase === "over") {
      parts.push(message(state.won ? "The run is won" : `Lost to ${state.lost_to}`, `ante ${state.ante}, round ${state.round}`));
    }
    if (state.shop) {
      const shop = state.shop;
      parts.push(group(`shop, reroll $${shop.reroll}`, shop.items, "consumable", choice, "items"),
        group("voucher", shop.vouchers, "voucher", choice, "vouchers"),
        group("packs", shop.packs, "booster", choice, "packs"));
    }
    if (state.pack) {
      parts.push(group(`${state.pack.kind} Pack, pick ${state.pack.picks}`, state.pack.items, "consumable", choice, "pack"));
    }
    if (state.waiting) parts.push(message(state.waiting, "choose its cards"));
    if (state.phase === "hand" && at > 0) {
      const before = game.choices[at - 1];
      parts.push(message(before.outcome || "", before.words));
    }
    byId("middle").replaceChildren(...parts.filter(Boolean));
  }

  function thoughts(choice) {
    byId("heading").textContent = choice ? "Decision" : "The end";
    byId("choice").textContent = choice ? choice.words : game.end;
    byId("outcome").textContent = choice && choice.outcome ? `→ ${choice.outcome}` : "";
    const value = byId("value");
    value.replaceChildren();
    if (choice && choice.value !== undefined) {
      value.append(make("h3", "", "value estimate"), make("strong", "", choice.value.toFixed(2)));
    }
    const rows = choice ? choice.considered || [] : [];
    const title = choice && choice.q ? "considered, by Q-value" : "considered, by probability";
    const weights = rows.map((row) => row.weight);
    const [low, high] = choice && choice.q ? [Math.min(...weights), Math.max(...weights)] : [0, 1];
    const list = rows.map((row) => {
      const line = make("div", row.chosen ? "bar-row chosen-row" : "bar-row");
      const share = high > low ? (row.weight - low) / (high - low) : 1;
      const bar = make("div", "bar-line");
      const inner = make("i");
      inner.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
      bar.append(inner);
      const amount = choice.q ? row.weight.toFixed(3) : `${(row.weight * 100).toFixed(1)} %`;
      line.append(make("span", "words", row.words), make("span", "amount", amount), bar);
      return line;
    });
    byId("considered").replaceChildren(...(list.length ? [make("h3", "", title), ...list] : []));
    if (choice && choice.value === undefined && !list.length) {
      byId("considered").append(make("p", "sub", "This policy gives no value and no probabilities."));
    }
  }

  function more(state) {
    const levels = make("table");
    const head = make("tr");
    for (const name of ["hand", "level", "played"]) head.append(make("th", "", name));
    levels.append(head);
    for (const hand of game.hands) {
      if (!state.levels[hand]) continue;
      const row = make("tr");
      row.append(make("td", "", hand), ...state.levels[hand].map((count) => make("td", "", String(count))));
      levels.append(row);
    }
    byId("levels").replaceChildren(levels.childElementCount > 1 ? levels : make("p", "sub", "none played yet"));
    const badges = [...state.vouchers.map((name) => make("span", "badge", name)),
      ...state.tags.map((name) => make("span", "badge tag", name))];
    byId("badges").replaceChildren(...(badges.length ? badges : [make("p", "sub", "none")]));
    const cells = [make("span", "")];
    for (let rank = 12; rank >= 0; rank -= 1) cells.push(make("span", "label", RANKS[rank]));
    Object.entries(SUITS).forEach(([symbol, suit], row) => {
      cells.push(make("span", `label ${suit}`, symbol));
      for (let rank = 12; rank >= 0; rank -= 1) {
        const count = state.deck.cards[row * 13 + rank];
        cells.push(make("span", count ? `cell ${suit}` : "cell gone", count > 1 ? String(count) : count ? "•" : ""));
      }
    });
    byId("deck-grid").replaceChildren(...cells);
  }

  function show(step) {
    at = Math.max(0, Math.min(last, step));
    const state = states[at];
    const choice = at < last ? game.choices[at] : null;
    byId("slider").value = String(at);
    byId("count").textContent = `${at} / ${last}`;
    byId("blind").textContent = state.blind + (state.boss_disabled ? " (disabled)" : "");
    byId("target").textContent = short(state.target);
    byId("chips").textContent = short(state.chips);
    const share = typeof state.target === "number" && state.target > 0 ? Number(state.chips) / state.target : 0;
    byId("meter").style.width = `${Math.min(1, share) * 100}%`;
    for (const name of ["hands", "discards", "ante", "round", "boss"]) byId(name).textContent = String(state[name]);
    byId("money").textContent = `$${state.money}`;
    byId("deck").textContent = `${state.deck.left}/${state.deck.size}`;
    byId("joker-count").textContent = `jokers ${state.jokers.length}/${state.joker_slots}`;
    byId("consumable-count").textContent = `consumables ${state.consumables.length}/${state.consumable_slots}`;
    fill(byId("jokers"), state.jokers, "joker", choice, "jokers");
    fill(byId("consumables"), state.consumables, "consumable", choice, "consumables");
    middle(state, choice);
    const chosen = new Set(choice ? choice.cards : []);
    byId("hand").replaceChildren(...state.hand.map((card, index) => slot(drawCard(card), undefined, chosen.has(index))));
    thoughts(choice);
    more(state);
    byId("marker")?.setAttribute("x1", String(at));
    byId("marker")?.setAttribute("x2", String(at));
    document.documentElement.dataset.step = String(at);
  }

  function curve() {
    const values = game.choices.map((choice) => choice.value);
    const known = values.filter((value) => value !== undefined);
    if (known.length < 2) {
      byId("curve-figure").hidden = true;
      return;
    }
    const low = Math.min(...known, 0);
    const high = Math.max(...known, low + 1e-6);
    const svg = byId("curve");
    svg.setAttribute("viewBox", `0 0 ${Math.max(1, last)} 100`);
    const draw = (tag, look, attributes) => {
      const element = document.createElementNS(SVG, tag);
      element.setAttribute("class", look);
      element.setAttribute("vector-effect", "non-scaling-stroke");
      for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
      svg.append(element);
      return element;
    };
    for (let step = 1; step <= last; step += 1) {
      if (states[step].ante !== states[step - 1].ante) draw("line", "ante-line", { x1: step, x2: step, y1: 0, y2: 100 });
    }
    const points = values.flatMap((value, step) =>
      value === undefined ? [] : [`${step},${(96 - 92 * (value - low) / (high - low)).toFixed(2)}`]);
    draw("polyline", "value-line", { points: points.join(" ") });
    draw("line", "marker-line", { x1: 0, x2: 0, y1: 0, y2: 100 }).id = "marker";
    svg.addEventListener("click", (event) => {
      const box = svg.getBoundingClientRect();
      show(Math.round((event.clientX - box.left) / box.width * last));
    });
  }

  function otherRound(direction) {
    let step = at + direction;
    while (step > 0 && step < last && !(states[step].phase === "blind" && states[step - 1].phase !== "blind")) {
      step += direction;
    }
    return step;
  }

  function stop() {
    clearInterval(timer);
    timer = null;
    document.querySelector('[data-step="play"]').textContent = "▶ play";
  }

  function go(what) {
    if (what === "play" && timer === null) {
      if (at === last) show(0);
      timer = setInterval(() => (at < last ? show(at + 1) : stop()), 900);
      document.querySelector('[data-step="play"]').textContent = "❚❚ pause";
      return;
    }
    stop();
    if (what === "first") show(0);
    else if (what === "last") show(last);
    else if (what === "back") show(at - 1);
    else if (what === "next") show(at + 1);
    else if (what === "round-back") show(otherRound(-1));
    else if (what === "round-next") show(otherRound(1));
  }

  const KEYS = { ArrowLeft: "back", ArrowRight: "next", Home: "first", End: "last", " ": "play" };
  document.addEventListener("keydown", (event) => {
    let what = KEYS[event.key];
    if (!what || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === " " && event.target.closest("button")) return;
    if (event.shiftKey && (what === "back" || what === "next")) what = `round-${what}`;
    event.preventDefault();
    go(what);
  });
  for (const button of document.querySelectorAll("[data-step]")) {
    button.addEventListener("click", () => go(button.dataset.step));
  }
  byId("slider").max = String(last);
  byId("slider").addEventListener("input", (event) => { stop(); show(Number(event.target.value)); });
  const fromAddress = () => show(Number.parseInt(location.hash.slice(1), 10) || 0); // page.html#42
  window.addEventListener("hashchange", fromAddress);
  curve();
  fromAddress();
});
