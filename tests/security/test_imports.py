"""No command looks for Python in the working directory, and a run names no code without consent."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from ludus.cli.app import CORE, main
from ludus.config import own_modules
from ludus.config.plain_yaml import read_yaml, write_yaml
from ludus.config.schema import TrainerConfig
from ludus.config.trained_here import remember_trained, trust_in_run
from ludus.errors import EXIT_OK, EXIT_USER_ERROR, ConfigError
from ludus.evaluation.load import load
from ludus.runs.directory import find_run, list_runs
from ludus.training.factory import create_trainer

SRC = Path(__file__).parents[2] / "src"
TINY = {
    "algorithm": "A2C",
    "n_envs": 1,
    "kernels": False,
    "total_timesteps": 32,
    "evaluation": {"every": None},
    "tracking": {"tensorboard": False},
    "hyperparams": {"policy_net_arch": [4], "value_net_arch": [4]},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = TrainerConfig(env="CartPole-v1", save_dir=str(tmp_path_factory.mktemp("trained")), **TINY)
    trainer = create_trainer(None, config)
    run = trainer.train().run
    trainer.close()
    return run


# The working directory

# Runs in a process of its own: before Python looks for any module, one of that name is created in the received run.
_HOSTILE = """
import os, signal, sys, time
from pathlib import Path
sys.argv[0] = "ludus"
received, mark = Path(sys.argv[1]), sys.argv[2]
folders = [received, received / "videos", received.parent]

class Shadow:
    seen = set()

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if path is None and "." not in name and name not in cls.seen:
            cls.seen.add(name)
            for folder in folders:
                (folder / f"{name}.py").write_text(f"open({mark!r}, 'a').write('{name} ')")
        return None

sys.meta_path.insert(0, Shadow)
from ludus.cli.app import main

def interrupt(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
for line in sys.stdin.read().splitlines():
    folder, *words = line.split("\\t")
    os.chdir(folder)
    signal.setitimer(signal.ITIMER_REAL, 1.5 if words[0] == "ui" else 0)
    code = main(words)
    signal.setitimer(signal.ITIMER_REAL, 0)
    print("RESULT", code, *words, file=sys.stderr)
    looked = [entry for entry in sys.path_importer_cache if entry.startswith((str(received.parent), "."))]
    assert looked == [], (words, looked)
    assert not os.path.exists(mark), (words, Path(mark).read_text())
if "numba" in sys.modules:
    import numba
    assert "stolen" not in str(numba.config.CACHE_DIR)
assert {"org", "orjson"} & Shadow.seen, "no optional import was tried"
# the modules are there, and would have been found
sys.path.append(str(received))
import some_module_of_the_sender
assert os.path.exists(mark)
print("DONE", len(Shadow.seen))
"""

# each command with arguments that make it open the run; "." is the run, ".." the run from a folder of it
LOOKING: dict[str, list[str]] = {
    "eval": ["eval", "RUN", "--episodes", "1"],
    "play": ["play", "RUN", "--episodes", "1", "--video", "OUT/clip.mp4"],
    "video": ["video", "RUN", "--length", "4", "--output", "OUT/film2.mp4"],
    "analyze": ["analyze", "RUN", "--episodes", "1", "--output", "OUT/analysed"],
    "match": ["match", "RUN", "random", "--env", "TicTacToe-v0", "--games", "1"],
    "league": ["league", "RUN"],
    "export": ["export", "RUN", "--to", "torchscript", "--out", "OUT/exported.pt"],
    "import": ["import", "nothing.zip", "--env", "CartPole-v1", "--trust"],
    "scale": ["scale", "RUN", "--actors", "2"],
    "cluster": ["cluster", "status"],
    "watch": ["watch", "RUN", "--once"],
    "report": ["report", "RUN", "--output", "OUT/page.html"],
    "runs": ["runs", "list", "-C", "RUN"],
    "ui": ["ui", "-C", "RUN", "--port", "0"],
    "bench": ["bench", "speed", "no-such-workload"],
    "presets": ["presets"],
    "envs": ["envs", "cartpole"],
    "validate": ["validate", "CartPole-v1"],
    "config": ["config", "RUN/config.yaml"],
    "convert": ["convert", "RUN/config.yaml"],
    "mirror": ["mirror", "RUN", "file://OUT/mirrored"],
    "pull": ["pull", "file://OUT/mirrored", "--to", "OUT/pulled"],
    "sync": ["sync", "wandb", "RUN"],
    "init": ["init", "OUT/new.yaml"],
    "doctor": ["doctor"],
}
TRAINING: dict[str, list[str]] = {
    "train": ["train", "RUN/config.yaml", "save_dir=OUT/runs", "-q"],
    "resume": ["resume", "RUN", "--steps", "64", "-q"],
    "compare": ["compare", "RUN/config.yaml", "--seeds", "1", "--out", "OUT/compared", "-q"],
    "sweep": ["sweep", "RUN/config.yaml", "--space", "nothing.yaml", "--out", "OUT/swept"],
}


def test_every_command_is_tried() -> None:
    assert {*LOOKING, *TRAINING} == set(CORE)


@pytest.mark.long
def test_no_command_looks_for_modules_in_the_working_directory(trained: Path, tmp_path: Path) -> None:
    """The run as working directory, below it, next to it, and linked to; with a shadow of every import there is."""
    received = tmp_path / "downloads" / "received"
    shutil.copytree(trained, received)
    (received / "videos").mkdir(exist_ok=True)
    (received / ".numba_config.yaml").write_text("cache_dir: stolen\n")
    (received / "matplotlibrc").write_text("backend: module://some_module_of_the_sender\n")
    (received / "some_module_of_the_sender.py").write_text(f"open({str(tmp_path / 'pwned')!r}, 'w')")
    linked = tmp_path / "linked"
    linked.symlink_to(received)
    out = tmp_path / "out"
    out.mkdir()
    lines = []
    for folder, run in ((received, "."), (received / "videos", ".."), (received.parent, "received")):
        few = LOOKING | TRAINING if run == "." else {name: LOOKING[name] for name in ("eval", "report")}
        lines += [_line(folder, run, out, words) for words in few.values()]
    lines.append(_line(linked, ".", out, LOOKING["eval"]))
    done = subprocess.run(
        [sys.executable, "-P", "-c", _HOSTILE, str(received), str(tmp_path / "pwned")],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1"},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0 and "DONE" in done.stdout, done.stderr[-3_000:]
    results = [line.split()[1:3] for line in done.stderr.splitlines() if line.startswith("RESULT")]
    assert len(results) == len(lines)
    assert ["0", "eval"] in results and ["0", "resume"] in results and ["0", "report"] in results


def _line(folder: Path, run: str, out: Path, words: list[str]) -> str:
    return "\t".join([str(folder), *(word.replace("RUN", run).replace("OUT", str(out)) for word in words)])


@pytest.mark.parametrize("path", [None, ":."], ids=["python -m", "empty and relative entries"])
def test_python_m_and_pythonpath_do_not_bring_it_back(path: str | None, tmp_path: Path) -> None:
    for name in ("org", "orjson", "dill", "pynvml", "numba_stub"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'pwned')!r}, 'w')")
    start = ["-m", "ludus"] if path is None else ["-P", "-m", "ludus"]
    where = str(SRC) if path is None else f"{SRC}:{path}"
    (tmp_path / "small.yaml").write_text("env: CartPole-v1\n")
    done = subprocess.run(
        [sys.executable, *start, "config", "small.yaml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": where},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "pwned").exists()


# What a run names

_MODULE = """
import gymnasium
from ludus import BaseFeaturesExtractor
from my_helpers import SIZE

class Net(BaseFeaturesExtractor):
    def __init__(self, observation_space, features_dim=4):
        super().__init__(observation_space, features_dim)
        import torch
        self.layer = torch.nn.Linear(SIZE, features_dim)

    def forward(self, observations):
        return self.layer(observations)

class Wrap(gymnasium.Wrapper):
    pass

gymnasium.register("Mine-v0", entry_point="my_env:make")

def make(**kwargs):
    from gymnasium.envs.classic_control import CartPoleEnv
    return CartPoleEnv(**kwargs)
"""
OWN = {
    "env": {"id": "my_env:Mine-v0", "wrappers": ["my_env:Wrap"], "max_episode_steps": 20},
    "policy": {"features_extractor": "my_env:Net", "features_dim": 4},
}


def _write_own(folder: Path, **changes: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "my_env.py").write_text(_MODULE)
    (folder / "my_helpers.py").write_text("SIZE = 4\n")
    (folder / "my.yaml").write_text(write_yaml({**TINY, **OWN, **changes}))


def _change(run: Path, change: Callable[[dict[str, Any]], None]) -> None:
    config, _ = read_yaml(run / "config.yaml")
    change(config)
    (run / "config.yaml").write_text(write_yaml(config))


@pytest.mark.long
@pytest.mark.parametrize("vector", ["serial", "process"])
def test_own_code_next_to_the_config_is_trained_looked_at_and_resumed(
    vector: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _write_own(here / "project", vector=vector, n_envs=2)
    assert main(["train", "project/my.yaml", "-q"]) == EXIT_OK, capsys.readouterr().err
    _forget(here)
    assert main(["eval", "latest", "--episodes", "1"]) == EXIT_OK, capsys.readouterr().err
    _forget(here)
    assert main(["resume", "latest", "--steps", "64", "-q"]) == EXIT_OK, capsys.readouterr().err
    _forget(here)
    assert main(["eval", "latest", "--episodes", "1"]) == EXIT_OK, capsys.readouterr().err
    assert str(here / "project") not in sys.path and str(here) not in sys.path


def test_a_run_trained_elsewhere_needs_consent_by_name(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _write_own(here)
    assert main(["train", "my.yaml", "-q"]) == EXIT_OK, capsys.readouterr().err
    monkeypatch.setenv("XDG_STATE_HOME", str(here / "another home"))
    _forget(here)
    capsys.readouterr()
    assert main(["eval", "latest", "--episodes", "1"]) == EXIT_USER_ERROR
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 3 and "--allow my_env" in said
    assert "my_env" not in sys.modules
    assert main(["eval", "latest", "--episodes", "1", "--allow", "my_env"]) == EXIT_OK, (
        capsys.readouterr().err
    )


def test_a_run_with_other_arguments_than_those_trained_here_needs_consent(here: Path) -> None:
    _write_own(here)
    assert main(["train", "my.yaml", "-q"]) == EXIT_OK
    _change(list_runs("runs")[0].path, lambda config: config["env"].update(max_episode_steps=21))
    _forget(here)
    assert main(["eval", "latest", "--episodes", "1"]) == EXIT_USER_ERROR
    assert "my_env" not in sys.modules


def _forget(folder: Path) -> None:
    """As in a new process."""
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(folder)):
            del sys.modules[name]
    gym.registry.pop("Mine-v0", None)


NAMES: dict[str, dict[str, Any]] = {
    "a module with import effects": {"env": {"id": "unittest.__main__:CartPole-v1"}},
    "a module that opens a browser": {"env": {"id": "antigravity:CartPole-v1"}},
    "a relative module": {"env": {"id": ".x:CartPole-v1"}},
    "a wrapper that writes a video": {
        "env": {
            "id": "CartPole-v1",
            "wrappers": [{"gymnasium.wrappers:RecordVideo": {"video_folder": "MARK"}}],
        }
    },
    "a wrapper that writes a file": {
        "env": {
            "id": "CartPole-v1",
            "wrappers": [{"stable_baselines3.common.monitor:Monitor": {"filename": "MARK"}}],
        }
    },
    "a network of another package": {"policy": {"features_extractor": "torch.nn:Flatten"}},
    "a network in models/": {"policy": {"features_extractor": "Evil"}},
    "a module in the working directory": {"env": {"id": "evil:CartPole-v1"}},
}


@pytest.mark.parametrize(
    ("attack", "command"),
    [
        *((attack, command) for attack in NAMES for command in ("eval", "python")),
        *(("a module with import effects", command) for command in ("video", "analyze", "play")),
        ("a network of another package", "export"),
    ],
)
def test_a_run_that_is_looked_at_names_no_code(
    attack: str,
    command: str,
    trained: Path,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delitem(sys.modules, "antigravity", raising=False)  # a loaded module needs no consent
    mark = here / "pwned"
    shutil.copytree(trained, here / "received")
    (here / "models").mkdir()
    for place in (here / "evil.py", here / "models" / "evil.py"):
        place.write_text(f"open({str(mark)!r}, 'w')\nclass Evil: pass\n")
    named = json.loads(json.dumps(NAMES[attack]).replace("MARK", str(mark)))
    _change(here / "received", lambda config: [config[key].update(value) for key, value in named.items()])
    if command == "python":
        with pytest.raises((ConfigError, own_modules.UserError)):
            load("received").env_spec()()
    else:
        words = [word.replace("RUN", "received").replace("OUT", str(here)) for word in LOOKING[command]]
        assert main(words) == EXIT_USER_ERROR
        assert len(capsys.readouterr().err.splitlines()) == 3
    assert not list(here.glob("pwned*")) and "evil" not in sys.modules


# What a run is


@pytest.mark.parametrize("missing", ["run.json", "config.yaml"])
@pytest.mark.parametrize("place", ["as argument", "as working directory", "below it", "as link"])
def test_a_run_without_one_of_its_files_is_still_not_the_users_own(
    place: str, missing: str, trained: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark, run = here / "pwned", here / "runs" / "CartPole-v1" / "A2C" / "nice_agent"
    shutil.copytree(trained, run)
    (run / "videos").mkdir(exist_ok=True)
    for folder in (run, run / "videos"):
        (folder / "evil.py").write_text(
            f"open({str(mark)!r}, 'w')\nimport gymnasium\nclass W(gymnasium.Wrapper): pass"
        )
    names = {"as argument": "runs.CartPole-v1.A2C.nice_agent.evil"}
    _change(run, lambda config: config["env"].update(wrappers=[names.get(place, "evil") + ":W"]))
    (run / missing).unlink()
    assert own_modules.is_foreign(run)
    ref = {"as argument": str(run), "as working directory": ".", "below it": "..", "as link": "link"}[place]
    if place == "as link":
        (here / "link").symlink_to(run)
        monkeypatch.chdir(here / "link")
        ref = "."
    elif place != "as argument":
        monkeypatch.chdir(run if ref == "." else run / "videos")
    for command, allow in (("eval", []), ("video", ["evil"]), ("analyze", [names["as argument"]])):
        words = [word.replace("RUN", ref).replace("OUT", str(here)) for word in LOOKING[command]]
        assert main([*words, *(f"--allow={name}" for name in allow)]) == EXIT_USER_ERROR
    # a config that is missing is put back from a checkpoint, which names nothing
    assert main(["resume", ref, "--steps", "64", "-q"]) == (
        EXIT_OK if missing == "config.yaml" else EXIT_USER_ERROR
    )
    assert not mark.exists()


def test_what_is_found_as_a_run_is_foreign(trained: Path, here: Path) -> None:
    shutil.copytree(trained, here / "runs" / "one")
    for gone in ([], ["run.json"], ["config.yaml"], ["checkpoints"], ["run.json", "config.yaml"]):
        run = here / "runs" / f"without {' '.join(gone)}"
        shutil.copytree(trained, run)
        for name in gone:
            path = run / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        listed = run in [found.path for found in list_runs(here / "runs", damaged=True)]
        assert listed == own_modules.is_foreign(run)
        if listed:
            assert find_run(str(run), "elsewhere").path == run


def test_only_the_users_modules_find_their_neighbours(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "my_module.py").write_text("import my_neighbour\n")
    (here / "my_neighbour.py").write_text("")
    (here / "orjson_of_tests.py").write_text("raise AssertionError('a dependency found it')")
    with own_modules.command():
        own_modules.trust_config(None)
        own_modules.import_own_module("my_module", "my_module:X", where="test")
        assert "my_neighbour" in sys.modules
        with pytest.raises(ModuleNotFoundError):
            import orjson_of_tests  # noqa: F401
        script = own_modules.BOOT + "import my_module; print(my_module.my_neighbour.__file__)"
        done = subprocess.run(
            [sys.executable, "-P", "-c", script, own_modules.exported()], capture_output=True, text=True
        )
    assert done.stdout.strip() == str(here / "my_neighbour.py"), done.stderr


def test_a_neighbour_that_is_a_run_is_not_imported(here: Path) -> None:
    (here / "my_importer.py").write_text(
        "try:\n    import received_thing\nexcept ImportError:\n    found = False\n"
    )
    (here / "received_thing").mkdir()
    (here / "received_thing" / "run.json").write_text("{}")
    (here / "received_thing" / "__init__.py").write_text("raise AssertionError('code of a run was run')")
    with own_modules.command():
        own_modules.trust_config(None)
        assert own_modules.import_own_module("my_importer", "my_importer:X", where="test").found is False


@pytest.mark.parametrize("place", ["next to the config", "on the import path"])
@pytest.mark.parametrize("kind", ["a run", "a download", "a link to a run", "a run without __init__"])
def test_a_part_of_the_users_own_package_that_is_a_run_is_not_imported(
    place: str, kind: str, here: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    own = here if place == "next to the config" else tmp_path_factory.mktemp("project")
    sys.path += [] if own == here else [str(own)]
    package = own / "my_package"
    received = tmp_path_factory.mktemp("elsewhere") if "link" in kind else package / "received"
    (package / "fine").mkdir(parents=True)
    received.mkdir(exist_ok=True)
    if "link" in kind:
        (package / "received").symlink_to(received)
    (received / (own_modules.DOWNLOADED if kind == "a download" else "run.json")).write_text("{}")
    for name in ("__init__.py", "deep.py") if "without" not in kind else ("deep.py",):
        (received / name).write_text("raise AssertionError('code of a run was run')")
    (package / "fine" / "__init__.py").write_text("number = 3")
    (package / "__init__.py").write_text("from my_package.fine import number\n")
    (package / "careless.py").write_text("import my_package.received.deep\n")
    (package / "relative.py").write_text("from .received import deep\n")
    with own_modules.command():
        own_modules.trust_config(None)
        assert own_modules.import_own_module("my_package", "my_package:X", where="test").number == 3
        exported = own_modules.exported()
        for name in ("my_package.careless", "my_package.relative", "my_package.received.deep"):
            with pytest.raises(ConfigError, match="code from there is never run"):
                own_modules.import_own_module(name, f"{name}:X", where="test")
    for name in ("careless", "relative"):
        script = own_modules.BOOT + f"import my_package.{name}"
        done = subprocess.run([sys.executable, "-P", "-c", script, exported], capture_output=True, text=True)
        assert "code from there is never run" in done.stderr and "AssertionError" not in done.stderr
    for name in [name for name in sys.modules if name.partition(".")[0] == "my_package"]:
        del sys.modules[name]


def test_a_config_with_relative_paths_is_known_only_where_it_was_trained(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    relative = TrainerConfig.model_validate({"env": {"id": "CartPole-v1", "kwargs": {"path": "./game"}}})
    absolute = TrainerConfig.model_validate({"env": {"id": "CartPole-v1", "kwargs": {"path": "/opt/game"}}})
    with own_modules.command():
        for config in (relative, absolute):
            assert not trust_in_run(config).by_user
            remember_trained(config)
            assert trust_in_run(config).by_user
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert not trust_in_run(relative).by_user and trust_in_run(absolute).by_user
        monkeypatch.setenv("XDG_STATE_HOME", "state_of_a_stranger")
        remember_trained(absolute)
        assert (
            not trust_in_run(absolute).by_user
            and not (tmp_path / "elsewhere" / "state_of_a_stranger").exists()
        )
