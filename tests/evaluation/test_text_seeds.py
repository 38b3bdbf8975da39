"""Seeds that are texts: which envs take them, and that they start the same episodes one by one and all at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from ludus.envs.make import EnvSpec
from ludus.envs.seeds import TextSeeds, following_seed, parse_seed, read_seeds
from ludus.errors import UserError
from ludus.evaluation.evaluate import can_play_together, evaluate, play_episodes
from ludus.games.balatro.bot import RulesBot
from ludus.games.balatro.seeds import seed_text


class LengthOfText(gym.Env[Any, Any], TextSeeds):
    """The first observation is the length of the text seed, or the integer seed."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        start = len(options["seed"]) if options is not None else seed
        self._obs = np.array([start], dtype=np.float32)
        return self._obs, {}

    def step(self, action: Any) -> Any:
        return self._obs, float(self._obs[0]), True, False, {}


class Still:
    def predict(self, obs: Any, mask: Any = None, deterministic: bool = True) -> Any:
        return np.zeros(len(obs), dtype=np.int64)


def test_text_seed_reaches_reset_as_an_option_and_integer_as_its_seed() -> None:
    found = evaluate(Still(), LengthOfText, ["ABC", 7, "12345"])
    assert [episode.reward for episode in found.episodes] == [3, 7, 5]


def test_env_with_integer_seeds_refuses_a_text_in_three_lines() -> None:
    with pytest.raises(UserError, match="'CartPole-v1' has integer seeds only") as refused:
        evaluate(Still(), EnvSpec("CartPole-v1").resolve(), [3, "ABC"])
    assert len(str(refused.value).splitlines()) == 3


def test_batched_games_of_text_and_integer_seeds_go_as_they_would_alone() -> None:
    spec = EnvSpec("ludus/Balatro-v0", kwargs={"actions": "moves", "max_hand": 10}).resolve()
    bot = RulesBot()
    seeds = ["7I4M53DL", 42, "OOOO155", seed_text(42)]
    assert can_play_together(spec, bot)
    together = evaluate(bot, spec, seeds).episodes
    assert list(together) == play_episodes(bot, [spec()], seeds)
    assert together[1] == together[3]
    assert together[0] != together[1]
    with pytest.raises(UserError, match="invalid Balatro seed 'no seed'"):
        evaluate(bot, spec, ["no seed"])


def test_seeds_are_read_as_integers_unless_they_are_words_or_quoted(tmp_path: Path) -> None:
    path = tmp_path / "seeds.txt"
    path.write_text('12\n\n7I4M53DL\n"12345678"\n')
    assert read_seeds(path, "--seeds") == [12, "7I4M53DL", "12345678"]
    assert [following_seed(12, 2), following_seed("AB", 2)] == [14, "AB"]
    path.write_text("1\n-2\n")
    with pytest.raises(UserError, match="line 2"):
        read_seeds(path, "--seeds")
    with pytest.raises(UserError):
        parse_seed("", "--seed")
