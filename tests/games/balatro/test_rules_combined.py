"""Combinations of rules, computed by hand: copies, retriggers, stickers, disabled bosses, money, names."""

from __future__ import annotations

import pytest
from tabletop import NO_PROC, PROC, Game, joker

from ludus.games.balatro import actions as act
from ludus.games.balatro import chance
from ludus.games.balatro import names as n
from ludus.games.balatro import state as st
from ludus.games.balatro.bosses import blind_target
from ludus.games.balatro.score import joker_number

LOW = "2S 3C 3D 4C 4D 6C 6D 7C"  # nothing but numbers; the two of spades is played alone


def sticker(game: Game, at: int, bits: int) -> Game:
    game.s[st.J_STICKERS + at] |= bits
    game.observe()
    return game


# ---- copies


@pytest.mark.parametrize(
    ("jokers", "mult"),
    [
        (["Blueprint", "Blueprint", "Joker"], 13),
        (["Joker", "Blueprint", "Brainstorm"], 13),
        (["Blueprint", "Brainstorm", "Joker"], 5),  # the two copy each other
        (["Brainstorm", "Joker"], 5),  # the leftmost has nothing to copy
        (["Joker", "Blueprint"], 5),
        (["Blueprint", {"name": "Joker", "debuffed": True}], 1),
        ([{"name": "Blueprint", "debuffed": True}, "Joker"], 5),
        (
            [{"name": "Blueprint", "edition": "Holographic"}, "Splash"],
            11,
        ),  # its own edition, whatever it copies
    ],
)
def test_blueprint_copies_its_right_neighbour_and_brainstorm_the_leftmost(jokers: list, mult: int) -> None:
    assert Game(LOW, jokers).play(0).mult == mult


def test_copies_retrigger_held_kings_and_red_seals_repeat_all_of_it() -> None:
    # a steel king with a Red seal: once, for Mime, for the seal; each time steel and two Barons
    game = Game("2S KH:steel:red 3C 3D 4C 4D 6C 6D", ["Blueprint", "Baron", "Mime"]).play(0)
    assert game.mult == pytest.approx((1.5**3) ** 3)


def test_growing_is_not_copied() -> None:
    # Blueprint adds the 2 that Spare Trousers has after growing once
    game = Game("KS KH 2C 2D", ["Blueprint", "Spare Trousers"]).play(0, 1, 2, 3)
    assert (game.value(1), game.mult) == (2, 2 + 2 + 2)


def test_burnt_joker_and_its_copy_raise_two_levels_and_only_for_the_first_discard() -> None:
    game = Game("KS KH 2C 3D", ["Blueprint", "Burnt Joker"]).discard(0, 1)
    assert game.level("Pair") == 3
    game.discard(0)
    assert game.level("High Card") == 1


def test_perkeo_and_its_copy_make_two_negative_copies_beyond_the_limit() -> None:
    game = Game("KS", ["Blueprint", "Perkeo"], consumables=[n.C_SUN, n.C_SUN]).to_shop().do(act.NEXT_ROUND)
    assert game.consumables == [n.C_SUN] * 4
    assert list(game.s[st.C_EDITION : st.C_EDITION + 4]) == [0, 0, n.NEGATIVE, n.NEGATIVE]


# ---- retriggers


def test_each_reason_to_retrigger_counts_once_more() -> None:
    # Hack, Sock and Buskin (with Pareidolia), Seltzer and a Red seal: 5 triggers of a two
    game = Game("2S:red", ["Pareidolia", "Sock and Buskin", "Hack", "Seltzer"]).play(0)
    assert game.chips == 5 + 5 * 2


def test_photograph_is_repeated_with_the_card_that_hanging_chad_repeats() -> None:
    # pair of kings: mult 2, doubled for three triggers of the first king
    assert Game("KS KH", ["Photograph", "Hanging Chad"]).play(0, 1).mult == 2 * 2**3


def test_lucky_cat_grows_for_each_lucky_trigger() -> None:
    # first trigger: +20 mult; second: $20; the cat is worth 1.5 by its turn
    game = Game("AS:lucky:red", ["Lucky Cat"], money=4)
    game.play(0, given=[PROC, NO_PROC, NO_PROC, PROC])
    assert (game.mult, game.money) == ((1 + 20) * 1.5, 24)


def test_glass_doubles_at_every_trigger_and_may_break_once() -> None:
    game = Game("KS:glass:red", ["Sock and Buskin"]).play(0, given=[PROC])
    assert (game.mult, game[st.N_CARDS]) == (2**3, 51)


def test_a_gold_seal_pays_at_every_trigger() -> None:
    assert Game("KS:gold", ["Hanging Chad"], money=4).play(0).money == 4 + 3 * 3


def test_mime_repeats_gold_cards_and_blue_seals_at_the_end_of_the_round() -> None:
    # gold 2 x 3; $10 give 2 interest; blind 3, hands 3; two planets of High Card
    game = Game("KS 2H:goldcard 3H:blue", ["Mime"], money=4).to_shop()
    assert game.money == 10 + 2 + 3 + 3
    assert game.consumables == [n.C_PLUTO] * 2


def test_a_purple_seal_makes_a_tarot_also_when_the_hook_discards_it() -> None:
    game = Game("KS 2H:purple 3H:purple", blind=n.BL_HOOK)
    game.play(0, given=[(chance.GIVEN_DISCARD, 0), (chance.GIVEN_DISCARD, 1)])
    assert len(game.consumables) == 2


# ---- jokers and what changes them


def test_ride_the_bus_asks_for_faces_that_score() -> None:
    assert Game("2S 2H KC", ["Ride the Bus"]).play(0, 1, 2).value() == 1
    assert Game("2S 2H KC", [{"name": "Ride the Bus", "value": 5}, "Splash"]).play(0, 1, 2).value() == 0
    assert Game("2S", [{"name": "Ride the Bus", "value": 5}, "Pareidolia"]).play(0).value() == 0


def test_hologram_counts_a_copy_in_the_hand_that_makes_it() -> None:
    assert Game("2S 3H", ["Hologram", "DNA"]).play(0).mult == 1.25
    assert Game("2S 3H", ["Hologram"], consumables=[n.C_CRYPTID]).use(0, 0).value() == 1.5


def test_campfire_burns_down_with_a_boss_only() -> None:
    game = Game("KS", ["Campfire", "Egg"], consumables=[n.C_SUN, n.C_MOON])
    game.do(act.SELL_CONSUMABLE).do(act.SELL_CONSUMABLE).do(act.SELL_JOKER + 1)
    assert game.value() == 1.75
    assert game.win_round().value() == 1.75
    boss = Game("KS", [{"name": "Campfire", "value": 1.75}], blind=n.BL_WALL)
    assert boss.win_round().value() == 1


def test_trading_card_destroys_a_king_that_caino_counts() -> None:
    game = Game("KS 2H", ["Trading Card", "Canio"], money=4).discard(0)
    assert (game.money, game.value(1), game[st.N_CARDS]) == (7, 2, 51)


def test_smeared_suits_let_four_kings_of_two_suits_fill_a_flower_pot() -> None:
    # hearts stand for hearts and diamonds, spades for spades and clubs: four of a kind 7 x 3
    assert Game("KS KS KH KH", ["Smeared Joker", "Flower Pot"]).play(0, 1, 2, 3).mult == 21


def test_invisible_joker_copies_after_two_rounds_and_not_before() -> None:
    game = Game("KS", [{"name": "Invisible Joker", "count": 1}, "Egg"])
    assert game.do(act.SELL_JOKER).jokers == ["Egg"]
    ready = {"name": "Invisible Joker", "count": 2}
    game = Game("KS", [ready, {"name": "Castle", "value": 30, "edition": "Negative"}]).do(act.SELL_JOKER)
    assert (game.jokers, game.value(1)) == (["Castle", "Castle"], 30)
    assert list(game.s[st.J_EDITION : st.J_EDITION + 2]) == [n.NEGATIVE, 0]


def test_satellite_pays_for_different_planets() -> None:
    game = Game("KS", ["Satellite"], consumables=[n.C_PLUTO, n.C_PLUTO]).use().use()
    assert game.to_shop().money == 4 + 1 + 3 + 3


def test_only_one_of_two_mr_bones_is_used_up() -> None:
    game = Game("KS", ["Mr. Bones", "Mr. Bones"], target=60)
    game[st.HANDS_LEFT] = 1
    assert game.play(0).jokers == ["Mr. Bones"]


# ---- stickers


def test_an_eternal_joker_is_neither_sold_nor_destroyed() -> None:
    game = sticker(Game(jokers=["Ceremonial Dagger", "Egg"]), 1, st.ETERNAL)
    assert not game.can(act.SELL_JOKER + 1)
    game.do(act.TAKE_BLIND)
    assert (game.jokers, game.value()) == (["Ceremonial Dagger", "Egg"], 0)
    game = sticker(Game("KS", ["Joker", "Egg"], consumables=[n.C_HEX]), 1, st.ETERNAL)
    assert game.use(0, given=[(chance.GIVEN_POSITION, 0)]).jokers == ["Joker", "Egg"]


def test_a_perishable_joker_does_nothing_after_five_rounds_and_shrinks_the_hand_it_enlarged() -> None:
    game = sticker(Game("KS", ["Juggler", "Joker"]), 0, st.PERISHABLE)
    game.s[st.J_PERISH] = 5
    for round_number in range(1, 6):
        assert game[st.HAND_SIZE] == 9
        game.to_shop().do(act.NEXT_ROUND)
        if round_number < 5:
            game.s[st.BLIND_ON_DECK] = 0
            game.observe()
            game.do(act.TAKE_BLIND)
    assert game[st.HAND_SIZE] == 8
    assert game.s[st.J_STICKERS] & st.DEBUFFED


def test_a_rental_joker_costs_one_and_sells_for_one() -> None:
    given = [(chance.GIVEN_SHOP, joker("Blueprint")), (chance.GIVEN_STICKERS, st.RENTAL)]
    game = Game("KS", money=20).to_shop(given)
    money = game.money
    assert game.do(act.BUY).money == money - 1
    assert game.do(act.SELL_JOKER).money == money


# ---- bosses


def test_amber_acorn_mixes_the_jokers_after_they_had_their_turn() -> None:
    orders = set()
    for seed in range(1, 13):
        game = Game("KS", ["Ceremonial Dagger", "Egg", "Joker"], blind=n.BL_FINAL_ACORN, seed=seed)
        # the Dagger takes its right neighbour as they stood before: twice the $2 of an Egg
        assert game.value(game.jokers.index("Ceremonial Dagger")) == 4
        orders.add(tuple(game.jokers))
    assert orders == {("Joker", "Ceremonial Dagger"), ("Ceremonial Dagger", "Joker")}
    assert all(game.s[st.J_STICKERS + i] & st.FACE_DOWN for i in range(2))
    game.win_round()
    assert not game.s[st.J_STICKERS] & st.FACE_DOWN


def test_jokers_created_by_riff_raff_at_amber_acorn_are_face_up() -> None:
    game = Game("KS", ["Riff-raff"], blind=n.BL_FINAL_ACORN)
    up = [not game.s[st.J_STICKERS + i] & st.FACE_DOWN for i in range(3)]
    assert sorted(up) == [False, True, True]


@pytest.mark.parametrize(
    ("blind", "cell", "value"),
    [(n.BL_NEEDLE, st.HANDS_LEFT, 4), (n.BL_WATER, st.DISCARDS_LEFT, 4), (n.BL_MANACLE, st.N_HAND, 8)],
)
def test_chicot_gives_back_what_the_boss_took(blind: int, cell: int, value: int) -> None:
    assert Game("KS", ["Chicot"], blind=blind)[cell] == value
    assert Game("KS", blind=blind)[cell] < value


def test_chicot_halves_the_wall_before_it_is_played() -> None:
    wall = Game(jokers=["Chicot"], blind=n.BL_WALL).do(act.TAKE_BLIND)
    assert wall.f[st.TARGET] == 300 * 4 / 2


def test_selling_a_blueprint_of_luchador_disables_the_boss_and_luchador_in_a_shop_does_nothing() -> None:
    game = Game("KC", ["Blueprint", "Luchador"], blind=n.BL_CLUB)
    assert game.card_at(0) >> 16 & 1
    game.do(act.SELL_JOKER)
    assert not game.card_at(0) >> 16 & 1
    assert (game.jokers, game[st.BOSS_OFF]) == (["Luchador"], 1)
    assert Game("KS", ["Luchador"]).to_shop().do(act.SELL_JOKER)[st.BOSS_OFF] == 0


def test_smeared_suits_widen_the_club_and_a_wild_card_belongs_to_every_suit() -> None:
    game = Game("KS KH:wild QH", ["Smeared Joker"], blind=n.BL_CLUB)
    assert [game.card_at(i) >> 16 & 1 for i in range(3)] == [1, 1, 0]


@pytest.mark.parametrize(("blind", "money"), [(n.BL_PSYCHIC, 12), (n.BL_FLINT, 12), (n.BL_WALL, 4)])
def test_matador_is_paid_when_the_boss_forbids_or_halves_a_hand(blind: int, money: int) -> None:
    assert Game("KS", ["Matador"], blind=blind, money=4).play(0).money == money


def test_crimson_heart_never_takes_the_same_joker_twice_running() -> None:
    game = Game("KS KH KC KD 2S 2H", ["Joker", "Egg"], blind=n.BL_FINAL_HEART)
    for _ in range(4):
        before = [bool(game.s[st.J_STICKERS + i] & st.DEBUFFED) for i in range(2)]
        assert sum(before) == 1
        game.play(0)
        if game[st.PHASE] != n.SELECTING_HAND:
            break
        assert [bool(game.s[st.J_STICKERS + i] & st.DEBUFFED) for i in range(2)] == before[::-1]


def test_retcon_rerolls_as_often_as_it_is_paid() -> None:
    game = Game(money=35, vouchers=[n.V_DIRECTORS_CUT, n.V_RETCON])
    for left in (25, 15, 5):
        assert game.do(act.REROLL_BOSS).money == left
    assert not game.can(act.REROLL_BOSS)


# ---- money and the shop


@pytest.mark.parametrize(
    ("vouchers", "jokers", "interest"),
    [
        ([], [], 5),
        ([n.V_SEED_MONEY], [], 10),
        ([n.V_SEED_MONEY, n.V_MONEY_TREE], [], 20),
        ([n.V_SEED_MONEY, n.V_MONEY_TREE], ["To the Moon"], 40),
    ],
)
def test_interest_is_capped_by_vouchers_and_multiplied_by_to_the_moon(
    vouchers: list[int], jokers: list[str], interest: int
) -> None:
    assert Game("KS", jokers, money=200, vouchers=vouchers).to_shop().money == 200 + interest + 3 + 3


def test_overstock_fills_its_new_place_and_those_that_were_emptied() -> None:
    game = Game("KS", money=100).to_shop([(chance.GIVEN_VOUCHER, n.V_OVERSTOCK_NORM)])
    game.s[st.SHOP_VOUCHER] = n.V_OVERSTOCK_NORM
    game.observe()
    game.do(next(a for a in (act.BUY, act.BUY + 1) if game.can(a)))
    game.do(act.REDEEM)
    assert sum(item != 0 for item in game.s[st.SHOP : st.SHOP + st.SHOP_SLOTS]) == 3


def test_plasma_doubles_what_a_blind_asks_for() -> None:
    assert blind_target(Game(deck=n.B_PLASMA).s, n.BL_SMALL) == 600


def test_a_negative_joker_of_the_shop_fits_into_a_full_row() -> None:
    full = ["Joker", "Splash", "Shortcut", "Egg", "Popcorn"]
    given = [(chance.GIVEN_SHOP, joker("Castle")), (chance.GIVEN_SHOP_EDITION, n.NEGATIVE)]
    game = Game("KS", full, money=50).to_shop([*given, (chance.GIVEN_SHOP, joker("Mime"))])
    assert game.can(act.BUY)
    assert not game.can(act.BUY + 1)
    assert len(game.do(act.BUY).jokers) == 6


# ---- names


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("Canio", n.J_CAINO),
        ("Caino", n.J_CAINO),
        ("j_caino", n.J_CAINO),
        ("Séance", n.J_SEANCE),
        ("mail in rebate", n.J_MAIL),
        ("Driver’s License", n.J_DRIVERS_LICENSE),
        ("Gluttenous Joker", n.J_GLUTTENOUS_JOKER),
    ],
)
def test_a_joker_is_found_by_every_spelling_the_game_has(name: str, number: int) -> None:
    assert joker_number(name) == number
