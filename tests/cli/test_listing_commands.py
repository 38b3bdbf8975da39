"""The commands that look and do not train: what they say to people, and the same to scripts."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from command_line import Command

import ludus as package
from ludus.config.editor_schema import editor_schema
from ludus.config.loading import load_config
from ludus.config.presets import preset_names
from ludus.config.registry import algorithm_names
from ludus.runs.directory import RunDirectory

COMMANDS = [
    "train",
    "resume",
    "eval",
    "play",
    "match",
    "league",
    "exploitability",
    "runs",
    "presets",
    "envs",
    "validate",
    "config",
    "init",
    "doctor",
]


def test_help_comes_without_torch_and_names_every_command() -> None:
    program = (
        "import sys; from ludus.cli.app import main; code = main(['--help']);"
        "sys.exit(code or bool({'torch', 'gymnasium', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names = re.findall(r"^(?:\w+ +| +)(\w+)  ", done.stdout, re.MULTILINE)
    more = re.search(r"^More +(.*)$", done.stdout, re.MULTILINE)
    assert more and not set(COMMANDS) - {"exploitability"} - {*names, *more[1].split(", ")}


def test_python_dash_m_ludus_is_the_same_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ludus", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"ludus {package.__version__}\n"


@pytest.mark.parametrize("command", [*COMMANDS, "runs rm", "runs tag", "runs pin", "runs unpin", "runs list"])
def test_every_command_has_help_and_json(command: str, ludus: Command) -> None:
    outcome = ludus(*command.split(), "--help")
    assert outcome.code == 0
    assert "--json" in outcome.out
    assert max(len(line) for line in outcome.out.splitlines()) <= 80


CONSENTING = [
    "train",
    "resume",
    "eval",
    "play",
    "video",
    "analyze",
    "match",
    "export",
    "mirror",
    "exploitability",
]


@pytest.mark.parametrize(
    "command", [*([name] for name in CONSENTING), ["sync", "wandb"], ["diambra", "duel"]]
)
def test_commands_that_may_use_what_a_run_names_show_how_to_consent(
    command: list[str], ludus: Command
) -> None:
    shown = ludus(*command, "--help")
    assert shown.code == 0 and "--allow NAME" in shown.out
    assert ludus(*command, "--help", "--allow", "some_module").code == 0


def test_commands_that_import_nothing_of_a_run_have_no_consent_in_their_help(ludus: Command) -> None:
    assert all("--allow" not in ludus(name, "--help").out for name in ("presets", "init", "doctor", "report"))


def test_no_command_at_all_prints_the_help(ludus: Command) -> None:
    outcome = ludus()
    assert (outcome.code, outcome.out.startswith("Usage: ludus")) == (0, True)


@pytest.mark.parametrize("group", ["unity", "diambra", "balatro", "bench", "sync"])
def test_a_group_without_a_command_prints_its_help_line_by_line(group: str, ludus: Command) -> None:
    outcome = ludus(group)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == ludus(group, "--help").out
    assert "\nCommands:\n" in outcome.out


@pytest.mark.parametrize("command", [["envs"], ["presets"], ["doctor"], ["runs"], ["runs", "list"]])
def test_tables_fit_into_80_columns_and_leave_stdout_to_the_json_when_asked(
    command: list[str], ludus: Command, run: Path
) -> None:
    outcome = ludus(*command)
    assert outcome.code == 0, outcome.err
    assert max(len(line) for line in outcome.out.splitlines()) <= 80
    scripted = ludus(*command, "--json")
    assert (len(scripted.out.splitlines()), scripted.err) == (1, "")
    assert isinstance(scripted.json, dict)


def test_envs_describes_what_can_be_made_and_names_the_extra_of_what_cannot(ludus: Command) -> None:
    found = {env["id"]: env for env in ludus("envs", "--json").json["envs"]}
    assert found["CartPole-v1"]["observation"] == "4 numbers"
    assert found["CartPole-v1"]["action"] == "one of 2"
    assert found["CartPole-v1"]["missing_extra"] is None
    assert found["Ant-v5"]["missing_extra"] in (None, "mujoco")
    only = ludus("envs", "cartpole", "--json").json["envs"]
    assert {"CartPole-v0", "CartPole-v1"} <= {env["id"] for env in only}
    assert all("cartpole" in env["id"].lower() for env in only)


def test_presets_lists_every_preset_with_what_it_trains(ludus: Command) -> None:
    listed = ludus("presets", "--json").json["presets"]
    assert [preset["name"] for preset in listed] == preset_names()
    quickstart = next(preset for preset in listed if preset["name"] == "quickstart")
    assert all(quickstart[key] for key in ("summary", "algorithm", "env", "total_timesteps"))


def test_doctor_names_versions_devices_and_what_each_extra_gives(ludus: Command) -> None:
    found = ludus("doctor", "--json").json
    assert found["healthy"]
    assert found["devices"][0] == "cpu"
    assert found["runs"] == {"root": "runs", "writable": True}
    extras = {extra["name"]: extra for extra in found["extras"]}
    assert {"box2d", "atari", "mujoco", "video", "wandb"} <= set(extras)
    assert "dev" not in extras
    assert all(extra["gives"] for extra in extras.values()), "doctor does not know what a new extra gives"
    assert extras["atari"]["install"] == 'pip install "ludus-rl[atari]"'


def test_doctor_says_when_runs_cannot_be_written(ludus: Command, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file is no folder")
    outcome = ludus("doctor", "--json")
    assert outcome.code == 1
    assert not outcome.json["runs"]["writable"]


BAD_ENV = """
import gymnasium, numpy

class Bad(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), numpy.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return numpy.full(2, 9.0), {}

    def step(self, action):
        return numpy.zeros(2, numpy.float32), "one", False, False, {}
"""


def test_validate_lists_every_problem_at_once_and_exits_with_2(ludus: Command, tmp_path: Path) -> None:
    (tmp_path / "bad_envs.py").write_text(BAD_ENV)
    outcome = ludus("validate", "bad_envs:Bad", "--json")
    assert outcome.code == 2
    found = outcome.json
    assert found["errors"] == sum(problem["severity"] == "error" for problem in found["problems"]) >= 2
    places = {problem["where"] for problem in found["problems"]}
    assert {"reset: observation", "step: reward"} <= places
    assert all(problem["fix"] for problem in found["problems"])


def test_validate_finds_nothing_wrong_with_a_good_env(ludus: Command) -> None:
    outcome = ludus("validate", "CartPole-v1")
    assert (outcome.code, outcome.out) == (0, "CartPole-v1: no problem found\n")


def test_config_prints_yaml_that_loads_to_the_same_config_and_says_where_from(
    ludus: Command, tmp_path: Path
) -> None:
    (tmp_path / "my.yaml").write_text(
        "algorithm: dqn\nenv: CartPole-v1\neval_freq: 123\nhyperparams:\n"
        "  gamma: {linear: [0.9, 0.99]}\n  algorithm_specific: {double: true}\n"
    )
    outcome = ludus("config", "my.yaml", "seed=7", "checkpoint={keep: 2}")
    assert outcome.code == 0, outcome.err
    (tmp_path / "again.yaml").write_text(outcome.out)
    again = load_config(tmp_path / "again.yaml").config
    original = load_config("my.yaml", ["seed=7", "checkpoint={keep: 2}"]).config
    assert again.typed_hyperparams() == original.typed_hyperparams()
    assert again.normalize_reward is original.normalizes_reward() is False  # as DQN has it
    exclude = {"hyperparams", "algorithm", "normalize_reward"}
    assert again.model_dump(exclude=exclude) == original.model_dump(exclude=exclude)

    found = ludus("config", "my.yaml", "seed=7", "checkpoint={keep: 2}", "--json").json
    assert found["config"]["algorithm"] == "DQN"
    assert found["config"]["hyperparams"]["gamma"] == {"linear": [0.9, 0.99]}
    origins = found["origins"]
    assert origins["env.id"] == "my.yaml, line 2"
    assert origins["evaluation.every"] == "my.yaml, line 3"
    assert origins["hyperparams.gamma"] == "my.yaml, line 5"
    assert origins["hyperparams.double"] == "my.yaml, line 6"
    assert origins["hyperparams.buffer_size"] == "default of DQN"
    assert origins["seed"] == "command line: seed=7"
    assert origins["checkpoint.keep"] == "command line: checkpoint={keep: 2}"
    assert origins["checkpoint.every"] == "default"
    assert origins["n_envs"] == "default"


def test_config_of_a_language_run_shows_the_evaluation_that_is_used(ludus: Command) -> None:
    found = ludus("config", "kuhnpoker-tiny", "league={eval: [random], eval_games: 7}", "--json").json
    evaluation, origins = found["config"]["evaluation"], found["origins"]
    assert (evaluation["episodes"], evaluation["deterministic"]) == (7, False)
    assert origins["evaluation.episodes"] == "default of language runs"
    assert origins["n_envs"] == origins["policy.features_dim"] == "no effect in a language run"
    assert "episodes: 7" in ludus("config", "kuhnpoker-tiny", "league.eval_games=7").out


def test_config_of_a_preset_names_the_preset(ludus: Command) -> None:
    origins = ludus("config", "quickstart", "--json").json["origins"]
    assert origins["env.id"].startswith("preset quickstart, line ")


def test_the_shipped_schema_is_up_to_date() -> None:
    shipped = Path(package.__file__).parents[2] / "configs" / "schema.json"
    assert json.loads(shipped.read_text("utf-8")) == editor_schema(), (
        "write it again: ludus config --schema > configs/schema.json"
    )


def test_the_schema_knows_every_key_that_a_config_accepts(ludus: Command) -> None:
    schema = ludus("config", "--schema", "--json").json
    assert {"env", "env_id", "eval_freq", "use_wandb", "total_timesteps"} <= set(schema["properties"])
    by_algorithm = {one["description"]: one for one in schema["else"]["properties"]["hyperparams"]["anyOf"]}
    language = {f"{name} for language models" for name in algorithm_names("language")}
    assert set(by_algorithm) == {*algorithm_names(), *language}
    assert "clip_range" in by_algorithm["PPO"]["properties"]
    assert "clip_range" not in by_algorithm["DQN"]["properties"]
    assert schema["properties"]["total_timesteps"]["default"] == 1_000_000


@pytest.mark.parametrize(
    ("algorithm", "engine", "env"),
    [
        ("PPO", "native", "CartPole-v1"),
        ("A2C", "native", "CartPole-v1"),
        ("DQN", "native", "CartPole-v1"),
        ("SAC", "native", "Pendulum-v1"),
        ("PPO", "sb3", "CartPole-v1"),
        ("TD3", "sb3", "Pendulum-v1"),
        ("QR-DQN", "sb3", "CartPole-v1"),
        ("MaskablePPO", "sb3", "Text/TicTacToe-v0"),
    ],
)
def test_init_writes_a_commented_config_that_loads_to_the_algorithms_defaults(
    algorithm: str, engine: str, env: str, ludus: Command, tmp_path: Path
) -> None:
    # an engine need not be named where only one has the algorithm
    chosen = ["--engine", "sb3"] if (algorithm, engine) == ("PPO", "sb3") else []
    outcome = ludus("init", "my own.yaml", "--algo", algorithm.lower(), *chosen, "--json")
    assert outcome.code == 0, outcome.err
    config = load_config(tmp_path / "my own.yaml").config
    assert (config.algorithm, config.engine) == (algorithm, engine)
    assert config.typed_hyperparams() == type(config.typed_hyperparams())()
    assert config.env is not None
    assert config.env.id == env
    text = (tmp_path / "my own.yaml").read_text()
    assert text.startswith("# yaml-language-server: $schema=file:")
    keys = [line for line in text.splitlines() if ":" in line and not line.startswith("#")]
    assert sum("#" in line for line in keys) > len(keys) * 0.6
    assert yaml.safe_load(text)["total_timesteps"] == 200_000


def test_runs_lists_tags_pins_and_removes(ludus: Command, run: Path, tmp_path: Path) -> None:
    assert ludus("runs", "tag", "tiny", "good", "baseline", "good", "--json").json["tags"] == [
        "good",
        "baseline",
    ]
    (row,) = ludus("runs", "--json").json["runs"]
    assert (row["name"], row["env"], row["algorithm"]) == (run.name, "CartPole-v1", "PPO")
    assert (row["status"], row["steps"], row["tags"]) == ("finished", 512, ["good", "baseline"])
    assert row["best"] == pytest.approx(row["eval"]) or row["best"] > row["eval"]
    listed = ludus("runs").out
    for expected in (run.name, "CartPole-v1", "PPO", "finished", "512", "good baseline"):
        assert expected in listed

    assert ludus("runs", "pin", "tiny@256").code == 0
    pins = json.loads((tmp_path / run / "checkpoints" / "pins.json").read_text())
    assert pins["checkpoints"] == ["000000000256"]
    assert ludus("runs", "unpin", "tiny@256").code == 0

    assert ludus("runs", "rm", "tiny").code == 2, "without a terminal to ask on, it needs --yes"
    assert (tmp_path / run).is_dir()
    assert ludus("runs", "rm", "tiny", "--yes", "--json").json == {"removed": [str(run)]}
    assert not (tmp_path / run).exists()
    assert ludus("runs", "--json").json == {"runs": []}


def test_options_of_runs_count_before_and_after_the_subcommand(ludus: Command, run: Path) -> None:
    Path("runs").rename("elsewhere")
    before = ludus("runs", "--root", "elsewhere", "--json", "list").json
    after = ludus("runs", "list", "--json", "--root", "elsewhere").json
    assert before == after
    assert len(before["runs"]) == 1


def test_a_run_that_nobody_runs_any_more_is_shown_as_died(ludus: Command, run: Path) -> None:
    from ludus.runs.lock import RunLock

    ended = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
    )
    directory = RunDirectory(run)
    directory.update_info(status="running", pid=int(ended.stdout))
    assert ludus("runs", "--json").json["runs"][0]["status"] == "died"
    with RunLock(run):
        assert ludus("runs", "--json").json["runs"][0]["status"] == "running"
    directory.update_info(pid=os.getpid())
    assert ludus("runs", "--json").json["runs"][0]["status"] == "running"


def test_a_reader_that_leaves_early_is_no_error() -> None:
    command = f"{shlex.quote(sys.executable)} -m ludus envs | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert done.stderr == ""
