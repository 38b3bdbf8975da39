"""`score`: 1,490 hands on which two other engines agree, and further hands computed by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ludus.errors import UserError
from ludus.games.balatro.cases import explain_case, score_file
from ludus.games.balatro.score import score

CASES = Path(__file__).parents[2] / "data" / "balatro" / "scoring_cases.jsonl"
_RANKS = {"T": "10", "J": "Jack", "Q": "Queen", "K": "King", "A": "Ace"}
_SUITS = {"S": "Spades", "H": "Hearts", "C": "Clubs", "D": "Diamonds"}


def card(name: str, **more: Any) -> dict[str, Any]:
    """Return `KS` as a played card, or with `held=True` as a held one."""
    played = not more.pop("held", False)
    return {"rank": _RANKS.get(name[0], name[0]), "suit": _SUITS[name[1]], "played": played, **more}


def hand(*cards: dict[str, Any], jokers: tuple[Any, ...] = (), **state: Any) -> Any:
    named = [{"name": j} if isinstance(j, str) else j for j in jokers]
    return score({"cards": list(cards), "jokers": named, **state})


def test_scores_match_cases_of_two_other_engines() -> None:
    agreement = score_file(CASES)
    assert agreement.cases == 1490
    assert agreement.disagree == []


def test_a_case_can_be_explained_step_by_step() -> None:
    answer = explain_case(CASES, 1)
    text = str(answer)
    assert text.splitlines()[0].split() == ["High", "Card", "5", "x", "1"]
    assert text.endswith(f"High Card: {answer.chips:g} x {answer.mult:g} = 16")


def test_jokers_act_from_left_to_right_and_are_not_summed() -> None:
    plus_then_times = hand(card("2S"), jokers=("Joker", "Cavendish"), discards=1)
    times_then_plus = hand(card("2S"), jokers=("Cavendish", "Joker"), discards=1)
    assert plus_then_times.score == 7 * (1 + 4) * 3
    assert times_then_plus.score == 7 * (1 * 3 + 4)


def test_foil_and_holographic_come_before_a_joker_and_polychrome_after_it() -> None:
    holo = hand(card("2S"), jokers=({"name": "Cavendish", "edition": "Holographic"},))
    poly = hand(card("2S"), jokers=({"name": "Joker", "edition": "Polychrome"},))
    assert holo.score == 7 * (1 + 10) * 3
    assert poly.score == int(7 * (1 + 4) * 1.5)


@pytest.mark.parametrize(
    ("cards", "jokers", "name"),
    [
        ("2S 4S 6S 8S", ("Four Fingers",), "Flush"),
        ("2S 4H 6C 8D TS", ("Shortcut",), "Straight"),
        ("2S 4S 6C 8C TS", ("Smeared Joker",), "Flush"),
        ("2S 3H 4C 5D", ("Four Fingers",), "Straight"),
        ("AS 2H 3C 4D 5S", (), "Straight"),
        ("TS JH QC KD AS", (), "Straight"),
        ("QS KH AC 2D 3S", (), "High Card"),
        ("2S 2H 2C 2D 2S", (), "Five of a Kind"),
        ("2S 2S 2S 3S 3S", (), "Flush House"),
        ("2S 2S 2S 2S 2S", (), "Flush Five"),
        ("2S 3S 4S 5S 6S", (), "Straight Flush"),
    ],
)
def test_jokers_change_the_recognised_poker_hand(cards: str, jokers: tuple[str, ...], name: str) -> None:
    assert hand(*(card(c) for c in cards.split()), jokers=jokers).hand == name


def test_a_flush_of_four_fingers_scores_its_four_cards_only() -> None:
    answer = hand(*(card(c) for c in ("2S", "4S", "6S", "8S", "KH")), jokers=("Four Fingers",))
    assert answer.score == (35 + 2 + 4 + 6 + 8) * 4


def test_splash_lets_every_played_card_score() -> None:
    answer = hand(card("KS"), card("2H"), jokers=("Splash",))
    assert answer.score == (5 + 10 + 2) * 1


def test_a_stone_card_scores_fifty_in_every_hand_and_has_no_rank() -> None:
    answer = hand(card("KS"), card("KH", enhancement="Stone"))
    assert answer.hand == "High Card"
    assert answer.score == 5 + 10 + 50


def test_a_debuffed_card_makes_the_hand_but_scores_nothing() -> None:
    answer = hand(card("KS", debuffed=True, seal="Red", edition="Foil"), card("KH"))
    assert answer.hand == "Pair"
    assert answer.score == (10 + 10) * 2


def test_retriggers_repeat_the_card_and_the_jokers_that_it_triggers() -> None:
    answer = hand(
        card("KS", seal="Red"), jokers=("Hanging Chad", "Sock and Buskin", "Photograph"), discards=1
    )
    assert answer.chips == 5 + 5 * 10
    assert answer.mult == 2**5


def test_held_steel_and_baron_are_repeated_by_mime_and_red_seals() -> None:
    answer = hand(
        card("2S"), card("KH", held=True, enhancement="Steel", seal="Red"), jokers=("Baron", "Mime")
    )
    assert answer.mult == pytest.approx(1.5 ** (2 * 3))


def test_raised_fist_takes_the_lowest_held_card_and_the_rightmost_of_equals() -> None:
    cards = (card("AS"), card("KH", held=True), card("4H", held=True), card("4D", held=True, debuffed=True))
    assert hand(*cards[:3], jokers=("Raised Fist",)).mult == 1 + 2 * 4
    assert hand(*cards, jokers=("Raised Fist",)).mult == 1  # the debuffed four is the one that counts


@pytest.mark.parametrize(
    ("jokers", "mult"),
    [
        (("Blueprint", "Joker"), 9),
        (("Joker", "Blueprint"), 5),
        (("Joker", "Brainstorm"), 9),
        (("Brainstorm", "Joker"), 5),
        (("Blueprint", "Brainstorm"), 1),
        (("Joker", "Blueprint", "Brainstorm"), 13),
        (("Blueprint", "Blueprint", "Joker"), 13),
    ],
)
def test_blueprint_copies_its_right_neighbour_and_brainstorm_the_leftmost(
    jokers: tuple[str, ...], mult: int
) -> None:
    assert hand(card("2S"), jokers=jokers).mult == mult


@pytest.mark.parametrize(
    ("joker", "chips", "mult"),
    [
        ("Joker", 0, 4),
        ("Greedy Joker", 0, 0),
        ("Wrathful Joker", 0, 6),
        ("Jolly Joker", 0, 8),
        ("Zany Joker", 0, 0),
        ("Sly Joker", 50, 0),
        ("Half Joker", 0, 20),
        ("Banner", 60, 0),
        ("Scary Face", 60, 0),
        ("Abstract Joker", 0, 3),
        ("Smiley Face", 0, 10),
        ("Arrowhead", 100, 0),
        ("Gros Michel", 0, 15),
        ("Supernova", 0, 1),
        ("Blue Joker", 0, 0),
        ("Stuntman", 250, 0),
        ("Green Joker", 0, 1),
        ("Popcorn", 0, 20),
        ("Ice Cream", 100, 0),
        ("Bull", 20, 0),
        ("Bootstraps", 0, 4),
        ("Erosion", 0, 4 * 50),
    ],
)
def test_what_a_joker_adds_to_a_pair_of_kings_of_spades(joker: str, chips: int, mult: int) -> None:
    answer = hand(card("KS"), card("KS"), jokers=(joker,), money=10, discards=2, hands_left_after=1)
    assert (answer.chips, answer.mult) == (30 + chips, 2 + mult)


@pytest.mark.parametrize(
    ("joker", "factor"),
    [
        ("The Duo", 2),
        ("The Trio", 1),
        ("Cavendish", 3),
        ("Triboulet", 4),
        ("Photograph", 2),
        ("Joker Stencil", 5),
        ("Blackboard", 3),
        ("Acrobat", 1),
        ("Card Sharp", 1),
        ("Seeing Double", 1),
        ("Flower Pot", 1),
        ("Ramen", 2),
        ("Steel Joker", 1),
        ("Loyalty Card", 1),
        ("Driver's License", 1),
    ],
)
def test_what_a_joker_multiplies_a_pair_of_kings_of_spades_by(joker: str, factor: float) -> None:
    answer = hand(card("KS"), card("KS"), jokers=(joker,), discards=2, hands_left_after=1)
    assert answer.mult == 2 * factor


def test_flower_pot_and_seeing_double_let_wild_cards_stand_for_what_is_missing() -> None:
    suits = (card("KS"), card("KH"), card("KC"), card("KS", enhancement="Wild"))
    assert hand(*suits, jokers=("Flower Pot",)).mult == 7 * 3
    clubless = (card("KS"), card("KH", enhancement="Wild"))
    assert hand(*clubless, jokers=("Seeing Double",)).mult == 2 * 2


@pytest.mark.parametrize(
    ("state", "what"),
    [
        ({"cards": []}, "no card is played"),
        ({"cards": [{"rank": "11", "suit": "Hearts", "played": True}]}, "unknown rank"),
        ({"cards": [card("KS")], "jokers": [{"name": "Jokr"}]}, "unknown joker"),
    ],
)
def test_invalid_state_raises_with_the_reason(state: dict[str, Any], what: str) -> None:
    with pytest.raises(UserError, match=what):
        score(state)
