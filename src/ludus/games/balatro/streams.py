"""The streams of random numbers of the real game: one per key, such as "boss" or "cdt" with the ante.

A key is a prefix, for most streams the ante as digits, and for a few a suffix. Draws on one key never influence those
on another. The tables give kernels the characters of each key. A constant such as `BOSS` is the number of a stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ludus.types import Array

# streams whose key has no ante
_WITHOUT_ANTE = (
    *("boss", "Voucher_fromtag", "orbital", "shuffle", "erratic", "illusion", "omen_globe", "Joker4"),
    *(
        "lucky_mult",
        "lucky_money",
        "glass",
        "bloodstone",
        "business",
        "parking",
        "8ball",
        "space",
        "misprint",
    ),
    *("gros_michel", "cavendish", "wheel_of_fortune", "wheel", "aura", "ectoplasm", "hex", "ankh_choice"),
    *("invisible", "perkeo", "madness", "hook", "cerulean_bell", "crimson_heart", "aajk", "sigil", "ouija"),
    *("random_destroy", "familiar_create", "grim_create", "incantation_create", "spe_card", "immolate"),
    *("cert_fr", "certsl", "marb_fr", "to_do"),
)
# streams whose key ends in the ante
_WITH_ANTE = (  # those that are drawn together stand together: they share lines of the processor's cache
    *("nr", "cashout", "idol", "mail", "anc", "cas", "Voucher", "Tag"),
    *("cdt", "shop_pack", "edisho", "Joker1sho", "Joker2sho", "Joker3sho", "Tarotsho", "Planetsho"),
    *("Spectralsho", "etperpoll", "ssjr", "Enhancedsho", "frontsho", "halu"),
    *("soul_Tarot", "Tarotar1", "soul_Planet", "Planetpl1", "soul_Spectral", "Spectralspe", "Spectralar2"),
    *("stdset", "Enhancedsta", "frontsta", "standard_edition", "stdseal", "stdsealtype"),
    *("Joker1buf", "Joker2buf", "Joker3buf", "edibuf", "packetper", "packssjr"),
    *("Tarotemp", "Tarot8ba", "Tarothal", "Tarotcar", "Tarotvag", "Tarotsup", "Planetpri"),
    *("Spectralsixth", "Spectralsea", "Joker1jud", "Joker2jud", "Joker3jud", "edijud", "edisou"),
    *("Joker3wra", "ediwra", "Joker1rif", "edirif", "Joker1top", "editop", "Joker2uta", "ediuta"),
    *("Joker3rta", "edirta"),
)
# streams whose key is "rarity", the ante and an event
_WITH_ANTE_AND_EVENT = ("sho", "buf", "jud")

if TYPE_CHECKING:

    def __getattr__(name: str) -> int: ...


N_WITHOUT_ANTE = len(_WITHOUT_ANTE)
N_STREAMS = N_WITHOUT_ANTE + len(_WITH_ANTE) + len(_WITH_ANTE_AND_EVENT)
N_WITH_ANTE = N_STREAMS - N_WITHOUT_ANTE

_ROWS = (
    *((key, "") for key in _WITHOUT_ANTE),
    *((key, "") for key in _WITH_ANTE),
    *(("rarity", event) for event in _WITH_ANTE_AND_EVENT),
)
globals().update({(prefix + suffix).upper(): number for number, (prefix, suffix) in enumerate(_ROWS)})
EIGHT_BALL = _WITHOUT_ANTE.index("8ball")  # a name cannot begin with a digit
_NUMBER = {prefix + suffix: number for number, (prefix, suffix) in enumerate(_ROWS)}


def number_of_key(key: str) -> int:
    """Return the stream of a key without its ante, such as "boss" or "cdt"."""
    return _NUMBER[key]


def _characters(texts: tuple[str, ...]) -> Array:
    table = np.zeros((len(texts), max(map(len, texts))), dtype=np.int64)
    for row, text in enumerate(texts):
        table[row, : len(text)] = list(text.encode())
    return table


def _lengths(texts: tuple[str, ...]) -> Array:
    return np.array([len(text) for text in texts], dtype=np.int64)


_PREFIXES, _SUFFIXES = tuple(row[0] for row in _ROWS), tuple(row[1] for row in _ROWS)
PREFIX, PREFIX_LENGTH = _characters(_PREFIXES), _lengths(_PREFIXES)
SUFFIX, SUFFIX_LENGTH = _characters(_SUFFIXES), _lengths(_SUFFIXES)
RESAMPLE = _characters(("_resample",))[0]

# What makes a joker: a shop, a Buffoon Pack, Judgement, The Soul, Wraith, Riff-raff, and three tags.
_JOKER_EVENTS = ("sho", "buf", "jud", "sou", "wra", "rif", "top", "uta", "rta")
(
    FROM_SHOP,
    FROM_PACK,
    FROM_JUDGEMENT,
    FROM_SOUL,
    FROM_WRAITH,
    FROM_RIFF_RAFF,
    FROM_TOP_UP_TAG,
    FROM_UNCOMMON_TAG,
    FROM_RARE_TAG,
) = range(len(_JOKER_EVENTS))
RARITY_STREAM = np.array([_NUMBER.get(f"rarity{event}", -1) for event in _JOKER_EVENTS], dtype=np.int64)
EDITION_STREAM = np.array([_NUMBER[f"edi{event}"] for event in _JOKER_EVENTS], dtype=np.int64)
# by event and rarity from 1 to 4; -1 where the event never makes that rarity
JOKER_STREAM = np.array(
    [
        [-1, *(_NUMBER.get(f"Joker{rarity}{event}", -1) for rarity in (1, 2, 3)), _NUMBER["Joker4"]]
        for event in _JOKER_EVENTS
    ],
    dtype=np.int64,
)
