"""Balatro as a Gymnasium env, in the vector backends, and through its create and wrap functions."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from ludus.envs.make import EnvSpec, choose_backend, make_vectorized_env
from ludus.errors import ConfigError, UnknownName
from ludus.games.balatro import actions as act
from ludus.games.balatro import names as n
from ludus.games.balatro import state as st
from ludus.games.balatro.env import BalatroEnv
from ludus.games.balatro.metrics import BalatroMetrics
from ludus.games.balatro.observation import slices
from ludus.games.balatro.render import show
from ludus.games.balatro.wrappers import BalatroGymWrapper, create_balatro_env, wrap_balatro_env


def finish(env: gym.Env) -> dict:
    """Play single cards until the run is lost; return the last info."""
    _, info = env.reset(seed=1)
    for _ in range(500):
        legal = np.flatnonzero(info["action_mask"])
        _, _, terminated, truncated, info = env.step(int(legal[0]))
        if terminated or truncated:
            return info
    raise AssertionError("the run did not end")


@pytest.mark.parametrize("observation", ["flat", "dict"])
def test_env_passes_the_gymnasium_env_checker(observation: str) -> None:
    env = gym.make("ludus/Balatro-v0", observation=observation, max_steps=300).unwrapped
    check_env(env, skip_render_check=True)


def test_settings_are_applied_to_the_game() -> None:
    env = gym.make("ludus/Balatro-v0", deck="Blue Deck", stake="Gold", max_ante=2)
    env.reset(seed=1)
    s = env.unwrapped.games.s[0]
    assert (s[st.DECK], s[st.STAKE], s[st.LAST_ANTE]) == (n.B_BLUE, 8, 2)


@pytest.mark.parametrize(
    ("kwargs", "error"),
    [
        ({"deck": "Rad Deck"}, UnknownName),
        ({"stake": 9}, ConfigError),
        ({"max_ante": 0}, ConfigError),
        ({"max_hand": 3}, ConfigError),
        ({"observation": "pixels"}, UnknownName),
        ({"rewards": {"blinds": 1}}, UnknownName),
    ],
)
def test_invalid_options_raise(kwargs: dict, error: type[Exception]) -> None:
    with pytest.raises(error):
        BalatroEnv(**kwargs)


def test_last_info_contains_the_episode_report() -> None:
    info = finish(create_balatro_env(seed=42))
    assert info["is_success"] is False
    assert info["balatro"]["ante"] == 1
    assert info["balatro"]["lost_to"] == "Small Blind"


def test_beating_the_boss_of_the_last_ante_wins_the_run() -> None:
    env = BalatroEnv(max_ante=1)
    env.reset(seed=1)
    s, f = env.games.s[0], env.games.f[0]
    s[st.BLIND_ON_DECK], s[st.BOSS] = 2, n.BL_WALL
    env.step(act.TAKE_BLIND)
    f[st.TARGET] = 1
    _, reward, terminated, _, info = env.step(act.play_action((0,)))
    assert (terminated, info["is_success"]) == (True, True)
    assert reward >= env.settings.rewards.win


def test_observation_hides_face_down_cards() -> None:
    env = BalatroEnv()
    env.reset(seed=1)
    s = env.games.s[0]
    s[st.BLIND_ON_DECK], s[st.BOSS] = 2, n.BL_HOUSE
    obs, *_ = env.step(act.TAKE_BLIND)
    hand = obs[slices(12)["hand"]].reshape(12, -1)
    assert hand[:8, 2].all()  # face down
    assert hand[:8, 3:].sum() == 0
    assert obs[slices(12)["deck"]].tolist() == [1.0] * 52  # face-down cards still count as undrawn


def test_batched_backend_matches_the_other_backends() -> None:
    spec = EnvSpec("ludus/Balatro-v0", kwargs={"max_hand": 8})
    assert choose_backend(spec, 8)[0] == "batched"
    batched = make_vectorized_env(spec, 3, "batched")
    serial = make_vectorized_env(spec, 3, "serial")
    first, infos = batched.reset(seed=5)
    second, others = serial.reset(seed=5)
    rng = np.random.default_rng(0)
    for _ in range(40):
        assert (first == second).all()
        assert (infos["action_mask"] == others["action_mask"]).all()
        actions = np.array([rng.choice(np.flatnonzero(row)) for row in infos["action_mask"]])
        first, rewards, ended, _, infos = batched.step(actions)
        second, same, also, _, others = serial.step(actions)
        assert np.allclose(rewards, same)
        assert (ended == also).all()
        if ended.any():
            break
    serial.close()


def test_a_curriculum_raises_the_last_ante_for_all_games() -> None:
    spec = EnvSpec("ludus/Balatro-v0", curriculum={"initial": 1, "increment": 1, "maximum": 3, "window": 2})
    envs = make_vectorized_env(spec, 2, "batched")
    envs.reset(seed=1)
    s, f = envs.games.s, envs.games.f
    s[:, st.BLIND_ON_DECK], s[:, st.BOSS] = 2, n.BL_WALL
    envs.step([act.TAKE_BLIND] * 2)
    f[:, st.TARGET] = 1
    _, _, terminated, _, infos = envs.step([act.play_action((0,))] * 2)
    assert terminated.all()
    assert infos["final_info"]["is_success"].all()
    assert envs.last_ante == 2
    assert (s[:, st.LAST_ANTE] == 2).all()
    saved = envs.wrapper_states()
    fresh = make_vectorized_env(spec, 2, "batched")
    fresh.load_wrapper_states(saved)
    assert fresh.last_ante == 2


def test_create_and_wrap_functions_work() -> None:
    env = wrap_balatro_env(
        create_balatro_env(seed=42),
        use_curriculum=True,
        curriculum_config={"initial_max_ante": 2, "ante_increment": 1, "success_threshold": 0.8},
    )
    _, info = env.reset()
    assert info["difficulty"] == 2
    assert env.unwrapped.games.s[0, st.LAST_ANTE] == 2
    wrapped = BalatroGymWrapper(create_balatro_env(seed=1))
    finish(wrapped)
    assert wrapped.metrics.get_summary()["episodes"] == 1
    with pytest.raises(UnknownName):
        wrap_balatro_env(create_balatro_env(), use_curriculum=True, curriculum_config={"ante": 2})


def test_metrics_summarise_antes_scores_jokers_and_hands() -> None:
    metrics = BalatroMetrics()
    assert metrics.get_summary() == {"episodes": 0}
    metrics.add_episode(reward=100, ante=5, score=50000, length=500, jokers=["Joker"], hands={"Pair": 3})
    metrics.add_episode(reward=300, ante=8, score=90000, length=700, won=True, jokers=["Joker", "Baron"])
    summary = metrics.get_summary()
    assert (summary["mean_reward"], summary["mean_ante"], summary["win_rate"]) == (200, 6.5, 0.5)
    assert summary["success_rate_by_ante"][4] == 1
    assert summary["success_rate_by_ante"][5] == 0.5
    assert summary["success_rate_by_ante"][8] == 0.5
    assert summary["jokers"]["Joker"] == {"episodes": 2, "mean_ante": 6.5}
    assert summary["hands"]["Pair"] == {"played": 3, "share": 1.0}


def test_game_renders_as_text_and_as_picture() -> None:
    env = BalatroEnv(render_mode="rgb_array")
    env.reset(seed=1)
    env.step(act.TAKE_BLIND)
    picture = env.render()
    assert (picture.shape, picture.dtype) == ((600, 960, 3), np.uint8)
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 20
    text = show(env.games.s[0], env.games.f[0], colours=False)
    assert "Small Blind" in text
    assert "0 of 300" in text
    assert "jokers 0/5: none" in text
