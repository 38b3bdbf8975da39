"""Draws docs/images/curve-*.svg, learning curves of long runs, from the figures kept in docs/curves/.

python docs/images/make_curves.py
"""

from __future__ import annotations

import csv
from pathlib import Path

from ludus.experiments.panels import PanelChart, PanelLine, write_svg

DOCS = Path(__file__).resolve().parents[1]


def columns(name: str) -> dict[str, list[float]]:
    with (DOCS / "curves" / f"{name}.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {key: [float(row[key]) for row in rows] for key in rows[0]}


def line(name: str, table: dict[str, list[float]], x: str, y: str, scale: float = 1.0) -> PanelLine:
    return PanelLine(name, table[x], [value * scale for value in table[y]])


def main() -> None:
    games = columns("balatro-gpu")
    antes = PanelChart("reached", "seconds", "ante", (line("mean ante", games, "seconds", "mean_ante"),))
    runs = (
        line("clear ante 4", games, "seconds", "cleared_ante_4", 100),
        line("win", games, "seconds", "win_rate", 100),
    )
    write_svg(
        DOCS / "images" / "curve-balatro.svg",
        "Balatro, one H200: the last games while training",
        [antes, PanelChart("of runs", "seconds", "%", runs)],
        2,
    )
    board = columns("tictactoe-smollm2")
    results = (
        line("drawn with minimax", board, "updates", "draws_minimax", 100),
        line("score against random", board, "updates", "score_random", 100),
    )
    write_svg(
        DOCS / "images" / "curve-tictactoe.svg",
        "SmolLM2-135M at TicTacToe, 50 games every ten updates",
        [PanelChart("of games", "updates", "%", results)],
        1,
    )


if __name__ == "__main__":
    main()
