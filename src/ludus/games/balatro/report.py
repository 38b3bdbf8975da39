"""The report of an episode, read from the rows of a game that has ended."""

from __future__ import annotations

from typing import Any

from ludus.games.balatro import state as st
from ludus.games.balatro.facts import BLIND_NAMES, HANDS, ITEM_NAMES


def episode_report(s: Any, f: Any) -> dict[str, Any]:
    """Return the report of a run: `ante`, `round`, best hand (`score`), money, jokers held, hands played, its end."""
    run = s[: st.PLAYED + len(HANDS)].tolist()  # converting single numbers from numpy is slow
    jokers = s[st.JOKER : st.JOKER + st.MAX_JOKERS].tolist()
    return {
        "kind": "balatro",
        "ante": run[st.ANTE],
        "round": run[st.ROUND],
        "won": bool(run[st.WON]),
        "score": float(f[st.BEST_HAND]),
        "money": run[st.MONEY],
        "length": run[st.STEPS],
        "lost_to": BLIND_NAMES.get(run[st.LOST_TO], ""),
        "jokers": [ITEM_NAMES[joker] for joker in jokers if joker],
        "hands": {name: run[st.PLAYED + i] for i, name in enumerate(HANDS) if run[st.PLAYED + i]},
    }
