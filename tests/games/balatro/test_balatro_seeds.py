"""Seeds of the real game: its numbers, deck orders, shops and packs, against recorded vectors and the running game."""

from __future__ import annotations

import json
import math
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from ludus.errors import UserError
from ludus.games.balatro import actions as act
from ludus.games.balatro import engine, facts, streams
from ludus.games.balatro import names as n
from ludus.games.balatro import state as st
from ludus.games.balatro.cards import HIDDEN
from ludus.games.balatro.cli import balatro_app
from ludus.games.balatro.explorer import SeedExplorer, card_text
from ludus.games.balatro.random_numbers import hash_text, numbers_of
from ludus.games.balatro.seed_check import check_file
from ludus.games.balatro.seed_search import Condition, explore, matches
from ludus.games.balatro.seeds import code_text, random_seed, seed_code, seed_text
from ludus.games.balatro.wrappers import create_balatro_env
from tests.games.balatro.tabletop import Game

PARITY = Path(__file__).parents[2] / "data" / "balatro" / "parity"
ALL_BITS = (1 << 64) - 1


def test_every_field_of_the_recorded_seeds_agrees() -> None:
    summary = check_file(PARITY / "seeds.jsonl").summary()
    assert summary["disagree"] == 0
    assert summary["cases"] == 19_237
    assert set(summary["by_kind"]) == {
        *("hash", "random", "boss", "voucher", "tag", "draw", "shelf", "pack", "pack card", "effect")
    }


def test_check_seeds_reports_a_planted_error_with_its_place_and_exit_code_1(tmp_path: Path) -> None:
    case = json.loads((PARITY / "seeds.jsonl").read_text().splitlines()[0])
    case["antes"][1]["visits"][0]["shelves"][1][0]["key"] = "j_joker"
    case["draws"][0][0][0] = "H_9"
    path = tmp_path / "planted.jsonl"
    path.write_text(json.dumps(case))
    result = CliRunner().invoke(balatro_app, ["check-seeds", str(path), "--json"])
    answer = json.loads(result.stdout)
    assert (result.exit_code, answer["disagree"]) == (1, 2)
    wrong = [(row["seed"], row["kind"], row["where"]) for row in answer["differences"]]
    assert ("7I4M53DL", "shelf", "ante 2, shop 1, shelf 2, item 1") in wrong
    assert ("7I4M53DL", "draw", "ante 1, blind 1") in wrong


@pytest.mark.parametrize(
    ("seed", "numbers"),
    [
        (0.5, (0.09657393438653461, 0.96226945770684003)),
        (0.0, (0.79420629243124097, 0.69885246563716397)),
        (float("nan"), (0.99401821283724456, 0.82430343420664043)),
    ],
)
def test_generator_gives_the_numbers_of_luajit(seed: float, numbers: tuple[float, float]) -> None:
    out = np.zeros(2)
    numbers_of(seed, out)
    assert tuple(out) == numbers


def luajit_first_number(seed: float) -> float:
    """The generator as LuaJIT has it: seed, discard ten steps, and take the low 52 bits of the eleventh."""
    d, out = seed, 0
    for k, q, s, least in ((63, 31, 18, 1), (58, 19, 28, 6), (55, 24, 7, 9), (47, 21, 8, 17)):
        d = d * math.pi + math.e
        word = struct.unpack("<Q", struct.pack("<d", d))[0]
        word += (1 << least) * (word < 1 << least)
        for _ in range(11):
            kept = word >> (64 - k) << (64 - k)
            word = ((((word << q) & ALL_BITS) ^ word) >> (k - s)) ^ ((kept << s) & ALL_BITS)
        out ^= word
    return (out & ((1 << 52) - 1)) / (1 << 52)


def test_first_number_is_that_of_eleven_steps_of_the_generator() -> None:
    seeds, out = np.random.default_rng(1).random(500), np.zeros(1)
    for seed in [0.0, *seeds.tolist()]:
        numbers_of(seed, out)  # NaN if the short cut to the first number differs from the steps
        assert out[0] == luajit_first_number(seed)


def test_hash_of_a_text_that_divides_by_zero_is_nan() -> None:
    assert np.isnan(hash_text("erratic7LB2WVPK"))
    explorer = SeedExplorer("7LB2WVPK", facts.DECK_KEYS.index("b_erratic"))
    assert len(explorer.deck_order()) == 52


def hand_of(explorer: SeedExplorer) -> list[str]:
    s = explorer.s
    slots = s[st.HAND : st.HAND + int(s[st.N_HAND])]
    return [card_text(int(s[st.CARD + slot])).replace("_", "") for slot in slots]


def do(explorer: SeedExplorer, action: int) -> None:
    engine.apply(explorer.s, explorer.f, np.zeros(0, np.int64), np.zeros((0, 4)), action)


def real_game(seed: str) -> dict[str, Any]:
    rows = [json.loads(line) for line in (PARITY / "real_game.jsonl").read_text().splitlines()]
    return next(row for row in rows if row["seed"] == seed)


def test_hands_and_shops_are_those_that_the_running_game_showed() -> None:
    shown, explorer = real_game("OOOO155"), SeedExplorer("OOOO155")
    assert explorer.boss() == shown["boss"]
    assert explorer.tags() == shown["small_tag_and_big_tag_by_rule"]
    do(explorer, act.TAKE_BLIND)
    assert hand_of(explorer) == shown["first_hand"]
    thrown = [shown["first_hand"].index(card) for card in shown["after_discarding"]]
    do(explorer, act.discard_action(thrown))
    assert hand_of(explorer) == shown["then_hand"]
    explorer.restart()
    explorer.next_shop()
    shop = shown["first_shop"]
    assert [item["key"] for item in explorer.shelf()] == shop["shelf"]
    assert explorer.voucher() == shop["voucher"]
    assert [key for key, _ in explorer.packs()] == shop["packs"]
    assert [item["key"] for item in explorer.reroll()] == shop["after_one_reroll"]


def test_second_recording_agrees_in_hands_shop_and_pack() -> None:
    shown, explorer = real_game("BBBBBBB"), SeedExplorer("BBBBBBB")
    do(explorer, act.TAKE_BLIND)
    assert hand_of(explorer) == shown["first_hand"]
    do(explorer, act.play_action([shown["first_hand"].index(card) for card in shown["after_playing"]]))
    assert hand_of(explorer) == shown["then_hand"]
    do(explorer, act.discard_action([shown["then_hand"].index(card) for card in shown["after_discarding"]]))
    assert hand_of(explorer) == shown["then_hand_2"]
    explorer.restart()
    explorer.next_shop()
    assert [item["key"] for item in explorer.shelf()] == shown["first_shop"]["shelf"]
    assert explorer.voucher() == shown["first_shop"]["voucher"]
    first = next(explorer.packs())[1]
    assert [item["key"] for item in first] == shown["first_pack"]


@pytest.mark.parametrize(
    ("seed", "pack", "cards"),
    [
        ("QKNXF682", 1, ["c_heirophant"]),
        ("3Q1KBVT3", 1, ["c_ankh", "c_aura"]),
        ("7I4M53DL", 1, ["c_emperor", "c_hanged_man", "c_lovers"]),
    ],
)
def test_packs_are_those_that_the_running_game_showed(seed: str, pack: int, cards: list[str]) -> None:
    explorer = SeedExplorer(seed)
    explorer.next_shop()
    shown = list(explorer.packs())[pack][1]
    assert [item["key"] for item in shown][: len(cards)] == cards


def test_seed_text_is_read_as_the_game_reads_it() -> None:
    assert seed_text("ab0") == "ABO"
    assert seed_text(0) == "11111111"
    assert seed_text(33) == "1111111Z"
    assert seed_text(34**8) == seed_text(0)
    for seed in ("7I4M53DL", "O", "ZZZZZZZZ"):
        assert code_text(seed_code(seed)) == seed
    made = {random_seed(random.Random(i)) for i in range(200)}
    assert len(made) == 200 and all(len(seed) == 8 and not set(seed) & set("O0") for seed in made)


@pytest.mark.parametrize("seed", ["", "123456789", "AB-1", "é"])
def test_invalid_seed_is_refused(seed: str) -> None:
    with pytest.raises(UserError, match="invalid Balatro seed"):
        seed_text(seed)


def test_text_seed_starts_the_same_game_in_every_entry_point() -> None:
    by_factory = create_balatro_env(seed="7I4M53DL").unwrapped
    by_options = create_balatro_env(seed=1)
    by_options.reset(options={"seed": "7i4m53dl"})
    assert (by_factory.games.s[0] == by_options.unwrapped.games.s[0]).all()
    by_number = create_balatro_env(seed=5).unwrapped
    by_text = create_balatro_env(seed=seed_text(5)).unwrapped
    assert (by_number.games.s[0] == by_text.games.s[0]).all()


def test_autoreset_continues_with_a_seed_that_the_game_could_make() -> None:
    env = create_balatro_env(seed=3).unwrapped
    seen = set()
    for _ in range(30):
        env.reset()
        s = env.games.s[0]
        seen.add(code_text(int(s[st.SEED_LOW]) | int(s[st.SEED_HIGH]) << 31))
    assert len(seen) == 30 and all(len(seed) == 8 and "O" not in seed for seed in seen)


def test_conditions_find_what_the_explorer_shows() -> None:
    rows = explore("7I4M53DL", 0, 1, antes=2, rerolls=0)["antes"]
    assert [row["ante"] for row in rows] == [1, 2]
    assert matches("7I4M53DL", 0, 1, [Condition.parse("Banner@1.1"), Condition.parse("The Lovers@1.1")])
    assert not matches("7I4M53DL", 0, 1, [Condition.parse("Blueprint@1.1")])
    with pytest.raises(UserError, match="invalid condition"):
        Condition.parse("Blueprnt@1")


def test_observation_and_mask_do_not_depend_on_the_seed_or_the_order_of_the_draw_pile() -> None:
    rng = np.random.default_rng(0)
    env = create_balatro_env(seed=11).unwrapped
    twin = create_balatro_env(seed=12).unwrapped
    _, info = env.reset(seed=11)
    for _ in range(150):
        s, t = env.games.s[0], twin.games.s[0]
        t[:] = s
        twin.games.f[0] = env.games.f[0]
        t[st.SEED_LOW], t[st.SEED_HIGH] = 1234, 5
        t[st.KNOWN_SIZE :] = rng.integers(0, 1000, st.S_SIZE - st.KNOWN_SIZE)
        rng.shuffle(t[st.DRAW_PILE : st.DRAW_PILE + int(t[st.N_DRAW])])
        twin._observe()
        assert (twin._mask == env._mask).all()
        assert np.array_equal(twin._obs, env._obs)
        action = int(rng.choice(np.flatnonzero(info["action_mask"])))
        _, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            _, info = env.reset()


def test_mask_does_not_show_a_face_down_glass_card() -> None:
    for hidden in (0, HIDDEN):
        game = Game("KS 5D:glass")
        game.s[st.CARD + game.s[st.HAND + 1]] |= hidden
        mask = np.zeros(act.n_actions(12), dtype=bool)
        obs = np.zeros((1, game.obs.shape[1]), dtype=np.float32)
        engine.observe(game.games.s, game.games.f, obs, mask[None], 12)
        assert mask[act.MOVE_CARD + 1] == (hidden == 0)


def test_no_score_beats_ante_39() -> None:
    game = Game("KS", ante=39, target=float("inf"))
    game.f[st.CHIPS] = float("inf")
    game.s[st.HANDS_LEFT] = 1
    game.play(0)
    assert game.s[st.PHASE] == n.GAME_OVER and not game.s[st.WON]


def test_first_ancient_joker_suit_may_be_any_of_the_four() -> None:
    first = {int(SeedExplorer(seed).s[st.ANCIENT_SUIT]) for seed in range(40)}
    assert first == {0, 1, 2, 3}


def test_streams_of_earlier_antes_continue_after_hieroglyph() -> None:
    explorer = SeedExplorer("7I4M53DL")
    a = explorer.numbers(streams.CDT, 2)
    explorer.s[st.ANTE] = 2
    second_ante = explorer.numbers(streams.CDT, 1)
    explorer.s[st.ANTE] = 1
    again = explorer.numbers(streams.CDT, 1)
    explorer.forget_draws()
    assert [*a, *again] == explorer.numbers(streams.CDT, 3)
    assert second_ante != [a[0]]
