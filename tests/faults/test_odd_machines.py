"""Machines that are not as they should be: it works, or one clear message comes before anything starts."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from ludus.cli.app import main
from ludus.errors import ConfigError, UserError
from ludus.runs import atomic, directory
from ludus.runs.limits import memory_limit, require_open_files
from ludus.training.factory import create_trainer

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="uses what Linux offers")
ROOT = Path(__file__).parents[2]
SMALL = [
    *["n_envs=4", "total_timesteps=1024", "hyperparams.n_steps=64", "hyperparams.batch_size=64"],
    *["hyperparams.policy_net_arch=[8]", "hyperparams.value_net_arch=[8]", "checkpoint.every=512"],
    *["evaluation.episodes=1", "tracking.tensorboard=false"],
]
TRAIN = ["train", "--algo", "ppo", "--env", "CartPole-v1", *SMALL]


def ludus(
    folder: Path,
    *arguments: str,
    before: tuple[str, ...] = (),
    limits: dict[int, int] | None = None,
    **env: str,
) -> subprocess.CompletedProcess[str]:
    """`ludus ARGUMENTS…` in `folder`, under `limits` (of setrlimit) and behind the command `before`."""

    def limit() -> None:
        for kind, most in (limits or {}).items():
            resource.setrlimit(kind, (most, most))

    return subprocess.run(
        [*before, sys.executable, "-m", "ludus", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=200,
        check=False,
        preexec_fn=limit,
        env={**os.environ, "OMP_NUM_THREADS": "1", **env},
    )


def works_or_says_why(done: subprocess.CompletedProcess[str], folder: Path) -> bool:
    """Return whether it worked; if not, check that it failed with three lines and started nothing."""
    if done.returncode == 0:
        return True
    said = done.stderr.strip().splitlines()
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == 2, done.stderr
    what, where, fix = said[-3:]
    assert what.startswith("error: ")
    assert where.startswith("  where: ")
    assert fix.startswith("  fix:   ")
    assert not list(folder.rglob("run.json")), "it had started"
    return False


ODD_NAMES = ["with  two spaces", "Ümläut-日本-🂡", "it's; $(rm -rf x) & 'q'", "-dash", "100%s{0}"]


@pytest.mark.faults
@pytest.mark.parametrize("name", ODD_NAMES)
def test_run_tolerates_a_folder_of_any_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_fault: Any
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(folder))
    codes = [
        main([*TRAIN, "vector=process", f"name={name.lstrip('-')}"]),
        main(["resume", "latest", "--steps", "2048"]),
        main(["eval", "latest", "--episodes", "2"]),
        main(["report", "latest"]),
        main(["runs", "--json"]),
        main(["mirror", "latest", f"file://{folder / 'copy'}"]),
    ]
    record_fault("spaces, signs and other scripts in paths", len(codes), codes.count(0))
    assert codes == [0] * len(codes)
    assert len(list(folder.rglob("report.html"))) >= 1


@pytest.mark.faults
@pytest.mark.parametrize("forced", [False, True])
def test_run_tolerates_a_locale_without_utf8(forced: bool, tmp_path: Path, record_fault: Any) -> None:
    """Python reads UTF-8 there by default; with UTF-8 mode off, other scripts are refused with an error."""
    locale = {"LC_ALL": "C", "LANG": "C"} | (
        {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"} if forced else {}
    )
    first, second = tmp_path / "größer", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    plain = works_or_says_why(ludus(first, *TRAIN, "vector=process", "name=plain", **locale), first)
    other = works_or_says_why(ludus(second, *TRAIN, "vector=serial", "name=Bär-日本", **locale), second)
    record_fault("a locale without UTF-8", 2, 2)
    assert plain
    assert other is not forced


READ_ONLY = """\
set -e
mount --make-rprivate /
for folder in "$@"; do
  [ "$folder" = -- ] && break
  mount --bind "$folder" "$folder"
  mount -o remount,bind,ro "$folder"
done
while [ "$1" != -- ]; do shift; done
shift
mount -t tmpfs -o nr_inodes=1,ro none /dev/shm
exec "$@"
"""


def can_mount() -> bool:
    if shutil.which("unshare") is None or os.geteuid() != 0:
        return False
    trial = "mount --make-rprivate / && mount -t tmpfs none /mnt"
    return (
        subprocess.run(["unshare", "-m", "sh", "-c", trial], capture_output=True, check=False).returncode == 0
    )


@pytest.mark.faults
@pytest.mark.skipif(not can_mount(), reason="may not mount")
@pytest.mark.parametrize("vector", ["process", "serial"])
def test_a_read_only_home_and_installation_and_no_shared_memory(
    vector: str, tmp_path: Path, record_fault: Any
) -> None:
    script = tmp_path / "read-only.sh"
    script.write_text(READ_ONLY)
    before = ("unshare", "-m", "sh", str(script), str(ROOT), os.path.expanduser("~"), "--")
    done = ludus(
        tmp_path,
        *TRAIN,
        f"vector={vector}",
        "kernels=false",
        before=before,
        TMPDIR=str(tmp_path),
        NUMBA_CACHE_DIR="",
    )
    record_fault("read-only home and installation, no /dev/shm", 1, int(done.returncode == 0))
    assert done.returncode == 0, done.stderr
    kept = list(tmp_path.glob("ludus-kernels-*"))
    assert len(kept) == 1
    assert kept[0].stat().st_mode & 0o777 == 0o700


@pytest.mark.faults
@pytest.mark.parametrize("most", [6, 12, 24, 48, 96, 256])
def test_run_tolerates_few_file_descriptors(most: int, tmp_path: Path, record_fault: Any) -> None:
    done = ludus(tmp_path, *TRAIN, "vector=process", "n_envs=8", limits={resource.RLIMIT_NOFILE: most})
    worked = works_or_says_why(done, tmp_path)
    record_fault("few file descriptors", 1, 1, "nothing")
    assert worked or most < 96
    if not worked:
        assert "files open" in done.stderr or "open files" in done.stderr


def test_a_limit_of_open_files_is_raised_as_far_as_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (64, 4096))
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limits: asked.append(limits))
    require_open_files(500, "a test")
    assert 532 < asked[0][0] < 4096
    assert asked[0][1] == 4096
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (64, 64))
    with pytest.raises(UserError, match="may have 64 files open at once, and a test needs"):
        require_open_files(500, "a test")


@pytest.mark.faults
@pytest.mark.parametrize("mebibytes", [300, 700, 1050, 1500, 3000])
def test_run_works_or_reports_a_low_memory_limit(mebibytes: int, tmp_path: Path, record_fault: Any) -> None:
    done = ludus(tmp_path, *TRAIN, "vector=serial", limits={resource.RLIMIT_AS: mebibytes << 20})
    worked = works_or_says_why(done, tmp_path)
    record_fault("a low limit of memory", 1, 1)
    assert worked is (mebibytes >= 1500)
    if not worked:
        assert "memory" in done.stderr


def test_a_replay_buffer_that_can_never_fit_is_refused_before_the_start(tmp_path: Path) -> None:
    from ludus.config.schema import TrainerConfig

    class Wide(gym.ObservationWrapper[Any, Any, Any]):
        def __init__(self) -> None:
            super().__init__(gym.make("CartPole-v1"))
            self.observation_space = gym.spaces.Box(-np.inf, np.inf, (10_000,), np.float32)

        def observation(self, observation: Any) -> Any:
            return np.zeros(10_000, np.float32)

    settings = {"algorithm": "DQN", "hyperparams": {"buffer_size": 10**9}, "run_dir": str(tmp_path / "run")}
    trainer = create_trainer(Wide, TrainerConfig.model_validate(settings))
    with pytest.raises(ConfigError, match=r"takes 74,517\.\d GiB") as caught:  # 2 * 40,000 + 8 + 5 bytes each
        trainer.train()
    assert caught.value.key == "hyperparams.buffer_size"
    assert not (tmp_path / "run").exists()
    limit = memory_limit()
    assert limit is not None
    assert 10**8 < limit < 10**14


@pytest.mark.faults
def test_run_tolerates_a_clock_that_jumps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_fault: Any
) -> None:
    """By years, forwards and backwards, at every look; what is measured in seconds is not measured by it."""
    rng = random.Random(3)
    true = time.time

    class Jumping(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.fromtimestamp(true(), tz) + timedelta(days=rng.uniform(-4000, 4000))

    monkeypatch.setattr(time, "time", lambda: true() + rng.uniform(-3e8, 3e8))
    monkeypatch.setattr(directory, "datetime", Jumping)
    monkeypatch.chdir(tmp_path)
    codes = []
    for _ in range(2):
        codes.append(main([*TRAIN, "vector=serial", "checkpoint.every=1 s", "total_timesteps=4096"]))
    runs = [path.parent for path in tmp_path.rglob("run.json")]
    codes += [main(["resume", str(run), "--steps", "8192"]) for run in runs]
    record_fault("a clock that jumps", len(codes), codes.count(0))
    assert codes == [0] * 4
    for run in runs:
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        seconds = [row["time/seconds"] for row in rows if "time/seconds" in row]
        assert seconds == sorted(seconds)
        assert 0 <= seconds[0] <= seconds[-1] < 600
        assert json.loads((run / "run.json").read_text())["status"] == "finished"


@pytest.mark.faults
def test_run_tolerates_a_slow_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_fault: Any
) -> None:
    """A moment for every write, sync and rename: all is later, and otherwise the same."""
    monkeypatch.chdir(tmp_path)
    assert main([*TRAIN, "vector=serial", "run_dir=quick"]) == 0
    calls = 0

    def slowly(real: Any) -> Any:
        def slow(*args: Any) -> Any:
            nonlocal calls
            calls += 1
            time.sleep(0.02)
            return real(*args)

        return slow

    for name in ("write_bytes", "write_by", "sync", "rename"):
        monkeypatch.setattr(atomic, name, slowly(getattr(atomic, name)))
    code = main([*TRAIN, "vector=serial", "run_dir=slow"])
    record_fault("a slow disk", 1, int(code == 0))
    assert code == 0
    assert calls > 20
    for part in ("policy", "learner"):
        newest = sorted((tmp_path / "slow" / "checkpoints").glob("0*"))[-1].name
        file = Path("checkpoints") / newest / f"{part}.safetensors"
        assert (tmp_path / "slow" / file).read_bytes() == (tmp_path / "quick" / file).read_bytes()
