"""Moves: each is a legal action, the derived features are correct and contain no hidden information."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ludus.errors import UnknownName
from ludus.games.balatro import actions as act
from ludus.games.balatro import compiled
from ludus.games.balatro import moves as mv
from ludus.games.balatro import names as n
from ludus.games.balatro import state as st
from ludus.games.balatro.bot import RulesBot
from ludus.games.balatro.cards import HIDDEN, count_pile
from ludus.games.balatro.compiled import entry
from ludus.games.balatro.env import NO_LOG, NO_QUEUE, BalatroEnv
from ludus.games.balatro.facts import ITEM_NAMES
from ludus.games.balatro.jokers import add_joker
from ludus.games.balatro.observation import observation_size
from ludus.games.balatro.outs import OUTS, SUIT_OUTS, count_outs
from ludus.games.balatro.preview import copy_known, put_back
from ludus.games.balatro.score import put_joker
from ludus.games.balatro.scoring import evaluate
from ludus.games.balatro.settings import BalatroSettings
from ludus.games.balatro.vector import BalatroVectorEnv

SETTINGS = BalatroSettings(actions="moves", max_hand=10)
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


def test_best_hand_scores_as_previewed() -> None:
    """Runs with jokers; the score may differ if it depends on chance (Lucky cards, Misprint, …)."""
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


def test_observation_contains_no_hidden_information() -> None:
    """Games that differ only in seed, order of the draw pile and face-down cards have equal observations."""
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


def test_number_of_threads_does_not_change_results() -> None:
    together, apart = BalatroVectorEnv(600, SETTINGS, threads=1), BalatroVectorEnv(600, SETTINGS, threads=2)
    (obs, infos), (others, other_infos) = together.reset(seed=1), apart.reset(seed=1)
    rng = np.random.default_rng(0)
    for _ in range(20):
        np.testing.assert_array_equal(obs, others)
        np.testing.assert_array_equal(infos["action_mask"], other_infos["action_mask"])
        moves = random_moves(infos["action_mask"], rng)
        (obs, *_, infos), (others, *_, other_infos) = together.step(moves), apart.step(moves)
    apart.close()


def test_final_infos_stay_valid_while_the_next_step_runs() -> None:
    """With a curriculum, in which results of episodes set the next difficulty."""
    curriculum = {"initial": 1, "success_threshold": 0.05, "window": 20}
    settings = BalatroSettings(actions="moves", max_hand=10, max_steps=40)
    one, other = (BalatroVectorEnv(200, settings, curriculum, threads=2) for _ in range(2))
    obs, infos = one.reset(seed=1)
    other.reset(seed=1)
    rng = np.random.default_rng(0)
    ended, expected, endings = np.zeros(0, dtype=np.int64), {}, 0
    for _ in range(120):
        moves = random_moves(infos["action_mask"], rng)
        other.step_async(moves)
        if len(ended):  # those of the step before
            infos = other.final_infos(ended)
            endings += len(ended)
            assert infos["final_info"]["episode"]["r"][ended].tolist() == expected["returns"]
            assert infos["final_info"]["balatro"][ended].tolist() == expected["reports"]
            np.testing.assert_array_equal(np.stack(infos["final_obs"][ended]), expected["final_obs"])
        others, rewards, terminated, truncated, other_infos = other.step_wait()
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


def test_single_env_matches_vector_env() -> None:
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


def test_move_descriptions_are_unique() -> None:
    names = [mv.describe_move(move) for move in range(mv.N_MOVES)]
    assert len(set(names)) == mv.N_MOVES
    assert names[mv.TAKE + n.J_BLUEPRINT - 1] == "take Blueprint"
    assert names[mv.PLAY + n.FLUSH] == "play Flush"


def test_rules_bot_clears_the_first_antes() -> None:
    envs = BalatroVectorEnv(64, SETTINGS)
    bot = RulesBot()
    obs, infos = envs.reset(seed=11)
    antes: dict[int, int] = {}
    while len(antes) < 64:
        obs, _, terminated, truncated, infos = envs.step(bot.predict(obs, infos["action_mask"]))
        for i in np.flatnonzero(terminated | truncated):
            antes.setdefault(int(i), infos["final_info"]["balatro"][i]["ante"])
    assert np.mean(list(antes.values())) > 3


def test_envs_write_into_given_arrays() -> None:
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


def test_unknown_actions_setting_raises() -> None:
    with pytest.raises(UnknownName):
        BalatroSettings(actions="mooves")


@entry
def _copy(s: Any, f: Any, t: Any, g: Any) -> None:
    copy_known(s, f, t, g)


@entry
def _put_back(s: Any, f: Any, t: Any, g: Any) -> None:
    put_back(s, f, t, g)


@entry
def _outs(s: Any, outs: Any) -> None:
    count_outs(s, outs)


def _hands_of_all_kinds(n_games: int, rng: np.random.Generator) -> st.Games:
    """Return games with a hand of enhanced and sealed cards, some face down, and five jokers."""
    envs = BalatroVectorEnv(n_games, SETTINGS)
    envs.reset(seed=4)
    envs.step(np.full(n_games, act.TAKE_BLIND))
    for i, (s, f) in enumerate(zip(envs.games.s, envs.games.f, strict=True)):
        for place in range(s[st.CARD_TOP]):
            if rng.random() < 0.4:
                s[st.CARD + place] |= int(rng.integers(9)) << 6 | int(rng.integers(5)) << 13
        for k in range(int(rng.integers(3))):
            s[st.CARD + s[st.HAND + k]] |= HIDDEN
        count_pile(s)
        for k in range(5):
            put_joker(s, f, {"name": ITEM_NAMES[1 + (5 * i + k) % 150]})
    return envs.games


def test_put_back_restores_a_copy_after_jokers_and_hands() -> None:
    rng = np.random.default_rng(3)
    games = _hands_of_all_kinds(120, rng)
    games.s[:, st.PHASE] = n.SHOPPING  # a joker that comes draws no cards
    passing = {*range(st.W_HAND, st.MONEY_FIXED), st.FREE_REROLLS}
    room, fresh = st.Games.empty(1), st.Games.empty(1)
    (t, g), (u, v) = (room.s[0], room.f[0]), (fresh.s[0], fresh.f[0])
    changed = set()
    for s, f in zip(games.s, games.f, strict=True):
        _copy(s, f, u, v)
        _copy(s, f, t, g)
        for _ in range(4):
            add_joker(t, g, NO_QUEUE, int(rng.integers(1, 151)), 0, 0)
            order = rng.permutation(t[st.N_HAND])
            size = int(rng.integers(1, 6))
            hand = t[st.HAND : st.HAND + len(order)].copy()
            t[st.PLAY : st.PLAY + size], t[st.N_PLAY] = hand[order[:size]], size
            t[st.HAND : st.HAND + len(order) - size] = hand[order[size:]]
            t[st.N_HAND] -= size
            evaluate(t, g, NO_QUEUE, NO_LOG)
            changed |= set(np.flatnonzero(t != u).tolist())
            _put_back(s, f, t, g)
            assert set(np.flatnonzero(t != u).tolist()) <= passing
            np.testing.assert_array_equal(g, v)
    lists = ((st.PLAYED, 12), (st.CARD_BONUS, 160), (st.CONSUMABLE, 10), (st.J_COUNT, 15))
    assert {st.N_CARDS, st.MONEY} <= changed  # hands that did a lot
    assert all(changed & set(range(start, start + size)) for start, size in lists)


def test_outs_count_unseen_cards() -> None:
    """Stone cards have no rank; Wild cards count for every suit; Smeared Joker merges suits into two."""
    rng = np.random.default_rng(6)
    outs = np.zeros(OUTS, dtype=np.int64)
    for s in _hands_of_all_kinds(60, rng).s:
        smeared = n.J_SMEARED in s[st.JOKER : st.JOKER + 5]
        wild = int(rng.integers(2))
        for place in range(s[st.CARD_TOP]):
            if not wild and s[st.CARD + place] >> 6 & 15 == n.M_WILD:
                s[st.CARD + place] &= ~(15 << 6)
        count_pile(s)
        pile = [int(s[st.CARD + s[st.DRAW_PILE + i]]) for i in range(s[st.N_DRAW])]
        hand = [int(s[st.CARD + s[st.HAND + i]]) for i in range(s[st.N_HAND])]
        unseen = [
            card for card in pile + [card for card in hand if card & HIDDEN] if card >> 6 & 15 != n.M_STONE
        ]
        _outs(s, outs)
        assert outs[2:15].tolist() == [sum(card & 15 == rank for card in unseen) for rank in range(2, 15)]
        assert outs[1] == outs[14]
        for suit in range(4):
            red = suit in (n.HEARTS, n.DIAMONDS)
            assert outs[SUIT_OUTS + suit] == sum(
                card >> 6 & 15 == n.M_WILD
                or card >> 4 & 3 == suit
                or (smeared and red == ((card >> 4 & 3) in (n.HEARTS, n.DIAMONDS)))
                for card in unseen
            )


def test_changed_rule_tables_delete_compiled_code() -> None:
    assert {"state.py", "names.py", "facts.py"} <= {path.name for path in compiled._rule_files()}
