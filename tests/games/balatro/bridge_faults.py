"""A stand-in with faults and prepared runs, and bots that reach many kinds of actions, for tests of the bridge."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ludus.envs.make import EnvSpec
from ludus.games.balatro import actions as act
from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro.bridge.client import BridgePlayer, GameClient, Patience
from ludus.games.balatro.bridge.protocol import INVALID_STATE, NOT_ALLOWED, CallRefused, GameConnection
from ludus.games.balatro.bridge.server import CallHandler, StandInServer, answer_call, error_answer
from ludus.games.balatro.bridge.stand_in import StandIn
from ludus.games.balatro.bridge.twin import Twin
from ludus.games.balatro.env import NO_QUEUE
from ludus.games.balatro.jokers import add_joker
from ludus.games.balatro.moves import N_MOVES

Prepare = Callable[[Any, Any], None]
READING = ("health", "gamestate", "rpc.discover")
QUICK = Patience(start=5.0, settle=1.5, pause=0.01, skip=1.0)


def rich_run(s: Any, f: Any) -> None:
    """Give a run levels, money, slots, vouchers, jokers and consumables with which random play gets far."""
    s[st.LEVEL : st.LEVEL + st.N_HANDS] = 30
    s[st.MONEY], s[st.JOKER_SLOTS], s[st.CONSUMABLE_SLOTS] = 150, 7, 4
    for voucher in (nm.V_DIRECTORS_CUT, nm.V_RETCON, nm.V_MAGIC_TRICK, nm.V_ILLUSION, nm.V_TAROT_MERCHANT):
        s[st.VOUCHER + voucher] = 1
    chosen = np.random.default_rng(int(s[st.SEED_LOW]) & 0xFFFF)
    for joker in chosen.choice(np.arange(1, 140), 4, replace=False):
        add_joker(s, f, NO_QUEUE, int(joker), int(chosen.integers(5)), 0)
    for k, item in enumerate((nm.C_DEATH, nm.C_MAGICIAN, nm.C_HERMIT, nm.C_AURA)):
        s[st.CONSUMABLE + k], s[st.C_AGE + k] = item, 900 + k
    s[st.N_CONSUMABLES] = 4


class ExploringBot:
    """Chooses among legal actions, every kind about equally often; two of three sets of cards are played."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def predict(self, obs: Any, mask: Any = None, deterministic: bool = True) -> Any:
        return np.array([self._choose(row) for row in np.atleast_2d(mask)])

    def _choose(self, mask: Any) -> int:
        legal = np.flatnonzero(mask)
        if len(mask) != N_MOVES:
            sets, others = legal[legal >= act.CARDS], legal[legal < act.CARDS]
            if len(sets) and (not len(others) or self._random.random() < 0.5):
                full = sets[np.array([act.SET_SIZE[(a - act.CARDS) // 2] >= 4 for a in sets])]
                played = (full if len(full) else sets)[0::1]
                wanted = played[(played - act.CARDS) % 2 == (self._random.random() < 0.33)]
                return int(self._random.choice(wanted if len(wanted) else sets))
            legal = others
        return int(self._random.choice(legal))


class FaultyStandIn(StandIn):
    """A stand-in whose runs are prepared, that may lack methods, and whose answers may be changed."""

    def __init__(
        self,
        prepare: Prepare | None = None,
        without: tuple[str, ...] = (),
        change: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        super().__init__()
        self._prepare, self._without, self._change = prepare, without, change
        self.carried_out: Counter[str] = Counter()
        self.seen: set[str] = set()

    def answer(self, name: str, params: dict[str, Any]) -> Any:
        if name in self._without:
            raise CallRefused("BAD_REQUEST", f"Unknown method: {name}")
        result = super().answer(name, params)
        self.carried_out[name] += 1
        self.seen |= {f"{name} {field}" for field in params}
        if name == "rpc.discover":
            result["methods"] = [row for row in result["methods"] if row["name"] not in self._without]
        if name == "start" and self._prepare is not None:
            self._prepare(self.s, self.f)
            result = self.gamestate({})
        if self._change is not None and "state" in result:
            self._change(result)
        return result


class FaultyHandler(CallHandler):
    """Applies the next fault of the server to a request that changes the game."""

    server: FaultyServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        call = json.loads(body)
        fault = "" if call["method"] in READING else self.server.next_fault()
        if fault == "gone":
            threading.Thread(target=self.server.shutdown).start()
            self.server.closed = True
        if fault in ("drop before", "gone") or self.server.closed:
            self._drop()
            return
        if fault == "late":
            time.sleep(self.server.delay)
        if fault in ("refused", "wrong state"):
            name = NOT_ALLOWED if fault == "refused" else INVALID_STATE
            self._send_safely(error_answer(call["id"], CallRefused(name, "planted")))
            return
        answer = answer_call(self.server.stand_in, body)
        if fault == "drop after":
            self._drop()
            return
        if fault == "slow":
            time.sleep(self.server.delay)
        if fault == "other id":
            answer["id"] = -5
        if fault == "garbage":
            answer = {"result": "nonsense"}
        self._send_safely(answer)

    def _drop(self) -> None:
        self.close_connection = True

    def _send_safely(self, answer: dict[str, Any]) -> None:
        try:
            self._send(200, answer)  # type: ignore[arg-type]
        except OSError:
            self.close_connection = True


class FaultyServer(StandInServer):
    """A stand-in on a free port that plays the faults in their order, "" for none."""

    def __init__(self, stand_in: StandIn, faults: Iterator[str], delay: float) -> None:
        super().__init__("127.0.0.1", 0)
        self.RequestHandlerClass = FaultyHandler
        self.stand_in = stand_in
        self.delay = delay
        self.closed = False
        self._faults = faults

    def next_fault(self) -> str:
        return next(self._faults, "")


@contextmanager
def serving(
    stand_in: StandIn, faults: Iterator[str] | None = None, delay: float = 0.6
) -> Iterator[FaultyServer]:
    """Serve a stand-in from a thread."""
    with FaultyServer(stand_in, faults or iter(()), delay) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def bridge(
    server: StandInServer,
    actor: Any,
    *,
    actions: str = "moves",
    spec: EnvSpec | None = None,
    prepare: Prepare | None = None,
    patience: Patience = QUICK,
    timeout: float = 60.0,
    deck: str = "RED",
    stake: str = "WHITE",
) -> BridgePlayer:
    """Return a player connected to a server, whose twin is prepared as the server's runs are."""
    client = GameClient(GameConnection("127.0.0.1", int(server.server_address[1]), timeout), patience)
    client.wait_for_game()
    spec = spec or EnvSpec("ludus/Balatro-v0", kwargs={"actions": actions, "max_steps": 2000})
    twin = Twin(spec.resolve(), deck, stake, client.methods)
    if prepare is not None:
        _prepare_resets(twin.env.unwrapped, prepare)
    return BridgePlayer(client, twin, actor)


def _prepare_resets(game: Any, prepare: Prepare) -> None:
    plain_reset = game.reset

    def reset(**arguments: Any) -> Any:
        plain_reset(**arguments)
        prepare(game.games.s[0], game.games.f[0])
        game._observe()
        return game._observation(), {"action_mask": game.action_masks()}

    game.reset = reset
