"""Searching seeds for what their first antes hold, and printing what one seed holds."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import active_children, get_context
from typing import Any

from ludus.errors import UserError
from ludus.games.balatro import facts
from ludus.games.balatro.explorer import SeedExplorer
from ludus.games.balatro.seeds import random_seed, seed_text

_BATCH = 200
_POLL_SECONDS = 0.2


def explore(seed: int | str, deck: int, stake: int, antes: int = 8, rerolls: int = 3) -> dict[str, Any]:
    """Return what a seed holds if nothing is bought: by ante the boss, voucher, tags and shops with their packs."""
    explorer = SeedExplorer(seed, deck, stake)
    rows: list[dict[str, Any]] = [{"ante": 1, **_ante(explorer), "shops": []}]
    while True:
        explorer.next_shop()
        if explorer.ante() != rows[-1]["ante"]:
            if explorer.ante() > antes:
                return {"seed": seed_text(seed), "antes": rows}
            rows.append({"ante": explorer.ante(), **_ante(explorer), "shops": []})
        shelves = [explorer.shelf()]
        packs = [{"pack": key, "cards": cards} for key, cards in explorer.packs()]
        shelves += [explorer.reroll() for _ in range(rerolls)]
        rows[-1]["shops"].append({"shelves": shelves, "packs": packs})


def _ante(explorer: SeedExplorer) -> dict[str, Any]:
    return {"boss": explorer.boss(), "voucher": explorer.voucher(), "tags": explorer.tags()}


@dataclass(frozen=True)
class Condition:
    """Something that a seed must hold: an item by its key, and the last ante, shop and shelf that may show it."""

    key: str
    ante: int = 1
    shop: int | None = None
    rerolls: int = 0

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Read a condition such as `Blueprint`, `Blueprint@1` (by ante 1) or `Blueprint@1.1` (in its first shop)."""
        name, _, place = text.partition("@")
        ante, _, shop = place.partition(".")
        tables = (facts.ITEM_KEYS, facts.VOUCHER_KEYS, facts.TAG_KEYS, facts.BLIND_KEYS)
        names = (facts.ITEM_NAMES, facts.VOUCHER_NAMES, facts.TAG_NAMES, facts.BLIND_NAMES)
        for keys, named in zip(tables, names, strict=True):
            number = facts.number_of(named, name) or facts.number_of(keys, name)
            if number is not None and number in keys:
                try:
                    return cls(keys[number], int(ante or 1), int(shop) if shop else None)
                except ValueError:
                    break
        raise UserError(
            f"invalid condition {text!r}",
            where="ludus balatro find",
            fix="write NAME, NAME@ANTE or NAME@ANTE.SHOP, such as Blueprint@1.1 or 'Rare Tag@2'",
        )


def matches(seed: str, deck: int, stake: int, conditions: list[Condition]) -> bool:
    """Return whether a seed meets all conditions."""
    last = max(condition.ante for condition in conditions)
    antes = explore(seed, deck, stake, last, rerolls=0)["antes"]
    return all(any(_shows(row, condition) for row in antes) for condition in conditions)


def _shows(row: dict[str, Any], condition: Condition) -> bool:
    if row["ante"] > condition.ante:
        return False
    if condition.shop is None and condition.key in (row["boss"], row["voucher"], *row["tags"]):
        return True
    for number, shop in enumerate(row["shops"], 1):
        if condition.shop is None or (number == condition.shop and row["ante"] == condition.ante):
            cards = [card for pack in shop["packs"] for card in pack["cards"]]
            if any(item["key"] == condition.key for item in [*shop["shelves"][0], *cards]):
                return True
    return False


def _search(seeds: list[str], deck: int, stake: int, conditions: list[Condition]) -> list[str]:
    return [seed for seed in seeds if matches(seed, deck, stake, conditions)]


def find_seeds(
    conditions: list[Condition],
    deck: int,
    stake: int,
    *,
    count: int,
    limit: int,
    processes: int,
    report: Callable[[int, float], None],
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[str]:
    """Search random seeds on several processes; give those that meet all conditions, at most `count`.

    `limit` bounds how many seeds are tried. `report` is called with the number tried and the seconds since the start.
    `stopped` is asked several times a second; the search ends once it returns True.
    """
    generator, started = random.Random(), time.monotonic()
    tried = found = begun = 0
    spawn = get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=spawn, initializer=_leave_interrupts_to_parent) as pool:
        running: set[Future[list[str]]] = set()
        while tried < limit and found < count and not stopped():
            while len(running) < 2 * processes and begun < limit:
                batch = [random_seed(generator) for _ in range(min(_BATCH, limit - begun))]
                begun += len(batch)
                running.add(pool.submit(_search, batch, deck, stake, conditions))
            done, running = wait(running, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
            for future in () if stopped() else done:  # a signal to the group has ended the workers too
                tried += _BATCH
                report(min(tried, begun), time.monotonic() - started)
                for seed in future.result():
                    if found < count:
                        found += 1
                        yield seed
        pool.shutdown(wait=False, cancel_futures=True)
        if stopped():
            for worker in active_children():  # one may be compiling for a minute
                worker.terminate()


def _leave_interrupts_to_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
