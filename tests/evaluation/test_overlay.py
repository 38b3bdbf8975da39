"""The panel: it shows the numbers of the trace step, and they are found in the picture."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from ludus.envs.signals import Signal, Signals
from ludus.evaluation.episode_trace import TraceStep
from ludus.evaluation.overlay import ink
from ludus.evaluation.overlay.data import MAX_BARS, PanelData, PanelFeed, number, signal_number
from ludus.evaluation.overlay.panel import BELOW_HEIGHT, RIGHT_WIDTH, Panel
from ludus.evaluation.policy_outputs import PolicyOutput
from ludus.types import Array

TWO = Signals(
    (Signal("height", lambda e, o, i: 0.0), Signal("touching", lambda e, o, i: 0.0, contact=True)),
    ("left", "stay", "right"),
)


def trace_step(
    step: int = 7, action: Any = 1, output: PolicyOutput | None = None, **fields: Any
) -> TraceStep:
    output = PolicyOutput(12.5, (0.2, 0.7, 0.1)) if output is None else output
    values = {"reward": -0.25, "total": 31.5, "signals": (1.75, 1.0), "output": output}
    return TraceStep(step=step, action=np.asarray(action), **(values | fields))


def feed(space: Any = None, signals: Signals = TWO) -> PanelFeed:
    return PanelFeed("a run", "PPO", signals, spaces.Discrete(3) if space is None else space)


def holds(picture: Array, tile: Array) -> bool:
    """Return whether the picture contains these pixels."""
    height, width = tile.shape[:2]
    middle = tile[height // 2].tobytes()
    for y, row in enumerate(picture[height // 2 :]):
        found = row.tobytes().find(middle)
        while found >= 0:
            x = found // 3
            if found % 3 == 0 and (picture[y : y + height, x : x + width] == tile).all():
                return True
            found = row.tobytes().find(middle, found + 1)
    return False


def test_panel_shows_the_numbers_of_the_step() -> None:
    data = feed().take(trace_step())
    assert (data.step, data.reward, data.total, data.value) == (7, -0.25, 31.5, 12.5)
    assert [(s.name, s.value, s.contact) for s in data.signals] == [
        ("height", 1.75, False),
        ("touching", 1.0, True),
    ]
    assert data.bars_title == "action probabilities"
    assert [(b.label, b.value, b.text, b.chosen) for b in data.bars] == [
        ("left", 0.2, "20.0%", False),
        ("stay", 0.7, "70.0%", True),
        ("right", 0.1, "10.0%", False),
    ]
    assert [bar.end for bar in data.bars] == [0.2, 0.7, 0.1]


@pytest.mark.parametrize(
    ("arrangement", "size"), [("right", (RIGHT_WIDTH, 400)), ("below", (600, BELOW_HEIGHT))]
)
def test_numbers_are_found_in_the_picture(arrangement: Any, size: tuple[int, int]) -> None:
    data = feed().take(trace_step())
    picture = Panel(data, *size, arrangement).draw(data)
    assert picture.shape == (size[1], size[0], 3)
    for text, height in (("7", 19), ("-0.25", 19), ("31.50", 19), ("12.50", 19), ("1.75", 12), ("70.0%", 12)):
        assert holds(picture, ink.text_tile(text, height)), text
    later = feed().take(trace_step(total=99.0))
    assert not holds(Panel(data, *size, arrangement).draw(later), ink.text_tile("31.50", 19))


def test_plots_have_the_episode_so_far_and_restart_with_the_next() -> None:
    panel_feed = feed()
    for step in range(300):
        data = panel_feed.take(trace_step(step, reward=float(step)))
    assert data.plots[0].trail.tolist() == [float(step) for step in range(300)]
    assert data.plots[1].name == "value" and set(data.plots[1].trail) == {12.5}
    panel_feed.begin("the next")
    again = panel_feed.take(trace_step(0))
    assert again.plots[0].trail.tolist() == [-0.25] and again.subtitle == "PPO  ·  the next"


def test_last_frame_has_no_value_and_keeps_the_last_action() -> None:
    panel_feed = feed()
    before = panel_feed.take(trace_step())
    data = panel_feed.take(TraceStep(8, -100.0, -68.5, (0.0, 0.0), None, None, "terminated"))
    assert data.value is None and data.ended == "terminated" and data.bars == before.bars
    assert holds(Panel(before, 400, 400, "right").draw(data), ink.text_tile("ended", 12, ink.AMBER))


def test_likeliest_choices_and_the_chosen_one_are_shown() -> None:
    chances = np.full(50, 0.01)
    chances[[40, 3]] = 0.3, 0.2
    data = feed(spaces.Discrete(50)).take(trace_step(action=17, output=PolicyOutput(None, tuple(chances))))
    assert len(data.bars) == MAX_BARS and [bar.label for bar in data.bars[:2]] == ["40", "3"]
    assert [bar.label for bar in data.bars if bar.chosen] == ["17"]


def test_q_values_are_bars_from_the_lowest_to_the_highest() -> None:
    data = feed().take(trace_step(action=2, output=PolicyOutput(5.0, (1.0, float("nan"), 5.0), "value")))
    assert data.bars_title == "action values" and [bar.text for bar in data.bars] == ["1.00", "-", "5.00"]
    assert [bar.end for bar in data.bars] == pytest.approx([0.1, 0.0, 1.0])


def test_a_box_has_bars_from_zero_within_its_bounds() -> None:
    space = spaces.Box(np.float32([-2, 0]), np.float32([2, 1]))
    data = feed(space, Signals(actions=("turn", "push"))).take(
        trace_step(action=[-1.0, 0.25], output=PolicyOutput(1.0), signals=())
    )
    assert [(b.label, b.value, b.start, b.end) for b in data.bars] == [
        ("turn", -1.0, 0.5, 0.25),
        ("push", 0.25, 0.0, 0.25),
    ]
    unbounded = feed(spaces.Box(-np.inf, np.inf, (1,)), Signals())
    assert unbounded.take(trace_step(action=[4.0], output=PolicyOutput(), signals=())).bars[0].end == 1.0
    assert unbounded.take(trace_step(action=[-2.0], output=PolicyOutput(), signals=())).bars[0].end == 0.25


@pytest.mark.parametrize(
    ("space", "action", "weights", "texts"),
    [
        (spaces.MultiDiscrete([3, 2]), [2, 0], (0.1, 0.2, 0.7, 0.9, 0.1), ["2 of 3   70%", "0 of 2   90%"]),
        (spaces.MultiDiscrete([3, 2]), [2, 0], None, ["2 of 3", "0 of 2"]),
        (spaces.MultiBinary(2), [1, 0], (0.75, 0.25), ["75%", "25%"]),
        (spaces.Discrete(3, start=-1), 0, (0.5, 0.25, 0.25), ["50.0%", "25.0%", "25.0%"]),
        (spaces.Discrete(3), 2, None, [""]),
    ],
)
def test_every_action_space_has_bars(space: Any, action: Any, weights: Any, texts: list[str]) -> None:
    data = feed(space, Signals()).take(
        trace_step(action=action, output=PolicyOutput(None, weights), signals=())
    )
    assert [bar.text for bar in data.bars] == texts
    assert data.plots[1].name == "return"  # there is no value to plot
    Panel(data, 400, 400, "right").draw(data)
    Panel(data, 600, BELOW_HEIGHT, "below").draw(data)


def test_signals_that_do_not_fit_are_counted() -> None:
    many = Signals(tuple(Signal(f"signal {i}", lambda e, o, i: 0.0) for i in range(40)))
    data: PanelData = feed(signals=many).take(trace_step(signals=tuple(range(40))))
    for arrangement, size in (("right", (400, 400)), ("below", (600, BELOW_HEIGHT))):
        picture = Panel(data, *size, arrangement).draw(data)  # type: ignore[arg-type]
        assert any(holds(picture, ink.text_tile(f"{n} more", 12, ink.FAINT)) for n in range(1, 40))


def test_nan_is_drawn_as_a_gap() -> None:
    panel_feed = feed()
    for value in (np.nan, np.inf, 1.0):
        data = panel_feed.take(trace_step(reward=value, signals=(value, 0.0)))
        Panel(data, 400, 400, "right").draw(data)
    assert number(np.nan) == number(None) == number(-np.inf) == "-"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.00"),
        (-0.001, "0.00"),
        (-1.239, "-1.24"),
        (123.44, "123.4"),
        (54_321.0, "54,321"),
        (-2.5e8, "-2.50e8"),
    ],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert number(value) == text


def test_signal_with_only_integers_has_no_decimals() -> None:
    panel_feed = feed()
    assert signal_number(panel_feed.take(trace_step(signals=(4.0, 0.0))).signals[0]) == "4"
    assert signal_number(panel_feed.take(trace_step(signals=(4.5, 0.0))).signals[0]) == "4.50"
    assert signal_number(panel_feed.take(trace_step(signals=(4.0, 0.0))).signals[0]) == "4.00"


def test_long_title_is_cut() -> None:
    cut = ink.fitted("a name that is much longer than a panel is wide " * 3, 16, 200)
    assert cut.endswith("…") and ink.text_tile(cut, 16).shape[1] <= 201


def test_digits_are_equally_wide() -> None:
    assert len({ink.text_tile(digits, 19).shape for digits in ("1111", "0000", "4711")}) == 1
    assert not np.array_equal(ink.text_tile("471", 19), ink.text_tile("417", 19))
    put_together = np.concatenate([ink.text_tile(sign, 12) for sign in "-3.5%"], axis=1)
    assert np.array_equal(ink.text_tile("-3.5%", 12), put_together)


def test_a_plot_fills_from_the_left_and_then_drops_its_older_half() -> None:
    def shown(length: int) -> list[float]:
        return list(ink.latest(np.arange(float(length)), 10))

    assert shown(3) == [0, 1, 2] and shown(10) == list(range(10))
    assert (
        shown(11) == list(range(5, 11))
        and shown(15) == list(range(5, 15))
        and shown(16) == list(range(10, 16))
    )
    assert ink.latest(np.arange(3.0), 10, stride=4).tolist() == [1, 2]  # room for two
