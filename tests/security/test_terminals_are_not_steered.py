"""Names, errors, logs and games of other people reach a terminal without a character that would steer it."""

from __future__ import annotations

import io
import json
import logging
import sys
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import pytest
from rich.table import Table
from rich.text import Text

from ludus.cli.app import main
from ludus.cli.output import Output
from ludus.envs.validate import validate_environment
from ludus.errors import UserError, printable
from ludus.experiments.comparison.tables import print_comparison_table
from ludus.league.human import HumanPlayer
from ludus.reports.reading import readable
from ludus.runs.mirror.state import MirrorState
from ludus.tracking.logs import attach_log_file, detach, setup_logging
from ludus.tracking.progress import PlainConsole, ProgressDisplay

STEERING = {"Cc", "Cf", "Zl", "Zp", "Cs", "Co"}
HOSTILE = "a\x1b]0;owned\x07\x9b31m\u061cb\u202ec\u2066d\u200be\u2028f\ue000g\U000e0041h\x7fi"
SIGNS = {char for char in HOSTILE if unicodedata.category(char) in STEERING}

Run = Callable[..., tuple[int, str]]


def assert_harmless(text: str) -> None:
    assert {hex(ord(char)) for char in text if unicodedata.category(char) in STEERING} <= {"0xa", "0x9"}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    logger, known = logging.getLogger("ludus"), dict(gym.registry)

    def call(*words: str) -> tuple[int, str]:
        code = main(list(words))
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    yield call
    gym.registry.clear()
    gym.registry.update(known)
    for handler in list(logger.handlers):
        detach(handler)


class Hostile(gym.Env[Any, Any]):
    """Raises with a hostile text at its third step."""

    observation_space = gym.spaces.Box(-1, 1, (2,))
    action_space = gym.spaces.Discrete(2)
    steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        if self.steps > 2:
            raise ValueError(HOSTILE)
        return self.observation_space.sample(), 0.0, False, False, {}


def test_every_character_that_is_not_visible_is_written_out() -> None:
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        if unicodedata.category(char) in STEERING:
            assert_harmless(printable(char))
            assert printable(char, sign="?") == readable(char).replace("\ufffd", "?") == "?"
    assert printable("né Ω 日本 🎲 x") == "né Ω 日本 🎲 x"
    assert printable("a\nb\tc\r", keep="\n\t") == "a\nb\tc\\r"


def test_exceptions_of_an_env_are_reported(run: Run) -> None:
    gym.register("Hostile-v0", Hostile)
    code, said = run(
        "train", "--algo", "ppo", "--env", "Hostile-v0", "--steps", "64", "n_envs=1", "vector=serial",
        "evaluation.every=null", "tracking.tensorboard=false", "kernels=false",
    )  # fmt: skip
    assert code == 3 and "\\x1b]0;owned" in said and "\\u061c" in said
    assert_harmless(said)
    [log] = Path("runs").rglob("train.log")
    assert_harmless(log.read_text())
    for command in (
        ["runs"],
        ["watch"],
        ["report", "latest"],
        ["validate", "Hostile-v0"],
        ["eval", "latest"],
    ):
        assert_harmless(run(*command)[1])


def test_what_an_env_raises_when_it_is_validated_from_python(capsys: pytest.CaptureFixture[str]) -> None:
    validate_environment(Hostile)
    said = capsys.readouterr().out
    assert "\\x1b]0;owned" in said
    assert_harmless(said)


def test_what_a_run_says_of_itself(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "runs" / "X" / "PPO" / f"name {HOSTILE}"
    path.mkdir(parents=True)
    info = dict.fromkeys(("name", "env_id", "algorithm", "status", "error", "command", "created"), HOSTILE)
    (path / "run.json").write_text(json.dumps(info | {"tags": [HOSTILE], "versions": {HOSTILE: HOSTILE}}))
    metrics = {f"{part}/{HOSTILE}": 1.0 for part in ("train", "time", "games", "league/rating")}
    (path / "metrics.jsonl").write_text(
        json.dumps({"step": 1, "episodes": 1} | metrics) + "\n" + HOSTILE + "\n"
    )
    (path / "config.yaml").write_text(json.dumps({"algorithm": "PPO", HOSTILE: HOSTILE}))
    MirrorState(HOSTILE, trouble=HOSTILE).save(path)
    for command in (
        ["runs"], ["watch"], ["report", str(path)], ["report", "latest"], ["eval", str(path)],
        ["resume", str(path)], ["config", str(path / "config.yaml")], ["play", str(path)],
        ["analyze", str(path)], ["export", str(path), "--to", "torchscript"], ["league", str(path)],
        ["runs", "tag", str(path), HOSTILE], ["mirror", str(path), f"file://{tmp_path}/mirror"],
        ["convert", str(path / "config.yaml")], ["doctor", "--root", str(path)], [HOSTILE],
        ["eval", HOSTILE], ["train", "--env", HOSTILE], ["pull", f"file://{tmp_path}/{HOSTILE}"],
    ):  # fmt: skip
        code, said = run(*command)
        assert code in (0, 1, 2) and "Traceback" not in said, (command, said)
        assert said, command
        assert_harmless(said)


def test_events_are_logged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    setup_logging()
    file = attach_log_file(tmp_path / "train.log")
    logger = logging.getLogger("ludus")
    try:
        logger.warning("the worker said %s", HOSTILE)
        try:
            raise ValueError(HOSTILE)
        except ValueError:
            logger.exception("it failed")
    finally:
        for handler in [file, *logger.handlers]:
            detach(handler)
    for said in (capsys.readouterr().err, (tmp_path / "train.log").read_text()):
        assert said.count("\\x1b]0;owned") >= 2 and "\n" in said
        assert_harmless(said)


def test_what_is_drawn_on_a_console(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(HOSTILE, title=HOSTILE)
    table.add_row(HOSTILE, style="bold")
    table.add_row(Text(HOSTILE, "red"))
    output = Output()
    output.print(HOSTILE, Text(HOSTILE, "bold"))
    output.print(table)
    output.pairs([("name", HOSTILE)])
    Output(quiet=True).result({}, short=HOSTILE)
    print_comparison_table({HOSTILE: {HOSTILE: HOSTILE, "x": 1.0}})
    assert_harmless(capsys.readouterr().out)
    screen = io.StringIO()
    display = ProgressDisplay(PlainConsole(file=screen, force_terminal=True, width=100), "verbose")
    display.start([("run", HOSTILE)], 100, HOSTILE)
    display.update(0.5, 50, {f"train/{HOSTILE}": 1.0, "note": HOSTILE}, note=HOSTILE)
    display.message(HOSTILE)
    display.finish(HOSTILE)
    assert "]0;owned" in screen.getvalue()
    assert not (SIGNS - {"\x1b"}) & set(screen.getvalue())  # that one is rich's own as well
    assert "\x1b]" not in screen.getvalue()


def test_what_an_opponent_says_in_a_game() -> None:
    class Game:
        codec = None

        def observe(self) -> Any:
            return SimpleNamespace(text=f"your opponent: {HOSTILE}\nboard")

    class Turn:
        match, seat, game = 1, 0, Game()

    screen = io.StringIO()
    HumanPlayer(screen, io.StringIO("4\n")).act([Turn()])  # type: ignore[list-item]
    assert "board" in screen.getvalue()
    assert_harmless(screen.getvalue())


def test_error_quotes_untrusted_text_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    from ludus.cli.failures import report

    error = UserError(HOSTILE, where=HOSTILE, fix=HOSTILE)
    error.add_note(HOSTILE)
    report(error, [HOSTILE])
    report(RuntimeError(HOSTILE), ["--json"])
    captured = capsys.readouterr()
    assert_harmless(captured.out + captured.err)
