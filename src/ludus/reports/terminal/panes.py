"""The panes of the dashboard: lines of text for the available space."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from rich.console import Console, ConsoleOptions, RenderResult
from rich.panel import Panel
from rich.text import Text

from ludus.reports.reading import readable
from ludus.reports.terminal.watched import Watched
from ludus.tracking.progress import duration, mean_and_spread, number, sparkline

Lines = Sequence[Text]
Draw = Callable[[Watched, int, int], Lines]

_LABELS = {
    "train/policy_gradient_loss": "policy loss",
    "train/policy_loss": "policy loss",
    "train/actor_loss": "actor loss",
    "train/critic_loss": "critic loss",
    "train/value_loss": "value loss",
    "train/loss": "loss",
    "train/approx_kl": "KL",
    "train/entropy_loss": "entropy loss",
    "train/entropy": "entropy",
    "train/clip_fraction": "clipped",
    "train/explained_variance": "explained var",
    "train/grad_norm": "gradient",
    "train/param_norm": "parameters",
    "train/learning_rate": "learning rate",
    "time/fps": "steps/s",
    "time/tokens_per_second": "tokens/s",
    "time/cpu_cores": "cores busy",
    "time/cpu_machine": "machine busy",
    "time/memory_gb": "memory GB",
    "time/gpu_percent": "GPU %",
    "time/gpu_memory_gb": "GPU GB",
    "time/collecting": "collecting s",
    "time/sampling": "sampling s",
    "time/per_turn": "s per turn",
    "time/per_episode": "s per game",
    "games/finished": "games/update",
    "games/turns": "turns/update",
    "games/invalid_rate": "invalid moves",
    "games/well_formed": "well formed",
    "games/completion_tokens": "tokens/turn",
    "games/prompt_tokens": "prompt tokens",
    "games/cut_off": "cut off",
    "games/skipped": "skipped",
    "games/entropy": "entropy",
}
_LABEL_WIDTH = 13
_VALUE_WIDTH = 8
_HIDDEN = {"time/seconds", "train/n_epochs", "train/n_updates", "time/per_character"}


class Pane:
    """A titled frame around the lines that `draw` returns for the space inside."""

    def __init__(self, title: str, watched: Watched, draw: Draw) -> None:
        self._title, self._watched, self._draw = title, watched, draw

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width, height = options.max_width - 4, (options.height or 8) - 2
        lines = list(self._draw(self._watched, max(width, 1), max(height, 1)))[: max(height, 1)]
        for line in lines:
            line.plain = readable(line.plain)
            line.truncate(max(width, 1), overflow="ellipsis")
        yield Panel(
            Text("\n").join(lines),
            title=self._title,
            title_align="left",
            border_style="bright_black",
            height=options.height,
        )


def header(watched: Watched, width: int) -> Lines:
    """Return two lines: which run it is, its progress, and the time left."""
    looks = {"running": "cyan", "finished": "green", "stopped": "green", "interrupted": "yellow"}
    named = Text.assemble(
        (watched.name, "bold"),
        f"  {watched.algorithm} on {watched.env}  ",
        (watched.status, looks.get(watched.status, "red")),
    )
    left = watched.seconds_left
    seconds = watched.number("time/seconds")
    parts = [watched.progress]
    if seconds is not None:
        parts.append(f"{duration(seconds)} elapsed")
    if left is not None:
        parts.append(f"{duration(left)} left")
    if not watched.is_over and watched.since_row > 10:
        parts.append(f"last row {duration(watched.since_row)} ago")
    facts = f"  {int(watched.fraction * 100):3d}%  {'   '.join(parts)}"
    room = max(10, min(40, width - len(facts)))
    filled = round(watched.fraction * room)
    bar = Text.assemble(("━" * filled, "cyan"), ("─" * (room - filled), "bright_black"), facts)
    lines = [named, bar]
    for line in lines:
        line.plain = readable(line.plain)
        line.truncate(width, overflow="ellipsis")
    return lines


def reward_curve(watched: Watched, width: int, height: int) -> Lines:
    """Draw the training reward in all available space."""
    values = watched.course("rollout/ep_rew_mean", width)
    facts = [("reward", "rollout/ep_rew_mean"), ("length", "rollout/ep_len_mean")]
    facts += [("success", "rollout/success_rate")]
    known = [(label, watched.number(name)) for label, name in facts]
    head = Text("  ").join(
        Text.assemble((f"{label} ", "dim"), (number(value), "bold"))
        for label, value in known
        if value is not None
    )
    if not values:
        return [Text("no episode has ended yet", "dim")]
    return [head, *_curve(values, width, height - 1, "green")]


def evaluations(watched: Watched, width: int, height: int) -> Lines:
    """Draw the curve of the evaluations, and the newest of them."""
    found = watched.series("eval/mean_reward")
    steps, means, spreads = found.steps, found.values, watched.series("eval/std_reward").values
    if not len(means):
        return [Text("none so far", "dim")]
    best = int(means.argmax())
    rows = (
        [*_curve(watched.course("eval/mean_reward", width), width, 2, "magenta")]
        if height >= 6 and len(means) > 1
        else []
    )
    for index in reversed(range(len(means))):
        mean = float(means[index])
        shown = mean_and_spread(mean, float(spreads[index])) if len(spreads) == len(means) else number(mean)
        mark = ("  best", "green") if index == best else ""
        rows.append(Text.assemble((f"{_short(steps[index]):>6}  ", "dim"), shown, mark))
        if len(rows) >= height:
            break
    return rows


def losses(watched: Watched, width: int, height: int) -> Lines:
    """Return the metrics of the learner, the most important first, each with its curve."""
    return list(_rows(watched, _named(watched, "train/"), width))[:height]


def throughput(watched: Watched, width: int, height: int) -> Lines:
    """Return the speed, and the load of the machine."""
    return list(_rows(watched, _named(watched, "time/"), width))[:height]


def checkpoints(watched: Watched, width: int, height: int) -> Lines:
    """Return the newest checkpoints, always including the best one."""
    newest = list(reversed(watched.checkpoints))
    if not newest:
        return [Text("none so far", "dim")]
    shown = newest[:height]
    best = next((one for one in newest if one.best), None)
    if best is not None and best not in shown:
        shown = [*shown[:-1], best]
    lines = []
    for one in shown:
        mark = "best" if one.best else "" if one.intact else "bad"
        look = "green" if one.best else "red"
        mark = mark or "pin" * one.pinned
        lines.append(
            Text.assemble(
                f"{_short(one.step):>5} ", (f"{mark:<4} ", look), (f"{_age(one.created):>4}", "dim")
            )
        )
    return lines


def games(watched: Watched, width: int, height: int) -> Lines:
    """Return the games played, and the content of the learner's buffer at the last update."""
    total = watched.number("episodes")
    head = [] if total is None else [_row("games played", int(total), [], width)]
    return [*head, *_rows(watched, _named(watched, "games/"), width)][:height]


def ratings(watched: Watched, width: int, height: int) -> Lines:
    """Return the players of the league: rating, how often each is drawn, and the learner's win rate against it."""
    prefix = "league/rating/"
    names = {name.removeprefix(prefix) for name in watched.newest if name.startswith(prefix)}
    drawn = "league/frequency/"
    names |= {name.removeprefix(drawn) for name in watched.newest if name.startswith(drawn)}
    if not names:
        return [Text("no ratings yet", "dim")]
    chances = {}
    for key in watched.newest:
        if key.startswith("league/win_rate/"):
            _, _, _, *opponent = key.split("/")
            chances["/".join(opponent)] = watched.number(key)
    room = max(8, width - 24)

    def rank(name: str) -> tuple[bool, float, str]:
        rating = watched.number(prefix + name)
        return rating is None, -(rating or 0.0), name

    lines = [Text(f"{'':<{room}} {'rating':>10} {'drawn':>5} {'beaten':>6}", "dim")]
    for name in sorted(names, key=rank)[: height - 1]:
        rating, sigma = watched.number(prefix + name), watched.number(f"league/sigma/{name}")
        shown = "" if rating is None else f"{rating:.1f}" + ("" if sigma is None else f" ± {sigma:.1f}")
        share, chance = watched.number(drawn + name), chances.get(name)
        cells = f" {shown:>10} {_percent(share):>5} {_percent(chance):>6}"
        lines.append(Text.assemble(f"{name[:room]:<{room}}", cells))
    return lines


def learning(watched: Watched, width: int, height: int) -> Lines:
    """Draw the reward curve over a few lines, then losses."""
    curve = list(reward_curve(watched, width, 3)) if height >= 5 else []
    return [*curve, *losses(watched, width, height - len(curve))]


def _named(watched: Watched, prefix: str) -> list[str]:
    """Return the metrics under `prefix`, those with a label first and in the order of the labels."""
    own = [name for name in watched.newest if name.startswith(prefix) and name not in _HIDDEN]
    known = [name for name in _LABELS if name in own]
    return known + sorted(name for name in own if name not in known)


def _rows(watched: Watched, names: Sequence[str], width: int) -> Iterator[Text]:
    for name in names:
        value = watched.number(name)
        if value is not None:
            label = _LABELS.get(name, name.split("/", 1)[-1].replace("_", " "))
            yield _row(label, value, watched.course(name, width), width)


def _row(label: str, value: float, course: list[float], width: int) -> Text:
    """Return a label, its newest value, and its curve if there is space."""
    text = Text.assemble(
        (f"{label[:_LABEL_WIDTH]:<{_LABEL_WIDTH}}", "dim"), f"{number(value):>{_VALUE_WIDTH}}"
    )
    room = min(width - _LABEL_WIDTH - _VALUE_WIDTH - 2, 60)
    if room >= 6 and len(course) > 1:
        text.append("  " + sparkline(course, room)[0], "blue")
    return text


def _curve(values: list[float], width: int, height: int, look: str) -> list[Text]:
    """Draw a curve with its highest and lowest value next to it."""
    known = [value for value in values if value == value]
    labels = [""] * height
    labels[-1], labels[0] = number(min(known)), number(max(known))
    room = max(len(label) for label in labels)
    drawn = sparkline(values, max(width - room - 1, 4), max(height, 1))
    return [
        Text.assemble((line, look), (f" {label:>{room}}", "dim"))
        for line, label in zip(drawn, labels, strict=True)
    ]


def _short(step: float) -> str:
    if step >= 10_000_000:
        return f"{step / 1e6:.0f}M"
    if step >= 1_000_000:
        return f"{step / 1e6:.2f}M"
    return f"{step / 1e3:.0f}k" if step >= 10_000 else f"{step:.0f}"


def _age(created: str) -> str:
    try:
        seconds = time.time() - datetime.fromisoformat(created).timestamp()
    except ValueError:
        return ""
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(int(seconds), 0)}s"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"
