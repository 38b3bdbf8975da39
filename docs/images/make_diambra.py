"""Draws docs/images/diambra.png: a fight on the stand-in engine, and the learning curve of a run on eight of them.

python benchmarks/diambra.py learn --folder .benchmarks/diambra
python docs/images/make_diambra.py .benchmarks/diambra/diambra-sfiii3n/PPO/… --random -1.40 --brawler -2.07

The two figures are the bots' that the benchmark prints. Run it where the extra diambra is installed.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from diambra.arena import available_games
from PIL import Image, ImageDraw, ImageFont

from ludus.games.diambra.standin.drawing import draw
from ludus.games.diambra.standin.match import EpisodeRules, Fighter, FightRules, Match

WIDTH, HEIGHT = 1200, 420
SCALE = 2
INK, PALE, GRID, LINE = "#1f2933", "#616e7c", "#e4e7eb", "#2563eb"
BOTS = {"random": "#d9480f", "brawler": "#2b8a3e"}
PICTURE = (30, 60, 540, 315)  # left, top, width, height
PLOT = (660, 60, 500, 290)

RECENT = 20

Point = tuple[float, float]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    for name in BOTS:
        parser.add_argument(f"--{name}", type=float, required=True)
    asked = parser.parse_args()
    curve = _recent_means(asked.run)
    image = Image.new("RGB", (WIDTH * SCALE, HEIGHT * SCALE), "white")
    left, top, width, height = (value * SCALE for value in PICTURE)
    image.paste(_fight().resize((width, height), Image.Resampling.NEAREST), (left, top))
    _plot(ImageDraw.Draw(image), curve, {name: getattr(asked, name) for name in BOTS})
    target = Path(__file__).with_name("diambra.png")
    image.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS).save(target, optimize=True)
    print(f"wrote {target}")


def _recent_means(run: Path) -> list[Point]:
    """The mean return of the last episodes, whenever one has ended."""
    episodes = [json.loads(line) for line in (run / "episodes.jsonl").read_text("utf-8").splitlines()]
    rewards = [episode["reward"] for episode in episodes]
    return [
        (episode["step"], sum(rewards[end - RECENT : end]) / RECENT)
        for end, episode in enumerate(episodes, start=1)
        if end >= RECENT
    ]


def _fight() -> Image.Image:
    """The frame in which the first blow of a fight lands."""
    rules = FightRules.of(available_games(False)["sfiii3n"])
    match = Match(rules, EpisodeRules(4, 4, 0.0, (Fighter(0, (18,)),)), step_ratio=1)
    while not (match.fight.fighters[0].striking and match.fight.fighters[1].hurt):
        near = match.fight.distance < 0.15
        match.step([(0, 1) if near else (5, 0)])
        if match.done.round:
            break
    return Image.fromarray(draw(match, rules.frame_shape))


def _plot(pen: ImageDraw.ImageDraw, curve: list[Point], bots: dict[str, float]) -> None:
    left, top, width, height = PLOT
    values = [y for _, y in curve] + list(bots.values())
    low, high = min(values) - 0.3, max(values) + 0.3
    x_max = max(x for x, _ in curve)

    def at(x: float, y: float) -> Point:
        return (left + width * x / x_max) * SCALE, (top + height * (high - y) / (high - low)) * SCALE

    def write(xy: Point, words: str, size: int, color: str, anchor: str) -> None:
        pen.text(xy, words, fill=color, font=ImageFont.load_default(size * SCALE), anchor=anchor)

    for y in range(int(low) - 1, int(high) + 1, 2):
        if low <= y <= high:
            pen.line([at(0, y), at(x_max, y)], fill=GRID, width=SCALE)
            write((at(0, y)[0] - 10 * SCALE, at(0, y)[1]), str(y), 15, PALE, "rm")
    for part in range(5):
        x = x_max * part / 4
        write((at(x, low)[0], at(x, low)[1] + 10 * SCALE), f"{x / 1000:.0f}k", 15, PALE, "mt")
    for name, value in bots.items():
        pen.line([at(0, value), at(x_max, value)], fill=BOTS[name], width=2 * SCALE)
        write((at(x_max, value)[0], at(x_max, value)[1] - 4 * SCALE), name, 15, BOTS[name], "rb")
    pen.line([at(*point) for point in curve], fill=LINE, width=3 * SCALE, joint="curve")
    write((PICTURE[0] * SCALE, 24 * SCALE), "a fight on the stand-in engine", 18, INK, "lt")
    write(
        (left * SCALE, 24 * SCALE),
        f"PPO on eight of them: mean return of the last {RECENT} episodes",
        18,
        INK,
        "lt",
    )
    write(((left + width / 2) * SCALE, (HEIGHT - 12) * SCALE), "environment steps", 15, PALE, "mb")


if __name__ == "__main__":
    main()
