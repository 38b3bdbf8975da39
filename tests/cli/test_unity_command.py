"""`ludus unity`: says what it is, names mistakes in three lines, ends politely."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Command

CONFIG = Path(__file__).parents[1] / "data" / "unity" / "config.yml"


def test_use_cases_are_listed(ludus: Command) -> None:
    outcome = ludus("unity", "use-cases", "--json")
    assert outcome.code == 0
    assert [(row["name"], row["actions"], row["observations"]) for row in outcome.json["use_cases"]] == [
        ("uc1", 2, 25),
        ("uc2", 4, 30),
        ("uc3", 4, 120),
    ]


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("simulator", "--use-case", "uc4"), "unknown use case 'uc4'"),
        (("simulator", "--port", "65535", "--n", "2"), "port 65536 is out of range"),
        (("simulator", "--n", "0"), "invalid value for '--n'"),
        (("simulatr",), "unknown command 'simulatr'"),
        (("launch", str(CONFIG)), "Unity build not found: build/Playground.exe"),
        (("launch", "nowhere.yml"), "there is no config file"),
        (("launch", "quickstart"), "the config does not train a Unity env"),
    ],
)
def test_mistakes_are_named_in_three_lines(ludus: Command, arguments: tuple[str, ...], what: str) -> None:
    outcome = ludus("unity", *arguments)
    assert outcome.code == 2
    assert what in outcome.error_lines[0] and len(outcome.error_lines) == 3


def test_training_without_simulators_says_what_to_start(ludus: Command) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    outcome = ludus("train", CONFIG, f"env.kwargs.port={port}", "env.kwargs.connect_seconds=0.3")
    assert outcome.code == 3
    assert f"`ludus unity simulator --use-case uc1 --n 1 --port {port}`" in outcome.err
    assert "1 of 1 simulators did not connect within 0.3 s" in outcome.err
    assert not Path("experiments").exists()


def test_a_port_in_use_is_named(ludus: Command) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        outcome = ludus("train", CONFIG, f"env.kwargs.port={port}")
    assert outcome.code == 2 and f"cannot listen on 127.0.0.1:{port}" in outcome.error_lines[-3]


def _interruptible(*arguments: str) -> subprocess.Popen[str]:
    """`ludus ARGUMENTS…`, which hears Ctrl-C also in a suite that runs in the background and ignores it itself."""
    return subprocess.Popen(
        [sys.executable, "-m", "ludus", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def test_ctrl_c_while_simulators_are_waited_for_ends_without_a_word(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = _interruptible("train", str(CONFIG), f"env.kwargs.port={port}", f"save_dir={tmp_path}")
    assert process.stderr is not None
    try:
        while "waiting for 1 simulator" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
        assert (process.returncode, errors) == (130, "")
    finally:
        process.kill()
        process.communicate()


def test_the_simulator_says_what_it_is_and_ends_with_ctrl_c() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = _interruptible("unity", "simulator", "--port", str(port))
    assert process.stdout is not None
    try:
        said = [process.stdout.readline() for _ in range(3)]
        assert "not a Unity build" in said[0] and f"127.0.0.1:{port}" in said[1]
        assert "failed" in said[2]
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
        assert (process.returncode, errors) == (0, "")
    finally:
        process.kill()
        process.communicate()
