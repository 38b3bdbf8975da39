"""The effect of every joker, through `step`. The last test checks that all jokers are tested."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tabletop import NO_PROC, PROC, Game, joker

from ludus.games.balatro import actions as act
from ludus.games.balatro import chance
from ludus.games.balatro import names as n
from ludus.games.balatro import state as st
from ludus.games.balatro.facts import ITEM_NAMES

SHOWN: dict[str, Callable[[], None]] = {}


def shows(*names: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def register(test: Callable[[], None]) -> Callable[[], None]:
        for name in names:
            assert name not in SHOWN, name
            SHOWN[name] = test
        return test

    return register


# ---- what is added to or multiplied with a hand: (joker, cards played, cards held, chips, mult)
# the hand alone has the chips and mult of the second table

HANDS = {
    "KS": (5 + 10, 1),
    "KS KH": (10 + 20, 2),
    "KS KH KC": (30 + 30, 3),
    "KS KH 2C 2D": (20 + 24, 2),
    "KS KH KC KD": (60 + 40, 7),
    "2S 3H 4C 5D 6S": (30 + 20, 4),
    "2H 5H 7H 9H JH": (35 + 33, 4),
    "2D 5D 7D 9D JD": (35 + 33, 4),
    "2C 5C 7C 9C JC": (35 + 33, 4),
    "2S 5S 7S 9S JS": (35 + 33, 4),
    "AS AH 2C 2D": (20 + 26, 2),
    "AS": (5 + 11, 1),
    "TS TH 4C 4D": (20 + 28, 2),
    "KS KH KC KD:wild": (60 + 40, 7),
    "2S 2H": (10 + 4, 2),
}
ADDED = [
    ("Joker", "KS", 0, 4),
    ("Greedy Joker", "2D 5D 7D 9D JD", 0, 15),
    ("Lusty Joker", "2H 5H 7H 9H JH", 0, 15),
    ("Wrathful Joker", "2S 5S 7S 9S JS", 0, 15),
    ("Gluttonous Joker", "2C 5C 7C 9C JC", 0, 15),
    ("Jolly Joker", "KS KH", 0, 8),
    ("Zany Joker", "KS KH KC", 0, 12),
    ("Mad Joker", "KS KH 2C 2D", 0, 10),
    ("Crazy Joker", "2S 3H 4C 5D 6S", 0, 12),
    ("Droll Joker", "2H 5H 7H 9H JH", 0, 10),
    ("Sly Joker", "KS KH", 50, 0),
    ("Wily Joker", "KS KH KC", 100, 0),
    ("Clever Joker", "KS KH 2C 2D", 80, 0),
    ("Devious Joker", "2S 3H 4C 5D 6S", 100, 0),
    ("Crafty Joker", "2H 5H 7H 9H JH", 80, 0),
    ("Half Joker", "KS KH KC", 0, 20),
    ("Banner", "KS", 4 * 30, 0),
    ("Fibonacci", "AS AH 2C 2D", 0, 32),
    ("Scary Face", "KS KH KC", 90, 0),
    ("Abstract Joker", "KS", 0, 3),
    ("Gros Michel", "KS", 0, 15),
    ("Even Steven", "TS TH 4C 4D", 0, 16),
    ("Odd Todd", "AS", 31, 0),
    ("Scholar", "AS", 20, 4),
    ("Supernova", "KS", 0, 1),
    ("Blue Joker", "KS", 2 * 44, 0),
    ("Runner", "2S 3H 4C 5D 6S", 15, 0),
    ("Ice Cream", "KS", 100, 0),
    ("Green Joker", "KS", 0, 1),
    ("Square Joker", "KS KH KC KD", 4, 0),
    ("Popcorn", "KS", 0, 20),
    ("Spare Trousers", "KS KH 2C 2D", 0, 2),
    ("Walkie Talkie", "TS TH 4C 4D", 40, 16),
    ("Smiley Face", "KS KH KC", 0, 15),
    ("Arrowhead", "2S 5S 7S 9S JS", 250, 0),
    ("Onyx Agate", "2C 5C 7C 9C JC", 0, 35),
    ("Wee Joker", "2S 2H", 16, 0),
    ("Stuntman", "KS", 250, 0),
    ("Bull", "KS", 2 * 4, 0),
]
TIMES = [
    ("Joker Stencil", "KS", 5),
    ("Cavendish", "KS", 3),
    ("Photograph", "KS KH", 2),
    ("Ramen", "KS", 2),
    ("Flower Pot", "KS KH KC KD:wild", 3),
    ("Seeing Double", "KS KH KC", 2),
    ("The Duo", "KS KH", 2),
    ("The Trio", "KS KH KC", 3),
    ("The Family", "KS KH KC KD", 4),
    ("The Order", "2S 3H 4C 5D 6S", 3),
    ("The Tribe", "2H 5H 7H 9H JH", 2),
    ("Triboulet", "KS KH", 4),
]


@pytest.mark.parametrize(("name", "cards", "chips", "mult"), ADDED, ids=[row[0] for row in ADDED])
def test_a_joker_adds_chips_and_mult_to_a_hand(name: str, cards: str, chips: int, mult: int) -> None:
    base_chips, base_mult = HANDS[cards]
    game = Game(f"{cards} 3C 3D", [name]).play(*range(len(cards.split())))
    assert (game.chips, game.mult) == (base_chips + chips, base_mult + mult)
    assert game.f[st.CHIPS] == game.chips * game.mult


@pytest.mark.parametrize(("name", "cards", "factor"), TIMES, ids=[row[0] for row in TIMES])
def test_a_joker_multiplies_the_mult_of_a_hand(name: str, cards: str, factor: float) -> None:
    base_chips, base_mult = HANDS[cards]
    game = Game(f"{cards} 3C 3D", [name]).play(*range(len(cards.split())))
    assert (game.chips, game.mult) == (base_chips, base_mult * factor)


for _name in [*(row[0] for row in ADDED), *(row[0] for row in TIMES)]:
    shows(_name)(lambda: None)


# ---- the rest, one by one


@shows("Four Fingers")
def four_fingers() -> None:
    assert Game("2S 5S 7S 9S KH", ["Four Fingers"]).play(0, 1, 2, 3).mult == 4


@shows("Shortcut")
def shortcut() -> None:
    assert Game("2S 4H 6C 8D TS", ["Shortcut"]).play(0, 1, 2, 3, 4).mult == 4


@shows("Splash")
def splash() -> None:
    assert Game("KS 2H 3C", ["Splash"]).play(0, 1, 2).chips == 5 + 10 + 2 + 3


@shows("Smeared Joker")
def smeared() -> None:
    assert Game("2S 5C 7S 9C JS", ["Smeared Joker"]).play(0, 1, 2, 3, 4).mult == 4


@shows("Pareidolia")
def pareidolia() -> None:
    assert Game("2S", ["Pareidolia", "Scary Face"]).play(0).chips == 5 + 2 + 30


@shows("Mime", "Baron")
def mime_and_baron() -> None:
    assert Game("2S KH 3C 3D 4C 4D 5C 5D", ["Mime", "Baron"]).play(0).mult == 1.5**2


@shows("Shoot the Moon")
def shoot_the_moon() -> None:
    assert Game("2S QH 3C 3D 4C 4D 5C 5D", ["Shoot the Moon"]).play(0).mult == 1 + 13


@shows("Raised Fist")
def raised_fist() -> None:
    game = Game("AS KH QH JH TH 9H 8H 7H", ["Raised Fist"])
    assert game.play(0).mult == 1 + 2 * 7


@shows("Reserved Parking")
def reserved_parking() -> None:
    game = Game("2S KH 3C 3D 4C 4D 5C 5D", ["Reserved Parking"])
    assert game.play(0, given=[PROC]).money == 4 + 1


@shows("Blackboard")
def blackboard() -> None:
    assert Game("2H 3S 4S 5S 7S 8C 9C TC", ["Blackboard"]).play(0).mult == 3
    assert Game("2H 3S 4S 5S 7S 8C 9C TH", ["Blackboard"]).play(0).mult == 1


@shows("Credit Card")
def credit_card() -> None:
    game = Game("KS", ["Credit Card"], money=0).to_shop()
    game[st.MONEY] = 0
    assert game.can(act.REROLL)
    assert game.do(act.REROLL).money == -5


@shows("Ceremonial Dagger")
def ceremonial_dagger() -> None:
    game = Game("KS", ["Ceremonial Dagger", "Cavendish"])
    assert game.jokers == ["Ceremonial Dagger"]
    assert game.play(0).mult == 1 + 2 * 2


@shows("Mystic Summit")
def mystic_summit() -> None:
    game = Game("KS KH", ["Mystic Summit"])
    game[st.DISCARDS_LEFT] = 0
    assert game.play(0).mult == 1 + 15


@shows("Marble Joker")
def marble_joker() -> None:
    game = Game("KS", ["Marble Joker"])
    assert game[st.N_CARDS] == 53
    assert sum(int(c) >> 6 & 15 == n.M_STONE for c in game.s[st.CARD : st.CARD + st.MAX_CARDS]) == 1


@shows("Loyalty Card")
def loyalty_card() -> None:
    game = Game("KS KH", ["Loyalty Card"])
    game[st.HANDS_LEFT] = 20
    mults = [game.play(0).mult for _ in range(6)]
    assert mults[-1] == 4
    assert all(m == 1 for m in mults[:-1])


@shows("8 Ball")
def eight_ball() -> None:
    game = Game("8S", ["8 Ball"]).play(0, given=[PROC, (chance.GIVEN_ITEM, n.C_SUN)])
    assert game.consumables == [n.C_SUN]


@shows("Misprint")
def misprint() -> None:
    assert Game("KS", ["Misprint"]).play(0, given=[(chance.GIVEN_NUMBER, 17)]).mult == 1 + 17


@shows("Dusk")
def dusk() -> None:
    game = Game("KS KH", ["Dusk"])
    game[st.HANDS_LEFT] = 1
    assert game.play(0).chips == 5 + 2 * 10


@shows("Chaos the Clown")
def chaos_the_clown() -> None:
    game = Game("KS", ["Chaos the Clown"]).to_shop()
    money = game.money
    assert game.do(act.REROLL).money == money
    assert game[st.FREE_REROLLS] == 0


@shows("Steel Joker")
def steel_joker() -> None:
    assert Game("KS 2H:steel:red 2D:steel", ["Steel Joker"]).play(0).mult == pytest.approx(1.5**3 * 1.4)


@shows("Delayed Gratification")
def delayed_gratification() -> None:
    plain = Game("KS").to_shop().money
    assert Game("KS", ["Delayed Gratification"]).to_shop().money == plain + 2 * 4


@shows("Hack")
def hack() -> None:
    assert Game("5S", ["Hack"]).play(0).chips == 5 + 2 * 5


@shows("Business Card")
def business_card() -> None:
    assert Game("KS", ["Business Card"]).play(0, given=[PROC]).money == 4 + 2
    assert Game("KS", ["Business Card"]).play(0, given=[NO_PROC]).money == 4


@shows("Ride the Bus")
def ride_the_bus() -> None:
    game = Game("2S 3H 2D KC", ["Ride the Bus"])
    assert game.play(0).mult == 1 + 1
    assert game.play(0).mult in (1, 1 + 2)
    game = Game("KS", [{"name": "Ride the Bus", "value": 7}])
    assert game.play(0).mult == 1


@shows("Space Joker")
def space_joker() -> None:
    game = Game("KS", ["Space Joker"]).play(0, given=[PROC])
    assert game.level("High Card") == 2
    assert (game.chips, game.mult) == (15 + 10, 2)


@shows("Egg")
def egg() -> None:
    game = Game("KS", ["Egg"]).to_shop()
    money = game.money
    assert game.do(act.SELL_JOKER).money == money + 2 + 3


@shows("Burglar")
def burglar() -> None:
    game = Game("KS", ["Burglar"])
    assert (game[st.HANDS_LEFT], game[st.DISCARDS_LEFT]) == (4 + 3, 0)


@shows("DNA")
def dna() -> None:
    game = Game("KS:steel 2H 3C", ["DNA", "Baron"]).play(0)
    assert game[st.N_CARDS] == 53
    assert "KS" in game.hand
    assert game.mult == 1.5 * 1.5  # the copy is held already: steel and a king


@shows("Sixth Sense")
def sixth_sense() -> None:
    game = Game("6S", ["Sixth Sense"]).play(0, given=[(chance.GIVEN_ITEM, n.C_AURA)])
    assert game.consumables == [n.C_AURA]
    assert game[st.N_CARDS] == 51


@shows("Constellation")
def constellation() -> None:
    game = Game("KS", ["Constellation"], consumables=[n.C_PLUTO]).use()
    assert game.play(0).mult == pytest.approx(2 * 1.1)


@shows("Hiker")
def hiker() -> None:
    game = Game("KS:red", ["Hiker"]).play(0)
    assert game.chips == 5 + 10 + 10 + 5  # the second trigger has what the first one gave
    assert 10 in game.s[st.CARD_BONUS : st.CARD_BONUS + 52]


@shows("Faceless Joker")
def faceless_joker() -> None:
    assert Game("KS KH KC 2D", ["Faceless Joker"]).discard(0, 1, 2).money == 4 + 5
    assert Game("KS KH 2C 2D", ["Faceless Joker"]).discard(0, 1, 2).money == 4


@shows("Superposition")
def superposition() -> None:
    game = Game("AS 2H 3C 4D 5S", ["Superposition"]).play(0, 1, 2, 3, 4, given=[(chance.GIVEN_ITEM, n.C_SUN)])
    assert game.consumables == [n.C_SUN]


@shows("To Do List")
def to_do_list() -> None:
    game = Game("KS KH", [{"name": "To Do List", "count": n.PAIR}]).play(0, 1)
    assert game.money == 4 + 4


@shows("Card Sharp")
def card_sharp() -> None:
    game = Game("KS 2H", ["Card Sharp"])
    assert game.play(0).mult == 1
    assert game.play(0).mult == 3


@shows("Red Card")
def red_card() -> None:
    game = Game("KS", ["Red Card"], money=50).to_shop().do(act.OPEN).do(act.SKIP_PACK)
    assert game.value() == 3


@shows("Madness")
def madness() -> None:
    game = Game("KS", ["Madness", "Joker"])
    assert game.jokers == ["Madness"]
    assert game.play(0).mult == 1.5
    assert Game("KS", ["Madness", "Joker"], blind=n.BL_WALL).jokers == ["Madness", "Joker"]


@shows("Seance")
def seance() -> None:
    game = Game("2S 3S 4S 5S 6S", ["Seance"]).play(0, 1, 2, 3, 4, given=[(chance.GIVEN_ITEM, n.C_AURA)])
    assert game.consumables == [n.C_AURA]


@shows("Riff-raff")
def riff_raff() -> None:
    game = Game("KS", ["Riff-raff"])
    assert game[st.N_JOKERS] == 3
    from ludus.games.balatro.facts import JOKER_RARITY

    assert all(JOKER_RARITY[joker(name)] == 1 for name in game.jokers)


@shows("Vampire")
def vampire() -> None:
    game = Game("KS:bonus KH:glass", ["Vampire"]).play(0, 1)
    assert game.mult == pytest.approx(2 * 1.2)
    assert game.chips == 10 + 20


@shows("Hologram")
def hologram() -> None:
    game = Game("KS", ["Marble Joker", "Hologram"])
    assert game.play(0).mult == 1.25


@shows("Vagabond")
def vagabond() -> None:
    assert Game("KS", ["Vagabond"], money=4).play(0).consumables != []
    assert Game("KS", ["Vagabond"], money=5).play(0).consumables == []


@shows("Cloud 9")
def cloud_9() -> None:
    assert Game("KS", ["Cloud 9"]).to_shop().money == Game("KS").to_shop().money + 4


@shows("Rocket")
def rocket() -> None:
    assert Game("KS", ["Rocket"]).to_shop().money == Game("KS").to_shop().money + 1
    game = Game("KS", ["Rocket"], blind=n.BL_WALL).win_round()
    assert game.count() == 3


@shows("Obelisk")
def obelisk() -> None:
    game = Game("KS 2H", ["Obelisk"])
    game.s[st.PLAYED + n.PAIR] = 5
    assert game.play(0).mult == pytest.approx(1.2)
    game.s[st.PLAYED + n.HIGH_CARD] = 9
    assert game.play(0).mult == 1


@shows("Midas Mask")
def midas_mask() -> None:
    game = Game("KS KH", ["Midas Mask"]).play(0, 1)
    assert sum(int(c) >> 6 & 15 == n.M_GOLD for c in game.s[st.CARD : st.CARD + 52]) == 2


@shows("Luchador")
def luchador() -> None:
    game = Game("KS", ["Luchador"], blind=n.BL_WALL)
    before = game.f[st.TARGET] = 800.0
    game.do(act.SELL_JOKER)
    assert game[st.BOSS_OFF] == 1
    assert game.f[st.TARGET] == before / 2


@shows("Gift Card")
def gift_card() -> None:
    game = Game("KS", ["Gift Card", "Joker"], consumables=[n.C_SUN]).to_shop()
    money = game.money
    assert game.do(act.SELL_JOKER + 1).money == money + 1 + 1
    assert game.do(act.SELL_CONSUMABLE).money == money + 2 + 1 + 1


@shows("Turtle Bean")
def turtle_bean() -> None:
    game = Game("KS", ["Turtle Bean"])
    assert game[st.N_HAND] == 13
    assert game.win_round()[st.HAND_SIZE] == 12


@shows("Erosion")
def erosion() -> None:
    game = Game("KS", ["Erosion", "Sixth Sense"])
    game.s[st.STARTING_CARDS] = 55
    assert game.play(0).mult == 1 + 3 * 4


@shows("Mail-In Rebate")
def mail_in_rebate() -> None:
    game = Game("KS KH 2C", ["Mail-In Rebate"])
    game[st.MAIL_RANK] = 13
    assert game.discard(0, 1, 2).money == 4 + 10


@shows("To the Moon")
def to_the_moon() -> None:
    plain = Game("KS", money=20).to_shop().money
    assert Game("KS", ["To the Moon"], money=20).to_shop().money == plain + 4


@shows("Hallucination")
def hallucination() -> None:
    game = (
        Game("KS", ["Hallucination"], money=50).to_shop().do(act.OPEN, [PROC, (chance.GIVEN_ITEM, n.C_SUN)])
    )
    assert game.consumables == [n.C_SUN]


@shows("Fortune Teller")
def fortune_teller() -> None:
    game = Game("KS", ["Fortune Teller"], consumables=[n.C_HERMIT]).use()
    assert game.play(0).mult == 1 + 1


@shows("Juggler")
def juggler() -> None:
    assert Game("KS", ["Juggler"])[st.N_HAND] == 9


@shows("Drunkard")
def drunkard() -> None:
    assert Game("KS", ["Drunkard"])[st.DISCARDS_LEFT] == 5


@shows("Stone Joker")
def stone_joker() -> None:
    assert Game("KS 2H:stone 2D:stone", ["Stone Joker"]).play(0).chips == 15 + 50


@shows("Golden Joker")
def golden_joker() -> None:
    assert Game("KS", ["Golden Joker"]).to_shop().money == Game("KS").to_shop().money + 4


@shows("Lucky Cat")
def lucky_cat() -> None:
    game = Game("KS:lucky", ["Lucky Cat"]).play(0, given=[PROC, NO_PROC])
    assert game.mult == (1 + 20) * 1.25


@shows("Baseball Card")
def baseball_card() -> None:
    assert Game("KS", ["Baseball Card", "Mime", "Joker"]).play(0).mult == 1.5 + 4
    assert Game("KS", ["Joker", "Baseball Card", "Mime"]).play(0).mult == 5 * 1.5


@shows("Diet Cola")
def diet_cola() -> None:
    assert Game("KS", ["Diet Cola"]).do(act.SELL_JOKER).tags == [n.TAG_DOUBLE]


@shows("Trading Card")
def trading_card() -> None:
    game = Game("KS KH", ["Trading Card"]).discard(0)
    assert (game.money, game[st.N_CARDS]) == (4 + 3, 51)
    assert game.discard(0)[st.N_CARDS] == 51


@shows("Flash Card")
def flash_card() -> None:
    assert Game("KS", ["Flash Card"], money=50).to_shop().do(act.REROLL).value() == 2


@shows("Ancient Joker")
def ancient_joker() -> None:
    game = Game("KS", ["Ancient Joker"])
    game[st.ANCIENT_SUIT] = n.SPADES
    assert game.play(0).mult == 1.5


@shows("Seltzer")
def seltzer() -> None:
    game = Game("KS KH", ["Seltzer"])
    assert game.play(0).chips == 5 + 2 * 10
    game[st.J_COUNT] = 1
    assert game.play(0).jokers == []


@shows("Castle")
def castle() -> None:
    game = Game("KS 2S 3H", ["Castle"])
    game[st.CASTLE_SUIT] = n.SPADES
    assert game.discard(0, 1, 2).value() == 6


@shows("Campfire")
def campfire() -> None:
    game = Game("KS", ["Campfire", "Joker"]).do(act.SELL_JOKER + 1)
    assert game.play(0).mult == 1.25
    assert Game("KS", [{"name": "Campfire", "value": 2}], blind=n.BL_WALL).win_round().value() == 1


@shows("Golden Ticket")
def golden_ticket() -> None:
    assert Game("KS:goldcard", ["Golden Ticket"]).play(0).money == 4 + 4


@shows("Mr. Bones")
def mr_bones() -> None:
    game = Game("KS", ["Mr. Bones"], target=60)
    game[st.HANDS_LEFT] = 1
    game.play(0)
    assert (game[st.PHASE], game.jokers) == (n.CASHING_OUT, [])
    lost = Game("KS", ["Mr. Bones"], target=61)
    lost[st.HANDS_LEFT] = 1
    assert lost.play(0)[st.PHASE] == n.GAME_OVER


@shows("Acrobat")
def acrobat() -> None:
    game = Game("KS KH", ["Acrobat"])
    game[st.HANDS_LEFT] = 1
    assert game.play(0).mult == 3


@shows("Sock and Buskin")
def sock_and_buskin() -> None:
    assert Game("KS", ["Sock and Buskin"]).play(0).chips == 5 + 2 * 10


@shows("Swashbuckler")
def swashbuckler() -> None:
    assert Game("KS", ["Swashbuckler", "Caino", "Hallucination"]).play(0).mult == 1 + 10 + 2


@shows("Troubadour")
def troubadour() -> None:
    game = Game("KS", ["Troubadour"])
    assert (game[st.N_HAND], game[st.HANDS_LEFT]) == (10, 3)


@shows("Certificate")
def certificate() -> None:
    game = Game("KS", ["Certificate"])
    assert (game[st.N_HAND], game[st.N_CARDS]) == (9, 53)
    assert any(int(c) >> 13 & 7 for c in game.s[st.CARD : st.CARD + 53])


@shows("Throwback")
def throwback() -> None:
    game = Game("KS", ["Throwback"])
    game[st.SKIPS] = 2
    assert game.play(0).mult == 1.5


@shows("Hanging Chad")
def hanging_chad() -> None:
    assert Game("KS KH", ["Hanging Chad"]).play(0, 1).chips == 10 + 3 * 10 + 10


@shows("Rough Gem")
def rough_gem() -> None:
    assert Game("KD 2D", ["Rough Gem"]).play(0).money == 4 + 1


@shows("Bloodstone")
def bloodstone() -> None:
    assert Game("KH", ["Bloodstone"]).play(0, given=[PROC]).mult == 1.5
    assert Game("KH", ["Bloodstone"]).play(0, given=[NO_PROC]).mult == 1


@shows("Glass Joker")
def glass_joker() -> None:
    game = Game("KS:glass KH", ["Glass Joker"]).play(0, given=[PROC])
    assert game[st.N_CARDS] == 51
    assert game.value() == 1.75


@shows("Showman")
def showman() -> None:
    game = Game("KS", ["Showman", *["Joker"] * 4], money=500, vouchers=[n.V_OVERSTOCK_NORM]).to_shop()
    seen = False
    for _ in range(120):
        game[st.MONEY] = 500
        game.do(act.REROLL)
        seen = seen or joker("Joker") in game.s[st.SHOP : st.SHOP + 4]
    assert seen


@shows("Blueprint")
def blueprint() -> None:
    assert Game("KS", ["Blueprint", "Joker"]).play(0).mult == 1 + 8


@shows("Brainstorm")
def brainstorm() -> None:
    assert Game("KS", ["Joker", "Cavendish", "Brainstorm"]).play(0).mult == 5 * 3 + 4


@shows("Merry Andy")
def merry_andy() -> None:
    game = Game("KS", ["Merry Andy"])
    assert (game[st.N_HAND], game[st.DISCARDS_LEFT]) == (7, 7)


@shows("Oops! All 6s")
def oops() -> None:
    game = Game("KH", ["Bloodstone", "Oops! All 6s"])
    assert game.play(0).mult == 1.5  # one in two, doubled


@shows("The Idol")
def the_idol() -> None:
    game = Game("KS", ["The Idol"])
    game[st.IDOL_RANK], game[st.IDOL_SUIT] = 13, n.SPADES
    assert game.play(0).mult == 2


@shows("Matador")
def matador() -> None:
    assert Game("KS", ["Matador"], blind=n.BL_PSYCHIC).play(0).money == 4 + 8
    assert Game("KS", ["Matador"], blind=n.BL_FLINT).play(0).money == 4 + 8
    assert Game("KC", ["Matador"], blind=n.BL_CLUB).play(0).money == 4 + 8
    assert Game("KS", ["Matador"]).play(0).money == 4


@shows("Hit the Road")
def hit_the_road() -> None:
    game = Game("JS JH 2C", ["Hit the Road"]).discard(0, 1, 2)
    assert game.value() == 2
    assert game.win_round().value() == 1


@shows("Invisible Joker")
def invisible_joker() -> None:
    game = Game("KS", [{"name": "Invisible Joker", "count": 1}, "Baron"])
    game.win_round().do(act.CASH_OUT).do(act.SELL_JOKER)
    assert game.jokers == ["Baron", "Baron"]
    assert Game("KS", ["Invisible Joker", "Baron"]).do(act.SELL_JOKER).jokers == ["Baron"]


@shows("Satellite")
def satellite() -> None:
    game = Game("KS", ["Satellite"], consumables=[n.C_PLUTO, n.C_MARS]).use().use()
    assert game.to_shop().money == Game("KS").to_shop().money + 2


@shows("Driver's License")
def drivers_license() -> None:
    game = Game("KS", ["Driver's License"])
    for place in range(16):
        game.s[st.CARD + place] |= n.M_BONUS << 6
    assert game.play(0).mult == 3


@shows("Cartomancer")
def cartomancer() -> None:
    assert n.C_FOOL <= Game("KS", ["Cartomancer"]).consumables[0] <= n.C_WORLD


@shows("Astronomer")
def astronomer() -> None:
    game = Game("KS", ["Astronomer"], money=0).to_shop([(chance.GIVEN_SHOP, n.C_PLUTO)])
    money = game.money
    assert game.do(act.BUY).money == money


@shows("Burnt Joker")
def burnt_joker() -> None:
    game = Game("KS KH 2C 2D 5S", ["Burnt Joker"]).discard(0, 1)
    assert game.level("Pair") == 2
    assert game.discard(0, 1).level("Pair") == 2


@shows("Bootstraps")
def bootstraps() -> None:
    assert Game("KS", ["Bootstraps"], money=14).play(0).mult == 1 + 4


@shows("Caino")
def caino() -> None:
    game = Game("KS KH 2C", ["Caino"], consumables=[n.C_HANGED_MAN]).use(0, 0, 1)
    assert game[st.N_CARDS] == 50
    assert game.play(0).mult == 3


@shows("Yorick")
def yorick() -> None:
    game = Game("KS KH 2C 3D", [{"name": "Yorick", "count": 3, "value": 1}]).discard(0, 1, 2)
    assert (game.value(), game.count()) == (2, 23)


@shows("Chicot")
def chicot() -> None:
    game = Game("KC", ["Chicot"], blind=n.BL_CLUB)
    assert game[st.BOSS_OFF] == 1
    assert game.play(0).chips == 15


@shows("Perkeo")
def perkeo() -> None:
    game = Game("KS", ["Perkeo"], consumables=[n.C_SUN]).to_shop().do(act.NEXT_ROUND)
    assert game.consumables == [n.C_SUN, n.C_SUN]
    assert game.s[st.C_EDITION + 1] == n.NEGATIVE


_TESTS = {name: test for name, test in SHOWN.items() if test.__name__ != "<lambda>"}


@pytest.mark.parametrize("name", _TESTS)
def test_joker_follows_its_rule(name: str) -> None:
    _TESTS[name]()


def test_all_jokers_are_tested() -> None:
    assert set(SHOWN) == {ITEM_NAMES[j] for j in range(1, 151)}
