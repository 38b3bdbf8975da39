"""`ludus match` and `ludus league`: what is printed, what scripts read, and a person at a terminal."""

from __future__ import annotations

import os
import pty
import select
import sys
from pathlib import Path

import numpy as np
import pytest
from command_line import Command

pytest.importorskip("textarena")

from ludus.config.language import LeagueConfig
from ludus.league.league import League
from ludus.league.records import MatchRecord
from ludus.runs.checkpoints import CheckpointManager
from ludus.runs.directory import RunDirectory


def test_match_reports_wins_draws_and_losses_of_the_first_with_intervals(ludus: Command) -> None:
    outcome = ludus("match", "minimax", "random", "--env", "TicTacToe-v0", "--games", "20", "--json")
    assert outcome.code == 0, outcome.err
    said = outcome.json
    assert said["wins"] + said["draws"] + said["losses"] == said["games"] == 20
    assert said["losses"] == 0 and said["wins"] > 10
    low, high = said["shares"]["wins"]["interval"]
    assert low < said["shares"]["wins"]["rate"] == said["wins"] / 20 < high
    seats = said["by_seat"]
    assert [sum(seat[name] for name in ("wins", "draws", "losses")) for seat in seats] == [10, 10]
    assert sum(seat["wins"] for seat in seats) == said["wins"]
    swapped = ludus("match", "random", "minimax", "--env", "TicTacToe-v0", "--games", "20", "-q")
    assert swapped.out.split()[0] == "0" and int(swapped.out.split()[2]) > 10


def test_match_repeats_itself_from_its_seed(ludus: Command) -> None:
    command = ("match", "random", "greedy", "--env", "Nim-v0", "--games", "8", "-v", "--seed")
    assert ludus(*command, "3").out == ludus(*command, "3").out != ludus(*command, "4").out


def test_the_table_of_a_match_fits_a_terminal(ludus: Command) -> None:
    outcome = ludus("match", "greedy", "random", "--env", "TicTacToe-v0", "--games", "10")
    assert outcome.code == 0, outcome.err
    assert "greedy against random at TicTacToe-v0" in outcome.out
    assert "  player 1" in outcome.out and max(map(len, outcome.out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "what", "fix"),
    [
        (("random", "minimax"), "neither player was trained on one", "--env"),
        (("random", "minmax", "--env", "TicTacToe-v0"), "unknown policy 'minmax'", "did you mean 'minimax'?"),
        (("random", "random", "--env", "TicTacTo-v0"), "unknown game 'TicTacTo-v0'", "TicTacToe-v0"),
        (("minimax", "random", "--env", "KuhnPoker-v0"), "does not play KuhnPoker-v0", "equilibrium"),
        (("random", "random", "--env", "TicTacToe-v0", "--players", "3"), "cannot be played by 3", "2"),
        (("random", "no such run", "--env", "TicTacToe-v0"), "unknown run 'no such run'", "ludus runs"),
        (("random", "random", "--gmes", "3"), "unknown option '--gmes'", "--games"),
    ],
)
def test_a_match_that_cannot_be_is_refused_in_three_lines(
    ludus: Command, arguments: tuple[str, ...], what: str, fix: str
) -> None:
    outcome = ludus("match", *arguments)
    lines = outcome.err.strip().splitlines()
    assert outcome.code == 2 and len(lines) == 3, outcome.err
    assert what in lines[0] and fix in lines[2]


def at_a_terminal(folder: Path, arguments: list[str], keys: list[bytes]) -> tuple[str, int]:
    """Return what `ludus ARGUMENTS` prints to a user who answers every prompt with the next of `keys`."""
    pid, terminal = pty.fork()
    if pid == 0:  # pragma: no cover (another process)
        os.chdir(folder)
        os.environ |= {"COLUMNS": "80", "TERM": "dumb", "OMP_NUM_THREADS": "1"}
        os.execv(sys.executable, [sys.executable, "-m", "ludus", *arguments])
    shown = b""
    waiting = list(keys)
    try:
        while select.select([terminal], [], [], 120)[0]:
            try:
                part = os.read(terminal, 4096)
            except OSError:  # how Linux says that the other side has closed
                break
            if not part:
                break
            shown += part
            if shown.endswith(b"your move: ") and waiting:
                os.write(terminal, waiting.pop(0))
    finally:
        os.close(terminal)
    return shown.decode().replace("\r", ""), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_person_plays_at_the_terminal_and_sees_only_what_is_new(tmp_path: Path) -> None:
    cells = [f"{cell}\n".encode() for cell in range(9)]
    shown, code = at_a_terminal(
        tmp_path,
        ["match", "human", "random", "--env", "TicTacToe-v0", "--games", "1"],
        # one that is taken or out of range is refused once; then every cell until the game is over
        [b"4\n", b"\n", b"9\n", *cells, *cells],
    )
    assert code == 0, shown
    assert "[Player 0] [4]" in shown  # typed without its brackets
    assert "attempted an invalid move" in shown
    assert shown.count("You are Player 0 in Tic Tac Toe") == 1
    assert "game 0: player 0 (human)" in shown and "human against random" in shown


def test_a_person_who_leaves_ends_the_match(tmp_path: Path) -> None:
    match = ["match", "human", "random", "--env", "TicTacToe-v0"]
    shown, code = at_a_terminal(tmp_path, match, [b"4\n", b"\x03"])
    assert code == 130 and "Traceback" not in shown


def language_run(folder: Path) -> RunDirectory:
    """A run directory with a checkpoint that holds a league, as the language trainer leaves it."""
    run = RunDirectory.create(folder / "runs", "TicTacToe-v0", "GRPO", "self-play")
    league = League(LeagueConfig(opponents="fixed", train=["minimax"], mirror_share=0))
    league.add("learner", "learner", version=30)
    league.add("minimax", "bot")
    league.add("random", "bot")
    league.freeze("learner", 10)
    for first, second, reward in (
        ("learner", "random", 1.0),
        ("minimax", "learner", 1.0),
        ("learner@10", "minimax", -1.0),
    ):
        league.record(
            MatchRecord(
                0, "TicTacToe-v0", 0, (first, second), (reward, -reward), "", (False, False), False, 5, []
            )
        )
    league.choose_opponent("learner", "TicTacToe-v0", np.random.default_rng(0))
    checkpoints = CheckpointManager(run.checkpoints_dir)
    checkpoints.save(640, {}, {"league": league.state_dict()})
    checkpoints.save(700, {}, {}, resumable=False)  # as a best one: the policy alone
    return run


def test_league_prints_everybody_best_first(ludus: Command, tmp_path: Path) -> None:
    run = language_run(tmp_path)
    outcome = ludus("league", "latest")
    assert outcome.code == 0, outcome.err
    lines = outcome.out.splitlines()
    assert lines[0] == f"{run.name} at step 640"
    assert [line.split()[0] for line in lines[2:6]] == ["minimax", "learner", "learner@10", "random"]
    assert "100%" in next(line for line in lines if "minimax" in line)
    assert max(map(len, lines)) <= 80
    said = ludus("league", run.path, "--json").json
    assert [member["name"] for member in said["members"]] == ["minimax", "learner", "learner@10", "random"]
    best = said["members"][0]
    assert (best["kind"], best["wins"], best["losses"], best["frequency"]) == ("bot", 2, 0, 1.0)
    assert best["mu"] > 25 > said["members"][-1]["mu"]


def test_league_of_a_run_without_one_says_so(ludus: Command, run: Path) -> None:
    outcome = ludus("league", run)
    assert outcome.code == 2 and "this checkpoint has no league" in outcome.err
    assert ludus("league", "nobody").code == 2


def test_an_env_without_seats_is_called_that(ludus: Command) -> None:
    outcome = ludus("match", "random", "random", "--env", "CartPole-v1")
    assert outcome.code == 2
    assert outcome.error_lines[0] == "error: 'CartPole-v1' has no seats: one policy plays it alone"
    assert "did you mean" not in outcome.err and "ludus eval" in outcome.err
