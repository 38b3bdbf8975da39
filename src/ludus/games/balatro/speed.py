"""Speed of Balatro on one core: many games in one call, the same as a vector env, one game through Gymnasium.

The games are in antes 3 to 8 with five jokers, like those of a trained agent. Actions are random, but no joker is sold
and blinds are small enough to be beaten, so that the games stay in these antes and visit rounds, shops and packs. A
game that ends (one step in two hundred) is reset to its start. Only the steps are timed: with observation and mask,
written into the caller's arrays, without choosing the actions.

The result is the speed of all steps, and of the fastest of twenty parts. The difference shows the noise of other
processes and of the actions.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ludus.games.balatro import actions as act
from ludus.games.balatro import state as st
from ludus.games.balatro.compiled import entry
from ludus.games.balatro.engine import observe, step
from ludus.games.balatro.env import NO_LOG, NO_QUEUE, BalatroEnv
from ludus.games.balatro.facts import ITEM_NAMES
from ludus.games.balatro.observation import observation_size
from ludus.games.balatro.score import put_joker
from ludus.games.balatro.settings import BalatroSettings
from ludus.games.balatro.vector import BalatroVectorEnv
from ludus.types import Array, BoolArray

JOKERS = 5
_TARGET = 300.0
_WARM_UP = 20  # calls that are not timed; the first may compile
_PARTS = 20


@entry
def _choose(mask: Any, draws: Any, chosen: Any) -> None:
    """Choose a random legal action per game, in two of five cases not a set of cards; no joker is sold."""
    for i in range(len(mask)):
        first = act.CARDS
        for a in range(act.CARDS):
            if mask[i, a] and not act.SELL_JOKER <= a < act.MOVE_CARD:
                first = 0
        cards = 0
        for a in range(act.CARDS, mask.shape[1]):
            cards += mask[i, a]
        if first == 0 and cards > 0 and draws[i, 0] > 0.4:
            first = act.CARDS
        last = act.CARDS if first == 0 else mask.shape[1]
        count = 0
        for a in range(first, last):
            if mask[i, a] and not act.SELL_JOKER <= a < act.MOVE_CARD:
                count += 1
        wanted = int(draws[i, 1] * count)
        for a in range(first, last):
            if mask[i, a] and not act.SELL_JOKER <= a < act.MOVE_CARD:
                if wanted == 0:
                    chosen[i] = a
                    break
                wanted -= 1


def choose(mask: BoolArray, rng: np.random.Generator) -> Array:
    """Return random legal actions; see the module docstring."""
    chosen: Array = np.zeros(len(mask), dtype=np.int64)
    _choose(np.ascontiguousarray(mask), rng.random((len(mask), 2)), chosen)
    return chosen


def prepare(games: st.Games, rng: np.random.Generator) -> None:
    """Change new runs to antes 3 to 8 with five jokers, some money and eight hands per round."""
    for s, f in zip(games.s, games.f, strict=True):
        s[st.ANTE] = rng.integers(3, 9)
        s[st.MONEY] = rng.integers(5, 40)
        s[st.HANDS_PER_ROUND] = 8
        for number in rng.choice(np.arange(1, 151), JOKERS, replace=False):
            put_joker(s, f, {"name": ITEM_NAMES[int(number)]})


def _reset_ended(games: st.Games, prepared: st.Games, ended: Array, mask: BoolArray, max_hand: int) -> None:
    """Reset ended games, with their masks, and limit ante and target of all games."""
    if len(ended):
        back = st.Games(prepared.s[ended], prepared.f[ended])
        obs: Array = np.empty((len(ended), observation_size(max_hand)), dtype=np.float32)
        legal = np.empty((len(ended), mask.shape[1]), dtype=bool)
        observe(back.s, back.f, obs, legal, max_hand)
        games.s[ended], games.f[ended], mask[ended] = back.s, back.f, legal
    _limit_ante_and_target(games)


def _limit_ante_and_target(games: st.Games) -> None:
    games.f[:, st.TARGET] = np.minimum(games.f[:, st.TARGET], _TARGET)
    games.s[:, st.ANTE] = np.clip(games.s[:, st.ANTE], 3, 8)


def engine_speed(n_games: int, max_hand: int, steps: int) -> dict[str, Any]:
    """Measure steps per second of the engine: every step is one compiled call that writes into the caller's arrays.

    It writes observations, masks, rewards and ended runs. An ended run is restarted and its last rows are kept.
    """
    envs, obs, mask = _prepared_envs(n_games, max_hand)
    final = st.Games.empty(n_games)
    final_obs, final_mask = np.empty_like(obs), np.empty_like(mask)
    reward, done = np.empty(n_games), np.empty(n_games, dtype=np.uint8)

    def play(actions: Array) -> Array:
        step(
            envs.games.s,
            envs.games.f,
            NO_QUEUE,
            actions,
            obs,
            reward,
            done,
            mask,
            mask,
            max_hand,
            envs.settings.max_steps,
            1,
            final.s,
            final.f,
            final_obs,
            final_mask,
            NO_LOG,
        )
        return done

    return _timed(play, envs.games, mask, max_hand, steps)


def vector_env_speed(n_envs: int, max_hand: int, steps: int) -> dict[str, Any]:
    """Measure steps per second of the vector env, which adds a report of every ended run and a check for NaN."""
    envs, obs, mask = _prepared_envs(n_envs, max_hand)

    def play(actions: Array) -> Array:
        envs.write_into(obs, mask)
        _, _, terminated, truncated, _ = envs.step(actions)
        return np.logical_or(terminated, truncated)

    return _timed(play, envs.games, mask, max_hand, steps)


def _prepared_envs(n_envs: int, max_hand: int) -> tuple[BalatroVectorEnv, Array, BoolArray]:
    envs = BalatroVectorEnv(n_envs, BalatroSettings(max_ante=None, max_hand=max_hand), threads=1)
    envs.reset(seed=1)
    prepare(envs.games, np.random.default_rng(0))
    obs, infos = envs.restore(envs.snapshot())
    assert isinstance(obs, np.ndarray)
    return envs, obs, infos["action_mask"]


def _timed(
    play: Callable[[Array], Array], games: st.Games, mask: BoolArray, max_hand: int, steps: int
) -> dict[str, Any]:
    """Measure how often per second `play(actions)` steps each of the games; it returns which of them ended."""
    rng = np.random.default_rng(1)
    prepared = games.copy()
    n = len(games.s)
    rounds = -(-steps // n)
    seconds = np.zeros(_WARM_UP + rounds)
    jokers, antes = 0.0, 0.0
    for number in range(len(seconds)):
        actions = choose(mask, rng)
        start = time.perf_counter()
        ended = play(actions)
        seconds[number] = time.perf_counter() - start
        if number >= _WARM_UP:
            jokers += float(games.s[:, st.N_JOKERS].mean())
            antes += float(games.s[:, st.ANTE].mean())
        _reset_ended(games, prepared, np.flatnonzero(ended), mask, max_hand)
    return _speeds(n, max_hand, seconds) | {"mean_jokers": jokers / rounds, "mean_ante": antes / rounds}


def _speeds(n: int, max_hand: int, seconds: Array) -> dict[str, Any]:
    """Compute speeds from the seconds of each call, which steps n games once; the first calls do not count."""
    parts = np.array_split(seconds[_WARM_UP:], min(_PARTS, len(seconds) - _WARM_UP))
    return {
        "games": n,
        "max_hand": max_hand,
        "steps_per_second": n / float(np.mean(seconds[_WARM_UP:])),
        "best_steps_per_second": n / min(float(np.mean(part)) for part in parts),
    }


def single_speed(max_hand: int, steps: int) -> dict[str, Any]:
    """Measure steps per second of one game through Gymnasium."""
    rng = np.random.default_rng(0)
    env = BalatroEnv(max_ante=None, max_hand=max_hand)
    env.reset(seed=1)
    prepare(env.games, rng)
    prepared = env.games.copy()
    seconds = np.zeros(_WARM_UP + steps)
    for number in range(len(seconds)):
        action = int(choose(env.action_masks()[None], rng)[0])
        start = time.perf_counter()
        _, _, terminated, _, _ = env.step(action)
        seconds[number] = time.perf_counter() - start
        if terminated:
            env.restore(prepared)
        _limit_ante_and_target(env.games)
    return _speeds(1, max_hand, seconds)
