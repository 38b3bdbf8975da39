"""Ludus's own envs in Gymnasium's registry: by `import ludus.envs.registration`, or by Gymnasium's plugin mechanism."""

from __future__ import annotations

import gymnasium as gym

from ludus.games.diambra.games import DIAMBRA, GAMES

BALATRO = "ludus/Balatro-v0"
MOVES = {"actions": "moves", "max_hand": 10}
"""How Balatro is played by those who learn it: see `ludus.games.balatro.moves`."""
_OWN = {
    BALATRO: "ludus.games.balatro.env:BalatroEnv",
    "ludus/Unity-v0": "ludus.games.unity.env:UnityEnv",
}
_TEXT = ("TicTacToe-v0", "ConnectFour-v0", "Nim-v0", "KuhnPoker-v0")


def register_envs() -> None:
    """Registers what is not registered yet."""
    for env_id, entry_point in _OWN.items():
        if env_id not in gym.registry:
            gym.register(env_id, entry_point, disable_env_checker=True, order_enforce=True)
    for game in _TEXT:
        if f"Text/{game}" not in gym.registry:
            gym.register(
                f"Text/{game}",
                "ludus.games.board.env:TextGameEnv",
                kwargs={"game": game},
                disable_env_checker=True,
            )
    for game_id in GAMES:
        if f"{DIAMBRA}{game_id}" not in gym.registry:
            gym.register(
                f"{DIAMBRA}{game_id}",
                "ludus.games.diambra.env:make_diambra",
                kwargs={"game_id": game_id},
                disable_env_checker=True,
            )


register_envs()
