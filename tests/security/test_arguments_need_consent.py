"""Arguments that a run from elsewhere gives to envs, wrappers, networks and games: what may pass without consent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from ludus.config import own_modules
from ludus.config.own_modules import Trust
from ludus.config.requests import argument_requests, requests_to_play, requests_to_train, require_all
from ludus.config.schema import TrainerConfig
from ludus.envs.make import EnvSpec
from ludus.envs.wrapper_names import register_wrapper
from ludus.errors import UserError
from ludus.training.factory import requests_of

STRANGER = Trust(by_user=False)
HARMLESS: list[Any] = [None, True, 0, 1.5, [1, [2.5, None]], (3,), [], {}]
ASKED: list[Any] = [
    "firefox",
    "",
    ["sh", "-c", "id"],
    {"program": "sh"},
    {"sh": 1},
    [[{"a": ["b"]}]],
    [1, "x"],
]


@pytest.fixture
def installed_env() -> Iterator[str]:
    """An env as an installed package registers it. It is never made."""
    gym.register("Stranger-v0", entry_point="some_package.envs:Stranger")
    yield "Stranger-v0"
    del gym.registry["Stranger-v0"]


def asked(spec: EnvSpec) -> dict[str, str]:
    return {request.key: request.value for request in spec.requests()}


@pytest.mark.parametrize("name", ["launcher", "backend", "plugin", "engine", "exe", "server", "anything"])
def test_text_for_an_installed_env_needs_consent_whatever_the_argument_is_called(
    installed_env: str, name: str
) -> None:
    for value in ASKED:
        assert list(asked(EnvSpec(installed_env, kwargs={name: value}))) == [f"env.kwargs.{name}"], value
    for value in HARMLESS:
        assert asked(EnvSpec(installed_env, kwargs={name: value})) == {}, value


def test_a_nested_argument_is_shown_whole_and_allowed_as_a_whole(installed_env: str) -> None:
    spec = EnvSpec(installed_env, kwargs={"launcher": {"args": ["-c", "id"], "program": "sh"}})
    shown = '{"args": ["-c", "id"], "program": "sh"}'
    assert asked(spec) == {"env.kwargs.launcher": shown}
    with STRANGER.applied(), pytest.raises(UserError) as caught:
        require_all(spec.requests(), "config.yaml")
    assert shown in caught.value.what and f"--allow '{shown}'" in caught.value.fix
    with Trust(by_user=False, allowed=frozenset({"sh", "-c", "id"})).applied(), pytest.raises(UserError):
        require_all(spec.requests(), "config.yaml")
    with Trust(by_user=False, allowed=frozenset({shown})).applied():
        require_all(spec.requests(), "config.yaml")


def test_envs_of_gymnasium_and_ludus_take_plain_words_but_no_paths() -> None:
    assert asked(EnvSpec("FrozenLake-v1", kwargs={"map_name": "8x8", "desc": ["SF", "HG"]})) == {}
    assert asked(EnvSpec("ludus/Balatro-v0", kwargs={"actions": "moves"})) == {}
    assert asked(EnvSpec("FrozenLake-v1", kwargs={"map_name": "../map"})) == {"env.kwargs.map_name": "../map"}
    assert asked(EnvSpec("Ant-v5", kwargs={"xml_file": "mine.xml"})) == {"env.kwargs.xml_file": "mine.xml"}
    # a module may register an env of the same name
    assert asked(EnvSpec("some_package:FrozenLake-v1", kwargs={"map_name": "8x8"})) == {
        "env.kwargs.map_name": "8x8"
    }


def test_mappings_below_a_key_that_names_files_need_consent() -> None:
    found = list(argument_requests({"files": {"map": {"name": "secret"}, "n": 1}}, "env.kwargs", known=True))
    assert {(request.key, request.value) for request in found} >= {("env.kwargs.files.map.name", "secret")}
    nested = argument_requests({"settings": {"log_dir": ["logs"]}}, "env.kwargs", known=True)
    assert [request.value for request in nested] == ["logs"]


def test_text_for_a_wrapper_needs_consent_unless_the_wrapper_is_known() -> None:
    register_wrapper("LogsToAFile", lambda env, path: env)
    for name in ("my_wrappers:Log", "LogsToAFile", "stable_baselines3.common.monitor:Monitor"):
        spec = EnvSpec("CartPole-v1", wrappers=({name: {"path": "log"}}, {name: {"level": 2}}))
        assert asked(spec) == {f"env.wrappers.{name}.path": "log"}
    known = (
        "ActionMask",
        {"FilterObservation": {"filter_keys": ["a", "b/c"]}},
        {"gymnasium.wrappers:FilterObservation": {"filter_keys": ["a"]}},
        {"ludus.envs.wrappers:FrameSkip": {"skip": 2}},
    )
    assert asked(EnvSpec("CartPole-v1", wrappers=known)) == {}


def test_text_for_wrappers_networks_and_games_is_in_what_resume_asks_for() -> None:
    config = TrainerConfig(
        env={"id": "ludus/Unity-v0", "kwargs": {}, "wrappers": [{"mine:Log": {"to": "x"}}]},
        policy={"features_extractor": "mine:Net", "features_extractor_kwargs": {"width": 4, "weights": "w"}},
    )
    found = {request.key: request.value for request in requests_of(config)}
    assert found == {
        "env.wrappers.mine:Log.to": "x",
        "policy.features_extractor": "mine",
        "policy.features_extractor_kwargs.weights": "w",
    }
    game = {"id": "KuhnPoker-v0", "kwargs": {"rounds": 3, "dealer": "someone"}}
    config = TrainerConfig(algorithm="REINFORCE", language={}, games={"train": [game], "eval": [game]})
    keys = [request.key for request in requests_to_play(config)]
    assert keys == ["games.train.0.kwargs.dealer", "games.eval.0.kwargs.dealer"]
    assert [request.key for request in requests_to_train(config)] == keys


def test_training_notes_text_arguments_so_that_the_run_is_known_here(
    installed_env: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    from ludus.config.trained_here import remember_trained, trust_in_run

    config = TrainerConfig(env={"id": installed_env, "kwargs": {"launcher": "firefox", "levels": "maps/one"}})
    with own_modules.command():
        own_modules.trust_config()
        require_all(requests_of(config), "config.yaml")
        assert own_modules.named_code()
        remember_trained(config)
    with own_modules.command():
        assert trust_in_run(config).by_user
        other = config.model_copy(
            update={"env": config.env.model_copy(update={"kwargs": {"launcher": "sh"}})}
        )
        assert not trust_in_run(other).by_user
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert not trust_in_run(config).by_user  # maps/one is another file here


def test_modules_of_networks_and_callbacks_are_asked_for_before_anything_else_and_each_name_once() -> None:
    callbacks = ["hooks:Log", {"hooks:Plot": {"to": "x", "also_to": "x"}}]
    policy = {"features_extractor": "nets:Cnn", "network": "nets:Trunk"}
    config = TrainerConfig(env="CartPole-v1", policy=policy, callbacks=callbacks)
    with STRANGER.applied(), pytest.raises(UserError) as caught:
        require_all(requests_of(config), "config.yaml")
    assert caught.value.fix.endswith("--allow nets --allow hooks --allow x")
    assert caught.value.what.endswith(
        "asks to import the module nets, and to import the module hooks, and to use x"
    )
    for names in ({"nets", "hooks", "x"}, {"nets:Cnn", "nets:Trunk", "hooks:Log", "hooks:Plot", "x"}):
        with Trust(by_user=False, allowed=frozenset(names)).applied():
            require_all(requests_of(config), "config.yaml")
    with (
        Trust(by_user=False, allowed=frozenset({"nets:Cnn", "hooks", "x"})).applied(),
        pytest.raises(UserError),
    ):
        require_all(requests_of(config), "config.yaml")


def test_extractors_of_ludus_are_no_code_of_the_run() -> None:
    policy = {"features_extractor": "ludus.policies.extractors:NatureCNN"}
    assert list(requests_of(TrainerConfig(env="CartPole-v1", policy=policy))) == []
