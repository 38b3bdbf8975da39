"""Kuhn Poker with stakes, as a variant of TextArena's; imported only by TextArena, when it is played.

In the rules of TextArena's game a bet is a chip, but it counts every round as one chip and the reward is the sign of
the sum. So calling costs nothing, and the equilibrium of Kuhn Poker is not an equilibrium of that game. Here bets and
calls count and the reward is the chips won.
"""

from __future__ import annotations

import re
from typing import Any

from textarena.envs.KuhnPoker.env import KuhnPokerEnv

_MOVE = re.compile(r"\[(check|bet|fold|call)\]", re.IGNORECASE)


class KuhnWithStakes(KuhnPokerEnv):  # type: ignore[misc]  # TextArena has no types
    """TextArena's rules and words, with a chip for every bet and call, over `max_rounds`."""

    def _prompt(self, player_id: int, game_state: dict[str, Any]) -> str:
        prompt: str = super()._prompt(player_id, game_state)
        return prompt.replace(
            "The player with the most chips after all rounds wins", "What you win or lose is counted in chips"
        )

    def step(self, action: str) -> Any:
        held = self.state.game_state
        found = _MOVE.search(action.strip())
        move = found.group(1).lower() if found else ""
        if move in ("bet", "call") and move in held["current_legal_action_tree"]:
            held["player_chips"][self.state.current_player_id] -= 1
            held["pot"] += 1
        return super().step(action)

    def _init_round(self) -> None:
        held = self.state.game_state
        if held["current_round"] < self.max_rounds:
            super()._init_round()
            return
        held["current_round"] += 1
        chips = held["player_chips"]
        self.state.rewards = dict(chips)
        self.state.done = True
        for seat in range(2):
            self.state.game_info[seat]["reason"] = f"Chips of Player 0: {chips[0]}, of Player 1: {chips[1]}."
