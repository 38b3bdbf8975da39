"""Hyperparameters of rl-baselines3-zoo: every entry Ludus has an env for converts, each loss named."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
import yaml

from ludus.config.importers import read_document, zoo
from ludus.config.loading import LoadedConfig, load_config
from ludus.config.plain_yaml import write_yaml
from ludus.config.schedule import Schedule
from ludus.errors import ConfigError, UnknownName, UserError

ZOO = Path(__file__).parents[2] / "data" / "zoo"
ENTRIES = [
    (path.name, name) for path in sorted(ZOO.glob("*.yml")) for name in zoo.entries(read_document(path))
]

# All that is lost on the native engine, over all entries: state-dependent exploration with its scale, one
# optimizer, hindsight replay, and learning after episodes.
LOSSES = {
    "use_sde",
    "sde_sample_freq",
    "use_sde_at_warmup",
    "policy_kwargs.log_std_init",
    "policy_kwargs.optimizer_class",
    "replay_buffer_class",
    "replay_buffer_kwargs",
    "train_freq",
}


def convert(file: str, entry: str, **flags: str) -> LoadedConfig:
    env = "ALE/Pong-v5" if entry == "atari" else entry
    return load_config(ZOO / file, flags={"env.id": env, **flags})


def write(folder: Path, block: str, name: str = "ppo.yml") -> Path:
    path = folder / name
    path.write_text("CartPole-v1:\n" + "".join(f"  {line}\n" for line in block.splitlines()), "utf-8")
    return path


@pytest.mark.parametrize("engine", ["native", "sb3"])
@pytest.mark.parametrize(
    ("algorithm", "given", "taken"), [("dqn", "", 1), ("dqn", "gradient_steps: 3", 3), ("td3", "", 1)]
)
def test_gradient_steps_left_out_are_those_of_sb3_whatever_the_number_of_envs(
    tmp_path: Path, engine: str, algorithm: str, given: str, taken: int
) -> None:
    if (engine, algorithm) == ("native", "td3"):
        pytest.skip("only Stable-Baselines3 has it")
    path = write(tmp_path, f"n_envs: 4\nn_timesteps: 100\npolicy: MlpPolicy\n{given}", f"{algorithm}.yml")
    config = load_config(path, flags={"env.id": "CartPole-v1", "engine": engine}).config
    assert config.typed_hyperparams().resolved(config.n_envs).gradient_steps == taken


@pytest.mark.parametrize(("file", "entry"), ENTRIES)
def test_every_entry_converts_and_each_of_its_keys_is_kept_noted_or_listed(file: str, entry: str) -> None:
    loaded = convert(file, entry)
    imported, config = loaded.imported, loaded.config
    assert imported is not None
    given = yaml.safe_load((ZOO / file).read_text("utf-8"))[entry]
    lost = {remark.key.removeprefix(f"{entry}.") for remark in imported.lost}
    assert lost <= LOSSES
    remarked = {remark.key.removeprefix(f"{entry}.").partition(".")[0] for remark in imported.remarks}
    kept = {place.rpartition("(")[2].rstrip(")") for place in imported.places.values()}
    kept = {key.removeprefix(f"{entry}.").partition(".")[0] for key in kept}
    assert set(given) <= remarked | kept

    typed = config.typed_hyperparams().model_dump()
    assert config.n_envs == given.get("n_envs", 1)
    assert config.total_timesteps.plain() == int(float(given["n_timesteps"]))
    for key in set(given) & set(typed) - lost:
        expected = given[key]
        if isinstance(expected, str) and expected.startswith("lin_"):
            expected = {"linear": [float(expected.removeprefix("lin_")), 0.0]}
        if key == "batch_size":
            expected = min(expected, config.n_envs * typed["n_steps"]) if file == "ppo.yml" else expected
        assert typed[key] == expected, key


@pytest.mark.parametrize(("file", "entry"), ENTRIES)
def test_what_convert_writes_reads_back_to_the_same_config(file: str, entry: str, tmp_path: Path) -> None:
    loaded = convert(file, entry)
    assert loaded.imported is not None
    own = tmp_path / "own.yaml"
    own.write_text(write_yaml(loaded.imported.data), "utf-8")
    assert load_config(own).config == loaded.config


@pytest.mark.parametrize(("file", "entry"), ENTRIES)
def test_on_engine_sb3_nothing_of_exploration_is_lost(file: str, entry: str) -> None:
    pytest.importorskip("sb3_contrib")
    imported = convert(file, entry, engine="sb3").imported
    assert imported is not None
    lost = {remark.key.removeprefix(f"{entry}.") for remark in imported.lost}
    assert lost <= {"policy_kwargs.optimizer_class", "replay_buffer_class"}


@pytest.mark.parametrize("algorithm", ["PPO", "A2C", "DQN", "SAC"])
def test_what_an_entry_leaves_out_has_the_default_of_stable_baselines3(
    algorithm: str, tmp_path: Path
) -> None:
    library: Any = pytest.importorskip("stable_baselines3")
    path = write(tmp_path, "n_timesteps: 1000\npolicy: 'MlpPolicy'", f"{algorithm.lower()}.yml")
    config = load_config(path).config
    typed = config.typed_hyperparams()
    parameters = inspect.signature(getattr(library, algorithm)).parameters
    compared = 0
    for name, value in typed:
        if name in parameters:
            plain = value.plain() if isinstance(value, Schedule) else value
            assert plain == parameters[name].default, name
            compared += 1
    assert compared >= 9
    nets = [256, 256] if algorithm == "SAC" else [64, 64]
    assert list(typed.policy_net_arch) == nets
    assert (config.n_envs, config.normalize_obs, config.normalize_reward) == (1, False, False)


def test_a_cnn_policy_has_no_hidden_layers_after_its_features() -> None:
    typed = convert("ppo.yml", "atari").config.typed_hyperparams()
    assert (typed.policy_net_arch, typed.value_net_arch) == ((), ())


def test_wrappers_become_those_of_ludus_and_strange_ones_module_and_class() -> None:
    env = convert("ppo.yml", "CarRacing-v2").config.env
    assert env is not None
    assert env.frame_stack == 2
    assert env.wrappers == [
        {"FrameSkip": {"skip": 2}},
        {"ResizeObservation": {"shape": [64, 64]}},
        {"GrayscaleObservation": {"keep_dim": True}},
    ]
    strange = convert("sac.yml", "CarRacing-v2").config.env
    assert strange is not None
    assert strange.wrappers[1:] == [
        {"ae.wrapper:AutoencoderWrapper": {"ae_path": "logs/car_racing_rgb_160.pkl"}},
        {"rl_zoo3.wrappers:HistoryWrapper": {"horizon": 2}},
    ]


def test_normalize_may_be_a_text_that_spells_a_dict() -> None:
    config = convert("ppo.yml", "CarRacing-v2").config
    assert (config.normalize_obs, config.normalize_reward) == (False, True)


def test_policy_kwargs_are_read_as_literals() -> None:
    config = convert("ppo.yml", "HalfCheetah-v4").config
    assert (config.policy.activation, config.policy.ortho_init, config.policy.log_std_init) == (
        "ReLU",
        False,
        -2,
    )
    assert config.hyperparams.policy_net_arch == [256, 256]


@pytest.mark.parametrize(
    ("written", "actor", "critic"),
    [
        ("[dict(pi=[8], vf=[4, 4])]", [8], [4, 4]),
        ("dict(pi=[8], vf=[4])", [8], [4]),
        ("[7]", [7], [7]),
        ("{'pi': [], 'vf': [3]}", [], [3]),
    ],
)
def test_hidden_layers_in_every_notation(
    written: str, actor: list[int], critic: list[int], tmp_path: Path
) -> None:
    path = write(tmp_path, f'n_timesteps: 1000\npolicy_kwargs: "dict(net_arch={written})"')
    hyperparams = load_config(path).config.hyperparams
    assert (hyperparams.policy_net_arch, hyperparams.value_net_arch) == (actor, critic)


def test_a_batch_larger_than_the_rollout_is_the_rollout_as_in_stable_baselines3() -> None:
    loaded = convert("ppo.yml", "MountainCarContinuous-v0")
    assert loaded.config.typed_hyperparams().model_dump()["batch_size"] == 8
    assert loaded.imported is not None
    assert any("a rollout holds 8 steps" in remark.why for remark in loaded.imported.notes)


def test_another_version_of_the_env_takes_the_entry_and_says_so() -> None:
    loaded = convert("ppo.yml", "LunarLander-v3")
    assert loaded.config.env is not None and loaded.config.env.id == "LunarLander-v3"
    assert loaded.config.hyperparams.given()["gamma"] == 0.999
    assert loaded.imported is not None
    assert any("'LunarLander-v2' are used for 'LunarLander-v3'" in note.why for note in loaded.imported.notes)


def test_atari_games_take_the_atari_block_and_unknown_envs_the_default_one(tmp_path: Path) -> None:
    pong = load_config(ZOO / "dqn.yml", flags={"env.id": "PongNoFrameskip-v4"}).config
    assert pong.env is not None
    assert (pong.env.wrappers, pong.env.frame_stack) == (["atari"], 4)
    path = tmp_path / "ppo.yml"
    path.write_text("default: {n_timesteps: 5000, n_envs: 3}\nCartPole-v1: {n_timesteps: 9, n_envs: 1}\n")
    assert load_config(path, flags={"env.id": "Acrobot-v1"}).config.n_envs == 3


def test_the_algorithm_comes_from_the_files_name_or_from_the_command_line(tmp_path: Path) -> None:
    path = write(tmp_path, "n_timesteps: '1e4'\nn_envs: 2", "tuned.yml")
    with pytest.raises(ConfigError, match="which algorithm"):
        load_config(path)
    config = load_config(path, ["algorithm=a2c"]).config
    assert (config.algorithm, config.total_timesteps.plain()) == ("a2c", 10_000)


def test_an_algorithm_that_only_sb3_has_is_trained_by_it(tmp_path: Path) -> None:
    pytest.importorskip("sb3_contrib")
    block = (
        "n_timesteps: 1e4\npolicy: 'MlpPolicy'\nlearning_rate: lin_1e-3\nnoise_type: 'normal'\nnoise_std: 0.1"
    )
    config = load_config(write(tmp_path, block, "td3.yml")).config
    assert (config.engine, config.algorithm) == ("sb3", "TD3")
    assert config.hyperparams.given()["action_noise"] == {"normal": 0.1}


def test_without_an_env_the_choice_is_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(ZOO / "a2c.yml")
    assert "--env CartPole-v1" in caught.value.fix
    with pytest.raises(UnknownName, match="CartPol-v9"):
        load_config(ZOO / "a2c.yml", flags={"env.id": "CartPol-v9"})


@pytest.mark.parametrize(
    ("block", "what", "line"),
    [
        ("n_timesteps: 1e4\nlearning_rate: log_3", "lin_NUMBER", 3),
        ("n_timesteps: 1e4\npolicy_kwargs: 'dict(net_arch=[64'", "policy_kwargs is not plain data", 3),
        ("n_timesteps: 1e4\nnormalize: 'dict(norm_obs=f())'", "normalize is not plain data", 3),
        ("n_timesteps: 0.5", "whole number", 2),
        ("n_timesteps: 1e4\ngama: 0.9", "unknown key 'gama'", 3),
        ("n_timesteps: 1e4\npolicy_kwargs: 'dict(net_arhc=[4])'", "unknown key 'net_arhc'", 3),
        ("n_timesteps: 1e4\ngamma: 2", "at most 1", 3),
        ("n_timesteps: 1e4\nenv_wrapper: [5]", "a wrapper is a name", 3),
    ],
)
def test_an_error_names_file_line_and_key(block: str, what: str, line: int, tmp_path: Path) -> None:
    path = write(tmp_path, block)
    with pytest.raises(UserError, match=what) as caught:
        load_config(path)
    assert caught.value.where.startswith(f"{path}, line {line} (CartPole-v1.")
