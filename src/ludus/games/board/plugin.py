"""Small board and card games for networks and search: TicTacToe, Connect Four, Nim and Kuhn Poker."""

from __future__ import annotations

from ludus.plugins import EnvEntry, Plugin

_GAMES = ("TicTacToe-v0", "ConnectFour-v0", "Nim-v0", "KuhnPoker-v0")

PLUGIN = Plugin(
    name="board",
    env_group="text games",
    envs=tuple(
        EnvEntry(f"Text/{game}", "ludus.games.board.env:BoardGameEnv", {"game": game}) for game in _GAMES
    ),
    seat_games=("ludus.games.board.game:make_board_game",),
    codecs=("ludus.games.board.codecs:codec_for",),
    players={
        name: f"ludus.games.board.bots:{name}_bot" for name in ("random", "greedy", "minimax", "equilibrium")
    },
)
