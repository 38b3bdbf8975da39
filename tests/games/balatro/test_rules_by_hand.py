"""Rules of the game in cases computed by hand: order of effects, timing and combinations."""

from __future__ import annotations

from typing import Any

import pytest
from tabletop import NO_PROC, PROC, Game, joker

from ludus.games.balatro import actions as act
from ludus.games.balatro import chance
from ludus.games.balatro import names as n
from ludus.games.balatro import state as st
from ludus.games.balatro.cards import PLAYED_ANTE
from ludus.games.balatro.score import score

_RANKS = {"T": "10", "J": "Jack", "Q": "Queen", "K": "King", "A": "Ace"}
_SUITS = {"S": "Spades", "H": "Hearts", "C": "Clubs", "D": "Diamonds"}


def card(token: str, **more: Any) -> dict[str, Any]:
    """Return `KS` as a played card, or with `held=True` as a held one."""
    played = not more.pop("held", False)
    return {"rank": _RANKS.get(token[0], token[0]), "suit": _SUITS[token[1]], "played": played, **more}


def hand(*cards: dict[str, Any], jokers: tuple[Any, ...] = (), **state: Any) -> Any:
    named = [{"name": j} if isinstance(j, str) else j for j in jokers]
    return score({"cards": list(cards), "jokers": named, **state})


def sticker(game: Game, at: int, bits: int) -> None:
    game.s[st.J_STICKERS + at] |= bits
    game.observe()


# ---- the order within a card and between cards


@pytest.mark.parametrize(
    ("played", "jokers", "mult"),
    [
        # mult of the card, its edition, then jokers: (1 + 4) x 1.5 + 5
        (card("KS", enhancement="Mult", edition="Polychrome"), ("Smiley Face",), 12.5),
        # glass before the edition: 1 x 2 + 10
        (card("KS", enhancement="Glass", edition="Holographic"), (), 12),
        # glass, then jokers left to right: (1 x 2 + 5) x 2 and (1 x 2 x 2) + 5
        (card("KS", enhancement="Glass"), ("Smiley Face", "Photograph"), 14),
        (card("KS", enhancement="Glass"), ("Photograph", "Smiley Face"), 9),
        # the whole of it again for the red seal: ((1 x 2 x 2) + 5) x 2 x 2 + 5
        (card("KS", enhancement="Glass", seal="Red"), ("Photograph", "Smiley Face"), 41),
    ],
)
def test_a_card_gives_mult_then_factor_then_edition_and_then_jokers_answer(
    played: dict[str, Any], jokers: tuple[str, ...], mult: float
) -> None:
    assert hand(played, jokers=jokers).mult == mult


def test_held_cards_give_steel_first_and_are_repeated_whole() -> None:
    # 1 x 1.5 + 13 = 14.5, again for the seal: 14.5 x 1.5 + 13 = 34.75, again for Mime: 65.125
    held = card("QH", held=True, enhancement="Steel", seal="Red")
    assert hand(card("2S"), held, jokers=("Shoot the Moon",)).mult == 34.75
    assert hand(card("2S"), held, jokers=("Shoot the Moon", "Mime")).mult == 65.125


def test_raised_fist_counts_an_ace_as_eleven_and_is_repeated_by_mime_and_its_copies() -> None:
    # 1 + 3 x 2 x 11: once, for Mime, for Blueprint on Mime
    answer = hand(card("2S"), card("AH", held=True), jokers=("Raised Fist", "Blueprint", "Mime"))
    assert answer.mult == 1 + 3 * 22


def test_a_held_stone_card_is_not_the_lowest_and_no_king() -> None:
    stone, king = card("2H", held=True, enhancement="Stone"), card("KH", held=True, enhancement="Stone")
    assert hand(card("2S"), card("9H", held=True), stone, jokers=("Raised Fist",)).mult == 1 + 18
    assert hand(card("2S"), king, jokers=("Baron",)).mult == 1


def test_baseball_card_answers_before_the_polychrome_of_the_joker_it_answers_to() -> None:
    # Shortcut (Uncommon, Polychrome): x1.5 for Baseball, x1.5 for the edition; Joker (Common): + 4; Baseball is Rare
    uncommon = {"name": "Shortcut", "edition": "Polychrome"}
    assert hand(card("2S"), jokers=(uncommon, "Joker", "Baseball Card")).mult == 1.5 * 1.5 + 4
    # a debuffed Uncommon joker counts, its edition does not; Blueprint answers too
    debuffed = {**uncommon, "debuffed": True}
    assert hand(card("2S"), jokers=(debuffed, "Joker", "Blueprint", "Baseball Card")).mult == 1.5**2 + 4


def test_a_debuffed_first_card_keeps_hanging_chad_from_the_second() -> None:
    # pair of kings: 10 + 10 for the second king alone
    answer = hand(card("KS", debuffed=True), card("KH"), jokers=("Hanging Chad",))
    assert answer.chips == 10 + 10


def test_splash_makes_the_leftmost_played_card_the_first_that_scores() -> None:
    # 5 + 3 x 2 (Hanging Chad on the two) + 10
    assert hand(card("2S"), card("KH"), jokers=("Splash", "Hanging Chad")).chips == 5 + 6 + 10


def test_smeared_suits_make_one_black_card_a_club_and_another_suit() -> None:
    assert hand(card("KS"), jokers=("Seeing Double", "Smeared Joker")).mult == 2
    assert hand(card("KH"), jokers=("Seeing Double", "Smeared Joker")).mult == 1


def test_flower_pot_sees_debuffed_cards_but_no_debuffed_wild() -> None:
    four = [card("KS"), card("KH"), card("KC"), card("KD", debuffed=True)]
    assert hand(*four, jokers=("Flower Pot",)).mult == 7 * 3
    wild = [*four[:3], card("KS", enhancement="Wild", debuffed=True)]
    assert hand(*wild, jokers=("Flower Pot",)).mult == 7


def test_a_debuffed_wild_card_makes_a_flush_of_its_own_suit_only() -> None:
    spades = [card(c) for c in ("2S", "5S", "7S", "9S")]
    assert hand(*spades, card("JH", enhancement="Wild")).hand == "Flush"
    assert hand(*spades, card("JH", enhancement="Wild", debuffed=True)).hand == "High Card"
    assert hand(*spades, card("JS", enhancement="Wild", debuffed=True)).hand == "Flush"


def test_a_straight_flush_of_four_fingers_scores_the_straight_and_the_flush() -> None:
    # spades 2 3 4 9 are the flush, 2 3 4 5 the straight: all five score, 100 + 2 + 3 + 4 + 5 + 9
    cards = [card(c) for c in ("9S", "5H", "4S", "3S", "2S")]
    answer = hand(*cards, jokers=("Four Fingers",))
    assert (answer.hand, answer.chips) == ("Straight Flush", 123)


def test_a_straight_of_four_fingers_scores_both_cards_of_a_rank() -> None:
    # 30 + 5 + 5 + 4 + 3 + 2
    cards = [card(c) for c in ("5H", "5D", "4S", "3S", "2C")]
    answer = hand(*cards, jokers=("Four Fingers",))
    assert (answer.hand, answer.chips) == ("Straight", 49)


def test_an_ace_does_not_close_a_shortcut_around_the_corner() -> None:
    # J K A 2 4 is no straight; A 2 4 6 8 and 8 T J K A are
    for tokens, name in (
        ("JH KD AS 2C 4C", "High Card"),
        ("AH 2D 4S 6C 8C", "Straight"),
        ("8H TD JS KC AC", "Straight"),
    ):
        assert hand(*(card(c) for c in tokens.split()), jokers=("Shortcut",)).hand == name


def test_four_of_a_kind_contains_three_and_a_pair_but_not_two_pair() -> None:
    kings = [card(c) for c in ("KS", "KH", "KC", "KD")]
    assert hand(*kings, jokers=("Zany Joker", "Jolly Joker")).mult == 7 + 12 + 8
    assert hand(*kings, jokers=("Mad Joker", "Spare Trousers")).mult == 7


def test_a_full_house_counts_as_two_pair() -> None:
    cards = [card(c) for c in ("KS", "KH", "KC", "2D", "2C")]
    # 4 + 10 for Mad Joker + 2 for Spare Trousers
    assert hand(*cards, jokers=("Mad Joker", "Spare Trousers")).mult == 16


def test_stencil_counts_free_places_and_itself_and_is_copied() -> None:
    # 5 places, 3 jokers: 2 free + 1 Stencil = 3, twice
    assert hand(card("2S"), jokers=("Blueprint", "Joker Stencil", "Shortcut")).mult == 9
    # Negative brings its own place: 3 free + 1
    negative = {"name": "Shortcut", "edition": "Negative"}
    assert hand(card("2S"), jokers=("Joker Stencil", negative, "Splash")).mult == 4


def test_swashbuckler_reads_the_sell_values_of_the_others() -> None:
    # Joker $2 -> 1, Foil Cavendish (4 + 2) -> 3; a copy reads the same four
    foil = {"name": "Cavendish", "edition": "Foil", "debuffed": True}
    assert hand(card("2S"), jokers=("Joker", "Swashbuckler", foil)).mult == 1 + 4 + 4


def test_the_flint_rounds_half_up() -> None:
    # Pair at level 2: 25 x 3 -> floor(12.5 + .5) x floor(1.5 + .5) = 13 x 2; kings: + 20
    game = Game("KS KH", blind=n.BL_FLINT)
    game[st.LEVEL + n.PAIR] = 2
    game.play(0, 1)
    assert (game.chips, game.mult) == (33, 2)


def test_plasma_balances_after_observatory_and_the_score_is_floored() -> None:
    # pair of kings 30 x 2, Jupiter twice for a Flush does nothing, Mercury x1.5: 30 x 3 -> 16 x 16 of 33 / 2
    game = Game(
        "KS KH",
        deck=n.B_PLASMA,
        vouchers=[n.V_OBSERVATORY],
        consumables=[n.C_MERCURY, n.C_JUPITER],
    ).play(0, 1)
    assert (game.chips, game.mult) == (16, 16)
    assert game.f[st.CHIPS] == 256


# ---- money inside a hand


def test_bull_counts_what_the_hand_has_earned_and_vagabond_does_not() -> None:
    # $4 and a diamond with a Gold seal: 4 + 1 + 3 = 8, Bull adds 16; Vagabond sees the $4 from before
    game = Game("KD:gold", ["Rough Gem", "Bull", "Vagabond"], money=4)
    game.play(0, given=[(chance.GIVEN_ITEM, n.C_SUN)])
    assert (game.chips, game.money, game.consumables) == (15 + 16, 8, [n.C_SUN])


def test_the_tooth_takes_its_dollars_and_the_ox_all_of_them_before_bull_counts() -> None:
    # 10 - 2 cards = 8
    assert Game("KS KH", ["Bull"], blind=n.BL_TOOTH, money=10).play(0, 1).chips == 30 + 16
    assert Game("KS", ["Bull"], blind=n.BL_OX, money=10).play(0).chips == 15


def test_matador_is_paid_for_what_the_boss_does_to_a_hand_not_to_cards_or_purse() -> None:
    # the game forgets the Hook's and the Tooth's trigger before the hand is scored
    assert Game("KS 2H 3C", ["Matador"], blind=n.BL_HOOK, money=4).play(0).money == 4
    assert Game("KS 2H 3C", ["Matador"], blind=n.BL_TOOTH, money=4).play(0).money == 3
    assert Game("KS 2H 3C", ["Matador"], blind=n.BL_OX, money=4).play(0).money == 8  # 0 + 8
    # a debuffed card must score to count
    assert Game("KS 2C", ["Matador"], blind=n.BL_CLUB, money=4).play(0, 1).money == 4


def test_gold_cards_are_paid_before_interest_is_counted() -> None:
    # $4, one gold card held: 7 -> interest 1; blind 3, three hands left 3
    assert Game("KS 2H:goldcard", money=4).to_shop().money == 4 + 3 + 1 + 3 + 3


def test_to_the_moon_doubles_interest_within_the_cap() -> None:
    # $40: 8 fives, capped at 5, twice; blind 3, three hands left 3
    assert Game("KS", ["To the Moon"], money=40).to_shop().money == 40 + 10 + 3 + 3


def test_mr_bones_saves_at_a_quarter_and_the_blind_pays_nothing() -> None:
    # 15 of 60 is a quarter; no blind reward, no hand left, $4 give no interest
    game = Game("KS", ["Mr. Bones"], target=60, money=4)
    game[st.HANDS_LEFT] = 1
    game.play(0)
    assert (game[st.PHASE], game.jokers) == (n.CASHING_OUT, [])
    assert game.do(act.CASH_OUT).money == 4
    lost = Game("KS", ["Mr. Bones"], target=61)
    lost[st.HANDS_LEFT] = 1
    assert lost.play(0)[st.PHASE] == n.GAME_OVER


def test_a_rental_joker_costs_its_three_dollars_in_the_round_that_ends_it() -> None:
    # Popcorn at 4 is eaten; $10 - 3 = 7 -> interest 1; blind 3, hands 3
    game = Game("KS", [{"name": "Popcorn", "value": 4}], money=10)
    sticker(game, 0, st.RENTAL)
    game.to_shop()
    assert (game.jokers, game.money) == ([], 7 + 1 + 3 + 3)


# ---- jokers that change cards


def test_vampire_and_midas_mask_act_from_left_to_right() -> None:
    # Vampire, then Midas Mask: 1.1 and a gold king; Midas Mask, then Vampire: 1.1 and a plain king
    first = Game("KS:glass", ["Vampire", "Midas Mask"]).play(0)
    assert (first.value(), first.mult) == (1.1, 1.1)
    second = Game("KS:glass", ["Midas Mask", "Vampire"]).play(0)
    assert (second.value(1), second.mult) == (1.1, 1.1)
    gold = [int(c) >> 6 & 15 for c in first.s[st.CARD : st.CARD + 52]].count(n.M_GOLD)
    assert gold == 1
    assert n.M_GOLD not in [int(c) >> 6 & 15 for c in second.s[st.CARD : st.CARD + 52]]


def test_vampire_takes_the_enhancement_of_a_card_once_per_hand() -> None:
    # the second Vampire does not take the gold that Midas Mask gave to the same card
    game = Game("KS:glass", ["Vampire", "Midas Mask", "Vampire"]).play(0)
    assert (game.value(0), game.value(2)) == (1.1, 1.0)


def test_the_deck_is_counted_before_the_hand_changes_it() -> None:
    # Steel Joker counts the steel king whose enhancement Vampire takes: 1 x 1.1 (Vampire) x 1.2
    assert Game("KS:steel", ["Vampire", "Steel Joker"]).play(0).mult == pytest.approx(1.1 * 1.2)
    # the copy that DNA makes is held already (x1.5) but counts from the next hand on: one steel card
    assert Game("KS:steel", ["DNA", "Steel Joker"]).play(0).mult == pytest.approx(1.5 * 1.2)


def test_stone_card_scores_its_rank_after_vampire() -> None:
    # 5 + 10 for the high king + 2 for the two that was stone
    assert Game("KS 2H:stone", ["Vampire"]).play(0, 1).chips == 17


def test_a_copy_was_played_in_this_ante_like_its_original() -> None:
    game = Game("KS 2H", ["DNA"]).play(0)
    kings = [int(c) for c in game.s[st.CARD : st.CARD + 60] if int(c) & 63 == 13]
    assert len(kings) == 2
    assert all(c & PLAYED_ANTE for c in kings)


def test_glass_joker_sees_glass_that_the_hanged_man_breaks_but_none_that_spectrals_take() -> None:
    game = Game("KS:glass 2H:glass", ["Glass Joker"], consumables=[n.C_HANGED_MAN]).use(0, 0, 1)
    assert game.value() == 1 + 2 * 0.75
    cards = " ".join(f"{rank}S:glass" for rank in "23456789")
    assert Game(cards, ["Glass Joker"], consumables=[n.C_IMMOLATE]).use().value() == 1


def test_caino_counts_faces_however_they_are_destroyed() -> None:
    game = Game("KS 2H", ["Caino"], consumables=[n.C_HANGED_MAN]).use(0, 0, 1)
    assert game.value() == 2
    cards = "KS QS JS KH QH JH KC QC"
    assert Game(cards, ["Caino"], consumables=[n.C_IMMOLATE]).use().value() == 6


def test_glass_cards_break_from_left_to_right() -> None:
    game = Game("KS:glass KH:glass").play(0, 1, given=[PROC, NO_PROC])
    assert 13 not in [int(c) & 63 for c in game.s[st.CARD : st.CARD + 52]]  # the king of spades
    assert game[st.N_CARDS] == 51


# ---- when a blind is taken on


def jokers_beside(*names: str, blind: int = n.BL_SMALL, given: tuple[tuple[int, int], ...] = ()) -> Game:
    return Game("KS", names, blind=blind, given=given)


def test_slot_of_a_joker_destroyed_by_madness_is_not_free_for_riff_raff() -> None:
    game = jokers_beside(
        "Madness", "Riff-raff", "Joker", "Joker", "Joker", given=((chance.GIVEN_POSITION, 3),)
    )
    assert game.jokers == ["Madness", "Riff-raff", "Joker", "Joker"]


def test_slot_of_a_joker_destroyed_by_the_dagger_is_free_for_riff_raff() -> None:
    game = jokers_beside(
        *("Ceremonial Dagger", "Joker", "Riff-raff", "Splash", "Splash"),
        given=((chance.GIVEN_ITEM, joker("Egg")),),
    )
    assert game.jokers == ["Ceremonial Dagger", "Riff-raff", "Splash", "Splash", "Egg"]
    assert game.value() == 2  # twice the $1 a Joker sells for


def test_madness_cannot_destroy_jokers_created_in_the_same_turn() -> None:
    given = ((chance.GIVEN_ITEM, joker("Egg")), (chance.GIVEN_ITEM, joker("Popcorn")))
    game = jokers_beside("Riff-raff", "Madness", given=given)
    assert game.jokers == ["Madness", "Egg", "Popcorn"]


def test_destroyed_joker_has_no_further_effect() -> None:
    game = jokers_beside("Ceremonial Dagger", "Marble Joker")
    assert game[st.N_CARDS] == 52
    # nor does its copy
    game = jokers_beside("Ceremonial Dagger", "Blueprint", "Marble Joker")
    assert (game[st.N_CARDS], game.jokers) == (53, ["Ceremonial Dagger", "Marble Joker"])


def test_chicot_disables_the_water_after_burglar_has_thrown_its_discards_away() -> None:
    # The Water took 4, Burglar throws the 0 left away and adds 3 hands, Chicot gives the 4 back
    game = jokers_beside("Chicot", "Burglar", blind=n.BL_WATER)
    assert (game[st.HANDS_LEFT], game[st.DISCARDS_LEFT]) == (7, 4)


# ---- bosses


def test_the_ox_takes_the_hand_played_most_when_the_last_boss_was_beaten() -> None:
    # before any boss that is High Card, whatever was played since
    game = Game("KS KH 2C", blind=n.BL_OX, money=30)
    game[st.PLAYED + n.PAIR] = 7
    assert game.play(0, 1).money == 30
    assert game.play(0).money == 0


def test_only_a_beaten_boss_changes_the_hand_of_the_ox() -> None:
    game = Game("KS KH")
    game.f[st.TARGET] = 1
    assert game.play(0, 1)[st.MOST_PLAYED] == n.HIGH_CARD
    game = Game("KS KH", blind=n.BL_WALL)
    game.f[st.TARGET] = 1
    assert game.play(0, 1)[st.MOST_PLAYED] == n.PAIR


def test_selling_luchador_at_a_wall_that_is_half_beaten_ends_the_round() -> None:
    game = Game("KS", ["Luchador"], blind=n.BL_WALL, target=30)
    game.play(0)  # 15 of 30
    assert game[st.PHASE] == n.SELECTING_HAND
    game.do(act.SELL_JOKER)
    assert game[st.PHASE] == n.CASHING_OUT


def test_selling_luchador_at_the_manacle_draws_two_cards() -> None:
    # the hand grows back to 8 and draws for it, and the boss draws one more
    game = Game("KS", ["Luchador"], blind=n.BL_MANACLE)
    assert len(game.hand) == 7
    game.do(act.SELL_JOKER)
    assert (len(game.hand), game[st.HAND_SIZE]) == (9, 8)


def test_selling_pareidolia_at_the_plant_frees_the_cards_without_a_face() -> None:
    game = Game("KS 2H", ["Pareidolia"], blind=n.BL_PLANT)
    assert game.card_at(1) >> 16 & 1
    game.do(act.SELL_JOKER)
    assert game.card_at(0) >> 16 & 1
    assert not game.card_at(1) >> 16 & 1


def test_a_hand_that_grows_as_the_round_ends_draws_nothing() -> None:
    # Stuntman perishes: 6 cards, one played, 5 gold cards held pay 15; $19 -> interest 3; blind 3, hands 3
    game = Game("KS", ["Stuntman"], money=4)
    sticker(game, 0, st.PERISHABLE)
    game.s[st.J_PERISH] = 1
    for place in range(52):
        game.s[st.CARD + place] |= n.M_GOLD << 6
    assert game.to_shop().money == 4 + 15 + 3 + 3 + 3


def test_the_serpent_draws_three_cards_whatever_was_played() -> None:
    game = Game("KS KH KC KD 2S", blind=n.BL_SERPENT)
    assert len(game.play(0).hand) == 7 + 3
    assert len(game.discard(0, 1, 2, 3, 4).hand) == 5 + 3


def test_the_arm_takes_its_level_before_the_hand_is_scored_and_spares_level_one() -> None:
    # Pair at level 3 (40 x 4) is played at level 2: 25 x 3 + 20
    game = Game("KS KH 2C", blind=n.BL_ARM)
    game[st.LEVEL + n.PAIR] = 3
    game.play(0, 1)
    assert (game.chips, game.mult, game.level("Pair")) == (45, 3, 2)
    assert game.play(0).s[st.LEVEL + n.HIGH_CARD] == 1


def test_the_eye_and_the_mouth_forbid_by_name_and_a_forbidden_hand_still_counts_as_played() -> None:
    game = Game("KS QH 2C 3C", blind=n.BL_EYE)
    assert game.play(0).f[st.HAND_SCORE] == 15
    assert game.play(0).f[st.HAND_SCORE] == 0
    assert game[st.PLAYED + n.HIGH_CARD] == 2
    game = Game("KS KH QC 2C", blind=n.BL_MOUTH)
    assert game.play(0, 1).f[st.HAND_SCORE] == 60
    assert game.play(0).f[st.HAND_SCORE] == 0


def test_a_forbidden_hand_melts_ice_cream_but_grows_nothing() -> None:
    game = Game("KS", ["Ice Cream", "Green Joker", "Supernova"], blind=n.BL_PSYCHIC).play(0)
    assert (game.value(0), game.value(1)) == (95, 0)


# ---- discards


def test_ramen_that_is_eaten_leaves_after_the_whole_discard() -> None:
    # Blueprint copies Ramen for both cards, so Mail-In Rebate pays 2 x 5 and no third
    ramen = {"name": "Ramen", "value": 1.01}
    game = Game("KS KH 2C", ["Blueprint", ramen, "Mail-In Rebate"], money=4)
    game[st.MAIL_RANK] = 13
    game.discard(0, 1)
    assert (game.money, game.jokers) == (14, ["Blueprint", "Mail-In Rebate"])


def test_the_hook_discards_count_for_green_joker_and_yorick_but_not_for_burnt_joker() -> None:
    # two cards: Yorick 23 - 2; Green Joker loses 1 for the discard and gains 1 for the hand
    game = Game(
        "KS 2H 3C", [{"name": "Green Joker", "value": 5}, "Yorick", "Burnt Joker"], blind=n.BL_HOOK
    ).play(0)
    assert (game.value(0), game.count(1)) == (5, 21)
    assert game.level("High Card") == game.level("Pair") == 1


def test_a_debuffed_jack_does_not_count_for_hit_the_road_nor_a_debuffed_suit_for_castle() -> None:
    game = Game("JC 2H", ["Hit the Road", "Castle"], blind=n.BL_CLUB)
    game[st.CASTLE_SUIT] = n.CLUBS
    game.discard(0)
    assert (game.value(0), game.value(1)) == (1, 0)


def test_a_hand_is_sorted_with_stone_cards_last_and_their_suits_the_other_way_round() -> None:
    # spades lead among equals; a Stone card is worth its rank less 10, 20, 30, 40 for D, C, H, S
    game = Game("2S KD KS AS:stone 2D:stone 3H:stone 9D:stone 4C")
    game.discard(7)
    drawn = [c for c in game.hand if c not in ("2S", "KD", "KS", "AS", "2D", "3H", "9D")]
    assert len(drawn) == 1
    assert [c for c in game.hand if c not in drawn] == ["KS", "KD", "2S", "9D", "2D", "3H", "AS"]


# ---- shop, tags, vouchers, consumables


def test_ankh_needs_a_free_place() -> None:
    full = ["Joker", "Splash", "Shortcut", "Egg", "Popcorn"]
    assert not Game("KS", full, consumables=[n.C_ANKH]).can(act.USE)
    assert Game("KS", full[:4], consumables=[n.C_ANKH]).can(act.USE)


def test_a_boss_tag_spends_the_reroll_of_directors_cut() -> None:
    game = Game(money=50, vouchers=[n.V_DIRECTORS_CUT])
    assert game.can(act.REROLL_BOSS)
    game[st.BLIND_TAG] = n.TAG_BOSS
    game.do(act.SKIP_BLIND)
    assert not game.can(act.REROLL_BOSS)


def test_redeeming_any_voucher_leaves_the_later_shops_of_the_ante_without_one() -> None:
    game = Game("KS", tags=[n.TAG_VOUCHER], money=100).to_shop()
    assert game[st.SHOP_VOUCHER] and game[st.SHOP_VOUCHER + 1]
    game.do(act.REDEEM + 1)
    game.do(act.NEXT_ROUND).do(act.TAKE_BLIND).to_shop()
    assert not game[st.SHOP_VOUCHER]


def test_a_negative_invisible_joker_copies_into_a_full_row() -> None:
    # 6 jokers in 5 + 1 places are not too many while it is still there
    invisible = {"name": "Invisible Joker", "edition": "Negative", "count": 2}
    game = Game("KS", [invisible, "Joker", "Joker", "Joker", "Joker", "Joker"])
    assert game.do(act.SELL_JOKER).jokers == ["Joker"] * 6


def test_perkeos_copy_sells_for_what_its_original_had_gathered() -> None:
    # tarot $3 -> 1 + 4 gathered; the Negative copy 3 + 5 -> 4 + 4
    game = Game("KS", ["Perkeo"], consumables=[n.C_SUN]).to_shop()
    game.s[st.C_EXTRA] = 4
    game.do(act.NEXT_ROUND)
    money = game.money
    assert game.do(act.SELL_CONSUMABLE + 1).money == money + 8
    assert game.do(act.SELL_CONSUMABLE).money == money + 8 + 5


def test_a_double_tag_doubles_what_acts_at_once() -> None:
    # Skip Tag on the first skip: 2 x 5
    game = Game(tags=[n.TAG_DOUBLE], money=4)
    game[st.BLIND_TAG] = n.TAG_SKIP
    game.do(act.SKIP_BLIND)
    assert (game.money, game.tags) == (14, [])


def test_clearance_sale_rounds_the_price_and_what_it_sells_for() -> None:
    # Cavendish $4: floor(4.5 x .75) = 3, sells for 1; a Foil one: floor(6.5 x .75) = 4, sells for 2
    game = Game("KS", ["Cavendish", {"name": "Cavendish", "edition": "Foil"}], vouchers=[n.V_CLEARANCE_SALE])
    money = game.money
    assert game.do(act.SELL_JOKER).money == money + 1
    assert game.do(act.SELL_JOKER).money == money + 1 + 2
