"""Every consumable, voucher, tag, boss, deck, stake, enhancement, edition and seal, through `step`."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tabletop import NO_PROC, PROC, Game, card, joker

from ludus.games.balatro import actions as act
from ludus.games.balatro import chance
from ludus.games.balatro import names as n
from ludus.games.balatro import state as st
from ludus.games.balatro.bosses import blind_target
from ludus.games.balatro.coverage import _NAMES as EVERYTHING
from ludus.games.balatro.facts import FACTS, HANDS, ITEM_NAMES, JOKER_RARITY

Test = Callable[[], None]
SHOWN: dict[str, Test] = {}


def shows(*names: str) -> Callable[[Test], Test]:
    def register(test: Test) -> Test:
        for name in names:
            assert name not in SHOWN, name
            SHOWN[name] = test
        return test

    return register


def enhancement(packed: int) -> int:
    return packed >> 6 & 15


# ---- tarots

ENHANCING = [
    ("The Magician", n.C_MAGICIAN, n.M_LUCKY, 2),
    ("The Empress", n.C_EMPRESS, n.M_MULT, 2),
    ("The Hierophant", n.C_HEIROPHANT, n.M_BONUS, 2),
    ("The Lovers", n.C_LOVERS, n.M_WILD, 1),
    ("The Chariot", n.C_CHARIOT, n.M_STEEL, 1),
    ("Justice", n.C_JUSTICE, n.M_GLASS, 1),
    ("The Devil", n.C_DEVIL, n.M_GOLD, 1),
    ("The Tower", n.C_TOWER, n.M_STONE, 1),
]
SUITING = [
    ("The Star", n.C_STAR, n.DIAMONDS),
    ("The Moon", n.C_MOON, n.CLUBS),
    ("The Sun", n.C_SUN, n.HEARTS),
    ("The World", n.C_WORLD, n.SPADES),
]
SEALING = [
    ("Talisman", n.C_TALISMAN, n.GOLD_SEAL),
    ("Deja Vu", n.C_DEJA_VU, n.RED_SEAL),
    ("Trance", n.C_TRANCE, n.BLUE_SEAL),
    ("Medium", n.C_MEDIUM, n.PURPLE_SEAL),
]


@pytest.mark.parametrize(("name", "item", "wanted", "most"), ENHANCING, ids=[row[0] for row in ENHANCING])
def test_a_tarot_enhances_the_cards_it_is_used_on(name: str, item: int, wanted: int, most: int) -> None:
    game = Game("KS KH KC", consumables=[item])
    game.do(act.USE)
    assert game.can(act.play_action(range(most)))
    assert not game.can(act.play_action(range(most + 1)))
    game.play(*range(1, 1 + most))
    assert [enhancement(game.card_at(i)) for i in range(4)] == [0] + [wanted] * most + [0] * (3 - most)
    assert game[st.TAROTS_USED] == 1
    assert game.consumables == []


@pytest.mark.parametrize(("name", "item", "suit"), SUITING, ids=[row[0] for row in SUITING])
def test_a_tarot_changes_the_suit_of_up_to_three_cards(name: str, item: int, suit: int) -> None:
    game = Game("KS KH KC KD", consumables=[item]).use(0, 0, 1, 2)
    assert [game.card_at(i) >> 4 & 3 for i in range(3)] == [suit] * 3


@pytest.mark.parametrize(("name", "item", "seal"), SEALING, ids=[row[0] for row in SEALING])
def test_a_spectral_seals_one_card(name: str, item: int, seal: int) -> None:
    game = Game("KS KH", consumables=[item]).use(0, 1)
    assert [game.card_at(i) >> 13 & 7 for i in range(2)] == [0, seal]


PLANETS = [
    (row["name"], n.C_MERCURY + i, row["config"]["hand_type"]) for i, row in enumerate(FACTS["planets"])
]


@pytest.mark.parametrize(("name", "item", "hand"), PLANETS, ids=[row[0] for row in PLANETS])
def test_a_planet_raises_its_hand_by_a_level(name: str, item: int, hand: str) -> None:
    game = Game(consumables=[item]).use()
    assert {h: game.level(h) for h in HANDS} == {h: 2 if h == hand else 1 for h in HANDS}


for _row in [*ENHANCING, *SUITING, *SEALING, *PLANETS]:
    shows(_row[0])(lambda: None)


@shows("The Fool")
def fool() -> None:
    game = Game(consumables=[n.C_FOOL, n.C_PLUTO])
    assert not game.can(act.USE)
    assert game.use(1).use(0).consumables == [n.C_PLUTO]
    assert not Game(consumables=[n.C_FOOL])[st.LAST_CONSUMABLE]


@shows("The High Priestess")
def high_priestess() -> None:
    made = Game(consumables=[n.C_HIGH_PRIESTESS]).use().consumables
    assert len(made) == 2
    assert all(n.C_MERCURY <= item <= n.C_ERIS for item in made)


@shows("The Emperor")
def emperor() -> None:
    made = Game(consumables=[n.C_EMPEROR]).use().consumables
    assert len(made) == 2
    assert all(n.C_FOOL <= item <= n.C_WORLD for item in made)


@shows("The Hermit")
def hermit() -> None:
    assert Game(money=7, consumables=[n.C_HERMIT]).use().money == 14
    assert Game(money=70, consumables=[n.C_HERMIT]).use().money == 90


@shows("The Wheel of Fortune")
def wheel_of_fortune() -> None:
    game = Game(jokers=["Joker"], consumables=[n.C_WHEEL_OF_FORTUNE]).use(
        given=[PROC, (chance.GIVEN_EDITION, 3)]
    )
    assert game[st.J_EDITION] == n.POLYCHROME
    assert Game(jokers=["Joker"], consumables=[n.C_WHEEL_OF_FORTUNE]).use(given=[NO_PROC])[st.J_EDITION] == 0
    assert not Game(consumables=[n.C_WHEEL_OF_FORTUNE]).can(act.USE)


@shows("Strength")
def strength() -> None:
    game = Game("AS KH", consumables=[n.C_STRENGTH]).use(0, 0, 1)
    assert game.hand[:2] == ["2S", "AH"]


@shows("The Hanged Man")
def hanged_man() -> None:
    game = Game("KS KH 2C", consumables=[n.C_HANGED_MAN]).use(0, 0, 2)
    assert game[st.N_CARDS] == 50
    assert game.hand[0] == "KH"


@shows("Death")
def death() -> None:
    game = Game("2S KH:glass:red", consumables=[n.C_DEATH]).do(act.USE)
    assert not game.can(act.play_action((0,)))
    game.play(0, 1)
    assert game.card_at(0) & 0xFFFF == game.card_at(1) & 0xFFFF == card("KH:glass:red")


@shows("Temperance")
def temperance() -> None:
    assert Game(jokers=["Baron", "Joker"], consumables=[n.C_TEMPERANCE]).use().money == 4 + 4 + 1


@shows("Judgement")
def judgement() -> None:
    assert len(Game(consumables=[n.C_JUDGEMENT]).use().jokers) == 1
    assert not Game(jokers=["Joker"] * 5, consumables=[n.C_JUDGEMENT]).can(act.USE)


# ---- spectrals


def _made_cards(item: int) -> list[int]:
    game = Game("7S 7H 8C 8D 9S 9H TC TD", consumables=[item])
    before = game[st.N_CARDS]
    game.use()
    made = [int(c) for c in game.s[st.CARD : st.CARD + st.MAX_CARDS] if c and enhancement(int(c))]
    assert game[st.N_CARDS] == before - 1 + len(made)
    assert game[st.N_HAND] == 8 - 1 + len(made)
    assert all(enhancement(c) != n.M_STONE for c in made)
    return [c & 15 for c in made]


@shows("Familiar")
def familiar() -> None:
    assert all(11 <= rank <= 13 for rank in _made_cards(n.C_FAMILIAR))
    assert len(_made_cards(n.C_FAMILIAR)) == 3


@shows("Grim")
def grim() -> None:
    assert _made_cards(n.C_GRIM) == [14, 14]


@shows("Incantation")
def incantation() -> None:
    assert all(2 <= rank <= 10 for rank in _made_cards(n.C_INCANTATION))
    assert len(_made_cards(n.C_INCANTATION)) == 4


@shows("Aura")
def aura() -> None:
    game = Game("KS KH:foil", consumables=[n.C_AURA]).do(act.USE)
    assert not game.can(act.play_action((1,)))
    assert game.play(0).card_at(0) >> 10 & 7 in (1, 2, 3)


@shows("Wraith")
def wraith() -> None:
    game = Game(money=30, consumables=[n.C_WRAITH]).use()
    assert game.money == 0
    assert JOKER_RARITY[game[st.JOKER]] == 3


@shows("Sigil")
def sigil() -> None:
    game = Game("KS KH 2C 2D", consumables=[n.C_SIGIL]).use(given=[(chance.GIVEN_SUIT, n.CLUBS)])
    assert all(name[1] == "C" for name in game.hand)


@shows("Ouija")
def ouija() -> None:
    game = Game("KS KH 2C 2D", consumables=[n.C_OUIJA]).use(given=[(chance.GIVEN_RANK, 9)])
    assert all(name[0] == "9" for name in game.hand)
    assert game[st.HAND_SIZE] == 7


@shows("Ectoplasm")
def ectoplasm() -> None:
    game = Game(jokers=["Joker", "Baron"], consumables=[n.C_ECTOPLASM, n.C_ECTOPLASM]).use()
    assert (sorted(game.s[st.J_EDITION : st.J_EDITION + 2]), game[st.HAND_SIZE]) == ([0, n.NEGATIVE], 7)
    assert game.use()[st.HAND_SIZE] == 5


@shows("Immolate")
def immolate() -> None:
    game = Game("KS", consumables=[n.C_IMMOLATE]).use()
    assert (game[st.N_CARDS], game[st.N_HAND], game.money) == (47, 3, 24)


@shows("Ankh")
def ankh() -> None:
    game = Game(jokers=["Joker", "Baron", "Mime"], consumables=[n.C_ANKH]).use(
        given=[(chance.GIVEN_POSITION, 1)]
    )
    assert game.jokers == ["Baron", "Baron"]


@shows("Hex")
def hex_() -> None:
    game = Game(jokers=["Joker", "Baron", "Mime"], consumables=[n.C_HEX]).use(
        given=[(chance.GIVEN_POSITION, 2)]
    )
    assert (game.jokers, game[st.J_EDITION]) == (["Mime"], n.POLYCHROME)


@shows("Cryptid")
def cryptid() -> None:
    game = Game("KS:steel:red", consumables=[n.C_CRYPTID]).use(0, 0)
    assert (game[st.N_CARDS], game[st.N_HAND]) == (54, 10)
    assert [game.card_at(i) & 0xFFFF for i in (0, 8, 9)] == [card("KS:steel:red")] * 3


@shows("The Soul")
def soul() -> None:
    assert JOKER_RARITY[Game(consumables=[n.C_SOUL]).use()[st.JOKER]] == 4


@shows("Black Hole")
def black_hole() -> None:
    game = Game(consumables=[n.C_BLACK_HOLE]).use()
    assert all(game.level(hand) == 2 for hand in HANDS)


# ---- vouchers


def redeemed(voucher: int, **setup: object) -> Game:
    """A shop in which the voucher has just been bought."""
    game = Game("KS", money=100, **setup).to_shop()  # type: ignore[arg-type]
    game[st.SHOP_VOUCHER] = voucher
    money = game.money
    game.do(act.REDEEM)
    assert game.money in (money - 10, money - 8, money - 5)
    assert game[st.VOUCHER + voucher] == 1
    return game


@shows("Overstock", "Overstock Plus")
def overstock() -> None:
    game = redeemed(n.V_OVERSTOCK_NORM)
    assert game[st.SHOP + 2] != 0
    game[st.SHOP_VOUCHER] = n.V_OVERSTOCK_PLUS
    assert game.do(act.REDEEM)[st.SHOP + 3] != 0


@shows("Clearance Sale", "Liquidation")
def clearance_sale() -> None:
    for voucher, price in ((n.V_CLEARANCE_SALE, 6), (n.V_LIQUIDATION, 4)):
        game = redeemed(voucher)
        game[st.SHOP], game[st.SHOP_EDITION], game[st.SHOP_FREE] = n.J_BARON, 0, 0
        money = game.money
        assert game.do(act.BUY).money == money - price


def _share_of_editions(voucher: int | None) -> float:
    game = Game("KS", money=10**6, vouchers=[] if voucher is None else [voucher]).to_shop()
    found = total = 0
    for _ in range(1500):
        game.do(act.REROLL)
        game.s[st.REROLLS] = 0
        for k in range(2):
            if 0 < game[st.SHOP + k] < n.C_FOOL:
                total += 1
                found += game[st.SHOP_EDITION + k] in (1, 2, 3)
    return found / total


@shows("Hone", "Glow Up")
def hone() -> None:
    plain, hone, glow = (
        _share_of_editions(None),
        _share_of_editions(n.V_HONE),
        _share_of_editions(n.V_GLOW_UP),
    )
    assert plain == pytest.approx(0.04, abs=0.02)
    assert hone == pytest.approx(0.08, abs=0.025)
    assert glow == pytest.approx(0.16, abs=0.03)


@shows("Reroll Surplus", "Reroll Glut")
def reroll_surplus() -> None:
    game = redeemed(n.V_REROLL_SURPLUS)
    money = game.money
    assert game.do(act.REROLL).money == money - 3


@shows("Crystal Ball")
def crystal_ball() -> None:
    assert redeemed(n.V_CRYSTAL_BALL)[st.CONSUMABLE_SLOTS] == 3


@shows("Omen Globe")
def omen_globe() -> None:
    seen = 0
    for seed in range(40):
        game = Game("KS", money=100, vouchers=[n.V_OMEN_GLOBE], seed=seed).to_shop(
            [(chance.GIVEN_BOOSTER, 1)] * 2
        )
        game.do(act.OPEN)
        seen += sum(n.C_FAMILIAR <= i <= n.C_BLACK_HOLE for i in game.s[st.PACK : st.PACK + 3])
    assert 10 < seen < 40


@shows("Telescope")
def telescope() -> None:
    game = Game("KS KH", money=100, vouchers=[n.V_TELESCOPE]).to_shop([(chance.GIVEN_BOOSTER, 9)] * 2)
    assert game.do(act.OPEN)[st.PACK] == n.C_PLUTO


@shows("Observatory")
def observatory() -> None:
    game = Game("KS KH", vouchers=[n.V_OBSERVATORY], consumables=[n.C_MERCURY, n.C_MARS])
    assert game.play(0, 1).mult == 3


@shows("Grabber", "Nacho Tong")
def grabber() -> None:
    assert redeemed(n.V_GRABBER)[st.HANDS_PER_ROUND] == 5
    assert redeemed(n.V_NACHO_TONG)[st.HANDS_PER_ROUND] == 5


@shows("Wasteful", "Recyclomancy")
def wasteful() -> None:
    assert redeemed(n.V_WASTEFUL)[st.DISCARDS_PER_ROUND] == 5
    assert redeemed(n.V_RECYCLOMANCY)[st.DISCARDS_PER_ROUND] == 5


def _share_of_kind(voucher: int | None, first: int, last: int) -> float:
    game = Game("KS", money=10**6, vouchers=[] if voucher is None else [voucher]).to_shop()
    found = total = 0
    for _ in range(700):
        game.do(act.REROLL)
        game.s[st.REROLLS] = 0
        for k in range(2):
            total += 1
            found += first <= game[st.SHOP + k] <= last
    return found / total


@shows("Tarot Merchant", "Tarot Tycoon", "Planet Merchant", "Planet Tycoon")
def merchants() -> None:
    for first, last, merchant, tycoon in (
        (n.C_FOOL, n.C_WORLD, n.V_TAROT_MERCHANT, n.V_TAROT_TYCOON),
        (n.C_MERCURY, n.C_ERIS, n.V_PLANET_MERCHANT, n.V_PLANET_TYCOON),
    ):
        assert _share_of_kind(None, first, last) == pytest.approx(4 / 28, abs=0.04)
        assert _share_of_kind(merchant, first, last) == pytest.approx(9.6 / 33.6, abs=0.05)
        assert _share_of_kind(tycoon, first, last) == pytest.approx(32 / 56, abs=0.05)


@shows("Seed Money", "Money Tree")
def seed_money() -> None:
    plain = Game("KS", money=100).to_shop().money
    assert Game("KS", money=100, vouchers=[n.V_SEED_MONEY]).to_shop().money == plain + 5
    assert Game("KS", money=200, vouchers=[n.V_MONEY_TREE]).to_shop().money == plain + 100 + 15


@shows("Blank", "Antimatter")
def antimatter() -> None:
    assert redeemed(n.V_BLANK)[st.JOKER_SLOTS] == 5  # it does nothing but let Antimatter come
    assert redeemed(n.V_ANTIMATTER)[st.JOKER_SLOTS] == 6


@shows("Magic Trick")
def magic_trick() -> None:
    assert _share_of_kind(n.V_MAGIC_TRICK, n.PLAYING_CARD, n.PLAYING_CARD) == pytest.approx(4 / 32, abs=0.04)
    game = Game("KS", money=100).to_shop(
        [(chance.GIVEN_SHOP, n.PLAYING_CARD), (chance.GIVEN_SHOP_CARD, card("AS:glass"))]
    )
    assert game.do(act.BUY)[st.N_CARDS] == 53


@shows("Illusion")
def illusion() -> None:
    game = Game("KS", money=10**6, vouchers=[n.V_MAGIC_TRICK, n.V_ILLUSION]).to_shop()
    cards = []
    for _ in range(600):
        game.do(act.REROLL)
        game.s[st.REROLLS] = 0
        cards += [game[st.SHOP_CARD + k] for k in range(2) if game[st.SHOP + k] == n.PLAYING_CARD]
    assert any(enhancement(c) for c in cards)
    assert any(c >> 10 & 7 for c in cards)


@shows("Hieroglyph", "Petroglyph")
def hieroglyph() -> None:
    game = redeemed(n.V_HIEROGLYPH, ante=3)
    assert (game[st.ANTE], game[st.HANDS_PER_ROUND]) == (2, 3)
    game = redeemed(n.V_PETROGLYPH, ante=3)
    assert (game[st.ANTE], game[st.DISCARDS_PER_ROUND]) == (2, 3)


@shows("Director's Cut", "Retcon")
def directors_cut() -> None:
    game = Game(money=40, vouchers=[n.V_DIRECTORS_CUT])
    boss = game[st.BOSS]
    game.do(act.REROLL_BOSS)
    assert (game.money, game.can(act.REROLL_BOSS)) == (30, False)
    assert game[st.BOSS] != boss
    assert Game(money=40, vouchers=[n.V_RETCON]).do(act.REROLL_BOSS).can(act.REROLL_BOSS)


@shows("Paint Brush", "Palette")
def paint_brush() -> None:
    assert redeemed(n.V_PAINT_BRUSH)[st.HAND_SIZE] == 9
    assert redeemed(n.V_PALETTE)[st.HAND_SIZE] == 9


# ---- tags


def skipped_for(tag: int, **setup: object) -> Game:
    """The small blind has just been skipped for a tag."""
    game = Game(**setup)  # type: ignore[arg-type]
    game[st.BLIND_TAG] = tag
    return game.do(act.SKIP_BLIND)


def shop_after(tag: int) -> Game:
    game = Game("KS", tags=[tag], money=100)
    return game.to_shop()


@shows("Uncommon Tag")
def uncommon_tag() -> None:
    game = shop_after(n.TAG_UNCOMMON)
    assert (JOKER_RARITY[game[st.SHOP]], game[st.SHOP_FREE], game.tags) == (2, 1, [])
    money = game.money
    assert game.do(act.BUY).money == money


@shows("Rare Tag")
def rare_tag() -> None:
    game = shop_after(n.TAG_RARE)
    assert (JOKER_RARITY[game[st.SHOP]], game[st.SHOP_FREE]) == (3, 1)


@shows("Negative Tag", "Foil Tag", "Holographic Tag", "Polychrome Tag")
def edition_tags() -> None:
    for tag, edition in (
        (n.TAG_NEGATIVE, n.NEGATIVE),
        (n.TAG_FOIL, n.FOIL),
        (n.TAG_HOLO, n.HOLOGRAPHIC),
        (n.TAG_POLYCHROME, n.POLYCHROME),
    ):
        game = Game("KS", tags=[tag]).to_shop(
            [(chance.GIVEN_SHOP, n.J_BARON), (chance.GIVEN_SHOP_EDITION, 0)]
        )
        assert (game[st.SHOP_EDITION], game[st.SHOP_FREE], game.tags) == (edition, 1, [])


@shows("Investment Tag")
def investment_tag() -> None:
    plain = Game("KS", blind=n.BL_WALL).to_shop().money
    assert Game("KS", blind=n.BL_WALL, tags=[n.TAG_INVESTMENT]).to_shop().money == plain + 25
    assert Game("KS", tags=[n.TAG_INVESTMENT]).to_shop().tags == [n.TAG_INVESTMENT]


@shows("Voucher Tag")
def voucher_tag() -> None:
    game = shop_after(n.TAG_VOUCHER)
    assert game[st.SHOP_VOUCHER + 1] not in (0, game[st.SHOP_VOUCHER])


@shows("Boss Tag")
def boss_tag() -> None:
    game = Game()
    boss = game[st.BOSS]
    game[st.BLIND_TAG] = n.TAG_BOSS
    assert game.do(act.SKIP_BLIND)[st.BOSS] != boss


@shows("Standard Tag", "Charm Tag", "Meteor Tag", "Buffoon Tag", "Ethereal Tag")
def pack_tags() -> None:
    for tag, kind, cards, picks in (
        (n.TAG_STANDARD, n.STANDARD, 5, 2),
        (n.TAG_CHARM, n.ARCANA, 5, 2),
        (n.TAG_METEOR, n.CELESTIAL, 5, 2),
        (n.TAG_BUFFOON, n.BUFFOON, 4, 2),
        (n.TAG_ETHEREAL, n.SPECTRAL, 2, 1),
    ):
        game = skipped_for(tag)
        assert (game[st.PHASE], game[st.PACK_KIND], game[st.PACK_PICKS]) == (n.OPENING_PACK, kind, picks)
        assert sum(i != 0 for i in game.s[st.PACK : st.PACK + 5]) == cards
        assert game.do(act.SKIP_PACK)[st.PHASE] == n.CHOOSING_BLIND


@shows("Handy Tag", "Garbage Tag", "Skip Tag", "Economy Tag")
def money_tags() -> None:
    game = Game(money=10)
    game.s[st.HANDS_PLAYED], game.s[st.UNUSED_DISCARDS] = 7, 9
    for tag, money in ((n.TAG_HANDY, 17), (n.TAG_GARBAGE, 19), (n.TAG_SKIP, 15), (n.TAG_ECONOMY, 20)):
        saved = game.games.copy()
        game[st.BLIND_TAG] = tag
        assert game.do(act.SKIP_BLIND).money == money
        game.games.put_back(saved)
        game.observe()
    assert skipped_for(n.TAG_ECONOMY, money=100).money == 140


@shows("Coupon Tag")
def coupon_tag() -> None:
    game = shop_after(n.TAG_COUPON)
    money = game.money
    assert game.do(act.OPEN).money == money
    assert list(game.s[st.SHOP_FREE : st.SHOP_FREE + 2]) == [1, 1]


@shows("Double Tag")
def double_tag() -> None:
    game = Game(tags=[n.TAG_DOUBLE])
    game[st.BLIND_TAG] = n.TAG_JUGGLE
    assert game.do(act.SKIP_BLIND).tags == [n.TAG_JUGGLE, n.TAG_JUGGLE]


@shows("Juggle Tag")
def juggle_tag() -> None:
    game = Game("KS", tags=[n.TAG_JUGGLE])
    assert (game[st.N_HAND], game.tags) == (11, [])
    assert game.win_round()[st.ROUND_HAND_SIZE] == 0


@shows("D6 Tag")
def d6_tag() -> None:
    game = shop_after(n.TAG_D_SIX)
    money = game.money
    assert game.do(act.REROLL).money == money
    assert game.do(act.REROLL).money == money - 1


@shows("Top-up Tag")
def top_up_tag() -> None:
    assert len(skipped_for(n.TAG_TOP_UP).jokers) == 2
    game = skipped_for(n.TAG_TOP_UP, jokers=["Baron"] * 4)
    assert len(game.jokers) == 5
    assert JOKER_RARITY[joker(game.jokers[-1])] == 1


@shows("Orbital Tag")
def orbital_tag() -> None:
    game = Game()
    game[st.BLIND_TAG], game[st.BLIND_TAG_HAND] = n.TAG_ORBITAL, n.FLUSH
    assert game.do(act.SKIP_BLIND).level("Flush") == 4


# ---- blinds


@shows("Small Blind", "Big Blind")
def plain_blinds() -> None:
    assert (Game("KS").win_round().do(act.CASH_OUT).money, Game("KS", blind=n.BL_BIG).to_shop().money) == (
        10,
        11,
    )
    assert (blind_target(Game().s, n.BL_SMALL), blind_target(Game().s, n.BL_BIG)) == (300, 450)


@shows("The Hook")
def hook() -> None:
    game = Game("2S KH KC KD QS QH QC QD", ["Baron"], blind=n.BL_HOOK)
    game.play(0, given=[(chance.GIVEN_DISCARD, 0), (chance.GIVEN_DISCARD, 1)])
    assert game.mult == 1.5  # two of the three kings were gone before the hand scored
    assert (game[st.DISCARDS_LEFT], game[st.N_HAND]) == (4, 8)


@shows("The Ox")
def ox() -> None:
    game = Game("KS KH 2C", blind=n.BL_OX, money=30, ante=6)
    game[st.MOST_PLAYED] = n.PAIR
    assert game.play(2).money == 30
    game[st.MOST_PLAYED] = n.HIGH_CARD
    assert game.play(0).money == 0


def hidden(game: Game) -> list[bool]:
    return [bool(game.card_at(i) >> 17 & 1) for i in range(game[st.N_HAND])]


@shows("The House")
def house() -> None:
    game = Game("KS", blind=n.BL_HOUSE)
    assert all(hidden(game))
    assert not hidden(game.play(0))[0] or sum(hidden(game)) == 7


@shows("The Wall")
def wall() -> None:
    assert blind_target(Game().s, n.BL_WALL) == 1200


@shows("The Wheel")
def wheel() -> None:
    assert sum(hidden(Game("KS", blind=n.BL_WHEEL, given=[PROC] * 3 + [NO_PROC] * 5))) == 3


@shows("The Arm")
def arm() -> None:
    game = Game("KS KH", blind=n.BL_ARM)
    game[st.LEVEL + n.PAIR] = 3
    game.play(0, 1)
    assert (game.level("Pair"), game.chips, game.mult) == (2, 10 + 15 + 20, 3)


@shows("The Club", "The Goad", "The Window", "The Head")
def suit_bosses() -> None:
    for blind, token in ((n.BL_CLUB, "KC"), (n.BL_GOAD, "KS"), (n.BL_WINDOW, "KD"), (n.BL_HEAD, "KH")):
        assert Game(token, blind=blind).play(0).chips == 5
        assert Game("QC QS QD QH", blind=blind).play(0, 1, 2, 3).chips == 60 + 30


@shows("The Fish")
def fish() -> None:
    game = Game("KS", blind=n.BL_FISH)
    assert not any(hidden(game))
    assert sum(hidden(game.play(0))) == 1
    assert sum(hidden(game.discard(0))) <= 1


@shows("The Psychic")
def psychic() -> None:
    game = Game("KS KH 2C 3D 4S", blind=n.BL_PSYCHIC)
    assert game.play(0, 1).f[st.CHIPS] == 0
    assert Game("KS KH 2C 3D 4S", blind=n.BL_PSYCHIC).play(0, 1, 2, 3, 4).f[st.CHIPS] == 60


@shows("The Water")
def water() -> None:
    game = Game("KS", blind=n.BL_WATER)
    assert game[st.DISCARDS_LEFT] == 0
    assert not game.can(act.discard_action((0,)))


@shows("The Manacle")
def manacle() -> None:
    game = Game("KS", blind=n.BL_MANACLE)
    assert game[st.N_HAND] == 7
    assert game.win_round()[st.HAND_SIZE] == 8


@shows("The Eye")
def eye() -> None:
    game = Game("KS 2H", blind=n.BL_EYE)
    first = game.play(0).f[st.CHIPS]
    assert first == 15
    assert game.play(0).f[st.CHIPS] == first


@shows("The Mouth")
def mouth() -> None:
    game = Game("KS KH 2C 5D", blind=n.BL_MOUTH)
    assert game.play(0, 1).f[st.CHIPS] == 60
    assert game.play(game.hand.index("2C")).f[st.CHIPS] == 60


@shows("The Plant")
def plant() -> None:
    assert Game("KS", blind=n.BL_PLANT).play(0).chips == 5
    assert Game("TS", blind=n.BL_PLANT).play(0).chips == 15


@shows("The Serpent")
def serpent() -> None:
    game = Game("KS KH 2C 5D 7S", blind=n.BL_SERPENT)
    assert game.play(0)[st.N_HAND] == 7 + 3
    assert game.discard(0, 1, 2, 3, 4)[st.N_HAND] == 5 + 3


@shows("The Pillar")
def pillar() -> None:
    game = Game("KS 2H", blind=n.BL_BIG)
    game.win_round().do(act.CASH_OUT).do(act.NEXT_ROUND)
    game[st.BOSS] = n.BL_PILLAR
    game.do(act.TAKE_BLIND, [(chance.GIVEN_DRAW, card("KS"))])
    assert game.f[st.TARGET] > 0
    assert game.play(game.hand.index("KS")).chips == 5


@shows("The Needle")
def needle() -> None:
    game = Game("KS", blind=n.BL_NEEDLE)
    assert game[st.HANDS_LEFT] == 1
    assert game.play(0)[st.PHASE] == n.GAME_OVER


@shows("The Tooth")
def tooth() -> None:
    assert Game("KS KH 2C", blind=n.BL_TOOTH).play(0, 1, 2).money == 4 - 3


@shows("The Flint")
def flint() -> None:
    game = Game("KS KH KC", blind=n.BL_FLINT).play(0, 1, 2)
    assert (game.chips, game.mult) == (15 + 30, 2)


@shows("The Mark")
def mark() -> None:
    game = Game("KS QH 2C 3D 4S 5H 6C 7D", blind=n.BL_MARK)
    assert hidden(game) == [True, True] + [False] * 6


@shows("Amber Acorn")
def amber_acorn() -> None:
    game = Game("KS", ["Joker", "Baron", "Mime"], blind=n.BL_FINAL_ACORN)
    assert all(game[st.J_STICKERS + i] & st.FACE_DOWN for i in range(3))
    assert sorted(game.jokers) == ["Baron", "Joker", "Mime"]
    assert not game.win_round()[st.J_STICKERS] & st.FACE_DOWN


@shows("Verdant Leaf")
def verdant_leaf() -> None:
    game = Game("KS 2H", ["Egg"], blind=n.BL_FINAL_LEAF)
    assert game.play(0).chips == 5
    assert game.do(act.SELL_JOKER)[st.BOSS_OFF] == 1
    assert game.play(0).chips > 5


@shows("Violet Vessel")
def violet_vessel() -> None:
    assert blind_target(Game().s, n.BL_FINAL_VESSEL) == 1800


@shows("Crimson Heart")
def crimson_heart() -> None:
    game = Game("KS 2H", ["Joker", "Joker"], blind=n.BL_FINAL_HEART)
    assert game.play(0).mult == 5
    before = [game[st.J_STICKERS + i] & st.DEBUFFED for i in range(2)]
    assert sum(b > 0 for b in before) == 1
    game.play(0)
    after = [game[st.J_STICKERS + i] & st.DEBUFFED for i in range(2)]
    assert after == before[::-1]


@shows("Cerulean Bell")
def cerulean_bell() -> None:
    game = Game("KS 2H", blind=n.BL_FINAL_BELL)
    forced = [i for i in range(8) if game.card_at(i) >> 19 & 1]
    assert len(forced) == 1
    assert [i for i in range(8) if game.can(act.play_action((i,)))] == forced
    assert [i for i in range(8) if game.can(act.discard_action((i,)))] == forced


# ---- decks and stakes


@shows("Red Deck", "Blue Deck", "Yellow Deck", "Black Deck", "Painted Deck")
def decks_of_numbers() -> None:
    def numbers(deck: int) -> tuple[int, ...]:
        game = Game(deck=deck, money=0)
        return game[st.HANDS_PER_ROUND], game[st.DISCARDS_PER_ROUND], game[st.JOKER_SLOTS], game[st.HAND_SIZE]

    assert numbers(n.B_RED) == (4, 4, 5, 8)
    assert numbers(n.B_BLUE) == (5, 3, 5, 8)
    assert numbers(n.B_BLACK) == (3, 3, 6, 8)
    assert numbers(n.B_PAINTED) == (4, 3, 4, 10)


@shows("Green Deck")
def green_deck() -> None:
    game = Game("KS", deck=n.B_GREEN, money=50).to_shop()
    assert game.money == 50 + 3 + 3 * 2 + 3 * 1  # blind, hands, discards; no interest


@shows("Magic Deck", "Nebula Deck", "Ghost Deck", "Zodiac Deck")
def decks_of_gifts() -> None:
    magic = Game(deck=n.B_MAGIC)
    assert (magic.consumables, magic[st.CONSUMABLE_SLOTS]) == ([n.C_FOOL] * 2, 3)
    nebula = Game(deck=n.B_NEBULA)
    assert (nebula[st.VOUCHER + n.V_TELESCOPE], nebula[st.CONSUMABLE_SLOTS]) == (1, 1)
    ghost = Game("KS", deck=n.B_GHOST, money=10**6)
    assert ghost.consumables == [n.C_HEX]
    ghost.to_shop()
    seen = 0
    for _ in range(300):
        ghost.do(act.REROLL)
        ghost.s[st.REROLLS] = 0
        seen += sum(n.C_FAMILIAR <= i <= n.C_CRYPTID for i in ghost.s[st.SHOP : st.SHOP + 2])
    assert seen > 10
    zodiac = Game(deck=n.B_ZODIAC)
    assert all(zodiac[st.VOUCHER + v] for v in (n.V_TAROT_MERCHANT, n.V_PLANET_MERCHANT, n.V_OVERSTOCK_NORM))


def deck_cards(deck: int) -> list[int]:
    return [int(c) for c in Game(deck=deck).s[st.CARD : st.CARD + st.MAX_CARDS] if c]


@shows("Abandoned Deck", "Checkered Deck", "Erratic Deck")
def decks_of_other_cards() -> None:
    assert len(deck_cards(n.B_ABANDONED)) == 40
    assert {c >> 4 & 3 for c in deck_cards(n.B_CHECKERED)} == {n.SPADES, n.HEARTS}
    assert len(deck_cards(n.B_ERRATIC)) == 52
    assert len(set(deck_cards(n.B_ERRATIC))) < 50


@shows("Anaglyph Deck")
def anaglyph_deck() -> None:
    assert Game("KS", deck=n.B_ANAGLYPH, blind=n.BL_WALL).to_shop().tags == [n.TAG_DOUBLE]
    assert Game("KS", deck=n.B_ANAGLYPH).to_shop().tags == []


@shows("Plasma Deck")
def plasma_deck() -> None:
    game = Game("KS KH", deck=n.B_PLASMA).play(0, 1)
    assert game.f[st.CHIPS] == 16 * 16  # (30 + 2) / 2 each
    assert blind_target(Game(deck=n.B_PLASMA).s, n.BL_SMALL) == 600


@shows(*(row["name"] for row in FACTS["stakes"]))
def stakes() -> None:
    assert Game("KS", stake=1).to_shop().money == 10
    assert Game("KS", stake=2).to_shop().money == 7  # no reward for the small blind
    assert [blind_target(Game(stake=k, ante=2).s, n.BL_SMALL) for k in (2, 3, 6)] == [800, 900, 1000]
    assert [Game(stake=k)[st.DISCARDS_PER_ROUND] for k in (4, 5)] == [4, 3]
    found = {4: 0, 7: 0, 8: 0}
    for stake in found:
        game = Game("KS", stake=stake, money=10**6).to_shop()
        for _ in range(200):
            game.do(act.REROLL)
            game.s[st.REROLLS] = 0
            for k in range(2):
                found[stake] |= game[st.SHOP_STICKERS + k]
    assert found == {4: st.ETERNAL, 7: st.ETERNAL | st.PERISHABLE, 8: st.ETERNAL | st.PERISHABLE | st.RENTAL}


def test_stickers_have_their_effects() -> None:
    game = Game("KS", ["Joker", "Egg"], money=50)
    game.s[st.J_STICKERS] = st.ETERNAL
    game.s[st.J_STICKERS + 1] = st.PERISHABLE | st.RENTAL
    game.s[st.J_PERISH + 1] = 1
    game.observe()
    assert not game.can(act.SELL_JOKER)
    money = game.money
    game.win_round()
    assert game.money == money - 3
    assert game[st.J_STICKERS + 1] & st.DEBUFFED


# ---- enhancements, editions, seals


@shows("Bonus", "Mult", "Wild", "Glass", "Steel", "Stone", "Gold", "Lucky")
def enhancements() -> None:
    assert Game("KS:bonus").play(0).chips == 15 + 30
    assert Game("KS:mult").play(0).mult == 5
    assert Game("2S 5S 7S 9S KH:wild").play(0, 1, 2, 3, 4).mult == 4
    glass = Game("KS:glass").play(0, given=[PROC])
    assert (glass.mult, glass[st.N_CARDS]) == (2, 51)
    assert Game("KS:glass").play(0, given=[NO_PROC])[st.N_CARDS] == 52
    assert Game("KS 2H:steel").play(0).mult == 1.5
    assert Game("KS 2H:stone").play(0, 1).chips == 15 + 50
    # a Gold card pays when the round ends, before the cash-out: it brings interest
    assert Game("KS 2H:goldcard").to_shop().money == 10 + 3 + 1
    lucky = Game("KS:lucky").play(0, given=[PROC, PROC])
    assert (lucky.mult, lucky.money) == (21, 24)


@shows("Foil", "Holographic", "Polychrome", "Negative")
def editions() -> None:
    assert Game("KS:foil").play(0).chips == 65
    assert Game("KS:holo").play(0).mult == 11
    assert Game("KS:poly").play(0).mult == 1.5
    negative = {"name": "Joker", "edition": "Negative"}
    game = Game("KS", [*["Egg"] * 5, negative]).to_shop([(chance.GIVEN_SHOP, n.J_BARON)])
    game[st.MONEY] = 50
    assert not game.can(act.BUY)
    game[st.SHOP_EDITION] = n.NEGATIVE
    assert len(game.do(act.BUY).jokers) == 7


def _seals() -> None:
    assert Game("KS:gold").play(0).money == 4 + 3
    assert Game("KS:red").play(0).chips == 25
    blue = Game("KS KH:blue").win_round()
    assert blue.consumables == [n.C_PLUTO]
    assert len(Game("KS:purple").discard(0).consumables) == 1


def test_seals_have_their_effects() -> None:
    _seals()


_TESTS = {name: test for name, test in SHOWN.items() if test.__name__ != "<lambda>"}


@pytest.mark.parametrize("name", _TESTS)
def test_content_follows_its_rule(name: str) -> None:
    _TESTS[name]()


def test_all_content_is_tested() -> None:
    elsewhere = {"jokers", "poker hands", "booster packs", "seals"}
    wanted = {name for kind, names in EVERYTHING.items() if kind not in elsewhere for name in names}
    assert wanted - set(SHOWN) == set()
    assert len(ITEM_NAMES) == 203
