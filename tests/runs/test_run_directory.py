"""Runs are created in the right directory, keep their info, and are found by path, name or prefix."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ludus.errors import UnknownName, UserError
from ludus.runs.directory import (
    RunDirectory,
    find_config_runs,
    find_run,
    list_runs,
    remove_run,
    split_policy_ref,
    tag_run,
)
from ludus.runs.lock import RunLock

NOON = datetime(2025, 6, 1, 12, 0, 0)


def make(root: Path, name: str = "run", minutes: int = 0, env: str = "CartPole-v1") -> RunDirectory:
    return RunDirectory.create(root, env, "PPO", name, now=NOON + timedelta(minutes=minutes))


def test_a_run_is_named_after_env_algorithm_name_and_time(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "CartPole-v1", "PPO", "bipedal", now=NOON)
    assert run.path == tmp_path / "CartPole-v1" / "PPO" / "bipedal_20250601-120000"
    assert (run.env_id, run.algorithm, run.name) == ("CartPole-v1", "PPO", "bipedal_20250601-120000")
    assert run.info()["name"] == "bipedal"
    assert datetime.fromisoformat(run.info()["created"]) == NOON.astimezone(UTC)


def test_slashes_become_dashes_and_several_envs_are_joined(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, ["ALE/Pong-v5", "KuhnPoker-v0"], "PPO", "x", now=NOON)
    assert run.path.parent.parent == tmp_path / "ALE-Pong-v5+KuhnPoker-v0"
    assert run.env_id == "ALE/Pong-v5+KuhnPoker-v0"


HOSTILE = [
    "../x", "..", ".", "", "/etc", "a/../../b", "c:\\x", "with space", "日本語 🎮", "x" * 300, "é" * 300,
    "nul\0byte", "new\nline", "-rf", "run@best", "\udcff", "...hidden",
]  # fmt: skip


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_names_stay_inside_the_save_directory(tmp_path: Path, hostile: str) -> None:
    save_dir = tmp_path / "runs"
    for run in (
        RunDirectory.create(save_dir, hostile, hostile, "ok"),
        RunDirectory.create(save_dir, [hostile, "b"], "PPO", hostile),
        RunDirectory.create(save_dir, "e", "a", hostile),
    ):
        assert len(run.path.resolve().relative_to(save_dir.resolve()).parts) == 3
        assert "@" not in run.name
        assert run in list_runs(save_dir)
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_runs_of_the_same_second_get_a_number_and_never_share_a_directory(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(lambda _: make(tmp_path), range(12)))
    names = {run.name for run in runs}
    assert names == {"run_20250601-120000"} | {f"run_20250601-120000-{n}" for n in range(2, 13)}


def test_a_directory_named_by_the_user_is_made_as_named_and_refused_if_it_exists(tmp_path: Path) -> None:
    run = RunDirectory.create_at(tmp_path / "deep" / "mine", "CartPole-v1", "PPO", "x")
    assert run.path == tmp_path / "deep" / "mine"
    assert (run.name, run.env_id, run.algorithm) == ("mine", "CartPole-v1", "PPO")
    with pytest.raises(UserError, match="run directory already exists") as caught:
        RunDirectory.create_at(run.path, "CartPole-v1", "PPO", "x")
    assert caught.value.exit_code == 2


def test_info_is_merged_and_an_unknown_status_refused(tmp_path: Path) -> None:
    run = make(tmp_path)
    run.update_info(status="running", seed=1)
    run.update_info(status="finished", score=float("inf"))
    info = run.info()
    assert (info["status"], info["seed"], info["score"]) == ("finished", 1, float("inf"))
    with pytest.raises(ValueError, match="done"):
        run.update_info(status="done")


def test_concurrent_updates_of_the_info_all_arrive(tmp_path: Path) -> None:
    run = make(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: run.update_info(**{f"field{n}": n}), range(24)))
    assert {f"field{n}" for n in range(24)} <= run.info().keys()


def test_a_directory_without_run_json_is_not_a_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a run"):
        RunDirectory.open(tmp_path)
    assert RunDirectory.open(make(tmp_path).path).name == "run_20250601-120000"


def test_runs_are_listed_newest_first_and_damaged_ones_only_when_asked(tmp_path: Path) -> None:
    middle, newest, oldest = make(tmp_path, "b", 5), make(tmp_path, "a", 9, env="x"), make(tmp_path, "c", 1)
    assert list_runs(tmp_path) == [newest, middle, oldest]
    middle.info_path.write_text("{")
    oldest.info_path.unlink()
    oldest.config_path.touch()
    oldest.checkpoints_dir.mkdir()
    assert list_runs(tmp_path) == [newest]
    assert set(list_runs(tmp_path, damaged=True)) == {newest, middle, oldest}
    assert (middle.env_id, middle.algorithm) == ("CartPole-v1", "PPO")
    assert list_runs(tmp_path / "nowhere") == []


def test_a_run_is_found_by_path_name_config_name_prefix_and_latest(tmp_path: Path) -> None:
    walker, pole = make(tmp_path, "walker", 0), make(tmp_path, "pole", 5)
    assert find_run(str(walker.path), tmp_path) == walker
    assert find_run("CartPole-v1/PPO/" + walker.name, tmp_path) == walker
    assert find_run(walker.name, tmp_path) == walker
    assert find_run("walker", tmp_path) == walker
    assert find_run("wal", tmp_path) == walker
    assert find_run("latest", tmp_path) == pole


def test_an_ambiguous_run_lists_candidates_and_an_unknown_one_suggests_the_nearest(tmp_path: Path) -> None:
    first, second = make(tmp_path, "walker", 0), make(tmp_path, "walker", 5)
    with pytest.raises(UserError, match="2 runs") as caught:
        find_run("walker", tmp_path)
    assert first.name in caught.value.fix
    assert second.name in caught.value.fix
    with pytest.raises(UnknownName) as unknown:
        find_run("wolker_20250601-120000", tmp_path)
    assert first.name in unknown.value.fix
    with pytest.raises(UserError, match="not a run"):
        find_run(str(tmp_path), tmp_path)
    for ref in ("latest", "", "x"):
        with pytest.raises(UserError):
            find_run(ref, tmp_path / "nowhere")


def test_a_damaged_run_is_found_by_name_and_its_info_says_what_is_wrong(tmp_path: Path) -> None:
    run = make(tmp_path)
    run.info_path.write_text("[]")
    with pytest.raises(UserError, match=r"run\.json"):
        find_run(run.name, tmp_path).info()


@pytest.mark.parametrize(
    ("ref", "expected"),
    [
        ("RUN", ("RUN", None)),
        ("RUN@best", ("RUN", "best")),
        ("RUN@latest", ("RUN", "latest")),
        ("RUN@000000100000", ("RUN", "000000100000")),
        ("/home/me@work/run", ("/home/me@work/run", None)),
        ("/home/me@work/run@best", ("/home/me@work/run", "best")),
        ("RUN@other", ("RUN@other", None)),
        ("RUN@", ("RUN@", None)),
        ("@best", ("@best", None)),
    ],
)
def test_a_policy_ref_splits_at_a_checkpoint_only(ref: str, expected: tuple[str, str | None]) -> None:
    assert split_policy_ref(ref) == expected


def test_the_newest_run_of_a_config_is_found_until_it_is_removed(tmp_path: Path) -> None:
    older, newer, other = make(tmp_path, "a", 0), make(tmp_path, "a", 5), make(tmp_path, "a", 9)
    older.update_info(config_hash="abc")
    newer.update_info(config_hash="abc")
    other.update_info(config_hash="def")
    assert find_config_runs(tmp_path, "abc") == newer
    remove_run(newer)
    assert not newer.path.exists()
    assert find_config_runs(tmp_path, "abc") == older
    assert find_config_runs(tmp_path, "xyz") is None


def test_a_run_in_use_is_not_removed(tmp_path: Path) -> None:
    run = make(tmp_path)
    with RunLock(run.path), pytest.raises(UserError, match="in use"):
        remove_run(run)
    assert run.info()


def test_tags_are_added_once(tmp_path: Path) -> None:
    run = make(tmp_path)
    tag_run(run, ["good", "paper"])
    tag_run(run, ["paper", "v2"])
    assert run.info()["tags"] == ["good", "paper", "v2"]


def test_the_run_directory_is_usable_without_torch() -> None:
    code = "import sys, ludus.runs.directory, ludus.runs.signals; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
