"""Draws docs/images/unity.png: the learning curve of a run of unity-uc1, and where its agent drives.

ludus unity simulator --use-case uc1 --n 8      # in another terminal
ludus train unity-uc1
python docs/images/unity.py runs/ludus-Unity-v0/PPO/unity-uc1_…
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

import ludus
from ludus.games.unity.episode import Episode, compile_use_case
from ludus.games.unity.simulator.client import StandInOptions, UnityStandIn
from ludus.games.unity.simulator.drawing import draw
from ludus.games.unity.simulator.tank import YARD

YARD_SIZE, CURVE_WIDTH, HEIGHT, TOP = 300, 520, 440, 76
INK, PALE, GRID, LINE, PATH = "#1f2933", "#616e7c", "#e4e7eb", "#2563eb", "#d9480f"
SEEDS = (2, 3)
SCALE = 3  # drawn larger and shrunk: Pillow's lines have no smooth edges of their own


def main(run: Path, target: Path) -> None:
    width = CURVE_WIDTH + len(SEEDS) * (YARD_SIZE + 20) + 20
    image = Image.new("RGB", (width * SCALE, HEIGHT * SCALE), "white")
    canvas = ImageDraw.Draw(image)
    info = json.loads((run / "run.json").read_text("utf-8"))
    write(canvas, (24, 18), f"{info['command']}: eight stand-in simulators, seed {info['seed']}", 20, INK)
    curve(canvas, run, scripted_reward())
    policy = ludus.load(f"{run}@best")
    for number, seed in enumerate(SEEDS):
        left = CURVE_WIDTH + number * (YARD_SIZE + 20)
        image.paste(yard(policy, seed), (left * SCALE, TOP * SCALE))
        write(canvas, (left, TOP + YARD_SIZE + 8), f"a yard it has not seen, {number + 1}", 15, PALE)
    image.resize((width, HEIGHT), Image.Resampling.LANCZOS).save(target, optimize=True)
    print(f"wrote {target}")


def write(canvas: ImageDraw.ImageDraw, at: tuple[float, float], words: str, size: int, color: str) -> None:
    font = ImageFont.load_default(size * SCALE)
    canvas.text((at[0] * SCALE, at[1] * SCALE), words, fill=color, font=font)


def curve(canvas: ImageDraw.ImageDraw, run: Path, scripted: float) -> None:
    """The mean reward of the last 100 episodes over the steps, and of the scripted driver."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    points = [(row["step"], row["rollout/ep_rew_mean"]) for row in rows if "rollout/ep_rew_mean" in row]
    left, right, top, bottom = 60, CURVE_WIDTH - 40, TOP + 10, TOP + YARD_SIZE
    most = max(step for step, _ in points)
    low, high = int(np.floor(min(value for _, value in points))), 4

    def at(step: float, value: float) -> tuple[float, float]:
        down = (value - low) / (high - low)
        return (left + (right - left) * step / most) * SCALE, (bottom - (bottom - top) * down) * SCALE

    for value in range(low, high + 1):
        canvas.line([at(0, value), at(most, value)], fill=GRID, width=SCALE)
        write(canvas, (34, at(0, value)[1] / SCALE - 8), f"{value}", 14, PALE)
    canvas.line([at(0, scripted), at(most, scripted)], fill=PALE, width=SCALE)
    words = f"scripted driver that ignores obstacles: {scripted:.2f}"
    write(canvas, (left + 150, at(0, scripted)[1] / SCALE + 4), words, 14, PALE)
    canvas.line([at(*point) for point in points], fill=LINE, width=3 * SCALE, joint="curve")
    for step in range(0, int(most) + 1, 50_000):
        write(
            canvas, (at(step, low)[0] / SCALE - 8, bottom + 8), f"{step // 1000}k" if step else "0", 14, PALE
        )
    write(canvas, (left, HEIGHT - 30), "reward, mean of the last 100 episodes, over env steps", 14, PALE)


def steer(obs: Any) -> Any:
    """Heads for the target, and does not know obstacles."""
    bearing = np.arctan2(-obs[0], obs[1])
    return np.array([np.cos(bearing), np.clip(bearing, -1, 1)])


def scripted_reward(episodes: int = 200) -> float:
    """What `steer` earns in an episode, in the mean."""
    standin = UnityStandIn(0, StandInOptions("uc1", seed=500))
    return float(np.mean([play(standin, steer)[1] for _ in range(episodes)]))


def play(standin: UnityStandIn, choose: Any) -> tuple[list[tuple[float, float]], float, Any]:
    """One episode through the codec, without sockets: the tank's way, the return, and the yard as it began."""
    episode = Episode(compile_use_case("uc1"))
    obs, _ = episode.begin(standin.answer("reset", episode.reset_request(None), 0))
    picture = draw(standin.yard, YARD_SIZE * SCALE) if choose is not steer else None
    way, total, ended = [], 0.0, False
    while not ended:
        way.append((standin.yard.tank.x, standin.yard.tank.y))
        action = np.asarray(choose(obs))
        answer = standin.answer("step", episode.request(action), 0)
        obs, reward, terminated, truncated, _ = episode.step(action, answer)
        total += reward
        ended = terminated or truncated
    return way, total, picture


def yard(policy: Any, seed: int) -> Image.Image:
    """The first yard of `seed`, and the way of the tank through it."""
    way, _, picture = play(UnityStandIn(0, StandInOptions("uc1", seed=1_000 + seed)), policy.predict)
    image = Image.fromarray(picture)
    half, size = YARD + 0.5, YARD_SIZE * SCALE
    points = [((x + half) / (2 * half) * size, (half - y) / (2 * half) * size) for x, y in way]
    ImageDraw.Draw(image).line(points, fill=PATH, width=4 * SCALE, joint="curve")
    return image


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(__file__).with_name("unity.png"))
