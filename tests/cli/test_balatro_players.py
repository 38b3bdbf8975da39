"""Balatro on the command line: the bot by rules, and a person."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from command_line import Command


def test_the_scripted_bot_needs_no_env_and_is_reported_by_ante(ludus: Command) -> None:
    outcome = ludus("eval", "rules", "--episodes", 8, "--json")
    assert outcome.code == 0, outcome.err
    found = outcome.json
    assert (found["env"], found["episodes"]) == ("ludus/Balatro-v0", 8)
    assert found["balatro"]["mean_ante"] > 2
    assert set(found["balatro"]["success_rate_by_ante"]) == {str(ante) for ante in range(1, 9)}
    shown = ludus("eval", "rules", "--episodes", 2).out
    assert "% (antes 1 to 8)" in shown
    assert max(len(line) for line in shown.splitlines()) <= 80


def test_the_bot_by_rules_is_not_seated_elsewhere(ludus: Command) -> None:
    for env in ("CartPole-v1", "ludus/Balatro-v0"):  # the latter with actions by cards
        outcome = ludus("eval", "rules", "--env", env)
        assert outcome.code == 2
        assert len(outcome.error_lines) == 3
        assert "plays Balatro with actions: moves" in outcome.error_lines[0]


def test_a_person_needs_a_terminal(ludus: Command) -> None:
    outcome = ludus("play", "--human", "balatro")
    assert outcome.code == 2
    assert "needs a terminal" in outcome.error_lines[0]


def test_seeds_of_the_real_game_are_played_by_name_and_from_a_file(ludus: Command, tmp_path: Path) -> None:
    one = ludus("eval", "rules", "--seed", "7I4M53DL", "--json").json
    assert (one["episodes"], one["seed"]) == (1, "7I4M53DL")
    path = tmp_path / "seeds.txt"
    path.write_text("7I4M53DL\n42\n")
    both = ludus("eval", "rules", "--seeds", path, "-v")
    assert "seed 7I4M53DL" in both.out
    assert "seed 42" in both.out
    for words in (("--seed", "A B"), ("--seeds", path, "-n", 3), ("--seeds", tmp_path / "none")):
        refused = ludus("eval", "rules", *words)
        assert (refused.code, len(refused.error_lines)) == (2, 3)
    refused = ludus("eval", "random", "--env", "CartPole-v1", "--seed", "ABC")
    assert (refused.code, len(refused.error_lines)) == (2, 3)


def test_what_a_seed_holds_is_shown_with_labels(ludus: Command) -> None:
    lines = ludus("balatro", "seed", "7I4M53DL", "--antes", 1).out.splitlines()
    assert lines[:4] == [
        "Ante 1:",
        "  boss: The Hook",
        "  voucher: Wasteful",
        "  tags: Skip Tag, Economy Tag",
    ]


def test_a_search_that_is_terminated_leaves_no_process_and_no_semaphore(tmp_path: Path) -> None:
    words = ["balatro", "find", "Perkeo@1.1", "Blueprint@1.1", "Brainstorm@1.1", "--processes", "1"]
    with subprocess.Popen(
        [sys.executable, "-m", "ludus", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        cwd=tmp_path,
    ) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        deadline = time.monotonic() + 60
        while len(children.read_text().split()) < 2 and time.monotonic() < deadline:  # tracker and worker
            time.sleep(0.05)
        process.terminate()
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 143
    assert "0 found" in said and "leaked" not in said and "Traceback" not in said
    while _group_lives(process.pid) and time.monotonic() < deadline:  # the tracker of semaphores ends last
        time.sleep(0.05)
    assert not _group_lives(process.pid)


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
