"""Properties of every game under random actions: consistent cards and money, exact masks, repeatable copies."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

from ludus.games.balatro import actions as act
from ludus.games.balatro import engine
from ludus.games.balatro import names as n
from ludus.games.balatro import state as st
from ludus.games.balatro.env import BalatroEnv
from ludus.games.balatro.score import put_joker
from ludus.games.balatro.settings import BalatroSettings
from ludus.games.balatro.vector import BalatroVectorEnv
from ludus.types import Array

EASY = 20  # a run with so much money and such small blinds sees most of the game


def random_actions(mask: Array, rng: np.random.Generator) -> Array:
    """Return a random legal action per row; sets of cards are less likely than their number suggests."""
    actions = np.empty(len(mask), dtype=np.int64)
    for i, row in enumerate(mask):
        legal = np.flatnonzero(row)
        others = legal[legal < act.CARDS]
        pool = others if len(others) and rng.random() < 0.5 else legal
        actions[i] = rng.choice(pool)
    return actions


def ease(games: st.Games, rng: np.random.Generator) -> None:
    """Lower the blinds and add money and jokers, so that random play reaches later antes."""
    games.f[:, st.TARGET] = np.minimum(games.f[:, st.TARGET], EASY)
    poor = games.s[:, st.MONEY] < 20
    games.s[poor, st.MONEY] = 60
    for i in np.flatnonzero(rng.random(len(games.s)) < 0.01):
        if games.s[i, st.N_JOKERS] < 5 and games.s[i, st.PHASE] == n.SHOPPING:
            number = int(rng.integers(1, 151))
            put_joker(games.s[i], games.f[i], {"name": act_name(number)})


def act_name(number: int) -> str:
    from ludus.games.balatro.facts import ITEM_NAMES

    return ITEM_NAMES[number]


def check_game(s: Array, f: Array) -> None:
    """Check that the state of one game is consistent."""
    live = {p for p in range(st.MAX_CARDS) if s[st.CARD + p] != 0}
    assert len(live) == s[st.N_CARDS]
    draw = [int(p) for p in s[st.DRAW_PILE : st.DRAW_PILE + s[st.N_DRAW]]]
    hand = [int(p) for p in s[st.HAND : st.HAND + s[st.N_HAND]]]
    assert len(set(draw + hand)) == len(draw) + len(hand), "a card lies in two places"
    assert set(draw + hand) <= live, "a destroyed card is still about"
    for place in live:
        assert 2 <= s[st.CARD + place] & 15 <= 14
    check_pile(s, [int(s[st.CARD + p]) for p in draw])
    assert s[st.MONEY] >= -20 * 15 - 100
    assert (s[st.LEVEL : st.LEVEL + 12] >= 1).all()
    jokers = s[st.JOKER : st.JOKER + st.MAX_JOKERS]
    assert ((jokers > 0) == (np.arange(st.MAX_JOKERS) < s[st.N_JOKERS])).all()
    items = s[st.CONSUMABLE : st.CONSUMABLE + st.MAX_CONSUMABLES]
    assert ((items > 0) == (np.arange(st.MAX_CONSUMABLES) < s[st.N_CONSUMABLES])).all()
    assert s[st.HANDS_LEFT] >= 0 or s[st.PHASE] != n.SELECTING_HAND
    assert s[st.DISCARDS_LEFT] >= 0
    if s[st.PHASE] in (n.SHOPPING, n.CHOOSING_BLIND, n.CASHING_OUT):
        assert s[st.N_DRAW] == s[st.N_CARDS], "every card is back between rounds"
    assert np.isfinite(f[st.J_VALUE : st.J_VALUE + st.MAX_JOKERS]).all()


def check_pile(s: Array, cards: list[int]) -> None:
    """Check the counts of the draw pile against its cards."""
    by_face, by_enhancement = np.zeros(52, dtype=int), np.zeros(9, dtype=int)
    for card in cards:
        by_enhancement[card >> 6 & 15] += 1
        if card >> 6 & 15 != n.M_STONE:
            by_face[(card >> 4 & 3) * 13 + (card & 15) - 2] += 1
    assert (s[st.PILE_CARDS : st.PILE_CARDS + 52] == by_face).all()
    assert (s[st.PILE_ENHANCED : st.PILE_ENHANCED + 9] == by_enhancement).all()


@pytest.mark.parametrize(
    ("deck", "stake"), [("Red", 1), ("Erratic", 8), ("Plasma", 5), ("Ghost", 8), ("Anaglyph", 3)]
)
def test_random_games_stay_consistent(deck: str, stake: int) -> None:
    rng = np.random.default_rng(stake)
    envs = BalatroVectorEnv(16, BalatroSettings(deck=deck, stake=stake, max_ante=None))
    obs, infos = envs.reset(seed=7)
    antes, phases = set(), set()
    for step in range(1500):
        ease(envs.games, rng)
        obs, _, _, _, infos = envs.step(random_actions(infos["action_mask"], rng))
        assert infos["action_mask"].any(axis=1).all(), "a game without a legal action"
        assert np.isfinite(obs).all()
        antes |= set(envs.games.s[:, st.ANTE])
        phases |= set(envs.games.s[:, st.PHASE])
        if step % 5 == 0:
            for s, f in zip(envs.games.s, envs.games.f, strict=True):
                check_game(s, f)
    assert len(antes) > 3
    assert phases >= {0, 1, 2, 3, 4, 5}


@settings(max_examples=15, deadline=None)
@given(
    seed=hs.integers(0, 2**31),
    deck=hs.sampled_from(["Red", "Blue", "Zodiac", "Painted"]),
    stake=hs.integers(1, 8),
)
def test_batched_games_match_single_games(seed: int, deck: str, stake: int) -> None:
    together = BalatroVectorEnv(4, BalatroSettings(deck=deck, stake=stake))
    _, infos = together.reset(seed=seed)
    alone = [BalatroEnv(deck=deck, stake=stake) for _ in range(4)]
    for i, env in enumerate(alone):
        env.reset(seed=seed + i)
    rng = np.random.default_rng(seed)
    running = [True] * 4
    for _ in range(60):
        actions = random_actions(infos["action_mask"], rng)
        obs, rewards, _, _, infos = together.step(actions)
        for i, env in enumerate(alone):
            if running[i]:
                own_obs, reward, terminated, truncated, info = env.step(actions[i])
                assert reward == rewards[i]
                if terminated or truncated:
                    assert (infos["final_obs"][i] == own_obs).all()
                    running[i] = False
                else:
                    assert (own_obs == obs[i]).all()
                    assert (info["action_mask"] == infos["action_mask"][i]).all()


@pytest.mark.parametrize("actions", ["cards", "moves"])
@pytest.mark.parametrize(("deck", "max_hand"), [("Red", 12), ("Painted", 12), ("Painted", 5)])
def test_mask_updated_in_place_equals_a_fresh_mask(deck: str, max_hand: int, actions: str) -> None:
    envs = BalatroVectorEnv(16, BalatroSettings(deck=deck, max_ante=None, max_hand=max_hand, actions=actions))
    obs, infos = envs.reset(seed=5)
    assert isinstance(obs, np.ndarray)
    mask, rng = infos["action_mask"], np.random.default_rng(5)
    hands: set[int] = set()
    ends = 0
    for number in range(400):
        if number < 250:  # after that runs are lost
            ease(envs.games, rng)
        envs.write_into(obs, mask)
        _, _, ended, _, _ = envs.step(random_actions(mask, rng))
        fresh = np.ones_like(envs._legal)
        engine.observe(envs.games.s, envs.games.f, np.empty_like(obs), fresh, max_hand)
        assert (envs._legal == fresh).all()
        hands |= set(envs.games.s[:, st.N_HAND].tolist())
        ends += int(ended.sum())
    assert len(hands) > 5
    assert ends > 0


@settings(max_examples=15, deadline=None)
@given(seed=hs.integers(0, 2**31), steps=hs.integers(0, 80))
def test_restored_game_repeats_the_same_steps(seed: int, steps: int) -> None:
    envs = BalatroVectorEnv(3)
    _, infos = envs.reset(seed=seed)
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        _, _, _, _, infos = envs.step(random_actions(infos["action_mask"], rng))
    saved = envs.snapshot()
    mask = infos["action_mask"]
    script, first = [], []
    for _ in range(40):
        script.append(random_actions(mask, rng))
        obs, rewards, _, _, infos = envs.step(script[-1])
        mask = infos["action_mask"]
        first.append((obs, rewards))
    envs.restore(saved)
    for actions, (obs, rewards) in zip(script, first, strict=True):
        retrigger, repeated, _, _, _ = envs.step(actions)
        assert (retrigger == obs).all()
        assert (repeated == rewards).all()


@settings(max_examples=20, deadline=None)
@given(seed=hs.integers(0, 2**31))
def test_illegal_action_changes_nothing(seed: int) -> None:
    env = BalatroEnv()
    _, info = env.reset(seed=seed)
    rng = np.random.default_rng(seed)
    for _ in range(25):
        illegal = np.flatnonzero(~info["action_mask"])
        before = env.snapshot()
        _, reward, terminated, _, info = env.step(rng.choice(illegal))
        assert (reward, terminated) == (env.settings.rewards.illegal, False)
        before.s[0, st.STEPS] += 1
        before.f[0, st.REWARD] = reward
        assert (env.games.s == before.s).all()
        assert (env.games.f == before.f).all()
        _, _, terminated, _, info = env.step(int(random_actions(info["action_mask"][None], rng)[0]))
        if terminated:
            break


def test_every_set_of_one_to_five_cards_can_be_played_and_discarded_in_hands_above_eight() -> None:
    env = BalatroEnv(deck="Painted Deck")
    env.reset(seed=3)
    _, _, _, _, info = env.step(act.TAKE_BLIND)
    mask = info["action_mask"]
    assert env.games.s[0, st.N_HAND] == 10
    sets = [bits for bits in range(1, 1 << 10) if bits.bit_count() <= 5]
    assert mask[act.CARDS :].sum() == 2 * len(sets)
    for positions in ((9,), (0, 9), (5, 6, 7, 8, 9)):
        assert mask[act.play_action(positions)]
        assert mask[act.discard_action(positions)]


def test_cards_beyond_max_hand_can_be_moved_into_reach() -> None:
    env = BalatroEnv(deck="Painted Deck", max_hand=8)
    env.reset(seed=3)
    _, _, _, _, info = env.step(act.TAKE_BLIND)
    last = env.games.s[0, st.HAND + 9]
    assert info["action_mask"][act.MOVE_CARD + 9]
    env.step(act.MOVE_CARD + 9)
    assert env.games.s[0, st.HAND] == last


def test_action_index_is_the_same_for_every_max_hand() -> None:
    for positions in ((0,), (3, 4), (0, 2, 4, 6, 7)):
        assert act.play_action(positions) < act.n_actions(8) < act.n_actions(12)
    assert act.describe(act.play_action((0, 2))) == "play 1 3"
    assert act.describe(act.discard_action((7,))) == "discard 8"


def test_games_with_other_seeds_differ_and_the_same_seed_repeats() -> None:
    def start(seed: int) -> Array:
        games = st.Games.empty(1)
        engine.begin(games.s[0], games.f[0], np.zeros(0, dtype=np.int64), seed, 0, 1, 8)
        return games.s[0]

    assert (start(5) == start(5)).all()
    assert (start(5) != start(6)).any()


def test_referenced_arrays_are_not_overwritten() -> None:
    envs = BalatroVectorEnv(2)
    obs, infos = envs.reset(seed=1)
    row, mask = obs[1], infos["action_mask"]  # a part keeps the whole
    kept, kept_mask = row.copy(), mask.copy()
    del obs, infos
    rng = np.random.default_rng(1)
    following = mask
    for _ in range(12):
        _, _, _, _, infos = envs.step(random_actions(following, rng))
        following = infos["action_mask"]
    assert (row == kept).all()
    assert (mask == kept_mask).all()


def test_unreferenced_arrays_are_reused() -> None:
    envs = BalatroVectorEnv(2)
    _, infos = envs.reset(seed=1)
    rng = np.random.default_rng(1)
    places = set()
    for _ in range(30):
        obs, _, _, _, infos = envs.step(random_actions(infos["action_mask"], rng))
        places.add(obs.ctypes.data)
    assert len(places) <= 4
