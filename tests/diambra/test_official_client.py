"""Checks of the official client's own tests: the unmodified client accepts a stand-in as an engine."""

from __future__ import annotations

import dataclasses
from typing import Any

import diambra.arena
import numpy as np
import pytest
from diambra.arena import (
    EnvironmentSettings,
    EnvironmentSettingsMultiAgent,
    Roles,
    SpaceTypes,
    WrappersSettings,
)
from diambra.arena import RecordingSettings as ClientRecording
from running_engines import Start

from ludus.games.diambra.games import GAMES, get_filter_keys, known_keys
from ludus.games.diambra.settings import DiambraSettings, RecordingSettings, WrapperSettings

FLAT = {"flatten": True, "role_relative": True, "add_last_action": True, "stack_frames": 3}
_DONE = ("round_done", "stage_done", "game_done", "episode_done")


def test_every_setting_of_the_client_can_be_set_or_is_refused_by_name() -> None:
    ours = {"settings": DiambraSettings, "wrappers": WrapperSettings, "recording": RecordingSettings}
    theirs = {"settings": EnvironmentSettings, "wrappers": WrappersSettings, "recording": ClientRecording}
    # those that an env has itself: the game, its engine, how it is shown, and the seed of its episodes
    elsewhere = {"game_id", "rank", "env_address", "render_mode", "seed", "pb_model"}
    for name, described in theirs.items():
        known = {field.name for field in dataclasses.fields(described) if not field.name.startswith("_")}
        assert known - elsewhere <= set(ours[name].model_fields), name


def _settings(game: str, **more: Any) -> EnvironmentSettings:
    return EnvironmentSettings(game_id=game, frame_shape=(48, 48, 1), splash_screen=False, **more)


def _play(env: Any, role: int, action: Any) -> tuple[float, list[dict[str, Any]]]:
    """One episode; after every end of a round the fighters stand on their sides and the frames are all new."""
    observation, info = env.reset(seed=5)
    total, ended = 0.0, []
    for _ in range(4000):
        chosen = env.action_space.sample() if action is None else action
        observation, reward, terminated, truncated, info = env.step(chosen)
        total += reward
        assert not truncated
        assert info["settings"].episode_settings.player_settings[0].role == role
        if any(info[name] for name in _DONE):
            ended.append({name: info[name] for name in _DONE})
            if not terminated:
                own, opponent = (0, 1) if role == Roles.P1 else (1, 0)
                assert (observation["own_side"], observation["opp_side"]) == (own, opponent)
                frame = observation["frame"]
                assert all(np.array_equal(frame[:, :, 0], frame[:, :, i]) for i in range(1, frame.shape[2]))
        if terminated:
            return total, ended
    raise AssertionError("the episode never ended")


@pytest.mark.parametrize("role", [Roles.P1, Roles.P2])
def test_who_does_nothing_loses_every_round_with_the_whole_of_his_health(start: Start, role: int) -> None:
    start(1)
    env = diambra.arena.make(
        "sfiii3n", _settings("sfiii3n", role=role, difficulty=2), WrappersSettings(**FLAT)
    )
    total, ended = _play(env, role, [0, 0])
    rounds = 2
    assert total == -rounds * env.unwrapped.max_delta_health
    assert len(ended) == rounds and ended[-1]["episode_done"] and ended[-1]["game_done"]
    assert not ended[0]["game_done"] and not any(end["stage_done"] for end in ended)
    env.close()


def test_continues_are_played(start: Start) -> None:
    start(1)
    settings = _settings("sfiii3n", role=Roles.P1, difficulty=8, continue_game=-1.0)
    env = diambra.arena.make("sfiii3n", settings, WrappersSettings(**FLAT))
    total, ended = _play(env, Roles.P1, [0, 0])
    assert total == -4 * env.unwrapped.max_delta_health
    assert [end["game_done"] for end in ended] == [False, True, False, True]
    env.close()


@pytest.mark.parametrize("game", GAMES)
def test_every_game_has_the_spaces_and_bounds_that_the_client_expects(game: str, start: Start) -> None:
    start(1)
    wrappers = WrappersSettings(**FLAT, scale=True, exclude_image_scaling=True, process_discrete_binary=True)
    env = diambra.arena.make(game, _settings(game, action_space=SpaceTypes.DISCRETE), wrappers)
    listed = diambra.arena.available_games(False)[game]
    assert set(known_keys(game, role_relative=True, last_action=True)) == set(env.observation_space.spaces)
    assert set(get_filter_keys(game, True)) <= set(env.observation_space.spaces)
    assert (GAMES[game].title, GAMES[game].outfits) == (listed["name"], listed["outfits"][1])
    assert GAMES[game].difficulties == listed["difficulty"][1]
    assert GAMES[game].team == listed["number_of_chars_to_select"]
    assert env.action_space.n == sum(listed["n_actions"][:2]) - 1
    low, high = env.unwrapped.get_cumulative_reward_bounds()
    observation, _ = env.reset(seed=1)
    total = 0.0
    for _ in range(150):
        assert env.observation_space.contains(observation)
        observation, reward, terminated, _, _ = env.step(env.action_space.sample())
        total += reward
        if terminated:
            break
    assert low <= total <= high
    env.close()


def test_frames_come_in_every_shape_and_always_say_what_they_are(start: Start) -> None:
    start(1)
    for shape, seen in (((0, 0, 0), (224, 384, 3)), ((0, 0, 1), (224, 384, 1)), ((84, 84, 0), (84, 84, 3))):
        env = diambra.arena.make("sfiii3n", EnvironmentSettings(frame_shape=shape, splash_screen=False))
        first = env.reset(seed=1)[0]["frame"]
        assert first.shape == seen
        for _ in range(20):
            last = env.step([5, 1])[0]["frame"]
        assert not np.array_equal(first, last), "the fight is to be seen"
        words = slice(int(0.86 * seen[0]), None)  # below the floor's edge nothing moves
        assert np.array_equal(first[words], last[words]) and len(np.unique(first[words])) > 1
        env.close()


def test_two_players_share_a_game(start: Start) -> None:
    start(1)
    settings = EnvironmentSettingsMultiAgent(
        frame_shape=(48, 48, 1), splash_screen=False, role=(Roles.P1, Roles.P2), characters=("Ken", "Ryu")
    )
    env = diambra.arena.make("sfiii3n", settings, WrappersSettings(**FLAT))
    observation, _ = env.reset(seed=1)
    assert observation["agent_0_own_character"] == observation["agent_1_opp_character"] == 18
    total, steps = 0.0, 0
    terminated = False
    while not terminated:
        actions = {"agent_0": [5, 0 if steps % 4 else 1], "agent_1": [0, 0]}
        observation, reward, terminated, _, info = env.step(actions)
        total, steps = total + reward, steps + 1
    assert total == 2 * env.unwrapped.max_delta_health and info["game_done"]
    env.close()


def test_calls_out_of_order_are_refused_and_named(start: Start) -> None:
    import grpc
    from diambra.engine import Client, model

    (engine,) = start(1)
    client = Client(engine.address, 10)
    for call, message in (
        (client.Reset, model.EnvSettings.EpisodeSettings()),
        (client.Step, model.Actions()),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            call(message)
        assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    with pytest.raises(grpc.RpcError) as caught:
        client.EnvInit(model.EnvSettings(game_id="chess"))
    assert "chess" in caught.value.details()
    client.Shutdown(model.Empty())
    assert engine.standin.shutdown.is_set()
    client.channel.close()
