"""Text games as RL envs: games by the fast rules match TextArena's."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import ludus.envs.registration  # noqa: F401 (registers the ids)
from ludus.config.language import GameSpec
from ludus.envs.catalog import env_groups
from ludus.envs.masks import has_masks
from ludus.envs.validate import validate_environment
from ludus.errors import UnknownName, UserError
from ludus.games.board.env import BoardGameEnv
from ludus.language.text_games.game import TextGame

IDS = ["Text/ConnectFour-v0", "Text/KuhnPoker-v0", "Text/Nim-v0", "Text/TicTacToe-v0"]


def test_the_envs_are_listed_as_text_games() -> None:
    assert env_groups()["text games"] == IDS


@pytest.mark.parametrize("env_id", IDS)
def test_envs_pass_the_checker_and_have_masks(env_id: str) -> None:
    assert has_masks(gym.make(env_id))
    assert validate_environment(env_id, quiet=True) == []


@pytest.mark.parametrize("game", ["TicTacToe-v0", "ConnectFour-v0", "Nim-v0-medium"])
def test_episode_matches_textarena_in_observations_and_rewards(game: str) -> None:
    pytest.importorskip("textarena")
    env, rng = BoardGameEnv(game, opponent="greedy"), np.random.default_rng(0)
    moves: list[int] = []
    choose = env._choose

    def remembering(*args: Any) -> int:
        moves.append(choose(*args))
        return moves[-1]

    env._choose = remembering
    seats = set()
    for seed in range(20):
        moves.clear()
        obs, info = env.reset(seed=seed)
        seats.add(env.seat)
        table, played = TextGame(GameSpec(game)), 0
        table.reset(seed)
        while True:
            for move in moves[played:]:
                assert table.play(env.codec.text(move))
            played = len(moves)
            if table.over:
                break
            assert table.seat == env.seat
            seen, mask = env.codec.encode(table)
            assert (seen == obs).all() and (mask == info["action_mask"]).all()
            moves.append(int(rng.choice(np.flatnonzero(mask))))
            obs, reward, terminated, _, info = env.step(moves[-1])
        assert terminated and reward == table.outcome().rewards[env.seat]
        assert info["is_success"] == (reward > 0)
    assert seats == {0, 1}


def test_first_illegal_action_is_rejected_and_the_second_loses() -> None:
    env = BoardGameEnv("TicTacToe-v0", seat=0)
    env.reset(seed=0)
    before, *_ = env.step(4)
    obs, reward, terminated, _, info = env.step(4)
    assert (obs == before).all() and (reward, terminated, info["invalid_move"]) == (0.0, False, True)
    legal = int(np.flatnonzero(info["action_mask"])[0])
    assert "invalid_move" not in env.step(legal)[4]  # a legal one forgives it
    env.step(4)
    assert env.step(4)[1:3] == (-1.0, True)


def test_kuhn_poker_with_stakes_pays_chips() -> None:
    env = gym.make("Text/KuhnPoker-v0", game="KuhnPoker-v0-stakes", opponent="equilibrium")
    rewards, rng = set(), np.random.default_rng(0)
    for seed in range(60):
        _, info = env.reset(seed=seed)
        terminated = False
        while not terminated:
            _, reward, terminated, _, info = env.step(int(rng.choice(np.flatnonzero(info["action_mask"]))))
        rewards.add(float(reward))
    assert rewards == {-2.0, -1.0, 1.0, 2.0}


@pytest.mark.parametrize(
    ("kwargs", "error", "message"),
    [
        ({"game": "TicTacToe-v1"}, UnknownName, "did you mean 'TicTacToe-v0'"),
        ({"game": "Chess-v0"}, UnknownName, "unknown game 'Chess-v0'"),
        ({"game": "Nim-v0", "opponent": "minmax"}, UnknownName, "did you mean 'minimax'"),
        ({"game": "KuhnPoker-v0", "opponent": "minimax"}, UnknownName, "unknown opponent 'minimax'"),
        ({"game": "Nim-v0", "seat": 2}, UserError, "invalid seat 2"),
    ],
)
def test_unsupported_settings_raise(kwargs: dict[str, Any], error: type[UserError], message: str) -> None:
    with pytest.raises(error, match=message):
        BoardGameEnv(**kwargs)
