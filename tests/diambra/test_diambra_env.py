"""`diambra/<game>` is a Gymnasium env like any other: flat, typed, seeded; one for each engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from running_engines import Start

from ludus.envs.make import EnvSpec, make_env, make_vectorized_env
from ludus.errors import ConfigError, SimulatorsTaken
from ludus.games.diambra.bots import make_bot
from ludus.games.diambra.duel import DuelTable
from ludus.league.match import play_simultaneously

WRAPPERS = {
    "scale": True,
    "exclude_image_scaling": True,
    "role_relative": True,
    "add_last_action": True,
    "stack_actions": 2,
    "stack_frames": 2,
    "filter_keys": "auto",
}
KWARGS: dict[str, Any] = {"frame_shape": [36, 36, 1], "difficulty": 3, "wrappers_settings": WRAPPERS}
ID = "diambra/sfiii3n"


def _make(**more: Any) -> gym.Env[Any, Any]:
    return make_env(ID, kwargs={**KWARGS, **more})


@pytest.mark.parametrize("space", ["DISCRETE", "MULTI_DISCRETE"])
def test_gymnasiums_own_checks_pass(space: str, start: Start) -> None:
    start(2)  # the checks make another
    env = _make(action_space=space)
    check_env(env.unwrapped, skip_render_check=True)
    assert isinstance(env.action_space, gym.spaces.Discrete) == (space == "DISCRETE")
    env.close()


def _trace(env: gym.Env[Any, Any], seed: int, steps: int = 60) -> list[bytes]:
    env.action_space.seed(seed)
    obs, _ = env.reset(seed=seed)
    trace = []
    for _ in range(steps):
        obs, reward, terminated, _, _ = env.step(env.action_space.sample())
        trace.append(b"".join(np.asarray(value).tobytes() for value in obs.values()) + str(reward).encode())
        if terminated:
            env.reset()
    return trace


def test_an_episode_follows_from_its_seed_alone_whatever_was_played_before(start: Start) -> None:
    start(1)
    env = _make()
    first = _trace(env, 7)
    assert _trace(env, 8) != first
    assert _trace(env, 7) == first
    env.close()


def test_closing_notifies_the_engine_and_frees_it(start: Start) -> None:
    (engine,) = start(1)
    env = _make()
    with pytest.raises(SimulatorsTaken, match="all 1 DIAMBRA engines are in use"):
        _make()
    env.close()
    env.close()
    assert engine.standin.counts["Close"] == 1
    _make().close()


def test_every_env_of_a_vector_plays_on_its_own_engine_from_its_own_seed(start: Start) -> None:
    engines = start(3)
    envs = make_vectorized_env(EnvSpec(ID, KWARGS), n_envs=3)
    try:
        envs.reset(seed=4)
        actions = np.zeros((3, 2), dtype=np.int64)
        rewards = [envs.step(actions)[1] for _ in range(60)]
        assert [engine.standin.counts["Step"] for engine in engines] == [60, 60, 60]
        assert len({tuple(column) for column in np.array(rewards).T}) == 3
    finally:
        envs.close()
    assert [engine.standin.counts["Close"] for engine in engines] == [1, 1, 1]


def test_a_number_of_envs_that_the_engines_do_not_have_is_an_error_that_says_so(start: Start) -> None:
    start(2)
    for backend in ("process", "serial"):
        with pytest.raises(ConfigError, match="n_envs is 3, but DIAMBRA_ENVS has 2 engines"):
            make_vectorized_env(EnvSpec(ID, KWARGS), n_envs=3, backend=backend)


def test_characters_are_those_that_are_asked_for(start: Start) -> None:
    start(1)
    with pytest.raises(ConfigError, match="no character 'Kenn'") as caught:
        _make(characters="Kenn")
    assert "Ken" in caught.value.fix
    env = _make(characters="Ken")
    assert env.reset(seed=1)[0]["own_character"].argmax() == 18
    env.close()
    env = _make()
    drawn = {int(env.reset(seed=seed)[0]["own_character"].argmax()) for seed in range(8)}
    assert len(drawn) > 2 and 19 not in drawn  # Gill is nobody's
    env.close()


def test_recordings_are_written_for_each_engine_apart(start: Start, tmp_path: Path) -> None:
    start(1)
    folder = tmp_path / "a set"
    env = _make(recording_settings={"dataset_path": str(folder), "username": "me"})
    env.reset(seed=1)
    while not env.step([0, 0])[2]:
        pass
    env.close()
    import threading

    for thread in threading.enumerate():  # the client writes in another thread
        if type(thread).__name__ == "ParallelPickleWriter":
            thread.join()
    assert [path.suffix for path in (folder / "engine-0").iterdir()] == [".diambra"]


def test_both_seats_of_a_table_see_the_game_as_a_single_player_does(start: Start) -> None:
    start(1)
    alone = _make()
    spaces = alone.observation_space, alone.action_space
    alone.close()
    table = DuelTable("sfiii3n", **KWARGS)
    assert (table.observation_space, table.action_space) == spaces
    table.reset(seed=3)
    views = table.observations()
    assert all(table.observation_space.contains(view) for view in views)
    for mine, theirs in (("own_health", "opp_health"), ("own_character", "opp_character")):
        assert np.array_equal(views[0][mine], views[1][theirs])
    still, brawler = (make_bot(name, *spaces, seed=1) for name in ("still", "brawler"))
    outcome = play_simultaneously(table, [brawler, still], seed=3)
    assert outcome.rewards[0] > 0 > outcome.rewards[1] and table.info["is_success"]
    table.close()


def test_one_seat_with_somebody_at_the_other_is_an_env(start: Start) -> None:
    start(2)  # the checks make another
    env = _make(n_players=2, opponent="brawler")
    check_env(env.unwrapped, skip_render_check=True)
    env.close()
    with pytest.raises(Exception, match="unknown bot 'brawller'"):
        _make(n_players=2, opponent="brawller")
    _make().close()  # the engine was given back
