"""Bad input is three lines (what, where, fix), exit code 2, and nothing on disk has changed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from command_line import Command, tree

CONFIGS = {
    "unknown key": "env: CartPole-v1\nhyperparams:\n  learning_rat: 0.001\n",
    "wrong type": "env: CartPole-v1\nn_envs: many\n",
    "unknown env": "algorithm: PPO\nenv:\n  id: CartPol-v1\n",
    "unknown algorithm": "env: CartPole-v1\nalgorithm: PPPO\n",
    "actions that do not fit": "env: Pendulum-v1\n\nalgorithm: DQN\n",
    "batch size that does not divide": "env: CartPole-v1\nhyperparams: {n_steps: 128, batch_size: 100}\n",
    "not YAML": "env: [CartPole-v1\nseed: 1\n",
    "a key given twice": "env: CartPole-v1\nseed: 1\nseed: 2\n",
    "an unknown engine": "env: CartPole-v1\nengine: nativ\n",
    "a wrapper nobody knows": "env: {id: CartPole-v1, wrappers: [FlattenObservatio]}\n",
    "no such device": "env: CartPole-v1\ndevice: gpu\n",
    "a total that is no amount": "env: CartPole-v1\ntotal_timesteps: soon\n",
}


@pytest.mark.parametrize(
    ("case", "what", "line", "fix"),
    [
        ("unknown key", "unknown key 'learning_rat' in hyperparams", 3, "did you mean 'learning_rate'?"),
        ("wrong type", "n_envs: ", 2, "n_envs"),
        ("unknown env", "unknown env 'CartPol-v1'", 3, "did you mean 'CartPole-v1'?"),
        ("unknown algorithm", "unknown algorithm 'PPPO'", 2, "did you mean 'PPO'?"),
        ("actions that do not fit", "DQN needs Discrete actions", 3, "SAC"),
        ("batch size that does not divide", "batch_size 100 does not divide", 2, "batch_size: 128"),
        ("not YAML", "not valid YAML", 2, ""),
        ("a key given twice", "the key 'seed' is given twice", 3, "keep one"),
        ("an unknown engine", "unknown engine 'nativ'", 2, "did you mean 'native'?"),
        ("a wrapper nobody knows", "FlattenObservatio", 1, "FlattenObservation"),
        ("no such device", "device", 2, ""),
        ("a total that is no amount", "total_timesteps", 2, ""),
    ],
)
def test_an_invalid_config_is_reported_with_its_line(
    case: str, what: str, line: int, fix: str, ludus: Command, tmp_path: Path
) -> None:
    (tmp_path / "my.yaml").write_text(CONFIGS[case])
    before = tree(tmp_path)
    outcome = ludus("train", "my.yaml")
    assert outcome.code == 2
    assert len(outcome.error_lines) == 3, outcome.err
    assert outcome.error_lines[0].startswith("error: ")
    assert what in outcome.error_lines[0]
    assert outcome.error_lines[1] == f"  where: my.yaml, line {line}" or f"line {line} (first" in outcome.err
    assert outcome.error_lines[2].startswith("  fix:   ")
    assert fix in outcome.error_lines[2]
    assert outcome.out == ""
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("arguments", "what", "fix"),
    [
        (["train"], "no env is given", "ludus train quickstart"),
        (["train", "quikstart"], "unknown preset or config file 'quikstart'", "did you mean 'quickstart'?"),
        (["train", "no.yaml"], "there is no config file 'no.yaml'", "path"),
        (["train", "--env", "CartPol-v1"], "unknown env 'CartPol-v1'", "CartPole-v1"),
        (["train", "--env", "CartPole-v1", "sed=1"], "unknown key 'sed'", "did you mean 'seed'?"),
        (
            ["train", "--env", "CartPole-v1", "evaluation.interval=0"],
            "unknown key 'interval' in evaluation",
            "did you mean 'evaluation.every'?",
        ),
        (
            ["train", "--env", "CartPole-v1", "checkpoint.frequency=0"],
            "unknown key 'frequency' in checkpoint",
            "did you mean 'checkpoint.every'?",
        ),
        (
            ["train", "--env", "CartPole-v1", "--steps", "1e30"],
            "--steps: must be at most",
            "'--steps' accepts",
        ),
        (["train", "--env", "CartPole-v1", "--n-envs", "0"], "--n-envs: input should", "'--n-envs' accepts"),
        (
            ["compare", "--env", "CartPole-v1", "--algos", "ppo", "--steps", "0"],
            "--steps: ",
            "'--steps' accepts",
        ),
        (["train", "--env", "CartPole-v1", "--steps", "soon"], "--steps: ", ""),
        (["train", "--env", "CartPole-v1", "run_dir=there"], "already exists", "resume that run"),
        (["train", "--env", "CartPole-v1", "save_dir=a.file"], "Not a directory", "path"),
        (["train", "--env", "nowhere:My-v0"], "the module 'nowhere'", "install it"),
        (["train", "--env", ".x:y"], "'.x' is not the name of a module", "module:"),
        (["train", "--env", "a..b:y"], "'a..b' is not the name of a module", "module:"),
        (
            ["train", "--env", "CartPole-v1", "policy.features_extractor=.x:y"],
            "'.x' is not the name of a module",
            "module:",
        ),
        (
            ["train", "--env", "CartPole-v1", "env.wrappers=['.x:y']"],
            "'.x' is not the name of a module",
            "module:",
        ),
        (
            ["train", "--env", "CartPole-v1", "learning_rate=1e-3"],
            "learning_rate",
            "'hyperparams.learning_rate'?",
        ),
        (["train", "--env", "CartPole-v1", "n_steps=64"], "unknown key 'n_steps'", "'hyperparams.n_steps'?"),
        (["train", "--env", "CartPole-v1", "learning_rat=1"], "unknown key", "'hyperparams.learning_rate'?"),
        (["train", "--env", "CartPole-v1", "hyperparams.n_envs=4"], "unknown key 'n_envs'", "mean 'n_envs'?"),
        (["train", "--env", "CartPole-v1", "episodes=4"], "unknown key 'episodes'", "'evaluation.episodes'?"),
        (["train", "--env", "CartPole-v1", "--lr", "1e-3"], "'--lr'", "hyperparams.learning_rate=VALUE"),
        (
            ["train", "--env", "CartPole-v1", "--batch-size", "8"],
            "'--batch-size'",
            "hyperparams.batch_size=VALUE",
        ),
        (["train", "--env", "CartPole-v1", "n_envs=0"], "n_envs: ", "integer from 1 to 1_000_000"),
        (["train", "--env", "CartPole-v1", "vector=fast"], "vector: ", "auto, serial, process"),
        (["train", "a.yaml", "--config", "b.yaml"], "two configs", "keep one"),
        (["train", "--stepz", "3"], "unknown option '--stepz'", "did you mean '--steps'?"),
        (["train", "--n-envs", "x"], "'--n-envs'", "ludus train --help"),
        (
            ["train", "--env", "CartPole-v1", "--steps"],
            "'--steps' requires an argument",
            "ludus train --help",
        ),
        (["trian"], "unknown command 'trian'", "did you mean 'train'?"),
        (["runs", "tga"], "unknown command 'tga'", "did you mean 'tag'?"),
        (["eval"], "missing argument 'POLICY'", "ludus eval"),
        (["eval", "latest"], "there is no run yet", "ludus train"),
        (["eval", "nobody"], "unknown run 'nobody'", "ludus runs"),
        (["eval", "random"], "needs an env", "--env"),
        (["eval", "random", "--env", "CartPol-v1"], "unknown env 'CartPol-v1'", "CartPole-v1"),
        (["eval", "foreign"], "it contains model.zip", "a Ludus run"),
        (["resume", "foreign"], "it contains model.zip", "a Ludus run"),
        (["resume", "foreign/model.zip"], "it contains model.zip", "a Ludus run"),
        (["resume", "there"], "'there' is not a run", "run.json"),
        (["resume", "x", "--exact", "--checkpoint", "best"], "both choose", "one of them"),
        (["play"], "no policy is given", "ludus play latest"),
        (["play", "--human"], "no env is given", "--env"),
        (["play", "--human", "--env", "CartPole-v1"], "there is no screen here", "screen"),
        (["play", "random", "--env", "CartPole-v1", "--video", "a.avi"], "'a.avi'", ".mp4"),
        (["validate", "CartPol-v1"], "unknown env 'CartPol-v1'", "CartPole-v1"),
        (["init", "a.file"], "'a.file' already exists", "another name"),
        (["init", "no/my.yaml"], "folder not found: 'no'", "create it"),
        (["init", "--algo", "PPPO"], "unknown algorithm 'PPPO'", "did you mean 'PPO'?"),
        (["envs", "tetris"], "no env id contains 'tetris'", "ludus envs"),
        (["runs", "rm", "nobody"], "unknown run 'nobody'", "ludus runs"),
        (["runs", "pin", "nobody"], "'nobody' does not name a checkpoint", "nobody@best"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_invalid_command_line_is_reported_in_three_lines(
    arguments: list[str], what: str, fix: str, ludus: Command, tmp_path: Path
) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "a.file").write_text("something of mine")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "model.zip").write_bytes(b"PK\x03\x04")
    before = tree(tmp_path)
    outcome = ludus(arguments[0], "--json", *arguments[1:])
    assert outcome.code == 2, outcome.err
    assert len(outcome.error_lines) == 3, outcome.err
    assert [line[:9] for line in outcome.error_lines[1:]] == ["  where: ", "  fix:   "]
    assert all(len(line) > 9 for line in outcome.error_lines)
    assert what in outcome.error_lines[0]
    assert fix in outcome.error_lines[2]
    error = outcome.json["error"]
    assert set(error) == {"what", "where", "fix"}
    assert outcome.error_lines[0] == f"error: {error['what']}"
    assert len(outcome.out.splitlines()) == 1
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("env", "extra", "module"), [("ALE/Pong-v5", "atari", "ale_py"), ("Ant-v5", "mujoco", "mujoco")]
)
def test_a_missing_extra_is_reported_with_the_pip_command(
    env: str, extra: str, module: str, ludus: Command, tmp_path: Path
) -> None:
    if importlib.util.find_spec(module) is not None:
        pytest.skip(f"the extra '{extra}' is installed here")
    outcome = ludus("train", "--env", env)
    assert outcome.code == 2
    assert len(outcome.error_lines) == 3
    assert f'pip install "ludus-rl[{extra}]"' in outcome.error_lines[2]
    assert tree(tmp_path) == {}


def test_a_conflicting_extra_is_reported_with_a_separate_environment(
    ludus: Command,
) -> None:
    if importlib.util.find_spec("diambra") is not None:
        pytest.skip("the extra 'diambra' is installed here")
    for command in (("diambra", "engine"), ("train", "diambra-sfiii3n")):
        fix = ludus(*command).error_lines[2]
        assert "an environment of its own" in fix and "docs/how-to/diambra.md" in fix
        assert "-c constraints-diambra.txt" in fix


@pytest.mark.parametrize(
    "arguments", [["resume"], ["resume", "--checkpoint", "512"], ["resume", "--exact"], ["eval"], ["play"]]
)
def test_a_damaged_checkpoint_is_reported_and_left_unchanged(
    arguments: list[str], ludus: Command, run: Path, tmp_path: Path
) -> None:
    for weights in (tmp_path / run).glob("checkpoints/0*/policy.safetensors"):
        content = bytearray(weights.read_bytes())
        content[-1] ^= 1
        weights.write_bytes(content)
    before = tree(tmp_path)
    outcome = ludus(*arguments, run)
    assert outcome.code == 2, outcome.err
    assert len(outcome.error_lines) == 3, outcome.err
    assert "damaged" in outcome.error_lines[0]
    assert tree(tmp_path) == before


def test_a_run_in_use_is_not_resumed_a_second_time(ludus: Command, run: Path) -> None:
    from ludus.runs.lock import RunLock

    with RunLock(run):
        outcome = ludus("resume", run, "--steps", 1024, "-q")
    assert outcome.code == 2
    assert "run is in use by process" in outcome.error_lines[0]
    assert len(outcome.error_lines) == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train", "cartpole-ppo", "--steps", "-5"], "more than zero, got '-5'"),
        (["train", "cartpole-ppo", "--steps", "-10k"], "more than zero, got '-10k'"),
        (["train", "cartpole-ppo", "total_timesteps=-5"], "more than zero, got -5"),
        (["train", "cartpole-ppo", "checkpoint.every=-3"], "more than zero, got -3"),
        (["train", "cartpole-ppo", "--steps", "soon"], "expected an amount of steps"),
        (["resume", "latest", "--steps", "-5"], "more than zero, got '-5'"),
    ],
)
def test_a_wrong_amount_is_reported_with_the_forms_in_the_fix_alone(
    arguments: list[str], said: str, ludus: Command, run: Path
) -> None:
    outcome = ludus(*arguments)
    what, _, fix = outcome.error_lines
    assert outcome.code == 2 and said in what
    assert "100_000, 10k, 1e6" in fix and "100_000" not in what
