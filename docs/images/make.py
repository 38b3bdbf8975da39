"""Draws docs/images/quickstart.png, the learning curve of a run, from its metrics.jsonl.

ludus train quickstart
python docs/images/make.py runs/LunarLander-v3/PPO/quickstart_…
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

WIDTH, HEIGHT = 1200, 560
LEFT, RIGHT, TOP, BOTTOM = 90, 40, 90, 70
SCALE = 3  # drawn larger and shrunk: Pillow's lines have no smooth edges of their own
INK, PALE, GRID, LINE, DOT = "#1f2933", "#616e7c", "#e4e7eb", "#2563eb", "#d9480f"
SOLVED = 200  # the return from which Gymnasium calls LunarLander solved

Point = tuple[float, float]


def main(run: Path, target: Path) -> None:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    training = _points(rows, "rollout/ep_rew_mean")
    evaluation = _points(rows, "eval/mean_reward")
    info = json.loads((run / "run.json").read_text("utf-8"))
    _draw(training, evaluation, info).save(target, optimize=True)
    print(f"wrote {target}")


def _points(rows: list[dict[str, float]], name: str) -> list[Point]:
    return [(row["step"], row[name]) for row in rows if row.get(name) is not None]


def _draw(training: list[Point], evaluation: list[Point], info: dict[str, object]) -> Image.Image:
    image = Image.new("RGB", (WIDTH * SCALE, HEIGHT * SCALE), "white")
    draw = ImageDraw.Draw(image)
    x_max = max(x for x, _ in training)
    values = [y for _, y in training + evaluation]
    low, high = (min(values) // 100) * 100, -(-max(values) // 100) * 100

    def at(x: float, y: float) -> Point:
        right = LEFT + (WIDTH - LEFT - RIGHT) * x / x_max
        down = TOP + (HEIGHT - TOP - BOTTOM) * (high - y) / (high - low)
        return right * SCALE, down * SCALE

    def write(xy: Point, words: str, size: int, color: str, anchor: str) -> None:
        draw.text(xy, words, fill=color, font=ImageFont.load_default(size * SCALE), anchor=anchor)

    y = low
    while y <= high:
        draw.line([at(0, y), at(x_max, y)], fill=GRID, width=SCALE)
        write((at(0, y)[0] - 12 * SCALE, at(0, y)[1]), f"{y:.0f}", 17, PALE, "rm")
        y += 100
    for x in range(0, int(x_max) + 1, 50_000):
        write((at(x, low)[0], at(x, low)[1] + 10 * SCALE), f"{x // 1000}k" if x else "0", 17, PALE, "mt")
    _dashes(draw, at(0, SOLVED), at(x_max, SOLVED))
    write((at(0, SOLVED)[0] + 8 * SCALE, at(0, SOLVED)[1] - 6 * SCALE), "solved: 200", 16, PALE, "lb")

    draw.line([at(*point) for point in training], fill=LINE, width=3 * SCALE, joint="curve")
    for point in evaluation:
        _dot(draw, at(*point), 7)

    title = f"{info['command']}: {info['algorithm']} on {info['env_id']}, seed {info['seed']}"
    write((LEFT * SCALE, 22 * SCALE), title, 22, INK, "lt")
    legend = 58 * SCALE
    draw.line([(LEFT * SCALE, legend), ((LEFT + 36) * SCALE, legend)], fill=LINE, width=3 * SCALE)
    write(((LEFT + 46) * SCALE, legend), "reward while training, mean of 100 episodes", 17, INK, "lm")
    _dot(draw, ((LEFT + 460) * SCALE, legend), 7)
    write(((LEFT + 478) * SCALE, legend), "evaluation, mean of 10 episodes", 17, INK, "lm")
    write((WIDTH / 2 * SCALE, (HEIGHT - 14) * SCALE), "environment steps", 17, PALE, "mb")
    return image.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS)


def _dashes(draw: ImageDraw.ImageDraw, start: Point, end: Point) -> None:
    x = start[0]
    while x < end[0]:
        draw.line([(x, start[1]), (min(x + 10 * SCALE, end[0]), start[1])], fill=PALE, width=SCALE)
        x += 20 * SCALE


def _dot(draw: ImageDraw.ImageDraw, center: Point, radius: int) -> None:
    x, y, r = *center, radius * SCALE
    draw.ellipse([x - r, y - r, x + r, y + r], fill=DOT, outline="white", width=2 * SCALE)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(__file__).with_name("quickstart.png"))
