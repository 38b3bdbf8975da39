"""The document "Training Framework": every Python block of it runs as printed, with other import lines.

Budgets are shorter, as `SHORTER` says. Blocks that train run on both engines.
"""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

import ludus
from ludus.games.balatro.extractor import BalatroExtractor

DOCUMENT = Path(__file__).parents[1] / "data" / "documents" / "training_framework.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text("utf-8"), re.DOTALL | re.MULTILINE)

SHORTER = {
    "total_timesteps=1_000_000": "total_timesteps=64, n_envs=1, threads=1, eval_freq=None",
    "config.total_timesteps = 500_000": "config.total_timesteps = 64; config.threads = 1; config.eval_freq = None",
    "total_timesteps=100_000": "total_timesteps=64, n_envs=1, threads=1, evaluation={'every': 64, 'episodes': 1}",
    "n_episodes=10": "n_episodes=1",
}
ON_SB3 = {
    'algorithm="PPO"': 'algorithm="PPO", engine="sb3"',
    'algorithm="A2C"': 'algorithm="A2C", engine="sb3"',
    'algorithm="DQN"': 'algorithm="DQN", engine="sb3"',
    'get_default_config("PPO")': 'get_default_config("PPO", engine="sb3")',
}


def block(*, containing: str) -> str:
    found = [one for one in BLOCKS if containing in one]
    assert len(found) == 1, f"{len(found)} blocks contain {containing!r}"
    return found[0]


def run(code: str, engine: str = "native", **names: Any) -> dict[str, Any]:
    """Run a block in a module of its own; return the names that it leaves behind."""
    code = re.sub(r"^from training\.\w+ import", "from ludus import", code, flags=re.MULTILINE)
    for printed, shorter in SHORTER.items():
        code = code.replace(printed, shorter)
    for native, sb3 in ON_SB3.items() if engine == "sb3" else ():
        code = code.replace(native, sb3)
    Path("block.py").write_text(code, "utf-8")
    return runpy.run_path("block.py", init_globals=names)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


both_engines = pytest.mark.parametrize("engine", ["native", "sb3"])


def uses_the_balatro_extractor(trainer: Any, features_dim: int = 512) -> bool:
    found = [part for part in trainer.policy.modules() if isinstance(part, BalatroExtractor)]
    return bool(found) and all(part.features_dim == features_dim for part in found)


@both_engines
def test_framework_creates_a_trainer(engine: str) -> None:
    code = block(containing="# Create trainer (factory pattern)")
    left = run(code, engine, env=ludus.create_balatro_env(seed=42))
    assert isinstance(left["trainer"], ludus.RLTrainer)
    assert left["trainer"].config.engine == engine


@pytest.mark.long
def test_sb3_trainer_trains_with_the_balatro_extractor() -> None:
    code = block(containing="from training.sb3_trainer import SB3Trainer")
    config = run(block(containing="# Create trainer (factory pattern)"), env=ludus.create_balatro_env())[
        "config"
    ]
    left = run(code, env=ludus.create_balatro_env(seed=42), config=config)
    assert left["result"].status == "finished" and left["result"].steps == 64
    assert uses_the_balatro_extractor(left["trainer"])
    assert (left["result"].run / "model.zip").is_file()


@pytest.mark.long
@both_engines
def test_experiment_runs_a_benchmark(engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = block(containing="benchmark = MultiAlgorithmBenchmark(env_creator=create_balatro_env)")
    left = run(code, engine, create_balatro_env=ludus.create_balatro_env)
    assert [result.status for result in left["results"]] == ["finished"]
    assert "PPO" in capsys.readouterr().out


def test_metrics_are_summarised_and_plotted(capsys: pytest.CaptureFixture[str]) -> None:
    run(
        block(containing="metrics = BalatroMetrics()"),
        metrics_dict={"PPO": [1.0, 2.0, 3.0], "A2C": [1.0, 1.5]},
    )
    assert "mean_ante" in capsys.readouterr().out
    assert Path("plot.png").read_bytes().startswith(b"\x89PNG")


def test_utils_create_single_and_vectorized_envs() -> None:
    left = run(block(containing="vec_env = make_vectorized_env(create_balatro_env, n_envs=8)"))
    assert left["env"].reset(seed=1)[1]["action_mask"].any()
    assert left["vec_env"].num_envs == 8
    left["vec_env"].reset(seed=1)
    left["vec_env"].close()


def test_env_wrappers_are_put_around_an_env() -> None:
    left = run(
        block(containing="env = CurriculumWrapper(env)  # Curriculum learning"),
        env=ludus.create_balatro_env(),
    )
    assert isinstance(left["env"], ludus.CurriculumWrapper)
    assert isinstance(left["env"].env, ludus.BalatroGymWrapper)
    left["env"].reset(seed=1)


@pytest.mark.long
@both_engines
def test_pattern_1_trains_evaluates_and_saves(engine: str) -> None:
    left = run(block(containing="trainer.save_model()"), engine)
    trainer = left["trainer"]
    assert trainer.config.algorithm == ("PPO" if engine == "native" else "MaskablePPO")
    assert uses_the_balatro_extractor(trainer)
    assert list(trainer.run.path.glob("checkpoints/0*/policy.safetensors"))


@pytest.mark.long
@both_engines
def test_pattern_2_compares_three_algorithms(engine: str) -> None:
    left = run(block(containing="best = benchmark.get_best_result()"), engine)
    assert [result.status for result in left["results"]] == ["finished"] * 3
    assert left["best"].mean_reward == max(result.mean_reward for result in left["results"])


def test_pattern_3_gives_hyperparameters_of_ones_own() -> None:
    config = run(block(containing="'n_steps': 4096,"))["config"]
    typed = config.typed_hyperparams()
    assert (typed.learning_rate(0.0), typed.gamma(0.0)) == (1e-3, 0.995)
    assert (typed.n_steps, typed.batch_size, typed.policy_net_arch) == (4096, 128, (512, 512))


def test_pattern_4_raises_the_last_ante_with_success() -> None:
    env = run(block(containing="'initial_max_ante': 2"), env=ludus.create_balatro_env(seed=1))["env"]
    assert env.reset(seed=1)[1]["difficulty"] == 2
    assert (env.increment, env.success_threshold) == (1, 0.8)


DIFFERENT_DEFAULTS = {
    "save_dir": "runs",
    "checkpoint_freq": 100_000,
    "eval_freq": 50_000,
    "wandb_project": None,
}
NO_DEFAULT = {"feature_extractor_type": "auto", "features_dim": None}


@pytest.mark.parametrize("name", ["TrainerConfig", "HyperparameterConfig"])
def test_every_documented_field_is_accepted_and_has_the_documented_default(name: str) -> None:
    code = "from typing import Any, Dict, List\n" + block(containing=f"class {name}:\n    # ")
    documented = vars(run(code)[name])
    fields = {field: documented[field] for field in documented["__annotations__"]}
    config = getattr(ludus, name)
    given = config(**fields)
    for field, default in fields.items():
        assert getattr(given, field) == default or field == "total_timesteps", field
        here = getattr(config(), field)
        expected = DIFFERENT_DEFAULTS.get(field, NO_DEFAULT.get(field, default))
        assert here == expected or (field == "total_timesteps" and here.plain() == default), field
    assert ludus.TrainerConfig().policy.features_dim == 512


@pytest.mark.parametrize("algorithm", ["PPO", "A2C", "DQN"])
def test_algorithm_defaults_are_those_of_the_tables(algorithm: str) -> None:
    table = re.search(
        rf"^### {algorithm}\n```python\n(.*?)^```$", DOCUMENT.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    assert table is not None
    documented = run(f"documented = {table[1]}")["documented"]
    typed = ludus.TrainerConfig(algorithm=algorithm).typed_hyperparams().model_dump()
    assert {name: typed[name] for name in documented} == documented


def test_an_algorithm_is_added_by_its_trainer_class() -> None:
    trainer_class = run(block(containing="class MyAlgorithmTrainer(RLTrainer):"))["MyAlgorithmTrainer"]
    factory = run(block(containing="def create_trainer(env, config):"), MyAlgorithmTrainer=trainer_class)
    ludus.register_algorithm("MyAlgorithm", trainer_class)
    config = ludus.TrainerConfig(algorithm="MyAlgorithm")
    for create in (factory["create_trainer"], ludus.create_trainer):
        trainer = create("CartPole-v1", config)
        assert isinstance(trainer, trainer_class) and trainer.train() is None


def test_an_own_wrapper_is_put_around_an_env() -> None:
    wrapper = run(block(containing="class MyWrapper(EnvironmentWrapper):"))["MyWrapper"]
    env = wrapper(ludus.create_balatro_env(seed=1))
    _, info = env.reset(seed=1)
    assert len(env.step(int(info["action_mask"].argmax()))) == 5


def test_troubleshooting_blocks_run(capsys: pytest.CaptureFixture[str]) -> None:
    run(block(containing="# Check supported algorithms"))
    for name in ("PPO", "A2C", "DQN"):
        assert ludus.get_default_config(name).algorithm == name
    run(
        block(containing="validate_environment(env)  # Prints detailed errors"),
        env=ludus.create_balatro_env(),
    )
    assert capsys.readouterr().out
    names = {name: getattr(ludus, name) for name in ("TrainerConfig", "HyperparameterConfig")}
    smaller = run(block(containing="n_envs=2,  # Reduce parallel environments"), **names)["config"]
    assert (smaller.n_envs, smaller.policy.features_dim) == (2, 256)
    rarer = run(block(containing="n_envs=8,  # Increase vectorization"), **names)["config"]
    assert (rarer.n_envs, rarer.checkpoint_freq) == (8, 100_000)


def test_help_describes_every_class(capsys: pytest.CaptureFixture[str]) -> None:
    code = block(containing="help(framework.TrainerConfig)")
    modules = ("framework", "sb3_trainer", "experiment", "metrics", "utils")
    code = code.replace(f"from training import {', '.join(modules)}", "")
    run(code, **dict.fromkeys(modules, ludus))
    shown = capsys.readouterr().out
    for name in (
        "TrainerConfig",
        "SB3Trainer",
        "MultiAlgorithmBenchmark",
        "BalatroMetrics",
        "create_balatro_env",
    ):
        assert name in shown


def test_no_block_is_left_out() -> None:
    markers = re.findall(r'containing="([^"]+)"', Path(__file__).read_text("utf-8"))
    markers += ["class TrainerConfig:", "class HyperparameterConfig:", "    'learning_rate': "]
    for code in BLOCKS:
        assert any(marker in code for marker in markers), code
