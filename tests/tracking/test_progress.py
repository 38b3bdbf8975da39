from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest
from rich.console import Console

from ludus.tracking.progress import ProgressDisplay, Verbosity, duration, mean_and_spread, number


class Clock:
    """Clock that moves only when a test advances it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def display(
    terminal: bool = False, verbosity: Verbosity = "normal", width: int = 80
) -> tuple[ProgressDisplay, Clock, io.StringIO]:
    out, clock = io.StringIO(), Clock()
    console = Console(file=out, force_terminal=terminal, width=width, height=24, legacy_windows=False)
    return ProgressDisplay(console, verbosity, clock), clock, out


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def test_without_a_terminal_a_line_needs_both_five_seconds_and_five_percent() -> None:
    shown, clock, out = display()
    shown.start([("run", "cartpole"), ("device", "cpu")], 500_000, "steps")
    shown.update(0.0, 0)
    for second in range(1, 11):
        clock.now = float(second)
        shown.update(second * 0.02, second * 10_000, {"rollout/ep_rew_mean": 143.21, "time/fps": 5210.4})
    clock.now = 11.0
    shown.update(0.9, 450_000)
    shown.finish("done")
    assert out.getvalue().splitlines() == [
        "  run     cartpole",
        "  device  cpu",
        "  10%  step 50,000  fps 5,210  reward 143.2  eta 0:45",
        "  20%  step 100,000  fps 5,210  reward 143.2  eta 0:40",
        "  90%  step 450,000  fps 5,210  reward 143.2  eta 0:01",
        "done",
    ]


def test_speed_and_time_left_of_a_resumed_run_count_from_where_it_resumed() -> None:
    shown, clock, out = display()
    shown.update(0.4, 40_000, {"rollout/ep_rew_mean": 5.0})
    assert out.getvalue() == ""
    clock.now = 100.0
    shown.start([], 100_000, "steps")
    clock.now = 110.0
    shown.update(0.5, 50_000)
    shown.close()
    assert out.getvalue() == "  50%  step 50,000  fps 1,000  reward 5.00  eta 0:50\n"


def test_the_bar_moves_within_a_rollout_and_the_time_left_runs_down() -> None:
    shown, clock, _ = display(terminal=True)
    steps = [0]
    shown.start([], 1_000, "steps", lambda: (steps[0] / 1_000, steps[0]))
    shown.update(0.0, 0)
    seen = []
    for clock.now, steps[0] in ((5.0, 50), (10.0, 100), (15.0, 150), (20.0, 200), (22.0, 200)):
        if steps[0] == 100:
            shown.update(0.1, 100)  # 90 seconds for the rest
        seen.append([line.plain for line in shown.frame(80)][-1].strip())
    shown.close()
    assert seen == [
        "50 / 1,000 steps   10/s   0:05 elapsed",
        "100 / 1,000 steps   10/s   0:10 elapsed   1:30 left",
        "150 / 1,000 steps   10/s   0:15 elapsed   1:25 left",
        "200 / 1,000 steps   10/s   0:20 elapsed   1:20 left",
        "200 / 1,000 steps   9/s   0:22 elapsed   1:18 left",
    ]


def test_long_work_is_named_in_the_display() -> None:
    shown, clock, _ = display(terminal=True)
    shown.start([], 1_000, "steps")
    shown.note("evaluating")
    assert "evaluating" not in shown.frame(80)[-1].plain
    clock.now = 3.0
    assert shown.frame(80)[-1].plain.endswith("evaluating")
    shown.note(None)
    assert "evaluating" not in shown.frame(80)[-1].plain
    shown.close()


def test_a_request_to_stop_is_acknowledged_at_once(tmp_path: Path) -> None:
    shown, _, _ = display(terminal=True)
    shown.start([], 1_000, "steps")
    shown.acknowledge_stop()
    line = shown.frame(80)[-1].plain
    assert line.startswith("  stopping after this minibatch, then saving") and len(line) < 80
    shown.close()
    with open(tmp_path / "out", "w") as file:
        plain = ProgressDisplay(Console(file=file))
        plain.start([], 1_000, "steps")
        plain.acknowledge_stop()
        assert (tmp_path / "out").read_text().startswith(" stopping after this minibatch")


def test_plain_lines_hold_no_control_codes_and_are_not_wrapped() -> None:
    shown, _, out = display(width=40)
    shown.start([("run", "x" * 100)], 10, "updates")
    shown.message("[bold]" + "y" * 100)
    shown.finish()
    assert out.getvalue() == "  run  " + "x" * 100 + "\n[bold]" + "y" * 100 + "\n"


def test_verbose_shows_every_row() -> None:
    shown, _, out = display(verbosity="verbose")
    shown.start([], 100, "steps")
    shown.update(0.01, 1, {"step": 1, "updates": 1, "episodes": 0, "train/loss": 0.25, "eval/x": None})
    shown.update(0.02, 2, {"step": 2, "updates": 2, "episodes": 0, "train/loss": float("nan")})
    shown.close()
    assert out.getvalue() == "   1%  step 1  train/loss=0.250  eval/x=-\n   2%  step 2  train/loss=nan\n"


@pytest.mark.parametrize("terminal", [False, True])
def test_quiet_shows_nothing_at_all(terminal: bool) -> None:
    shown, clock, out = display(terminal, verbosity="quiet")
    shown.start([("run", "x")], 100, "steps")
    clock.now = 60.0
    shown.update(0.5, 50, {"rollout/ep_rew_mean": 1.0})
    shown.message("saved")
    shown.finish("done")
    assert out.getvalue() == ""


def test_the_terminal_shows_the_bar_the_curve_and_the_newest_values() -> None:
    shown, clock, out = display(terminal=True)
    shown.start([("run", "cartpole")], 1000, "steps")
    shown.update(0.0, 0, {"rollout/ep_rew_mean": 10.0, "eval/mean_reward": 60.0})
    clock.now = 30.0
    row = {"rollout/ep_rew_mean": 90.0, "eval/mean_reward": 50.0, "train/approx_kl": 0.008, "time/fps": 20}
    shown.update(0.5, 500, row, note="evaluating")
    lines = [line.plain for line in shown.frame(80)]
    assert lines == [
        "  " + "━" * 34 + "─" * 34 + "      50%",
        "  " + " " * 34 + "█" + " " * 33 + "    90.00",
        "  " + "▁" * 34 + "█" + " " * 33 + "    10.00",
        "  500 / 1,000 steps   20/s   0:30 elapsed   0:30 left   evaluating",
        "  reward 90.00    eval 50.00      best 60.00",
        "  kl 0.0080",
    ]
    shown.message("saved")
    shown.update(1.0, 1000)
    shown.finish("done")
    screen = plain(out.getvalue())
    assert "saved" in screen
    assert screen.rstrip().endswith("done")
    assert "100%" in screen
    assert out.getvalue().count("\x1b[?25l") == out.getvalue().count("\x1b[?25h") == 1  # the cursor is back


@pytest.mark.parametrize("width", [10, 40, 79, 80, 120, 300])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    shown, _, _ = display(terminal=True)
    shown.start([], 5_000_000, "steps")
    row = {f"train/a_rather_long_name_{index}": -0.123456 for index in range(12)}
    names = ("rollout/ep_rew_mean", "rollout/ep_len_mean", "rollout/success_rate", "eval/mean_reward")
    shown.update(0.5, 2_500_000, row | dict.fromkeys(names, -123456.7), note="evaluating the policy")
    lines = shown.frame(width)
    shown.close()
    assert len(lines) <= 6
    assert max(line.cell_len for line in lines) < width


def test_a_terminal_without_unicode_gets_ascii() -> None:
    shown, _, _ = display()
    shown.update(0.25, 250, {"rollout/ep_rew_mean": 10.0}, note="a note longer than the line " * 4)
    assert all(line.plain.isascii() for line in shown.frame(80, ascii_only=True))


def test_units_other_than_steps_are_shown_next_to_the_step() -> None:
    shown, _, _ = display(verbosity="quiet")
    shown.start([], 30, "min")
    shown.update(0.5, 12_345)
    assert shown.frame(80)[1].plain == "  15 / 30 min   step 12,345   0:00 elapsed"


def test_with_a_stderr_console_stdout_carries_only_what_others_print(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for terminal in (False, True):
        shown = ProgressDisplay(Console(stderr=True, force_terminal=terminal, width=80, height=24))
        shown.start([("run", "x")], 100, "steps")
        stdout = sys.stdout
        shown.update(0.5, 50, {"rollout/ep_rew_mean": 1.0})
        print('{"data": 1}')
        shown.message("saved")
        shown.finish("done")
        assert sys.stdout is stdout
        captured = capsys.readouterr()
        assert captured.out == '{"data": 1}\n'
        assert "saved" in captured.err
        assert "done" in captured.err


def test_closing_twice_and_after_finish_is_harmless() -> None:
    shown, _, out = display(terminal=True)
    shown.start([], 100, "steps")
    shown.finish()
    drawn = out.getvalue()
    shown.close()
    shown.update(0.5, 50, {"a": 1.0})
    assert out.getvalue() == drawn


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (3, "3"),
        (1234567, "1,234,567"),
        (1234.5, "1,234"),
        (143.21, "143.2"),
        (-1.5, "-1.50"),
        (0.1234, "0.123"),
        (0.01234, "0.0123"),
        (0.0003, "3.0e-04"),
        (2.5e9, "2.5e+09"),
        (float("nan"), "nan"),
        (None, "-"),
        ("text", "text"),
    ],
)
def test_numbers_are_short(value: float | str | None, text: str) -> None:
    assert number(value) == text


def test_durations_are_formatted() -> None:
    assert [duration(s) for s in (0, 42.4, 61, 3599.6, 36_061)] == [
        "0:00",
        "0:42",
        "1:01",
        "1:00:00",
        "10:01:01",
    ]


def test_the_bar_shows_the_entropy_not_its_loss() -> None:
    bar = ProgressDisplay(Console(file=io.StringIO()))
    bar.update(0.5, 10, {"step": 10, "train/entropy_loss": -0.25})
    assert "entropy 0.250" in "\n".join(line.plain for line in bar.frame(100))


def test_the_spread_of_equal_numbers_is_zero() -> None:
    assert mean_and_spread(0.92, 1.1e-16) == "0.920 ± 0"
    assert mean_and_spread(-100.0, 25.0) == "-100.0 ± 25.00"
    assert mean_and_spread(0.0, 0.0) == "0 ± 0"
