"""`ludus bench learn`: trials are stored in files and shared between processes; scores match hand computation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ludus.experiments.learn import LearnTrial, charts, run_trials, score
from ludus.experiments.libraries import own_library, peer_libraries
from ludus.experiments.workloads import LEARN, SPEED
from ludus.runs.lock import RunLock

TINY = replace(
    LEARN[0], n_envs=2, steps=512, hyperparams=LEARN[0].hyperparams | {"n_steps": 64, "n_epochs": 1}
)


def trial(library: str, seed: int, rewards: tuple[float, ...], seconds: float = 2.0) -> LearnTrial:
    return LearnTrial(
        workload="w",
        library=library,
        seed=seed,
        version="1",
        threads=1,
        steps=100,
        seconds=seconds,
        compile_seconds=0.0,
        curve=((50.0, seconds / 2, 1.0), (100.0, seconds, float(seed))),
        rewards=rewards,
    )


@pytest.mark.long
def test_trial_is_trained_once_and_then_read_from_its_file(tmp_path: Path) -> None:
    reported: list[str] = []
    out = tmp_path / "with spaces"
    first, _ = run_trials([TINY], [own_library()], [3], 5, out, reported.append)
    path = out / "ppo-cartpole" / "ludus" / "seed-3" / "result.json"
    written = path.stat().st_mtime_ns
    second, elsewhere = run_trials([TINY], [own_library()], [3], 5, out, reported.append)
    assert first == second and not elsewhere
    assert path.stat().st_mtime_ns == written
    (one,) = first
    assert one.steps == 512 and len(one.rewards) == 5 and one.seconds > 0
    assert one.curve[-1][0] == 512
    assert (
        reported[0] == reported[1] == f"ppo-cartpole ludus seed 3: {one.reward:.1f} in {one.seconds:,.0f} s"
    )

    again, _ = run_trials([TINY], [own_library()], [3], 6, out)  # another task: measured again
    assert len(again[0].rewards) == 6
    assert again[0].rewards[:5] == one.rewards  # the same policy on the same episodes


def test_trial_of_another_process_is_skipped(tmp_path: Path) -> None:
    folder = tmp_path / "ppo-cartpole" / "ludus" / "seed-1"
    folder.mkdir(parents=True)
    with RunLock(folder):
        done, elsewhere = run_trials([TINY], [own_library()], [1], 5, tmp_path)
    assert (done, elsewhere) == ([], ["ppo-cartpole ludus seed 1"])


@pytest.mark.long
def test_stable_baselines3_does_the_same_work(tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3")
    (one,), _ = run_trials([TINY], peer_libraries(["sb3"]), [1], 5, tmp_path)
    assert one.steps == 512 and len(one.rewards) == 5
    assert [point[0] for point in one.curve] == sorted(point[0] for point in one.curve)


@pytest.mark.long
def test_peer_trains_until_it_reaches_the_target() -> None:
    pytest.importorskip("stable_baselines3")
    falling = {"learning_rate": {"linear": [3e-4, 0.0]}, "nothing_it_knows": 1}
    task = {
        "seed": 1,
        "normalize_obs": True,
        "normalize_reward": True,
        "evaluate_every": 128,
        "episodes": 3,
        "limit": 600.0,
    }
    (sb3,) = peer_libraries(["sb3"])
    work = replace(TINY, hyperparams=TINY.hyperparams | falling)
    (reached,) = sb3.run("reach", work, **task, aim=1.0)["evaluations"]
    assert reached[0] == 128 and reached[2] >= 1.0
    missed = sb3.run("reach", work, **task, aim=501.0)
    assert missed["steps"] == 512
    assert [step for step, _, _ in missed["evaluations"]] == [128, 256, 384, 512]


def test_libraries_without_the_algorithm_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    import ludus.experiments.libraries as libraries

    monkeypatch.setattr(libraries, "_python_with", lambda name: "python")
    (sbx,) = peer_libraries(["sbx"])
    assert [workload.algorithm for workload in SPEED if not sbx.has(workload)] == ["A2C"]


def test_scores_are_interquartile_means_over_seeds_of_mean_rewards() -> None:
    trials = [
        trial("ludus", seed, (reward - 1.0, reward + 1.0))
        for seed, reward in enumerate((0, 10, 20, 30, 1000))
    ]
    (one,) = score(trials)
    assert one.rewards == (0.0, 10.0, 20.0, 30.0, 1000.0)
    assert one.mean.value == 20.0  # of 10, 20 and 30
    assert one.quartiles == (10.0, 30.0)
    assert one.mean.low <= 20.0 <= one.mean.high
    assert one.ludus_is == ""


@pytest.mark.parametrize(("own", "expected"), [(100.0, "within"), (90.0, "below"), (120.0, "above")])
def test_score_compares_ludus_with_the_interval(own: float, expected: str) -> None:
    trials = [trial("ludus", 1, (own,)), trial("sb3", 1, (100.0,)), trial("sb3", 2, (100.0,))]
    mine, theirs = score(trials)
    assert (mine.ludus_is, theirs.ludus_is) == ("", expected)


def test_curves_are_drawn_against_steps_and_against_seconds() -> None:
    trials = [trial("ludus", 1, (1.0,), 2.0), trial("ludus", 3, (1.0,), 4.0), trial("sb3", 2, (1.0,), 9.0)]
    by_steps, by_seconds = charts(trials)
    ludus, sb3 = by_steps.lines
    assert (ludus.name, sb3.name) == ("ludus", "sb3")
    assert (ludus.x[0], ludus.x[-1]) == (50.0, 100.0)
    assert (ludus.y[0], ludus.y[-1]) == (1.0, 2.0)  # the mean of the ends, 1 and 3
    assert by_seconds.lines[0].x[-1] == 2.0  # up to the shortest seed
    assert by_seconds.lines[1].x[-1] == 9.0
