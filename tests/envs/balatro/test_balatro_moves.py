"""Moves: each is a legal action, what is worked out is true, and nothing hidden is in it."""

from __future__ import annotations

import numpy as np
import pytest

from ludus.envs.balatro import actions as act
from ludus.envs.balatro import moves as mv
from ludus.envs.balatro import names as n
from ludus.envs.balatro import state as st
from ludus.envs.balatro.bot import RulesBot
from ludus.envs.balatro.cards import HIDDEN, count_pile
from ludus.envs.balatro.env import BalatroEnv
from ludus.envs.balatro.observation import observation_size
from ludus.envs.balatro.settings import Settings
from ludus.envs.balatro.vector import BalatroVectorEnv
from ludus.errors import UnknownName

SETTINGS = Settings(actions="moves", max_hand=10)
WORKED_OUT = observation_size(10)


def random_moves(mask: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.argmax(np.where(mask, rng.random(mask.shape), -1.0), axis=1)


def test_every_move_of_the_mask_is_a_legal_action_and_there_is_always_one() -> None:
    envs = BalatroVectorEnv(64, SETTINGS)
    rng = np.random.default_rng(0)
    bot = RulesBot()
    obs, infos = envs.reset(seed=0)
    phases = set()
    for number in range(300):
        mask = infos["action_mask"]
        assert mask.any(axis=1).all()
        assert np.isfinite(obs).all()
        phases |= set(envs.games.s[:, st.PHASE].tolist())
        moves = random_moves(mask, rng) if number % 3 == 0 else bot.predict(obs, mask)
        legal = envs._legal[np.arange(64), envs._table[np.arange(64), moves]]
        assert legal.all()
        obs, rewards, _, _, infos = envs.step(moves)
        assert (rewards >= 0).all()  # an illegal action costs something
    assert phases == set(range(n.GAME_OVER))


def test_the_best_hand_scores_what_was_worked_out() -> None:
    """Runs with jokers; where chance has a word in the score (Lucky cards, Misprint, …) it may differ."""
    envs = BalatroVectorEnv(64, SETTINGS)
    bot = RulesBot()
    obs, infos = envs.reset(seed=3)
    same = total = 0
    for _ in range(200):
        moves = bot.predict(obs, infos["action_mask"])
        playing = np.flatnonzero((moves == mv.PLAY_BEST) | (moves == mv.PLAY_BEST_FULL))
        expected = 10 ** (5 * obs[playing, WORKED_OUT + mv.X_LOGS : WORKED_OUT + mv.X_BEST].max(axis=1)) - 1
        jokers = envs.games.s[playing, st.N_JOKERS] > 0
        obs, _, terminated, _, infos = envs.step(moves)
        scored = envs.games.f[playing, st.HAND_SCORE]
        seen = ~terminated[playing] & (moves[playing] == mv.PLAY_BEST_FULL) & ~jokers
        total += int(seen.sum())
        same += int(np.isclose(scored[seen], expected[seen], rtol=1e-3).sum())
    assert total > 100
    assert same >= 0.97 * total


def test_nothing_hidden_is_seen_or_worked_out() -> None:
    """Games that differ in chance to come, in the order of the draw pile and in cards face down look alike."""
    one, other = (BalatroEnv(actions="moves", max_hand=10) for _ in range(2))
    for env in (one, other):
        env.reset(seed=5)
        env.step(act.TAKE_BLIND)
    s, t = one.games.s[0], other.games.s[0]
    for i in range(3):
        s[st.CARD + s[st.HAND + i]] |= HIDDEN
    t[:] = s
    t[st.SEED_LOW] = 99
    pile = t[st.DRAW_PILE : st.DRAW_PILE + t[st.N_DRAW]]
    pile[:] = pile[::-1].copy()
    pile[0], t[st.HAND] = t[st.HAND], int(pile[0])  # a card face down changes places with one of the pile
    t[st.CARD + pile[0]] &= ~HIDDEN
    t[st.CARD + t[st.HAND]] |= HIDDEN
    count_pile(t)
    for env in (one, other):
        env.restore(env.snapshot())
    assert (one.action_masks() == other.action_masks()).all()
    assert (one._table == other._table).all()
    np.testing.assert_array_equal(one._obs, other._obs)


def test_threads_change_nothing() -> None:
    together, apart = BalatroVectorEnv(600, SETTINGS, threads=1), BalatroVectorEnv(600, SETTINGS, threads=2)
    (obs, infos), (others, other_infos) = together.reset(seed=1), apart.reset(seed=1)
    rng = np.random.default_rng(0)
    for _ in range(20):
        np.testing.assert_array_equal(obs, others)
        np.testing.assert_array_equal(infos["action_mask"], other_infos["action_mask"])
        moves = random_moves(infos["action_mask"], rng)
        (obs, *_, infos), (others, *_, other_infos) = together.step(moves), apart.step(moves)
    apart.close()


def test_the_endings_of_a_step_are_the_same_while_the_next_one_is_played() -> None:
    """With a curriculum, whose runs begin by how the last ones ended."""
    curriculum = {"initial": 1, "success_threshold": 0.05, "window": 20}
    settings = Settings(actions="moves", max_hand=10, max_steps=40)
    one, other = (BalatroVectorEnv(200, settings, curriculum, threads=2) for _ in range(2))
    obs, infos = one.reset(seed=1)
    other.reset(seed=1)
    rng = np.random.default_rng(0)
    ended, expected, endings = np.zeros(0, dtype=np.int64), {}, 0
    for _ in range(120):
        moves = random_moves(infos["action_mask"], rng)
        other.begin_step(moves)
        if len(ended):  # those of the step before
            told = other.endings(ended)
            endings += len(ended)
            assert told["final_info"]["episode"]["r"][ended].tolist() == expected["returns"]
            assert told["final_info"]["balatro"][ended].tolist() == expected["reports"]
            np.testing.assert_array_equal(np.stack(told["final_obs"][ended]), expected["final_obs"])
        others, rewards, terminated, truncated, other_infos = other.end_step()
        obs, *own, infos = one.step(moves)
        assert other.finite
        np.testing.assert_array_equal(obs, others)
        np.testing.assert_array_equal(infos["action_mask"], other_infos["action_mask"])
        for mine, theirs in zip(own, (rewards, terminated, truncated), strict=True):
            np.testing.assert_array_equal(mine, theirs)
        ended = np.flatnonzero(terminated | truncated)
        if len(ended):
            last = infos["final_info"]
            expected = {
                "returns": last["episode"]["r"][ended].tolist(),
                "reports": last["balatro"][ended].tolist(),
                "final_obs": np.stack(infos["final_obs"][ended]),
            }
    assert endings > 400
    assert one.last_ante == other.last_ante


def test_one_game_plays_as_it_does_among_many() -> None:
    env, envs = BalatroEnv(actions="moves", max_hand=10), BalatroVectorEnv(3, SETTINGS)
    obs, _ = env.reset(seed=8)
    rows, infos = envs.reset(seed=[7, 8, 9])
    rng = np.random.default_rng(2)
    for _ in range(60):
        np.testing.assert_array_equal(obs, rows[1])
        moves = random_moves(infos["action_mask"], rng)
        obs, reward, terminated, _, _ = env.step(int(moves[1]))
        rows, rewards, _, _, infos = envs.step(moves)
        assert reward == rewards[1]
        if terminated:
            return


def test_every_move_has_a_name_of_its_own() -> None:
    names = [mv.describe_move(move) for move in range(mv.N_MOVES)]
    assert len(set(names)) == mv.N_MOVES
    assert names[mv.TAKE + n.J_BLUEPRINT - 1] == "take Blueprint"
    assert names[mv.PLAY + n.FLUSH] == "play Flush"


def test_the_bot_by_rules_gets_past_the_first_antes() -> None:
    envs = BalatroVectorEnv(64, SETTINGS)
    bot = RulesBot()
    obs, infos = envs.reset(seed=11)
    antes: dict[int, int] = {}
    while len(antes) < 64:
        obs, _, terminated, truncated, infos = envs.step(bot.predict(obs, infos["action_mask"]))
        for i in np.flatnonzero(terminated | truncated):
            antes.setdefault(int(i), infos["final_info"]["balatro"][i]["ante"])
    assert np.mean(list(antes.values())) > 3


def test_envs_write_where_they_are_told() -> None:
    envs = BalatroVectorEnv(4, SETTINGS)
    _, infos = envs.reset(seed=0)
    place = np.zeros((4, envs.single_observation_space.shape[0]), dtype=np.float32)
    legal = np.zeros((4, mv.N_MOVES), dtype=bool)
    envs.write_into(place, legal)
    obs, _, _, _, infos = envs.step(infos["action_mask"].argmax(axis=1))
    assert obs is place and infos["action_mask"] is legal
    assert legal.any(axis=1).all()
    obs, *_ = envs.step(legal.argmax(axis=1))
    assert obs is not place


def test_unknown_actions_are_refused() -> None:
    with pytest.raises(UnknownName):
        Settings(actions="mooves")
