"""A replay as one self-contained HTML page that steps through the game in the browser.

The page holds visible states only. States are written as differences from the one before.
"""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from ludus.games.balatro import actions as act
from ludus.games.balatro import names as n
from ludus.games.balatro import state as st
from ludus.games.balatro.action_words import action_positions, action_words
from ludus.games.balatro.env import BalatroEnv
from ludus.games.balatro.facts import HANDS, STAKE_NAMES
from ludus.games.balatro.render import short
from ludus.games.balatro.replay_check import ReplayFrame, replay_frames
from ludus.games.balatro.replay_files import GameReplay, ReplayDecision, ReplayResult
from ludus.reports.page import html_page
from ludus.runs.atomic import write_atomic

# where the thing that an action chooses is on the page: first action, one past the last, place
_PLACES = (
    (act.BUY, act.BUY_AND_USE, "items"),
    (act.BUY_AND_USE, act.REDEEM, "items"),
    (act.REDEEM, act.OPEN, "vouchers"),
    (act.OPEN, act.PICK, "packs"),
    (act.PICK, act.USE, "pack"),
    (act.USE, act.SELL_CONSUMABLE, "consumables"),
    (act.SELL_CONSUMABLE, act.SELL_JOKER, "consumables"),
    (act.SELL_JOKER, act.SWAP_JOKERS, "jokers"),
)


def write_replay_page(replay: GameReplay, path: Path, where: str) -> None:
    """Play the replay again and write its page. Raises as `replay_frames` does; `where` names the replay."""
    write_atomic(path, replay_page(replay, where))


def replay_page(replay: GameReplay, where: str) -> str:
    """Return the page. Raises as `replay_frames` does."""
    states: list[dict[str, Any]] = []
    choices: list[dict[str, Any]] = []
    before: dict[str, Any] = {}
    for frame in replay_frames(replay, where):
        if choices and choices[-1]["plays"]:
            choices[-1]["outcome"] = _scored(frame.env)
        states.append(_difference(before, frame.state))
        before = frame.state
        if frame.decision is not None:
            choices.append(_choice(frame, frame.decision))
    header = replay.header
    about = f"{header.deck}, {STAKE_NAMES[header.stake]} · {end_in_words(replay.result)}"
    data = {"states": states, "choices": choices, "hands": HANDS, "end": end_in_words(replay.result)}
    # no text in it can end the script: characters with a meaning in HTML are written as JSON escapes
    text = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    body, style, script = (
        (files("ludus.games.balatro") / f"replay_page.{kind}").read_text("utf-8")
        for kind in ("html", "css", "js")
    )
    return html_page(
        f"Balatro: {header.policy} plays seed {header.seed}",
        about,
        [body, f'<script type="application/json" id="game">{text}</script>'],
        own_style=style,
        own_script=script,
    )


def end_in_words(result: ReplayResult) -> str:
    """Return how a game ended, in words."""
    if result.won:
        return f"won in ante {result.ante}"
    if not result.over:
        return f"cut in ante {result.ante}, before its end"
    return f"lost to {result.lost_to} in ante {result.ante}"


def _difference(before: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Return what changed; a part that is gone is None."""
    changed = {name: part for name, part in state.items() if name not in before or before[name] != part}
    return changed | {name: None for name in before if name not in state}


def _choice(frame: ReplayFrame, decision: ReplayDecision) -> dict[str, Any]:
    s, action = frame.env.games.s[0], frame.env.engine_action(decision.action)
    found: dict[str, Any] = {
        "words": action_words(s, action),
        "cards": action_positions(action),
        "plays": bool(
            s[st.PHASE] == n.SELECTING_HAND and action >= act.CARDS and (action - act.CARDS) % 2 == 0
        ),
    }
    for start, end, place in _PLACES:
        if start <= action < end:
            found |= {"place": place, "index": action - start}
    if decision.value is not None:
        found["value"] = decision.value
    if decision.probabilities is not None:
        found["considered"] = _considered(frame.env, decision.probabilities, action, add=True)
    elif decision.q_values is not None:
        found |= {"considered": _considered(frame.env, decision.q_values, action, add=False), "q": True}
    return found


def _considered(
    env: BalatroEnv, weights: list[tuple[int, float]], chosen: int, *, add: bool
) -> list[dict[str, Any]]:
    """Return the legal ones of the weighed actions in words, the greatest first.

    Several moves may mean the same action: their probabilities are added, of their Q-values the greatest counts.
    """
    legal, s = env.action_masks(), env.games.s[0]
    sums: dict[int, float] = {}
    for index, weight in weights:
        if index < len(legal) and legal[index]:
            action = env.engine_action(index)
            known = sums.get(action)
            sums[action] = weight if known is None else known + weight if add else max(known, weight)
    return [
        {"words": action_words(s, action), "weight": weight} | ({"chosen": True} if action == chosen else {})
        for action, weight in sorted(sums.items(), key=lambda item: -item[1])
    ]


def _scored(env: BalatroEnv) -> str:
    """Return the hand that was just played, and its score."""
    s, f = env.games.s[0], env.games.f[0]
    return f"{HANDS[int(s[st.LAST_HAND])]}, {short(float(f[st.HAND_SCORE]))} chips"
