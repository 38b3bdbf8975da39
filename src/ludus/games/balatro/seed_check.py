"""Checking the engine against recorded seeds, in the format of `vectors_shared.jsonl`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ludus.errors import UserError
from ludus.games.balatro import facts, streams
from ludus.games.balatro.explorer import EFFECTS, SeedExplorer
from ludus.games.balatro.random_numbers import hash_text
from ludus.games.balatro.seeds import seed_text


@dataclass
class SeedCheck:
    """Numbers of fields that agree, and every field that does not."""

    agree: Counter[str] = field(default_factory=Counter)
    disagree: Counter[str] = field(default_factory=Counter)
    differences: list[dict[str, Any]] = field(default_factory=list)

    def compare(self, seed: str, kind: str, where: str, expected: Any, got: Any) -> None:
        """Count one field."""
        if expected == got:
            self.agree[kind] += 1
            return
        self.disagree[kind] += 1
        self.differences.append(
            {"seed": seed, "kind": kind, "where": where, "expected": expected, "got": got}
        )

    def summary(self) -> dict[str, Any]:
        """Return the counts, in all and by kind."""
        kinds = sorted({*self.agree, *self.disagree})
        return {
            "cases": self.agree.total() + self.disagree.total(),
            "agree": self.agree.total(),
            "disagree": self.disagree.total(),
            "by_kind": {k: {"agree": self.agree[k], "disagree": self.disagree[k]} for k in kinds},
        }


def check_file(path: Path) -> SeedCheck:
    """Check every line of a file. UserError if a line cannot be read."""
    check = SeedCheck()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            _check_case(check, json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise UserError(
                f"invalid case: {type(error).__name__}: {error}",
                where=f"{path}, line {number}",
                fix="expected a JSON object with seed, deck, stake and any of rng, blinds, draws, antes, effects",
            ) from error
    return check


def _check_case(check: SeedCheck, case: Mapping[str, Any]) -> None:
    deck = next(i for i, row in enumerate(facts.DECK_KEYS) if row == case["deck"])
    explorer = SeedExplorer(str(case["seed"]), deck, int(case["stake"]))
    seed = seed_text(str(case["seed"]))
    for part, compare in (
        ("rng", _check_numbers),
        ("blinds", _check_blinds),
        ("draws", _check_draws),
        ("antes", _check_antes),
        ("effects", _check_effects),
    ):
        if part in case:
            explorer.restart()
            for kind, where, expected, got in compare(explorer, seed, case[part]):
                check.compare(seed, kind, where, expected, got)


Field = tuple[str, str, Any, Any]


def _check_numbers(explorer: SeedExplorer, seed: str, numbers: Mapping[str, Any]) -> Iterator[Field]:
    for key, expected in numbers["hash"].items():
        yield "hash", key, expected, hash_text(seed if key == "seed" else key + seed)
    for key, expected in numbers["random"].items():
        explorer.forget_draws()
        got = explorer.numbers(streams.number_of_key(key), len(expected))
        for i, (number, ours) in enumerate(zip(expected, got, strict=True)):
            yield "random", f"{key}[{i}]", number, ours


def _check_blinds(explorer: SeedExplorer, seed: str, antes: Iterable[Any]) -> Iterator[Field]:
    for ante, expected in enumerate(antes, 1):
        got = [explorer.boss(), explorer.voucher(), *explorer.tags()]
        for kind, key, ours in zip(("boss", "voucher", "tag", "tag"), expected, got, strict=True):
            yield kind, f"ante {ante}", key, ours
        for _ in range(3):
            explorer.next_shop()


def _check_draws(explorer: SeedExplorer, seed: str, antes: Iterable[Any]) -> Iterator[Field]:
    for ante, blinds in enumerate(antes, 1):
        for blind, expected in enumerate(blinds):
            yield "draw", f"ante {ante}, blind {blind + 1}", expected, explorer.deck_order()
            explorer.next_shop()


def _check_antes(explorer: SeedExplorer, seed: str, antes: Iterable[Any]) -> Iterator[Field]:
    for number, ante in enumerate(antes, 1):
        for v, visit in enumerate(ante["visits"]):
            if v == 0 and number == 1:
                yield from _ante_fields(explorer, number, ante)
            explorer.next_shop()
            if v == 0 and number > 1:  # the shop after a boss belongs to the next ante
                yield from _ante_fields(explorer, number, ante)
            yield from _check_visit(explorer, f"ante {number}, shop {v + 1}", visit)


def _ante_fields(explorer: SeedExplorer, number: int, ante: Mapping[str, Any]) -> Iterator[Field]:
    yield "boss", f"ante {number}", ante["boss"], explorer.boss()
    yield "voucher", f"ante {number}", ante["voucher"], explorer.voucher()
    for k, (tag, ours) in enumerate(zip(ante["tags"], explorer.tags(), strict=True)):
        yield "tag", f"ante {number}, {('small', 'big')[k]} blind", tag, ours


def _check_visit(explorer: SeedExplorer, where: str, visit: Mapping[str, Any]) -> Iterator[Field]:
    shelves = iter(visit["shelves"])
    yield from _check_items("shelf", f"{where}, shelf 1", next(shelves), explorer.shelf())
    if visit.get("redeem"):
        explorer.redeem()
    for expected, (key, contents) in zip(visit["packs"], explorer.packs(), strict=True):
        yield "pack", where, expected["pack"], key
        yield from _check_items("pack card", f"{where}, {key}", expected["cards"], contents)
    if visit.get("buy") is not None:
        explorer.buy(int(visit["buy"]))
    for number, shelf in enumerate(shelves, 2):
        yield from _check_items("shelf", f"{where}, shelf {number}", shelf, explorer.reroll())


def _check_items(kind: str, where: str, expected: list[Any], got: list[Any]) -> Iterator[Field]:
    for k in range(max(len(expected), len(got))):
        one = expected[k] if k < len(expected) else None
        yield kind, f"{where}, item {k + 1}", one, got[k] if k < len(got) else None


def _check_effects(explorer: SeedExplorer, seed: str, effects: Mapping[str, Any]) -> Iterator[Field]:
    """Check the first results of effects, without the consumables of the deck.

    Each effect begins a run, but the Uncommon Tag follows the Rare Tag: both draw stickers from one stream.
    """
    for name in EFFECTS:
        if name in effects:
            if name != "uncommon_tag":
                explorer.restart()
                explorer.drop_consumables()
            for i, expected in enumerate(effects[name]):
                yield "effect", f"{name}, result {i + 1}", expected, explorer.effect(name)
