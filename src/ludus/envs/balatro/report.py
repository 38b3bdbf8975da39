"""What an episode came to, read off the rows of a game that has ended."""

from __future__ import annotations

from typing import Any

from ludus.envs.balatro import state as st
from ludus.envs.balatro.facts import BLIND_NAMES, HANDS, ITEM_NAMES


def episode_report(s: Any, f: Any) -> dict[str, Any]:
    """How far a run came: `ante`, `round`, best hand (`score`), money, jokers held, hands played, and its end."""
    jokers = s[st.JOKER : st.JOKER + int(s[st.N_JOKERS])].tolist()
    played = zip(HANDS, s[st.PLAYED : st.PLAYED + st.N_HANDS].tolist(), strict=True)
    return {
        "ante": int(s[st.ANTE]),
        "round": int(s[st.ROUND]),
        "won": bool(s[st.WON]),
        "score": float(f[st.BEST_HAND]),
        "money": int(s[st.MONEY]),
        "length": int(s[st.STEPS]),
        "lost_to": BLIND_NAMES.get(int(s[st.LOST_TO]), ""),
        "jokers": [ITEM_NAMES[joker] for joker in jokers],
        "hands": {name: times for name, times in played if times},
    }
